"""What holds for any input: relaxing never refuses more, prices add up, free time keeps to its budget."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from reservations.rules.booking import Ask, Card, Facts, Holding, PoolFacts, decide
from reservations.rules.interval import Interval
from reservations.rules.policy import STRICT, Policy, Role
from reservations.rules.quota import Price, Stretch, charge, free_again, free_first, free_seconds, price_from_json, price_to_json
from reservations.rules.windows import Timetable, Window

SHANGHAI, NEW_YORK = ZoneInfo("Asia/Shanghai"), ZoneInfo("America/New_York")
NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)  # Monday 14:00 in the lab
WEEK = date(2026, 11, 30)
QUARTER = timedelta(minutes=15)


def quarter(number: int) -> datetime:
    return NOW + number * QUARTER


# --- relaxing a limit -----------------------------------------------------------------------------------------------

CARDS = {
    number: Card(
        number, f"a:{number}", 250 if number > 4 else 100, True, number > 4, "a" if number % 3 else "b", f"{number:02}",
        memory=24 << 30, pickable=number != 2,
    )
    for number in range(1, 9)
}
TIGHT = replace(STRICT, mode="person", roles={"phd": Role(40)}, walk_in_free_hours=2, walk_in_cards=2, cards_at_once=3)


def _pools(policy: Policy, reserve: int, quick: int) -> dict[int, PoolFacts]:
    table = Timetable(policy.windows, SHANGHAI, {})
    pools = {False: frozenset({1, 2, 3, 4}), True: frozenset({5, 6, 7, 8})}
    return {number: PoolFacts(cards, table, reserve, quick) for number, cards in pools.items()}


def _with(facts: Facts, *, reserve: int = 1, quick: int = 1, **limits: Any) -> Facts:
    policy = replace(facts.policy, **limits)
    return replace(facts, policy=policy, pools=_pools(policy, reserve, quick))


RELAXED = st.sampled_from([
    {"longest_s": 400 * 3600}, {"walk_in_longest_s": 400 * 3600}, {"walk_in_cards": 9}, {"walk_in_free_hours": 99},
    {"windows": (replace(STRICT.windows[0], most_inside=None),)}, {"windows": (replace(STRICT.windows[0], rate=100),)},
    {"windows": ()}, {"reserve": 0}, {"quick": 0}, {"reserve": 0, "quick": 0}, {"quick_s": 6 * 3600},
    {"reserve_walk_in_s": 4 * 3600}, {"cards_at_once": 9}, {"open_future": 9},
    {"roles": {"phd": Role(400)}}, {"roles": {"phd": Role(40, 9, 9)}},
    {"longest_s": 400 * 3600, "walk_in_longest_s": 400 * 3600, "walk_in_cards": 9, "walk_in_free_hours": 99, "windows": (),
     "reserve": 0, "quick": 0, "cards_at_once": 9, "open_future": 9, "roles": {"phd": Role(400)}},
])


@st.composite
def holdings(draw: st.DrawFn, who: int, most: int) -> list[Holding]:
    """Some cards held by others; each at most once, so that nothing overlaps."""
    taken = []
    for card in draw(st.sets(st.integers(1, 8), max_size=most)):
        start = draw(st.integers(-8, 120))
        interval = Interval(quarter(start), quarter(start + draw(st.integers(2, 40))))
        taken.append(Holding(card, interval, 100 + card, who, "Li", draw(st.sampled_from(["regular", "deadline"])), start <= 0))
    return taken


@st.composite
def known(draw: st.DrawFn) -> Facts:
    plain = Facts(
        now=NOW, zone=SHANGHAI, policy=TIGHT, member_id=1, member_approved=True, member_role="phd", cards=CARDS, pools={},
        holdings=draw(holdings(2, 6)), own=draw(holdings(1, 2)), own_future=draw(st.integers(0, 3)),
        used={WEEK: draw(st.sampled_from([0, 0, 20, 33, 38, 44])) * 36_000_000}, free_used={WEEK: draw(st.integers(0, 2)) * 3600},
        used_last=draw(st.none() | st.integers(1, 8)),
    )
    return _with(plain)


@st.composite
def times(draw: st.DrawFn) -> tuple[datetime | None, datetime]:
    start = draw(st.none() | st.integers(0, 160))
    return None if start is None else quarter(start), quarter((start or 0) + draw(st.integers(1, 12) | st.integers(2, 48)))


@settings(max_examples=300)
@given(known(), times(), st.sets(st.integers(1, 8), min_size=1, max_size=4), RELAXED)
def test_relaxing_a_limit_never_adds_a_reason(
    facts: Facts, span: tuple[datetime | None, datetime], cards: set[int], limit: dict[str, Any]
) -> None:
    ask = Ask(tuple(sorted(cards)), *span, "regular")
    before = {one.code for one in decide(ask, facts).refusals}
    after = {one.code for one in decide(ask, _with(facts, **limit)).refusals}
    assert after <= before


@settings(max_examples=300)
@given(known(), times(), st.sampled_from([1, 1, 2, 3]), st.booleans(), RELAXED)
def test_relaxing_a_limit_never_refuses_what_was_granted_by_count(
    facts: Facts, span: tuple[datetime | None, datetime], count: int, several: bool, limit: dict[str, Any]
) -> None:
    ask = Ask((), *span, "regular", count, several_hosts=several)
    if decide(ask, facts).plan:
        assert decide(ask, _with(facts, **limit)).refusals == ()


@settings(max_examples=300)
@given(known(), times(), st.sampled_from([1, 1, 2, 3]))
def test_what_is_granted_by_count_is_granted_by_those_names_at_that_price(
    facts: Facts, span: tuple[datetime | None, datetime], count: int
) -> None:
    plan = decide(Ask((), *span, "regular", count), facts).plan
    if plan:
        assert len(set(plan.card_ids)) == count
        assert len({CARDS[card].host for card in plan.card_ids}) == 1
        assert decide(Ask(plan.card_ids, *span, "regular"), facts).plan == plan


# --- prices ---------------------------------------------------------------------------------------------------------


@st.composite
def prices(draw: st.DrawFn) -> Price:
    """Stretches that touch each other, over up to three weeks, at any rate, some free, with instants off every raster."""
    edge = NOW + timedelta(microseconds=draw(st.integers(0, 10 * 86_400 * 10**6)))
    stretches = []
    for _ in range(draw(st.integers(1, 5))):
        end = edge + timedelta(microseconds=draw(st.integers(1, 4 * 86_400 * 10**6)))
        stretches.append(Stretch(Interval(edge, end), draw(st.integers(0, 1000)), draw(st.booleans())))
        edge = end
    return tuple(stretches)


weights = st.integers(1, 1000)
zones = st.sampled_from([SHANGHAI, NEW_YORK])
priced_cards = st.lists(st.tuples(prices(), weights), min_size=1, max_size=4)


def total(*parts: dict[date, int]) -> dict[date, int]:
    weeks = {week for part in parts for week in part}
    return {week: units for week in weeks if (units := sum(part.get(week, 0) for part in parts))}


def whole(price: Price) -> Interval:
    return Interval(price[0].interval.start, price[-1].interval.end)


@given(priced_cards, zones, st.randoms(use_true_random=False))
def test_e1_a_charge_does_not_depend_on_the_order_and_is_the_sum_of_its_cards(
    cards: list[tuple[Price, int]], zone: ZoneInfo, dice: Any
) -> None:
    shuffled = list(cards)
    dice.shuffle(shuffled)
    assert charge(shuffled, zone) == charge(cards, zone)
    assert total(*(charge([card], zone) for card in cards)) == total(charge(cards, zone))


@given(prices(), weights, zones, st.floats(0, 1))
def test_e1_e3_a_price_cut_anywhere_adds_up_and_never_returns_more_than_was_charged(
    price: Price, weight: int, zone: ZoneInfo, where: float
) -> None:
    span = whole(price)
    cut = span.start + span.length * where
    parts = [Interval(a, b) for a, b in ((span.start, cut), (cut, span.end)) if a < b]
    all_of_it = charge([(price, weight)], zone)
    pieces = [charge([(price, weight)], zone, part) for part in parts]
    assert total(*pieces) == total(all_of_it)
    assert all(0 <= units <= all_of_it[week] for piece in pieces for week, units in piece.items())
    free = [free_seconds(price, 1, zone, part) for part in parts]
    assert total(*free) == total(free_seconds(price, 1, zone))


@given(prices())
def test_e6_a_price_is_read_as_it_was_stored(price: Price) -> None:
    assert price_from_json(price_to_json(price)) == price


# --- free time ------------------------------------------------------------------------------------------------------

days = st.lists(st.integers(0, 20 * 3600), min_size=40, max_size=40).map(
    lambda seconds: {date(2026, 11, 30) + timedelta(days=n): value for n, value in enumerate(seconds)}
)


def _unfree(price: Price) -> Price:
    return tuple(replace(one, free=False) for one in price)


def _touch(price: Price) -> bool:
    return all(one.interval.end == two.interval.start for one, two in pairwise(price))


@given(prices(), st.integers(1, 4), days, zones)
def test_d2_free_time_keeps_to_each_days_budget_and_comes_first(
    price: Price, cards: int, left: dict[date, int], zone: ZoneInfo
) -> None:
    plain = _unfree(price)
    got = free_first(plain, cards, left, zone)
    assert (whole(got), _touch(got)) == (whole(plain), True)
    taken = free_seconds(got, cards, zone)
    assert all(seconds <= left.get(day, 0) for day, seconds in taken.items())
    paid: set[date] = set()
    for one in got:
        day = one.interval.start.astimezone(zone).date()
        assert not (one.free and day in paid)
        if not one.free and one.interval.length >= timedelta(seconds=1):
            paid.add(day)
    cost, full = charge([(got, 100)], zone), charge([(plain, 100)], zone)
    assert all(units <= full[week] for week, units in cost.items())


@given(prices(), st.integers(1, 4), days, zones, st.floats(0, 0.99))
def test_d2_h0_what_is_free_again_is_at_most_what_was_free_and_what_is_left(
    price: Price, cards: int, left: dict[date, int], zone: ZoneInfo, where: float
) -> None:
    all_of_it = whole(price)
    cut = min(all_of_it.start + all_of_it.length * where, all_of_it.end - timedelta(microseconds=1))
    span = Interval(cut, all_of_it.end)
    got = free_again(price, span, cards, left, zone)
    assert (whole(got), _touch(got)) == (all_of_it, True)
    was, now = free_seconds(price, cards, zone, span), free_seconds(got, cards, zone, span)
    assert all(seconds <= min(left.get(day, 0), was[day]) for day, seconds in now.items() if seconds)
    same = free_again(price, span, cards, was, zone)
    assert total(charge([(same, 100)], zone)) == total(charge([(price, 100)], zone))
    assert total(free_seconds(same, cards, zone)) == total(free_seconds(price, cards, zone))
    assert charge([(_unfree(got), 100)], zone) == charge([(_unfree(price), 100)], zone)


@given(st.sampled_from([Window(1, STRICT.windows[0].mode)]), times(), st.sets(st.integers(1, 8), min_size=1, max_size=2))
def test_d2_a_granted_walk_in_never_takes_more_free_time_than_the_day_has(
    window: Window, span: tuple[datetime | None, datetime], cards: set[int]
) -> None:
    plain = Facts(
        now=NOW, zone=SHANGHAI, policy=replace(TIGHT, windows=(window,), walk_in_cards=4), member_id=1, member_approved=True,
        member_role="phd", cards=CARDS, pools={}, holdings=[], own=[], own_future=0, used={}, free_used={WEEK: 1800},
    )
    facts = _with(plain, reserve=0, quick=0)
    plan = decide(Ask(tuple(sorted(cards)), None, span[1], "regular"), facts).plan
    if plan:
        taken = total(*(free_seconds(price, 1, SHANGHAI) for price in plan.prices.values()))
        assert all(seconds <= 2 * 3600 - facts.free_used.get(day, 0) for day, seconds in taken.items())
