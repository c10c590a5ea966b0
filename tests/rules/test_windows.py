"""F1, F2, A5: which window is in force, and how much of a reservation lies inside it."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservations.rules.interval import Interval
from reservations.rules.policy import BALANCED, FRIENDLY, STRICT
from reservations.rules.windows import Days, Mode, Segment, Timetable, Window, longest_within, time_inside

SHANGHAI, KATHMANDU = ZoneInfo("Asia/Shanghai"), ZoneInfo("Asia/Kathmandu")
NEW_YORK, LORD_HOWE = ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe")
SAO_PAULO = ZoneInfo("America/Sao_Paulo")
MON, TUE, WED, THU, FRI, SAT, SUN, NEXT_MON = range(30, 38)  # of November 2026, as `on` counts
POOL = 7


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


def on(day: int, hour: float = 0, zone: ZoneInfo = SHANGHAI) -> datetime:
    """An hour of a day counted through November 2026 (31 is 1 December), where no clock changes."""
    midnight = datetime(2026, 11, 1, tzinfo=zone).astimezone(UTC)
    return midnight + timedelta(days=day - 1, hours=hour)


def span(start: datetime, end: datetime) -> Interval:
    return Interval(start, end)


def table(*windows: Window, zone: ZoneInfo = SHANGHAI, special: dict[date, bool] | None = None) -> Timetable:
    return Timetable(windows, zone, special or {})


def cut(segments: Sequence[Segment]) -> list[tuple[int, datetime]]:
    """The window of each segment and when it ends."""
    return [(one.window.id, one.interval.end) for one in segments]


EVERY = Window(1, Mode.OPEN)
WORKING = Window(2, Mode.OPEN, days=Days.WORKING)
REST = Window(3, Mode.OPEN, days=Days.REST)
MONDAYS = Window(4, Mode.OPEN, days=Days.WEEKDAYS, weekdays=frozenset({0}))
THE_DAY = Window(5, Mode.OPEN, days=Days.DATES, dates=frozenset({date(2026, 11, 30)}))
OF_POOL = Window(6, Mode.OPEN, pool_id=POOL)


@pytest.mark.parametrize(
    ("windows", "wins"),
    [
        ([], 0),
        ([EVERY], 1),
        ([EVERY, WORKING], 2),
        ([WORKING, MONDAYS], 4),
        ([MONDAYS, THE_DAY], 5),
        ([EVERY, WORKING, REST, MONDAYS, THE_DAY], 5),
        ([THE_DAY, OF_POOL], 6),
        ([EVERY, REST], 1),
        # The newest decides among equals only: an older one that is more specific stays.
        ([EVERY, Window(9, Mode.CLOSED)], 9),
        ([WORKING, Window(9, Mode.CLOSED)], 2),
        ([MONDAYS, Window(9, Mode.CLOSED, days=Days.WORKING)], 4),
        ([THE_DAY, Window(9, Mode.CLOSED, days=Days.WEEKDAYS, weekdays=frozenset({0}))], 5),
        ([THE_DAY, Window(9, Mode.CLOSED)], 5),
        ([OF_POOL, Window(9, Mode.CLOSED, days=Days.DATES, dates=frozenset({date(2026, 11, 30)}))], 6),
        ([OF_POOL, Window(9, Mode.CLOSED, pool_id=POOL)], 9),
        ([OF_POOL, Window(5, Mode.CLOSED, days=Days.WORKING, pool_id=POOL)], 5),
    ],
)
def test_f1_the_most_specific_window_wins_then_the_newest(windows: list[Window], wins: int) -> None:
    assert table(*windows).window_at(on(MON, 12)).id == wins
    assert table(*reversed(windows)).window_at(on(MON, 12)).id == wins


def test_f1_what_no_window_covers_is_open_at_the_plain_rate() -> None:
    window = table(Window(1, Mode.CLOSED, opens=time(2), shuts=time(3))).window_at(on(MON, 4))
    assert (window.mode, window.rate, window.most_inside) == (Mode.OPEN, 100, None)


@pytest.mark.parametrize(
    ("instant", "mode"),
    [
        (on(MON, 9) - timedelta(microseconds=1), Mode.LONG),
        (on(MON, 9), Mode.WALK_IN),
        (on(MON, 18) - timedelta(microseconds=1), Mode.WALK_IN),
        (on(MON, 18), Mode.LONG),
        (on(SAT, 12), Mode.LONG),
        (on(NEXT_MON, 9), Mode.WALK_IN),
    ],
)
def test_f1_a_window_holds_from_its_first_instant_and_not_at_its_end(instant: datetime, mode: Mode) -> None:
    assert table(*FRIENDLY.windows).window_at(instant).mode == mode


@pytest.mark.parametrize("mode", list(Mode))
def test_f1_each_mode_is_given_as_it_was_set(mode: Mode) -> None:
    found = table(Window(1, mode, opens=time(9), shuts=time(18))).segments(span(on(MON), on(TUE)))
    assert [one.window.mode for one in found] == ([Mode.OPEN, mode, Mode.OPEN])


def test_f1_a_more_specific_window_cuts_a_piece_out_of_another() -> None:
    lunch = Window(2, Mode.WALK_IN, days=Days.WORKING, opens=time(12), shuts=time(13))
    found = table(Window(1, Mode.LONG), lunch).segments(span(on(MON, 6), on(TUE, 12, SHANGHAI)))
    assert cut(found) == [(1, on(MON, 12)), (2, on(MON, 13)), (1, on(TUE, 12))]


def test_f1_a_window_may_cross_midnight_and_belongs_to_the_day_it_begins_on() -> None:
    night = Window(1, Mode.LONG, days=Days.WORKING, opens=time(22), shuts=time(6))
    found = table(night).segments(span(on(FRI), on(NEXT_MON + 1)))
    assert cut(found) == [
        (1, on(FRI, 6)),  # Thursday's
        (0, on(FRI, 22)),
        (1, on(SAT, 6)),  # Friday's, although Saturday is no working day
        (0, on(NEXT_MON, 22)),  # and Sunday has none
        (1, on(NEXT_MON + 1)),
    ]


@pytest.mark.parametrize("hour", [0, 9, 12.5])
def test_f1_a_window_that_shuts_when_it_opens_lasts_a_whole_day(hour: float) -> None:
    at = time(int(hour), int(hour % 1 * 60))
    window = Window(1, Mode.CLOSED, days=Days.WEEKDAYS, weekdays=frozenset({1}), opens=at, shuts=at)
    found = table(window).segments(span(on(MON), on(THU)))
    assert cut(found) == [(0, on(TUE, hour)), (1, on(WED, hour)), (0, on(THU))]


def test_f1_occurrences_that_touch_are_one_segment() -> None:
    assert cut(table(EVERY).segments(span(on(MON), on(THU, 5)))) == [(1, on(THU, 5))]


def test_f1_a_window_that_ends_where_the_span_begins_is_no_part_of_it() -> None:
    window = Window(1, Mode.CLOSED, opens=time(9), shuts=time(18))
    assert cut(table(window).segments(span(on(MON, 18), on(TUE, 9)))) == [(0, on(TUE, 9))]


HOLIDAYS = {date(2026, 10, 1): False, date(2026, 10, 2): False, date(2026, 10, 10): True}  # 10 October is a Saturday


@pytest.mark.parametrize(
    ("day", "working"),
    [
        (date(2026, 9, 30), True), (date(2026, 10, 1), False), (date(2026, 10, 2), False), (date(2026, 10, 3), False),
        (date(2026, 10, 9), True), (date(2026, 10, 10), True), (date(2026, 10, 11), False),
    ],
)
def test_a5_special_days_turn_working_and_rest_windows_round(day: date, working: bool) -> None:
    noon = datetime.combine(day, time(12), SHANGHAI).astimezone(UTC)
    timetable = table(WORKING, REST, special=HOLIDAYS)
    assert timetable.is_working(day) is working
    assert timetable.window_at(noon).id == (WORKING.id if working else REST.id)


def test_a5_a_night_of_a_working_day_runs_into_the_rest_day_after_it() -> None:
    night = Window(1, Mode.LONG, days=Days.WORKING, opens=time(22), shuts=time(6))
    timetable = table(night, special=HOLIDAYS)
    assert cut(timetable.segments(span(utc(2026, 9, 30, 10), utc(2026, 10, 2, 10)))) == [
        (0, utc(2026, 9, 30, 14)), (1, utc(2026, 9, 30, 22)), (0, utc(2026, 10, 2, 10)),
    ]


def test_a5_named_weekdays_and_dates_go_by_the_calendar_alone() -> None:
    thursdays = Window(1, Mode.CLOSED, days=Days.WEEKDAYS, weekdays=frozenset({3}))
    first = Window(2, Mode.CLOSED, days=Days.DATES, dates=frozenset({date(2026, 10, 10)}))
    timetable = table(thursdays, first, special=HOLIDAYS)
    assert timetable.window_at(utc(2026, 10, 1, 4)).id == 1  # a holiday on a Thursday
    assert timetable.window_at(utc(2026, 10, 10, 4)).id == 2
    assert timetable.window_at(utc(2026, 10, 9, 4)).id == 0


@pytest.mark.parametrize(
    ("zone", "day", "opens", "shuts", "start", "end"),
    [
        # New York skips 02:00-03:00 on 8 March 2026 and repeats 01:00-02:00 on 1 November.
        (NEW_YORK, date(2026, 3, 7), time(22), time(6), utc(2026, 3, 8, 3), utc(2026, 3, 8, 10)),
        (NEW_YORK, date(2026, 3, 8), time(1), time(4), utc(2026, 3, 8, 6), utc(2026, 3, 8, 8)),
        (NEW_YORK, date(2026, 3, 8), time(2, 30), time(4), utc(2026, 3, 8, 7), utc(2026, 3, 8, 8)),
        (NEW_YORK, date(2026, 3, 8), time(1), time(2, 30), utc(2026, 3, 8, 6), utc(2026, 3, 8, 7)),
        (NEW_YORK, date(2026, 3, 8), time(9), time(18), utc(2026, 3, 8, 13), utc(2026, 3, 8, 22)),
        (NEW_YORK, date(2026, 10, 31), time(22), time(6), utc(2026, 11, 1, 2), utc(2026, 11, 1, 11)),
        (NEW_YORK, date(2026, 11, 1), time(1, 30), time(2, 30), utc(2026, 11, 1, 5, 30), utc(2026, 11, 1, 7, 30)),
        (NEW_YORK, date(2026, 11, 1), time(0), time(1, 30), utc(2026, 11, 1, 4), utc(2026, 11, 1, 5, 30)),
        (NEW_YORK, date(2026, 11, 1), time(), time(), utc(2026, 11, 1, 4), utc(2026, 11, 2, 5)),
        # Lord Howe moves by half an hour: 02:00-02:30 is missing on 4 October, 01:30-02:00 comes twice on 5 April.
        (LORD_HOWE, date(2026, 10, 3), time(22), time(6), utc(2026, 10, 3, 11, 30), utc(2026, 10, 3, 19)),
        (LORD_HOWE, date(2026, 10, 4), time(2, 15), time(3), utc(2026, 10, 3, 15, 30), utc(2026, 10, 3, 16)),
        (LORD_HOWE, date(2026, 4, 4), time(22), time(6), utc(2026, 4, 4, 11), utc(2026, 4, 4, 19, 30)),
        (LORD_HOWE, date(2026, 4, 5), time(1, 30), time(2), utc(2026, 4, 4, 14, 30), utc(2026, 4, 4, 15, 30)),
        # Midnight itself was missing in São Paulo.
        (SAO_PAULO, date(2018, 11, 4), time(), time(6), utc(2018, 11, 4, 3), utc(2018, 11, 4, 8)),
        # Kathmandu is 5:45 ahead and Shanghai 8:00, all year.
        (KATHMANDU, date(2026, 3, 8), time(9), time(18), utc(2026, 3, 8, 3, 15), utc(2026, 3, 8, 12, 15)),
        (KATHMANDU, date(2026, 11, 1), time(22), time(6), utc(2026, 11, 1, 16, 15), utc(2026, 11, 2, 0, 15)),
        (SHANGHAI, date(2026, 3, 8), time(22), time(6), utc(2026, 3, 8, 14), utc(2026, 3, 8, 22)),
    ],
)
def test_f1_a3_on_a_night_of_a_clock_change_a_window_has_the_hours_the_zone_gives(
    zone: ZoneInfo, day: date, opens: time, shuts: time, start: datetime, end: datetime
) -> None:
    window = Window(1, Mode.CLOSED, days=Days.DATES, dates=frozenset({day}), opens=opens, shuts=shuts)
    around = span(start - timedelta(days=1), end + timedelta(days=1))
    assert cut(table(window, zone=zone).segments(around)) == [(0, start), (1, end), (0, around.end)]


@pytest.mark.parametrize(
    ("zone", "day", "opens", "shuts"),
    [
        (NEW_YORK, date(2026, 3, 8), time(2), time(3)),
        (NEW_YORK, date(2026, 3, 8), time(2, 15), time(2, 45)),
        (LORD_HOWE, date(2026, 10, 4), time(2), time(2, 30)),
    ],
)
def test_f1_a3_a_window_wholly_inside_a_gap_does_not_take_place(zone: ZoneInfo, day: date, opens: time, shuts: time) -> None:
    window = Window(1, Mode.CLOSED, days=Days.DATES, dates=frozenset({day}), opens=opens, shuts=shuts)
    noon = datetime.combine(day, time(12), zone).astimezone(UTC)
    around = span(noon - timedelta(days=1), noon + timedelta(days=1))
    assert cut(table(window, zone=zone).segments(around)) == [(0, around.end)]


# --- F2 -------------------------------------------------------------------------------------------------------------
DAYTIME = BALANCED.windows[0]


def fits(window: Window, inside: timedelta) -> bool:
    return window.most_inside is None or inside <= window.most_inside


def test_f2_the_time_inside_is_of_all_occurrences_together() -> None:
    inside = time_inside(table(DAYTIME).segments(span(on(MON, 6), on(WED, 10))))
    assert {window.id: length for window, length in inside.items()} == {
        DAYTIME.id: timedelta(hours=9 + 9 + 1), 0: timedelta(hours=3 + 15 + 15),
    }


@pytest.mark.parametrize(
    ("start", "end", "inside"),
    [
        (on(FRI, 18), on(NEXT_MON, 9), 0),
        (on(FRI, 17), on(NEXT_MON, 10), 2),
        (on(MON, 9), on(MON, 18), 9),
        (on(SAT), on(NEXT_MON), 0),
    ],
)
def test_f2_nights_and_weekends_are_outside_the_working_day(start: datetime, end: datetime, inside: float) -> None:
    assert time_inside(table(DAYTIME).segments(span(start, end))).get(DAYTIME, timedelta()) == timedelta(hours=inside)


@pytest.mark.parametrize(
    ("zone", "start", "end", "hours"),
    [
        (NEW_YORK, utc(2026, 3, 8, 0), utc(2026, 3, 8, 12), 7),
        (NEW_YORK, utc(2026, 11, 1, 0), utc(2026, 11, 1, 12), 9),
        (LORD_HOWE, utc(2026, 10, 3, 8), utc(2026, 10, 3, 21), 7.5),
        (LORD_HOWE, utc(2026, 4, 4, 8), utc(2026, 4, 4, 21), 8.5),
        (KATHMANDU, utc(2026, 3, 8, 12), utc(2026, 3, 9, 3), 8),
        (SHANGHAI, utc(2026, 3, 8, 12), utc(2026, 3, 9, 3), 8),
    ],
)
def test_f2_a2_the_time_inside_a_night_is_elapsed_time(zone: ZoneInfo, start: datetime, end: datetime, hours: float) -> None:
    night = Window(1, Mode.OPEN, opens=time(22), shuts=time(6))
    assert time_inside(table(night, zone=zone).segments(span(start, end)))[night] == timedelta(hours=hours)


@pytest.mark.parametrize(
    ("start", "end", "until"),
    [
        (on(MON, 9), on(MON, 18), on(MON, 18)),
        (on(MON, 9), on(TUE, 9), on(TUE, 9)),  # used up at 18:00, and the night is outside
        (on(MON, 9), on(TUE, 10), on(TUE, 9)),
        (on(MON, 12), on(THU), on(TUE, 12)),  # 6 hours on Monday, 3 on Tuesday
        (on(MON, 18), on(THU), on(WED, 9)),
        (on(FRI, 12), on(NEXT_MON + 1), on(NEXT_MON, 12)),
        (on(SAT), on(NEXT_MON), on(NEXT_MON)),
        (on(MON, 9) - timedelta(minutes=15), on(TUE, 9, SHANGHAI) + timedelta(minutes=15), on(TUE, 9)),
    ],
)
def test_f2_the_longest_that_fits_ends_where_the_window_is_used_up(start: datetime, end: datetime, until: datetime) -> None:
    assert longest_within(table(DAYTIME).segments(span(start, end)), fits) == until


@pytest.mark.parametrize(("start", "hours"), [(on(MON, 9), 4), (on(MON, 8), 5), (on(MON, 16), 2 + 15 + 2)])
def test_f2_strict_allows_four_hours_of_the_working_day(start: datetime, hours: float) -> None:
    found = table(*STRICT.windows).segments(span(start, start + timedelta(hours=24)))
    assert longest_within(found, fits) == start + timedelta(hours=hours)


@pytest.mark.parametrize(
    ("start", "until"), [(on(MON, 20), on(TUE, 9)), (on(MON, 9), None), (on(FRI, 18), on(NEXT_MON, 9))]
)
def test_f1_f2_the_longest_that_fits_ends_before_a_window_that_takes_none(start: datetime, until: datetime | None) -> None:
    found = table(*FRIENDLY.windows).segments(span(start, start + timedelta(days=5)))
    assert longest_within(found, lambda window, inside: window.mode != Mode.WALK_IN) == until


def test_f2_a_limit_of_nothing_leaves_nothing() -> None:
    none = Window(1, Mode.OPEN, most_inside=timedelta())
    assert longest_within(table(none).segments(span(on(MON), on(TUE))), fits) is None


# --- for any windows ------------------------------------------------------------------------------------------------
ZONES = st.sampled_from([SHANGHAI, KATHMANDU, NEW_YORK, LORD_HOWE, SAO_PAULO])
NEAR = [date(2026, 3, 6), date(2026, 3, 7), date(2026, 3, 8), date(2026, 3, 9), date(2026, 4, 5)]
TIMES = st.integers(0, 95).map(lambda quarter: time(quarter // 4, quarter % 4 * 15))
STARTS = st.sampled_from(
    [utc(2026, 3, 6), utc(2026, 4, 3), utc(2026, 10, 2), utc(2026, 10, 30), utc(2018, 11, 2)]  # clock changes lie ahead
).flatmap(lambda first: st.integers(0, 4 * 24 * 60).map(lambda minutes: first + timedelta(minutes=minutes)))
SPANS = st.builds(
    lambda start, minutes: Interval(start, start + timedelta(minutes=minutes)), STARTS, st.integers(1, 5 * 24 * 60)
)
WINDOWS = st.lists(
    st.builds(
        Window, st.just(0), st.sampled_from(Mode), st.sampled_from([100, 150]), st.sampled_from(Days),
        st.frozensets(st.integers(0, 6)), st.frozensets(st.sampled_from(NEAR)), TIMES, TIMES,
        st.none() | st.integers(0, 30).map(lambda hours: timedelta(hours=hours)), st.sampled_from([None, POOL]),
    ),
    max_size=6,
).map(lambda rows: [
    Window(age, one.mode, one.rate, one.days, one.weekdays, one.dates, one.opens, one.shuts, one.most_inside, one.pool_id)
    for age, one in enumerate(rows, 1)
])
SPECIAL = st.dictionaries(st.sampled_from(NEAR), st.booleans())


@given(WINDOWS, ZONES, SPECIAL, SPANS, st.randoms(use_true_random=False))
def test_f1_segments_are_the_span_without_gap_and_no_matter_in_which_order_windows_come(
    windows: list[Window], zone: ZoneInfo, special: dict[date, bool], whole: Interval, chance
) -> None:
    found = table(*windows, zone=zone, special=special).segments(whole)
    assert (found[0].interval.start, found[-1].interval.end) == (whole.start, whole.end)
    for one, following in pairwise(found):
        assert one.interval.end == following.interval.start
        assert one.window != following.window
    assert sum(time_inside(found).values(), timedelta()) == whole.length
    shuffled = chance.sample(windows, len(windows))
    assert table(*shuffled, zone=zone, special=special).segments(whole) == found


@given(WINDOWS, ZONES, SPECIAL, SPANS, st.floats(0, 0.999))
def test_f1_at_every_instant_the_window_is_the_one_a_clock_on_the_wall_would_find(
    windows: list[Window], zone: ZoneInfo, special: dict[date, bool], whole: Interval, part: float
) -> None:
    """Reads the local clock instead of making instants of windows; away from nights of a clock change both are the same."""
    instant = whole.start + part * whole.length
    offsets = {(instant + timedelta(days=days)).astimezone(zone).utcoffset() for days in (-2, -1, 0, 1, 2)}
    if len(offsets) > 1:
        return
    local = instant.astimezone(zone)
    holding = []
    for one in windows:
        for day in (local.date(), local.date() - timedelta(days=1)):
            working = special.get(day, day.weekday() < 5)
            on_day = {
                Days.EVERY: True, Days.WORKING: working, Days.REST: not working, Days.WEEKDAYS: day.weekday() in one.weekdays,
                Days.DATES: day in one.dates,
            }[one.days]
            crosses = one.shuts <= one.opens
            if day == local.date():
                inside = one.opens <= local.time() and (crosses or local.time() < one.shuts)
            else:
                inside = crosses and local.time() < one.shuts
            if on_day and inside:
                places = [Days.EVERY, Days.WORKING, Days.WEEKDAYS, Days.DATES]
                kind = Days.WORKING if one.days == Days.REST else one.days
                holding.append((one.pool_id is not None, places.index(kind), one.id))
    found = table(*windows, zone=zone, special=special).segments(whole)
    in_force = next(one.window for one in found if one.interval.start <= instant < one.interval.end)
    assert in_force.id == max(holding, default=(False, 0, 0))[2]


@given(WINDOWS, ZONES, SPANS)
def test_f2_the_longest_that_fits_does_fit_and_a_minute_more_does_not(
    windows: list[Window], zone: ZoneInfo, whole: Interval
) -> None:
    timetable = table(*windows, zone=zone)

    def all_fit(end: datetime) -> bool:
        return all(fits(window, inside) for window, inside in time_inside(timetable.segments(span(whole.start, end))).items())

    until = longest_within(timetable.segments(whole), fits)
    if until is not None:
        assert whole.start < until <= whole.end
        assert all_fit(until)
    later = (until or whole.start) + timedelta(minutes=1)
    if later <= whole.end:
        assert not all_fit(later)
