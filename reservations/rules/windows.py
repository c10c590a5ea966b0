"""When a pool may be booked, in which way and at what rate (F)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from itertools import pairwise
from zoneinfo import ZoneInfo

from .interval import Interval
from .week import local_date, rule_instant

PLAIN_RATE = 100


class Mode(StrEnum):
    """What may be done in a window (F1)."""

    OPEN = "open"
    WALK_IN = "walk_in"
    LONG = "long"
    CLOSED = "closed"


class Days(StrEnum):
    """Which days a window applies to, from the least to the most specific."""

    EVERY = "every"
    WORKING = "working"
    REST = "rest"
    WEEKDAYS = "weekdays"
    DATES = "dates"


_SPECIFIC = {Days.EVERY: 0, Days.WORKING: 1, Days.REST: 1, Days.WEEKDAYS: 2, Days.DATES: 3}


@dataclass(frozen=True)
class Window:
    """One rule of time. It opens at `opens` local time on each of its days and shuts at `shuts`; `shuts <= opens` means
    on the next day (24 h when equal). `rate` in hundredths. `most_inside` caps one reservation's time in all its
    occurrences together (F2). `pool_id` None = every pool. Of several that hold, the most specific wins (own pool before
    every pool, then dates before weekdays before working or rest days before every day), then the newest (`id`).
    """

    id: int
    mode: Mode
    rate: int = PLAIN_RATE
    days: Days = Days.EVERY
    weekdays: frozenset[int] = frozenset()
    dates: frozenset[date] = frozenset()
    opens: time = time()
    shuts: time = time()
    most_inside: timedelta | None = None
    pool_id: int | None = None

    def applies_on(self, day: date, is_working: Callable[[date], bool]) -> bool:
        """Whether an occurrence begins on this lab day."""
        match self.days:
            case Days.EVERY:
                return True
            case Days.WORKING:
                return is_working(day)
            case Days.REST:
                return not is_working(day)
            case Days.WEEKDAYS:
                return day.weekday() in self.weekdays
            case Days.DATES:
                return day in self.dates

    def occurrence(self, day: date, zone: ZoneInfo) -> Interval | None:
        """The instants of the occurrence that begins on this day; None if a clock change leaves nothing of it."""
        until = day if self.opens < self.shuts else day + timedelta(days=1)
        start = rule_instant(datetime.combine(day, self.opens), zone)
        end = rule_instant(datetime.combine(until, self.shuts), zone)
        return Interval(start, end) if start < end else None

    @property
    def precedence(self) -> tuple[bool, int, int]:
        return (self.pool_id is not None, _SPECIFIC[self.days], self.id)


ALWAYS_OPEN = Window(0, Mode.OPEN)


@dataclass(frozen=True)
class Segment:
    """A part of an interval under one window."""

    interval: Interval
    window: Window


@dataclass(frozen=True)
class Timetable:
    """The windows of one pool, with the lab's calendar of working days."""

    windows: tuple[Window, ...]
    zone: ZoneInfo
    special: Mapping[date, bool]  # date -> whether it is a working day (A5)

    def is_working(self, day: date) -> bool:
        """A weekday unless the calendar says otherwise (A5)."""
        return self.special.get(day, day.weekday() < 5)

    def occurrences(self, span: Interval) -> list[tuple[Interval, Window]]:
        """Every occurrence of every window that touches the span."""
        day = local_date(span.start, self.zone) - timedelta(days=1)
        last = local_date(span.end, self.zone)
        found = []
        while day <= last:
            for window in self.windows:
                if window.applies_on(day, self.is_working):
                    occurrence = window.occurrence(day, self.zone)
                    if occurrence is not None and occurrence.overlaps(span):
                        found.append((occurrence, window))
            day += timedelta(days=1)
        return found

    def segments(self, span: Interval) -> list[Segment]:
        """The span cut where another window takes over; where none applies it is open at the plain rate."""
        occurrences = self.occurrences(span)
        cuts = {span.start, span.end}
        for occurrence, _ in occurrences:
            cuts |= {edge for edge in (occurrence.start, occurrence.end) if span.start < edge < span.end}
        edges = sorted(cuts)
        segments: list[Segment] = []
        for start, end in pairwise(edges):
            holding = [window for occurrence, window in occurrences if occurrence.start <= start < occurrence.end]
            window = max(holding, key=lambda one: one.precedence, default=ALWAYS_OPEN)
            if segments and segments[-1].window == window:
                segments[-1] = Segment(Interval(segments[-1].interval.start, end), window)
            else:
                segments.append(Segment(Interval(start, end), window))
        return segments

    def window_at(self, instant: datetime) -> Window:
        """The window in force at an instant."""
        return self.segments(Interval(instant, instant + timedelta(microseconds=1)))[0].window


def time_inside(segments: Iterable[Segment]) -> dict[Window, timedelta]:
    """For each window, the time a reservation has inside all its occurrences together (F2)."""
    total: dict[Window, timedelta] = {}
    for segment in segments:
        total[segment.window] = total.get(segment.window, timedelta()) + segment.interval.length
    return total


def longest_within(
    segments: Sequence[Segment], fits: Callable[[Window, timedelta], bool]
) -> datetime | None:
    """The instant up to which every window's time fits; None when not even the first does at all."""
    used: dict[Window, timedelta] = {}
    until: datetime | None = None
    for segment in segments:
        window = segment.window
        before = used.get(window, timedelta())
        if fits(window, before + segment.interval.length):
            used[window] = before + segment.interval.length
            until = segment.interval.end
            continue
        if window.most_inside is not None and fits(window, window.most_inside):
            room = window.most_inside - before
            if room > timedelta():
                until = segment.interval.start + room
        break
    return until
