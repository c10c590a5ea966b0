"""What a request for cards is refused for: one row per reason, and its innocent neighbour."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservations.rules.booking import Ask, Card, Facts, Holding, PoolFacts, Refusal, decide, period
from reservations.rules.interval import Interval
from reservations.rules.policy import Policy
from reservations.rules.quota import allowance_units
from reservations.rules.refusal import RULE, Code
from reservations.rules.windows import Timetable

SHANGHAI = ZoneInfo("Asia/Shanghai")
NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)  # Monday 14:00 in the lab
WEEK = date(2026, 11, 30)


def at(hours: float) -> datetime:
    return NOW + timedelta(hours=hours)


# One rate at all hours, walk-ins like any reservation: what these tables are not about.
PLAIN = Policy(
    mode="person", windows=(), walk_in_free_hours=0, walk_in_longest_s=72 * 3600, walk_in_cards=4, elastic=False
)


def check(wish: Ask, known: Facts) -> list[Refusal]:
    return list(decide(wish, known).refusals)


def facts(**changes: Any) -> Facts:
    """An approved PhD student with nothing booked, two free cards and one out of service."""
    plain = Facts(
        now=NOW, zone=SHANGHAI, policy=PLAIN, member_id=1, member_approved=True, member_role="phd",
        cards={1: Card(1, "a:0", 100, True), 2: Card(2, "a:1", 100, True), 3: Card(3, "a:2", 100, False)},
        pools={0: PoolFacts(frozenset({1, 2}), Timetable((), SHANGHAI, {}))},
        holdings=[], own=[], own_future=0, used={},
    )
    return replace(plain, **changes)


def ask(start: float | None = 8, end: float = 16, cards: tuple[int, ...] = (1, 2), tier: str = "regular") -> Ask:
    return Ask(cards, None if start is None else at(start), at(end), tier)


def held(card: int, start: float, end: float, by: int = 2) -> Holding:
    return Holding(card, Interval(at(start), at(end)), 77, by, "Li")


ALLOWED = [
    pytest.param(ask(), facts(), id="two cards for tonight"),
    pytest.param(ask(start=None, end=2), facts(), id="from now"),
    pytest.param(ask(start=-1 / 60, end=2), facts(policy=replace(PLAIN, raster_s=60)), id="a form a minute old means now"),
    pytest.param(ask(8, 8.5), facts(), id="A1: exactly 30 minutes"),
    pytest.param(ask(8, 80, cards=(1,)), facts(), id="A1: exactly 72 hours"),
    pytest.param(ask(), facts(holdings=[held(1, 6, 8), held(1, 16, 20)]), id="BT-07: back to back on both sides"),
    pytest.param(ask(), facts(holdings=[held(9, 8, 16)]), id="another card is held"),
    pytest.param(ask(), facts(own=[held(5, 8, 16, 1), held(6, 8, 16, 1)]), id="B1: exactly four at once"),
    pytest.param(ask(), facts(own=[held(n, 0, 8, 1) for n in (5, 6, 7, 8)]), id="B1: four more, but before"),
    pytest.param(ask(), facts(own_future=5), id="B1: the sixth ahead"),
    pytest.param(ask(start=None, end=2), facts(own_future=6), id="B1: what starts now does not lie ahead"),
    pytest.param(ask(), facts(used={WEEK: allowance_units(84)}), id="E2: exactly the last 16 hours"),
    pytest.param(ask(14 * 24, 14 * 24 + 8), facts(), id="A4: within the fourteenth day, which opened at noon"),
]

REFUSED = [
    pytest.param(ask(), facts(member_approved=False), {Code.NOT_APPROVED}, id="B2: not approved"),
    pytest.param(ask(), facts(member_role="guest"), {Code.ROLE_UNKNOWN}, id="B1: role not in the rules"),
    pytest.param(ask(cards=()), facts(), {Code.NO_CARDS}, id="no card"),
    pytest.param(ask(cards=(1, 99)), facts(), {Code.CARD_UNKNOWN}, id="G1: unknown card"),
    pytest.param(ask(cards=(3,)), facts(), {Code.CARD_OUT_OF_SERVICE}, id="G5: out of service"),
    pytest.param(ask(tier="vip"), facts(), {Code.TIER_UNKNOWN}, id="C1: unknown tier"),
    pytest.param(ask(tier="deadline"), facts(), {Code.TIER_NEEDS_GRANT}, id="C2: deadline needs a grant"),
    pytest.param(ask(8, 8), facts(), {Code.END_BEFORE_START}, id="BT-07: start = end"),
    pytest.param(ask(8, 7), facts(), {Code.END_BEFORE_START}, id="BT-07: end before start"),
    pytest.param(ask(8.1, 16), facts(), {Code.OFF_RASTER}, id="A1: start off the raster"),
    pytest.param(ask(8, 16.1), facts(), {Code.OFF_RASTER}, id="A1: end off the raster"),
    pytest.param(ask(None, 2.1), facts(), {Code.OFF_RASTER}, id="A1: from now, end off the raster"),
    pytest.param(ask(8, 8.25), facts(), {Code.TOO_SHORT}, id="A1: 15 minutes"),
    pytest.param(ask(8, 80.25, cards=(1,)), facts(), {Code.TOO_LONG}, id="A1: 72 h and a quarter"),
    pytest.param(ask(-5, 3), facts(), {Code.IN_PAST}, id="BT-06: begun in the past"),
    pytest.param(ask(-5, -3), facts(), {Code.IN_PAST}, id="BT-06: wholly past"),
    pytest.param(ask(14 * 24 + 9, 14 * 24 + 11), facts(), {Code.DAY_NOT_OPEN}, id="A4: touches the fifteenth day"),
    pytest.param(ask(), facts(holdings=[held(1, 7, 8.25)]), {Code.CARD_TAKEN}, id="BT-01: overlaps at the start"),
    pytest.param(ask(), facts(holdings=[held(2, 15.75, 20)]), {Code.CARD_TAKEN}, id="BT-01: overlaps at the end"),
    pytest.param(ask(), facts(holdings=[held(1, 9, 10, by=1)]), {Code.CARD_TAKEN}, id="own reservation clashes too"),
    pytest.param(
        ask(), facts(own=[held(n, 15, 20, 1) for n in (5, 6, 7)]), {Code.CARDS_AT_ONCE}, id="B1: five at one instant"
    ),
    pytest.param(ask(), facts(own_future=6), {Code.OPEN_FUTURE}, id="B1: a seventh ahead"),
    pytest.param(ask(), facts(used={WEEK: allowance_units(84) + 1}), {Code.QUOTA}, id="E2: one unit too much"),
    pytest.param(ask(cards=(1, 2)), facts(member_role="undergraduate", used={WEEK: allowance_units(5)}), {Code.QUOTA},
                 id="QT-02: two cards count twice"),
    pytest.param(
        ask(8.1, 7, cards=(3, 99), tier="vip"), facts(member_approved=False),
        {Code.END_BEFORE_START, Code.NOT_APPROVED, Code.TIER_UNKNOWN, Code.CARD_UNKNOWN, Code.CARD_OUT_OF_SERVICE},
        id="all reasons at once",
    ),
]


@pytest.mark.parametrize(("wish", "known"), ALLOWED)
def test_it_is_allowed(wish: Ask, known: Facts) -> None:
    assert check(wish, known) == []


@pytest.mark.parametrize(("wish", "known", "codes"), REFUSED)
def test_it_is_refused_for_exactly_these_reasons(wish: Ask, known: Facts, codes: set[Code]) -> None:
    assert {refusal.code for refusal in check(wish, known)} == codes


@pytest.mark.parametrize(
    ("wish", "known", "values"),
    [
        (ask(8.1, 16), facts(), {"start": at(8), "end": at(16)}),
        (ask(8, 8.25), facts(), {"start": at(8), "end": at(8.5)}),
        (ask(8, 90, cards=(1,)), facts(), {"start": at(8), "end": at(80)}),
        (ask(-5, 3), facts(), {"start": at(0), "end": at(8)}),
        (ask(), facts(used={WEEK: allowance_units(90)}), {"start": at(8), "end": at(13)}),
    ],
)
def test_a_refusal_offers_what_would_be_allowed_instead(wish: Ask, known: Facts, values: dict[str, datetime]) -> None:
    (refusal,) = check(wish, known)
    assert refusal.alternative is not None
    assert refusal.alternative.values == values
    assert check(replace(wish, **values), known) == []


def test_a_taken_card_names_its_holder_and_the_busy_interval() -> None:
    (refusal,) = check(ask(), facts(holdings=[held(1, 12, 14), held(1, 9, 10)]))
    assert refusal.facts == {"card": "a:0", "holder": "Li", "start": at(9), "end": at(10), "reservation": 77}


@pytest.mark.parametrize(("start", "begins"), [(None, 0), (0, 0), (-1 / 12, 0), (1, 1)])
def test_a4_a_start_up_to_five_minutes_old_means_now(start: float | None, begins: float) -> None:
    assert period(ask(start, 4), facts()) == Interval(at(begins), at(4))


relaxed = st.sampled_from(
    [
        {"longest_s": 400 * 3600}, {"shortest_s": 60}, {"cards_at_once": 50}, {"open_future": 50}, {"opens_days": 200},
        {"raster_s": 60}, {"form_age_s": 3600},
    ]
)


@given(
    relaxed, st.integers(-8, 400), st.integers(1, 400), st.sets(st.sampled_from([1, 2, 3]), min_size=1),
    st.integers(0, 8), st.integers(0, 110),
)
def test_relaxing_a_limit_never_adds_a_refusal(
    limit: dict[str, int], start: int, steps: int, cards: set[int], ahead: int, used: int
) -> None:
    wish = ask(start / 4, start / 4 + steps / 4, tuple(sorted(cards)))
    known = facts(own_future=ahead, used={WEEK: allowance_units(used)})
    before = {refusal.code for refusal in check(wish, known)}
    after = {refusal.code for refusal in check(wish, replace(known, policy=replace(PLAIN, **limit)))}
    assert after <= before


def test_every_code_names_its_rule() -> None:
    assert set(RULE) == set(Code)
