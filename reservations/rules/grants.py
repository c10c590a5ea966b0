"""Which deadline grants may be asked for, and who must decide one (C2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from .policy import Policy
from .refusal import Code, Refusal


@dataclass(frozen=True)
class Days:
    """Lab days from the first to the last, both included."""

    first: date
    last: date

    @property
    def count(self) -> int:
        return (self.last - self.first).days + 1


def day_refusals(days: Days, deadline: date, today: date, policy: Policy) -> Iterator[Refusal]:
    """What is against the days asked for: in the wrong order or over, too many, or beyond the deadline they serve."""
    if days.last < max(days.first, today):
        yield Refusal(Code.DAY_OVER)
    if days.count > policy.grant_days:
        yield Refusal(Code.GRANT_TOO_LONG, {"days": policy.grant_days})
    if days.last > deadline:
        yield Refusal(Code.GRANT_AFTER_DEADLINE)


def is_second(days: Days, former: Iterable[Days], policy: Policy) -> bool:
    """Whether one of the project's other grants lies less than the policy's days away, from end to start, before or after."""
    near = timedelta(days=policy.grant_again_days)
    return any(days.first - one.last < near and one.first - days.last < near for one in former)
