"""Setting up the lab, inviting, approving."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.db import IntegrityError, transaction
from django.db.models import F

from .. import permissions, queries
from ..models import HostAccount, Invite, Lab, Member
from ..rules.policy import Policy
from ..rules.refusal import Code, refuse
from . import audit, locking


def hash_token(token: str) -> str:
    """What is kept of a random token (192 bits): its SHA-256."""
    return hashlib.sha256(token.encode()).hexdigest()


def invite(*, by: Member, role: str, uses: int, days: int, now: datetime) -> str:
    """Makes an invite for `uses` people, valid for `days`; returns its token, of which only a hash is kept."""
    if not permissions.may(by, permissions.Action.ADMINISTER):
        raise refuse(Code.NOT_YOURS)
    if queries.lab_facts().policy.role(role) is None:
        raise refuse(Code.ROLE_UNKNOWN, role=role)
    if uses < 1 or days < 1:
        raise ValueError("an invite needs at least one use and one day")
    token = secrets.token_urlsafe(24)
    with transaction.atomic():
        row = Invite.objects.create(
            token_hash=hash_token(token), role=role, created_by=by, created_at=now, expires_at=now + timedelta(days=days),
            uses_left=uses,
        )
        audit.note("invite", row, actor=by, origin="page", now=now, role=role, uses=uses, days=days)
    return token


def open_invite(token: str, now: datetime) -> Invite | None:
    """The invite behind a token while it has uses left and has not expired."""
    return Invite.objects.filter(token_hash=hash_token(token), uses_left__gt=0, expires_at__gt=now).first()


def take_seat(token: str, member: Member, *, now: datetime) -> bool:
    """Uses one seat of an invite for a new member and approves them; False when the last seat has just gone.

    Call inside the transaction that makes the member, and roll it back on False.
    """
    taken = Invite.objects.filter(token_hash=hash_token(token), uses_left__gt=0, expires_at__gt=now).update(
        uses_left=F("uses_left") - 1
    )
    if not taken:
        return False
    row = Invite.objects.get(token_hash=hash_token(token))
    member.role, member.approval = row.role, Member.Approval.APPROVED
    member.save(update_fields=["role", "approval"])
    audit.note("join", member, actor=member, origin="page", now=now, invite=row.pk)
    return True


def join(token: str, *, email: str, name: str, password: str, language: str, now: datetime) -> Member:
    """Makes a member of the bearer of an open invite: the member and the seat come in one transaction, or neither does.

    Raises `Refused`: the invite is over, or the address has an account. The second is told to bearers of an open invite
    only: once in, they see the members of the lab anyway; everybody else gets the first, whatever the address.
    """
    # Made and hashed outside the lock: one hash takes as long as many writes, and fifty people press at once.
    member = Member(email=email.strip().lower(), name=name.strip(), language=language, joined_at=now)
    member.set_password(password)
    try:
        with locking.hold():
            if open_invite(token, now) is None:
                raise refuse(Code.INVITE_OVER)
            member.save()
            if not take_seat(token, member, now=now):
                raise refuse(Code.INVITE_OVER)
    except IntegrityError as problem:
        if open_invite(token, now) is None:
            raise refuse(Code.INVITE_OVER) from problem
        raise refuse(Code.EMAIL_KNOWN) from problem
    return member


def revoke(invite_id: int, *, by: Member, now: datetime) -> None:
    """Ends an invite: nobody more joins with it."""
    require_admin(by)
    with transaction.atomic():
        row = Invite.objects.select_for_update().get(pk=invite_id)
        if row.uses_left:
            Invite.objects.filter(pk=invite_id).update(uses_left=0)
            audit.note("revoke_invite", row, actor=by, origin="page", now=now, uses_left=row.uses_left)


def approve(member_id: int, *, by: Member, now: datetime) -> Member:
    """Lets somebody who waits take part (B2); somebody approved stays so."""
    require_admin(by)
    with locking.hold(members=[member_id]):
        member = Member.objects.get(pk=member_id)
        if member.approval != Member.Approval.APPROVED:
            member.approval = Member.Approval.APPROVED
            member.save(update_fields=["approval"])
            audit.note("approve", member, actor=by, origin="page", now=now)
    return member


def change(
    member_id: int, *, by: Member, now: datetime, role: str, is_arbiter: bool, is_admin: bool, is_active: bool,
    ends_on: date | None = None,
) -> Member:
    """Sets role and duties of a member, whether they may sign in, and their last day (B2). Members are never deleted.

    Somebody deactivated is signed out everywhere at once, and an old cookie does not come back to life later. Raises
    `Refused` for a role that the policy does not know, and when no admin would be left.
    """
    require_admin(by)
    if queries.lab_facts().policy.role(role) is None:
        raise refuse(Code.ROLE_UNKNOWN, role=role)
    # All admins are locked: two of them who remove each other at once must not leave the lab without one.
    with locking.hold(members=[member_id, *admins()]):
        member = Member.objects.get(pk=member_id)
        others = [pk for pk in admins() if pk != member_id]
        if not others and member_id in admins() and not (is_admin and is_active):
            raise refuse(Code.LAST_ADMIN)
        wanted = {
            "role": role, "is_arbiter": is_arbiter, "is_admin": is_admin, "is_active": is_active, "ends_on": ends_on,
            "left_at": None if is_active else member.left_at,  # back again
        }
        changed: dict[str, Any] = {
            name: [getattr(member, name), value] for name, value in wanted.items() if getattr(member, name) != value
        }
        if not changed:
            return member
        for name, (_, value) in changed.items():
            setattr(member, name, value)
        member.save(update_fields=list(changed))
        if not is_active:
            end_sessions(member)
        said: dict[str, Any] = {
            name: [str(one) if isinstance(one, date) else one for one in values] for name, values in changed.items()
        }
        audit.note("change_member", member, actor=by, origin="page", now=now, **said)
    return member


def add_account(member_id: int, *, host_id: int, unix_name: str, uid: int, by: Member, now: datetime) -> HostAccount:
    """Says that this Unix account of a host is this member's: its processes become verified (I3).

    Raises `Refused` when the name or the uid is somebody's on that host; ValueError for root, who is nobody.
    """
    require_admin(by)
    if uid == 0:
        raise ValueError("uid 0 is root: its processes are nobody's")
    try:
        with transaction.atomic():
            account = HostAccount.objects.create(member_id=member_id, host_id=host_id, unix_name=unix_name, uid=uid)
            audit.note(
                "add_account", account, actor=by, origin="page", now=now, member=member_id, host=host_id, uid=uid,
                unix_name=unix_name,
            )
    except IntegrityError as problem:
        raise _account_known(host_id, unix_name, uid, problem) from problem
    return account


def remove_account(member_id: int, account_id: int, *, by: Member, now: datetime) -> None:
    """Unties a Unix account from its member; removing it twice changes nothing more."""
    require_admin(by)
    with transaction.atomic():
        account = HostAccount.objects.filter(pk=account_id, member=member_id).first()
        if account is None:
            return
        audit.note(
            "remove_account", account, actor=by, origin="page", now=now, member=member_id, host=account.host_id,
            uid=account.uid, unix_name=account.unix_name,
        )
        account.delete()


def choose_language(member: Member, language: str) -> None:
    """Keeps the language that a member chose."""
    Member.objects.filter(pk=member.pk).exclude(language=language).update(language=language)


def require_admin(by: Member) -> None:
    """Refuses whoever is no admin."""
    if not permissions.may(by, permissions.Action.ADMINISTER):
        raise refuse(Code.NOT_YOURS)


def admins() -> list[int]:
    """The admins of the lab, in the order of locks."""
    rows = Member.objects.filter(is_admin=True, is_active=True, approval=Member.Approval.APPROVED)
    return list(rows.order_by("pk").values_list("pk", flat=True))


def end_sessions(member: Member) -> None:
    """Signs the member out everywhere."""
    rows = UserSession.objects.filter(user=member)
    Session.objects.filter(session_key__in=list(rows.values_list("session_key", flat=True))).delete()
    rows.delete()


def _account_known(host_id: int, unix_name: str, uid: int, problem: IntegrityError) -> Exception:
    on_host = HostAccount.objects.filter(host=host_id).select_related("member", "host")
    known = on_host.filter(uid=uid).first() or on_host.filter(unix_name=unix_name).first()
    if known is None:
        return problem
    return refuse(
        Code.UNIX_KNOWN, account=f"{known.unix_name} ({known.uid})", host=known.host.name, member=known.member.name
    )


def found(
    *, is_valid: Callable[[], bool], lab_name: str, zone: str, language: str, name: str, email: str, password: str,
    now: datetime,
) -> Member | None:
    """Sets the lab up with its first admin, who is an arbiter too: both or neither. None when the link was used meanwhile.

    `is_valid` is asked again under the lock: of two people with one link, one founds the lab. Raises `Refused` when the
    address has an account, ValueError for an unknown zone.
    """
    admin = Member(
        email=email.strip().lower(), name=name.strip(), role="staff", approval=Member.Approval.APPROVED, is_admin=True,
        is_arbiter=True, language=language, joined_at=now,
    )
    admin.set_password(password)
    _check_zone(zone)
    try:
        with locking.hold():
            Lab.objects.get_or_create(pk=1)
            Lab.objects.select_for_update().get(pk=1)
            if not is_valid():
                return None
            admin.save()
            _write_lab(lab_name, zone, language, admin, now, Policy().to_json(), simulated=False)
    except IntegrityError as problem:
        raise refuse(Code.EMAIL_KNOWN) from problem
    return admin


def set_up(
    *, lab_name: str, zone: str, language: str, admin: Member | None, now: datetime,
    policy: Mapping[str, Any] | None = None, simulated: bool = False,
) -> Lab:
    """Names the lab and sets its zone, language and policy. Raises ValueError (`BadPolicy` for the policy)."""
    _check_zone(zone)
    values = Policy.from_json(policy or {}).to_json()
    with locking.hold():
        return _write_lab(lab_name, zone, language, admin, now, values, simulated=simulated)


def _check_zone(zone: str) -> None:
    if zone not in available_timezones():
        raise ValueError(f"no such time zone: {zone}")
    ZoneInfo(zone)


def _write_lab(
    name: str, zone: str, language: str, admin: Member | None, now: datetime, policy: dict[str, Any], *, simulated: bool
) -> Lab:
    lab, _ = Lab.objects.update_or_create(
        pk=1,
        defaults={
            "name": name.strip(), "zone": zone, "language": language, "policy": policy, "set_up_at": now,
            "simulated": simulated,
        },
    )
    audit.note("set_up", lab, actor=admin, origin="page" if admin else "command", now=now, zone=zone, policy=policy)
    return lab
