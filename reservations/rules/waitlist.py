"""The waitlist: who goes first, where a wish finds its place, and what is kept for those who wait (K5, D2, H4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from . import slots
from .booking import Plan, decide
from .facts import Ask, Card, Facts, Kept
from .interval import Interval
from .policy import Policy
from .refusal import Code
from .supply import fits
from .week import local_date, round_to_raster, rule_instant

DAY, TINY = timedelta(days=1), timedelta(microseconds=1)
# What no waiting mends.
HOPELESS = {
    Code.NOT_APPROVED, Code.ROLE_UNKNOWN, Code.NO_CARDS, Code.CARD_UNKNOWN, Code.CARD_OUT_OF_SERVICE, Code.TIER_UNKNOWN,
    Code.TIER_NEEDS_GRANT, Code.TOO_SHORT, Code.TOO_LONG, Code.PROJECT_UNKNOWN, Code.PROJECT_CLOSED, Code.NOT_IN_PROJECT,
    Code.TIER_NEEDS_PROJECT,
}


@dataclass(frozen=True)
class Wish:
    """What somebody waits for: `ask` names cards and tier (its times say nothing), for `length`, to start at `earliest` or
    later and to end by `latest`.

    `asks_first`: it is offered, not booked. `rank` smaller = stronger. `held_lately`: the member's card time of the last
    days. `is_quiet`: it is a quiet hour of the member's.
    """

    id: int
    member_id: int
    ask: Ask
    length: timedelta
    earliest: datetime
    latest: datetime
    rank: tuple[int, int]
    since: datetime
    asks_first: bool = False
    held_lately: timedelta = timedelta()
    is_quiet: bool = False

    @property
    def is_served_now(self) -> bool:
        """Whether it takes part: in quiet hours only what is booked at once is served (K5)."""
        return not (self.asks_first and self.is_quiet)

    def is_over(self, now: datetime) -> bool:
        """Whether its length no longer fits before its latest end."""
        return max(now, self.earliest) + self.length > self.latest

    def wants(self, card: Card, span: Interval) -> bool:
        """Whether time on this card could be of use to it."""
        named = card.id in self.ask.card_ids if self.ask.is_named else fits(card, self.ask)
        return named and card.in_service and span.overlaps(Interval(self.earliest, self.latest))


def in_order(wishes: Iterable[Wish]) -> list[Wish]:
    """Strongest rank first, then fewest card-hours lately, then longest waiting (K5)."""
    return sorted(wishes, key=lambda one: (one.rank, one.held_lately, one.since, one.id))


def is_quiet(now: datetime, from_: time, to: time, zone: ZoneInfo) -> bool:
    """Whether it is a quiet hour on the clock of this zone; hours that end as they begin are none (K3)."""
    clock = now.astimezone(zone).time()
    return from_ <= clock < to if from_ <= to else clock >= from_ or clock < to


def quiet_until(now: datetime, from_: time, to: time, zone: ZoneInfo) -> datetime | None:
    """When the quiet hours end that it is now; None when it is none."""
    if not is_quiet(now, from_, to, zone):
        return None
    day = local_date(now, zone)
    end = rule_instant(datetime.combine(day, to), zone)
    return end if end > now else rule_instant(datetime.combine(day + DAY, to), zone)


def offer_until(held: Interval, now: datetime, policy: Policy) -> datetime:
    """Until when an offer of this time holds: longer when it lies a day or more ahead; not past a start that lies ahead (K5)."""
    ahead = held.start >= now + DAY
    until = now + timedelta(seconds=policy.offer_ahead_s if ahead else policy.offer_s)
    return min(until, held.start if held.start > now else held.end)


def earliest(wish: Wish, facts: Facts) -> Plan | None:
    """The earliest place that all rules allow the wish, displacing nobody; None where there is none.

    `facts` cover the whole time from now to the latest end. What starts now is only on cards seen free, also where cards are
    named: no person looks at it first (D2). An offer starts now, or not before an offer can have run out, so that its
    time is whole when it is taken.
    """
    now, policy = facts.now, facts.policy
    if wish.is_over(now):
        return None
    if wish.earliest <= now and (plan := _from_now(wish, facts)):
        return plan
    lead = timedelta(seconds=policy.offer_s) if wish.asks_first else TINY
    later = replace(wish.ask, start=max(now + lead, wish.earliest), end=wish.latest)
    return next(iter(slots.earliest(later, facts, length=wish.length, until=wish.latest)), None)


def _from_now(wish: Wish, facts: Facts) -> Plan | None:
    """A walk-in of the wished length up to the next step of the raster, or up to the one before where that is too long."""
    if any(not facts.cards[card_id].pickable for card_id in wish.ask.card_ids if card_id in facts.cards):
        return None
    for up in (True, False):
        end = round_to_raster(facts.now + wish.length, facts.policy.raster_s, facts.zone, up=up)
        if facts.now < end <= wish.latest:
            plan = decide(replace(wish.ask, start=None, end=end), replace(facts, may_displace=False)).plan
            if plan:
                return plan
    return None


# --- what is kept ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Freed:
    """Time on a card that was given back while somebody waited. `kept_until`: until when it is kept for the waitlist; None
    while the card has not been seen free often enough, when others may take it by name only (H4)."""

    card_id: int
    interval: Interval
    kept_until: datetime | None


def kept_from(member_id: int, freed: Iterable[Freed], wishes: Sequence[Wish], cards: Mapping[int, Card]) -> list[Kept]:
    """What of the freed time is kept from this member, each with the strongest rank of those who wait for it (K5)."""
    found = []
    for slot in freed:
        card = cards.get(slot.card_id)
        ranks = [
            one.rank for one in wishes
            if card and one.member_id != member_id and one.is_served_now and one.wants(card, slot.interval)
        ]
        if ranks:
            found.append(Kept(slot.card_id, slot.interval, min(ranks), slot.kept_until))
    return found
