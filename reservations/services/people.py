"""Setting up the lab, inviting, approving."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.db import transaction
from django.db.models import F

from .. import permissions, queries
from ..models import Invite, Lab, Member
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


def set_up(
    *, lab_name: str, zone: str, language: str, admin: Member | None, now: datetime,
    policy: Mapping[str, Any] | None = None, simulated: bool = False,
) -> Lab:
    """Names the lab and sets its zone, language and policy. Raises ValueError (`BadPolicy` for the policy)."""
    if zone not in available_timezones():
        raise ValueError(f"no such time zone: {zone}")
    ZoneInfo(zone)
    values = Policy.from_json(policy or {}).to_json()
    with locking.hold():
        lab, _ = Lab.objects.update_or_create(
            pk=1,
            defaults={
                "name": lab_name.strip(), "zone": zone, "language": language, "policy": values, "set_up_at": now,
                "simulated": simulated,
            },
        )
        audit.note("set_up", lab, actor=admin, origin="page" if admin else "command", now=now, zone=zone, policy=values)
    return lab
