"""E1, E2: charges."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservations.rules import quota
from reservations.rules.interval import Interval
from reservations.rules.quota import UNITS_PER_GPU_HOUR, Stretch, allowance_units, longest_affordable, overdrawn

SHANGHAI, NEW_YORK = ZoneInfo("Asia/Shanghai"), ZoneInfo("America/New_York")
MONDAY = datetime(2026, 11, 29, 16, tzinfo=UTC)  # Monday 30 November 00:00 in Shanghai
WEEK, NEXT = date(2026, 11, 30), date(2026, 12, 7)


def span(start_h: float, end_h: float) -> Interval:
    return Interval(MONDAY + timedelta(hours=start_h), MONDAY + timedelta(hours=end_h))


def charge(held: Interval, weights: list[int], zone: ZoneInfo, within: Interval | None = None) -> dict[date, int]:
    """What cards of these weights cost at the plain rate."""
    return quota.charge([((Stretch(held),), weight) for weight in weights], zone, within)


def unused(held: Interval, from_: datetime, weights: list[int], zone: ZoneInfo) -> dict[date, int]:
    """What is returned when they are released at `from_`."""
    return charge(held, weights, zone, Interval(from_, held.end)) if from_ < held.end else {}


def gpu_hours(units: int) -> float:
    return units / UNITS_PER_GPU_HOUR


@pytest.mark.parametrize(
    ("held", "weights", "hours"),
    [
        (span(10, 12), [100], {WEEK: 2}),
        (span(10, 12), [100, 100], {WEEK: 4}),
        (span(10, 12), [100, 50], {WEEK: 3}),
        (span(166, 172), [100], {WEEK: 2, NEXT: 4}),
        (span(0, 0.25), [100], {WEEK: 0.25}),
    ],
)
def test_e1_a_charge_is_elapsed_hours_times_cards_times_weight(
    held: Interval, weights: list[int], hours: dict[date, float]
) -> None:
    assert {week: gpu_hours(units) for week, units in charge(held, weights, SHANGHAI).items()} == hours


@pytest.mark.parametrize(
    ("day", "hours"),
    [(datetime(2026, 3, 8, 5, tzinfo=UTC), 5), (datetime(2026, 11, 1, 4, tzinfo=UTC), 7)],
)
def test_bt_11_midnight_to_six_costs_the_hours_that_pass_on_a_night_of_clock_change(day: datetime, hours: int) -> None:
    held = Interval(day, day + timedelta(hours=hours))
    assert [held.start.astimezone(NEW_YORK).hour, held.end.astimezone(NEW_YORK).hour] == [0, 6]
    assert gpu_hours(sum(charge(held, [100], NEW_YORK).values())) == hours


instants = st.integers(min_value=0, max_value=30 * 86_400 * 10**6).map(lambda n: MONDAY + timedelta(microseconds=n))
weights = st.lists(st.integers(min_value=1, max_value=1000), min_size=1, max_size=6)


@given(st.lists(instants, min_size=3, max_size=3, unique=True).map(sorted), weights)
def test_e1_charging_parts_costs_what_charging_the_whole_costs(three: list[datetime], prices: list[int]) -> None:
    a, b, c = three
    parts = [charge(Interval(a, b), prices, SHANGHAI), charge(Interval(b, c), prices, SHANGHAI)]
    whole = charge(Interval(a, c), prices, SHANGHAI)
    assert {week: sum(part.get(week, 0) for part in parts) for week in whole} == whole


@given(st.lists(instants, min_size=2, max_size=2, unique=True).map(sorted), weights, st.randoms())
def test_e1_a_charge_does_not_depend_on_the_order_of_cards(two: list[datetime], prices: list[int], dice: object) -> None:
    shuffled = sorted(prices, key=lambda _: dice.random())  # type: ignore[attr-defined]
    assert charge(Interval(*two), prices, SHANGHAI) == charge(Interval(*two), shuffled, SHANGHAI)


@given(st.lists(instants, min_size=3, max_size=3, unique=True).map(sorted), weights)
def test_e3_what_is_returned_is_at_most_what_was_charged(three: list[datetime], prices: list[int]) -> None:
    start, left, end = three
    whole, returned = charge(Interval(start, end), prices, SHANGHAI), unused(Interval(start, end), left, prices, SHANGHAI)
    kept = charge(Interval(start, left), prices, SHANGHAI)
    assert all(0 <= returned.get(week, 0) <= units for week, units in whole.items())
    assert {week: kept.get(week, 0) + returned.get(week, 0) for week in whole} == whole


def test_e3_nothing_is_returned_after_the_end() -> None:
    assert unused(span(0, 2), MONDAY + timedelta(hours=2), [100], SHANGHAI) == {}


def test_e2_each_week_must_have_room_for_its_own_part() -> None:
    charges = charge(span(166, 172), [100], SHANGHAI)
    allowance = allowance_units(10)
    used = {WEEK: allowance_units(9), NEXT: 0}
    assert overdrawn(charges, used, allowance) == {WEEK: allowance_units(1)}
    assert overdrawn(charges, {WEEK: allowance_units(8)}, allowance) == {}


@pytest.mark.parametrize(
    ("used", "fits_until"),
    [(0, 12), (8, 12), (8.5, 11.5), (8.6, 11.25), (9.9, None), (10, None), (12, None)],
)
def test_e2_the_refusal_knows_the_longest_that_fits(used: float, fits_until: float | None) -> None:
    # 10 GPU-hours a week, `used` of them gone; wanted: one card from hour 10 to hour 12.
    fits = longest_affordable(
        [((Stretch(span(10, 12)),), 100)], {WEEK: int(used * UNITS_PER_GPU_HOUR)}, allowance_units(10), SHANGHAI, 900
    )
    assert fits == (None if fits_until is None else MONDAY + timedelta(hours=fits_until))
