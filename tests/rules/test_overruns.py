"""What an overrun costs, what it carries on, and lost time that costs nothing: by hand and for any input (E3)."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservations.rules.interval import Interval
from reservations.rules.overruns import carried, overrun_price, uncharged
from reservations.rules.quota import Stretch, charge, free_seconds

SHANGHAI = ZoneInfo("Asia/Shanghai")
NOON = datetime(2026, 12, 1, 4, tzinfo=UTC)
WEEKS = [date(2026, 11, 30) + timedelta(days=7 * n) for n in range(5)]


def part(start: float, end: float) -> Interval:
    return Interval(NOON + timedelta(hours=start), NOON + timedelta(hours=end))


def test_e3_an_overrun_costs_twice_the_rate_of_each_window_and_nothing_of_it_is_free() -> None:
    price = (Stretch(part(0, 1), 150, free=True), Stretch(part(1, 2), 100))
    assert overrun_price(price) == (Stretch(part(0, 1), 300), Stretch(part(1, 2), 200))


@pytest.mark.parametrize(
    ("used", "overruns", "weighs"),
    [
        ([100, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]),
        ([110, 0, 0, 0, 0], [10, 0, 0, 0, 0], [0, 10, 0, 0, 0]),  # the next week pays it off
        ([110, 95, 100, 0, 0], [10, 0, 0, 0, 0], [0, 10, 5, 5, 0]),  # as far as it has room
        ([110, 0, 0, 0, 0], [4, 0, 0, 0, 0], [0, 4, 0, 0, 0]),  # the rest was overdrawn by something else
        ([110, 0, 0, 0, 0], [-3, 0, 0, 0, 0], [0, 0, 0, 0, 0]),
        ([105, 98, 0, 0, 0], [10, 10, 0, 0, 0], [0, 5, 3, 0, 0]),
        ([90, 0, 0, 0, 0], [10, 0, 0, 0, 0], [0, 0, 0, 0, 0]),  # within the allowance nothing is carried
    ],
)
def test_e3_what_overruns_overdrew_weighs_on_the_weeks_after(
    used: list[int], overruns: list[int], weighs: list[int]
) -> None:
    found = carried(WEEKS, dict(zip(WEEKS, used, strict=True)), dict(zip(WEEKS, overruns, strict=True)), 100)
    assert [found[week] for week in WEEKS] == weighs


@given(
    st.lists(st.integers(0, 300), min_size=5, max_size=5), st.lists(st.integers(0, 200), min_size=5, max_size=5),
    st.integers(0, 150),
)
def test_e3_a_debt_is_at_most_what_overruns_cost_before_and_at_most_what_was_overdrawn(
    used: list[int], overruns: list[int], allowance: int
) -> None:
    found = carried(WEEKS, dict(zip(WEEKS, used, strict=True)), dict(zip(WEEKS, overruns, strict=True)), allowance)
    assert found[WEEKS[0]] == 0
    for place in range(1, 5):
        debt = found[WEEKS[place]]
        assert 0 <= debt <= sum(overruns[:place])
        before = used[place - 1] + found[WEEKS[place - 1]]
        assert debt <= max(before - allowance, 0)


def test_e3_lost_time_costs_nothing_and_returning_it_twice_returns_it_once() -> None:
    price = (Stretch(part(0, 2), 100, free=True), Stretch(part(2, 6), 150))
    once = uncharged(price, [part(1, 3)])
    assert once == (
        Stretch(part(0, 1), 100, free=True), Stretch(part(1, 2), 0), Stretch(part(2, 3), 0), Stretch(part(3, 6), 150),
    )
    assert sum(charge([(once, 100)], SHANGHAI).values()) == 3 * 3600 * 150 * 100
    assert sum(free_seconds(once, 1, SHANGHAI).values()) == 3600
    again = uncharged(once, [part(1, 3)])
    assert sum(charge([(again, 100)], SHANGHAI).values()) == sum(charge([(once, 100)], SHANGHAI).values())


hours = st.integers(0, 20)


@given(hours, hours, hours, hours)
def test_e3_what_lost_time_returns_and_what_is_left_add_up_to_the_charge(a: int, b: int, c: int, d: int) -> None:
    if a >= b or c >= d:
        return
    price = (Stretch(part(0, 7), 100), Stretch(part(7, 20), 150))
    first, second = part(a, b), part(c, d)
    left = uncharged(uncharged(price, [first]), [second])
    whole, rest = (sum(charge([(one, 100)], SHANGHAI).values()) for one in (price, left))
    returned = sum(charge([(price, 100)], SHANGHAI, first).values())
    returned += sum(charge([(uncharged(price, [first]), 100)], SHANGHAI, second).values())
    assert whole == rest + returned
