"""What is offered instead of a refused request: whole plans that the law allows, of three sorts, never earlier than asked."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reservations.rules import instead, slots
from reservations.rules.booking import Ask, Card, Facts, decide
from reservations.rules.instead import How, alternatives
from reservations.rules.policy import Role
from reservations.rules.quota import allowance_units
from reservations.rules.slots import earliest

from .test_slots import BALANCED, NOW, PLAIN, QUARTER, any_cards, at, facts, held, hours, known, large, last_day_of

# Cards 1 and 2 are on host a, 3 and 4 on host b. Hour 0 is Monday 14:00.


def named(cards: tuple[int, ...], start: float | None = 8, end: float = 16) -> Ask:
    return Ask(cards, None if start is None else at(start), at(end), "regular")


def offered(ask: Ask, facts: Facts) -> list[tuple[str, float, float, tuple[int, ...]]]:
    return [
        (str(one.how), (one.plan.held.start - NOW) / hours(1), (one.plan.held.end - NOW) / hours(1), one.plan.card_ids)
        for one in alternatives(ask, facts)
    ]


TAKEN = [held(1, 8, 12), held(2, 10, 12)]


@pytest.mark.parametrize(
    ("ask", "known", "answer"),
    [
        pytest.param(
            named((1, 2)), facts(holdings=[held(1, 8, 12)]),
            [("other_time", 8, 16, (3, 4)), ("fewer", 8, 16, (2,)), ("other_time", 16, 24, (1, 2))],
            id="D5: like cards at once, the other one alone, and when the named ones are free again",
        ),
        pytest.param(
            named((1, 2)), facts(holdings=[*TAKEN, held(3, 14, 20)]),
            [("other_time", 12, 20, (1, 2)), ("fewer", 8, 16, (4,)), ("shorter", 8, 14, (3, 4))],
            id="no card is swapped without need: at noon the named ones are free again",
        ),
        pytest.param(
            named((1,)), facts(holdings=[held(1, 12, 20), held(2, 7, 18), held(3, 7, 19), held(4, 7, 19)]),
            [("other_time", 18, 26, (2,)), ("shorter", 8, 12, (1,)), ("other_time", 26, 34, (1,))],
            id="one card has no fewer: the place is filled with another time",
        ),
        pytest.param(
            named((1, 2), 8, 18), facts(used={NOW.date(): allowance_units(90)}),
            [("other_time", 149, 159, (1, 2)), ("fewer", 8, 18, (1,)), ("shorter", 8, 13, (1, 2))],
            id="E2: ten hours are left",
        ),
        pytest.param(
            any_cards(3, 8, several_hosts=True, end=at(10)), facts(holdings=[held(1, 9, 11), held(2, 9, 12)]),
            [("other_time", 11, 13, (1, 3, 4)), ("fewer", 8, 10, (3, 4)), ("shorter", 8, 9, (1, 2, 3))],
            id="by count, over hosts",
        ),
        pytest.param(
            Ask((1,), NOW - hours(3), at(2), "regular"), facts(),
            [("other_time", 0, 2, (1,)), ("other_time", 2, 4, (1,)), ("other_time", 4, 6, (1,))],
            id="A4: a start in the past is now, and the end stays",
        ),
        pytest.param(named((1,), 8, 100), facts(), [("shorter", 8, 80, (1,))], id="A1: longer than any may be"),
        pytest.param(
            named((1,), 24 * 14 + 8, 24 * 14 + 12), facts(), [("shorter", 24 * 14 + 8, 24 * 14 + 10, (1,))],
            id="A4: as far as the days are open",
        ),
        pytest.param(named((1,)), facts(member_approved=False), [], id="B2: nothing for who may not book"),
        pytest.param(named((1,), 8, 8), facts(), [], id="an end that is no end"),
        pytest.param(named(()), facts(), [], id="no cards"),
        pytest.param(named((99,)), facts(), [], id="no such card"),
    ],
)
def test_d5_what_is_offered_instead(ask: Ask, known: Facts, answer: list[tuple[str, float, float, tuple[int, ...]]]) -> None:
    assert offered(ask, known) == answer


def test_d2_a_walk_in_between_two_steps_gets_like_cards_until_the_end_it_asked_for() -> None:
    now = NOW + timedelta(minutes=7)
    known = facts(now=now, holdings=[held(1, -1, 3)])
    first, *_ = alternatives(Ask((1,), None, at(8), "regular"), known)
    assert (first.how, first.plan.card_ids, first.plan.held.start, first.plan.held.end) == (How.OTHER_TIME, (2,), now, at(8))


def test_g5_a_card_out_of_service_is_replaced_by_its_like() -> None:
    known = facts()
    known = replace(known, cards={**known.cards, 1: replace(known.cards[1], in_service=False)})
    assert offered(named((1, 2)), known)[:2] == [("other_time", 8, 16, (3, 4)), ("fewer", 8, 16, (2,))]


def test_d4_cards_that_are_not_alike_are_not_swapped() -> None:
    known = facts(holdings=[held(1, 8, 12)])
    mixed = {**known.cards, 3: replace(known.cards[3], model="H100")}
    assert offered(named((1, 3)), replace(known, cards=mixed)) == [
        ("other_time", 12, 20, (1, 3)), ("fewer", 8, 16, (3,)), ("other_time", 20, 28, (1, 3))
    ]


def test_the_dearest_card_is_left_out_when_none_is_in_the_way() -> None:
    known = facts(used={NOW.date(): allowance_units(80)})
    dear = {**known.cards, 2: Card(2, "a:2", 250, True, 2, "a", "02", "H100")}
    known = replace(known, cards=dear, pools={**known.pools, 2: replace(known.pools[1], card_ids=frozenset({2}))})
    assert ("fewer", 8, 16, (1,)) in offered(named((1, 2)), known)


@st.composite
def refused(draw: st.DrawFn) -> tuple[Ask, Facts]:
    known_ = draw(known())
    start = draw(st.none() | st.integers(-30, 90).map(lambda n: known_.now + n * QUARTER))
    end = (start or known_.now) + draw(st.integers(1, 60)) * QUARTER
    cards = tuple(sorted(draw(st.sets(st.integers(1, 8), min_size=1, max_size=3))))
    by_count = Ask((), start, end, "regular", len(cards), draw(st.sampled_from([None, 1, 2])), several_hosts=draw(st.booleans()))
    return draw(st.sampled_from([Ask(cards, start, end, "regular"), by_count])), known_


@settings(max_examples=120, deadline=None)
@given(refused())
def test_each_is_allowed_as_it_stands_different_and_of_its_sort(case: tuple[Ask, Facts]) -> None:
    ask, known_ = case
    found = alternatives(ask, known_)
    assert len(found) <= 3
    for one, other in permutations(found, 2):
        inside = other.plan.held.cut(one.plan.held) == one.plan.held and set(one.plan.card_ids) <= set(other.plan.card_ids)
        assert not (inside and found.index(other) < found.index(one))
    asked_start = known_.now if ask.start is None else max(ask.start, known_.now)
    for one in found:
        plan = one.plan
        start = None if plan.kind == "walk_in" else plan.held.start
        again = decide(replace(ask, card_ids=plan.card_ids, start=start, end=plan.held.end), known_).plan
        assert again and set(again.card_ids) == set(plan.card_ids) and again.prices == plan.prices
        assert plan.held.start >= asked_start
        cards = [known_.cards[card_id] for card_id in plan.card_ids]
        if ask.is_named:
            kinds = {(known_.cards[i].pool_id, known_.cards[i].model) for i in ask.card_ids}
            assert {(card.pool_id, card.model) for card in cards} <= kinds
        else:
            assert all(ask.pool_id in (None, card.pool_id) for card in cards)
        assert len(cards) == ask.wanted - (one.how == How.FEWER)
        if one.how == How.SHORTER:
            assert plan.held.end < max(ask.end, plan.held.end + QUARTER)
            assert plan.held.start < asked_start + hours(1)


@settings(max_examples=60, deadline=None)
@given(refused())
def test_shorter_is_the_longest_that_trying_every_end_finds(case: tuple[Ask, Facts]) -> None:
    ask, known_ = case
    raster = timedelta(seconds=known_.policy.raster_s)
    start = known_.now if ask.start is None or ask.start <= known_.now else slots.next_step(ask.start, 900, known_.zone)
    found = instead._longest(
        replace(ask, start=None if start == known_.now else start), known_, slots.Interval(start, max(ask.end, start + raster)),
        last_day_of(known_),
    )
    best = None
    end = start.replace(second=0, microsecond=0)
    while end < max(ask.end, start + raster):
        wish = replace(ask, start=None if start == known_.now else start, end=end)
        best = decide(wish, known_).plan or best
        end += timedelta(minutes=15) if end.minute % 15 == 0 else timedelta(minutes=1)
    assert (found and found.held) == (best and best.held)


@pytest.mark.parametrize(
    "ask", [named((3, 4), 30, 90), named((3, 4), None, 8), any_cards(4, 30, end=at(90)), any_cards(1, 10, end=at(14))]
)
@pytest.mark.parametrize("free", [range(0), range(2, 12), range(64)])
def test_alternatives_take_few_questions(monkeypatch: pytest.MonkeyPatch, ask: Ask, free: range) -> None:
    questions: list[Ask] = []

    def counting(ask: Ask, facts: Facts) -> Any:
        questions.append(ask)
        return decide(ask, facts)

    monkeypatch.setattr(slots, "decide", counting)
    monkeypatch.setattr(instead, "decide", counting)
    policy = replace(BALANCED, mode="person", roles={"phd": Role(150)})
    alternatives(ask, large(policy, free))
    assert len(questions) <= 25


def test_the_first_slot_for_a_displaced_one_is_the_earliest_there_is() -> None:
    known_ = facts(PLAIN, holdings=[held(n, 6, 12) for n in (1, 2, 3, 4)])
    (one, *_) = alternatives(named((1,), 8, 10), known_)
    assert one.plan == earliest(any_cards(1, 8), known_, length=hours(2), until=at(48))[0]
