"""What the accounts of members and projects have left."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from django.db.models import Q, QuerySet, Sum

from ..models import HourGrant, LedgerEntry, Member, Project
from ..prepared import prepared
from ..rules.hours import Account, Hours, spare, weeks_met
from ..rules.interval import Interval
from ..rules.overruns import LOOK_BACK_WEEKS, carried
from ..rules.quota import allowance_units
from ..rules.week import week_of
from .lab import LabFacts


def units_used(member_id: int, weeks: Iterable[date], *, project: int | None = None) -> dict[date, int]:
    """Units charged to the member's own account in each of these weeks, or to the project's: always the sum of the ledger's
    rows (E1, B5)."""
    wanted = list(weeks)
    rows = _charged(**_payer(member_id, project)).filter(period__in=wanted)
    found = dict(rows.values("period").annotate(sum=Sum("units")).order_by().values_list("period", "sum"))
    return {week: found.get(week, 0) for week in wanted}


def _charged(member: int | None, project: int | None) -> QuerySet[LedgerEntry]:
    """The rows of the weeks of an account: the member's own, or the project's."""
    rows = LedgerEntry.objects.filter(account=LedgerEntry.Account.QUOTA)
    return rows.filter(member=member, project=None) if project is None else rows.filter(project=project)


def hours_given(member_id: int, weeks: Collection[date], zone: ZoneInfo, *, project: int | None = None) -> list[Hours]:
    """The one-off hours of an account that bear on these weeks: those valid in one, and those that share a week with them
    directly or through others, for what one covers another need not (E5)."""
    others = [Hours(units, Interval(start, end)) for units, start, end in _hours_given(**_payer(member_id, project))]
    near, found = set(weeks), list[Hours]()
    while met := [one for one in others if weeks_met([one], zone) & near]:
        found += met
        near |= weeks_met(met, zone)
        others = [one for one in others if one not in met]
    return found


def _payer(member_id: int, project: int | None) -> dict[str, int | None]:
    """Whose account it is, one of the two: the project's, or the member's own."""
    return {"member": member_id, "project": None} if project is None else {"member": None, "project": project}


@prepared
def _hours_given(member: int | None, project: int | None) -> QuerySet[HourGrant, tuple[int, datetime, datetime]]:
    rows = HourGrant.objects.filter(units__gt=0)
    rows = rows.filter(member=member) if project is None else rows.filter(project=project)
    return rows.values_list("units", "starts_at", "ends_at")


def account(
    member: Member, project_id: int | None, weeks: Iterable[date], lab: LabFacts
) -> Account:
    """The account that pays, the project's or (None) the member's own, as far as charges in these weeks ask (B5, E5)."""
    wanted = set(weeks)
    if project_id is None:
        role = lab.policy.role(member.role)
        hours = role.weekly_hours if role else 0
    else:
        row = Project.objects.filter(pk=project_id).values_list("weekly_hours", flat=True).first()
        hours = lab.policy.project_weekly_hours if row is None else row
    grants = hours_given(member.pk, wanted, lab.zone, project=project_id)
    every = sorted(wanted | weeks_met(grants, lab.zone))
    used, owed = _used_and_owed(member.pk, every, allowance_units(hours), project=project_id)
    return Account(allowance_units(hours), {week: used[week] + owed[week] for week in every}, grants, owed)


def _used_and_owed(
    member_id: int, weeks: Sequence[date], allowance: int, *, project: int | None
) -> tuple[dict[date, int], dict[date, int]]:
    """Units charged to the account in each of these weeks, in order, and by how much overruns overdrew it before, so that
    it weighs on the week (E3). One statement."""
    if not weeks:
        return {}, {}
    first = weeks[0] - timedelta(days=7 * LOOK_BACK_WEEKS)
    every = [first + timedelta(days=7 * n) for n in range((weeks[-1] - first).days // 7 + 1)]
    rows = _weekly_sums(first=first, last=weeks[-1], **_payer(member_id, project))
    sums = {week: units for week, units, _ in rows}
    used = {week: sums.get(week, 0) for week in every}
    owed = carried(every, used, {week: overran for week, _, overran in rows}, allowance)
    return {week: used[week] for week in weeks}, {week: owed[week] for week in weeks}


@prepared
def _weekly_sums(
    member: int | None, project: int | None, first: date, last: date
) -> QuerySet[LedgerEntry, tuple[date, int, int]]:
    """Week, units charged, and of these the overruns'."""
    rows = _charged(member, project).filter(period__gte=first, period__lte=last).values("period")
    overran = Sum("units", filter=Q(reason=LedgerEntry.Reason.OVERRUN), default=0)
    return rows.annotate(sum=Sum("units"), overran=overran).order_by().values_list("period", "sum", "overran")


def hour_grants(now: datetime, *, member: int | None = None, project: int | None = None) -> list[HourGrant]:
    """The one-off hours of an account that have not run out, soonest end first."""
    whose = {"member": member} if project is None else {"project": project}
    return list(HourGrant.objects.filter(**whose, units__gt=0, ends_at__gt=now).select_related("given_by"))


def free_seconds_used(
    member_id: int, days: Sequence[date], *, since: datetime | None = None, not_of: int | None = None
) -> dict[date, int]:
    """Free card-seconds of walk-ins that the member has taken on each of these lab days (D2).

    With `since`, only what was written at or after it; with `not_of`, only by other reservations.
    """
    if not days:
        return {}
    found = dict(_free_seconds(member_id, min(days), max(days), since, not_of))
    return {day: found.get(day, 0) for day in days}


@prepared
def _free_seconds(
    member_id: int, first: date, last: date, since: datetime | None, not_of: int | None
) -> QuerySet[LedgerEntry, tuple[date, int]]:
    rows = LedgerEntry.objects.filter(
        member=member_id, account=LedgerEntry.Account.FREE, period__gte=first, period__lte=last
    )
    if since is not None:
        rows = rows.filter(at__gte=since)
    if not_of is not None:
        rows = rows.exclude(reservation=not_of)
    return rows.values("period").annotate(seconds=Sum("units")).order_by().values_list("period", "seconds")


@dataclass(frozen=True)
class WeekBalance:
    """One week of an account, in units. `extra`: what one-off hours still cover beside the allowance (E5). `debt`: what of
    `used` overruns of earlier weeks overdrew (E3)."""

    week: date
    used: int
    allowance: int
    extra: int = 0
    debt: int = 0

    @property
    def left(self) -> int:
        return max(self.allowance - self.used, 0) + self.extra


def balances(member: Member, lab: LabFacts, now: datetime, *, project: int | None = None) -> list[WeekBalance]:
    """The member's own account, or that of a project, for this week and the next."""
    this = week_of(now, lab.zone)
    weeks = [this, this + timedelta(days=7)]
    found = account(member, project, weeks, lab)
    return [
        WeekBalance(week, found.used[week], found.allowance, spare(found, week, now, lab.zone), found.debts.get(week, 0))
        for week in weeks
    ]
