"""Booking and what follows, through the services, on a real database."""

from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext

from reservations import queries
from reservations.models import Allocation, AuditEntry, CardState, Gpu, LedgerEntry, Member, Notification, Reservation
from reservations.models.appendonly import AppendOnlyError
from reservations.rules.lifecycle import Status
from reservations.rules.quota import UNITS_PER_GPU_HOUR
from reservations.rules.refusal import Code, Refused
from reservations.services import booking, changes, extension
from reservations.services.sightings import Sighting, record
from tests.factories import NOW, admin, arbiter, at, cards, lab, member, request, reservation

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _lab() -> None:
    lab()


def spent(who: Member) -> float:
    """GPU-hours on the member's account over all weeks."""
    return (LedgerEntry.objects.filter(member=who).aggregate(sum=Sum("units"))["sum"] or 0) / UNITS_PER_GPU_HOUR


def refusal(caught: pytest.ExceptionInfo[Refused]) -> list[Code]:
    return caught.value.codes


def snapshot() -> tuple[int, ...]:
    return tuple(m.objects.count() for m in (Reservation, Allocation, LedgerEntry, AuditEntry, Notification))


# --- booking --------------------------------------------------------------------------------------------------------


def test_several_cards_are_one_object_charged_audited_and_reminded() -> None:
    lin, two = member("Lin"), cards(2)
    made = reservation(lin, two, 8, 16)
    assert (made.status, made.start, made.end) == (Status.BOOKED, at(8), at(16))
    held = Allocation.objects.filter(reservation=made).values_list("gpu", "status", "start", "end", "weight")
    assert sorted(held) == [(gpu.pk, "booked", at(8), at(16), 100) for gpu in two]
    assert spent(lin) == 16
    (entry,) = AuditEntry.objects.all()
    assert (entry.verb, entry.actor, entry.origin, entry.at) == ("reserve", lin, "page", NOW)
    (message,) = Notification.objects.all()
    assert (message.kind, message.member, message.due_at) == ("ending", lin, at(16) - timedelta(minutes=10))


def test_what_starts_now_is_active_at_once() -> None:
    made = reservation(member(), cards(1), None, 2)
    assert (made.status, made.start) == (Status.ACTIVE, NOW)


def test_a_weighted_pool_costs_its_weight() -> None:
    lin = member()
    reservation(lin, cards(1, weight=250), 8, 10)
    assert spent(lin) == 5


def test_e2_a_reservation_over_two_weeks_charges_each_its_own_part() -> None:
    lin = member()
    sunday_22 = 6 * 24 + 8
    reservation(lin, cards(1), sunday_22, sunday_22 + 6)
    assert list(LedgerEntry.objects.order_by("period").values_list("units", flat=True)) == [
        2 * UNITS_PER_GPU_HOUR, 4 * UNITS_PER_GPU_HOUR,
    ]


def test_a_refused_request_writes_nothing_and_says_every_reason() -> None:
    gpus = cards(2)
    reservation(member(), gpus, 8, 16)
    before = snapshot()
    with pytest.raises(Refused) as caught:
        reservation(member(role="undergraduate"), gpus, 9, 24)
    assert set(refusal(caught)) == {Code.CARD_TAKEN, Code.QUOTA}
    assert snapshot() == before


def test_all_cards_or_none() -> None:
    gpus = cards(3)
    reservation(member(), gpus[1:2], 10, 12)
    with pytest.raises(Refused) as caught:
        reservation(member(), gpus, 8, 16)
    assert refusal(caught) == [Code.CARD_TAKEN]
    assert Allocation.objects.count() == 1


def test_bt_07_back_to_back_reservations_of_one_card_are_allowed() -> None:
    gpus = cards(1)
    for start in (8, 9, 10):
        reservation(member(), gpus, start, start + 1)
    assert Reservation.objects.count() == 3


def test_p3_the_same_form_pressed_twice_books_once() -> None:
    lin, gpus = member(), cards(1)
    first = reservation(lin, gpus, 8, 10, key="form-1")
    assert reservation(lin, gpus, 8, 10, key="form-1") == first
    assert (Reservation.objects.count(), spent(lin)) == (1, 2)


def test_p3_one_form_key_cannot_carry_another_request() -> None:
    lin, gpus = member(), cards(1)
    reservation(lin, gpus, 8, 10, key="form-1")
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus, 8, 11, key="form-1")
    assert refusal(caught) == [Code.KEY_REUSED]


def test_two_people_may_use_the_same_key() -> None:
    first, second = cards(2)
    reservation(member(), [first], 8, 10, key="form-1")
    reservation(member(), [second], 8, 10, key="form-1")
    assert Reservation.objects.count() == 2


def test_check_says_what_booking_would_say_and_writes_nothing() -> None:
    lin, gpus = member(role="undergraduate"), cards(2)
    before = snapshot()
    asked = request(gpus, 8, 24)
    said = booking.check(lin, asked, now=NOW)
    with pytest.raises(Refused) as caught:
        booking.reserve(lin, asked, now=NOW)
    assert list(caught.value.refusals) == said
    assert snapshot() == before


@pytest.mark.parametrize("approval", [Member.Approval.PENDING])
def test_b2_nobody_books_before_approval(approval: str) -> None:
    with pytest.raises(Refused) as caught:
        reservation(member(approval=approval), cards(1), 8, 10)
    assert refusal(caught) == [Code.NOT_APPROVED]


def test_booking_needs_a_constant_number_of_queries() -> None:
    lin, gpus = member(), cards(4)
    counts = []
    for start, wanted in ((8, gpus[:1]), (20, gpus[:1]), (32, gpus)):
        with CaptureQueriesContext(connection) as seen:
            reservation(lin, wanted, start, start + 2)
        counts.append(len(seen))
    assert counts[0] == counts[1] == counts[2]


# --- release and undo -----------------------------------------------------------------------------------------------


def test_h4_a_release_frees_the_cards_and_returns_what_has_not_elapsed() -> None:
    lin, gpus = member(), cards(2)
    made = reservation(lin, gpus, None, 8)
    released = changes.release(made.pk, by=lin, version=made.version, now=at(2))
    assert (released.status, released.ended_at, released.end) == (Status.RELEASED, at(2), at(8))
    assert set(Allocation.objects.values_list("status", "end")) == {("released", at(2))}
    assert spent(lin) == 4
    reservation(member(), gpus, None, 6, now=at(2))


def test_qt_05_each_way_of_ending_returns_what_the_law_says() -> None:
    lin, gpus = member(), cards(1)
    cancelled = reservation(lin, gpus, 8, 16)
    changes.cancel(cancelled.pk, by=lin, version=1, now=at(1))
    assert spent(lin) == 0
    ended = reservation(lin, gpus, None, 8)
    changes.release(ended.pk, by=lin, version=1, now=at(2))
    assert spent(lin) == 2
    assert [entry.reason for entry in LedgerEntry.objects.order_by("pk")] == ["booked", "cancelled", "booked", "released"]


def test_releasing_twice_is_one_release() -> None:
    lin = member()
    made = reservation(lin, cards(1), None, 8)
    changes.release(made.pk, by=lin, version=1, now=at(2))
    again = changes.release(made.pk, by=lin, version=1, now=at(3))
    assert (again.ended_at, spent(lin)) == (at(2), 2)


def test_h4_with_own_processes_running_release_asks_once_more() -> None:
    lin, gpus = member(), cards(1)
    made = reservation(lin, gpus, None, 8)
    record([Sighting(gpus[0].pk, CardState.State.IN_USE, at(1), owner_ids=(lin.pk,))])
    with pytest.raises(Refused) as caught:
        changes.release(made.pk, by=lin, version=1, now=at(1))
    assert refusal(caught) == [Code.STILL_RUNNING]
    assert changes.release(made.pk, by=lin, version=1, now=at(1), knowing_it_runs=True).status == Status.RELEASED


def test_h0_a_release_is_undone_within_ten_minutes_and_charged_again() -> None:
    lin, gpus = member(), cards(1)
    made = reservation(lin, gpus, None, 8)
    released = changes.release(made.pk, by=lin, version=1, now=at(2))
    undone = changes.undo_release(made.pk, by=lin, version=released.version, now=at(2) + timedelta(minutes=9))
    assert (undone.status, undone.ended_at, undone.end) == (Status.ACTIVE, None, at(8))
    assert set(Allocation.objects.values_list("status", "end")) == {("active", at(8))}
    assert spent(lin) == 8


def test_h0_after_ten_minutes_a_release_stays() -> None:
    lin = member()
    made = reservation(lin, cards(1), None, 8)
    changes.release(made.pk, by=lin, version=1, now=at(2))
    with pytest.raises(Refused) as caught:
        changes.undo_release(made.pk, by=lin, version=None, now=at(2) + timedelta(minutes=10))
    assert refusal(caught) == [Code.UNDO_OVER]


def test_h4_undo_is_refused_when_another_holds_the_card_meanwhile() -> None:
    lin, gpus = member(), cards(1)
    made = reservation(lin, gpus, None, 8)
    changes.release(made.pk, by=lin, version=1, now=at(2))
    reservation(member("Wu"), gpus, 4, 6, now=at(2))
    with pytest.raises(Refused) as caught:
        changes.undo_release(made.pk, by=lin, version=None, now=at(2) + timedelta(minutes=1))
    (why,) = caught.value.refusals
    assert (why.code, why.facts["holder"]) == (Code.CARD_TAKEN, "Wu")


def test_what_has_not_started_is_cancelled_not_released_and_the_other_way_round() -> None:
    lin, gpus = member(), cards(2)
    coming, running = reservation(lin, gpus[:1], 8, 10), reservation(lin, gpus[1:], None, 8)
    with pytest.raises(Refused):
        changes.release(coming.pk, by=lin, version=1, now=NOW)
    with pytest.raises(Refused):
        changes.cancel(running.pk, by=lin, version=1, now=NOW)


def test_the_clock_decides_what_has_started_not_the_last_sweep() -> None:
    lin = member()
    made = reservation(lin, cards(1), 8, 16)
    with pytest.raises(Refused):
        changes.cancel(made.pk, by=lin, version=1, now=at(8))
    assert changes.release(made.pk, by=lin, version=1, now=at(9)).status == Status.RELEASED
    assert spent(lin) == 1


# --- extend ---------------------------------------------------------------------------------------------------------


def test_h5_extending_moves_the_end_charges_the_rest_and_renews_the_reminder() -> None:
    lin, gpus = member(), cards(2)
    made = reservation(lin, gpus, None, 4)
    longer = extension.extend(made.pk, at(6), by=lin, version=1, now=at(3))
    assert (longer.end, longer.version) == (at(6), 2)
    assert set(Allocation.objects.values_list("end", flat=True)) == {at(6)}
    assert spent(lin) == 12
    due = Notification.objects.order_by("due_at").values_list("due_at", "reservation_version")
    assert list(due) == [(at(4) - timedelta(minutes=10), 1), (at(6) - timedelta(minutes=10), 2)]


def test_bt_04_an_extension_stops_at_the_next_reservation_and_says_how_far_it_goes() -> None:
    lin, gpus = member(), cards(1)
    made = reservation(lin, gpus, None, 2)
    reservation(member("Wu"), gpus, 3, 5)
    assert extension.longest_end(made, now=at(1)) == at(3)
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(4), by=lin, version=1, now=at(1))
    (why,) = caught.value.refusals
    assert (why.code, why.alternative and why.alternative.values) == (Code.CARD_TAKEN, {"end": at(3)})
    assert extension.extend(made.pk, at(3), by=lin, version=1, now=at(1)).end == at(3)


def test_h5_no_extension_beyond_the_longest_length_or_the_quota() -> None:
    lin = member(role="undergraduate")
    made = reservation(lin, cards(1), 1, 19)
    assert extension.longest_end(made, now=at(1)) == at(21)
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(22), by=lin, version=1, now=at(1))
    assert refusal(caught) == [Code.QUOTA]
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(80), by=lin, version=1, now=at(1))
    assert refusal(caught) == [Code.TOO_LONG]


def test_a4_an_extension_reaches_no_day_that_is_not_open_yet() -> None:
    lin = member()
    midnight = 14 * 24 + 10  # of the fourteenth day, which opened two hours ago
    made = reservation(lin, cards(1), midnight - 1, midnight - 0.5)
    assert extension.longest_end(made, now=NOW) == at(midnight)
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(midnight + 4), by=lin, version=1, now=NOW)
    (why,) = caught.value.refusals
    assert (why.code, why.alternative and why.alternative.values) == (Code.DAY_NOT_OPEN, {"end": at(midnight)})
    tomorrow_noon = at(22)
    assert extension.extend(made.pk, at(midnight + 4), by=lin, version=1, now=tomorrow_noon).end == at(midnight + 4)


def test_g5_what_is_held_on_a_card_taken_out_of_service_stays_but_is_not_extended() -> None:
    lin, gpus = member(), cards(2)
    made = reservation(lin, gpus, None, 2)
    Gpu.objects.filter(pk=gpus[1].pk).update(service=Gpu.Service.OUT_OF_SERVICE)
    assert extension.longest_end(made, now=at(1)) is None
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(3), by=lin, version=1, now=at(1))
    (why,) = caught.value.refusals
    assert (why.code, why.facts["cards"]) == (Code.CARD_OUT_OF_SERVICE, [str(gpus[1])])
    made.refresh_from_db()
    assert (made.status, made.end) == (Status.ACTIVE, at(2))


def test_qt_06_what_is_left_does_not_depend_on_the_moment_of_reading() -> None:
    lin = member()
    made = reservation(lin, cards(1), None, 3)
    assert [queries.balances(lin, queries.lab_facts(), at(h))[0].used for h in (0, 2)] == [3 * UNITS_PER_GPU_HOUR] * 2
    extension.extend(made.pk, at(4), by=lin, version=1, now=at(2))
    assert queries.balances(lin, queries.lab_facts(), at(2))[0].used == 4 * UNITS_PER_GPU_HOUR


def test_h0_an_extension_in_the_grace_makes_a_finished_reservation_active_from_the_old_end() -> None:
    lin, gpus = member(), cards(1)
    made = reservation(lin, gpus, None, 2)
    booking.advance_one(made.pk, now=at(2))
    late = extension.extend(made.pk, at(3), by=lin, version=None, now=at(2) + timedelta(minutes=9))
    assert (late.status, late.end, spent(lin)) == (Status.ACTIVE, at(3), 3)


def test_h5_after_the_grace_it_is_too_late_to_extend() -> None:
    lin = member()
    made = reservation(lin, cards(1), None, 2)
    booking.advance_one(made.pk, now=at(2))
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(3), by=lin, version=None, now=at(2) + timedelta(minutes=10))
    assert refusal(caught) == [Code.GRACE_OVER]


def test_lk_03_one_extension_key_extends_once() -> None:
    lin = member()
    made = reservation(lin, cards(1), None, 2)
    for _ in range(3):
        assert extension.extend(made.pk, at(3), by=lin, version=1, now=at(1), key="link").end == at(3)
    assert spent(lin) == 3


# --- rights, versions, time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["release", "undo_release", "cancel", "extend"])
def test_h8_others_may_not_act_and_missing_looks_like_foreign(act: str) -> None:
    made = reservation(member(), cards(1), None, 8)

    def do(pk: int) -> list[Code]:
        with pytest.raises(Refused) as caught:
            if act == "extend":
                extension.extend(pk, at(9), by=stranger, version=1, now=at(1))
            else:
                getattr(changes, act)(pk, by=stranger, version=1, now=at(1))
        return refusal(caught)

    stranger = admin(is_arbiter=False)
    before = snapshot()
    assert do(made.pk) == do(made.pk + 1000) == [Code.NOT_YOURS]
    assert snapshot() == before


def test_h8_an_arbiter_may_act_and_the_audit_says_who() -> None:
    judge = arbiter()
    made = reservation(member(), cards(1), None, 8)
    changes.release(made.pk, by=judge, version=1, now=at(1), origin="page")
    assert AuditEntry.objects.get(verb="release").actor == judge


@pytest.mark.parametrize("act", ["release", "cancel", "extend"])
def test_a_form_made_before_the_last_change_is_stale(act: str) -> None:
    lin = member()
    made = reservation(lin, cards(1), None if act == "release" else 1, 8)
    extension.extend(made.pk, at(9), by=lin, version=1, now=NOW)
    with pytest.raises(Refused) as caught:
        if act == "extend":
            extension.extend(made.pk, at(10), by=lin, version=1, now=NOW)
        else:
            getattr(changes, act)(made.pk, by=lin, version=1, now=NOW)
    assert refusal(caught) == [Code.STALE]


def test_h1_time_starts_and_finishes_reservations_each_once() -> None:
    lin = member()
    made = reservation(lin, cards(1), 8, 10)
    assert booking.start_due(at(8)) == [made.pk]
    for _ in range(2):
        booking.advance_one(made.pk, now=at(8))
    assert booking.finish_due(at(10)) == [made.pk]
    for _ in range(2):
        booking.advance_one(made.pk, now=at(10))
    made.refresh_from_db()
    assert (made.status, Allocation.objects.get().status) == (Status.FINISHED, "finished")
    assert list(AuditEntry.objects.order_by("pk").values_list("verb", flat=True)) == ["reserve", "active", "finished"]
    assert spent(lin) == 2


def test_a_sweep_that_was_away_takes_a_reservation_through_its_whole_life() -> None:
    made = reservation(member(), cards(1), 8, 10)
    booking.advance_one(made.pk, now=at(30))
    made.refresh_from_db()
    assert made.status == Status.FINISHED


def test_dp_08_rows_of_ledger_and_audit_are_written_once() -> None:
    reservation(member(), cards(1), 8, 10)
    for model in (LedgerEntry, AuditEntry):
        row = model.objects.get()
        for change in (row.save, row.delete, model.objects.all().delete, lambda model=model: model.objects.update(at=NOW)):
            with pytest.raises(AppendOnlyError):
                change()


def test_cards_out_of_service_are_refused() -> None:
    (gpu,) = cards(1)
    Gpu.objects.update(service=Gpu.Service.OUT_OF_SERVICE)
    with pytest.raises(Refused) as caught:
        reservation(member(), [gpu], 8, 10)
    assert refusal(caught) == [Code.CARD_OUT_OF_SERVICE]
