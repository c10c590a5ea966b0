"""Whether a request for cards is allowed: every reason why not, at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from .interval import Interval, most_at_once
from .policy import Policy
from .quota import allowance_units, charge, longest_affordable, overdrawn
from .refusal import Alternative, Code, Refusal
from .week import last_day, last_open_day, on_raster, opens_at, round_to_raster


@dataclass(frozen=True)
class Ask:
    """A request as asked: named cards, a period (`start` None = from now), a tier."""

    card_ids: tuple[int, ...]
    start: datetime | None
    end: datetime
    tier: str


@dataclass(frozen=True)
class Card:
    """What a decision needs to know of a card."""

    id: int
    label: str
    weight: int
    in_service: bool


@dataclass(frozen=True)
class Holding:
    """One card held for one interval by one reservation."""

    card_id: int
    interval: Interval
    reservation_id: int
    holder_id: int
    holder_name: str


@dataclass(frozen=True)
class Facts:
    """Everything a decision rests on, read under the lock."""

    now: datetime
    zone: ZoneInfo
    policy: Policy
    member_id: int
    member_approved: bool
    member_role: str
    cards: Mapping[int, Card]
    holdings: Sequence[Holding]  # on the asked cards, overlapping the asked period
    own: Sequence[Holding]  # everything the member holds or will hold
    own_future: int  # the member's reservations that have not started
    used: Mapping[date, int]  # units charged per quota week


def period(ask: Ask, facts: Facts) -> Interval | None:
    """The interval that would be held: `now` for a start that is now or up to five minutes old (A4). None if empty."""
    start = ask.start
    oldest = facts.now - timedelta(seconds=facts.policy.form_age_s)
    if start is None or oldest <= start <= facts.now:
        start = facts.now
    return Interval(start, ask.end) if start < ask.end else None


def check(ask: Ask, facts: Facts) -> list[Refusal]:
    """All reasons against the request, in the order of the law's sections; empty when it is allowed."""
    refusals = [*_time(ask, facts), *_people(facts), *_tier(ask, facts), *_cards(ask, facts)]
    held = period(ask, facts)
    if held is not None:
        refusals += [*_taken(ask, facts, held), *_caps(ask, facts, held), *_quota(ask, facts, held)]
    return refusals


def _time(ask: Ask, facts: Facts) -> Iterator[Refusal]:
    policy, zone = facts.policy, facts.zone
    asked_start = ask.start or facts.now
    if asked_start >= ask.end:
        yield Refusal(Code.END_BEFORE_START)
        return
    steps = [ask.end] if ask.start is None else [ask.start, ask.end]
    if any(not on_raster(step, policy.raster_s, zone) for step in steps):
        start = ask.start and round_to_raster(ask.start, policy.raster_s, zone, up=False)
        end = round_to_raster(ask.end, policy.raster_s, zone, up=True)
        yield Refusal(Code.OFF_RASTER, {"minutes": policy.raster_s / 60}, Alternative({"start": start, "end": end}))
    length = ask.end - asked_start
    if length < timedelta(seconds=policy.shortest_s):
        end = round_to_raster(asked_start + timedelta(seconds=policy.shortest_s), policy.raster_s, zone, up=True)
        yield Refusal(Code.TOO_SHORT, {"minutes": policy.shortest_s / 60}, Alternative({"start": ask.start, "end": end}))
    if length > policy.longest:
        end = round_to_raster(asked_start + policy.longest, policy.raster_s, zone, up=False)
        yield Refusal(Code.TOO_LONG, {"hours": policy.longest_s / 3600}, Alternative({"start": ask.start, "end": end}))
    if ask.start is not None and ask.start < facts.now - timedelta(seconds=policy.form_age_s):
        yield Refusal(Code.IN_PAST, {"now": facts.now}, _same_length_later(ask, facts))
    yield from day_refusals(Interval(asked_start, ask.end), now=facts.now, zone=zone, policy=policy)


def day_refusals(held: Interval, *, now: datetime, zone: ZoneInfo, policy: Policy) -> Iterator[Refusal]:
    """A refusal when the time touches a day that is not open for booking yet (A4)."""
    last = last_day(held, zone)
    open_until = last_open_day(now, zone, days_before=policy.opens_days, at=policy.opens_time)
    if last > open_until:
        opens = opens_at(last, zone, days_before=policy.opens_days, at=policy.opens_time)
        yield Refusal(Code.DAY_NOT_OPEN, {"last_day": open_until, "opens": opens})


def _same_length_later(ask: Ask, facts: Facts) -> Alternative | None:
    assert ask.start is not None
    start = round_to_raster(facts.now, facts.policy.raster_s, facts.zone, up=True)
    return Alternative({"start": start, "end": start + (ask.end - ask.start)})


def _people(facts: Facts) -> Iterator[Refusal]:
    if not facts.member_approved:
        yield Refusal(Code.NOT_APPROVED)
    elif facts.policy.role(facts.member_role) is None:
        yield Refusal(Code.ROLE_UNKNOWN, {"role": facts.member_role})


def _tier(ask: Ask, facts: Facts) -> Iterator[Refusal]:
    if ask.tier not in facts.policy.tiers:
        yield Refusal(Code.TIER_UNKNOWN)
    elif ask.tier in facts.policy.granted_tiers:
        yield Refusal(Code.TIER_NEEDS_GRANT, {"tier": ask.tier})


def _cards(ask: Ask, facts: Facts) -> Iterator[Refusal]:
    if not ask.card_ids:
        yield Refusal(Code.NO_CARDS)
    if any(card_id not in facts.cards for card_id in ask.card_ids):
        yield Refusal(Code.CARD_UNKNOWN)
    yield from service_refusals(facts.cards[i] for i in ask.card_ids if i in facts.cards)


def service_refusals(cards: Iterable[Card]) -> Iterator[Refusal]:
    """A refusal that names the cards out of service: what is booked on them stays, nothing is added (G5)."""
    if out := [card.label for card in cards if not card.in_service]:
        yield Refusal(Code.CARD_OUT_OF_SERVICE, {"cards": out})


def _taken(ask: Ask, facts: Facts, held: Interval) -> Iterator[Refusal]:
    asked = set(ask.card_ids)
    clashes = [one for one in facts.holdings if one.card_id in asked and one.interval.overlaps(held)]
    per_card: dict[int, list[Holding]] = defaultdict(list)
    for one in clashes:
        per_card[one.card_id].append(one)
    for card_id in sorted(per_card):
        held_by = min(per_card[card_id], key=lambda one: one.interval)
        card = facts.cards.get(card_id)
        yield Refusal(
            Code.CARD_TAKEN,
            {
                "card": card.label if card else str(card_id),
                "holder": held_by.holder_name,
                "start": held_by.interval.start,
                "end": held_by.interval.end,
                "reservation": held_by.reservation_id,
            },
        )


def _caps(ask: Ask, facts: Facts, held: Interval) -> Iterator[Refusal]:
    policy = facts.policy
    yield from crowd_refusals(held, len(ask.card_ids), facts.own, policy)
    if held.start > facts.now and facts.own_future + 1 > policy.open_future:
        yield Refusal(Code.OPEN_FUTURE, {"most": policy.open_future})


def crowd_refusals(held: Interval, cards: int, own: Sequence[Holding], policy: Policy) -> Iterator[Refusal]:
    """A refusal when with `cards` more the member would hold too many at some instant of `held` (B1)."""
    mine = [one.interval.cut(held) for one in own]
    most = most_at_once([*(one for one in mine if one), *(held for _ in range(cards))])
    if most > policy.cards_at_once:
        yield Refusal(Code.CARDS_AT_ONCE, {"most": policy.cards_at_once, "would": most})


def _quota(ask: Ask, facts: Facts, held: Interval) -> Iterator[Refusal]:
    role = facts.policy.role(facts.member_role)
    if role is None or held.length > timedelta(days=366):
        return  # another refusal says so already
    weights = [facts.cards[i].weight for i in ask.card_ids if i in facts.cards]
    yield from quota_refusals(
        held, weights, used=facts.used, allowance=allowance_units(role.weekly_hours), facts_zone=facts.zone,
        policy=facts.policy, asked_start=ask.start,
    )


def quota_refusals(
    added: Interval, weights: Sequence[int], *, used: Mapping[date, int], allowance: int, facts_zone: ZoneInfo,
    policy: Policy, asked_start: datetime | None,
) -> Iterator[Refusal]:
    """A refusal for each week whose allowance the added time overdraws, with the longest that would fit (E2)."""
    charges = charge(added, weights, facts_zone)
    for week, missing in sorted(overdrawn(charges, used, allowance).items()):
        fits = longest_affordable(added.start, added.end, weights, used, allowance, facts_zone, policy.raster_s)
        alternative = None
        if fits and fits - added.start >= timedelta(seconds=policy.shortest_s):
            alternative = Alternative({"start": asked_start, "end": fits})
        yield Refusal(
            Code.QUOTA,
            {
                "week": week, "used": used.get(week, 0), "allowance": allowance, "needs": charges[week],
                "missing": missing, "fits": fits,
            },
            alternative,
        )

