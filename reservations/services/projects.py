"""Projects: making and changing them, who belongs, and one-off hours for them or a member (B5, B6, E5)."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from django.db import IntegrityError

from .. import permissions, queries
from ..models import HourGrant, Member, Project, ProjectMember
from ..permissions import Action
from ..rules.quota import allowance_units
from ..rules.refusal import Code, refuse
from ..rules.week import day_start
from . import audit, locking

MOST_HOURS = 100_000


def make(
    name: str, *, advisor_id: int, weekly_hours: int | None, by: Member, now: datetime, origin: str = "page"
) -> Project:
    """Makes a project with its advisor; `weekly_hours` None takes the policy's number. Raises `Refused`: not an admin, a name
    that is taken, an advisor who is no member in the lab."""
    if not permissions.may(by, Action.ADMINISTER):
        raise refuse(Code.NOT_YOURS)
    try:
        with locking.hold():
            project = Project.objects.create(name=name.strip(), advisor=_member(advisor_id), weekly_hours=weekly_hours)
            audit.note(
                "make_project", project, actor=by, origin=origin, now=now, name=project.name, advisor=advisor_id,
                weekly_hours=weekly_hours,
            )
    except IntegrityError as problem:
        raise refuse(Code.PROJECT_KNOWN, name=name.strip()) from problem
    return project


def change(
    project_id: int, *, name: str, advisor_id: int, weekly_hours: int | None, is_open: bool, by: Member, now: datetime,
    origin: str = "page",
) -> Project:
    """Sets name, advisor and allowance, closes or reopens. What is booked stays as it is (E6). Raises `Refused`."""
    if not permissions.may(by, Action.ADMINISTER):
        raise refuse(Code.NOT_YOURS)
    try:
        with locking.hold(projects=[project_id]):
            project = Project.objects.get(pk=project_id)
            closed = None if is_open else project.closed_at or now
            advisor = project.advisor_id if project.advisor_id == advisor_id else _member(advisor_id).pk
            wanted = {"name": name.strip(), "advisor_id": advisor, "weekly_hours": weekly_hours, "closed_at": closed}
            changed = {key: [getattr(project, key), value] for key, value in wanted.items() if getattr(project, key) != value}
            if not changed:
                return project
            for key, (_, value) in changed.items():
                setattr(project, key, value)
            project.save()
            said = {key: [str(old), str(new)] for key, (old, new) in changed.items()}
            audit.note("change_project", project, actor=by, origin=origin, now=now, changed=said)
    except IntegrityError as problem:
        raise refuse(Code.PROJECT_KNOWN, name=name.strip()) from problem
    return project


def add_member(project_id: int, member_id: int, *, by: Member, now: datetime, origin: str = "page") -> None:
    """Lets a member book for the project; adding them twice is the same. The advisor and admins may."""
    with locking.hold(projects=[project_id]):
        project = _led_by(project_id, by)
        _, created = ProjectMember.objects.get_or_create(project=project, member=_member(member_id))
        if created:
            audit.note("add_to_project", project, actor=by, origin=origin, now=now, member=member_id)


def remove_member(project_id: int, member_id: int, *, by: Member, now: datetime, origin: str = "page") -> None:
    """Takes a member out: they book nothing more for it, and keep what they have booked. Doing it twice is the same."""
    with locking.hold(projects=[project_id]):
        project = _led_by(project_id, by)
        gone, _ = ProjectMember.objects.filter(project=project, member=member_id).delete()
        if gone:
            audit.note("remove_from_project", project, actor=by, origin=origin, now=now, member=member_id)


def give_hours(
    *, member_id: int | None = None, project_id: int | None = None, hours: int, last_day: date, reason: str, by: Member,
    now: datetime, origin: str = "page",
) -> HourGrant:
    """Gives a member or a project one-off hours from now until the end of a lab day, with a reason (E5).

    The same gift by the same admin, while it lasts, is the same press again and returns what was given the first time.
    Raises `Refused`: not an admin, no reason, a day that is over. ValueError for both owners or none, or no hours.
    """
    if not permissions.may(by, Action.ADMINISTER):
        raise refuse(Code.NOT_YOURS)
    if (member_id is None) == (project_id is None) or not 0 < hours <= MOST_HOURS:
        raise ValueError("one-off hours need one owner and 1 hour or more")
    if not reason.strip():
        raise refuse(Code.TEXT_MISSING)
    end = day_start(last_day + timedelta(days=1), queries.lab_facts().zone)
    if end <= now:
        raise refuse(Code.DAY_OVER)
    with locking.hold(
        members=[] if member_id is None else [member_id], projects=[] if project_id is None else [project_id]
    ):
        gift = {
            "member": member_id, "project": project_id, "units": allowance_units(hours), "reason": reason.strip(),
            "ends_at": end, "given_by": by,
        }
        if given := HourGrant.objects.filter(**gift).first():
            return given
        grant = HourGrant.objects.create(
            member_id=member_id, project_id=project_id, units=allowance_units(hours), reason=reason.strip(), starts_at=now,
            ends_at=end, given_by=by,
        )
        audit.note(
            "give_hours", grant, actor=by, origin=origin, now=now, reason=reason.strip(), hours=hours, member=member_id,
            project=project_id, ends_at=end.isoformat(),
        )
        return grant


def _member(member_id: int) -> Member:
    found = Member.objects.filter(pk=member_id, is_active=True, approval=Member.Approval.APPROVED).first()
    if found is None:
        raise refuse(Code.MEMBER_UNKNOWN)
    return found


def _led_by(project_id: int, by: Member) -> Project:
    project = Project.objects.filter(pk=project_id).first()
    if project is None or not permissions.may(by, Action.LEAD, project):
        raise refuse(Code.NOT_YOURS)
    return project
