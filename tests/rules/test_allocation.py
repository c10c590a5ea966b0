"""G2: which cards a request gets. D4: who makes room for it."""

import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservations.rules.allocation import Blocker, Candidate, Choice, choose, choose_with_blockers, waste_beside
from reservations.rules.interval import Interval

NOW = datetime(2026, 11, 30, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def a_choice(card_ids: tuple[int, ...], displaced: frozenset[int]) -> Choice:
    """A choice to compare with; what it is worth is not compared."""
    return Choice(card_ids, displaced, worth=(((0, 0), timedelta(), 0), (0, timedelta(), 0, (), ())))


def at(hours: float) -> datetime:
    return NOW + hours * HOUR


def held(*parts: tuple[float, float]) -> list[Interval]:
    return [Interval(at(start), at(end)) for start, end in parts]


WANTED = Interval(at(10), at(14))


@pytest.mark.parametrize(
    ("others", "now", "minutes"),
    [
        ([], 0, 0),
        ([(0, 10)], 0, 0),  # no gap is no waste
        ([(14, 20)], 0, 0),
        ([(0, 9)], 0, 60),
        ([(0, 8)], 0, 0),  # two hours can be used
        ([(0, 8 + 1 / 60)], 0, 119),
        ([(15, 20)], 0, 60),
        ([(16, 20)], 0, 0),
        ([(15.75, 20)], 0, 105),
        ([(0, 9), (15.5, 20)], 0, 150),  # both sides together
        ([(0, 3), (3, 9.5), (14.25, 15), (16, 20)], 0, 45),  # only the nearest on each side
        ([], 9, 60),  # before the first holding lies now
        ([], 8, 0),
        ([], 10, 0),  # a walk-in
        ([(0, 5)], 9.5, 30),
        ([(16.5, 17)], 10, 0),
    ],
)
def test_g2_waste_is_the_time_under_two_hours_beside_the_request(
    others: list[tuple[float, float]], now: float, minutes: int
) -> None:
    assert waste_beside(WANTED, held(*others), at(now)) == minutes * MINUTE
    assert waste_beside(WANTED, iter(held(*others)), at(now)) == minutes * MINUTE


def card(number: int, host: str = "a", bus: int | None = None, waste: int = 0, used_last: bool = False) -> Candidate:
    return Candidate(number, host, f"00000000:{number if bus is None else bus:02X}:00.0", waste * MINUTE, used_last)


@pytest.mark.parametrize(
    ("candidates", "count", "cards"),
    [
        pytest.param([], 1, None, id="nothing"),
        pytest.param([card(1)], 2, None, id="too few"),
        pytest.param([card(1, "a"), card(2, "b")], 2, None, id="too few on one host"),
        pytest.param([card(1), card(2), card(3)], 2, (1, 2), id="the lowest bus ids"),
        pytest.param([card(1, bus=9), card(2, bus=10), card(3, bus=8)], 2, (3, 1), id="in order of bus id, not of number"),
        pytest.param([card(1, waste=15), card(2), card(3)], 2, (2, 3), id="less waste before a lower bus id"),
        pytest.param([card(1), card(2, used_last=True)], 1, (2,), id="the card used last before a lower bus id"),
        pytest.param([card(1), card(2, waste=15, used_last=True)], 1, (1,), id="less waste before the card used last"),
        pytest.param(
            [card(1, "a", waste=10), card(2, "a", waste=10), card(3, "b", waste=15), card(4, "b")], 2, (3, 4),
            id="the smallest total, not the smallest single one",
        ),
        pytest.param(
            [card(1), card(2, used_last=True), card(3, used_last=True)], 2, (2, 3), id="both cards used last",
        ),
        pytest.param(
            [card(1, used_last=True), card(2, waste=10), card(3, waste=10, used_last=True)], 2, (1, 3),
            id="both cards used last, one of them at the price of the last place",
        ),
        pytest.param(
            [card(1, "b", 1), card(2, "b", 5), card(3, "a", 1), card(4, "a", 9)], 2, (1, 2),
            id="the bus ids decide before the name of the host",
        ),
        pytest.param([card(1, "b", 1), card(2, "a", 1)], 1, (2,), id="all equal: one is always the first"),
        pytest.param([card(2, "a", 1), card(1, "a", 1)], 1, (1,), id="two instances of one card"),
    ],
)
def test_g2_one_host(candidates: list[Candidate], count: int, cards: tuple[int, ...] | None) -> None:
    assert choose(candidates, count) == cards
    assert choose(list(reversed(candidates)), count) == cards
    assert choose_with_blockers(candidates, {}, count) == (cards and a_choice(cards, frozenset()))


@pytest.mark.parametrize(
    ("candidates", "count", "cards"),
    [
        pytest.param([card(1, "a"), card(2, "b")], 2, (1, 2), id="one on each of two"),
        pytest.param([card(1, "a"), card(2, "b"), card(3, "b", waste=90)], 2, (2, 3), id="one host before less waste"),
        pytest.param([card(1, "a"), card(2, "b"), card(3, "c")], 4, None, id="too few anywhere"),
        pytest.param(
            [card(1, "a"), card(2, "a"), card(3, "b"), card(4, "c"), card(5, "c")], 4, (1, 2, 4, 5), id="two hosts before three"
        ),
        pytest.param(
            [card(1, "a"), card(2, "a", waste=30), card(3, "b"), card(4, "b", waste=20), card(5, "c", waste=5)], 3, (1, 3, 4),
            id="the smallest total over all pairs of hosts",
        ),
        pytest.param(
            [card(1, "a"), card(2, "b"), card(3, "c", used_last=True)], 2, (1, 3), id="the card used last on one of them"
        ),
    ],
)
def test_g2_several_hosts_where_allowed(candidates: list[Candidate], count: int, cards: tuple[int, ...] | None) -> None:
    assert choose(candidates, count, several_hosts=True) == cards
    assert choose(list(reversed(candidates)), count, several_hosts=True) == cards


def test_g2_sixty_hosts_are_chosen_from_at_once() -> None:
    many = [card(host * 10 + slot, f"host{host:02}", slot) for host in range(60) for slot in range(1 + host % 3)]
    began = clock.perf_counter()
    chosen = choose(many, 16, several_hosts=True)
    free_anyway = choose_with_blockers(many, {}, 16, several_hosts=True)
    assert clock.perf_counter() - began < 5
    assert chosen is not None
    assert len({number // 10 for number in chosen}) == 6  # five of three cards, one more for the sixteenth
    assert free_anyway == a_choice(chosen, frozenset())


# --- D4 -------------------------------------------------------------------------------------------------------------
REGULAR, EXPLORATION, ONE_STEP, ELASTIC = (0, 1), (0, 2), (0, 3), (1, 1)


def blocker(number: int, rank: tuple[int, int] = REGULAR, hours: float = 8, booked: float = 0) -> Blocker:
    return Blocker(number, rank, hours * HOUR, at(booked))


CARDS = [card(1), card(2), card(3)]
W, X, Y, Z = 91, 92, 93, 94


@pytest.mark.parametrize(
    ("blockers", "count", "cards", "displaced"),
    [
        pytest.param({1: [blocker(X)], 3: [blocker(Y)]}, 1, (2,), set(), id="a free card: nobody makes room"),
        pytest.param(
            {1: [blocker(X)], 2: [blocker(Y, EXPLORATION, 99)], 3: [blocker(Z)]}, 1, (2,), {Y},
            id="the weakest, however many card-hours",
        ),
        pytest.param(
            {1: [blocker(X, EXPLORATION)], 2: [blocker(Y, ONE_STEP)], 3: [blocker(Z, ELASTIC, 99)]}, 1, (3,), {Z},
            id="elastic is weaker than any tier in quota",
        ),
        pytest.param(
            {1: [blocker(X, ONE_STEP, 1), blocker(W, REGULAR, 1)], 2: [blocker(Y, EXPLORATION)], 3: [blocker(Z)]}, 1, (2,), {Y},
            id="it is the strongest member of a set that counts",
        ),
        pytest.param(
            {1: [blocker(X, hours=9)], 2: [blocker(Y, hours=8)], 3: [blocker(Z, hours=8.25)]}, 1, (2,), {Y},
            id="fewest card-hours",
        ),
        pytest.param(
            {1: [blocker(X, hours=4), blocker(W, hours=5)], 2: [blocker(Y, hours=8)], 3: [blocker(Z, hours=10)]}, 1, (2,), {Y},
            id="card-hours of the whole set",
        ),
        pytest.param(
            {1: [blocker(X, booked=1)], 2: [blocker(Y, booked=3)], 3: [blocker(Z, booked=2)]}, 1, (2,), {Y}, id="who booked last",
        ),
        pytest.param(
            {1: [blocker(X, hours=4, booked=1), blocker(W, hours=4, booked=9)], 2: [blocker(Y, booked=2)],
             3: [blocker(Z, booked=1)]}, 1, (2,), {Y}, id="the earliest-booked member of the set counts",
        ),
        pytest.param({1: [blocker(X)], 2: [blocker(Y)], 3: [blocker(Z)]}, 1, (1,), {X}, id="all equal: the lowest bus id"),
        pytest.param(
            {1: [blocker(X, hours=6)], 2: [blocker(Y, hours=10)], 3: [blocker(Y, hours=10)]}, 2, (2, 3), {Y},
            id="one whole reservation before two smaller ones",
        ),
        pytest.param(
            {1: [blocker(X, hours=4)], 2: [blocker(Y, hours=10)], 3: [blocker(Y, hours=10)]}, 1, (1,), {X},
            id="but not where one card is enough",
        ),
        pytest.param({1: [blocker(X)], 2: [blocker(Y)]}, 2, (1, 3), {X}, id="free cards are used as far as they go"),
        pytest.param({1: [blocker(X)], 2: [blocker(Y)], 3: [blocker(Z)]}, 4, None, set(), id="too few cards"),
    ],
)
def test_d4_whom_to_displace(
    blockers: Mapping[int, Sequence[Blocker]], count: int, cards: tuple[int, ...] | None, displaced: set[int]
) -> None:
    expected = cards and a_choice(cards, frozenset(displaced))
    assert choose_with_blockers(CARDS, blockers, count) == expected
    assert choose_with_blockers(list(reversed(CARDS)), blockers, count) == expected


@pytest.mark.parametrize(
    ("candidates", "cards"),
    [
        ([card(1, waste=15), card(2), card(3)], (2,)),
        ([card(1), card(2), card(3, used_last=True)], (3,)),
        ([card(1, waste=15), card(2, waste=5), card(3, waste=10, used_last=True)], (2,)),
    ],
)
def test_d4_g2_decides_between_equal_sets(candidates: list[Candidate], cards: tuple[int, ...]) -> None:
    blockers = {one.card_id: [blocker(90 + one.card_id)] for one in candidates}
    assert choose_with_blockers(candidates, blockers, 1) == a_choice(cards, frozenset({90 + cards[0]}))


def test_d4_free_cards_on_two_hosts_before_displacing_on_one_where_that_is_allowed() -> None:
    candidates = [card(1, "a"), card(2, "a"), card(3, "b")]
    blockers = {2: [blocker(X)]}
    assert choose_with_blockers(candidates, blockers, 2, several_hosts=True) == a_choice((1, 3), frozenset())
    assert choose_with_blockers(candidates, blockers, 2) == a_choice((1, 2), frozenset({X}))


# --- for any lab ----------------------------------------------------------------------------------------------------
@st.composite
def labs(draw: st.DrawFn) -> tuple[list[Candidate], dict[int, list[Blocker]]]:
    places = draw(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5)), min_size=1, max_size=8, unique=True))
    candidates = [
        card(number, host, bus, draw(st.sampled_from([0, 0, 15, 30])), draw(st.booleans()))
        for number, (host, bus) in enumerate(places, 1)
    ]
    rows = [
        blocker(number, draw(st.sampled_from([REGULAR, EXPLORATION, ELASTIC])), draw(st.integers(1, 4)), draw(st.integers(0, 2)))
        for number in range(90, 90 + draw(st.integers(0, 6)))
    ]
    blockers: dict[int, list[Blocker]] = {one.card_id: [] for one in candidates}
    for row in rows:
        for number in draw(st.sets(st.sampled_from([one.card_id for one in candidates]), min_size=1, max_size=3)):
            blockers[number].append(row)
    return candidates, blockers


COUNTS = st.integers(1, 5)


@given(labs(), COUNTS, st.booleans(), st.randoms(use_true_random=False))
def test_g2_the_choice_is_of_the_candidates_and_of_the_right_size_in_any_order(lab, count: int, several: bool, chance) -> None:
    candidates, _ = lab
    chosen = choose(candidates, count, several_hosts=several)
    assert choose(chance.sample(candidates, len(candidates)), count, several_hosts=several) == chosen
    hosts = [one.host for one in candidates]
    possible = len(candidates) >= count if several else max(hosts.count(host) for host in hosts) >= count
    assert (chosen is not None) == possible
    if chosen is not None:
        by_id = {one.card_id: one for one in candidates}
        assert len(set(chosen)) == len(chosen) == count
        assert set(chosen) <= set(by_id)
        assert [by_id[number].bus_id for number in chosen] == sorted(by_id[number].bus_id for number in chosen)
        used = {by_id[number].host for number in chosen}
        assert several or len(used) == 1
        fewer = (set(some) for some in combinations(sorted(set(hosts)), len(used) - 1))
        assert not any(sum(host in some for host in hosts) >= count for some in fewer)


@given(labs(), COUNTS, st.booleans(), st.randoms(use_true_random=False))
def test_d4_exactly_those_on_the_chosen_cards_make_room_in_any_order(lab, count: int, several: bool, chance) -> None:
    candidates, blockers = lab
    choice = choose_with_blockers(candidates, blockers, count, several_hosts=several)
    mixed = {number: chance.sample(rows, len(rows)) for number, rows in chance.sample(list(blockers.items()), len(blockers))}
    assert choose_with_blockers(chance.sample(candidates, len(candidates)), mixed, count, several_hosts=several) == choice
    assert (choice is None) == (choose(candidates, count, several_hosts=several) is None)
    if choice is not None:
        assert len(set(choice.card_ids)) == len(choice.card_ids) == count
        assert set(choice.card_ids) <= {one.card_id for one in candidates}
        assert choice.displaced == {row.reservation_id for number in choice.card_ids for row in blockers[number]}


@given(labs(), COUNTS, st.booleans())
def test_d4_nobody_is_displaced_where_free_cards_are_enough(lab, count: int, several: bool) -> None:
    candidates, blockers = lab
    free = choose([one for one in candidates if not blockers[one.card_id]], count, several_hosts=several)
    choice = choose_with_blockers(candidates, blockers, count, several_hosts=several)
    assert (free is not None) == (choice is not None and not choice.displaced)
    if free is not None:
        assert choice == a_choice(free, frozenset())


@given(labs(), COUNTS, st.booleans(), st.sampled_from("abcd"), st.integers(0, 119), st.booleans())
def test_d4_another_free_card_never_makes_a_displacement_necessary(
    lab, count: int, several: bool, host: str, waste: int, used_last: bool
) -> None:
    candidates, blockers = lab
    before = choose_with_blockers(candidates, blockers, count, several_hosts=several)
    after = choose_with_blockers([*candidates, card(50, host, 0, waste, used_last)], blockers, count, several_hosts=several)
    if before is not None:
        assert after is not None
        assert cost(after, blockers) <= cost(before, blockers)
        if not before.displaced:
            assert not after.displaced


@given(labs(), COUNTS, st.booleans(), st.data())
def test_d4_a_reservation_that_goes_away_never_makes_it_dearer(lab, count: int, several: bool, data: st.DataObject) -> None:
    candidates, blockers = lab
    before = choose_with_blockers(candidates, blockers, count, several_hosts=several)
    gone = data.draw(st.integers(90, 95))
    fewer = {number: [row for row in rows if row.reservation_id != gone] for number, rows in blockers.items()}
    after = choose_with_blockers(candidates, fewer, count, several_hosts=several)
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert cost(after, fewer) <= cost(before, blockers)


def cost(choice: Choice, blockers: Mapping[int, Sequence[Blocker]]) -> tuple[object, ...]:
    """D4's order, smaller is better."""
    rows = {row.reservation_id: row for many in blockers.values() for row in many}
    members = [rows[number] for number in choice.displaced]
    if not members:
        return (0,)
    quota, tier = min(row.rank for row in members)
    return (1, -quota, -tier, sum((row.cost for row in members), timedelta()), NOW - min(row.booked_at for row in members))


@given(labs(), COUNTS)
def test_d4_the_choice_hangs_on_nothing_but_the_order_of_ranks(lab, count: int) -> None:
    """Ranks are compared, never added (C3)."""
    candidates, blockers = lab
    wider = {
        number: [replace(row, rank=(row.rank[0] * 10, row.rank[1] * 100)) for row in rows] for number, rows in blockers.items()
    }
    assert choose_with_blockers(candidates, wider, count) == choose_with_blockers(candidates, blockers, count)
