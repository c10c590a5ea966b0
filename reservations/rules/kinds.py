"""Planned, late, walk-in: the three kinds by start, and when a day becomes firm (D1, D4)."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from .week import local_date, rule_instant


class Kind(StrEnum):
    PLANNED = "planned"
    LATE = "late"
    WALK_IN = "walk_in"


def freezes_at(start: datetime, zone: ZoneInfo, at: time) -> datetime:
    """When a reservation with this start becomes firm: the evening before its first lab day, at `at` (D1)."""
    return rule_instant(datetime.combine(local_date(start, zone) - timedelta(days=1), at), zone)


def is_frozen(start: datetime, now: datetime, zone: ZoneInfo, at: time) -> bool:
    """Whether a start lies in frozen time at `now`: by the clock, by no job (D1)."""
    return now >= freezes_at(start, zone, at)


def kind_of(start: datetime, now: datetime, zone: ZoneInfo, freeze_at: time) -> Kind:
    """The kind of a reservation booked at `now` for this start (D1)."""
    if start <= now:
        return Kind.WALK_IN
    return Kind.LATE if is_frozen(start, now, zone, freeze_at) else Kind.PLANNED


def unfrozen_from(now: datetime, zone: ZoneInfo, at: time) -> datetime:
    """The first instant of unfrozen time: the midnight of the first lab day that is not firm at `now`."""
    day = local_date(now, zone) + timedelta(days=1)
    if is_frozen(rule_instant(datetime.combine(day, time()), zone), now, zone, at):
        day += timedelta(days=1)
    return rule_instant(datetime.combine(day, time()), zone)
