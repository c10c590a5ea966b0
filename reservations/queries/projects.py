"""Projects and their deadline grants."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.db.models import Prefetch, Q, QuerySet

from ..models import Allocation, DeadlineGrant, Project, ProjectMember
from ..prepared import prepared
from ..rules.facts import ProjectFacts, TierGrant
from ..rules.interval import Interval, whole_seconds
from ..rules.week import day_start
from .holdings import HOLDING_COLUMNS, as_holdings
from .lab import CONSUMING, HOLDING_CODES, LabFacts


def projects_of(member_id: int) -> dict[int, str]:
    """The open projects for which the member may book, by name; an advisor belongs to those they lead."""
    return dict(_projects_of(member_id))


@prepared
def _projects_of(member_id: int) -> QuerySet[Project, tuple[int, str]]:
    rows = Project.objects.filter(Q(members__member=member_id) | Q(advisor=member_id), closed_at=None)
    return rows.distinct().order_by("name").values_list("pk", "name")


def projects_listed() -> list[Project]:
    """All projects, open ones first, with advisor and members."""
    members = Prefetch("members", ProjectMember.objects.select_related("member").order_by("member__name", "pk"))
    return sorted(
        Project.objects.select_related("advisor").prefetch_related(members), key=lambda one: one.closed_at is not None
    )


def project_detail(pk: int) -> Project | None:
    """One project with advisor and members, or None."""
    members = Prefetch("members", ProjectMember.objects.select_related("member").order_by("member__name", "pk"))
    return Project.objects.select_related("advisor").prefetch_related(members).filter(pk=pk).first()


def grants_of(project_id: int) -> list[DeadlineGrant]:
    """The project's deadline grants and requests, newest first, with who asked and who decided."""
    rows = DeadlineGrant.objects.filter(project=project_id)
    return list(rows.select_related("project__advisor", "requested_by", "decided_by"))


def grant_detail(pk: int) -> DeadlineGrant | None:
    """One deadline grant with its project, or None."""
    return DeadlineGrant.objects.select_related("project__advisor", "requested_by").filter(pk=pk).first()


def grants_in_force(lab: LabFacts, now: datetime) -> list[DeadlineGrant]:
    """The grants of all projects that can be booked under at `now` or later, and the requests that wait."""
    states = [DeadlineGrant.State.GRANTED, DeadlineGrant.State.REQUESTED]
    rows = DeadlineGrant.objects.filter(state__in=states).select_related("project__advisor", "requested_by")
    return [row for row in rows.order_by("last_day", "pk") if grant_interval(row, lab.zone).end > now]


def project_facts(
    project_id: int, card_ids: Sequence[int], lab: LabFacts, now: datetime
) -> ProjectFacts | None:
    """A project as decisions need it; None when there is none. `card_ids`: the cards on which its cap is asked (B6)."""
    row = Project.objects.filter(pk=project_id).first()
    if row is None:
        return None
    held = Allocation.objects.filter(
        reservation__project=project_id, reservation__project_pays=True, gpu__in=card_ids, status__in=HOLDING_CODES, end__gt=now
    )
    return ProjectFacts(
        row.pk, row.name, row.closed_at is None,
        lab.policy.project_weekly_hours if row.weekly_hours is None else row.weekly_hours,
        as_holdings(held.values_list(*HOLDING_COLUMNS)), tier_grants(project_id, lab.zone, now),
    )


def grant_used(grant_ids: Iterable[int], *, of: int | None = None) -> dict[int, int]:
    """Card-seconds of each deadline grant that its reservations hold or held, as their cards stand (C2); `of` one alone."""
    used = dict.fromkeys(grant_ids, 0)
    rows = Allocation.objects.filter(reservation__grant__in=list(used), status__in=CONSUMING)
    if of is not None:
        rows = rows.filter(reservation=of)
    for grant_id, start, end in rows.values_list("reservation__grant", "start", "end"):
        used[grant_id] += whole_seconds(start, end)
    return used


def grant_interval(grant: DeadlineGrant, zone: ZoneInfo) -> Interval:
    """From the begin of its first lab day to the end of its last (C2)."""
    return Interval(day_start(grant.first_day, zone), day_start(grant.last_day + timedelta(days=1), zone))


def is_granted(project_ids: Collection[int], lab: LabFacts, now: datetime) -> bool:
    """Whether one of these projects has a deadline grant that has not run out."""
    rows = DeadlineGrant.objects.filter(project__in=list(project_ids), state=DeadlineGrant.State.GRANTED)
    return bool(project_ids) and any(grant_interval(row, lab.zone).end > now for row in rows)


def tier_grants(project_id: int, zone: ZoneInfo, now: datetime) -> list[TierGrant]:
    """The project's deadline grants that have not run out."""
    rows = DeadlineGrant.objects.filter(project=project_id, state=DeadlineGrant.State.GRANTED)
    live = {row.pk: row for row in rows if grant_interval(row, zone).end > now}
    used = grant_used(live)
    return [TierGrant(pk, grant_interval(row, zone), row.budget - used[pk]) for pk, row in live.items()]
