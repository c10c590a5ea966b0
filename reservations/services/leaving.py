"""Leaving the lab: what lies ahead is given back, duties pass on, every way in is shut (B2)."""

from __future__ import annotations

from datetime import datetime

from .. import queries
from ..models import (
    Allocation,
    Collaborator,
    Invite,
    Member,
    Project,
    ProjectMember,
    Reservation,
)
from ..rules.interval import Interval
from ..rules.lifecycle import Status
from ..rules.refusal import Code, refuse
from . import audit, locking, outbox, people
from .held import Reason, held_by, post_both, set_status

_AHEAD = (Status.BOOKED, Status.OFFERED, Status.REQUESTED)


def leave(
    member_id: int, *, successor_id: int | None = None, by: Member | None, now: datetime, origin: str = "page"
) -> Member:
    """Lets a member leave: done by an admin, or (`by` None) once their last day is over. Doing it twice is the same.

    Reservations that have not started are cancelled, their whole charge returned without fee; what runs goes on to its end,
    and the project's advisor and the arbiters act on it (H8). Projects they lead pass to `successor_id`, which must then be
    named: by the clock they pass to the admin who has been there longest. They are no arbiter and no admin any more, belong
    to no project, and nothing of theirs opens anything: sessions end, links in messages and invites they made refuse.
    Raises `Refused`: no successor for projects they lead, the last admin, not an admin.
    """
    if by is not None:
        people.require_admin(by)
    while True:
        ahead, cards = _ahead(member_id, now)
        led = list(Project.objects.filter(advisor=member_id).order_by("pk").values_list("pk", flat=True))
        projects = {*led, *(one.project_id for one in ahead if one.project_id is not None)}
        with locking.hold(
            members=[member_id, *people.admins()], projects=projects, cards=queries.pool_mates(cards) if cards else []
        ):
            if _ahead(member_id, now)[1] != cards or led != list(
                Project.objects.filter(advisor=member_id).order_by("pk").values_list("pk", flat=True)
            ):
                continue
            return _leave(member_id, successor_id, by, now, origin)


def leave_due(now: datetime) -> list[int]:
    """Members whose last day is over and who have not left."""
    lab = queries.lab_facts()
    rows = Member.objects.filter(ends_on__isnull=False, left_at=None)
    return [row.pk for row in rows if (end := queries.last_instant(row, lab)) is not None and end <= now]


def _ahead(member_id: int, now: datetime) -> tuple[list[Reservation], list[int]]:
    """Reservations of theirs that have not started, and the cards of these."""
    rows = list(Reservation.objects.filter(holder=member_id, status__in=_AHEAD, start__gt=now).order_by("pk"))
    held = Allocation.objects.filter(reservation__in=rows).order_by("gpu")
    return rows, sorted(set(held.values_list("gpu", flat=True)))


def _leave(member_id: int, successor_id: int | None, by: Member | None, now: datetime, origin: str) -> Member:
    member = Member.objects.get(pk=member_id)
    if member.left_at is not None:
        return member
    others = [pk for pk in people.admins() if pk != member_id]
    if not others and member.is_admin:
        raise refuse(Code.LAST_ADMIN)
    if by is None and successor_id is None and others:
        successor_id = others[0]
    _pass_on(member, successor_id, by, now, origin)
    for row in _ahead(member_id, now)[0]:
        held = held_by(row)
        if row.status == Status.BOOKED:
            post_both(held, Interval(row.start, row.end), Reason.CANCELLED, now, sign=-1)
        set_status(held, Status.PASSED if row.status == Status.OFFERED else Status.CANCELLED, ended_at=now)
        entry = audit.note("cancel", row, actor=by, origin=origin, now=now, reason="the holder leaves the lab")
        outbox.write_changed(row, entry, now)
    for beside in Collaborator.objects.filter(
        member=member, state__in=[Collaborator.State.INVITED, Collaborator.State.ACCEPTED],
        reservation__status__in=[Status.BOOKED, Status.OFFERED, Status.REQUESTED], reservation__start__gt=now,
    ).select_related("reservation"):
        Collaborator.objects.filter(pk=beside.pk).update(state=Collaborator.State.REMOVED, at=now)
        audit.note(
            "remove_collaborator", beside.reservation, actor=by, origin=origin, now=now, member=member.pk, name=str(member)
        )
    ProjectMember.objects.filter(member=member).delete()
    Invite.objects.filter(created_by=member, uses_left__gt=0).update(uses_left=0)
    member.is_arbiter = member.is_admin = member.is_superuser = member.is_active = False
    member.left_at = now
    member.save(update_fields=["is_arbiter", "is_admin", "is_superuser", "is_active", "left_at"])
    people.end_sessions(member)
    audit.note("leave", member, actor=by, origin=origin, now=now, successor=successor_id)
    return member


def _pass_on(member: Member, successor_id: int | None, by: Member | None, now: datetime, origin: str) -> None:
    """The projects that they lead get another advisor."""
    led = list(Project.objects.filter(advisor=member))
    if not led:
        return
    successor = successor_id and Member.objects.filter(
        pk=successor_id, is_active=True, approval=Member.Approval.APPROVED
    ).exclude(pk=member.pk).first()
    if not successor:
        raise refuse(Code.SUCCESSOR_NEEDED, projects=[one.name for one in led])
    for project in led:
        project.advisor = successor
        project.save(update_fields=["advisor"])
        audit.note(
            "change_project", project, actor=by, origin=origin, now=now,
            changed={"advisor_id": [str(member.pk), str(successor.pk)]},
        )
