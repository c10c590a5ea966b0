"""D1: walk-in, late and planned by the clock at the transaction; D4's closing hour goes by the same evening."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservations.rules.kinds import Kind, freezes_at, is_frozen, kind_of, unfrozen_from
from reservations.rules.week import day_start, local_date

SHANGHAI, KATHMANDU = ZoneInfo("Asia/Shanghai"), ZoneInfo("Asia/Kathmandu")
NEW_YORK, LORD_HOWE = ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe")
EVENING = time(20)
SECOND, TICK = timedelta(seconds=1), timedelta(microseconds=1)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


EIGHT_PM = utc(2026, 11, 30, 12)  # Monday 20:00 in Shanghai
TUESDAY = utc(2026, 11, 30, 16)  # its first instant there
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


@pytest.mark.parametrize(
    ("now", "start", "kind"),
    [
        # 19:59:59: today is firm, tomorrow not yet.
        (EIGHT_PM - SECOND, TUESDAY, Kind.PLANNED),
        (EIGHT_PM - TICK, TUESDAY, Kind.PLANNED),
        (EIGHT_PM - SECOND, TUESDAY - TICK, Kind.LATE),
        (EIGHT_PM - SECOND, TUESDAY + 12 * HOUR, Kind.PLANNED),
        # 20:00: tomorrow is firm as a whole, the day after not.
        (EIGHT_PM, TUESDAY, Kind.LATE),
        (EIGHT_PM, TUESDAY + DAY - TICK, Kind.LATE),
        (EIGHT_PM, TUESDAY + DAY, Kind.PLANNED),
        (EIGHT_PM + SECOND, TUESDAY + 23 * HOUR, Kind.LATE),
        # After midnight nothing changes until the evening.
        (TUESDAY, TUESDAY + HOUR, Kind.LATE),
        (TUESDAY, TUESDAY + DAY, Kind.PLANNED),
        (TUESDAY + 20 * HOUR - SECOND, TUESDAY + DAY, Kind.PLANNED),
        (TUESDAY + 20 * HOUR, TUESDAY + DAY, Kind.LATE),
        # What starts now, or was meant to, is a walk-in, however firm the day.
        (EIGHT_PM, EIGHT_PM, Kind.WALK_IN),
        (EIGHT_PM, EIGHT_PM - 5 * timedelta(minutes=1), Kind.WALK_IN),
        (EIGHT_PM, EIGHT_PM + TICK, Kind.LATE),
    ],
)
def test_d1_the_kind_goes_by_the_start_and_the_clock_at_the_transaction(now: datetime, start: datetime, kind: Kind) -> None:
    assert kind_of(start, now, SHANGHAI, EVENING) is kind


@pytest.mark.parametrize(
    ("start", "zone", "at", "freezes"),
    [
        (TUESDAY, SHANGHAI, EVENING, EIGHT_PM),
        (TUESDAY - TICK, SHANGHAI, EVENING, EIGHT_PM - DAY),
        (TUESDAY + 24 * HOUR - TICK, SHANGHAI, EVENING, EIGHT_PM),
        (TUESDAY, SHANGHAI, time(18), EIGHT_PM - 2 * HOUR),  # D4's closing hour
        (utc(2026, 12, 1, 6), KATHMANDU, EVENING, utc(2026, 11, 30, 14, 15)),
        # New York: the clocks change on Sunday 8 March and on Sunday 1 November at 02:00.
        (utc(2026, 3, 8, 5), NEW_YORK, EVENING, utc(2026, 3, 8, 1)),  # Sunday freezes on Saturday, winter time
        (utc(2026, 3, 9, 4), NEW_YORK, EVENING, utc(2026, 3, 9, 0)),  # Monday freezes on Sunday, summer time
        (utc(2026, 11, 1, 4), NEW_YORK, EVENING, utc(2026, 11, 1, 0)),
        (utc(2026, 11, 2, 5), NEW_YORK, EVENING, utc(2026, 11, 2, 1)),
        (utc(2026, 11, 2, 4, 59), NEW_YORK, EVENING, utc(2026, 11, 1, 0)),  # 23:59 of the day of 25 hours
        # Lord Howe changes by half an hour on 4 October 2026 at 02:00.
        (utc(2026, 10, 4, 12), LORD_HOWE, EVENING, utc(2026, 10, 3, 9, 30)),
        (utc(2026, 10, 4, 13), LORD_HOWE, EVENING, utc(2026, 10, 4, 9)),
        # A daily time that is missing or double is the first instant after the gap, or the first of two (A3).
        (utc(2026, 3, 9, 4), NEW_YORK, time(2, 30), utc(2026, 3, 8, 7)),
        (utc(2026, 11, 2, 5), NEW_YORK, time(1, 30), utc(2026, 11, 1, 5, 30)),
    ],
)
def test_d1_a_start_freezes_on_the_evening_before_its_lab_day(
    start: datetime, zone: ZoneInfo, at: time, freezes: datetime
) -> None:
    assert freezes_at(start, zone, at) == freezes
    assert not is_frozen(start, freezes - TICK, zone, at)
    assert is_frozen(start, freezes, zone, at)


@pytest.mark.parametrize(
    ("now", "zone", "first"),
    [
        (EIGHT_PM - SECOND, SHANGHAI, TUESDAY),
        (EIGHT_PM, SHANGHAI, TUESDAY + DAY),
        (TUESDAY - TICK, SHANGHAI, TUESDAY + DAY),
        (TUESDAY, SHANGHAI, TUESDAY + DAY),
        (utc(2026, 11, 30, 14, 14, 59), KATHMANDU, utc(2026, 11, 30, 18, 15)),
        (utc(2026, 11, 30, 14, 15), KATHMANDU, utc(2026, 12, 1, 18, 15)),
        (utc(2026, 3, 8, 0, 59, 59), NEW_YORK, utc(2026, 3, 8, 5)),
        (utc(2026, 3, 8, 1), NEW_YORK, utc(2026, 3, 9, 4)),  # over the day of 23 hours
        (utc(2026, 11, 1, 0), NEW_YORK, utc(2026, 11, 2, 5)),  # over the day of 25
        (utc(2026, 10, 3, 9, 30), LORD_HOWE, utc(2026, 10, 4, 13)),
    ],
)
def test_d1_unfrozen_time_begins_at_the_midnight_of_the_first_day_that_is_not_firm(
    now: datetime, zone: ZoneInfo, first: datetime
) -> None:
    assert unfrozen_from(now, zone, EVENING) == first


MOMENTS = st.datetimes(
    min_value=datetime(2025, 1, 1), max_value=datetime(2027, 12, 31), timezones=st.just(UTC)  # noqa: DTZ001
)
ZONES = st.sampled_from([SHANGHAI, KATHMANDU, NEW_YORK, LORD_HOWE])
TIMES = st.integers(0, 95).map(lambda quarter: time(quarter // 4, quarter % 4 * 15))


@given(MOMENTS, ZONES, TIMES, st.integers(1, 4 * 24 * 60))
def test_d1_unfrozen_from_is_exactly_where_planned_begins(now: datetime, zone: ZoneInfo, at: time, minutes: int) -> None:
    edge = unfrozen_from(now, zone, at)
    assert edge > now
    assert edge == day_start(local_date(edge, zone), zone)
    assert kind_of(edge, now, zone, at) is Kind.PLANNED
    assert kind_of(edge - TICK, now, zone, at) is Kind.LATE
    start = now + timedelta(minutes=minutes)
    assert (kind_of(start, now, zone, at) is Kind.PLANNED) == (start >= edge)


@given(MOMENTS, ZONES, TIMES, st.integers(0, 4 * 24 * 60), st.integers(0, 4 * 24 * 60))
def test_d1_what_is_frozen_stays_frozen(now: datetime, zone: ZoneInfo, at: time, ahead: int, later: int) -> None:
    start = now + timedelta(minutes=ahead)
    if is_frozen(start, now, zone, at):
        assert is_frozen(start, now + timedelta(minutes=later), zone, at)


@pytest.mark.parametrize("day", [date(2026, 3, 8), date(2026, 11, 1), date(2026, 6, 1)])
def test_d1_a_whole_lab_day_freezes_at_one_instant(day: date) -> None:
    first, last = day_start(day, NEW_YORK), day_start(day + DAY, NEW_YORK) - TICK
    assert freezes_at(first, NEW_YORK, EVENING) == freezes_at(last, NEW_YORK, EVENING)
