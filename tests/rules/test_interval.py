"""A1: half-open intervals."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservations.rules.interval import Interval, crowded, merged, most_at_once, whole_seconds

T0 = datetime(2026, 11, 30, 8, tzinfo=UTC)


def at(hours: float) -> datetime:
    return T0 + timedelta(hours=hours)


def span(start: float, end: float) -> Interval:
    return Interval(at(start), at(end))


@pytest.mark.parametrize(
    ("first", "second", "overlap"),
    [
        (span(0, 1), span(1, 2), False),
        (span(0, 1), span(0.999, 2), True),
        (span(0, 4), span(1, 2), True),
        (span(1, 2), span(0, 4), True),
        (span(0, 1), span(2, 3), False),
        (span(0, 1), span(0, 1), True),
    ],
)
def test_a1_touching_ends_share_no_instant(first: Interval, second: Interval, overlap: bool) -> None:
    assert first.overlaps(second) is overlap
    assert second.overlaps(first) is overlap


@pytest.mark.parametrize(("start", "end"), [(at(1), at(1)), (at(2), at(1))])
def test_a1_an_interval_ends_after_it_starts(start: datetime, end: datetime) -> None:
    with pytest.raises(ValueError, match="ends after"):
        Interval(start, end)


def test_an_interval_of_naive_times_is_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        Interval(datetime(2026, 1, 1), datetime(2026, 1, 2))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("held", "most"),
    [
        ([], 0),
        ([span(0, 1)], 1),
        ([span(0, 1), span(1, 2), span(2, 3)], 1),
        ([span(0, 2), span(1, 3), span(1.5, 1.75)], 3),
        ([span(0, 1)] * 4, 4),
    ],
)
def test_b1_cards_at_once_is_the_maximum_at_any_instant(held: list[Interval], most: int) -> None:
    assert most_at_once(held) == most


@given(st.lists(st.integers(min_value=0, max_value=10**12), min_size=3, max_size=3).map(sorted))
def test_e1_whole_seconds_of_parts_add_up_to_the_whole(microseconds: list[int]) -> None:
    a, b, c = (T0 + timedelta(microseconds=value) for value in microseconds)
    assert whole_seconds(a, b) + whole_seconds(b, c) == whole_seconds(a, c)


def test_touching_intervals_are_joined_and_others_are_not() -> None:
    assert merged([span(3, 4), span(0, 3), span(6, 7), span(1, 2)]) == [span(0, 4), span(6, 7)]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 8)), max_size=8), st.integers(0, 4))
def test_crowded_is_every_stretch_where_more_than_so_many_hold(parts: list[tuple[int, int]], most: int) -> None:
    intervals = [span(start, start + length) for start, length in parts]
    found = crowded(intervals, most)
    assert found == merged(found)
    for hour in range(30):
        instant = span(hour, hour + 0.5)
        assert any(one.overlaps(instant) for one in found) == (sum(one.overlaps(instant) for one in intervals) > most)
