"""The one gate before every automatic act (domain.md I1): forfeit, charge, demerit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from math import floor

from reservations.rules.policy import Policy

from .snapshot import is_fresh

ACT_COVERAGE = 0.9


class Reason(StrEnum):
    """What the gate answers; everything but `ALLOWED` forbids the act."""

    ALLOWED = "allowed"
    DECIDED = "decided"
    MIXED = "mixed"
    MAINTENANCE = "maintenance"
    CLOCK = "clock"
    STALE = "stale"
    COVERAGE = "coverage"


@dataclass(frozen=True)
class Case:
    """What an act rests on: the readable samples of the judged window, in order of time."""

    start: datetime
    end: datetime
    samples: Sequence[datetime]
    clock_offset_s: float
    is_mixed: bool = False  # simulated data beside real cards
    in_maintenance: bool = False  # the card is out of service
    is_decided: bool = False


@dataclass(frozen=True)
class Answer:
    """Whether the act is allowed, why, and the share of the window's expected samples that were there."""

    reason: Reason
    coverage: float

    @property
    def is_allowed(self) -> bool:
        return self.reason is Reason.ALLOWED


def ask(case: Case, *, now: datetime, policy: Policy, period: timedelta) -> Answer:
    """Whether an act may rest on this."""
    share = coverage(case.samples, case.start, case.end, period)
    if case.is_decided:
        reason = Reason.DECIDED
    elif case.is_mixed:
        reason = Reason.MIXED
    elif case.in_maintenance:
        reason = Reason.MAINTENANCE
    elif abs(case.clock_offset_s) > policy.clock_tolerance_s:
        reason = Reason.CLOCK
    elif not case.samples or not is_fresh(case.samples[-1], now, period) or case.samples[-1] > now:
        reason = Reason.STALE
    elif share < ACT_COVERAGE:
        reason = Reason.COVERAGE
    else:
        reason = Reason.ALLOWED
    return Answer(reason, share)


def coverage(samples: Sequence[datetime], start: datetime, end: datetime, period: timedelta) -> float:
    """The share, 0 to 1, of the samples expected in `[start, end]` that were there.

    Each sample fills one period's slot, at most one away from its own: jitter costs nothing, extra samples here make up
    for none elsewhere, and a stretch that no sample could have (a clock set forward) counts as missing.
    """
    expected = (end - start) // period + 1
    filled, last = 0, -1
    for at in sorted(samples):
        place = (at - start) / period
        slot = max(last + 1, floor(place))
        if start <= at <= end and slot < place + 1:
            filled, last = filled + 1, slot
    return min(1.0, filled / expected)
