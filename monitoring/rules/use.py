"""Booked against used (domain.md M1): what a card's looks add up to, and what the sum says. Unknown is not idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from .snapshot import FRESH_PERIODS, MEMORY_FLOOR, Look, Tenure

BUSY_PERCENT = 5  # below this a card is idle (I5)
# A verdict over a window needs so much of it observed (I1).
VERDICT_PERCENT = 80
NOTHING = timedelta(0)


@dataclass(frozen=True)
class Use:
    """How long of a tenure the card was observed, and of that: with processes of its people, and at work.

    `measured`: of the observed time that in which idle could be told from busy; a MIG instance has no utilisation (I2).
    """

    observed: timedelta = NOTHING
    present: timedelta = NOTHING
    busy: timedelta = NOTHING
    measured: timedelta = NOTHING

    def __add__(self, other: Use) -> Use:
        return Use(
            self.observed + other.observed, self.present + other.present, self.busy + other.busy,
            self.measured + other.measured,
        )


def use_between(tenure: Tenure, looks: Sequence[Look], since: datetime, until: datetime, *, period: timedelta) -> Use:
    """What the looks in `(since, until]` add to the tenure's use, each with the time since the look before it.

    `looks` are in order and begin `reach(period)` before `since`, so that sweeps one after another add up to what one over
    all of it would. Time between two looks counts when they are at most that far apart and both tell who is on the card;
    of two looks that differ the better one for the person counts. All other time is unobserved, never idle.
    """
    total = Use()
    for before, look in pairwise(looks):
        length = min(look.at, tenure.end) - max(before.at, tenure.start)
        if not since < look.at <= until or look.at - before.at > reach(period) or length <= NOTHING:
            continue
        first, second = _seen(before, tenure.people), _seen(look, tenure.people)
        if first is None or second is None:
            continue
        is_busy = _IS_BUSY in (first, second)
        total += Use(
            length, length if {first, second} != {_ABSENT} else NOTHING, length if is_busy else NOTHING,
            length if is_busy or _UNMEASURED not in (first, second) else NOTHING,
        )
    return total


def reach(period: timedelta) -> timedelta:
    """How far apart two looks may be for the time between them to count."""
    return FRESH_PERIODS * period


_ABSENT, _IS_IDLE, _IS_BUSY, _UNMEASURED = "absent", "idle", "busy", "unmeasured"


def _seen(look: Look, people: frozenset[int]) -> str | None:
    """What a look says of these people's use of the card; None when it cannot say.

    Their absence is sure only where nobody unknown is there and no memory is held that no process accounts for (I, I3).
    """
    if not look.is_readable:
        return None
    if any(one.is_sure and one.member_id in people for one in look.users):
        loads = [load for load in (look.utilization, look.encoder, look.decoder) if load is not None]
        if max(loads, default=0) >= BUSY_PERCENT:
            return _IS_BUSY
        return _UNMEASURED if look.utilization is None else _IS_IDLE
    if look.is_doubtful or look.memory_used is None:
        return None
    accounted = sum(one.memory or 0 for one in look.processes or ())
    return None if look.memory_used - accounted > MEMORY_FLOOR else _ABSENT


class Mark(StrEnum):
    """What `wall_time.csv` says of one card of a reservation; scripts read these codes."""

    OK = "ok"
    EARLY_RELEASE = "early_release"
    IDLE = "idle"
    UNUSED = "unused"
    OVERRUN = "overrun"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Account:
    """One card of a reservation: what was booked, what was held in the end, what was seen of it.

    `overrun`: how long its people were proved to stay on after the end. `is_over`: it holds no longer.
    """

    booked: timedelta
    held: timedelta
    use: Use = Use()
    overrun: timedelta = NOTHING
    is_over: bool = True
    is_released: bool = False

    def is_told_by(self, observed: timedelta) -> bool:
        """Whether so much observed time suffices for a verdict over the whole (I1)."""
        return observed * 100 >= self.held * VERDICT_PERCENT


def mark(account: Account) -> Mark:
    """The one mark of a card's account. Giving back half of the booked time or more is good, whatever was done before."""
    if account.overrun > NOTHING:
        return Mark.OVERRUN
    if not account.is_over:
        return Mark.UNKNOWN
    is_early = account.is_released and account.held < account.booked
    if is_early and account.held * 2 <= account.booked:
        return Mark.EARLY_RELEASE
    if account.use.busy == NOTHING:
        if account.use.present == NOTHING:
            if account.is_told_by(account.use.observed):
                return Mark.UNUSED
        elif account.is_told_by(account.use.measured):
            return Mark.IDLE
        return Mark.EARLY_RELEASE if is_early else Mark.UNKNOWN
    return Mark.EARLY_RELEASE if is_early else Mark.OK


def is_off_by_more_than_half(account: Account) -> bool | None:
    """Whether more than half of the booked length was held without use, or stayed on for; None = not known (yet).

    What was given back was not held: early release is never off. Time that nobody observed may have been used.
    """
    if account.overrun * 2 > account.booked:
        return True
    if not account.is_over:
        return None
    if (account.held - account.use.present) * 2 <= account.booked:
        return False
    surely_unused = account.use.observed - account.use.present
    return True if surely_unused * 2 > account.booked and account.is_told_by(account.use.observed) else None
