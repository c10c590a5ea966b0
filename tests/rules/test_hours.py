"""E5: what one-off hours cover, by hand and against trying every way of sharing them out."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reservations.rules.hours import Account, Hours, spare, uncovered, weeks_met
from reservations.rules.interval import Interval
from reservations.rules.week import week_interval

SHANGHAI = ZoneInfo("Asia/Shanghai")
WEEKS = [date(2026, 11, 30) + timedelta(days=7 * n) for n in range(3)]
FIRST, SECOND, THIRD = WEEKS
ALLOWANCE = 10


def at(day: int, hour: int = 0) -> datetime:
    """An hour of a day of the first week (1 Monday), or of a later one (8 the next Monday), lab time."""
    return datetime(2026, 11, 29, hour, tzinfo=SHANGHAI).astimezone(UTC) + timedelta(days=day)


def hours(units: int, start: int, end: int) -> Hours:
    """Units from the begin of a day to the begin of another."""
    return Hours(units, Interval(at(start), at(end)))


def part(week: date, start_day: int = 3, hours_long: int = 4) -> dict[date, Interval]:
    """A time in the week, from noon of its n-th day."""
    start = week_interval(week, SHANGHAI).start + timedelta(days=start_day - 1, hours=12)
    return {week: Interval(start, start + timedelta(hours=hours_long))}


def missing(used: dict[date, int], grants: list[Hours], week: date, units: int, **when: int) -> dict[date, int]:
    return uncovered(Account(ALLOWANCE, used, grants), {week: units}, part(week, **when), SHANGHAI)


@pytest.mark.parametrize(
    ("used", "grants", "units", "left"),
    [
        pytest.param({}, [], 10, {}, id="E2: exactly the allowance"),
        pytest.param({}, [], 11, {FIRST: 1}, id="E2: one too much"),
        pytest.param({}, [hours(5, 1, 8)], 15, {}, id="E5: exactly what was given"),
        pytest.param({}, [hours(5, 1, 8)], 16, {FIRST: 1}, id="E5: one more than was given"),
        pytest.param({FIRST: 13}, [hours(5, 1, 8)], 2, {}, id="E5: three are used already, two are left"),
        pytest.param({FIRST: 13}, [hours(5, 1, 8)], 3, {FIRST: 1}, id="E5: three are used already"),
        pytest.param({FIRST: 20}, [hours(5, 1, 8)], 1, {FIRST: 1}, id="E3: an overrun's debt eats what was given"),
        pytest.param({FIRST: 10}, [hours(3, 1, 8), hours(2, 1, 15)], 5, {}, id="E5: two grants together"),
        pytest.param({FIRST: 10}, [hours(3, 8, 15)], 1, {FIRST: 1}, id="E5: not before it begins"),
        pytest.param({FIRST: 10}, [hours(3, 1, 3)], 1, {FIRST: 1}, id="E5: not after it ended in the same week"),
        pytest.param({FIRST: 10, SECOND: 12}, [hours(2, 1, 15)], 1, {FIRST: 1}, id="E5: another week has used them"),
        pytest.param({FIRST: 10, SECOND: 12}, [hours(2, 1, 15), hours(1, 1, 8)], 1, {}, id="E5: the first to end is taken"),
        pytest.param({FIRST: 10, SECOND: 12}, [hours(2, 8, 15), hours(1, 1, 15)], 1, {}, id="E5: shared out so that all fits"),
    ],
)
def test_e5_what_one_off_hours_cover(
    used: dict[date, int], grants: list[Hours], units: int, left: dict[date, int]
) -> None:
    assert missing(used, grants, FIRST, units) == left


def test_e5_in_the_week_in_which_they_end_a_request_must_end_by_then() -> None:
    grants = [hours(5, 1, 4)]  # until the begin of Thursday
    assert missing({FIRST: 10}, grants, FIRST, 4, start_day=3, hours_long=12) == {}
    assert missing({FIRST: 10}, grants, FIRST, 4, start_day=3, hours_long=13) == {FIRST: 4}


def test_e5_what_was_used_before_they_ended_stays_covered_and_burdens_nobody_else() -> None:
    used = {FIRST: 14}  # four beyond, in the days of the first grant
    assert missing(used, [hours(4, 1, 4), hours(2, 1, 15)], SECOND, 12) == {}


def test_e5_weeks_of_one_request_share_a_grant() -> None:
    account = Account(ALLOWANCE, {FIRST: 10, SECOND: 10}, [hours(5, 1, 15)])
    span = Interval(at(7, 20), at(8, 4))
    parts = {FIRST: Interval(at(7, 20), at(8)), SECOND: Interval(at(8), at(8, 4))}
    assert uncovered(account, {FIRST: 2, SECOND: 3}, parts, SHANGHAI) == {}
    assert uncovered(account, {FIRST: 3, SECOND: 3}, parts, SHANGHAI) == {SECOND: 1}
    assert span.start == parts[FIRST].start


def test_e5_spare_hours_are_what_a_week_may_still_be_overdrawn_by() -> None:
    account = Account(ALLOWANCE, {FIRST: 12}, [hours(5, 1, 15)])
    assert [spare(account, week, at(2), SHANGHAI) for week in WEEKS] == [3, 3, 0]
    assert spare(account, FIRST, at(9), SHANGHAI) == 0  # the week is over


def test_e5_weeks_met() -> None:
    assert weeks_met([hours(1, 6, 8)], SHANGHAI) == {FIRST}
    assert weeks_met([hours(1, 6, 9)], SHANGHAI) == {FIRST, SECOND}


# --- against every way of sharing out -----------------------------------------------------------------------------------

spans = st.sampled_from([(1, 8), (1, 15), (1, 22), (8, 15), (8, 22), (15, 22), (3, 10), (10, 17)])
grants_drawn = st.lists(st.tuples(st.integers(0, 4), spans), max_size=3)
small = st.lists(st.integers(6, 14), min_size=3, max_size=3)


def _most_covered(demands: tuple[int, ...], reach: tuple[tuple[bool, ...], ...], room: tuple[int, ...]) -> int:
    """The most units of the demands that can be covered, trying every way."""

    @cache
    def best(place: int, left: tuple[int, ...]) -> int:
        if place == len(demands):
            return 0
        ways = [(0, left)]
        for number, fits in enumerate(reach[place]):
            if fits:
                ways = [
                    (taken + more, (*now[:number], now[number] - more, *now[number + 1 :]))
                    for taken, now in ways
                    for more in range(min(now[number], demands[place] - taken) + 1)
                ]
        return max(taken + best(place + 1, now) for taken, now in set(ways))

    return best(0, room)


@given(grants_drawn, small, st.integers(0, 2), st.integers(1, 6), st.integers(1, 7))
@settings(max_examples=150, deadline=None)
def test_e5_nothing_is_refused_that_some_way_of_sharing_allows(
    drawn: list[tuple[int, tuple[int, int]]], used: list[int], place: int, units: int, day: int
) -> None:
    grants = [hours(count, *span) for count, span in drawn]
    week = WEEKS[place]
    account = Account(ALLOWANCE, dict(zip(WEEKS, used, strict=True)), grants)
    parts = part(week, start_day=day, hours_long=4)
    standing = [account.overdraft(one) for one in WEEKS]
    asked = account.overdraft(week, units) - account.overdraft(week)
    meets = [tuple(one.valid.overlaps(week_interval(monday, SHANGHAI)) for one in grants) for monday in WEEKS]
    inside = tuple(one.valid.start <= parts[week].start and parts[week].end <= one.valid.end for one in grants)
    room = tuple(one.units for one in grants)
    before = _most_covered(tuple(standing), tuple(meets), room)
    both = _most_covered((*standing, asked), (*meets, inside), room)
    allowed = both == before + asked
    assert (uncovered(account, {week: units}, parts, SHANGHAI) == {}) == allowed


@given(grants_drawn, small, st.integers(0, 2), st.integers(1, 6), st.integers(1, 6), st.integers(1, 7))
def test_e5_giving_more_hours_never_adds_a_refusal(
    drawn: list[tuple[int, tuple[int, int]]], used: list[int], place: int, units: int, more: int, day: int
) -> None:
    grants = [hours(count, *span) for count, span in drawn]
    week = WEEKS[place]
    of = dict(zip(WEEKS, used, strict=True))
    parts = part(week, start_day=day)
    before = uncovered(Account(ALLOWANCE, of, grants), {week: units}, parts, SHANGHAI)
    after = uncovered(Account(ALLOWANCE, of, [*grants, hours(more, 1, 22)]), {week: units}, parts, SHANGHAI)
    assert sum(after.values()) <= sum(before.values())
