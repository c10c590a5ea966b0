"""Prices, charges and allowances in whole units (D2, E1, E2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from .interval import EPOCH, Interval, whole_seconds
from .week import day_start, local_date, round_to_raster, weeks_of
from .windows import Segment

# A charge is seconds x rate x weight, rate and weight in hundredths: always a whole number, so sums are exact, do not
# depend on the order, and parts add up to the whole.
UNITS_PER_GPU_HOUR = 3600 * 100 * 100
PLAIN_RATE = 100


@dataclass(frozen=True)
class Stretch:
    """A part of one card's time at one rate (hundredths). `free`: walk-in time that costs nothing (D2)."""

    interval: Interval
    rate: int = PLAIN_RATE
    free: bool = False


# What one card costs over a reservation: stretches in order of time, touching each other.
Price = tuple[Stretch, ...]


def priced(segments: Iterable[Segment]) -> Price:
    """The price of a card's time under its pool's windows (F2)."""
    return tuple(Stretch(segment.interval, segment.window.rate) for segment in segments)


def free_first(price: Price, cards: int, left: Mapping[date, int], zone: ZoneInfo) -> Price:
    """The price with its first time in each lab day free, as far as the day's free card-seconds go (D2).

    `left` = free card-seconds still there per lab day; `cards` take them together, in order of time.
    """
    room = {day: seconds // cards for day, seconds in left.items()}
    stretches: list[Stretch] = []
    for stretch in price:
        for day, part in _days_of(stretch.interval, zone):
            seconds = min(room.get(day, 0), whole_seconds(part.start, part.end))
            if seconds <= 0:
                stretches.append(Stretch(part, stretch.rate))
                continue
            room[day] = room.get(day, 0) - seconds
            cut = part.start + timedelta(seconds=seconds)
            if whole_seconds(cut, part.end) <= 0:
                stretches.append(Stretch(part, stretch.rate, free=True))
                continue
            stretches.append(Stretch(Interval(part.start, cut), stretch.rate, free=True))
            stretches.append(Stretch(Interval(cut, part.end), stretch.rate))
    return tuple(stretches)


def no_dearer(price: Price, old: Price) -> Price:
    """The price with each instant's rate at most that of the old price at the same elapsed time (D5).

    Both begin where their card's time begins; beyond the end of the old price nothing is lowered.
    """
    shift = price[0].interval.start - old[0].interval.start
    moved = [Stretch(Interval(one.interval.start + shift, one.interval.end + shift), one.rate, one.free) for one in old]
    edges = sorted({edge for one in (*price, *moved) for edge in (one.interval.start, one.interval.end)})
    parts: list[Stretch] = []
    for start, end in pairwise(edges):
        part = Interval(start, end)
        new = next((one for one in price if one.interval.overlaps(part)), None)
        if new is None:
            continue
        was = next((one for one in moved if one.interval.overlaps(part)), new)
        parts.append(Stretch(part, 0 if was.free else min(new.rate, was.rate), new.free))
    return tuple(parts)


def free_again(price: Price, span: Interval, cards: int, left: Mapping[date, int], zone: ZoneInfo) -> Price:
    """The price with what is free inside `span` free only as far as `left` goes; the rates stay (D2, H0)."""
    before = [Stretch(part, one.rate, one.free) for one in price if (part := _until(one.interval, span.start))]
    room = dict(left)
    inside: list[Stretch] = []
    for one in price:
        part = one.interval.cut(span)
        if part is None:
            continue
        if not one.free:
            inside.append(Stretch(part, one.rate))
            continue
        inside += free_first((Stretch(part, one.rate),), cards, room, zone)
        for day, piece in _days_of(part, zone):
            room[day] = max(room.get(day, 0) - cards * whole_seconds(piece.start, piece.end), 0)
    return (*before, *inside)


def _until(interval: Interval, end: datetime) -> Interval | None:
    return Interval(interval.start, min(interval.end, end)) if interval.start < end else None


def _days_of(interval: Interval, zone: ZoneInfo) -> Iterator[tuple[date, Interval]]:
    day = local_date(interval.start, zone)
    while True:
        part = interval.cut(Interval(day_start(day, zone), day_start(day + timedelta(days=1), zone)))
        if part is None:
            return
        yield day, part
        day += timedelta(days=1)


def free_seconds(price: Price, cards: int, zone: ZoneInfo, within: Interval | None = None) -> dict[date, int]:
    """Free card-seconds of each lab day that `cards` of this price take, of the part inside `within`."""
    taken: dict[date, int] = {}
    for stretch in price:
        part = stretch.interval.cut(within) if within else stretch.interval
        if stretch.free and part:
            for day, piece in _days_of(part, zone):
                taken[day] = taken.get(day, 0) + cards * whole_seconds(piece.start, piece.end)
    return taken


def charge(
    cards: Iterable[tuple[Price, int]], zone: ZoneInfo, within: Interval | None = None
) -> dict[date, int]:
    """Units charged to each quota week for cards of these (price, weight), of the part inside `within` (E1, E2)."""
    units: dict[date, int] = {}
    for price, weight in cards:
        for stretch in price:
            part = stretch.interval.cut(within) if within else stretch.interval
            if part is None or stretch.free:
                continue
            for monday, piece in weeks_of(part, zone):
                units[monday] = units.get(monday, 0) + whole_seconds(piece.start, piece.end) * stretch.rate * weight
    return units


def allowance_units(hours: int) -> int:
    """An allowance of GPU-hours in units."""
    return hours * UNITS_PER_GPU_HOUR


def overdrawn(charges: Mapping[date, int], used: Mapping[date, int], allowance: int) -> dict[date, int]:
    """For each week without room: the units that are missing (E2: each week must have room for its own part)."""
    missing = {week: used.get(week, 0) + units - allowance for week, units in charges.items() if units > 0}
    return {week: units for week, units in missing.items() if units > 0}


def longest_affordable(
    cards: Sequence[tuple[Price, int]], used: Mapping[date, int], allowance: int, zone: ZoneInfo, raster_s: int
) -> datetime | None:
    """The latest end on the raster for which every week has room; None when not even one step fits.

    All prices cover the same interval.
    """
    start = cards[0][0][0].interval.start
    spent: dict[date, int] = {}
    end = start
    for part, speed in _meter(cards):
        for monday, piece in weeks_of(part, zone):
            units = whole_seconds(piece.start, piece.end) * speed
            room = allowance - used.get(monday, 0) - spent.get(monday, 0)
            if units > room and speed:
                last = piece.start + timedelta(seconds=max(room, 0) // speed)
                fits = round_to_raster(last, raster_s, zone, up=False)
                return fits if fits > start else None
            spent[monday] = spent.get(monday, 0) + units
            end = piece.end
    return end


def _meter(cards: Sequence[tuple[Price, int]]) -> Iterator[tuple[Interval, int]]:
    """The stretches of all cards laid over each other, with the units that a second costs in each."""
    edges = sorted({edge for price, _ in cards for one in price for edge in (one.interval.start, one.interval.end)})
    for start, end in pairwise(edges):
        part = Interval(start, end)
        speed = sum(
            one.rate * weight for price, weight in cards for one in price if not one.free and one.interval.overlaps(part)
        )
        yield part, speed


# --- kept with what was booked (E6: a price does not change later) -----------------------------------------------------


def price_to_json(price: Price) -> list[list[Any]]:
    """A price as stored: [start, end, rate, free] with instants in microseconds of the epoch."""
    return [[_micros(one.interval.start), _micros(one.interval.end), one.rate, one.free] for one in price]


def price_from_json(rows: Iterable[Sequence[Any]]) -> Price:
    """The price from its stored form."""
    return tuple(
        Stretch(Interval(_instant(start), _instant(end)), rate, free) for start, end, rate, free in rows
    )


def _micros(instant: datetime) -> int:
    return (instant - EPOCH) // timedelta(microseconds=1)


def _instant(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)
