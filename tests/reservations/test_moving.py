"""Moving, booking again next week, and undoing a booking or a move within its seconds (H6, D8, H0). NOW is Monday 14:00."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.db import connection

from reservations import messages, obsolete, queries
from reservations.models import Allocation, AuditEntry, Gpu, LedgerEntry, Member, Notification, Reservation
from reservations.rules.kinds import Kind
from reservations.rules.lifecycle import Status
from reservations.rules.refusal import Code, Refused
from reservations.services import booking, changes, extension, locking, moving
from tests.factories import NOW, arbiter, at, cards, lab, member, reservation
from tests.reservations.accounts import charged, charged_by_week, free_hours
from tests.rig import checkers, databases

pytestmark = pytest.mark.django_db
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
EVENING = 29  # Tuesday 19:00: from here to Wednesday 09:00 the rate is 1


@pytest.fixture(autouse=True)
def _lab() -> None:
    lab()


def move(made: Reservation, start: float, end: float, *, now: datetime = NOW, **fields: Any) -> Reservation:
    values: dict[str, Any] = {"by": made.holder, "version": None, "start": at(start), "end": at(end), "now": now} | fields
    return moving.move(made.pk, **values)


def undo(made: Reservation, now: datetime, **fields: Any) -> Reservation:
    values: dict[str, Any] = {"by": made.holder, "version": None, "now": now} | fields
    return moving.undo(made.pk, **values)


def refused(act: Callable[[], Any]) -> list[Code]:
    with pytest.raises(Refused) as caught:
        act()
    return caught.value.codes


def held(made: Reservation) -> list[tuple[Any, ...]]:
    rows = Allocation.objects.filter(reservation=made).order_by("gpu")
    return list(rows.values_list("gpu", "status", "start", "end", "weight", "price"))


def ids(*gpus: Gpu) -> list[int]:
    return [gpu.pk for gpu in gpus]


def whole() -> tuple[Any, ...]:
    """Everything that a refusal must leave as it is."""
    return (
        list(Reservation.objects.order_by("pk").values_list()), list(Allocation.objects.order_by("pk").values_list()),
        list(LedgerEntry.objects.order_by("pk").values_list()), AuditEntry.objects.count(), Notification.objects.count(),
    )


def as_it_stands(made: Reservation) -> tuple[Any, ...]:
    """A reservation without its version and the keys of its rows."""
    found = Reservation.objects.get(pk=made.pk)
    row = (found.status, found.kind, found.start, found.end, found.booked_at, found.rank_tier, found.ended_at)
    fees = list(Allocation.objects.filter(reservation=made).order_by("gpu").values_list("fee", flat=True))
    return row, held(made), fees


# --- moving ---------------------------------------------------------------------------------------------------------


def test_h6_a_move_is_cancel_and_book_of_the_same_reservation() -> None:
    lin, (one, two) = member(), cards(2)
    made = reservation(lin, [one, two], 24, 26, purpose="inference", note="mine")
    moved = move(made, 48, 51, version=1)
    assert (moved.pk, moved.version, moved.status, moved.start, moved.end) == (made.pk, 2, Status.BOOKED, at(48), at(51))
    assert (moved.purpose, moved.note, moved.tier) == ("inference", "mine", "regular")
    assert [row[:4] for row in held(made)] == [(gpu, "booked", at(48), at(51)) for gpu in ids(one, two)]
    assert charged(lin) == 6
    rows = LedgerEntry.objects.order_by("pk").values_list("reason", "units")
    assert [(reason, units / 36_000_000) for reason, units in rows] == [("booked", 4), ("moved", -4), ("moved", 6)]


def test_h6_the_old_time_is_free_for_others_and_the_new_is_not() -> None:
    gpus = cards(1)
    move(reservation(member(), gpus, 24, 26), 48, 50)
    reservation(member(), gpus, 24, 26)
    assert refused(lambda: reservation(member(), gpus, 49, 51)) == [Code.CARD_TAKEN]


def test_h6_the_audit_keeps_the_old_and_the_new() -> None:
    (one, two), later = cards(2), NOW + MINUTE
    made = reservation(member(), [one], 24, 26)
    move(made, 48, 50, card_ids=ids(two), now=later)
    entry = AuditEntry.objects.get(verb="move")
    assert (entry.actor, entry.origin, entry.at) == (made.holder, "page", later)
    sides = {
        side: (entry.change[side]["start"], entry.change[side]["end"], entry.change[side]["cards"], entry.change[side]["kind"])
        for side in ("old", "new")
    }
    assert sides == {
        "old": (at(24).isoformat(), at(26).isoformat(), ids(one), "planned"),
        "new": (at(48).isoformat(), at(50).isoformat(), ids(two), "planned"),
    }


@pytest.mark.parametrize(
    ("start", "end", "change", "keeps"),
    [
        (24, 32, "same", True), (25, 31, "same", True), (24, 28, "fewer", True),
        (24, 32.25, "same", False), (23.75, 28, "same", False), (40, 44, "same", False), (25, 31, "other", False),
        (25, 31, "more", False),
    ],
)
def test_h6_seniority_is_kept_only_inside_the_old_time_and_cards(start: float, end: float, change: str, keeps: bool) -> None:
    one, two, three = cards(3)
    made = reservation(member(), [one, two], 24, 32)
    chosen = {"same": [one, two], "fewer": [one], "other": [one, three], "more": [one, two, three]}[change]
    moved = move(made, start, end, card_ids=ids(*chosen), now=NOW + MINUTE)
    assert moved.booked_at == (NOW if keeps else NOW + MINUTE)


@pytest.mark.parametrize(
    ("start", "kind"),
    [(24, Kind.PLANNED), (10, Kind.PLANNED), (9, Kind.LATE), (3, Kind.LATE), (0, Kind.WALK_IN)],
)
def test_h6_the_kind_is_that_of_the_new_start(start: float, kind: Kind) -> None:
    made = reservation(member(), cards(1), 48, 50)
    assert made.kind == Kind.PLANNED
    moved = move(made, start, start + 2)
    assert (moved.kind, moved.status) == (kind, Status.ACTIVE if start == 0 else Status.BOOKED)


def test_h6_in_frozen_time_a_move_within_the_same_day_becomes_late() -> None:
    made = reservation(member(), cards(1), 24, 26)
    assert move(made, 25, 27, now=at(6)).kind == Kind.LATE  # Monday 20:00: Tuesday is frozen


# In turn: what lies beside the reservation of one card from 24 to 28, where it moves, what is said.
@pytest.mark.parametrize(
    ("policy", "beside", "target", "codes"),
    [
        pytest.param({"cards_at_once": 1}, None, (25, 29), [], id="H6: its own cards do not count against it"),
        pytest.param({"cards_at_once": 1}, (29, 30), (28, 30), [Code.CARDS_AT_ONCE], id="B1: the holder's others do"),
        pytest.param({"open_future": 1}, None, (48, 50), [], id="H6: it is not one reservation more"),
        pytest.param({}, None, (24, 34), [], id="H6: its own hours are free again"),  # an undergraduate's 10 of 10
        pytest.param({}, None, (24, 34.25), [Code.QUOTA], id="E2: but no hour more"),
        pytest.param({}, (40, 41), (24, 34), [Code.QUOTA], id="E2: what others cost stays"),
        pytest.param({}, None, (24, 24.25), [Code.TOO_SHORT], id="A1: too short"),
        pytest.param({}, None, (24.1, 26), [Code.OFF_RASTER], id="A1: off the raster"),
        pytest.param({}, None, (26, 24), [Code.END_BEFORE_START], id="A1: backwards"),
        pytest.param({}, None, (-2, 2), [Code.IN_PAST], id="A4: into the past"),
        pytest.param({}, None, (400, 402), [Code.DAY_NOT_OPEN], id="A4: a day that is not open"),
    ],
)
def test_h6_everything_is_asked_anew(
    policy: dict[str, Any], beside: tuple[float, float] | None, target: tuple[float, float], codes: list[Code]
) -> None:
    lab(roles={"undergraduate": {"weekly_hours": 10}}, **policy)
    lin, (one, two) = member(role="undergraduate"), cards(2)
    made = reservation(lin, [one], 24, 28)
    if beside:
        reservation(lin, [two], *beside)
    before = whole()
    if codes:
        assert refused(lambda: move(made, *target)) == codes
        assert whole() == before
    else:
        assert move(made, *target).start == at(target[0])


def test_h6_it_may_move_onto_its_own_old_time() -> None:
    made = reservation(member(), cards(1), 24, 28)
    assert move(made, 26, 30).start == at(26)


def test_bt_12_four_cards_move_together_or_not_at_all_and_the_taken_one_is_named() -> None:
    four, wang = cards(4), member("Wang")
    made = reservation(member(), four, 24, 26)
    reservation(wang, four[2:3], 49, 50)
    before = whole()
    with pytest.raises(Refused) as caught:
        move(made, 48, 50)
    [refusal] = caught.value.refusals
    assert (refusal.code, refusal.facts["card"], refusal.facts["holder"]) == (Code.CARD_TAKEN, str(four[2]), "Wang")
    assert whole() == before
    move(made, 50, 52)
    assert [row[0] for row in held(made)] == ids(*four)


@pytest.mark.parametrize(
    ("state", "code"), [("active", Code.WRONG_STATUS), ("by the clock", Code.WRONG_STATUS), ("cancelled", Code.WRONG_STATUS)]
)
def test_h6_only_before_it_starts(state: str, code: Code) -> None:
    gpus, lin = cards(1), member()
    made = reservation(lin, gpus, None if state == "active" else 1, 4)
    if state == "cancelled":
        changes.cancel(made.pk, by=lin, version=None, now=NOW)
    assert refused(lambda: move(made, 8, 10, now=at(1) if state == "by the clock" else NOW)) == [code]


def test_h6_a_form_that_was_overtaken_moves_nothing() -> None:
    made = reservation(member(), cards(1), 24, 26)
    move(made, 30, 32)
    before = whole()
    assert refused(lambda: move(made, 48, 50, version=1)) == [Code.STALE]
    assert whole() == before


def test_p3_the_same_move_pressed_twice_moves_once() -> None:
    made = reservation(member(), cards(1), 24, 26)
    first = move(made, 48, 50, version=1, key="form-1")
    before = whole()
    assert move(made, 48, 50, version=1, key="form-1").version == first.version == 2
    assert whole() == before
    assert refused(lambda: move(made, 49, 51, version=1, key="form-1")) == [Code.KEY_REUSED]


def test_h8_others_move_nothing_and_an_arbiter_tells_the_holder() -> None:
    lin, judge = member("Lin"), arbiter("Zhao")
    made = reservation(lin, cards(1), 24, 26)
    for act in (move, lambda made, *_, by: undo(made, NOW, by=by)):
        assert refused(lambda act=act: act(made, 48, 50, by=member())) == [Code.NOT_YOURS]  # type: ignore[misc]
    move(made, 48, 50, by=judge)
    (told,) = Notification.objects.filter(kind="changed")
    assert told.member == lin
    assert "Zhao moved your reservation: 1 × RTX 4090" in messages.compose(told, queries.lab_facts(), NOW).subject


def test_k2_the_message_before_the_old_end_is_dropped_and_one_for_the_new_is_due() -> None:
    made = reservation(member(), cards(1), 24, 26)
    move(made, 48, 50)
    old, new = Notification.objects.order_by("due_at")
    assert obsolete.cause(old, at(26) - 10 * MINUTE) == "the reservation was changed"
    assert (new.due_at, new.reservation_version, obsolete.cause(new, new.due_at)) == (at(50) - 10 * MINUTE, 2, "")


# --- what a move costs (E1, E3) ---------------------------------------------------------------------------------------


def test_e1_a_move_over_the_weekend_returns_one_week_and_charges_the_other() -> None:
    lin = member()
    move(reservation(lin, cards(1), 24, 26), 7 * 24, 7 * 24 + 3)
    assert charged_by_week(lin) == {date(2026, 12, 7): 3}


def test_e6_the_new_time_has_the_price_of_its_windows() -> None:
    lab(balanced=True)
    lin = member()
    made = reservation(lin, cards(1), EVENING, EVENING + 2)
    assert charged(lin) == 2
    move(made, 20, 22)  # Tuesday 10:00 to 12:00, at one and a half
    assert charged(lin) == 3


@pytest.mark.parametrize(
    ("before", "target", "fee"),
    [
        (timedelta(hours=2), (48, 56), 0),
        (timedelta(hours=2) - SECOND, (48, 56), 2),  # a quarter of eight hours
        (timedelta(hours=1), (EVENING + 4, EVENING + 12), 1),  # four of the eight are booked again
        (timedelta(hours=1), (EVENING, EVENING + 8), 0),
        (timedelta(hours=1), (EVENING + 8, EVENING + 16), 2),
    ],
)
def test_e3_a_move_under_two_hours_before_the_start_is_a_late_cancellation(
    before: timedelta, target: tuple[float, float], fee: float
) -> None:
    lab(late_cancel_percent=25)
    lin = member()
    made = reservation(lin, cards(1), EVENING, EVENING + 8)
    move(made, *target, now=at(EVENING) - before)
    assert charged(lin) == 8 + fee


def test_e3_the_fee_of_a_late_move_returns_as_others_book_the_time() -> None:
    lab(late_cancel_percent=25)
    lin, (one, two) = member(), cards(2)
    move(reservation(lin, [one], 10, 18), 48, 56, card_ids=ids(two), now=at(9))
    assert charged(lin) == 10
    reservation(member(), [one], 10, 14, now=at(9))
    assert charged(lin) == 9
    reservation(member(), [one], 14, 24, now=at(9))
    assert charged(lin) == 8


def test_e3_the_fee_needs_room_in_the_allowance_too() -> None:
    lab(late_cancel_percent=25, roles={"phd": {"weekly_hours": 8}})
    made = reservation(member(), cards(1), 10, 18)
    assert refused(lambda: move(made, 40, 48, now=at(9))) == [Code.QUOTA]
    assert move(made, 40, 46, now=at(9)).start == at(40)


# --- again next week (D8) ---------------------------------------------------------------------------------------------


def again(made: Reservation, now: datetime = NOW, key: str = "again-1") -> Reservation:
    return booking.again(made.pk, by=made.holder, now=now, key=key)


def test_d8_again_is_a_reservation_of_its_own_at_the_same_clock_time() -> None:
    lin, two = member(), cards(2)
    made = reservation(lin, two, 8, 12, tier="exploration", purpose="test")
    copy = again(made)
    assert copy.pk != made.pk
    assert (copy.start, copy.end, copy.tier, copy.purpose) == (at(8 + 168), at(12 + 168), "exploration", "test")
    assert [row[0] for row in held(copy)] == ids(*two)
    assert (copy.booked_at, charged_by_week(lin)) == (NOW, {date(2026, 11, 30): 8, date(2026, 12, 7): 8})
    changes.cancel(made.pk, by=lin, version=None, now=NOW)
    assert Reservation.objects.get(pk=copy.pk).status == Status.BOOKED


def test_d8_again_pressed_twice_books_once() -> None:
    made = reservation(member(), cards(1), 8, 12)
    assert again(made) == again(made)
    assert Reservation.objects.count() == 2


def test_d8_again_is_under_all_rules() -> None:
    gpus = cards(1)
    made = reservation(member(), gpus, 8, 12)
    reservation(member(), gpus, 170 + 8, 180)
    assert refused(lambda: again(made)) == [Code.CARD_TAKEN]
    lab(opens_days=7)
    assert refused(lambda: again(reservation(member(), cards(1), 24, 26))) == [Code.DAY_NOT_OPEN]


def test_d8_what_began_between_two_steps_begins_at_the_earlier_one() -> None:
    made = reservation(member(), cards(1), None, 4, now=NOW + 3 * MINUTE)
    assert again(made).start == at(168)


@pytest.mark.parametrize("who", [member, arbiter])
def test_d8_nobody_books_again_what_is_another_s(who: Callable[[], Member]) -> None:
    made = reservation(member(), cards(1), 8, 12)
    assert refused(lambda: booking.again(made.pk, by=who(), now=NOW, key="k")) == [Code.NOT_YOURS]
    assert refused(lambda: booking.again(987654, by=who(), now=NOW, key="k")) == [Code.NOT_YOURS]


def berlin(year: int, month: int, day: int, hour: float) -> datetime:
    local = datetime(year, month, day, tzinfo=ZoneInfo("Europe/Berlin")) + timedelta(hours=hour)
    return local.astimezone(UTC)


def test_d8_the_clock_time_stays_over_a_clock_change() -> None:
    lab(zone="Europe/Berlin")
    now = berlin(2026, 10, 20, 9)
    made = booking.reserve(
        member(), booking.BookingRequest((cards(1)[0].pk,), berlin(2026, 10, 22, 10), berlin(2026, 10, 22, 12)), now=now
    )
    copy = again(made, now)
    assert (copy.start, copy.end) == (berlin(2026, 10, 29, 10), berlin(2026, 10, 29, 12))
    assert copy.start - made.start == timedelta(hours=169)


@pytest.mark.parametrize(
    ("now", "day", "hours", "code", "field", "readings"),
    [
        pytest.param(
            (2026, 10, 13), (2026, 10, 18), (2.5, 5), Code.TIME_TWICE, "start",
            (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)), id="A3: a double start",
        ),
        pytest.param(
            (2027, 3, 16), (2027, 3, 21), (1, 2.5), Code.TIME_SKIPPED, "end",
            (datetime(2027, 3, 28, 0, 30, tzinfo=UTC), datetime(2027, 3, 28, 1, 30, tzinfo=UTC)), id="A3: an end that is skipped",
        ),
    ],
)
def test_d8_a_time_that_the_clock_skips_or_repeats_is_refused_with_both_readings(
    now: tuple[int, int, int], day: tuple[int, int, int], hours: tuple[float, float], code: Code, field: str,
    readings: tuple[datetime, datetime],
) -> None:
    lab(zone="Europe/Berlin")
    start, end = (berlin(*day, hour) for hour in hours)
    made = booking.reserve(member(), booking.BookingRequest((cards(1)[0].pk,), start, end), now=berlin(*now, 14))
    with pytest.raises(Refused) as caught:
        again(made, berlin(*now, 14))
    assert caught.value.codes == [code, code]
    assert [one.alternative and one.alternative.values for one in caught.value.refusals] == [
        {field: reading} for reading in readings
    ]


# --- undoing within ten seconds (H0) ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("after", "in_time"), [(0, True), (9.999, True), (10, False), (600, False)])
def test_h0_a_booking_is_undone_within_ten_seconds_without_fee(after: float, in_time: bool) -> None:
    lab(balanced=True)
    lin, gpus = member(), cards(1)
    made = reservation(lin, gpus, 1, 3)  # under two hours ahead: a cancellation would keep a quarter
    if not in_time:
        before = whole()
        assert refused(lambda: undo(made, NOW + after * SECOND)) == [Code.UNDO_OVER]
        assert whole() == before
        return
    undone = undo(made, NOW + after * SECOND, version=1)
    assert (undone.status, charged(lin)) == (Status.CANCELLED, 0)
    assert reservation(member(), gpus, 1, 3).status == Status.BOOKED


def test_h0_how_long_a_booking_can_be_undone_is_the_policy_s() -> None:
    lab(booking_undo_s=30)
    assert undo(reservation(member(), cards(1), 8, 9), NOW + 29 * SECOND).status == Status.CANCELLED


@pytest.mark.parametrize(("start", "free"), [(None, {date(2026, 11, 30): 4.0}), (0.25, {})])
def test_h0_what_has_started_ends_released_with_its_whole_charge_returned(
    start: float | None, free: dict[date, float]
) -> None:
    lab(balanced=True)
    lin, gpus = member(), cards(1)
    booked_at = NOW if start is None else at(0.25) - 5 * SECOND
    made = reservation(lin, gpus, start, 4 if start is None else 4.25, now=booked_at)
    assert free_hours(lin) == free
    undone = undo(made, booked_at + 9 * SECOND)
    assert (undone.status, charged(lin), free_hours(lin)) == (Status.RELEASED, 0, {})
    assert undone.ended_at == made.start
    reservation(member(), gpus, None, 4, now=booked_at + 9 * SECOND)


def test_h0_undoing_twice_is_as_once_and_then_nothing_is_left_to_undo() -> None:
    made = reservation(member(), cards(1), 8, 9)
    first = undo(made, NOW + SECOND, version=1)
    before = whole()
    assert undo(made, NOW + 2 * SECOND, version=1).version == first.version == 2
    assert whole() == before


@pytest.mark.parametrize("act", ["extend", "cancel"])
def test_h0_what_was_changed_meanwhile_is_not_undone(act: str) -> None:
    made = reservation(member(), cards(1), 8, 9)
    if act == "extend":
        extension.extend(made.pk, at(10), by=made.holder, version=None, now=NOW)
    else:
        changes.cancel(made.pk, by=made.holder, version=None, now=NOW)
    assert refused(lambda: undo(made, NOW + SECOND)) == [Code.STALE]
    assert refused(lambda: undo(reservation(member(), cards(1), 8, 9), NOW, version=7)) == [Code.STALE]


def test_h0_an_undone_booking_keeps_again_the_fee_that_it_had_returned() -> None:
    lab(late_cancel_percent=25)
    lin, gpus = member(), cards(1, weight=33)
    changes.cancel(reservation(lin, gpus, 1, 9).pk, by=lin, version=None, now=NOW)
    before = charged(lin)
    rows = as_it_stands(Reservation.objects.get())
    made = reservation(member(), gpus, 2, 4.25)
    assert charged(lin) < before
    undo(made, NOW + SECOND)
    assert charged(lin) == before
    assert as_it_stands(Reservation.objects.get(holder=lin)) == rows


@pytest.mark.parametrize(
    ("start", "end", "other_card", "now"),
    [
        pytest.param(48, 56, False, NOW, id="H0: long before"),
        pytest.param(48, 56, True, NOW, id="H0: to another card"),
        pytest.param(11, 13, False, at(9), id="H0: late, in part inside the old time"),
        pytest.param(48, 56, True, at(9), id="H0: late, to another card"),
        pytest.param(9, 12, False, at(9), id="H0: into a walk-in, which has started"),
    ],
)
def test_h0_an_undone_move_is_as_before(start: float, end: float, other_card: bool, now: datetime) -> None:
    lab(balanced=True, windows=[])
    lin, (one, two) = member(), cards(2, weight=33)
    made = reservation(lin, [one], 10, 18)
    before, spent, free = as_it_stands(made), charged(lin), free_hours(lin)
    moved = move(made, start, end, card_ids=ids(two if other_card else one), now=now)
    assert as_it_stands(made) != before
    undone = undo(made, now + 9 * SECOND, version=moved.version)
    assert undone.version == 3
    assert (as_it_stands(made), charged(lin), free_hours(lin)) == (before, spent, free)
    notice = Notification.objects.filter(kind="ending").order_by("-pk")[0]
    assert (notice.due_at, notice.reservation_version) == (at(18) - 10 * MINUTE, 3)


@pytest.mark.parametrize("swept", [False, True])
def test_h0_an_undo_repeated_after_the_end_returns_what_stands_whether_or_not_the_sweep_came(swept: bool) -> None:
    made = reservation(member(), cards(1), 24, 26)
    version = move(made, 48, 50, now=at(1)).version
    undone = undo(made, at(1) + SECOND, version=version)
    if swept:
        for instant in (at(24), at(26)):
            booking.advance_one(made.pk, now=instant)
    assert undo(made, at(27), version=version).version == undone.version


def test_h0_a_move_is_undone_within_ten_seconds_only() -> None:
    made = reservation(member(), cards(1), 24, 26)
    move(made, 48, 50, now=at(1))
    assert refused(lambda: undo(made, at(1) + 10 * SECOND)) == [Code.UNDO_OVER]


@pytest.mark.parametrize("what", ["card", "hours", "cards at once", "reservations ahead"])
def test_h0_an_undo_is_refused_when_something_it_needs_was_taken_meanwhile(what: str) -> None:
    policy: dict[str, Any] = {
        "hours": {"roles": {"phd": {"weekly_hours": 10}}}, "cards at once": {"cards_at_once": 1},
        "reservations ahead": {"open_future": 1},
    }.get(what, {})
    lab(**policy)
    lin, (one, two) = member(), cards(2)
    made = reservation(lin, [one], 24, 32)
    move(made, 0 if what == "reservations ahead" else 48, 2 if what == "reservations ahead" else 50)
    reservation(member() if what == "card" else lin, [one if what == "card" else two], *{"hours": (60, 64)}.get(what, (24, 32)))
    before = whole()
    code = {
        "card": Code.CARD_TAKEN, "hours": Code.QUOTA, "cards at once": Code.CARDS_AT_ONCE,
        "reservations ahead": Code.OPEN_FUTURE,
    }[what]
    assert refused(lambda: undo(made, NOW + 5 * SECOND)) == [code]
    assert whole() == before


def test_h0_an_arbiter_s_undo_is_told_to_the_holder() -> None:
    lin, judge = member(), arbiter("Zhao")
    one, two = reservation(lin, cards(1), 24, 26), reservation(lin, cards(1), 24, 26)
    move(two, 48, 50)
    undo(one, NOW + SECOND, by=judge)
    undo(two, NOW + SECOND, by=judge)
    told = Notification.objects.filter(kind="changed").order_by("pk")
    subjects = [messages.compose(row, queries.lab_facts(), NOW).subject for row in told]
    assert ["Zhao undid your booking" in subjects[0], "Zhao undid the move" in subjects[1], len(subjects)] == [True, True, 2]


# --- the books ----------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_the_ledger_the_audit_and_the_messages_fit_after_all_of_it() -> None:
    lin, wu, (one, two, three) = member(), member(), cards(3)
    kept = reservation(lin, [one], 24, 26)
    move(kept, 30, 34, card_ids=ids(two, three))
    undo(kept, NOW + SECOND)
    move(kept, 25, 27, now=NOW + MINUTE)
    undo(reservation(wu, [two], 8, 9), NOW)
    undo(reservation(wu, [three], None, 3), NOW)
    again(kept, NOW + MINUTE)
    moved = move(reservation(wu, [two], 48, 49), 0, 1)
    assert moved.status == Status.ACTIVE
    with closing(databases.connect()) as plain:
        assert checkers.all_of(plain, ZoneInfo("Asia/Shanghai")) == []


# --- races ------------------------------------------------------------------------------------------------------------


def together(*acts: Callable[[], Any]) -> list[str]:
    """What each act said, all started at one instant in threads of their own."""
    gate, said = threading.Barrier(len(acts)), [""] * len(acts)

    def run(place: int) -> None:
        try:
            gate.wait(10)
            acts[place]()
            said[place] = "done"
        except Refused as problem:
            said[place] = ",".join(problem.codes)
        except locking.Busy:
            said[place] = "busy"
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return said


@pytest.mark.django_db(transaction=True)
def test_p1_two_moves_onto_one_slot_give_it_to_one() -> None:
    one, two, three = cards(3)
    for number in range(5):
        first, second = (reservation(member(), [gpu], 24 + 3 * number, 26 + 3 * number) for gpu in (one, two))
        start = 60 + 3 * number
        said = together(*(partial(move, made, start, start + 2, card_ids=ids(three)) for made in (first, second)))
        assert Counter(said) == {"done": 1, "card_taken": 1}
    with closing(databases.connect()) as plain:
        assert checkers.all_of(plain, ZoneInfo("Asia/Shanghai")) == []


@pytest.mark.django_db(transaction=True)
def test_p3_two_moves_of_one_reservation_to_two_pools_end_in_one_place() -> None:
    lin, pools = member(), [cards(1, weight=weight)[0] for weight in (100, 150, 200)]
    made = reservation(lin, pools[:1], 24, 26)
    said = together(
        partial(move, made, 24, 26, card_ids=ids(pools[1]), version=1),
        partial(move, made, 24, 26, card_ids=ids(pools[2]), version=1),
        lambda: changes.cancel(made.pk, by=lin, version=1, now=NOW),
    )
    assert sorted(said) == ["done", "stale", "stale"]
    assert Allocation.objects.count() == 1
    with closing(databases.connect()) as plain:
        assert checkers.all_of(plain, ZoneInfo("Asia/Shanghai")) == []


def test_one_card_of_several_is_moved_to_another_and_naming_one_that_it_has_loses_none(client) -> None:
    lab()
    gpus, ada = cards(4), member("Ada")
    made = reservation(ada, gpus[:2], 30, 32)
    client.force_login(ada)
    with time_machine.travel(NOW, tick=False):
        for place, (old, new, held) in enumerate([
            (0, 2, {1, 2}), (2, 1, {1, 2}), (3, 0, {1, 2}),  # to a free one; onto its own other one; one that it has not
        ]):
            made.refresh_from_db()
            sent = {
                "version": made.version, "key": f"{place}" * 32, "start": at(40 + place).isoformat(),
                "end": at(42 + place).isoformat(), "from_card": gpus[old].pk, "to_card": gpus[new].pk,
            }
            assert client.post(f"/reservations/{made.pk}/move", sent).status_code == 303
            now_on = made.allocations.filter(status="booked").values_list("gpu", flat=True)
            assert set(now_on) == {gpus[one].pk for one in held}
