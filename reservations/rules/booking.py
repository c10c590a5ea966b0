"""Whether a request for cards is allowed: every reason why not, at once, or the plan that is to be written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from .facts import Ask, Card, Facts, Holding, PoolFacts, period
from .hours import Account, uncovered
from .interval import Interval, most_at_once, whole_seconds
from .kinds import Kind, kind_of
from .policy import Policy
from .projects import (
    account_of,
    free_walk_in,
    grant_for,
    grant_refusals,
    mode_refusals,
    other_account,
    project_cap,
)
from .quota import Price, charge, free_first, longest_affordable, no_dearer, priced
from .rank import Rank, lowered
from .refusal import Alternative, Code, Refusal
from .supply import (
    card_refusals,
    choices,
    displacing_choices,
    displacing_named,
    equal_free,
    kept_refusals,
    reserve_refusals,
    reserve_taken,
    service_refusals,
    taken_refusals,
    without,
)
from .times import day_refusals, time_refusals, walk_in_card_refusals, walk_in_refusals, window_refusals
from .week import local_date, round_to_raster, weeks_of

LONGEST_LOOK = timedelta(days=366)  # longer is refused before; its windows are not worth laying out

__all__ = [
    "Ask", "Card", "Decision", "Facts", "Holding", "Plan", "PoolFacts", "Refusal", "crowd_refusals", "day_refusals",
    "decide", "free_refusals", "kept_from_rank", "period", "prices_for", "quota_refusals", "service_refusals",
    "walk_in_card_refusals", "window_refusals",
]


@dataclass(frozen=True)
class Plan:
    """What an allowed request becomes: its cards, time and kind, each card's price, and its rank for good (C3).

    `displaced`: the reservations that make room for it (D4, E4). `grant_id`: the deadline grant it is under (C2). `reserved`:
    how many cards it takes of emergency reserves (G4).
    """

    card_ids: tuple[int, ...]
    held: Interval
    kind: Kind
    prices: Mapping[int, Price]
    rank: Rank
    displaced: frozenset[int] = frozenset()
    grant_id: int | None = None
    reserved: int = 0

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
    facts = kept_from_rank(rank, facts)
    ways = _ways(ask, facts, held, kind, rank)
    offer = ways.offer
    refusals += [*_last_day(held, facts), *mode_refusals(ask, facts, kind), *grant_refusals(ask, facts, held)]
    refusals += [*ways.refusals, *offer.windows]
    if kind == Kind.WALK_IN and "D" not in facts.waived:
        refusals += walk_in_refusals(held, ask.wanted, ask, facts)
    elastic = bool(offer.quota) and _may_be_elastic(ask, offer, facts, held)
    refusals += [
        *_caps(ask, facts, held), *project_cap(ask, facts, held, offer.card_ids, offer.displaced),
        *(() if elastic else offer.quota),
    ]
    if refusals or not offer.prices:
        return Decision(tuple(refusals))
    granted = facts.project.grants if facts.project is not None and ask.tier in facts.policy.granted_tiers else ()
    grant = grant_for(granted, held, ask.wanted)
    reserved = reserve_taken(offer.card_ids, without(facts, offer.displaced), held, kind, ask.tier)
    return Decision((), Plan(
        offer.card_ids, held, kind, offer.prices, (int(elastic), rank[1]), offer.displaced, grant.id if grant else None, reserved,
    ))


def kept_from_rank(rank: Rank, facts: Facts) -> Facts:
    """The facts with what is kept for ranks as strong as this one, or stronger (K5)."""
    if not facts.kept:
        return facts
    return replace(facts, kept=tuple(one for one in facts.kept if one.is_renewal or one.rank <= rank))


def _may_be_elastic(ask: Ask, offer: _Offer, facts: Facts, held: Interval) -> bool:
    """Beyond the allowance: with a start within 48 hours, on free cards (E4)."""
    policy = facts.policy
    soon = held.start <= facts.now + timedelta(seconds=policy.elastic_within_s)
    beyond = all(one.code == Code.QUOTA for one in offer.quota)  # and not merely without a project (B5)
    return policy.elastic and ask.elastic and soon and beyond and not offer.displaced


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
    if found is None and not free and (first := _waitlist_first(ask, facts, held, kind)):
        return _Ways(_NOTHING, [first])
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


def _waitlist_first(ask: Ask, facts: Facts, held: Interval, kind: Kind) -> Refusal | None:
    """That there would be enough cards if nobody waited for them; nobody is displaced for want of those (K5, D4)."""
    kept = [one for one in facts.kept if one.interval.overlaps(held)]
    if not kept or not choices(ask, replace(facts, kept=()), held, kind):
        return None
    return Refusal(Code.WAITLIST_FIRST, {"card": "", "until": max((one.until for one in kept if one.until), default=None)})


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
    refusals += kept_refusals(ask, facts, held)
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
    windows = [] if "F" in facts.waived else windows
    prices = prices_for(cards, held, kind, facts)
    if ask.at_most is not None:
        prices = {card_id: no_dearer(price, ask.at_most) for card_id, price in prices.items()}
    quota = [] if "E" in facts.waived else list(_quota(ask, facts, cards, prices, kind))
    return _Offer(card_ids, windows, quota, prices, displaced)


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
    if not facts.rules_accepted:
        yield Refusal(Code.HOUSE_RULES)


def _last_day(held: Interval, facts: Facts) -> Iterator[Refusal]:
    until = facts.member_until
    if until is not None and held.end > until:
        yield Refusal(
            Code.AFTER_LAST_DAY, {"until": until}, Alternative({"end": until}) if held.start < until else None
        )


def _tier(ask: Ask, facts: Facts) -> Iterator[Refusal]:
    if ask.tier not in facts.policy.tiers:
        yield Refusal(Code.TIER_UNKNOWN)


def _caps(ask: Ask, facts: Facts, held: Interval) -> Iterator[Refusal]:
    policy = facts.policy
    if "B1" in facts.waived:
        return
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


def _quota(
    ask: Ask, facts: Facts, cards: Sequence[Card], prices: Mapping[int, Price], kind: Kind
) -> Iterator[Refusal]:
    account = account_of(ask, facts)
    if account is None:
        return  # another refusal says so already
    priced_cards = [(prices[card.id], card.weight) for card in cards]
    if free_walk_in(ask.project_id, facts.policy, kind):
        yield from free_refusals(priced_cards, zone=facts.zone, policy=facts.policy, asked_start=ask.start)
        return
    refusals = list(quota_refusals(priced_cards, account=account, zone=facts.zone, policy=facts.policy, asked_start=ask.start))
    yield from refusals
    if refusals:
        yield from other_account(ask, facts, refusals[0])


def quota_refusals(
    cards: Sequence[tuple[Price, int]], *, account: Account, zone: ZoneInfo, policy: Policy, asked_start: datetime | None,
) -> Iterator[Refusal]:
    """A refusal for each week whose allowance and one-off hours these cards' time overdraws, with the longest that would
    fit (E2, E5)."""
    charges = charge(cards, zone)
    start, end = cards[0][0][0].interval.start, cards[0][0][-1].interval.end
    short = uncovered(account, charges, dict(weeks_of(Interval(start, end), zone)), zone)
    if not short:
        return
    fits = longest_covered(cards, account, zone, policy.raster_s)
    usable = fits is not None and whole_seconds(start, fits) >= policy.shortest_s
    for week, missing in sorted(short.items()):
        room = max(account.allowance - account.used.get(week, 0), 0)
        yield Refusal(
            Code.QUOTA,
            {
                "week": week, "used": account.used.get(week, 0), "allowance": account.allowance, "needs": charges[week],
                "missing": missing, "fits": fits,
                "left": max(charges[week] - missing, room),
            },
            Alternative({"start": asked_start, "end": fits}) if usable else None,
        )


def longest_covered(
    cards: Sequence[tuple[Price, int]], account: Account, zone: ZoneInfo, raster_s: int
) -> datetime | None:
    """The latest end on the raster for which every week has room or one-off hours; None when not even one step fits."""
    if not account.grants:
        return longest_affordable(cards, account.used, account.allowance, zone, raster_s)
    start, end = cards[0][0][0].interval.start, cards[0][0][-1].interval.end
    step = timedelta(seconds=raster_s)
    first = round_to_raster(start, raster_s, zone, up=True)

    def fits(steps: int) -> bool:
        until = min(round_to_raster(first + steps * step, raster_s, zone, up=False), end)
        if until <= start:
            return True
        span = Interval(start, until)
        return not uncovered(account, charge(cards, zone, span), dict(weeks_of(span, zone)), zone)

    low, high = 0, (end - first) // step + 1
    if not fits(0):
        return None
    while low < high:  # what fits until an end fits until every earlier one
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    found = min(round_to_raster(first + low * step, raster_s, zone, up=False), end)
    return found if found > start else None


def free_refusals(
    cards: Sequence[tuple[Price, int]], *, zone: ZoneInfo, policy: Policy, asked_start: datetime | None
) -> Iterator[Refusal]:
    """A refusal when not all of these cards' time is free of charge, with the longest that would be (B5)."""
    if not charge(cards, zone):
        return
    start = cards[0][0][0].interval.start
    fits = longest_affordable(cards, {}, 0, zone, policy.raster_s)
    usable = fits is not None and whole_seconds(start, fits) >= policy.shortest_s
    yield Refusal(
        Code.FREE_HOURS_ONLY, {"hours": policy.walk_in_free_hours, "fits": fits if usable else None},
        Alternative({"start": asked_start, "end": fits}) if usable else None,
    )
