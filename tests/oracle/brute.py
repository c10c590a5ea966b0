"""Which cards a request gets, and who makes room for it, found by trying everything.

Written from the law alone (D4, E4, G1, G2) and importing nothing of the product, so that both can be compared. Times are
quarters of an hour since a lab midnight, in a zone whose clocks never change. Where the law leaves several answers equally
good, all of them are given.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, combinations

HOUR = 4
DAY = 24 * HOUR
USABLE = 2 * HOUR  # a shorter gap is unusable (G2)
CLOSES = 18 * HOUR  # D4
FREEZES = 20 * HOUR  # D1
ELASTIC_SAFE = 2 * HOUR  # E4


@dataclass(frozen=True)
class Card:
    number: int
    host: str
    bus: str
    used_last: bool = False


@dataclass(frozen=True)
class Booking:
    """A reservation that has not started. `rank`: in quota (0) before elastic (1), then the tier; larger is weaker."""

    number: int
    cards: frozenset[int]
    start: int
    end: int
    rank: tuple[int, int] = (0, 1)
    booked_at: int = 0
    displaced_before: int = 0

    @property
    def card_hours(self) -> int:
        return (self.end - self.start) * len(self.cards)


@dataclass(frozen=True)
class Request:
    start: int
    end: int
    count: int
    rank: tuple[int, int] = (0, 0)
    several_hosts: bool = False


@dataclass(frozen=True)
class Lab:
    now: int
    cards: tuple[Card, ...]
    bookings: tuple[Booking, ...]


@dataclass(frozen=True)
class Answer:
    cards: frozenset[int]
    displaced: frozenset[int] = frozenset()


def _in_the_way(booking: Booking, request: Request) -> bool:
    return booking.start < request.end and request.start < booking.end


def _may_be_displaced(booking: Booking, request: Request, now: int) -> bool:
    """D4: weaker, not displaced twice already, before 18:00 of the evening on which it freezes. E4 for an elastic one.

    D3: a late request, whose own start is frozen, displaces elastic ones only.
    """
    if not booking.rank > request.rank:
        return False
    if booking.rank[0]:
        return now < booking.start - ELASTIC_SAFE
    if now >= (request.start // DAY - 1) * DAY + FREEZES:
        return False
    evening = (booking.start // DAY - 1) * DAY + CLOSES
    return booking.displaced_before < 2 and now < evening


def _free_cards(lab: Lab, request: Request, without: frozenset[int]) -> list[Card]:
    """The cards free for all of the request once the bookings `without` are gone."""
    taken = {
        card for one in lab.bookings if one.number not in without and _in_the_way(one, request) for card in one.cards
    }
    return [card for card in lab.cards if card.number not in taken]


def _unusable(lab: Lab, request: Request, card: Card, without: frozenset[int]) -> int:
    """Walks from the request outwards, quarter by quarter, as far as a gap is still unusable."""
    held = [one for one in lab.bookings if one.number not in without and card.number in one.cards]

    def free(quarter: int) -> bool:
        return quarter >= lab.now and not any(one.start <= quarter < one.end for one in held)

    before = after = 0
    while before < USABLE and free(request.start - before - 1):
        before += 1
    while after < USABLE and free(request.end + after):
        after += 1
    return sum(gap for gap in (before, after) if gap < USABLE)


def _subsets(numbers: Iterable[int]) -> Iterable[frozenset[int]]:
    rows = sorted(numbers)
    every = chain.from_iterable(combinations(rows, size) for size in range(len(rows) + 1))
    return (frozenset(one) for one in every)


def _best_cards(lab: Lab, request: Request, without: frozenset[int]) -> tuple[object, list[frozenset[int]]]:
    """Every choice of cards, by G2: fewest hosts, least unusable time, most cards used last, lowest bus ids."""
    free = _free_cards(lab, request, without)
    unusable = {card.number: _unusable(lab, request, card, without) for card in free}
    found: list[tuple[object, frozenset[int]]] = []
    for cards in combinations(free, request.count):
        hosts = {card.host for card in cards}
        if len(hosts) == 1 or request.several_hosts:
            worth = (
                len(hosts),
                sum(unusable[card.number] for card in cards),
                -sum(card.used_last for card in cards),
                sorted(card.bus for card in cards),
            )
            found.append((worth, frozenset(card.number for card in cards)))
    if not found:
        return None, []
    best = min(worth for worth, _ in found)
    return best, [cards for worth, cards in found if worth == best]


def free_choices(lab: Lab, request: Request) -> list[Answer]:
    """G2: the equally best choices among the cards that are free; none when there are too few."""
    return [Answer(cards) for cards in _best_cards(lab, request, frozenset())[1]]


def choices(lab: Lab, request: Request) -> list[Answer]:
    """D4: the equally best pairs of cards and displaced reservations; none when nothing can serve."""
    if free := free_choices(lab, request):
        return free  # only when no free card satisfies it
    by_number = {one.number: one for one in lab.bookings}
    movable = [
        one.number for one in lab.bookings
        if _in_the_way(one, request) and _may_be_displaced(one, request, lab.now)
    ]
    sets: list[tuple[object, frozenset[int]]] = []
    for chosen in _subsets(movable):
        if chosen:
            members = [by_number[number] for number in chosen]
            strongest = min(one.rank for one in members)
            price = (
                (-strongest[0], -strongest[1]),  # the set whose strongest member is weakest
                sum(one.card_hours for one in members),  # fewest card-hours of whole reservations
                -min(one.booked_at for one in members),  # the set whose earliest-booked member was booked last
            )
            sets.append((price, chosen))
    sets.sort(key=lambda one: one[0])
    reached: object = None
    answers: list[tuple[object, Answer]] = []
    for price, chosen in sets:
        if answers and price != reached:
            break
        worth, picked = _best_cards(lab, request, chosen)
        if picked:
            reached = price
            answers += [(worth, Answer(cards, chosen)) for cards in picked]
    if not answers:
        return []
    best = min(worth for worth, _ in answers)
    return [answer for worth, answer in answers if worth == best]
