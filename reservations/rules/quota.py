"""Charges and allowances in whole units (E1, E2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from .interval import Interval, whole_seconds
from .week import round_to_raster, weeks_of

# A charge is seconds x rate x weight, rate and weight in hundredths: always a whole number, so sums are exact, do not
# depend on the order, and parts add up to the whole.
UNITS_PER_GPU_HOUR = 3600 * 100 * 100
PLAIN_RATE = 100


def charge(interval: Interval, weights: Iterable[int], zone: ZoneInfo) -> dict[date, int]:
    """Units charged to each quota week for cards of these weights (hundredths) over one interval (E1, E2)."""
    weight = sum(weights)
    return {
        monday: whole_seconds(part.start, part.end) * PLAIN_RATE * weight for monday, part in weeks_of(interval, zone)
    }


def unused(interval: Interval, from_: datetime, weights: Iterable[int], zone: ZoneInfo) -> dict[date, int]:
    """Units of the part of the interval that has not elapsed at `from_` (E3); empty when it has all elapsed."""
    start = max(interval.start, from_)
    return charge(Interval(start, interval.end), weights, zone) if start < interval.end else {}


def allowance_units(hours: int) -> int:
    """An allowance of GPU-hours in units."""
    return hours * UNITS_PER_GPU_HOUR


def overdrawn(
    charges: Mapping[date, int], used: Mapping[date, int], allowance: int
) -> dict[date, int]:
    """For each week without room: the units that are missing (E2: each week must have room for its own part)."""
    missing = {week: used.get(week, 0) + units - allowance for week, units in charges.items() if units > 0}
    return {week: units for week, units in missing.items() if units > 0}


def longest_affordable(
    start: datetime, end: datetime, weights: Iterable[int], used: Mapping[date, int], allowance: int, zone: ZoneInfo,
    raster_s: int,
) -> datetime | None:
    """The latest end on the raster, at most `end`, for which every week has room; None when not even one step fits."""
    weights = tuple(weights)
    weight = sum(weights)
    for monday, part in weeks_of(Interval(start, end), zone):
        room = allowance - used.get(monday, 0)
        seconds = max(room, 0) // (PLAIN_RATE * weight) if weight else whole_seconds(part.start, part.end)
        if seconds < whole_seconds(part.start, part.end):
            fits = round_to_raster(part.start + timedelta(seconds=seconds), raster_s, zone, up=False)
            return fits if fits > start else None
    return end
