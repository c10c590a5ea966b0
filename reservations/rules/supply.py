"""Which cards there are for a request: taken ones, the emergency reserve, quick cards, and the choice (G)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from .allocation import Blocker, Candidate, Choice, choose, choose_with_blockers, preference, waste_beside
from .displacement import may_be_displaced
from .facts import Ask, Card, Closed, Facts, Holding, Kept, PoolFacts
from .interval import Interval, most_at_once
from .kinds import Kind
from .policy import Policy
from .rank import Rank
from .refusal import Alternative, Code, Refusal
from .week import day_start, last_day, local_date


def card_refusals(ask: Ask, facts: Facts) -> Iterator[Refusal]:
    """Everything against the cards asked for by name (G1, G5)."""
    if not ask.is_named and ask.count < 1:
        yield Refusal(Code.NO_CARDS)
    if any(card_id not in facts.cards for card_id in ask.card_ids):
        yield Refusal(Code.CARD_UNKNOWN)
    yield from service_refusals(facts.cards[i] for i in ask.card_ids if i in facts.cards)


def service_refusals(cards: Iterable[Card]) -> Iterator[Refusal]:
    """A refusal that names the cards out of service: what is booked on them stays, nothing is added (G5)."""
    if out := [card.label for card in cards if not card.in_service]:
        yield Refusal(Code.CARD_OUT_OF_SERVICE, {"cards": out})


def taken_refusals(ask: Ask, facts: Facts, held: Interval) -> Iterator[Refusal]:
    """For each named card that somebody holds: who, and from when to when (C3)."""
    per_card: dict[int, list[Holding]] = defaultdict(list)
    for one in facts.holdings:
        if one.card_id in set(ask.card_ids) and one.interval.overlaps(held):
            per_card[one.card_id].append(one)
    for card_id in sorted(per_card):
        card = facts.cards.get(card_id)
        yield taken(min(per_card[card_id], key=lambda one: one.interval), card.label if card else str(card_id))


def taken(held_by: Holding, label: str, instead: Alternative | None = None) -> Refusal:
    """That somebody holds the card, who and from when to when (C3); that it is offered to somebody, until when (K5); or that
    it serves nobody then (G5, G6)."""
    said: dict[str, Any] = {"card": label, "start": held_by.interval.start, "end": held_by.interval.end}
    if held_by.closed is not None:
        return Refusal(Code.MAINTENANCE if held_by.closed == Closed.MAINTENANCE else Code.CARD_LOST, said, instead)
    said |= {"holder": held_by.holder_name, "reservation": held_by.reservation_id}
    if held_by.offer_until is not None:
        return Refusal(Code.CARD_OFFERED, {**said, "until": held_by.offer_until}, instead)
    return Refusal(Code.CARD_TAKEN, said, instead)


def kept_refusals(ask: Ask, facts: Facts, held: Interval) -> Iterator[Refusal]:
    """Named cards that go to somebody who waits first (K5), or on which a walk-in is not renewed (D2).

    What somebody holds already is refused for that: between serving one and the end of the round it may be both.
    """
    found: dict[int, Kept] = {}
    free = set(ask.card_ids) - {one.card_id for one in facts.holdings if one.interval.overlaps(held)}
    for one in facts.kept:
        if one.card_id in free and one.interval.overlaps(held) and (one.until or one.is_renewal):
            found.setdefault(one.card_id, one)
    for card_id, one in sorted(found.items()):
        card = facts.cards.get(card_id)
        said = {"card": card.label if card else str(card_id), "until": one.until}
        yield Refusal(Code.NOT_RENEWED if one.is_renewal else Code.WAITLIST_FIRST, said)


def kept_cards(facts: Facts, held: Interval) -> set[int]:
    """The cards that go to somebody who waits first for a part of this time: the system chooses none of them (K5, H4)."""
    return {one.card_id for one in facts.kept if one.interval.overlaps(held)}


def choices(ask: Ask, facts: Facts, held: Interval, kind: Kind) -> list[tuple[int, ...]]:
    """The cards a request by count may get, of each pool the best, best first (G2); none when too few are free."""
    by_card = _intervals(facts)
    # One pool at a time: its reserve, its windows and its price are its own.
    chosen: list[list[Candidate]] = []
    for pool_id, rows in _candidates(ask, facts, held, kind).items():
        room = room_in_pool(facts.pools[pool_id], facts, held, kind, ask.tier)
        free = [one for one in rows if not any(other.overlaps(held) for other in by_card[one.card_id])]
        found = choose(free, ask.count, several_hosts=ask.several_hosts) if room >= ask.count else None
        if found:
            chosen.append([one for one in free if one.card_id in found])
    return [
        tuple(one.card_id for one in sorted(rows, key=lambda one: (one.bus_id, one.host, one.card_id)))
        for rows in sorted(chosen, key=preference)
    ]


def displacing_choices(ask: Ask, facts: Facts, held: Interval, kind: Kind, rank: Rank) -> list[Choice]:
    """The cards a request by count may get by displacing others, of each pool the best, best first (D4, E4)."""
    found = []
    for pool_id, rows in _candidates(ask, facts, held, kind).items():
        blockers = {one.card_id: _blockers(one.card_id, facts, held, kind, rank) for one in rows}
        possible = [one for one in rows if blockers[one.card_id] is not None]
        choice = choose_with_blockers(
            possible, {card_id: ones for card_id, ones in blockers.items() if ones}, ask.count,
            several_hosts=ask.several_hosts, leaves_room=_leaves_room(facts.pools[pool_id], facts, held, kind, ask),
        )
        if choice:
            found.append(choice)
    return sorted(found, key=lambda choice: choice.worth)


def displacing_named(ask: Ask, facts: Facts, held: Interval, kind: Kind, rank: Rank) -> frozenset[int] | None:
    """Who must make room for the named cards (nobody, if all are free), or None when somebody is there to stay (D4)."""
    displaced: set[int] = set()
    for card_id in ask.card_ids:
        blockers = _blockers(card_id, facts, held, kind, rank)
        if blockers is None:
            return None
        displaced |= {one.reservation_id for one in blockers}
    return frozenset(displaced)


def equal_free(ask: Ask, facts: Facts, held: Interval, kind: Kind) -> tuple[int, ...] | None:
    """Free cards like the named ones, each of the same pool and model, on no more hosts; None when there are too few (D4)."""
    named = [facts.cards[card_id] for card_id in ask.card_ids]
    taken = {one.card_id for one in facts.holdings if one.interval.overlaps(held)} | kept_cards(facts, held)
    wanted = Counter((card.pool_id, card.model) for card in named)
    instead: list[int] = []
    for (pool_id, model), count in sorted(wanted.items()):
        kept = [card for card in named if (card.pool_id, card.model) == (pool_id, model) and card.id not in taken]
        hosts = {card.host for card in named}
        others = [
            card for card in facts.mates.values()
            if (card.pool_id, card.model) == (pool_id, model) and card.in_service and card.id not in {*taken, *ask.card_ids}
            and card.host in hosts and (kind != Kind.WALK_IN or card.pickable)
        ]
        others.sort(key=lambda card: (card.bus_id, card.host, card.id))
        if len(kept) + len(others) < count or room_in_pool(facts.pools[pool_id], facts, held, kind, ask.tier) < count:
            return None
        instead += [card.id for card in [*kept, *others][:count]]
    return tuple(sorted(instead))


def _intervals(facts: Facts) -> dict[int, list[Interval]]:
    by_card: dict[int, list[Interval]] = defaultdict(list)
    for one in facts.holdings:
        by_card[one.card_id].append(one.interval)
    return by_card


def _candidates(ask: Ask, facts: Facts, held: Interval, kind: Kind) -> dict[int, list[Candidate]]:
    """Per pool, in order, the cards that the request would take, were they free."""
    by_card, kept = _intervals(facts), kept_cards(facts, held)
    candidates: dict[int, list[Candidate]] = defaultdict(list)
    for card in facts.cards.values():
        if fits(card, ask) and card.id not in kept and (kind != Kind.WALK_IN or card.pickable):
            waste = waste_beside(held, by_card[card.id], facts.now)
            candidates[card.pool_id].append(Candidate(card.id, card.host, card.bus_id, waste, card.id == facts.used_last))
    return dict(sorted(candidates.items()))


def _blockers(card_id: int, facts: Facts, held: Interval, kind: Kind, rank: Rank) -> list[Blocker] | None:
    """Who must make room on the card; None when one of them need not."""
    blockers = []
    for one in facts.holdings:
        if one.card_id != card_id or not one.interval.overlaps(held):
            continue
        if one.claim is None or not may_be_displaced(one, rank, kind, facts):
            return None
        blockers.append(Blocker(one.reservation_id, one.claim.rank, one.claim.cost, one.claim.booked_at))
    return blockers


def _leaves_room(
    pool: PoolFacts, facts: Facts, held: Interval, kind: Kind, ask: Ask
) -> Callable[[frozenset[int]], bool]:
    def leaves_room(displaced: frozenset[int]) -> bool:
        return room_in_pool(pool, without(facts, displaced), held, kind, ask.tier) >= ask.count

    return leaves_room


def without(facts: Facts, displaced: frozenset[int]) -> Facts:
    """The facts once these reservations hold nothing any more."""
    return replace(facts, holdings=[one for one in facts.holdings if one.reservation_id not in displaced])


def fits(card: Card, ask: Ask) -> bool:
    """Whether a request by count may get the card, were it free."""
    return (
        card.in_service
        and (ask.pool_id is None or card.pool_id == ask.pool_id)
        and (ask.model is None or card.model == ask.model)
        and (ask.min_memory is None or (card.memory is not None and card.memory >= ask.min_memory))
    )


def room_in_pool(
    pool: PoolFacts, facts: Facts, held: Interval, kind: Kind, tier: str, *, whole: Interval | None = None
) -> int:
    """How many more cards of the pool this request may take at every instant of `held`, by G4 and G7.

    `whole`: the time of the whole reservation where `held` is only what is added to it; its length is what counts.

    The emergency reserve is a count: the strongest, granted tiers use it first; others only as walk-ins of at most 2 h.
    Quick cards are kept on working days from reservations longer than 2 h.
    """
    policy = facts.policy
    holdings = [one for one in facts.holdings if one.card_id in pool.card_ids and one.interval.overlaps(held)]
    whole = whole or held
    reserve = reserve_kept(pool, policy, kind, tier, whole.length)
    room = len(pool.card_ids) - reserve - _beside_reserve([(one, one.interval) for one in holdings], reserve, policy)
    quick = timedelta(seconds=policy.quick_s)
    if whole.length > quick and (days := working_days(held, pool)):
        long_ones = [
            (one, part) for one in holdings if one.interval.length > quick
            for day in days if (part := one.interval.cut(day))
        ]
        room = min(room, len(pool.card_ids) - reserve - pool.quick - _beside_reserve(long_ones, reserve, policy))
    return max(room, 0)


def _beside_reserve(held: Sequence[tuple[Holding, Interval]], reserve: int, policy: Policy) -> int:
    """The most cards held at one instant beside the emergency reserve, which the granted tiers use first."""
    others = most_at_once(span for one, span in held if one.tier not in policy.granted_tiers)
    return max(others, most_at_once(span for _, span in held) - reserve)


def reserve_kept(pool: PoolFacts, policy: Policy, kind: Kind, tier: str, length: timedelta) -> int:
    """The cards that the pool keeps back from such a reservation for emergencies (G4)."""
    short = length <= timedelta(seconds=policy.reserve_walk_in_s)
    return 0 if tier in policy.granted_tiers or (kind == Kind.WALK_IN and short) else pool.reserve


def reserve_taken(
    card_ids: Sequence[int], facts: Facts, held: Interval, kind: Kind, tier: str, *, whole: Interval | None = None
) -> int:
    """How many of these cards are taken of their pools' emergency reserves: as many as others would be refused (G4).

    `whole` as in `room_in_pool`.
    """
    taken = 0
    for pool in facts.pools.values():
        count = sum(card_id in pool.card_ids for card_id in card_ids)
        if pool.reserve and count and not reserve_kept(pool, facts.policy, kind, tier, (whole or held).length):
            holdings = [one.interval for one in facts.holdings if one.card_id in pool.card_ids and one.interval.overlaps(held)]
            free = len(pool.card_ids) - pool.reserve - most_at_once(holdings)
            taken += min(max(count - max(free, 0), 0), pool.reserve)
    return taken


def working_days(span: Interval, pool: PoolFacts) -> list[Interval]:
    """The parts of the span in the lab's working days (G7)."""
    zone = pool.timetable.zone
    day, last, found = local_date(span.start, zone), last_day(span, zone), []
    while day <= last:
        following = day + timedelta(days=1)
        part = span.cut(Interval(day_start(day, zone), day_start(following, zone)))
        if part and pool.timetable.is_working(day):
            found.append(part)
        day = following
    return found


def reserve_refusals(ask: Ask, facts: Facts, held: Interval, kind: Kind) -> Iterator[Refusal]:
    """Named cards that only the pool's emergency reserve or quick cards would leave (G4, G7)."""
    per_pool: dict[int, int] = defaultdict(int)
    for card_id in ask.card_ids:
        if card_id in facts.cards:
            per_pool[facts.cards[card_id].pool_id] += 1
    for pool_id, count in sorted(per_pool.items()):
        pool = facts.pools.get(pool_id)
        if pool and (pool.reserve or pool.quick) and room_in_pool(pool, facts, held, kind, ask.tier) < count:
            yield Refusal(Code.RESERVE_KEPT, {"reserve": pool.reserve, "quick": pool.quick})
