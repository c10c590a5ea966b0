"""What can be had instead of a refused request: whole plans, each allowed as it stands (D5, G2). Nobody is displaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from .booking import Plan, decide
from .facts import Ask, Facts
from .interval import Interval
from .kinds import Kind, kind_of
from .refusal import Code
from .slots import Search, earliest, in_order, open_until
from .sources import sources
from .week import next_step, round_to_raster

_TINY = timedelta(microseconds=1)


class How(StrEnum):
    """In what another plan differs from the refused request."""

    OTHER_TIME = "other_time"  # the same length, on like cards, at the earliest start from the asked one on
    FEWER = "fewer"  # one card fewer, at the asked time
    SHORTER = "shorter"  # from the asked start, as long as can be had


@dataclass(frozen=True)
class Other:
    """A plan that can be had instead of a refused request."""

    how: How
    plan: Plan


# Reasons that another time, other or fewer cards may mend; and those that nothing of it does.
_MENDED = frozenset({
    Code.CARD_TAKEN, Code.NO_DISPLACING, Code.NOT_ENOUGH_CARDS, Code.RESERVE_KEPT, Code.CARD_OUT_OF_SERVICE, Code.IN_PAST,
    Code.DAY_NOT_OPEN, Code.TOO_LONG, Code.WINDOW_CLOSED, Code.WINDOW_WALK_IN, Code.WINDOW_LONG, Code.WINDOW_HOURS,
    Code.WALK_IN_WINDOW, Code.WALK_IN_LONG, Code.WALK_IN_CARDS, Code.CARDS_AT_ONCE, Code.QUOTA, Code.PROJECT_CARDS,
    Code.GRANT_DAYS, Code.GRANT_BUDGET, Code.FREE_HOURS_ONLY, Code.AFTER_LAST_DAY,
})
_NOT_MENDED = frozenset({
    Code.NOT_APPROVED, Code.ROLE_UNKNOWN, Code.TIER_UNKNOWN, Code.TIER_NEEDS_GRANT, Code.NO_CARDS, Code.CARD_UNKNOWN,
    Code.HOUSE_RULES, Code.PROJECT_UNKNOWN, Code.PROJECT_CLOSED, Code.NOT_IN_PROJECT, Code.PROJECT_NEEDED,
    Code.TIER_NEEDS_PROJECT,
})


def may_help(codes: Iterable[Code]) -> bool:
    """Whether it is worth looking for alternatives to what was refused for these reasons."""
    found = frozenset(codes)
    return bool(found & _MENDED) and not found & _NOT_MENDED


def alternatives(ask: Ask, facts: Facts, *, until: datetime | None = None, most: int = 3) -> list[Other]:
    """What can be had instead of a refused request: up to `most` plans, each of which `decide` allows, none inside another.

    First the same length on like cards (the pool and model of the named ones), at the earliest start from the asked one on;
    then one card fewer at the asked time; then shorter from the asked start. What is left is filled with the same length
    later on. `facts` must reach to `until` (the end of the open days unless given), over all cards of the pools asked.
    """
    policy, zone, facts = facts.policy, facts.zone, replace(facts, may_displace=False)
    start = facts.now if ask.start is None or ask.start <= facts.now else next_step(ask.start, policy.raster_s, zone)
    end = round_to_raster(ask.end, policy.raster_s, zone, up=True)
    last = open_until(facts.now, zone, policy)
    last = last if until is None else min(until, last)
    if start >= end or not ask.wanted:
        return []
    asked = replace(ask, start=None if start == facts.now else start, end=end)
    like = _like(asked, facts)
    slots = [] if (now := _now(like, facts)) is None else [now]
    slots += earliest(like, facts, length=end - start, until=last, several=most + 1, apart=end - start)
    slots = [_with_named(plan, asked, facts) for plan in slots]
    offered = [Other(How.OTHER_TIME, plan) for plan in slots[:1]]
    offered += [Other(How.FEWER, plan) for plan in _fewer(asked, like, facts)]
    # Like cards for less time help nobody who can have them for all of it.
    cut = {asked} if slots and slots[0].held == Interval(start, end) else dict.fromkeys((asked, like))
    offered += [Other(How.SHORTER, plan) for plan in _shorter(cut, facts, Interval(start, end), last)]
    offered += [Other(How.OTHER_TIME, plan) for plan in slots[1:]]
    kept: list[Other] = []
    for one in offered:
        if not any(_inside(one.plan, other.plan) for other in kept):
            kept.append(one)
    return kept[:most]


def _inside(plan: Plan, other: Plan) -> bool:
    """Whether the other has all its cards for all its time."""
    return set(plan.card_ids) <= set(other.card_ids) and plan.held.cut(other.held) == plan.held


def _now(like: Ask, facts: Facts) -> Plan | None:
    """A walk-in on like cards until the asked end: from a now between two steps that is no whole number of steps away."""
    return decide(like, facts).plan if like.start is None else None


def _like(ask: Ask, facts: Facts) -> Ask:
    """The request for as many cards like the named ones, if those are alike (D4: by pool and model); else the request."""
    if not ask.is_named:
        return ask
    cards = [facts.cards[card_id] for card_id in ask.card_ids if card_id in facts.cards]
    if len(cards) < len(ask.card_ids) or len({(card.pool_id, card.model) for card in cards}) > 1:
        return ask
    return replace(
        ask, card_ids=(), count=len(cards), pool_id=cards[0].pool_id, model=cards[0].model,
        several_hosts=ask.several_hosts or len({card.host for card in cards}) > 1,
    )


def _with_named(plan: Plan, ask: Ask, facts: Facts) -> Plan:
    """The same time on the cards that were named, where they can be had: no card is swapped without need."""
    if not ask.is_named or set(plan.card_ids) == set(ask.card_ids):
        return plan
    start = None if plan.kind == Kind.WALK_IN else plan.held.start
    return decide(replace(ask, start=start, end=plan.held.end), facts).plan or plan


def _fewer(ask: Ask, like: Ask, facts: Facts) -> list[Plan]:
    """One card fewer at the asked time, if that is allowed: of the named cards where it can be."""
    if ask.wanted < 2:
        return []
    tries = [replace(ask, card_ids=card_ids) for card_ids in _without_one(ask, facts)]
    if not like.is_named:
        tries.append(replace(like, count=like.count - 1))
    plan = next((plan for one in tries if (plan := decide(one, facts).plan)), None)
    return [plan] if plan else []


def _without_one(ask: Ask, facts: Facts) -> Iterator[tuple[int, ...]]:
    """The named cards without the one that is in the way; if none is, without one of each pool, the dearest first."""
    known = [facts.cards[card_id] for card_id in ask.card_ids if card_id in facts.cards]
    held = Interval(ask.start or facts.now, ask.end)
    taken = {one.card_id for one in facts.holdings if one.interval.overlaps(held)}
    in_the_way = [card for card in known if card.id in taken or not card.in_service]
    if len(in_the_way) > 1:
        return
    dropped = in_the_way or list({
        card.pool_id: card for card in sorted(known, key=lambda card: (card.weight, card.bus_id, card.id))
    }.values())[::-1]
    for one in dropped:
        yield tuple(card_id for card_id in ask.card_ids if card_id != one.id)


def _shorter(asks: Iterable[Ask], facts: Facts, held: Interval, last: datetime) -> list[Plan]:
    """From the asked start the longest that is allowed and shorter than asked, for the first of the requests if equal."""
    found = [_longest(one, facts, held, last) for one in asks]
    return sorted((plan for plan in found if plan), key=lambda plan: plan.held.length, reverse=True)[:1]


def _longest(ask: Ask, facts: Facts, held: Interval, last: datetime) -> Plan | None:
    """The longest plan from the start of `held` that ends before its end, and by `last`."""
    policy, zone, search = facts.policy, facts.zone, Search(facts)
    kind = kind_of(held.start, facts.now, zone, policy.freezing)
    ways = sources(ask, facts, Interval(facts.now, held.end), walk_in=kind == Kind.WALK_IN)
    limits = [source.free_until(held.start) for source in ways]
    end = round_to_raster(min(held.end - _TINY, last), policy.raster_s, zone, up=False)
    while limits and end - held.start >= timedelta(seconds=policy.shortest_s) and not search.is_over:
        plans = []
        for place, source in enumerate(ways):
            if end > limits[place] or not search.may(source, Interval(held.start, end), kind):
                continue
            decision = search.decide(replace(source.ask, start=ask.start, end=end))
            if decision.plan:
                plans.append(decision.plan)
            for one in decision.refusals:
                if one.code == Code.QUOTA:  # how far the allowance reaches from this start; nothing longer will be allowed
                    limits[place] = min(limits[place], one.facts["fits"] or held.start)
        if plans:
            return in_order(plans, ask, facts)[0]
        end = round_to_raster(min(end - _TINY, max(limits)), policy.raster_s, zone, up=False)
    return None
