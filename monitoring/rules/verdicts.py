"""What a card's latest sample means (domain.md I). Unknown is not idle and not free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from reservations.rules.policy import Policy

from .snapshot import FRESH_PERIODS, Look, Tenure, is_fresh


class State(StrEnum):
    """The states this version tells apart; the codes are those of `CardState.State`."""

    FREE = "free"
    IN_USE = "in_use"
    OVERRUN = "overrun"
    UNBOOKED = "unbooked"
    CONTESTED = "contested"
    NOT_VISIBLE = "not_visible"
    UNKNOWN = "unknown"
    OFFLINE = "offline"


@dataclass(frozen=True)
class Heartbeat:
    """The host's latest reading: when the server got it, and what was wrong with host or clocks."""

    heard_at: datetime
    problem: str = ""
    clock_offset_s: float = 0.0

    def clock_agrees(self, policy: Policy) -> bool:
        """Whether host and server agree on the time (I1)."""
        return abs(self.clock_offset_s) <= policy.clock_tolerance_s


@dataclass(frozen=True)
class CardFacts:
    """What is known of one card: recent looks in order of time, whose time it is or was, and open overruns.

    `last_at` is the time of its last sample ever, also when too old for `looks`; None = there was none.
    """

    looks: Sequence[Look]
    tenures: Sequence[Tenure]
    last_at: datetime | None
    open_overruns: frozenset[int] = frozenset()
    baseline: int = 0

    @property
    def newest(self) -> Look | None:
        return self.looks[-1] if self.looks else None


@dataclass(frozen=True)
class Verdict:
    """The state of a card from `at` on, and what it rests on. `under`: allocations under which their holder was seen."""

    state: State
    at: datetime
    look: Look | None = None
    member_ids: tuple[int, ...] = ()
    under: tuple[int, ...] = ()


def judge(card: CardFacts, host: Heartbeat, *, now: datetime, policy: Policy, period: timedelta) -> Verdict | None:
    """The card's state; None when nothing new can be said (never sampled, or the last word still stands).

    Silence is dated from the instant at which it became too long, so judging it again says the same again.
    """
    if host.problem or not host.clock_agrees(policy):
        return _silence(host.heard_at, now, timedelta(0), policy)
    look = card.newest
    if look is None or not is_fresh(look.at, now, period):
        return None if card.last_at is None else _silence(card.last_at, now, FRESH_PERIODS * period, policy)
    if look.problem:
        return Verdict(State.OFFLINE if look.problem == "lost" else State.UNKNOWN, look.at, look)
    if look.processes is None:
        return Verdict(State.UNKNOWN, look.at, look)
    return _of_processes(card, look, policy)


def _silence(last: datetime, now: datetime, patience: timedelta, policy: Policy) -> Verdict | None:
    offline_after = timedelta(seconds=policy.lost_after_s)
    if now - last > offline_after:
        return Verdict(State.OFFLINE, last + offline_after)
    if now - last >= patience:
        return Verdict(State.UNKNOWN, last + patience)
    return None


def _of_processes(card: CardFacts, look: Look, policy: Policy) -> Verdict:
    using = look.users
    members = {one.member_id for one in using if one.is_sure and one.member_id is not None}
    holders = [one for one in card.tenures if one.holds_at(look.at)]
    staying = {member for one in card.tenures for member in overstaying(one, card, look, policy)}
    strangers = members - {member for one in holders for member in one.people} - staying
    at_home = tuple(one.allocation_id for one in holders if one.people & members)
    if staying:  # before contested and unbooked use (I4)
        state = State.OVERRUN
    elif strangers:
        state = State.CONTESTED if holders else State.UNBOOKED
    elif members:
        state = State.IN_USE
    elif using:
        state = State.UNKNOWN  # somebody is there, nobody can say who
    else:
        state = _of_memory(card, look)
    return Verdict(state, look.at, look, tuple(sorted(members)), at_home)


def overstaying(tenure: Tenure, card: CardFacts, look: Look, policy: Policy) -> set[int]:
    """Who of its people is seen there after the end: in the grace too, where it has no consequence yet."""
    if tenure.end > look.at:
        return set()
    late = look.at > tenure.end + timedelta(seconds=policy.overrun_first_sight_s)
    if late and tenure.allocation_id not in card.open_overruns:
        return set()
    seen = look.proof_against(tenure.staying(card.tenures, look.at))
    return {one.member_id for one in seen if one.member_id is not None}


def _of_memory(card: CardFacts, look: Look) -> State:
    """Nobody computes there. Utilisation says nothing: drivers show 100 % on idle cards (I2)."""
    taken = look.holds_memory(card.baseline)
    if taken is None:
        return State.UNKNOWN
    return State.NOT_VISIBLE if taken else State.FREE
