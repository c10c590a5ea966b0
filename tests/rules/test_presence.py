"""Whether somebody comes: when to ask, from when the time runs, what the samples count (H2, H3, H7, I1, I3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring.rules import gate, presence
from monitoring.rules.snapshot import MIB, Look, Owner, SeenProcess
from reservations.rules.policy import BALANCED, FRIENDLY, STRICT
from reservations.rules.presence import Asked, Quiet, comes_from, is_asked, outside_quiet, question_due, time_to_come

SHANGHAI, NEW_YORK, LONDON = ZoneInfo("Asia/Shanghai"), ZoneInfo("America/New_York"), ZoneInfo("Europe/London")
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
PERIOD = timedelta(seconds=10)
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
LIN = frozenset({1})


def local(text: str, zone: ZoneInfo = SHANGHAI) -> datetime:
    return datetime.fromisoformat(f"2026-{text}").replace(tzinfo=zone).astimezone(UTC)


# --- when people are asked ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "asked"),
    [
        ("12-01T10:00", "12-01T08:05"), ("12-01T14:00", "12-01T08:05"), ("12-01T23:45", "12-01T08:05"),
        ("12-01T09:45", "11-30T20:05"), ("12-01T08:05", "11-30T20:05"), ("12-01T00:00", "11-30T20:05"),
    ],
)
def test_h2_when_it_is_asked(start: str, asked: str) -> None:
    assert question_due(local(start), SHANGHAI) == local(asked)


@pytest.mark.parametrize(
    ("start", "asked"),
    [
        # The clocks of London go forward on 29 March, back on 25 October: the local readings stay.
        ("03-29T11:00", "03-29T08:05"), ("03-29T09:00", "03-28T20:05"), ("10-25T09:59", "10-24T20:05"),
    ],
)
def test_h2_the_hours_of_asking_are_those_of_the_labs_clock(start: str, asked: str) -> None:
    assert question_due(local(start, LONDON), LONDON) == local(asked, LONDON)


def test_h2_who_books_afterwards_is_not_asked_and_the_friendly_lab_asks_nobody() -> None:
    start, due = local("12-01T14:00"), local("12-01T08:05")
    assert is_asked(start, due - SECOND, BALANCED, SHANGHAI)
    assert not is_asked(start, due, BALANCED, SHANGHAI)
    assert not is_asked(start, due - SECOND, FRIENDLY, SHANGHAI)


# --- from when the time runs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("booked", "sent", "begins"),
    [
        (-5, None, 0), (-5, -4, 0), (-5, -0.5, 0.5), (-5, 0, 1), (0.25, None, 0.25), (-5, 3, 4),
    ],
)
def test_h2_the_time_to_come_begins_with_the_latest_of_start_booking_and_an_hour_after_the_question_left(
    booked: float, sent: float | None, begins: float
) -> None:
    asked = Asked(sent_at=None if sent is None else NOON + sent * HOUR)
    assert comes_from(NOON, NOON + booked * HOUR, asked, BALANCED) == NOON + begins * HOUR


def test_h2_it_does_not_begin_while_the_question_or_the_message_of_the_system_has_not_left() -> None:
    assert comes_from(NOON, NOON - HOUR, Asked(waits=True), BALANCED) is None
    assert comes_from(NOON, NOON - HOUR, Asked(placed_by_system=True), BALANCED) is None


def test_d5_k5_what_the_system_placed_begins_an_hour_after_it_was_told_outside_quiet_hours() -> None:
    quiet = Quiet(time(23), time(8), SHANGHAI)
    told = local("12-01T22:30")
    asked = Asked(placed_by_system=True, told_at=told, quiet=quiet)
    assert comes_from(local("12-02T02:00"), told, asked, BALANCED) == local("12-02T08:30")
    assert comes_from(local("12-02T09:00"), told, asked, BALANCED) == local("12-02T09:00")
    assert comes_from(local("12-01T22:00"), told, replace(asked, quiet=None), BALANCED) == local("12-01T23:30")


@pytest.mark.parametrize(
    ("begins", "ends", "told", "over"),
    [
        (time(23), time(8), "12-01T20:00", "12-01T21:00"), (time(23), time(8), "12-01T22:00", "12-01T23:00"),
        (time(23), time(8), "12-01T22:59", "12-02T08:59"), (time(23), time(8), "12-02T03:00", "12-02T09:00"),
        (time(12), time(14), "12-01T11:30", "12-01T14:30"), (time(12), time(14), "12-01T12:00", "12-01T15:00"),
        (time(9), time(9), "12-01T08:30", "12-01T09:30"),
    ],
)
def test_h2_quiet_hours_are_not_counted(begins: time, ends: time, told: str, over: str) -> None:
    assert outside_quiet(local(told), HOUR, Quiet(begins, ends, SHANGHAI)) == local(over)


@given(
    begun=st.integers(0, 364 * 24 * 60), minutes=st.integers(0, 300),
    begins=st.times(), ends=st.times(), zone=st.sampled_from([SHANGHAI, NEW_YORK, LONDON]),
)
def test_h2_quiet_hours_only_make_it_later_and_more_time_never_ends_sooner(
    begun: int, minutes: int, begins: time, ends: time, zone: ZoneInfo
) -> None:
    quiet, at = Quiet(begins, ends, zone), datetime(2026, 1, 1, tzinfo=UTC) + begun * MINUTE
    some, more = (outside_quiet(at, timedelta(minutes=n), quiet) for n in (minutes, minutes + 1))
    assert at + timedelta(minutes=minutes) <= some < more


@pytest.mark.parametrize(
    ("policy", "plain", "confirmed"),
    [(STRICT, 20, 60), (BALANCED, 30, 60), (FRIENDLY, 60, 60), (replace(BALANCED, no_show_s=2 * 3600), 120, 120)],
)
def test_h2_a_confirmation_gives_the_longer_time(policy: object, plain: int, confirmed: int) -> None:
    assert time_to_come(policy, is_confirmed=False) == plain * MINUTE  # type: ignore[arg-type]
    assert time_to_come(policy, is_confirmed=True) == confirmed * MINUTE  # type: ignore[arg-type]


def test_h2_a_lab_may_know_no_no_shows() -> None:
    assert time_to_come(replace(BALANCED, no_show_s=0), is_confirmed=True) is None


# --- what the samples count ---------------------------------------------------------------------------------------------


def process(pid: int = 7, member: int | None = 1, owner: Owner = Owner.VERIFIED, kind: str = "C") -> SeenProcess:
    return SeenProcess(pid, 100 + pid, 1000, 4000 * MIB, kind, owner, member)


FREE = Look(NOON, utilization=0, memory_used=10 * MIB, processes=())
USED = replace(FREE, processes=(process(),), memory_used=4000 * MIB)
FOREIGN = replace(FREE, processes=(process(8, 2),), memory_used=4000 * MIB)
ROOT = replace(FREE, processes=(process(9, None, Owner.AMBIGUOUS),), memory_used=4000 * MIB)
UNSEEN = replace(FREE, memory_used=4000 * MIB)
UNREAD = replace(FREE, processes=None)
LOST = replace(FREE, problem="lost", processes=None, memory_used=None)
NO_MEMORY = replace(FREE, memory_used=None)
DESKTOP = replace(FREE, processes=(replace(process(5, None, Owner.UNKNOWN, "G"), memory=60 * MIB),), memory_used=70 * MIB)
BUSY_DRIVER = replace(FREE, utilization=100)


def row(*parts: tuple[Look | None, int], begin: datetime = NOON) -> list[Look]:
    """A look every period: each kind so many times; None leaves them out."""
    looks, at = [], begin
    for kind, times in parts:
        for _ in range(times):
            if kind is not None:
                looks.append(replace(kind, at=at))
            at += PERIOD
    return looks


@pytest.mark.parametrize(
    ("parts", "counts_s"),
    [
        ([(FREE, 181)], 1800),
        ([(FREE, 1)], 0),
        ([], 0),
        ([(USED, 100), (FREE, 91)], 900),
        ([(FREE, 91), (FOREIGN, 30), (FREE, 91)], 1800),
        ([(FREE, 91), (ROOT, 30), (FREE, 91)], 1800),
        ([(FREE, 91), (UNSEEN, 30), (FREE, 91)], 1800),
        ([(FREE, 91), (UNREAD, 30), (FREE, 91)], 1800),
        ([(FREE, 91), (LOST, 30), (FREE, 91)], 1800),
        ([(FREE, 91), (NO_MEMORY, 30), (FREE, 91)], 1800),
        ([(FREE, 91), (None, 30), (FREE, 91)], 1800),
        ([(FREE, 91), (None, 2), (FREE, 91)], 1830),  # two missing looks: still fresher than three periods
        ([(FREE, 91), (None, 3), (FREE, 91)], 1800),
        ([(FREE, 91), (UNREAD, 1), (FREE, 91)], 1800),
        ([(FREE, 60), (DESKTOP, 60), (BUSY_DRIVER, 61)], 1800),  # a desktop is no use, a driver's 100 % neither (I2)
    ],
)
def test_h2_only_time_observed_free_counts(parts: Sequence[tuple[Look | None, int]], counts_s: int) -> None:
    found = presence.counted({1: row(*parts)}, NOON, PERIOD)
    assert found.total == timedelta(seconds=counts_s)


def test_h2_time_before_the_clock_begins_does_not_count() -> None:
    looks = {1: row((FREE, 181))}
    assert presence.counted(looks, NOON + 10 * MINUTE, PERIOD).total == 20 * MINUTE
    assert presence.counted(looks, NOON + HOUR, PERIOD).total == timedelta()


def test_h2_of_several_cards_time_counts_while_all_are_free() -> None:
    looks = {1: row((FREE, 91), (FOREIGN, 90)), 2: row((FOREIGN, 60), (FREE, 121))}
    assert presence.counted(looks, NOON, PERIOD).total == timedelta(seconds=300)
    assert presence.counted({1: row((FREE, 91)), 2: []}, NOON, PERIOD).total == timedelta()


def test_i1_coverage_is_asked_of_the_counted_time_alone() -> None:
    """Half an hour of a predecessor in between costs nothing; missing looks inside the counted time do."""
    found = presence.counted({1: row((FREE, 91), (FOREIGN, 180), (FREE, 91))}, NOON, PERIOD)
    assert found.samples is not None and found.until is not None and found.start is not None
    assert found.until == NOON + 361 * PERIOD
    assert gate.coverage(found.samples[1], found.start, found.until, PERIOD) == 1
    sparse = [look for n, look in enumerate(row((FREE, 181))) if n % 2 == 0]
    found = presence.counted({1: sparse}, NOON, PERIOD)
    assert found.samples is not None and found.until is not None and found.start is not None
    assert found.total == 30 * MINUTE
    assert gate.coverage(found.samples[1], found.start, found.until, PERIOD) < 0.6


KINDS = (FREE, USED, FOREIGN, ROOT, UNSEEN, UNREAD, LOST, None)


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 8)), max_size=12), st.integers(0, 40))
def test_h2_counted_time_never_exceeds_the_clock_and_a_doubt_never_adds_to_it(
    parts: list[tuple[Look | None, int]], place: int
) -> None:
    looks = row(*parts)
    found = presence.counted({1: looks}, NOON, PERIOD)
    free = sum(look.is_free for look in looks)
    assert timedelta() <= found.total <= max(free - 1, 0) * 3 * PERIOD
    if looks:
        doubted = [*looks]
        at = doubted[place % len(doubted)].at
        doubted[place % len(doubted)] = replace(UNREAD, at=at)
        assert presence.counted({1: doubted}, NOON, PERIOD).total <= found.total
    both = presence.counted({1: looks, 2: row((FREE, 100))}, NOON, PERIOD)
    assert both.total <= found.total
    if found.samples and found.start and found.until:
        assert all(found.start <= at <= found.until for at in found.samples[1])
        assert list(found.samples[1]) == sorted(found.samples[1])


# --- whose it may be ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "theirs"),
    [
        ([(FREE, 5)], [(ROOT, 3)], True),
        ([(FREE, 5)], [(UNSEEN, 3)], True),
        ([], [(ROOT, 3)], True),  # nobody knows what was there before
        ([(FREE, 5)], [(ROOT, 2), (FREE, 1), (ROOT, 2)], False),
        ([(ROOT, 5)], [(ROOT, 30), (FREE, 5)], False),  # a predecessor's leaving, by pid and start
        ([(UNSEEN, 5)], [(UNSEEN, 30), (FREE, 5)], False),
        ([(ROOT, 5)], [(replace(ROOT, processes=(process(77, None, Owner.AMBIGUOUS),)), 3)], True),
        ([(FREE, 5)], [(FOREIGN, 30), (DESKTOP, 30)], False),
    ],
)
def test_i3_what_nobody_can_name_and_came_after_the_start_may_be_the_holders(
    before: Sequence[tuple[Look, int]], after: Sequence[tuple[Look, int]], theirs: bool
) -> None:
    looks = [*row(*before, begin=NOON - 5 * PERIOD), *row(*after)]
    assert presence.may_be_theirs(looks, NOON, 3) is theirs


def test_h2_every_kind_of_process_of_the_holder_is_a_sight() -> None:
    graphics = replace(FREE, processes=(process(5, 1, Owner.VERIFIED, "G"),))
    assert presence.last_sight(row((FREE, 3), (graphics, 1), (FREE, 2)), LIN) == NOON + 3 * PERIOD
    assert presence.last_sight(row((FREE, 3), (FOREIGN, 3), (ROOT, 3)), LIN) is None
    assert presence.last_sight(row((FOREIGN, 1)), frozenset({1, 2})) == NOON


# --- gone ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "length_s"),
    [
        ([(USED, 10), (FREE, 61)], 600),
        ([(USED, 10), (FREE, 30), (UNREAD, 1), (FREE, 30)], 290),  # free the whole time, or the time begins anew
        ([(USED, 10), (FREE, 30), (None, 4), (FREE, 30)], 290),
        ([(USED, 10), (FREE, 30), (FOREIGN, 1)], None),
        ([(USED, 10), (FREE, 30), (None, 4)], None),  # stale
        ([(USED, 10)], None),
    ],
)
def test_h7_the_processes_are_gone_for_as_long_as_fresh_looks_show_it_without_a_break(
    parts: Sequence[tuple[Look | None, int]], length_s: int | None
) -> None:
    looks = row(*parts)
    now = NOON + (sum(times for _, times in parts) - 1) * PERIOD
    found = presence.gone({1: looks}, NOON + 9 * PERIOD, now, PERIOD)
    assert (None if found is None else found.length.total_seconds()) == length_s


def test_h7_all_the_cards_must_be_free() -> None:
    looks = {1: row((USED, 10), (FREE, 61)), 2: row((FREE, 41), (FOREIGN, 10), (FREE, 20))}
    found = presence.gone(looks, NOON + 9 * PERIOD, NOON + 70 * PERIOD, PERIOD)
    assert found is not None and found.length == 19 * PERIOD
    assert presence.gone({**looks, 3: []}, NOON, NOON + 70 * PERIOD, PERIOD) is None
