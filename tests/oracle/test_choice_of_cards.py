"""D4 and G2: the choice of cards and of whom to displace is the one that trying everything finds."""

from collections import Counter
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from reservations.rules import allocation
from reservations.rules.allocation import Blocker, Candidate, choose, choose_with_blockers, waste_beside
from reservations.rules.interval import Interval
from reservations.rules.kinds import freezes_at

from .brute import Answer, Booking, Card, Lab, Request, choices, free_choices
from .cases import case

CASES = 2000
ZONE = ZoneInfo("Asia/Shanghai")
MIDNIGHT = datetime(2026, 11, 29, 16, tzinfo=UTC)  # Monday 30 November in Shanghai
QUARTER = timedelta(minutes=15)


def at(quarter: int) -> datetime:
    return MIDNIGHT + quarter * QUARTER


def span(one: Booking | Request) -> Interval:
    return Interval(at(one.start), at(one.end))


def may_make_room(booking: Booking, request: Request, now: datetime) -> bool:
    """The part of D4 and E4 that a caller of the choice has to see to."""
    if booking.rank <= request.rank:
        return False
    if booking.rank[0] == 1:
        return now < at(booking.start) - timedelta(hours=2)
    if now >= freezes_at(at(request.start), ZONE, time(20)):
        return False
    return booking.displaced_before < 2 and now < freezes_at(at(booking.start), ZONE, time(18))


def asked(lab: Lab, request: Request) -> tuple[list[Candidate], dict[int, list[Blocker]]]:
    """A small lab as the product's choice sees it."""
    wanted, now = span(request), at(lab.now)
    candidates: list[Candidate] = []
    blockers: dict[int, list[Blocker]] = {}
    for card in lab.cards:
        held = [one for one in lab.bookings if card.number in one.cards]
        in_the_way = [one for one in held if span(one).overlaps(wanted)]
        if not all(may_make_room(one, request, now) for one in in_the_way):
            continue
        others = [span(one) for one in held if one not in in_the_way]
        waste = waste_beside(wanted, others, now)
        candidates.append(Candidate(card.number, card.host, card.bus, waste, card.used_last))
        blockers[card.number] = [
            Blocker(one.number, one.rank, span(one).length * len(one.cards), at(one.booked_at)) for one in in_the_way
        ]
    return candidates, blockers


def chosen(lab: Lab, request: Request) -> Answer | None:
    """D4 by the product."""
    candidates, blockers = asked(lab, request)
    choice = choose_with_blockers(candidates, blockers, request.count, several_hosts=request.several_hosts)
    return choice and Answer(frozenset(choice.card_ids), choice.displaced)


def chosen_free(lab: Lab, request: Request) -> Answer | None:
    """G2 by the product."""
    candidates, blockers = asked(lab, request)
    free = [one for one in candidates if not blockers[one.card_id]]
    cards = choose(free, request.count, several_hosts=request.several_hosts)
    return cards and Answer(frozenset(cards))


def agrees(answer: Answer | None, best: list[Answer]) -> bool:
    return answer in best if best else answer is None


def test_g2_the_product_chooses_among_free_cards_as_trying_everything_does() -> None:
    differences = []
    seen: Counter[str] = Counter()
    for seed in range(CASES):
        lab, request = case(seed)
        best = free_choices(lab, request)
        seen["none" if not best else "one" if len(best) == 1 else "several"] += 1
        if not agrees(answer := chosen_free(lab, request), best):
            differences.append((seed, answer, best))
    assert not differences, f"{len(differences)} of {CASES}, the first: {differences[0]}"
    assert min(seen["none"], seen["one"]) > CASES // 20, seen


def test_d4_the_product_chooses_whom_to_displace_as_trying_everything_does() -> None:
    differences = []
    seen: Counter[str] = Counter()
    for seed in range(CASES):
        lab, request = case(seed)
        best = choices(lab, request)
        seen["none" if not best else "free" if not best[0].displaced else f"{min(len(best[0].displaced), 2)} displaced"] += 1
        if not agrees(answer := chosen(lab, request), best):
            differences.append((seed, answer, best))
    assert not differences, f"{len(differences)} of {CASES}, the first: {differences[0]}"
    # The cases are worth something: many of each sort.
    assert min(seen[sort] for sort in ("none", "free", "1 displaced", "2 displaced")) > CASES // 20, seen


@pytest.mark.parametrize("forgotten", ["rank", "card-hours", "seniority"])
def test_d4_a_choice_that_forgets_one_step_of_the_order_is_found_out(
    monkeypatch: pytest.MonkeyPatch, forgotten: str
) -> None:
    """Control: the comparison above would see it."""
    whole = allocation._price
    forgets = {"rank": (0, (0.0, 0.0)), "card-hours": (1, timedelta()), "seniority": (2, 0.0)}
    place, nothing = forgets[forgotten]

    def careless(blockers):  # type: ignore[no-untyped-def]
        price = whole(blockers)
        return price if price == allocation._FREE else (*price[:place], nothing, *price[place + 1 :])

    monkeypatch.setattr(allocation, "_price", careless)
    assert any(not agrees(chosen(*case(seed)), choices(*case(seed))) for seed in range(CASES // 4))


@pytest.mark.parametrize("forgotten", ["hosts", "waste", "used last", "bus id"])
def test_g2_a_choice_that_forgets_one_step_of_the_order_is_found_out(
    monkeypatch: pytest.MonkeyPatch, forgotten: str
) -> None:
    whole = allocation.preference
    left_out = {"hosts": 0, "waste": 1, "used last": 2, "bus id": 3}[forgotten]

    def careless(candidates):  # type: ignore[no-untyped-def]
        return tuple(part for place, part in enumerate(whole(candidates)) if place != left_out)

    monkeypatch.setattr(allocation, "preference", careless)
    assert any(not agrees(chosen(*case(seed)), choices(*case(seed))) for seed in range(CASES // 2))


# What trying everything finds in cases small enough to decide by hand.
A, B, C = Card(1, "a", "01"), Card(2, "a", "02"), Card(3, "b", "01")
TOMORROW = 3 * 24 * 4  # well before any evening that matters


def booking(number: int, *cards: int, **more: object) -> Booking:
    values = {"start": TOMORROW, "end": TOMORROW + 8, "rank": (0, 1), **more}
    return Booking(number, frozenset(cards), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bookings", "count", "several_hosts", "best"),
    [
        pytest.param([], 1, False, [Answer(frozenset({1})), Answer(frozenset({3}))], id="the same bus id on two hosts"),
        pytest.param([], 2, True, [Answer(frozenset({1, 2}))], id="one host before two"),
        pytest.param([], 3, False, [], id="three on one host: there are none"),
        pytest.param([], 3, True, [Answer(frozenset({1, 2, 3}))], id="three on two hosts"),
        pytest.param([booking(9, 1)], 2, True, [Answer(frozenset({2, 3}))], id="free on two hosts before displacing on one"),
        pytest.param(
            [booking(9, 1), booking(8, 3)], 2, False, [Answer(frozenset({1, 2}), frozenset({9}))], id="one makes room"
        ),
        pytest.param(
            [booking(9, 1, 2), booking(8, 3, rank=(0, 2), end=TOMORROW + 90)], 1, False,
            [Answer(frozenset({3}), frozenset({8}))], id="the weakest, however long",
        ),
        pytest.param(
            [booking(9, 1, 2), booking(8, 3, end=TOMORROW + 12)], 1, False,
            [Answer(frozenset({3}), frozenset({8}))], id="12 card-quarters before 16",
        ),
        pytest.param(
            [booking(9, 1, booked_at=3), booking(8, 2, booked_at=4), booking(7, 3, booked_at=2)], 1, False,
            [Answer(frozenset({2}), frozenset({8}))], id="who booked last",
        ),
        pytest.param([booking(9, 1, 2), booking(8, 3, displaced_before=2)], 1, False,
                     [Answer(frozenset({1}), frozenset({9}))], id="twice displaced is safe"),
        pytest.param([booking(9, 1, 2, 3, rank=(0, 0))], 1, False, [], id="an equal rank never makes room"),
    ],
)
def test_d4_trying_everything_finds_what_a_person_would(
    bookings: list[Booking], count: int, several_hosts: bool, best: list[Answer]
) -> None:
    lab = Lab(TOMORROW - 200, (A, B, C), tuple(bookings))
    request = Request(TOMORROW, TOMORROW + 8, count, several_hosts=several_hosts)
    assert choices(lab, request) == best
    assert agrees(chosen(lab, request), best)
