"""Who does not come, and who has gone: what a card's samples say of its holder (domain.md H2, H3, H7, I1, I3).

Time counts only where samples show the card free for its holder. Contested, ambiguous, not visible, unread and missing
looks stop the clock; nothing is concluded from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reservations.rules.interval import Interval

from .snapshot import Look, is_fresh

Looks = Mapping[int, Sequence[Look]]  # by card, each in order of time


@dataclass(frozen=True)
class Counted:
    """The time for which all the cards were observed free, laid end to end up to `until`, the last look of it.

    `samples`: each card's looks on that clock, so that coverage is asked of the counted time alone (H2).
    """

    total: timedelta = timedelta()
    until: datetime | None = None
    samples: Mapping[int, tuple[datetime, ...]] | None = None

    @property
    def start(self) -> datetime | None:
        return None if self.until is None else self.until - self.total


def counted(looks: Looks, since: datetime, period: timedelta) -> Counted:
    """The time since `since` for which every one of these cards was observed free."""
    spans: list[Interval] | None = None
    for some in looks.values():
        runs = [Interval(run[0], run[-1]) for run in free_runs(some, since, period) if run[0] < run[-1]]
        spans = runs if spans is None else _common(spans, runs)
    if not spans:
        return Counted()
    total = sum((span.length for span in spans), timedelta())
    until, before = spans[-1].end, timedelta()
    samples: dict[int, list[datetime]] = {card: [] for card in looks}
    for span in spans:
        shift = until - total + before - span.start
        for card, some in looks.items():
            samples[card] += [look.at + shift for look in some if span.start <= look.at <= span.end and look.is_free]
        before += span.length
    return Counted(total, until, {card: tuple(sorted(instants)) for card, instants in samples.items()})


def free_runs(looks: Sequence[Look], since: datetime, period: timedelta) -> list[list[datetime]]:
    """The unbroken rows of looks at or after `since` that show the card free, by their instants."""
    runs: list[list[datetime]] = []
    broken = True
    for look in looks:
        if look.at < since:
            continue
        if not look.is_free:
            broken = True
            continue
        if broken or not is_fresh(runs[-1][-1], look.at, period):
            runs.append([])
        runs[-1].append(look.at)
        broken = False
    return runs


def _common(some: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    return sorted(part for one in some for other in others if (part := one.cut(other)) is not None)


def last_sight(looks: Iterable[Look], owners: frozenset[int]) -> datetime | None:
    """The last look that shows a process of these members, of whatever kind: in their favour everything counts."""
    return max((look.at for look in looks if look.shows(owners)), default=None)


def may_be_theirs(looks: Sequence[Look], start: datetime, in_a_row: int) -> bool:
    """Whether since the start the card was used by nobody knows whom, in so many looks in a row (I3).

    What was there before the start already is somebody's leaving; what came after it may be the holder's own work, as
    somebody without a name on the host: then nothing is held against them.
    """
    before = [look for look in looks if look.at < start]
    leftovers = {(one.pid, one.started) for look in before for one in look.unsure}
    was_taken = bool(before) and before[-1].is_taken_unseen
    row = 0
    for look in looks:
        if look.at < start:
            continue
        strange = any((one.pid, one.started) not in leftovers for one in look.unsure)
        row = row + 1 if strange or (look.is_taken_unseen and not was_taken) else 0
        if row >= in_a_row:
            return True
    return False


@dataclass(frozen=True)
class Gone:
    """That the holder's processes have ended: `since` the first look of the row that shows every card free, to `until`."""

    since: datetime
    until: datetime
    looks: int

    @property
    def length(self) -> timedelta:
        return self.until - self.since


def gone(looks: Looks, last_seen: datetime, now: datetime, period: timedelta) -> Gone | None:
    """The unbroken row of fresh looks, after the last process, that show all cards free; None when there is none (H7)."""
    ends: list[list[datetime]] = []
    for some in looks.values():
        runs = free_runs(some, last_seen, period)
        newest = some[-1] if some else None
        if not runs or newest is None or runs[-1][-1] != newest.at or not is_fresh(newest.at, now, period):
            return None
        ends.append(runs[-1])
    if not ends:
        return None
    since = max(run[0] for run in ends)
    until = min(run[-1] for run in ends)
    return Gone(since, until, min(len(run) for run in ends)) if since <= until else None


