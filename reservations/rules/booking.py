"""Whether a request for cards is allowed: every reason why not, at once, or the plan that is to be written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from .facts import Ask, Card, Facts, Holding, PoolFacts, period
from .interval import Interval, most_at_once, whole_seconds
from .kinds import Kind, kind_of
from .policy import Policy
from .quota import Price, allowance_units, charge, free_first, longest_affordable, no_dearer, overdrawn, priced
from .rank import Rank, lowered
from .refusal import Alternative, Code, Refusal
from .supply import (
    card_refusals,
    choices,
    displacing_choices,
    displacing_named,
    equal_free,
    reserve_refusals,
    service_refusals,
    taken_refusals,
    without,
)
from .times import day_refusals, time_refusals, walk_in_card_refusals, walk_in_refusals, window_refusals
from .week import local_date

LONGEST_LOOK = timedelta(days=366)  # longer is refused before; its windows are not worth laying out

__all__ = [
    "Ask", "Card", "Decision", "Facts", "Holding", "Plan", "PoolFacts", "Refusal", "crowd_refusals", "day_refusals",
    "decide", "period", "prices_for", "quota_refusals", "service_refusals", "walk_in_card_refusals", "window_refusals",
]


@dataclass(frozen=True)
class Plan:
    """What an allowed request becomes: its cards, time and kind, each card's price, and its rank for good (C3).

    `displaced`: the reservations that make room for it (D4, E4).
    """

    card_ids: tuple[int, ...]
    held: Interval
    kind: Kind
    prices: Mapping[int, Price]
    rank: Rank
    displaced: frozenset[int] = frozenset()

    @property
    def is_elastic(self) -> bool:
        """Whether it is beyond the allowance, on an account of its own (E4)."""
        return bool(self.rank[0])


@dataclass(frozen=True)
class Decision:
    """Either refusals (all of them, in the order of the law's sections) or a plan."""

    refusals: tuple[Refusal, ...]
    plan: Plan | None = None


def decide(ask: Ask, facts: Facts) -> Decision:
    """The law's answer to a request."""
    refusals = [*time_refusals(ask, facts), *_people(facts), *_tier(ask, facts), *card_refusals(ask, facts)]
    held = period(ask, facts)
    if held is None:
        return Decision(tuple(refusals))
    kind = kind_of(held.start, facts.now, facts.zone, facts.policy.freezing)
    rank: Rank = (0, lowered(ask.tier, facts.steps, facts.policy)) if ask.tier in facts.policy.tiers else (0, 0)
    ways = _ways(ask, facts, held, kind, rank)
    offer = ways.offer
    refusals += [*ways.refusals, *offer.windows]
    if kind == Kind.WALK_IN:
        refusals += walk_in_refusals(held, ask.wanted, ask, facts)
    elastic = bool(offer.quota) and _may_be_elastic(ask, offer, facts, held)
    refusals += [*_caps(ask, facts, held), *(() if elastic else offer.quota)]
    if refusals or not offer.prices:
        return Decision(tuple(refusals))
    return Decision((), Plan(offer.card_ids, held, kind, offer.prices, (int(elastic), rank[1]), offer.displaced))


def _may_be_elastic(ask: Ask, offer: _Offer, facts: Facts, held: Interval) -> bool:
    """Beyond the allowance: with a start within 48 hours, on free cards (E4)."""
    policy = facts.policy
    soon = held.start <= facts.now + timedelta(seconds=policy.elastic_within_s)
    return policy.elastic and ask.elastic and soon and not offer.displaced


@dataclass(frozen=True)
class _Offer:
    """Cards that could serve, their prices, what their pools' windows and the allowance say against them, and whom they
    displace."""

    card_ids: tuple[int, ...]
    windows: Sequence[Refusal]
    quota: Sequence[Refusal]
    prices: Mapping[int, Price]
    displaced: frozenset[int] = frozenset()


_NOTHING = _Offer((), (), (), {})


@dataclass(frozen=True)
class _Ways:
    """The best cards for a request, or the first that say why not, and what is against all."""

    offer: _Offer
    refusals: Sequence[Refusal] = ()


def _ways(ask: Ask, facts: Facts, held: Interval, kind: Kind, rank: Rank) -> _Ways:
    if ask.is_named:
        return _named(ask, facts, held, kind, rank)
    if ask.count < 1:
        return _Ways(_offer((), ask, facts, held, kind))
    # The first that its pool's windows and price allow; then the first by displacing (D4: only when no free card
    # satisfies); then a free one beyond the allowance. If there is none, the first says why.
    free = [_offer(card_ids, ask, facts, held, kind) for card_ids in choices(ask, facts, held, kind)]
    found = next((one for one in free if not one.windows and not one.quota), None)
    if found is None:
        others = displacing_choices(ask, facts, held, kind, rank)
        if not facts.may_displace and not free and others:
            return _Ways(_NOTHING, [Refusal(Code.NOT_ENOUGH_CARDS, {"count": ask.count}), _barred(facts)])
        displacing = [
            _offer(choice.card_ids, ask, facts, held, kind, choice.displaced)
            for choice in others if facts.may_displace
        ]
        found = next((one for one in displacing if not one.windows and not one.quota), None)
        found = found or next((one for one in free if not one.windows), None) or next(iter([*free, *displacing]), None)
    if found is None:
        return _Ways(_NOTHING, [Refusal(Code.NOT_ENOUGH_CARDS, {"count": ask.count})])
    return _Ways(found)


def _barred(facts: Facts) -> Refusal:
    """That the member may not displace, until when or for which reason (J3, D6)."""
    return Refusal(Code.NO_DISPLACING, {"until": facts.no_displacing_until})


def _named(ask: Ask, facts: Facts, held: Interval, kind: Kind, rank: Rank) -> _Ways:
    """Named cards: whoever is in the way makes room, or stays; an equal free card is offered, never taken silently (D4)."""
    displaced = displacing_named(ask, facts, held, kind, rank) if _are_known(ask, facts) else None
    refusals: list[Refusal] = []
    if displaced is None:
        refusals += taken_refusals(ask, facts, held)
        displaced = frozenset()
    elif displaced and not facts.may_displace:
        refusals += [*taken_refusals(ask, facts, held), _barred(facts)]
        displaced = frozenset()
    elif displaced and (equal := equal_free(ask, facts, held, kind)):
        labels = [facts.mates[card_id].label for card_id in equal if card_id not in ask.card_ids]
        refusals.append(Refusal(Code.EQUAL_FREE, {"cards": labels}, Alternative({"cards": equal})))
    refusals += reserve_refusals(ask, without(facts, displaced), held, kind)
    return _Ways(_offer(ask.card_ids, ask, facts, held, kind, displaced), refusals)


def _are_known(ask: Ask, facts: Facts) -> bool:
    """Whether all the named cards exist."""
    return all(card_id in facts.cards for card_id in ask.card_ids)


def _offer(
    card_ids: tuple[int, ...], ask: Ask, facts: Facts, held: Interval, kind: Kind, displaced: frozenset[int] = frozenset()
) -> _Offer:
    cards = [facts.cards[card_id] for card_id in card_ids if card_id in facts.cards]
    if held.length > LONGEST_LOOK or not cards:
        return _Offer(card_ids, (), (), {}, displaced)
    pools = [facts.pools[pool_id] for pool_id in sorted({card.pool_id for card in cards}) if pool_id in facts.pools]
    windows = window_refusals(held, kind, pools, asked_start=ask.start, policy=facts.policy, zone=facts.zone)
    prices = prices_for(cards, held, kind, facts)
    if ask.at_most is not None:
        prices = {card_id: no_dearer(price, ask.at_most) for card_id, price in prices.items()}
    return _Offer(card_ids, windows, list(_quota(ask, facts, cards, prices)), prices, displaced)


def prices_for(cards: Sequence[Card], held: Interval, kind: Kind, facts: Facts) -> dict[int, Price]:
    """The price of each card over the interval: its pool's rates, and a walk-in's free time (D2, F2)."""
    prices: dict[int, Price] = {}
    left: dict[date, int] = {}
    if kind == Kind.WALK_IN:
        budget = facts.policy.walk_in_free_hours * 3600
        day, last = local_date(held.start, facts.zone), local_date(held.end, facts.zone)
        while day <= last:
            left[day] = max(budget - facts.free_used.get(day, 0), 0)
            day += timedelta(days=1)
    for card in cards:
        pool = facts.pools[card.pool_id]
        price = priced(pool.timetable.segments(held))
        prices[card.id] = free_first(price, len(cards), left, facts.zone) if any(left.values()) else price
    return prices


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


def _caps(ask: Ask, facts: Facts, held: Interval) -> Iterator[Refusal]:
    policy = facts.policy
    yield from crowd_refusals(held, ask.wanted, facts.own, policy, facts.member_role)
    most = policy.most_ahead(facts.member_role)
    if held.start > facts.now and facts.own_future + 1 > most:
        yield Refusal(Code.OPEN_FUTURE, {"most": most})


def crowd_refusals(held: Interval, cards: int, own: Sequence[Holding], policy: Policy, role: str) -> Iterator[Refusal]:
    """A refusal when with `cards` more the member would hold too many at some instant of `held` (B1)."""
    cap = policy.most_cards(role)
    mine = [one.interval.cut(held) for one in own]
    most = most_at_once(one for one in mine if one) + cards if cards else 0
    if most > cap:
        # `held` spans all of it, so the most at once is what the member has at the fullest instant, and these.
        yield Refusal(Code.CARDS_AT_ONCE, {"most": cap, "would": most})


def _quota(ask: Ask, facts: Facts, cards: Sequence[Card], prices: Mapping[int, Price]) -> Iterator[Refusal]:
    role = facts.policy.role(facts.member_role)
    if role is None:
        return  # another refusal says so already
    yield from quota_refusals(
        [(prices[card.id], card.weight) for card in cards], used=facts.used, allowance=allowance_units(role.weekly_hours),
        zone=facts.zone, policy=facts.policy, asked_start=ask.start,
    )


def quota_refusals(
    cards: Sequence[tuple[Price, int]], *, used: Mapping[date, int], allowance: int, zone: ZoneInfo, policy: Policy,
    asked_start: datetime | None,
) -> Iterator[Refusal]:
    """A refusal for each week whose allowance these cards' time overdraws, with the longest that would fit (E2)."""
    charges = charge(cards, zone)
    short = overdrawn(charges, used, allowance)
    if not short:
        return
    start = cards[0][0][0].interval.start
    fits = longest_affordable(cards, used, allowance, zone, policy.raster_s)
    usable = fits is not None and whole_seconds(start, fits) >= policy.shortest_s
    for week, missing in sorted(short.items()):
        yield Refusal(
            Code.QUOTA,
            {
                "week": week, "used": used.get(week, 0), "allowance": allowance, "needs": charges[week],
                "missing": missing, "fits": fits,
            },
            Alternative({"start": asked_start, "end": fits}) if usable else None,
        )
