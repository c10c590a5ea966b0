"""One-off hours: what a week's account may be overdrawn by (E5, and the hours of E3 that stay valid).

Nothing is posted when such hours are used: a week may be overdrawn by what grants cover, so that whatever is returned gives
back to the grant by itself, and a balance stays the sum of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from .interval import Interval
from .week import week_interval, week_of

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True)
class Hours:
    """A grant of `units` that may be used in `valid`, its end excluded."""

    units: int
    valid: Interval


@dataclass(frozen=True)
class Account:
    """Whose hours pay, a member's or a project's: units per week, units used in each, and one-off grants (B5, E5). `debts`: what
    of the used ones overruns of earlier weeks overdrew (E3)."""

    allowance: int
    used: Mapping[date, int]
    grants: Sequence[Hours] = field(default=())
    debts: Mapping[date, int] = field(default_factory=dict)

    def overdraft(self, week: date, more: int = 0) -> int:
        """Units beyond the weekly allowance, with `more` charged to the week."""
        return max(self.used.get(week, 0) + more - self.allowance, 0)


def weeks_met(grants: Iterable[Hours], zone: ZoneInfo) -> set[date]:
    """Every week in which one of the grants can be used."""
    weeks: set[date] = set()
    for grant in grants:
        monday = week_of(grant.valid.start, zone)
        while monday <= week_of(grant.valid.end - _INSTANT, zone):
            weeks.add(monday)
            monday += timedelta(days=7)
    return weeks


def uncovered(
    account: Account, charges: Mapping[date, int], parts: Mapping[date, Interval], zone: ZoneInfo
) -> dict[date, int]:
    """For each week: the units of these charges that neither its allowance nor a grant covers (E2, E5). Empty: all is well.

    `parts`: the time in each week that the charges are for. A grant covers a charge only when the part lies in its validity.
    Nothing is refused that another way of sharing the grants out would allow. Overdrafts that stand already come first; where
    nothing covers them (an overrun, an allowance that was lowered) they ask nothing of other weeks.
    """
    wanted = {week: units for week, units in charges.items() if units > 0}
    beyond = {week: account.overdraft(week, units) - account.overdraft(week) for week, units in wanted.items()}
    missing = {week: units for week, units in beyond.items() if units > 0}
    if not missing or not account.grants:
        return missing
    grants = account.grants
    demands, reach = [], []
    for week in sorted(weeks_met(grants, zone)):
        whole = week_interval(week, zone)
        demands.append(account.overdraft(week))
        reach.append([place for place, grant in enumerate(grants) if grant.valid.overlaps(whole)])
    standing = len(demands)
    for week in sorted(missing):
        part = parts[week]
        demands.append(missing[week])
        reach.append([
            place for place, grant in enumerate(grants) if grant.valid.start <= part.start and part.end <= grant.valid.end
        ])
    covered = _covered(demands, reach, [grant.units for grant in grants])[standing:]
    left = {week: missing[week] - units for week, units in zip(sorted(missing), covered, strict=True)}
    return {week: units for week, units in left.items() if units > 0}


def _covered(demands: Sequence[int], reach: Sequence[Sequence[int]], room: list[int]) -> list[int]:
    """How many units of each demand the grants in its reach cover: all together as many as can be, the earlier demands first.

    A demand that finds no room in its reach moves what another took there to a grant that only the other reaches
    (augmenting paths); what an earlier demand has is never taken from it.
    """
    taken = [[0] * len(room) for _ in demands]

    def take(demand: int, units: int, tried: set[int]) -> int:
        for grant in reach[demand]:
            if grant in tried:
                continue
            tried.add(grant)
            if moved := min(room[grant], units):
                room[grant] -= moved
                taken[demand][grant] += moved
                return moved
            for other, held in enumerate(taken):
                if other != demand and held[grant] and (moved := take(other, min(held[grant], units), tried)):
                    held[grant] -= moved
                    taken[demand][grant] += moved
                    return moved
        return 0

    for demand, units in enumerate(demands):
        while (lacking := units - sum(taken[demand])) > 0 and take(demand, lacking, set()):
            pass
    return [sum(held) for held in taken]


def spare(account: Account, week: date, now: datetime, zone: ZoneInfo) -> int:
    """Units that grants still cover in a week from `now` on, beside what stands already."""
    whole = week_interval(week, zone)
    start = max(whole.start, now)
    if not account.grants or start >= whole.end:
        return 0
    # The shortest part there is: what a request that ends early enough could use.
    part = {week: Interval(start, start + _INSTANT)}
    beyond = max(account.allowance - account.used.get(week, 0), 0)
    total = sum(grant.units for grant in account.grants)
    missing = uncovered(account, {week: beyond + total}, part, zone)
    return total - missing.get(week, 0)
