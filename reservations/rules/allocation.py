"""Which cards a request gets (G2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from .interval import Interval

SMALL_GAP = timedelta(hours=2)


@dataclass(frozen=True)
class Candidate:
    """A card that could serve, as the choice sees it. `waste`: free time left unusable beside the request."""

    card_id: int
    host: str
    bus_id: str
    waste: timedelta = timedelta()
    used_last: bool = False


def waste_beside(wanted: Interval, held: Iterable[Interval], now: datetime) -> timedelta:
    """Free time under 2 h that the request would leave before or after itself on a card (G2).

    `held` are the card's other holdings; before the first of them lies `now`, after the last there is no end.
    """
    held = list(held)
    before = max((one.end for one in held if one.end <= wanted.start), default=now)
    gap_before = wanted.start - max(before, now)
    after = min((one.start for one in held if one.start >= wanted.end), default=None)
    total = timedelta()
    if timedelta() < gap_before < SMALL_GAP:
        total += gap_before
    if after is not None and timedelta() < after - wanted.end < SMALL_GAP:
        total += after - wanted.end
    return total


Preference = tuple[int, timedelta, int, tuple[str, ...], tuple[tuple[str, str, int], ...]]


def _in_order(candidates: Iterable[Candidate]) -> tuple[int, ...]:
    return tuple(one.card_id for one in sorted(candidates, key=lambda one: (one.bus_id, one.host, one.card_id)))


def preference(candidates: Sequence[Candidate]) -> Preference:
    """G2's order over whole choices: fewest hosts, least waste, most of the cards used last, lowest bus ids; then names,
    so that one choice is always the first.
    """
    return (
        len({one.host for one in candidates}),
        sum((one.waste for one in candidates), timedelta()),
        -sum(one.used_last for one in candidates),
        tuple(sorted(one.bus_id for one in candidates)),
        tuple(sorted((one.bus_id, one.host, one.card_id) for one in candidates)),
    )


def choose(candidates: Iterable[Candidate], count: int, *, several_hosts: bool = False) -> tuple[int, ...] | None:
    """The `count` cards that G2 prefers, by id in order of bus id; None when there are not enough (on one host)."""
    by_host: dict[str, list[Candidate]] = defaultdict(list)
    for one in sorted(candidates, key=lambda one: (one.waste, not one.used_last, one.bus_id, one.host, one.card_id)):
        by_host[one.host].append(one)
    sizes = sorted((len(cards) for cards in by_host.values()), reverse=True)
    enough = (hosts for hosts in range(1, len(sizes) + 1 if several_hosts else 2) if sum(sizes[:hosts]) >= count)
    fewest = next(enough, None)
    if fewest is None:
        return None
    # The order above is G2's own within a host, so a host gives the first few of its cards. G2 compares sums and then
    # sorted lists: of two parts with as many hosts and cards the better stays better whatever is added to both.
    best: dict[tuple[int, int], list[Candidate]] = {(0, 0): []}
    for cards in by_host.values():
        for (hosts, taken), part in list(best.items()):
            if hosts == fewest:
                continue
            least = count - taken - sum(sizes[: fewest - hosts - 1])
            for more in range(max(1, least), min(len(cards), count - taken) + 1):
                key, whole = (hosts + 1, taken + more), part + cards[:more]
                if key not in best or preference(whole) < preference(best[key]):
                    best[key] = whole
    return _in_order(best[fewest, count])


@dataclass(frozen=True)
class Blocker:
    """A reservation in the way, whole: `rank` larger = weaker, `cost` = its card-hours as a time, `booked_at`."""

    reservation_id: int
    rank: tuple[int, int]
    cost: timedelta
    booked_at: datetime


# D4's order as a tuple to be minimised: strongest rank negated, card-hours, earliest booking negated.
_Price = tuple[tuple[float, float], timedelta, float]
_FREE: _Price = ((float("-inf"), float("-inf")), timedelta(), float("-inf"))
Worth = tuple[_Price, Preference]


@dataclass(frozen=True)
class Choice:
    """Cards for a request, in order of bus id, and the reservations that must make room for it.

    `worth`: D4's order, then G2's; of two choices the smaller one is preferred.
    """

    card_ids: tuple[int, ...]
    displaced: frozenset[int]
    worth: Worth = field(compare=False)


def choose_with_blockers(
    candidates: Sequence[Candidate], blockers: Mapping[int, Sequence[Blocker]], count: int, *, several_hosts: bool = False,
    leaves_room: Callable[[frozenset[int]], bool] = lambda _: True,
) -> Choice | None:
    """The cards, and whom to displace for them, by D4's order: the set whose strongest member is weakest, then fewest
    card-hours of whole reservations, then the set whose earliest-booked member was booked last, then G2.

    `blockers` gives for each candidate card those in its way, all of whom may be displaced; a free card has none.
    `leaves_room` says of reservations whether their going leaves the pool what it keeps back (G4, G7). Exact: sets are
    compared whole, since one reservation may stand in the way on several cards (in labs so large that the search would
    not end, the best of the first MOST_LOOKS). None when there are too few.
    """
    open_ones = [one for one in candidates if not blockers.get(one.card_id)]
    free = choose(open_ones, count, several_hosts=several_hosts) if leaves_room(frozenset()) else None
    if free is not None:
        return Choice(free, frozenset(), (_FREE, preference([one for one in open_ones if one.card_id in free])))
    search = _Search(blockers, count, leaves_room)
    if several_hosts:
        search.over(candidates)
    else:
        for host in sorted({one.host for one in candidates}):
            search.over([one for one in candidates if one.host == host])
    return search.best


MOST_LOOKS = 50_000  # every choice of 4 cards of 32, and of 8 of 19


class _Search:
    """Depth-first over cards, cheapest first, cut where the part chosen is worse than the best whole.

    Adding a card never makes a price better, so a worse part cannot become a better whole.
    """

    def __init__(
        self, blockers: Mapping[int, Sequence[Blocker]], count: int, leaves_room: Callable[[frozenset[int]], bool]
    ) -> None:
        self.blockers, self.count, self.leaves_room = blockers, count, leaves_room
        self.best: Choice | None = None
        self._bound: Worth | None = None
        self._looks = 0

    def over(self, group: Sequence[Candidate]) -> None:
        order = sorted(group, key=lambda one: (_price(self.blockers.get(one.card_id, ())), preference([one])))
        self._extend(order, 0, [], {})

    def _extend(self, order: Sequence[Candidate], position: int, chosen: list[Candidate], inside: dict[int, Blocker]) -> None:
        price = _price(inside.values())
        self._looks += 1
        if self._bound is not None and (price > self._bound[0] or self._looks > MOST_LOOKS):
            return
        if len(chosen) == self.count:
            whole = (price, preference(chosen))
            if (self._bound is None or whole < self._bound) and self.leaves_room(frozenset(inside)):
                self._bound, self.best = whole, Choice(_in_order(chosen), frozenset(inside), whole)
            return
        for index in range(position, len(order) - (self.count - len(chosen)) + 1):
            one = order[index]
            added = inside | {blocker.reservation_id: blocker for blocker in self.blockers.get(one.card_id, ())}
            self._extend(order, index + 1, [*chosen, one], added)


def _price(blockers: Iterable[Blocker]) -> _Price:
    rows = list(blockers)
    if not rows:
        return _FREE
    strongest = min(row.rank for row in rows)
    return (
        (-strongest[0], -strongest[1]),
        sum((row.cost for row in rows), timedelta()),
        -min(row.booked_at for row in rows).timestamp(),
    )
