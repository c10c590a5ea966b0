"""What surely stands against a time, by arithmetic over all the time asked about (B1, F, G2, G4, G7).

Nothing is decided here: a time that passes may still be refused, one that does not pass would be refused for certain.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from .facts import Ask, Card, Facts, Holding, PoolFacts
from .interval import Interval, crowded, merged
from .kinds import Kind
from .supply import fits, reserve_kept, working_days
from .windows import Mode

_TINY = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1) // _TINY


class _Meter:
    """The integral of a value that is constant over stretches of time which touch each other, in value x microseconds."""

    def __init__(self, stretches: Sequence[tuple[Interval, int]]) -> None:
        self.starts = [interval.start for interval, _ in stretches]
        self.values = [value for _, value in stretches]
        self.sums = [0]
        for interval, value in stretches:
            self.sums.append(self.sums[-1] + value * (interval.length // _TINY))

    def over(self, span: Interval) -> int:
        return self._until(span.end) - self._until(span.start)

    def _until(self, instant: datetime) -> int:
        place = max(bisect_right(self.starts, instant) - 1, 0)
        return self.sums[place] + self.values[place] * ((instant - self.starts[place]) // _TINY)


class _Stretches:
    """Stretches of time in order, none touching another."""

    def __init__(self, parts: Iterable[Interval]) -> None:
        self.parts = merged(parts)
        self.starts = [one.start for one in self.parts]

    def meet(self, span: Interval) -> bool:
        place = bisect_left(self.starts, span.end) - 1
        return place >= 0 and self.parts[place].end > span.start

    def after(self, instant: datetime) -> datetime:
        """The first instant from this one on that lies in none of them."""
        place = bisect_right(self.starts, instant) - 1
        return max(instant, self.parts[place].end) if place >= 0 else instant


@dataclass(frozen=True)
class _Barrier:
    """Time that a reservation may not touch, if `applies` says so of its time and kind.

    `always`: it applies to every one but walk-ins, whatever its length.
    """

    stretches: _Stretches
    applies: Callable[[Interval, Kind], bool]
    always: bool = False


class Source:
    """One way to serve a request: by the named cards, or by any of one pool. Knows what surely stands against a time."""

    def __init__(self, ask: Ask, facts: Facts, span: Interval, groups: list[list[list[Interval]]]) -> None:
        self.ask, self.facts, self.span = ask, facts, span
        self.need = ask.wanted
        self.not_before = facts.now
        self._groups = groups  # of each host (or of all together) the times at which each card is held
        self._barriers: list[_Barrier] = []
        self._inside: list[tuple[_Meter, int]] = []
        self._rates: list[tuple[_Meter, int]] = []
        self._no_start = self._no_walk_in = _Stretches(())
        cap = facts.policy.most_cards(facts.member_role)
        self._barrier(_over([one.interval for one in facts.own], cap - self.need, span), lambda held, kind: True, always=True)
        weights: dict[int, list[int]] = defaultdict(list)
        for card in self._cards():
            weights[card.pool_id].append(card.weight)
        for pool_id in sorted(weights.keys() & facts.pools.keys()):
            taken = len(weights[pool_id]) if ask.is_named else self.need
            self._add_pool(facts.pools[pool_id], taken, sum(sorted(weights[pool_id])[:taken]))

    def _cards(self) -> Iterator[Card]:
        if self.ask.is_named:
            return (self.facts.cards[card_id] for card_id in self.ask.card_ids if card_id in self.facts.cards)
        return (card for card in self.facts.cards.values() if fits(card, self.ask))

    def _add_pool(self, pool: PoolFacts, taken: int, weight: int) -> None:
        """The windows of a pool that gives `taken` cards of this weight together."""
        segments = pool.timetable.segments(self.span)
        self._rates.append((_Meter([(one.interval, one.window.rate) for one in segments]), weight))
        for window in {one.window for one in segments}:
            if window.most_inside is not None:
                meter = _Meter([(one.interval, int(one.window == window)) for one in segments])
                self._inside.append((meter, window.most_inside // _TINY))
        of = {mode: [one.interval for one in segments if one.window.mode == mode] for mode in Mode}
        least = timedelta(seconds=self.facts.policy.long_s)
        self._barrier(of[Mode.CLOSED], lambda held, kind: True, always=True)
        self._barrier(of[Mode.WALK_IN], lambda held, kind: kind != Kind.WALK_IN, always=True)
        self._barrier(of[Mode.LONG], lambda held, kind: kind != Kind.WALK_IN and held.length < least)
        if segments[0].window.mode == Mode.LONG and len(segments) > 1:  # a walk-in begun in it ends with it
            self._barrier([Interval(segments[0].interval.end, self.span.end)], lambda held, kind: kind == Kind.WALK_IN)
        if pool.reserve or pool.quick:
            self._add_kept(pool, len(pool.card_ids) - taken)

    def _add_kept(self, pool: PoolFacts, room: int) -> None:
        """Where the pool's reserve or its quick cards are all that is left; `room`: cards that others may hold (G4, G7)."""
        policy, span, tier = self.facts.policy, self.span, self.ask.tier
        holdings = [one for one in self.facts.holdings if one.card_id in pool.card_ids]
        planned = reserve_kept(pool, policy, Kind.PLANNED, tier, policy.longest)

        def full(counts: Callable[[Holding], bool], kept: int, reserve: int) -> list[Interval]:
            """Where those that count leave none beside `kept` cards, `reserve` of which the granted tiers use first."""
            counted = [one for one in holdings if counts(one)]
            others = [one.interval for one in counted if one.tier not in policy.granted_tiers]
            every = [one.interval for one in counted]
            return merged([*_over(others, room - kept, span), *_over(every, room - kept + reserve, span)])

        if pool.reserve:
            self._barrier(
                full(lambda one: True, pool.reserve, pool.reserve),
                lambda held, kind: reserve_kept(pool, policy, kind, tier, held.length) > 0, always=planned > 0,
            )
        quick, days = timedelta(seconds=policy.quick_s), working_days(span, pool)
        self._barrier(
            [part for stretch in full(lambda one: one.interval.length > quick, pool.quick + planned, planned) for day in days
             if (part := stretch.cut(day))],
            lambda held, kind: kind != Kind.WALK_IN and held.length > quick,
        )

    def _barrier(
        self, stretches: Sequence[Interval], applies: Callable[[Interval, Kind], bool], *, always: bool = False
    ) -> None:
        if stretches:
            self._barriers.append(_Barrier(_Stretches(stretches), applies, always))

    def prepared(self, length: timedelta) -> Source:
        """Ready to say from when on a reservation of at least this length may start."""

        def starts(stretches: Iterable[Interval]) -> list[Interval]:
            """The starts from which it would touch them."""
            return [Interval(one.start - length + _TINY, one.end) for one in stretches]

        # A host cannot serve where too many of its cards are held, and the source not where no host can.
        hosts = [crowded(_flat(merged(starts(held)) for held in cards), len(cards) - self.need) for cards in self._groups]
        without_cards = crowded(_flat(hosts), len(hosts) - 1)
        walls = _flat(starts(one.stretches.parts) for one in self._barriers if one.always)
        self._no_walk_in, self._no_start = _Stretches(without_cards), _Stretches([*without_cards, *walls])
        return self

    def next_start(self, instant: datetime, *, walk_in: bool) -> datetime | None:
        """The first instant from this one on at which it may start as far as is known; None after all time asked about."""
        found = (self._no_walk_in if walk_in else self._no_start).after(max(instant, self.not_before))
        return found if found < self.span.end else None

    def free_until(self, start: datetime) -> datetime:
        """Until when enough cards are free from `start` on; `start` itself when they are not."""
        ends = [sorted((self._free_until(held, start) for held in cards), reverse=True) for cards in self._groups]
        return max(found[self.need - 1] for found in ends)

    def _free_until(self, held: Sequence[Interval], start: datetime) -> datetime:
        following = next((one for one in held if one.end > start), None)
        return max(following.start, start) if following else max(self.span.end, start)

    def may(self, held: Interval, kind: Kind) -> bool:
        """Whether nothing that is known here, beside the cards, stands against the time."""
        policy = self.facts.policy
        if held.length > policy.longest:
            return False
        if kind == Kind.WALK_IN and held.length > timedelta(seconds=policy.walk_in_longest_s):
            return False
        if any(one.stretches.meet(held) and one.applies(held, kind) for one in self._barriers):
            return False
        return kind == Kind.WALK_IN or all(meter.over(held) <= most for meter, most in self._inside)

    def units(self, held: Interval) -> int:
        """What the time costs at least, if none of it is free (E1)."""
        return sum(meter.over(held) * weight for meter, weight in self._rates) // _SECOND


def _flat(parts: Iterable[Iterable[Interval]]) -> list[Interval]:
    return [one for part in parts for one in part]


def _over(intervals: Sequence[Interval], most: int, span: Interval) -> list[Interval]:
    """Where in `span` more than `most` of the intervals hold: everywhere when not even none may."""
    return [span] if most < 0 else crowded(intervals, most)


def sources(ask: Ask, facts: Facts, span: Interval, *, walk_in: bool = False) -> list[Source]:
    """The named cards, or each pool that has enough of the cards asked for (one pool at a time, as in the choice of cards).

    `span`: the time that may be asked about. `walk_in`: count only what the system may pick for one (D2).
    """
    by_card: dict[int, list[Interval]] = defaultdict(list)
    for one in facts.holdings:
        by_card[one.card_id].append(one.interval)
    if ask.is_named:
        return [Source(ask, facts, span, [[merged(by_card[card_id]) for card_id in ask.card_ids]])]
    found = []
    for pool_id in sorted(facts.pools):
        hosts: dict[str, list[list[Interval]]] = defaultdict(list)
        for card in facts.cards.values():
            if card.pool_id == pool_id and fits(card, ask) and (card.pickable or not walk_in):
                hosts["" if ask.several_hosts else card.host].append(merged(by_card[card.id]))
        groups = [cards for _, cards in sorted(hosts.items()) if len(cards) >= ask.wanted]
        if groups:
            found.append(Source(replace(ask, pool_id=pool_id), facts, span, groups))
    return found
