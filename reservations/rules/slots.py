"""Where a request fits: the earliest plans for it, under all rules. Nobody is displaced for them.

`decide` has the last word on every plan. What is asked before it (`sources`) only leaves out starts that it is sure to refuse,
so that it is asked a few times and not once for every step of the raster. A reason that is new to the law makes a search
slower, never wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from .booking import Decision, Plan, decide
from .facts import Ask, Facts
from .interval import Interval
from .kinds import Kind
from .policy import Policy
from .quota import charge
from .refusal import Code, Refusal
from .sources import Source, sources
from .supply import choices
from .week import day_start, last_open_day, next_step, round_to_raster, weeks_of

_TINY = timedelta(microseconds=1)
# Reasons that no other time mends; and those that no later one does.
_FOR_EVER = frozenset({
    Code.NOT_APPROVED, Code.ROLE_UNKNOWN, Code.TIER_UNKNOWN, Code.TIER_NEEDS_GRANT, Code.NO_CARDS, Code.CARD_UNKNOWN,
    Code.CARD_OUT_OF_SERVICE,
})
_FROM_NOW_ON = frozenset({Code.OPEN_FUTURE, Code.DAY_NOT_OPEN})


def open_until(now: datetime, zone: ZoneInfo, policy: Policy) -> datetime:
    """The end of the last lab day that is open for booking (A4): no reservation ends later."""
    last = last_open_day(now, zone, days_before=policy.opens_days, at=policy.opens_time)
    return day_start(last + timedelta(days=1), zone)


def earliest(
    ask: Ask, facts: Facts, *, length: timedelta, until: datetime, several: int = 1, apart: timedelta = timedelta(),
) -> list[Plan]:
    """The first `several` of `in_turn`."""
    return list(islice(in_turn(ask, facts, length=length, until=until, apart=apart), several))


def in_turn(
    ask: Ask, facts: Facts, *, length: timedelta, until: datetime, apart: timedelta = timedelta()
) -> Iterator[Plan]:
    """The plans for the request with this length (elapsed, rounded up to whole steps), without displacing.

    They start now (as walk-ins) or on a step of the raster, not before the asked start, and end by `until`; the request's own
    end does not matter. In order of the start; at one start the lower charge first, then G2's order. A request by count has
    a plan per pool; of one pool the next plan starts at least `apart` after the last. Exactly those for which `decide` gives
    a plan. `facts` must reach from now to `until`, over all the cards that may be had.
    """
    policy, zone, search = facts.policy, facts.zone, Search(facts)
    step = timedelta(seconds=policy.raster_s)
    length = -(-length // step) * step
    if length <= timedelta() or length > policy.longest or not ask.wanted:
        return
    span = Interval(facts.now, max(min(until, open_until(facts.now, zone, policy)), facts.now + _TINY))
    ways = [source.prepared(length) for source in sources(ask, facts, span)]
    at: datetime | None = facts.now
    if ask.start is not None and ask.start > facts.now:
        at = next_step(ask.start, policy.raster_s, zone)
    while at is not None and ways and not search.is_over:
        is_now = at == facts.now
        end = round_to_raster(at + length, policy.raster_s, zone, up=True)
        if end > span.end:
            break
        kind = Kind.WALK_IN if is_now else Kind.PLANNED  # whether planned or late makes no difference here
        plans = []
        for source in ways:
            if source.next_start(at, walk_in=is_now) == at and search.may(source, Interval(at, end), kind):
                plan = search.decide(replace(source.ask, start=None if is_now else at, end=end)).plan
                if plan is not None:
                    plans.append(plan)
                    source.not_before = at + apart
        yield from in_order(plans, ask, facts)
        starts = [start for source in ways if (start := source.next_start(at + _TINY, walk_in=False))]
        at = next_step(min(starts), policy.raster_s, zone) if starts else None


def in_order(plans: Sequence[Plan], ask: Ask, facts: Facts) -> list[Plan]:
    """Plans for one time on different pools: the lower charge first, then as the choice of cards prefers (D5, G2)."""
    if len(plans) < 2:
        return list(plans)
    held, kind = plans[0].held, plans[0].kind
    asked = replace(ask, start=held.start, end=held.end)
    preferred = {frozenset(card_ids): place for place, card_ids in enumerate(choices(asked, facts, held, kind))}
    return sorted(plans, key=lambda plan: (units_of(plan, facts), preferred.get(frozenset(plan.card_ids), len(preferred))))


def units_of(plan: Plan, facts: Facts) -> int:
    """What the plan charges, over all weeks."""
    return sum(charge([(plan.prices[i], facts.cards[i].weight) for i in plan.card_ids], facts.zone).values())


class Search:
    """Asks the law, and remembers of its refusals what they say of other times. Starts must be asked in ascending order."""

    def __init__(self, facts: Facts) -> None:
        self.facts = replace(facts, may_displace=False)
        self.is_over = False  # a reason was given that stands against every later start too
        self._room: dict[date, int] = {}  # units that a week was said to have left
        self._too_short = timedelta()

    def decide(self, ask: Ask) -> Decision:
        """The law's answer."""
        decision = decide(ask, self.facts)
        start = self.facts.now if ask.start is None else ask.start
        for refusal in decision.refusals:
            self._learn(refusal, ask.end - start, is_walk_in=ask.start is None)
        return decision

    def _learn(self, refusal: Refusal, length: timedelta, *, is_walk_in: bool) -> None:
        if refusal.code in _FOR_EVER or (refusal.code in _FROM_NOW_ON and not is_walk_in):
            self.is_over = True
        elif refusal.code == Code.TOO_SHORT:
            self._too_short = max(self._too_short, length)
        elif refusal.code == Code.QUOTA and not is_walk_in:
            self._room[refusal.facts["week"]] = refusal.facts["needs"] - refusal.facts["missing"]

    def may(self, source: Source, held: Interval, kind: Kind) -> bool:
        """Whether nothing known stands against the time: what the source knows, and what was said of the allowance."""
        if self.is_over or held.length <= self._too_short or not source.may(held, kind):
            return False
        # A walk-in's time may be free, and a price that was kept may be lower than the meter's.
        if kind == Kind.WALK_IN or source.ask.at_most is not None or not self._room:
            return True
        weeks = [(week, part) for week, part in weeks_of(held, self.facts.zone) if week in self._room]
        return all(source.units(part) <= max(self._room[week], 0) for week, part in weeks)
