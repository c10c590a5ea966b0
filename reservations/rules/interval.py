"""Half-open intervals of instants (A1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, order=True)
class Interval:
    """`[start, end)` between two aware instants, `start < end`."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError("an interval needs aware instants")
        if not self.start < self.end:
            raise ValueError("an interval ends after it starts")

    @property
    def length(self) -> timedelta:
        """Elapsed time, whatever the clocks on the wall do."""
        return self.end - self.start

    def overlaps(self, other: Interval) -> bool:
        """Whether both share an instant; touching ends share none."""
        return self.start < other.end and other.start < self.end

    def cut(self, other: Interval) -> Interval | None:
        """The part of this interval inside `other`, if any."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return Interval(start, end) if start < end else None


def whole_seconds(start: datetime, end: datetime) -> int:
    """Seconds from `start` to `end`, each floored to the second of the epoch first.

    Flooring instants (not lengths) makes charges add up: for a <= b <= c the seconds of (a, b) and (b, c) sum to (a, c).
    """
    second = timedelta(seconds=1)
    return (end - EPOCH) // second - (start - EPOCH) // second


def merged(parts: Iterable[Interval]) -> list[Interval]:
    """The intervals with touching ones joined, in order."""
    joined: list[Interval] = []
    for part in sorted(parts):
        if joined and part.start <= joined[-1].end:
            joined[-1] = Interval(joined[-1].start, max(joined[-1].end, part.end))
        else:
            joined.append(part)
    return joined


def crowded(intervals: Iterable[Interval], most: int) -> list[Interval]:
    """The stretches of time at which more than `most` (0 or more) of the intervals hold, in order, none touching."""
    found: list[Interval] = []
    held, since = 0, EPOCH
    for instant, step in sorted(edge for one in intervals for edge in ((one.start, 1), (one.end, -1))):
        before, held = held, held + step
        if before <= most < held:
            since = instant
        elif held <= most < before:
            found.append(Interval(since, instant))
    return merged(found)


def most_at_once(intervals: Iterable[Interval]) -> int:
    """The largest number of these intervals that hold at one instant (B1: cards held at once)."""
    edges = sorted(edge for one in intervals for edge in ((one.start, 1), (one.end, -1)))
    # At equal instants -1 sorts before +1: half-open ends are over when the next begins.
    most = held = 0
    for _, step in edges:
        held += step
        most = max(most, held)
    return most
