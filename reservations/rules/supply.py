"""Which cards there are for a request: taken ones, the emergency reserve, quick cards, and the choice (G)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import timedelta

from .allocation import Candidate, choose, preference, waste_beside
from .facts import Ask, Card, Facts, Holding, PoolFacts
from .interval import Interval, most_at_once
from .kinds import Kind
from .policy import Policy
from .refusal import Code, Refusal


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
        held_by = min(per_card[card_id], key=lambda one: one.interval)
        card = facts.cards.get(card_id)
        yield Refusal(
            Code.CARD_TAKEN,
            {
                "card": card.label if card else str(card_id), "holder": held_by.holder_name,
                "start": held_by.interval.start, "end": held_by.interval.end, "reservation": held_by.reservation_id,
            },
        )


def choices(ask: Ask, facts: Facts, held: Interval, kind: Kind) -> list[tuple[int, ...]]:
    """The cards a request by count may get, of each pool the best, best first (G2); none when too few are free."""
    by_card: dict[int, list[Interval]] = defaultdict(list)
    for one in facts.holdings:
        by_card[one.card_id].append(one.interval)
    room = {
        pool_id: room_in_pool(pool, facts, held, kind, ask.tier) for pool_id, pool in facts.pools.items()
    }
    candidates: dict[int, list[Candidate]] = defaultdict(list)
    for card in facts.cards.values():
        if not fits(card, ask) or any(one.overlaps(held) for one in by_card[card.id]):
            continue
        if kind == Kind.WALK_IN and not card.pickable:
            continue
        waste = waste_beside(held, by_card[card.id], facts.now)
        candidates[card.pool_id].append(Candidate(card.id, card.host, card.bus_id, waste, card.id == facts.used_last))
    # One pool at a time: its reserve, its windows and its price are its own.
    chosen: list[list[Candidate]] = []
    for pool_id, rows in sorted(candidates.items()):
        found = choose(rows, ask.count, several_hosts=ask.several_hosts) if room[pool_id] >= ask.count else None
        if found:
            chosen.append([one for one in rows if one.card_id in found])
    return [
        tuple(one.card_id for one in sorted(rows, key=lambda one: (one.bus_id, one.host, one.card_id)))
        for rows in sorted(chosen, key=preference)
    ]


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
    granted = [one.interval for one in holdings if one.tier in policy.granted_tiers]
    others = [one.interval for one in holdings if one.tier not in policy.granted_tiers]
    whole = whole or held
    reserve = reserve_kept(pool, policy, kind, tier, whole.length)
    beside = most_at_once(others) + max(most_at_once(granted) - reserve, 0)
    taken = beside if reserve else most_at_once([*others, *granted])
    room = len(pool.card_ids) - reserve - taken
    if whole.length > timedelta(seconds=policy.quick_s) and touches_working_day(held, pool):
        long_ones = [
            one.interval for one in holdings if one.interval.length > timedelta(seconds=policy.quick_s)
        ]
        room = min(room, len(pool.card_ids) - reserve - pool.quick - most_at_once(long_ones))
    return max(room, 0)


def reserve_kept(pool: PoolFacts, policy: Policy, kind: Kind, tier: str, length: timedelta) -> int:
    """The cards that the pool keeps back from such a reservation for emergencies (G4)."""
    short = length <= timedelta(seconds=policy.reserve_walk_in_s)
    return 0 if tier in policy.granted_tiers or (kind == Kind.WALK_IN and short) else pool.reserve


def touches_working_day(held: Interval, pool: PoolFacts) -> bool:
    """Whether a part of it lies in a working day of the lab (G7)."""
    day = held.start.astimezone(pool.timetable.zone).date()
    last = (held.end - timedelta(microseconds=1)).astimezone(pool.timetable.zone).date()
    while day <= last:
        if pool.timetable.is_working(day):
            return True
        day += timedelta(days=1)
    return False


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
