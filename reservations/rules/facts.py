"""The values a decision rests on: what is asked, and everything read under the lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from .hours import Hours
from .interval import Interval
from .policy import Policy
from .quota import Price
from .rank import Rank
from .windows import Timetable


@dataclass(frozen=True)
class Ask:
    """A request as asked: cards by name, or a `count` of any that fit; a period (`start` None = from now); a tier.

    With a count, `pool_id`, `model` and `min_memory` (bytes) narrow the choice; None does not. `project_id`: for which
    project, if any.
    """

    card_ids: tuple[int, ...]
    start: datetime | None
    end: datetime
    tier: str
    count: int = 0
    pool_id: int | None = None
    model: str | None = None
    min_memory: int | None = None
    several_hosts: bool = False
    elastic: bool = True  # whether it may be beyond the allowance (E4)
    at_most: Price | None = None  # the price that it need not exceed, by elapsed time from the start (D5)
    project_id: int | None = None

    @property
    def is_named(self) -> bool:
        return bool(self.card_ids)

    @property
    def wanted(self) -> int:
        """How many cards."""
        return len(self.card_ids) or self.count


@dataclass(frozen=True)
class Card:
    """What a decision needs to know of a card. `pickable`: the system may choose it for a walk-in (D2)."""

    id: int
    label: str
    weight: int
    in_service: bool
    pool_id: int = 0
    host: str = ""
    bus_id: str = ""
    model: str = ""
    memory: int | None = None
    pickable: bool = True


@dataclass(frozen=True)
class Claim:
    """What a reservation that has not started weighs against others, as a whole (C3, D4).

    `cost`: its hours times its cards, as a time. `displaced_times`: how often it made room already.
    """

    start: datetime
    rank: Rank
    booked_at: datetime
    cost: timedelta
    displaced_times: int = 0


class Closed(StrEnum):
    """Why a card serves nobody for a time (G5, G6)."""

    MAINTENANCE = "maintenance"
    LOST = "lost"


@dataclass(frozen=True)
class Holding:
    """One card held for one interval by one reservation. `claim`: None where nothing may displace it (it has started).

    With `closed` nobody holds it, and nobody can: it is in maintenance or lost; the ids are then 0.
    """

    card_id: int
    interval: Interval
    reservation_id: int
    holder_id: int
    holder_name: str
    tier: str = ""
    is_walk_in: bool = False
    claim: Claim | None = None
    closed: Closed | None = None
    offer_until: datetime | None = None  # set while it is only offered (K5)


@dataclass(frozen=True)
class Kept:
    """Time on a card that goes to the waitlist first (K5), of whom the strongest has this rank.

    `until`: when it is decided; None: others may take it by name, the system does not choose it (H4). `is_renewal`: what
    the member had on the spot and may not have on, since somebody waits for the card (D2).
    """

    card_id: int
    interval: Interval
    rank: tuple[int, int] = (0, 0)
    until: datetime | None = None
    is_renewal: bool = False


@dataclass(frozen=True)
class PoolFacts:
    """A pool: which of its cards serve, its emergency reserve (G4) and quick cards (G7), its windows."""

    card_ids: frozenset[int]  # those that serve
    timetable: Timetable
    reserve: int = 0
    quick: int = 0


@dataclass(frozen=True)
class TierGrant:
    """A deadline grant in force (C2): from when until when, and what is left of its budget in card-seconds."""

    id: int
    valid: Interval
    left: int


@dataclass(frozen=True)
class ProjectFacts:
    """The project asked for: whether it still books, its allowance, what it holds, its grants."""

    id: int
    name: str
    is_open: bool
    weekly_hours: int
    holdings: Sequence[Holding] = ()  # on the cards of the pools asked, from now on
    grants: Sequence[TierGrant] = ()


@dataclass(frozen=True)
class Facts:
    """Everything a decision rests on, read under the lock."""

    now: datetime
    zone: ZoneInfo
    policy: Policy
    member_id: int
    member_approved: bool
    member_role: str
    cards: Mapping[int, Card]  # the named ones, or all that serve in the pools asked
    pools: Mapping[int, PoolFacts]
    holdings: Sequence[Holding]  # on the cards of these pools, from 2 h before the asked period to 2 h after
    own: Sequence[Holding]  # everything the member holds or will hold
    own_future: int  # the member's reservations that have not started
    used: Mapping[date, int]  # units charged per quota week to the account that pays: the project's or the member's own
    free_used: Mapping[date, int] = field(default_factory=dict)  # free card-seconds taken per lab day
    used_last: int | None = None  # the card the member used last
    steps: int = 0  # by how many tiers standing lowers the member (J3)
    may_displace: bool = True  # not by standing (J3), nor for having displaced and then cancelled (D6)
    no_displacing_until: datetime | None = None  # D6's end, where that is why
    mates: Mapping[int, Card] = field(default_factory=dict)  # with named cards: all that serve in their pools
    grants: Sequence[Hours] = ()  # one-off hours of the account that pays
    projects: Mapping[int, str] = field(default_factory=dict)  # the open projects that the member belongs to, by name
    project: ProjectFacts | None = None  # the one asked for
    member_until: datetime | None = None  # the midnight that ends the member's last day
    rules_accepted: bool = True  # the current house rules, or there are none
    waived: frozenset[str] = frozenset()  # what a ruling sets aside (L3): rules, or sections by their letter
    kept: Sequence[Kept] = ()  # for those who wait


def period(ask: Ask, facts: Facts) -> Interval | None:
    """The interval that would be held: `now` for a start that is now or up to five minutes old (A4). None if empty."""
    start = ask.start
    oldest = facts.now - timedelta(seconds=facts.policy.form_age_s)
    if start is None or oldest <= start <= facts.now:
        start = facts.now
    return Interval(start, ask.end) if start < ask.end else None
