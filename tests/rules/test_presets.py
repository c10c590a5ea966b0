"""N: every number of the table of presets, written down again by hand."""

import json
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from reservations.rules.policy import BALANCED, FRIENDLY, PRESETS, REPLAY, STRICT, BadPolicy, Policy
from reservations.rules.windows import Days, Mode, Timetable, Window

SHANGHAI = ZoneInfo("Asia/Shanghai")
MINUTE, HOUR, DAY = 60, 3600, 86_400

TABLE: dict[str, tuple[Any, Any, Any]] = {
    "opens_days": (7, 14, 28),
    "longest_s": (24 * HOUR, 72 * HOUR, 168 * HOUR),
    "cards_at_once": (2, 4, 8),
    "open_future": (3, 6, 12),
    "walk_in_longest_s": (4 * HOUR, 8 * HOUR, 12 * HOUR),
    "walk_in_cards": (1, 2, 4),
    "walk_in_free_hours": (8, 16, 48),
    "confirmation": (True, True, False),
    "no_show_s": (20 * MINUTE, 30 * MINUTE, 60 * MINUTE),
    "overrun_grace_s": (5 * MINUTE, 10 * MINUTE, 20 * MINUTE),
    "point_life_s": (60 * DAY, 30 * DAY, 14 * DAY),
    "emergency_reserve": (1, 0, 0),
    "quick_cards": (1, 0, 0),
    "displacement": (True, True, False),
    "elastic": (False, True, True),
    "one_step_points": (1, 1, 2),
    "two_steps_points": (2, 3, 4),
    "project_weekly_hours": (120, 240, 480),
}
WEEKLY_HOURS = {
    "undergraduate": (12, 20, 40),
    "master": (40, 60, 120),
    "phd": (60, 100, 168),
    "staff": (60, 100, 168),
}
# What the law says with a † or as a number of the text, and no preset changes.
IN_EVERY_PRESET: dict[str, Any] = {
    "raster_s": 15 * MINUTE, "shortest_s": 30 * MINUTE, "opens_at": "12:00", "form_age_s": 5 * MINUTE,  # A1, A4
    "tiers": ("deadline", "regular", "exploration"), "granted_tiers": ("deadline",),  # C1, C2
    "mode": "mixed", "free_tiers": ("exploration",), "project_share": 50,  # B5, B6
    "grant_days": 28, "grant_again_days": 90, "no_arbiter_s": 24 * HOUR,  # C2, B3
    "freezes_at": "20:00",  # D1
    "closes_at": "18:00", "safe_after": 2, "moving_tiers": ("exploration",), "may_move_s": 48 * HOUR,
    "cool_down_s": 7 * DAY,  # D4-D6
    "elastic_within_s": 48 * HOUR, "elastic_safe_s": 2 * HOUR,  # E4
    "late_cancel_s": 2 * HOUR, "late_cancel_percent": 25, "late_cancel_first_s": 8 * HOUR,  # E3
    "returned_late_s": 48 * HOUR, "returned_valid_s": 7 * DAY,
    "cleanup": True, "cleanup_weekday": 4, "cleanup_at": "17:00", "cleanup_grace_s": HOUR,  # F3
    "long_s": 4 * HOUR, "reserve_walk_in_s": 2 * HOUR, "quick_s": 2 * HOUR, "lost_after_s": 15 * MINUTE,  # F1, G4, G7, G6
    "release_undo_s": 10 * MINUTE, "booking_undo_s": 10,  # H0
    "confirmed_no_show_s": 60 * MINUTE, "no_show_kept_s": 2 * HOUR, "answer_s": 60 * MINUTE, "give_back_s": 60 * MINUTE,  # H2, H3
    "extend_ahead_s": 8 * HOUR, "extend_free_s": 8 * HOUR, "done_release_s": 10 * MINUTE,  # H5, H7
    "overrun_first_sight_s": 60 * MINUTE, "overrun_unwaited_s": 60 * MINUTE, "samples_in_a_row": 3, "clock_tolerance_s": 30,
    "overrun_points": 1, "no_show_points": 1, "dispute_s": 7 * DAY,  # J1, J4
    "ending_notice_s": 10 * MINUTE, "link_life_s": 24 * HOUR,  # K1, K4
    "offer_s": 15 * MINUTE, "offer_ahead_s": 2 * HOUR, "fair_share_s": 14 * DAY,  # K5
}
# Numbers of N and of the text that decide nothing yet: the setting, what brings it, strict, balanced, friendly. What
# comes leaves this table and goes into one of the two above, with the numbers written here.
LATER: dict[str, tuple[str, Any, Any, Any]] = {
    "idle_notice_s": ("held idle (I)", 20 * MINUTE, 30 * MINUTE, 60 * MINUTE),
    "idle_second_s": ("held idle (I)", 40 * MINUTE, 60 * MINUTE, 120 * MINUTE),
    "idle_forfeit_s": ("held idle (I)", 60 * MINUTE, 120 * MINUTE, None),
    "case_points": ("standing (J)", 4, 5, 6),
}
NAMES = ("strict", "balanced", "friendly")


@pytest.mark.parametrize("place", range(3), ids=NAMES)
@pytest.mark.parametrize("setting", TABLE)
def test_n_a_preset_has_the_number_of_the_table(setting: str, place: int) -> None:
    assert getattr(PRESETS[NAMES[place]], setting) == TABLE[setting][place]


@pytest.mark.parametrize("place", range(3), ids=NAMES)
def test_n_the_weekly_hours_of_each_role_are_those_of_the_table(place: int) -> None:
    policy = PRESETS[NAMES[place]]
    assert {code: role.weekly_hours for code, role in policy.roles.items()} == {
        code: hours[place] for code, hours in WEEKLY_HOURS.items()
    }
    assert all(policy.most_cards(code) == policy.cards_at_once for code in WEEKLY_HOURS)
    assert all(policy.most_ahead(code) == policy.open_future for code in WEEKLY_HOURS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("setting", IN_EVERY_PRESET)
def test_n_what_the_table_leaves_out_is_the_same_in_every_preset(setting: str, name: str) -> None:
    assert getattr(PRESETS[name], setting) == IN_EVERY_PRESET[setting]


def test_n_no_number_of_the_policy_is_forgotten_here() -> None:
    assert set(TABLE) | set(IN_EVERY_PRESET) | {"roles", "windows"} == set(Policy().to_json())


def test_n_what_belongs_to_later_parts_of_the_law_is_no_setting_yet() -> None:
    """A field that decides nothing would promise what the product does not do: it comes with what it decides."""
    assert not set(LATER) & set(Policy().to_json()), "move these rows of LATER into the tables above"
    assert all(brings for brings, *_ in LATER.values())


@pytest.mark.parametrize("setting", LATER)
def test_n_a_setting_of_a_later_part_is_refused_by_name(setting: str) -> None:
    with pytest.raises(BadPolicy, match=f"no such setting: {setting}"):
        Policy.from_json({setting: LATER[setting][2]})


@pytest.mark.parametrize(
    ("name", "day", "hour", "mode", "rate", "most_hours"),
    [
        # Monday 30 November 2026, and Saturday 5 December.
        ("strict", 30, 9, Mode.OPEN, 200, 4),
        ("strict", 30, 17, Mode.OPEN, 200, 4),
        ("strict", 30, 8, Mode.OPEN, 100, None),
        ("strict", 30, 18, Mode.OPEN, 100, None),
        ("strict", 35, 12, Mode.OPEN, 100, None),
        ("balanced", 30, 9, Mode.OPEN, 150, 9),
        ("balanced", 30, 8, Mode.OPEN, 100, None),
        ("balanced", 30, 18, Mode.OPEN, 100, None),
        ("balanced", 35, 12, Mode.OPEN, 100, None),
        ("friendly", 30, 9, Mode.WALK_IN, 100, None),
        ("friendly", 30, 17, Mode.WALK_IN, 100, None),
        ("friendly", 30, 8, Mode.LONG, 100, None),
        ("friendly", 30, 18, Mode.LONG, 100, None),
        ("friendly", 35, 12, Mode.LONG, 100, None),
        ("friendly", 36, 2, Mode.LONG, 100, None),
    ],
)
def test_n_f1_f2_the_windows_of_a_preset(
    name: str, day: int, hour: int, mode: Mode, rate: int, most_hours: int | None
) -> None:
    instant = datetime(2026, 11, 1, hour, tzinfo=SHANGHAI) + timedelta(days=day - 1)
    window = Timetable(PRESETS[name].windows, SHANGHAI, {}).window_at(instant)
    most = None if most_hours is None else timedelta(hours=most_hours)
    assert (window.mode, window.rate, window.most_inside) == (mode, rate, most)


@pytest.mark.parametrize(("name", "mode", "rate"), [("strict", Mode.OPEN, 100), ("friendly", Mode.LONG, 100)])
def test_n_a5_a_rest_day_has_the_rules_of_a_weekend(name: str, mode: Mode, rate: int) -> None:
    timetable = Timetable(PRESETS[name].windows, SHANGHAI, {date(2026, 11, 30): False, date(2026, 12, 5): True})
    rest = timetable.window_at(datetime(2026, 11, 30, 12, tzinfo=SHANGHAI))
    assert (rest.mode, rest.rate) == (mode, rate)
    made_up = timetable.window_at(datetime(2026, 12, 5, 12, tzinfo=SHANGHAI))
    assert made_up == timetable.window_at(datetime(2026, 12, 1, 12, tzinfo=SHANGHAI))


def test_n_there_are_three_presets_to_choose_from_and_balanced_is_the_default() -> None:
    assert list(PRESETS) == list(NAMES)
    assert PRESETS["balanced"] == BALANCED == Policy()
    assert len({json.dumps(policy.to_json()) for policy in (STRICT, BALANCED, FRIENDLY, REPLAY)}) == 4


def test_n_replay_has_no_limits_and_is_not_offered() -> None:
    assert REPLAY not in PRESETS.values()
    assert (REPLAY.raster_s, REPLAY.shortest_s, REPLAY.windows) == (1, 1, ())
    assert not (REPLAY.displacement or REPLAY.elastic)
    assert not (REPLAY.confirmation or REPLAY.no_show_s or REPLAY.give_back_s)
    assert not (REPLAY.emergency_reserve or REPLAY.quick_cards or REPLAY.late_cancel_percent or REPLAY.walk_in_free_hours)
    a_year, more_than_any_lab = 365 * DAY, 10**6
    assert min(REPLAY.longest_s, REPLAY.walk_in_longest_s, REPLAY.opens_days * DAY) >= a_year
    assert min(REPLAY.cards_at_once, REPLAY.open_future, REPLAY.walk_in_cards) >= more_than_any_lab
    assert min(role.weekly_hours for role in REPLAY.roles.values()) >= more_than_any_lab
    assert (REPLAY.mode, REPLAY.project_share) == ("person", 100) and REPLAY.project_weekly_hours >= more_than_any_lab


UNUSUAL = Policy(windows=(
    Window(1, Mode.CLOSED, 0, Days.DATES, dates=frozenset({date(2026, 10, 1), date(2026, 10, 2)}), pool_id=3),
    Window(2, Mode.WALK_IN, 275, Days.WEEKDAYS, frozenset({0, 6}), opens=time(22, 30), shuts=time(6, 15),
           most_inside=timedelta(hours=2, minutes=30)),
    Window(3, Mode.LONG, 100, Days.REST),
    Window(4, Mode.OPEN, 100, Days.EVERY, most_inside=timedelta()),
))


@pytest.mark.parametrize(
    "policy", [*PRESETS.values(), REPLAY, UNUSUAL], ids=[*PRESETS, "replay", "unusual windows"]
)
def test_n_a_preset_survives_being_stored_as_text(policy: Policy) -> None:
    assert Policy.from_json(json.loads(json.dumps(policy.to_json()))) == policy


def test_f1_the_place_of_a_window_in_the_list_is_its_age() -> None:
    stored = Policy.from_json({"windows": [{"mode": "long"}, {"mode": "closed"}, {}]})
    assert [(window.id, window.mode) for window in stored.windows] == [(1, Mode.LONG), (2, Mode.CLOSED), (3, Mode.OPEN)]
    assert stored.windows[2] == Window(3, Mode.OPEN)
    assert Policy.from_json({"windows": []}).windows == ()


def windows(**one: Any) -> dict[str, Any]:
    return {"windows": [one]}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (windows(mod="open"), r"windows: no such setting: mod"),
        (windows(mode="ajar"), r"windows: 'ajar' is not a valid Mode"),
        (windows(mode=None), r"windows: None is not a valid Mode"),
        (windows(days="sundays"), r"windows: 'sundays' is not a valid Days"),
        (windows(rate=-1), r"windows: rate takes hundredths, 0 to 10000"),
        (windows(rate=10_001), r"windows: rate takes hundredths"),
        (windows(rate=1.5), r"windows: rate takes hundredths"),
        (windows(rate="150"), r"windows: rate takes hundredths"),
        (windows(weekdays=[7]), r"windows: weekdays takes numbers from 0 \(Monday\) to 6 \(Sunday\)"),
        (windows(weekdays=[-1]), r"windows: weekdays takes numbers"),
        (windows(weekdays="45"), r"windows: weekdays takes numbers"),
        (windows(weekdays=3), r"cannot be read"),
        (windows(dates=["1 October"]), r"windows: Invalid isoformat"),
        (windows(dates=[20261001]), r"windows: "),
        (windows(opens="nine"), r"windows: opens takes a time of day such as 09:00"),
        (windows(opens=9), r"windows: opens takes a time of day"),
        (windows(shuts="09:00:30"), r"windows: shuts takes a time of day"),
        (windows(shuts="09:00+08:00"), r"windows: shuts takes a time of day"),
        (windows(most_inside_s=-1), r"windows: most_inside_s takes a whole number of seconds"),
        (windows(most_inside_s="3600"), r"windows: most_inside_s takes a whole number"),
        (windows(most_inside_s=10**20), r"windows: most_inside_s takes a whole number"),
        (windows(pool="a"), r"windows: pool takes the number of a pool"),
        (windows(pool=True), r"windows: pool takes the number of a pool"),
        ({"windows": ["ab"]}, r"windows takes a list of windows"),
        ({"windows": "ab"}, r"windows takes a list of windows"),
        ({"windows": 7}, r"cannot be read"),
        ({"windows": None}, r"cannot be read"),
        ({"freezes_at": "25:00"}, r"freezes_at takes a time of day such as 12:00"),
        ({"late_cancel_percent": 101}, r"late_cancel_percent takes a percentage"),
        ({"granted_tiers": ["thesis"]}, r"granted_tiers takes codes of tiers"),
        ({"late_cancel_s": -1}, r"late_cancel_s takes a whole number, 0 or more"),
        ({"confirmation": 1}, r"confirmation takes true or false"),
        ({"quick_cards": True}, r"quick_cards takes a whole number"),
        ({"displacement": 1}, r"displacement takes true or false"),
        ({"elastic": "yes"}, r"elastic takes true or false"),
        ({"closes_at": "late"}, r"closes_at takes a time of day such as 12:00"),
        ({"moving_tiers": ["thesis"]}, r"moving_tiers takes codes of tiers"),
        ({"one_step_points": 4}, r"one_step_points must be at least 1 and at most two_steps_points"),
        ({"walk_in_cards": 0}, r"walk_in_cards take 1 or more"),
        ({"roles": {"phd": {"weekly_hours": 3, "open_future": 0}}}, r"take 1 or more, or nothing for the lab's"),
    ],
)
def test_n_a_policy_that_cannot_be_used_is_refused_with_what_the_field_takes(values: dict[str, Any], says: str) -> None:
    with pytest.raises(BadPolicy, match=says):
        Policy.from_json(values)
