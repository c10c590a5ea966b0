"""Where a request fits, found by trying every start, pool and choice of cards.

Written from the law alone (A, B1, D1, D2, E1, E2, E4, F1, F2, G2, G4, G7) and importing nothing of the product. Times are
quarters of an hour since the midnight of a Monday, in a zone whose clocks never change; seconds of card time are counted one
quarter after another. Where the law leaves several choices of cards equally good, all of them are given.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

HOUR = 4
DAY = 24 * HOUR
WEEK = 7 * DAY
NOON, FREEZE = 12 * HOUR, 20 * HOUR
LONG = 4 * HOUR  # the least in a long window
SHORT = 2 * HOUR  # on the reserve, on quick cards; the largest gap that is unusable
SOON = 48 * HOUR  # how far ahead one beyond the allowance may start (E4)
SECONDS = 900


@dataclass(frozen=True)
class Window:
    """Hours 0 to 24; `until` at or before `from_` is on the next day. `days`: every, working or rest."""

    mode: str
    rate: int = 100
    days: str = "every"
    from_: int = 0
    until: int = 0
    most: int | None = None  # quarters inside
    pool: int | None = None


@dataclass(frozen=True)
class Card:
    number: int
    host: str
    bus: str
    pool: int
    model: str = "a"
    used_last: bool = False
    pickable: bool = True


@dataclass(frozen=True)
class Held:
    card: int
    start: int
    end: int
    deadline: bool = False


@dataclass(frozen=True)
class Pool:
    number: int
    weight: int = 100
    reserve: int = 0
    quick: int = 0


@dataclass(frozen=True)
class Lab:
    now: int
    raster: int  # quarters
    opens_days: int
    windows: tuple[Window, ...]
    rest: frozenset[int]  # days that are no working days
    pools: tuple[Pool, ...]
    cards: tuple[Card, ...]
    held: tuple[Held, ...]
    own: tuple[tuple[int, int, bool], ...]  # what the member holds elsewhere, one card each: start, end, as a walk-in
    ahead: int
    most_cards: int
    most_ahead: int
    shortest: int
    longest: int
    walk_in_longest: int
    walk_in_cards: int
    free_seconds: dict[int, int]  # card-seconds that are left on each day
    room: dict[int, int]  # units that are left in each week
    elastic: bool = False


@dataclass(frozen=True)
class Request:
    length: int
    until: int
    count: int = 0
    named: tuple[int, ...] = ()
    from_: int | None = None
    pool: int | None = None
    model: str | None = None
    several_hosts: bool = False


@dataclass(frozen=True)
class Slot:
    """A start at which the request fits on one pool (None: the named cards), with every equally good choice of cards."""

    start: int
    end: int
    kind: str
    pool: int | None
    units: int
    worth: tuple[object, ...] = ()
    beyond: bool = False
    cards: list[frozenset[int]] = field(default_factory=list, compare=False)


def slots(lab: Lab, request: Request) -> Iterator[Slot]:
    """Every slot there is, in order: earliest start, lower charge, better choice of cards."""
    first = lab.now if request.from_ is None else max(request.from_, lab.now)
    starts = [start for start in range(first, request.until) if start == lab.now or start % lab.raster == 0]
    for start in starts:
        end = start + request.length
        end += -end % lab.raster
        if end > request.until or not _time_is_right(lab, start, end):
            continue
        kind = "walk_in" if start == lab.now else "late" if _is_frozen(lab, start) else "planned"
        here = [slot for pool in _pools(lab, request) if (slot := _on(lab, request, start, end, kind, pool))]
        yield from sorted(here, key=lambda one: (one.units, one.worth))


def _pools(lab: Lab, request: Request) -> list[Pool | None]:
    if request.named:
        return [None]
    return [pool for pool in lab.pools if request.pool in (None, pool.number)]


def _is_frozen(lab: Lab, start: int) -> bool:
    """D1: since 20:00 of the evening before."""
    return lab.now >= (start // DAY - 1) * DAY + FREEZE


def _time_is_right(lab: Lab, start: int, end: int) -> bool:
    """A1, A4."""
    today = lab.now // DAY
    opened = today + lab.opens_days - (0 if lab.now % DAY >= NOON else 1)
    return lab.shortest <= end - start <= lab.longest and (end - 1) // DAY <= opened


def _on(lab: Lab, request: Request, start: int, end: int, kind: str, pool: Pool | None) -> Slot | None:
    count = len(request.named) or request.count
    if not _within_caps(lab, start, end, kind, count):
        return None
    free = [card for card in lab.cards if not _is_held(lab, card.number, start, end)]
    if pool is None:
        cards = [card for card in free if card.number in request.named]
        choices = [frozenset(request.named)] if len(cards) == count else []
        worth: tuple[object, ...] = ()
    else:
        cards = [
            card for card in free
            if card.pool == pool.number and request.model in (None, card.model) and (card.pickable or kind != "walk_in")
        ]
        worth, choices = _best(lab, cards, count, start, end, several=request.several_hosts)
    if not choices:
        return None
    taken = {one.number: 0 for one in lab.pools}
    for card in lab.cards:
        taken[card.pool] += card.number in choices[0]
    used = [one for one in lab.pools if taken[one.number]]
    if not all(_windows_allow(lab, one, start, end, kind) for one in used):
        return None
    if not all(_leaves_enough(lab, one, start, end, kind, taken[one.number]) for one in used):
        return None
    units = _units(lab, {one.number: taken[one.number] for one in used}, start, end, kind, count)
    beyond = any(spent > 0 and spent > lab.room[week] for week, spent in units.items())
    if beyond and not (lab.elastic and start <= lab.now + SOON):
        return None
    return Slot(start, end, kind, pool and pool.number, sum(units.values()), worth, beyond, choices)


def _is_held(lab: Lab, card: int, start: int, end: int) -> bool:
    return any(one.card == card and one.start < end and start < one.end for one in lab.held)


def _within_caps(lab: Lab, start: int, end: int, kind: str, count: int) -> bool:
    """B1; D2 for walk-ins."""
    if start > lab.now and lab.ahead + 1 > lab.most_ahead:
        return False
    if kind == "walk_in":
        beside = sum(walk_in and one < end and start < other for one, other, walk_in in lab.own)
        if end - start > lab.walk_in_longest or beside + count > lab.walk_in_cards:
            return False
    instants = {start, *(one for one, _, _ in lab.own if start <= one < end)}
    return all(sum(one <= at < other for one, other, _ in lab.own) + count <= lab.most_cards for at in instants)


def window_at(lab: Lab, pool: int, at: int) -> int | None:
    """The place of the window in force at a quarter; None where none applies: open at the plain rate (F1)."""
    found = []
    for place, window in enumerate(lab.windows):
        if window.pool not in (None, pool):
            continue
        for day in (at // DAY - 1, at // DAY):
            if window.days != "every" and (day not in lab.rest) != (window.days == "working"):
                continue
            from_ = day * DAY + window.from_ * HOUR
            until = day * DAY + window.until * HOUR + (DAY if window.until <= window.from_ else 0)
            if from_ <= at < until:
                found.append((window.pool is not None, window.days != "every", place))
    return max(found)[2] if found else None


def _windows_allow(lab: Lab, pool: Pool, start: int, end: int, kind: str) -> bool:
    """F1, F2."""
    inside: dict[int | None, int] = {}
    for at in range(start, end):
        place = window_at(lab, pool.number, at)
        inside[place] = inside.get(place, 0) + 1
    modes = {lab.windows[place].mode for place in inside if place is not None}
    if "closed" in modes:
        return False
    if kind == "walk_in":
        first = window_at(lab, pool.number, start)
        return first is None or lab.windows[first].mode != "long" or len(inside) == 1
    if "walk_in" in modes or ("long" in modes and end - start < LONG):
        return False
    return all(
        (most := lab.windows[place].most) is None or time <= most for place, time in inside.items() if place is not None
    )


def _leaves_enough(lab: Lab, pool: Pool, start: int, end: int, kind: str, count: int) -> bool:
    """G4 and G7, instant by instant; the deadline tier sits on the reserve first."""
    cards = {card.number for card in lab.cards if card.pool == pool.number}
    held = [one for one in lab.held if one.card in cards]
    reserve = 0 if kind == "walk_in" and end - start <= SHORT else pool.reserve

    def others(at: int, counts: Callable[[Held], bool]) -> int:
        there = [one for one in held if one.start <= at < one.end and counts(one)]
        deadline = sum(one.deadline for one in there)
        return len(there) - min(deadline, reserve)

    for at in range(start, end):
        if others(at, lambda one: True) + count > len(cards) - reserve:
            return False
        if end - start > SHORT and at // DAY not in lab.rest:
            long_ones = others(at, lambda one: one.end - one.start > SHORT)
            if long_ones + count > len(cards) - reserve - pool.quick:
                return False
    return True


def _units(lab: Lab, taken: dict[int, int], start: int, end: int, kind: str, count: int) -> dict[int, int]:
    """E1, E2, and the free time of a walk-in (D2): what each week is charged."""
    weight = {pool.number: pool.weight for pool in lab.pools}
    left = dict(lab.free_seconds) if kind == "walk_in" else {}
    per_card = {day: seconds // count for day, seconds in left.items()}
    units: dict[int, int] = {}
    for at in range(start, end):
        free = min(per_card.get(at // DAY, 0), SECONDS)
        if free:
            per_card[at // DAY] -= free
        for pool, cards in taken.items():
            place = window_at(lab, pool, at)
            rate = 100 if place is None else lab.windows[place].rate
            units[at // WEEK] = units.get(at // WEEK, 0) + (SECONDS - free) * rate * weight[pool] * cards
    return units


def _best(
    lab: Lab, free: list[Card], count: int, start: int, end: int, *, several: bool
) -> tuple[tuple[object, ...], list[frozenset[int]]]:
    """G2: fewest hosts, least unusable time, most cards used last, lowest bus ids."""
    unusable = {card.number: _unusable(lab, card.number, start, end) for card in free}
    found: list[tuple[tuple[object, ...], frozenset[int]]] = []
    for cards in combinations(free, count):
        hosts = {card.host for card in cards}
        if len(hosts) == 1 or several:
            worth = (
                len(hosts), sum(unusable[card.number] for card in cards), -sum(card.used_last for card in cards),
                sorted(card.bus for card in cards),
            )
            found.append((worth, frozenset(card.number for card in cards)))
    if not found:
        return (), []
    best = min(worth for worth, _ in found)
    return best, [cards for worth, cards in found if worth == best]


def _unusable(lab: Lab, card: int, start: int, end: int) -> int:
    """Gaps under two hours made before and after the request on the card; before the first holding lies now."""
    ends = [one.end for one in lab.held if one.card == card and one.end <= start]
    starts = [one.start for one in lab.held if one.card == card and one.start >= end]
    before = start - max([lab.now, *ends])
    after = min(starts) - end if starts else SHORT
    return sum(gap for gap in (before, after) if 0 < gap < SHORT)
