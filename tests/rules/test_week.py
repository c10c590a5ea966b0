"""A2, A3, A4: lab time."""

from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservations.rules.interval import Interval
from reservations.rules.week import (
    NoSuchLocalTime,
    day_start,
    last_day,
    last_open_day,
    next_step,
    on_raster,
    opens_at,
    round_to_raster,
    rule_instant,
    typed_instant,
    week_interval,
    week_of,
    weekly_time,
    weeks_of,
)

SHANGHAI, NEW_YORK, LONDON = ZoneInfo("Asia/Shanghai"), ZoneInfo("America/New_York"), ZoneInfo("Europe/London")
LORD_HOWE, KATHMANDU, SAO_PAULO = ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Asia/Kathmandu"), ZoneInfo("America/Sao_Paulo")


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


def local(*parts: int) -> datetime:
    return datetime(*parts)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("reading", "zone", "instant"),
    [
        (local(2026, 12, 1, 22), SHANGHAI, utc(2026, 12, 1, 14)),
        (local(2026, 12, 1, 22), KATHMANDU, utc(2026, 12, 1, 16, 15)),
        (local(2026, 7, 1, 12), LONDON, utc(2026, 7, 1, 11)),
        (local(2026, 12, 1, 12), LONDON, utc(2026, 12, 1, 12)),
    ],
)
def test_a3_a_typed_time_that_exists_once_is_that_instant(reading: datetime, zone: ZoneInfo, instant: datetime) -> None:
    assert typed_instant(reading, zone) == instant


@pytest.mark.parametrize(
    ("reading", "zone", "twice", "readings"),
    [
        # New York skips 02:00-03:00 on 8 March 2026 and repeats 01:00-02:00 on 1 November.
        (local(2026, 3, 8, 2, 30), NEW_YORK, False, (utc(2026, 3, 8, 6, 30), utc(2026, 3, 8, 7, 30))),
        (local(2026, 11, 1, 1, 30), NEW_YORK, True, (utc(2026, 11, 1, 5, 30), utc(2026, 11, 1, 6, 30))),
        # Lord Howe moves by half an hour.
        (local(2026, 4, 5, 1, 45), LORD_HOWE, True, (utc(2026, 4, 4, 14, 45), utc(2026, 4, 4, 15, 15))),
    ],
)
def test_a3_a_typed_time_that_is_skipped_or_double_is_refused_with_both_readings(
    reading: datetime, zone: ZoneInfo, twice: bool, readings: tuple[datetime, datetime]
) -> None:
    with pytest.raises(NoSuchLocalTime) as caught:
        typed_instant(reading, zone)
    assert (caught.value.twice, caught.value.readings) == (twice, readings)


@pytest.mark.parametrize(
    ("reading", "zone", "instant"),
    [
        (local(2026, 3, 8, 2, 30), NEW_YORK, utc(2026, 3, 8, 7)),  # the first instant after the gap
        (local(2026, 11, 1, 1, 30), NEW_YORK, utc(2026, 11, 1, 5, 30)),  # the first of two
        (local(2018, 11, 4, 0, 0), SAO_PAULO, utc(2018, 11, 4, 3)),  # midnight itself was skipped there
        (local(2026, 10, 4, 2, 15), LORD_HOWE, utc(2026, 10, 3, 15, 30)),
    ],
)
def test_a3_a_rule_takes_the_first_instant_after_a_gap_and_the_first_of_two(
    reading: datetime, zone: ZoneInfo, instant: datetime
) -> None:
    assert rule_instant(reading, zone) == instant


@pytest.mark.parametrize(
    ("zone", "monday", "hours"),
    [
        (SHANGHAI, date(2026, 11, 30), 168),
        (NEW_YORK, date(2026, 3, 2), 167),
        (NEW_YORK, date(2026, 10, 26), 169),
        (LORD_HOWE, date(2026, 9, 28), 167.5),
        (LORD_HOWE, date(2026, 3, 30), 168.5),
    ],
)
def test_a2_a_quota_week_has_the_hours_the_zone_gives(zone: ZoneInfo, monday: date, hours: float) -> None:
    assert week_interval(monday, zone).length == timedelta(hours=hours)


def test_a2_a_week_begins_on_monday_midnight_of_the_lab() -> None:
    assert week_of(utc(2026, 11, 29, 15, 59), SHANGHAI) == date(2026, 11, 23)
    assert week_of(utc(2026, 11, 29, 16, 0), SHANGHAI) == date(2026, 11, 30)


def test_qt_11_a_reservation_across_sunday_midnight_falls_into_two_weeks() -> None:
    held = Interval(utc(2026, 11, 29, 14), utc(2026, 11, 29, 20))  # Sunday 22:00 to Monday 04:00 in Shanghai
    assert [(week, part.length) for week, part in weeks_of(held, SHANGHAI)] == [
        (date(2026, 11, 23), timedelta(hours=2)),
        (date(2026, 11, 30), timedelta(hours=4)),
    ]


@given(
    st.sampled_from([SHANGHAI, NEW_YORK, LONDON, LORD_HOWE, KATHMANDU]),
    st.datetimes(min_value=local(2025, 1, 1), max_value=local(2027, 12, 31)),
    st.integers(min_value=1, max_value=40 * 24 * 60),
)
def test_a2_the_weeks_of_an_interval_are_its_parts_without_gap_or_overlap(
    zone: ZoneInfo, start: datetime, minutes: int
) -> None:
    held = Interval(start.replace(tzinfo=UTC), start.replace(tzinfo=UTC) + timedelta(minutes=minutes))
    parts = list(weeks_of(held, zone))
    assert parts[0][1].start == held.start
    assert parts[-1][1].end == held.end
    for (week, part), (following, later) in pairwise(parts):
        assert part.end == later.start
        assert following - week == timedelta(days=7)
    for week, part in parts:
        assert week_of(part.start, zone) == week


def test_a4_a_day_opens_at_noon_fourteen_days_before() -> None:
    noon = utc(2026, 11, 30, 4)  # 12:00 in Shanghai
    rule = {"days_before": 14, "at": time(12)}
    assert opens_at(date(2026, 12, 14), SHANGHAI, **rule) == noon
    assert last_open_day(noon, SHANGHAI, **rule) == date(2026, 12, 14)
    assert last_open_day(noon - timedelta(seconds=1), SHANGHAI, **rule) == date(2026, 12, 13)


def test_a4_an_end_at_midnight_does_not_touch_the_next_day() -> None:
    midnight = day_start(date(2026, 12, 2), SHANGHAI)
    assert last_day(Interval(midnight - timedelta(hours=2), midnight), SHANGHAI) == date(2026, 12, 1)
    assert last_day(Interval(midnight - timedelta(hours=2), midnight + timedelta(seconds=1)), SHANGHAI) == date(2026, 12, 2)


@pytest.mark.parametrize(
    ("instant", "zone", "fits"),
    [
        (utc(2026, 12, 1, 14), SHANGHAI, True),
        (utc(2026, 12, 1, 14, 15), KATHMANDU, True),  # 20:00 there
        (utc(2026, 12, 1, 14, 7), SHANGHAI, False),
        (utc(2026, 12, 1, 14, 0, 1), SHANGHAI, False),
    ],
)
def test_a1_the_raster_goes_by_the_local_clock(instant: datetime, zone: ZoneInfo, fits: bool) -> None:
    assert on_raster(instant, 900, zone) is fits


@given(st.datetimes(min_value=local(2025, 1, 1), max_value=local(2027, 12, 31)), st.sampled_from([SHANGHAI, KATHMANDU]))
def test_a1_rounding_gives_the_nearest_steps_around(moment: datetime, zone: ZoneInfo) -> None:
    instant = moment.replace(tzinfo=UTC)
    down, up = round_to_raster(instant, 900, zone, up=False), round_to_raster(instant, 900, zone, up=True)
    assert down <= instant <= up
    assert up - down in (timedelta(0), timedelta(minutes=15))
    assert on_raster(down, 900, zone)
    assert on_raster(up, 900, zone)


@given(
    st.sampled_from([
        (LORD_HOWE, utc(2026, 10, 3, 15, 30)), (LORD_HOWE, utc(2027, 4, 3, 15)), (NEW_YORK, utc(2026, 11, 1, 6)),
        (NEW_YORK, utc(2027, 3, 14, 7)), (SHANGHAI, utc(2026, 11, 30)),
    ]),
    st.integers(-4 * 3600, 4 * 3600), st.sampled_from([60, 900, 1800, 2700, 3600]),
)
def test_a1_the_next_step_is_the_first_one_also_where_the_clock_changes(
    change: tuple[ZoneInfo, datetime], seconds: int, raster_s: int
) -> None:
    zone, around = change
    instant = around + timedelta(seconds=seconds)
    minute = instant.replace(second=0) + timedelta(minutes=0 if instant.second == 0 else 1)
    while not on_raster(minute, raster_s, zone):
        minute += timedelta(minutes=1)
    assert next_step(instant, raster_s, zone) == minute


CLEANUP = {"weekday": 4, "at": time(17)}


@pytest.mark.parametrize(
    ("zone", "now", "due", "until"),
    [
        # Monday to Sunday of one week say the same.
        ("Asia/Shanghai", "2026-11-30T00:00+08:00", "2026-12-04T17:00+08:00", "2026-12-05T00:00+08:00"),
        ("Asia/Shanghai", "2026-12-06T23:59+08:00", "2026-12-04T17:00+08:00", "2026-12-05T00:00+08:00"),
        ("Asia/Shanghai", "2026-12-07T00:00+08:00", "2026-12-11T17:00+08:00", "2026-12-12T00:00+08:00"),
        # The lab's Friday, not the server's: it is Thursday still in UTC, or Saturday already.
        ("Pacific/Kiritimati", "2026-12-03T11:00+00:00", "2026-12-04T03:00+00:00", "2026-12-04T10:00+00:00"),
        ("Pacific/Pago_Pago", "2026-12-05T04:00+00:00", "2026-12-05T04:00+00:00", "2026-12-05T11:00+00:00"),
    ],
)
def test_f3_the_clean_up_is_due_on_the_labs_friday(zone: str, now: str, due: str, until: str) -> None:
    found = weekly_time(datetime.fromisoformat(now), ZoneInfo(zone), **CLEANUP)
    assert (found.start, found.end) == (datetime.fromisoformat(due), datetime.fromisoformat(until))


def test_f3_on_a_friday_whose_clock_changes_the_time_of_day_stands() -> None:
    """Cairo skips the first hour of Friday 24 April 2026: 17:00 is one hour nearer to midnight than the day before."""
    cairo = ZoneInfo("Africa/Cairo")
    friday = datetime(2026, 4, 24, 12, tzinfo=cairo)
    assert weekly_time(friday, cairo, **CLEANUP).start == datetime(2026, 4, 24, 14, tzinfo=UTC)
    skipped = weekly_time(friday, cairo, weekday=4, at=time(0, 30))  # A3: the first instant after the gap
    assert skipped.start == datetime(2026, 4, 23, 22, tzinfo=UTC)
    assert skipped.start.astimezone(cairo).strftime("%a %H:%M") == "Fri 01:00"


def test_f3_a_time_that_comes_twice_is_the_first_of_the_two() -> None:
    york = ZoneInfo("America/New_York")
    sunday = weekly_time(datetime(2026, 11, 1, 12, tzinfo=york), york, weekday=6, at=time(1, 30))
    assert sunday.start == datetime(2026, 11, 1, 5, 30, tzinfo=UTC)


def test_f3_a_late_time_of_day_has_an_hour_to_be_made_up_for() -> None:
    shanghai = ZoneInfo("Asia/Shanghai")
    found = weekly_time(datetime(2026, 12, 4, tzinfo=UTC), shanghai, weekday=4, at=time(23, 50))
    assert found.length == timedelta(hours=1)
