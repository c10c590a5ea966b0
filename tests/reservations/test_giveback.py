"""Giving single cards of a reservation back, and taking that back (G3, H3, H4, E3). NOW is Monday 14:00."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test import Client

from reservations import messages, obsolete, queries
from reservations.models import (
    Allocation,
    AuditEntry,
    CardState,
    Gpu,
    LedgerEntry,
    Member,
    Notification,
    OverrunCharge,
    Reservation,
)
from reservations.rules.lifecycle import Status
from reservations.rules.refusal import Code, Refused
from reservations.services import booking, changes, conduct, extension, giveback, moving
from reservations.services.sightings import Sighting, record
from tests.factories import NOW, arbiter, at, cards, host, lab, member, reservation
from tests.reservations.accounts import charged, free_hours, preset
from tests.rig import checkers, databases

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def _lab() -> None:
    lab()


def give(made: Reservation, *gpus: Gpu, now: Any, **fields: Any) -> Reservation:
    values: dict[str, Any] = {"by": made.holder, "version": None, "now": now} | fields
    return giveback.give_back(made.pk, [gpu.pk for gpu in gpus], **values)


def take(made: Reservation, *gpus: Gpu, now: Any, **fields: Any) -> Reservation:
    values: dict[str, Any] = {"by": made.holder, "version": None, "now": now} | fields
    return giveback.undo_give_back(made.pk, [gpu.pk for gpu in gpus], **values)


def held(made: Reservation) -> list[tuple[Any, ...]]:
    return list(Allocation.objects.filter(reservation=made).order_by("gpu").values_list("gpu", "status", "start", "end"))


def refused(act: Callable[[], Any]) -> list[Code]:
    with pytest.raises(Refused) as caught:
        act()
    return caught.value.codes


def whole() -> tuple[Any, ...]:
    return (
        list(Reservation.objects.order_by("pk").values_list()), list(Allocation.objects.order_by("pk").values_list()),
        list(LedgerEntry.objects.order_by("pk").values_list()), AuditEntry.objects.count(), Notification.objects.count(),
    )


# --- giving back --------------------------------------------------------------------------------------------------------


def test_g3_one_card_of_a_running_reservation_ends_alone_and_the_others_go_on() -> None:
    lin, (one, two) = member(), cards(2)
    made = reservation(lin, [one, two], None, 4)
    made = give(made, two, now=at(1))
    assert (made.status, made.ended_at, made.end, made.version) == (Status.ACTIVE, None, at(4), 2)
    assert held(made) == [(one.pk, "active", NOW, at(4)), (two.pk, "released", NOW, at(1))]
    assert charged(lin) == 4 + 1
    reservation(member(), [two], 1, 4, now=at(1))
    assert refused(lambda: reservation(member(), [one], 1, 4, now=at(1))) == [Code.CARD_TAKEN]


def test_g3_one_card_of_a_coming_reservation_is_cancelled_alone() -> None:
    lin, (one, two) = member(), cards(2)
    made = give(reservation(lin, [one, two], 24, 28), two, now=NOW)
    assert (made.status, held(made)) == (Status.BOOKED, [(one.pk, "booked", at(24), at(28))])
    assert charged(lin) == 4
    reservation(member(), [two], 24, 28)


def test_g3_all_the_cards_given_back_are_the_whole() -> None:
    gpus = cards(2)
    running, coming = reservation(member(), gpus, None, 4), reservation(member(), gpus, 24, 26)
    assert give(running, *gpus, now=at(1)).status == Status.RELEASED
    assert give(coming, *gpus, now=at(1)).status == Status.CANCELLED
    assert [one.status for one in (give(running, *gpus, now=at(2)), give(coming, *gpus, now=at(2)))] == [
        Status.RELEASED, Status.CANCELLED,
    ]
    assert not Allocation.objects.exclude(given_back_at=None).exists()


def test_e3_the_fee_of_a_late_cancellation_is_kept_for_that_card_alone_and_returned_when_booked_again() -> None:
    lab(late_cancel_percent=25)
    lin, (one, two) = member(), cards(2)
    made = give(reservation(lin, [one, two], 24, 28), two, now=at(23))
    assert charged(lin) == 4 + 1  # a quarter of four hours of one card
    reservation(member(), [two], 24, 26, now=at(23))
    assert charged(lin) == 4 + 0.5
    assert made.status == Status.BOOKED


def test_d2_giving_back_a_card_of_a_walk_in_restores_its_free_time_alone() -> None:
    preset("balanced")
    lin, (one, two) = member(), cards(2)
    made = reservation(lin, [one, two], None, 4)
    assert (sum(free_hours(lin).values()), charged(lin)) == (8, 0)
    give(made, two, now=at(1))
    assert (sum(free_hours(lin).values()), charged(lin)) == (5, 0)


@pytest.mark.parametrize("start", [None, 24])
def test_p3_giving_the_same_back_again_has_no_further_effect(start: float | None) -> None:
    gpus = cards(3)
    made = reservation(member(), gpus, start, 28)
    give(made, gpus[0], now=NOW + MINUTE, version=1)
    before = whole()
    give(made, gpus[0], now=NOW + 2 * MINUTE, version=1)
    assert whole() == before
    assert refused(lambda: give(made, gpus[1], now=NOW + MINUTE, version=1)) == [Code.STALE]


def test_g3_only_what_is_held_can_be_given_back_and_by_whom_it_is_due() -> None:
    lin, (one, two, three) = member(), cards(3)
    made, other = reservation(lin, [one, two], None, 4), reservation(member(), [three], None, 4)
    before = whole()
    assert refused(lambda: give(made, three, now=at(1))) == [Code.CARD_UNKNOWN]
    assert refused(lambda: give(made, one, three, now=at(1))) == [Code.CARD_UNKNOWN]
    assert refused(lambda: give(made, now=at(1))) == [Code.NO_CARDS]
    assert refused(lambda: give(made, one, now=at(1), by=other.holder)) == [Code.NOT_YOURS]
    assert refused(lambda: give(made, one, now=at(4))) == [Code.WRONG_STATUS]
    assert whole() == before


def test_h4_with_processes_on_that_card_it_asks_once_more_and_not_for_those_on_another() -> None:
    lin, (one, two) = member(), cards(2)
    made = reservation(lin, [one, two], None, 4)
    record([Sighting(one.pk, CardState.State.IN_USE, NOW, process_count=1, owner_ids=(lin.pk,))])
    assert refused(lambda: give(made, one, now=at(1))) == [Code.STILL_RUNNING]
    give(made, two, now=at(1))
    made = reservation(member(), [two], None, 4, now=at(1))
    assert made.pk


def test_h8_an_arbiter_gives_back_and_the_holder_is_told() -> None:
    lin, gpus = member("Lin"), cards(2, host("gpu-a"))
    made = reservation(lin, gpus, None, 4)
    give(made, gpus[1], now=at(1), by=arbiter("Judge"))
    (row,) = Notification.objects.filter(kind="changed", member=lin)
    message = messages.compose(row, queries.lab_facts(), at(1))
    assert message.subject == "Judge gave cards of your reservation back; you keep 1 × RTX 4090 (gpu-a:0)"


# --- what goes on -------------------------------------------------------------------------------------------------------


def test_g3_what_is_left_is_extended_released_and_booked_again_without_the_card() -> None:
    lin, (one, two) = member(), cards(2)
    made = give(reservation(lin, [one, two], None, 4), two, now=at(1))
    made = extension.extend(made.pk, at(5), by=lin, version=2, now=at(2))
    assert held(made) == [(one.pk, "active", NOW, at(5)), (two.pk, "released", NOW, at(1))]
    assert booking.next_week(made.pk, by=lin, key="k").card_ids == (one.pk,)
    changes.release(made.pk, by=lin, version=None, now=at(3))
    changes.undo_release(made.pk, by=lin, version=None, now=at(3) + MINUTE)
    assert held(made) == [(one.pk, "active", NOW, at(5)), (two.pk, "released", NOW, at(1))]
    booking.advance_one(made.pk, now=at(5))
    extension.extend(made.pk, at(6), by=lin, version=None, now=at(5) + MINUTE)
    assert held(made) == [(one.pk, "active", NOW, at(6)), (two.pk, "released", NOW, at(1))]
    assert charged(lin) == 6 + 1


def test_h6_what_is_left_is_moved_and_the_card_given_back_stays_away() -> None:
    lab(late_cancel_percent=25)
    lin, gpus = member(), cards(3)
    made = give(reservation(lin, gpus, 24, 28), gpus[2], now=at(22.5))
    later = at(22.5) + MINUTE
    moving.move(made.pk, start=at(30), end=at(31), by=lin, version=None, now=later)
    assert [row[0] for row in held(made)] == [gpus[0].pk, gpus[1].pk]
    assert refused(lambda: take(made, gpus[2], now=later)) == [Code.UNDO_OVER]
    moving.undo(made.pk, by=lin, version=None, now=later + timedelta(seconds=5))
    assert [row[:2] for row in held(made)] == [(gpus[0].pk, "booked"), (gpus[1].pk, "booked")]
    assert charged(lin) == 8 + 1
    take(made, gpus[2], now=later + MINUTE)
    assert charged(lin) == 12


def test_k1_the_message_before_the_end_is_written_for_the_cards_that_are_left() -> None:
    lin, (one, two) = member("Lin"), cards(2, host("gpu-a"))
    made = give(reservation(lin, [one, two], None, 4), two, now=at(1))
    first, second = Notification.objects.filter(kind="ending").order_by("pk")
    now = made.end - 10 * MINUTE
    assert obsolete.cause(first, now) == "the reservation was changed"
    assert obsolete.cause(second, now) == ""
    assert messages.compose(second, queries.lab_facts(), now).subject.startswith("10 min left: 1 × RTX 4090 (gpu-a:0)")


def test_i4_staying_on_a_card_given_back_is_told_of_that_card_with_its_own_end() -> None:
    lin, (one, two) = member("Lin"), cards(2, host("gpu-a"))
    made = give(reservation(lin, [one, two], None, 4), two, now=at(1))
    record([Sighting(two.pk, CardState.State.OVERRUN, at(1), process_count=1, owner_ids=(lin.pk,))])
    conduct.remind_overrun(fact=f"overrun:{made.pk}:{int(at(1).timestamp())}", reservation=made, now=at(1))
    row = Notification.objects.select_related("reservation__holder", "member").get(kind="overrun")
    assert obsolete.cause(row, at(1)) == ""
    message = messages.compose(row, queries.lab_facts(), at(1))
    assert message.subject == "Still running: 1 × RTX 4090 (gpu-a:1), ended 15:00 — stop your processes"
    assert message.actions == ()
    take(made, two, now=at(1) + MINUTE)
    assert obsolete.cause(row, at(1)) == "the reservation was changed"


# --- taking again -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [None, 24])
def test_h4_within_ten_minutes_it_is_taken_back_to_the_unit(start: float | None) -> None:
    lab(late_cancel_percent=25)
    lin, (one, two) = member(), cards(2)
    made = reservation(lin, [one, two], start, 27)
    before, paid, now = held(made), charged(lin), NOW + MINUTE if start is None else at(23)
    give(made, two, now=now)
    assert charged(lin) < paid
    again = take(made, two, now=now + 9 * MINUTE)
    assert (held(made), charged(lin), again.version) == (before, paid, 3)
    count = AuditEntry.objects.count()
    take(made, two, now=now + 20 * MINUTE)
    assert AuditEntry.objects.count() == count


@pytest.mark.parametrize("start", [None, 24])
def test_h4_not_after_ten_minutes_nor_once_somebody_has_it(start: float | None) -> None:
    lin, (one, two) = member(), cards(2)
    made = reservation(lin, [one, two], start, 27)
    give(made, two, now=NOW + MINUTE)
    assert refused(lambda: take(made, two, now=NOW + 11 * MINUTE)) == [Code.UNDO_OVER]
    reservation(member(), [two], 25, 26, now=NOW + MINUTE)
    assert refused(lambda: take(made, two, now=NOW + 2 * MINUTE)) == [Code.CARD_TAKEN]


def test_h4_not_when_the_room_is_gone() -> None:
    lab(cards_at_once=2)
    lin, (one, two, three) = member(), cards(3)
    made = reservation(lin, [one, two], None, 4)
    give(made, two, now=NOW + MINUTE)
    reservation(lin, [three], 1, 2, now=NOW + MINUTE)
    assert refused(lambda: take(made, two, now=NOW + 2 * MINUTE)) == [Code.CARDS_AT_ONCE]


def test_h4_not_when_the_hours_are_gone() -> None:
    lab(roles={"phd": {"weekly_hours": 8}})
    lin, (one, two, three) = member(), cards(3)
    made = reservation(lin, [one, two], None, 4)
    give(made, two, now=NOW)
    reservation(lin, [three], 5, 9, now=NOW)
    assert refused(lambda: take(made, two, now=NOW + MINUTE)) == [Code.QUOTA]


def test_d2_not_beyond_the_walk_ins_at_once() -> None:
    lab(walk_in_cards=2)
    lin, (one, two, three) = member(), cards(3)
    made = reservation(lin, [one, two], None, 4)
    give(made, two, now=NOW + MINUTE)
    reservation(lin, [three], None, 2, now=NOW + MINUTE)
    assert refused(lambda: take(made, two, now=NOW + 2 * MINUTE)) == [Code.WALK_IN_CARDS]


def test_g3_not_when_it_was_extended_since() -> None:
    lin, (one, two) = member(), cards(2)
    made = reservation(lin, [one, two], None, 4)
    give(made, two, now=NOW + MINUTE)
    extension.extend(made.pk, at(5), by=lin, version=None, now=NOW + 2 * MINUTE)
    assert refused(lambda: take(made, two, now=NOW + 3 * MINUTE)) == [Code.UNDO_OVER]


def test_h4_cards_given_back_one_after_the_other_are_taken_again_together_each_from_its_own_time() -> None:
    lin, gpus = member(), cards(3)
    made = reservation(lin, gpus, None, 4)
    for number in (0, 1):
        give(made, gpus[number], now=NOW + (number + 1) * MINUTE)
    take(made, gpus[0], gpus[1], now=NOW + 5 * MINUTE)
    assert charged(lin) == 12
    assert {row[1:] for row in held(made)} == {("active", NOW, at(4))}


def test_g3_taken_again_across_the_start_it_holds_from_the_start() -> None:
    lin, (one, two) = member(), cards(2)
    made = reservation(lin, [one, two], 1, 4)
    give(made, two, now=at(1) - 3 * MINUTE)
    booking.advance_one(made.pk, now=at(1))
    take(made, two, now=at(1) + 3 * MINUTE)
    assert held(made) == [(one.pk, "active", at(1), at(4)), (two.pk, "active", at(1), at(4))]
    assert charged(lin) == 6


def test_e3_i4_what_an_overrun_on_the_card_cost_meanwhile_is_returned_when_it_is_taken_again() -> None:
    lab(overrun_grace_s=60)
    lin, (one, two) = member(), cards(2)
    made = reservation(lin, [one, two], None, 4)
    give(made, two, now=at(1))
    row = made.allocations.get(gpu=two)
    kept = OverrunCharge.objects.create(allocation=row, ended=at(1), until=at(1) + 5 * MINUTE, units={"2026-11-30": 36_000_000})
    take(made, two, now=at(1) + 6 * MINUTE)
    kept.refresh_from_db()
    assert kept.void_at == at(1) + 6 * MINUTE
    assert sum(LedgerEntry.objects.filter(reason="overrun").values_list("units", flat=True)) == -36_000_000


# --- all together -------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_p4_the_ledger_the_audit_and_the_messages_fit_after_all_of_it() -> None:
    lin, gpus = member(), cards(4)
    running, coming = reservation(lin, gpus[:2], None, 4), reservation(lin, gpus, 24, 26)
    give(running, gpus[0], now=at(1))
    take(running, gpus[0], now=at(1) + MINUTE)
    give(running, gpus[1], now=at(2))
    give(coming, gpus[0], gpus[3], now=at(2))
    take(coming, gpus[3], now=at(2) + MINUTE)
    changes.release(running.pk, by=lin, version=None, now=at(3))
    moving.move(coming.pk, start=at(30), end=at(33), by=lin, version=None, now=at(4))
    with closing(databases.connect()) as plain:
        assert checkers.all_of(plain, ZoneInfo("Asia/Shanghai")) == []


@pytest.mark.django_db(transaction=True)
def test_p1_taking_again_and_a_booking_that_meet_end_in_one_holder() -> None:
    lin, wu, (one, two) = member(), member(), cards(2)
    for number in range(4):
        made = reservation(lin, [one, two], 24 + 3 * number, 26 + 3 * number)
        give(made, two, now=NOW)
        acts = (
            lambda made=made: take(made, two, now=NOW + MINUTE),
            lambda number=number: reservation(wu, [two], 24 + 3 * number, 26 + 3 * number, now=NOW + MINUTE),
        )
        done = []

        def run(act: Callable[[], Any], done: list[str]) -> None:
            try:
                act()
                done.append("done")
            except Refused as problem:
                done.append(",".join(problem.codes))
            finally:
                connection.close()

        threads = [threading.Thread(target=run, args=(act, done)) for act in acts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(done) == ["card_taken", "done"]
    with closing(databases.connect()) as plain:
        assert checkers.all_of(plain, ZoneInfo("Asia/Shanghai")) == []


# --- the page -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def signed_in() -> tuple[Client, Member]:
    lin, client = member("Lin"), Client()
    client.force_login(lin)
    return client, lin


def test_g3_the_page_gives_ticked_cards_back_asks_about_processes_and_takes_them_again(
    signed_in: tuple[Client, Member], time_machine: Any
) -> None:
    time_machine.move_to(NOW, tick=False)
    (client, lin), gpus = signed_in, cards(3, host("gpu-a"))
    made = reservation(lin, gpus, None, 4)
    address = f"/reservations/{made.pk}/"
    assert "Give single cards back" in client.get(address).content.decode()
    nothing = client.post(f"{address}give-back", {"version": 1})
    assert (nothing.status_code, "Choose at least one card." in nothing.content.decode()) == (422, True)
    record([Sighting(gpus[2].pk, CardState.State.IN_USE, NOW, process_count=1, owner_ids=(lin.pk,))])
    asked = client.post(f"{address}give-back", {"version": 1, "card": gpus[2].pk})
    assert (asked.status_code, "Give back, processes go on" in asked.content.decode()) == (422, True)
    assert f'value="{gpus[2].pk}" checked' in asked.content.decode()
    done = client.post(f"{address}give-back", {"version": 1, "card": gpus[2].pk, "knowing": "yes"}, follow=True)
    page = done.content.decode()
    assert "Given back." in page and "1 card given back" in page and "Take gpu-a:2 again" in page
    page = client.post(f"{address}undo-give-back", {"version": 2, "card": gpus[2].pk}, follow=True).content.decode()
    assert "Undone: the cards are held again." in page and "Take gpu-a:2 again" not in page


def test_g3_a_reservation_of_one_card_offers_no_single_ones(signed_in: tuple[Client, Member], time_machine: Any) -> None:
    time_machine.move_to(NOW, tick=False)
    client, lin = signed_in
    made = reservation(lin, cards(1), None, 4)
    assert "Give single cards back" not in client.get(f"/reservations/{made.pk}/").content.decode()
