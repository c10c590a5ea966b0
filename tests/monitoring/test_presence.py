"""Who does not come and who has gone, from readings to the act: and the innocent that differ in one fact (H2, H3, H7, I1).

The lab is the balanced one; Lin holds the card from noon for four hours, booked the day before, and was not asked.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db.models import Sum

from monitoring.models import GateEntry, Sample
from monitoring.services import presence as following
from reservations import messages, obsolete, queries
from reservations.models import Allocation, AuditEntry, Demerit, Gpu, Host, Lab, LedgerEntry, Member, Notification, Reservation
from reservations.rules.lifecycle import Status
from reservations.rules.policy import Policy, Scheduling
from reservations.rules.quota import UNITS_PER_GPU_HOUR
from reservations.services import booking, changes, extension, giveback, presence
from reservations.services.delivery import Sender, due
from tests.monitoring.world import NOON, PERIOD, World, process
from tests.rig import checkers, databases

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
END = NOON + 4 * HOUR
LIMIT = NOON + 30 * MINUTE


UNREAD = {"processes": None, "problem": {"code": "processes_unread", "detail": ""}}


class Kept:
    def __init__(self) -> None:
        self.subjects: list[str] = []
        self.messages: list[Any] = []

    def send(self, message: Any) -> None:
        self.subjects.append(message.subject)
        self.messages.append(message)

    def close(self) -> None:
        pass


def deliver(now: datetime) -> list[str]:
    kept = Kept()
    with Sender({"kept": kept}) as sender:
        for pk in due(now):
            sender.deliver(pk, now=now)
    return kept.subjects


def play(world: World, start: datetime, until: datetime) -> datetime:
    return world.play(start, until, judged=2)


def sweep(now: datetime) -> None:
    following.sweep(now=now, period=PERIOD)


def charge(row: Allocation) -> None:
    """The ledger's row of a booking that the sensor's small world wrote by hand."""
    made = row.reservation
    hours = (made.end - made.start) / HOUR * made.allocations.count()
    LedgerEntry.objects.create(
        member=made.holder, period=NOON.date() - timedelta(days=NOON.weekday()), reservation=made, at=made.booked_at,
        units=round(hours * UNITS_PER_GPU_HOUR), reason="booked",
    )


def charged(who: Member) -> float:
    return (LedgerEntry.objects.filter(member=who).aggregate(units=Sum("units"))["units"] or 0) / UNITS_PER_GPU_HOUR


def reasons(act: str = "no_show") -> list[str]:
    return list(GateEntry.objects.filter(act=act).values_list("reason", flat=True))


def again(row: Allocation) -> Reservation:
    return Reservation.objects.get(pk=row.reservation_id)


@pytest.fixture
def lin(world: World) -> Member:
    return world.member("lin", 2001)


@pytest.fixture
def held(world: World, lin: Member) -> Allocation:
    row = world.book(lin, NOON, END)
    Reservation.objects.update(booked_at=NOON - 24 * HOUR)
    charge(row)
    AuditEntry.objects.create(
        at=row.reservation.booked_at, verb="reserve", subject="reservation", subject_id=row.reservation_id, origin="page",
        actor=lin,
    )
    return row


# --- the no-show --------------------------------------------------------------------------------------------------------


def test_h2_nobody_by_thirty_minutes_is_a_no_show_with_its_point_and_the_first_two_hours_kept(
    world: World, lin: Member, held: Allocation
) -> None:
    last = play(world, NOON - MINUTE, LIMIT - PERIOD)
    sweep(last)
    assert again(held).status == Status.ACTIVE
    last = play(world, LIMIT, LIMIT)
    sweep(last)
    made = again(held)
    held.refresh_from_db()
    assert (made.status, made.ended_at, held.status, held.end) == (Status.FORFEITED, last, "forfeited", last)
    assert charged(lin) == 2
    demerit = Demerit.objects.get()
    assert (demerit.reason, demerit.points, demerit.fact, demerit.member) == ("no_show", 1, f"no_show:{made.pk}", lin)
    proof = demerit.evidence
    assert (proof["kind"], proof["limit_s"], proof["coverage"], proof["confirmed"]) == ("no_show", 1800, 1.0, False)
    assert 1800 <= proof["counted_s"] <= 1860
    assert reasons() == ["allowed"]
    booking.reserve(
        world.member("wu"), booking.BookingRequest((held.gpu_id,), None, NOON + 2 * HOUR, "exploration"), now=last + SECOND
    )


def test_h2_a_second_sweep_adds_nothing(world: World, lin: Member, held: Allocation) -> None:
    last = play(world, NOON - MINUTE, LIMIT + MINUTE)
    for _round in range(3):
        sweep(last)
    assert (Demerit.objects.count(), charged(lin), Notification.objects.filter(kind="demerit").count()) == (1, 2, 1)
    assert AuditEntry.objects.filter(verb="no_show").count() == 1


def test_k1_the_holder_reads_why_and_how_to_dispute(world: World, lin: Member, held: Allocation) -> None:
    last = play(world, NOON - MINUTE, LIMIT)
    sweep(last)
    Member.objects.update(language="en")
    row = Notification.objects.select_related("member", "demerit__reservation__holder").get(kind="demerit")
    message = messages.compose(row, queries.lab_facts(), last)
    assert message.subject == "1 point for no-show: 1 × A100-SXM4-80GB (a100:0)"
    assert "The charge of the first 2 h is kept, the rest is yours again." in message.text
    assert "the cards were seen free for 30 min in all" in message.text
    assert [action.label for action in message.actions] == ["Dispute"]


def test_h2_of_two_hours_or_less_nothing_is_returned(world: World, lin: Member) -> None:
    row = world.book(lin, NOON, NOON + 90 * MINUTE)
    charge(row)
    sweep(play(world, NOON - MINUTE, LIMIT + MINUTE))
    assert (again(row).status, charged(lin)) == (Status.FORFEITED, 1.5)


def test_h2_later_than_two_hours_what_has_elapsed_is_kept(world: World, lin: Member, held: Allocation) -> None:
    """A predecessor's job stood in the way for two hours and a half."""
    world.on[0] = [process(7, 2002)]
    play(world, NOON - MINUTE, NOON + 150 * MINUTE)
    world.on[0] = []
    last = play(world, NOON + 150 * MINUTE + PERIOD, NOON + 181 * MINUTE)
    sweep(last)
    assert again(held).status == Status.FORFEITED
    assert charged(lin) == pytest.approx((last - NOON) / HOUR, abs=0.001)


@pytest.mark.django_db(transaction=True)
def test_p4_the_books_fit_after_a_no_show(world: World, held: Allocation) -> None:
    sweep(play(world, NOON - MINUTE, LIMIT + MINUTE))
    with closing(databases.connect()) as plain:
        zone = ZoneInfo("Asia/Shanghai")
        assert [*checkers.overlaps(plain), *checkers.ledger(plain, zone), *checkers.audit(plain), *checkers.demerits(plain)] == []


def test_h2_several_cards_are_forfeited_together(world: World, lin: Member) -> None:
    world.cards = 2
    world.look(NOON - HOUR)
    row = world.book(lin, NOON, END, places=(0, 1))
    charge(row)
    sweep(play(world, NOON - MINUTE, LIMIT + MINUTE))
    assert set(Allocation.objects.values_list("status", flat=True)) == {"forfeited"}
    assert (charged(lin), Demerit.objects.count()) == (4, 1)


# --- the innocent -------------------------------------------------------------------------------------------------------


def _uses(world: World, lin: Member, row: Allocation) -> datetime:
    play(world, NOON - MINUTE, NOON + 10 * MINUTE)
    world.on[0] = [process(9, 2001)]
    play(world, NOON + 10 * MINUTE + PERIOD, NOON + 11 * MINUTE)
    world.on[0] = []
    return play(world, NOON + 11 * MINUTE + PERIOD, LIMIT + 20 * MINUTE)


def _used_while_the_judge_was_down(world: World, lin: Member, row: Allocation) -> datetime:
    last = _uses(world, lin, row)
    Allocation.objects.update(first_seen=None, last_seen=None)
    return last


def _confirmed(world: World, lin: Member, row: Allocation) -> datetime:
    presence.confirm(row.reservation_id, by=lin, version=None, now=NOON + MINUTE)
    return play(world, NOON - MINUTE, LIMIT + 29 * MINUTE)


def _foreign_processes(world: World, lin: Member, row: Allocation) -> datetime:
    world.member("wu", 2002)
    world.on[0] = [process(9, 2002)]
    play(world, NOON - MINUTE, NOON + 20 * MINUTE)
    world.on[0] = []
    return play(world, NOON + 20 * MINUTE + PERIOD, LIMIT + 15 * MINUTE)


def _root_processes(world: World, lin: Member, row: Allocation) -> datetime:
    play(world, NOON - MINUTE, NOON + 5 * MINUTE)
    world.on[0] = [process(9, 0)]
    play(world, NOON + 5 * MINUTE + PERIOD, NOON + 15 * MINUTE)
    world.on[0] = []
    return play(world, NOON + 15 * MINUTE + PERIOD, LIMIT + 3 * HOUR)


def _unmapped_processes(world: World, lin: Member, row: Allocation) -> datetime:
    world.on[0] = [process(9, 4711)]
    return play(world, NOON + MINUTE, LIMIT + MINUTE)


def _memory_without_a_process(world: World, lin: Member, row: Allocation) -> datetime:
    play(world, NOON - MINUTE, NOON)
    world.changes[0] = {"memory_used": 9 << 30}
    return play(world, NOON + PERIOD, LIMIT + MINUTE)


def _unreadable(world: World, lin: Member, row: Allocation) -> datetime:
    world.changes[0] = UNREAD
    return play(world, NOON - MINUTE, LIMIT + MINUTE)


def _no_samples_in_between(world: World, lin: Member, row: Allocation) -> datetime:
    play(world, NOON - MINUTE, NOON + 10 * MINUTE)
    return play(world, NOON + 20 * MINUTE, LIMIT + 5 * MINUTE)


def _one_sample_in_two(world: World, lin: Member, row: Allocation) -> datetime:
    last = play(world, NOON - MINUTE, LIMIT + 5 * MINUTE)
    keep = list(Sample.objects.order_by("at").values_list("pk", flat=True))
    Sample.objects.filter(pk__in=keep[-300:-3:2]).delete()
    return last


def _stale(world: World, lin: Member, row: Allocation) -> datetime:
    return play(world, NOON - MINUTE, LIMIT + MINUTE) + 31 * SECOND


def _clocks_apart(world: World, lin: Member, row: Allocation) -> datetime:
    last = play(world, NOON - MINUTE, LIMIT + MINUTE)
    world.look(last + PERIOD, received=last + PERIOD + 31 * SECOND)
    return last + PERIOD + 31 * SECOND


def _in_maintenance(world: World, lin: Member, row: Allocation) -> datetime:
    last = play(world, NOON - MINUTE, LIMIT + MINUTE)
    Gpu.objects.update(service=Gpu.Service.OUT_OF_SERVICE)
    return last


def _simulated_beside_real_cards(world: World, lin: Member, row: Allocation) -> datetime:
    last = play(world, NOON - MINUTE, LIMIT + MINUTE)
    Host.objects.create(name="toy", simulated=True).gpus.create(uuid="GPU-toy", pool=row.gpu.pool, model="toy")
    return last


def _asked_late(world: World, lin: Member, row: Allocation) -> datetime:
    Notification.objects.create(
        key=queries.question_key(row.reservation), kind="confirm", member=lin, reservation=row.reservation,
        due_at=NOON - 4 * HOUR, state="sent", sent_at=NOON - 10 * MINUTE,
    )
    return play(world, NOON - MINUTE, NOON + 79 * MINUTE)


def _question_still_waiting(world: World, lin: Member, row: Allocation) -> datetime:
    Notification.objects.create(
        key=queries.question_key(row.reservation), kind="confirm", member=lin, reservation=row.reservation,
        due_at=NOON - 4 * HOUR,
    )
    return play(world, NOON - MINUTE, NOON + 3 * HOUR)


def _booked_late(world: World, lin: Member, row: Allocation) -> datetime:
    Reservation.objects.update(booked_at=NOON + 5 * MINUTE)
    return play(world, NOON - MINUTE, LIMIT + 4 * MINUTE)


def _moved_by_the_system_without_word(world: World, lin: Member, row: Allocation) -> datetime:
    Reservation.objects.update(placed_at=NOON - HOUR)
    Notification.objects.create(key="placed:1", kind="placed", member=lin, reservation=row.reservation, due_at=NOON)
    return play(world, NOON - MINUTE, NOON + 3 * HOUR)


def _the_lab_knows_no_no_shows(world: World, lin: Member, row: Allocation) -> datetime:
    Lab.objects.update(policy=Policy(no_show_s=0).to_json())
    return play(world, NOON - MINUTE, NOON + 3 * HOUR)


INNOCENT = [
    _uses, _used_while_the_judge_was_down, _confirmed, _foreign_processes, _root_processes, _unmapped_processes,
    _memory_without_a_process, _unreadable, _no_samples_in_between, _one_sample_in_two, _stale, _clocks_apart, _in_maintenance,
    _simulated_beside_real_cards, _asked_late, _question_still_waiting, _booked_late, _moved_by_the_system_without_word,
    _the_lab_knows_no_no_shows,
]


@pytest.mark.parametrize("play", INNOCENT, ids=[one.__name__.strip("_") for one in INNOCENT])
def test_h2_i1_i3_nobody_is_a_no_show_on(
    world: World, lin: Member, held: Allocation, play: Callable[[World, Member, Allocation], datetime]
) -> None:
    sweep(play(world, lin, held))
    assert (again(held).status, Demerit.objects.count(), charged(lin)) == (Status.ACTIVE, 0, 4)
    assert "allowed" not in reasons()


def test_h2_the_confirmed_have_sixty_minutes_and_the_asked_an_hour_after_the_question(
    world: World, lin: Member, held: Allocation
) -> None:
    presence.confirm(held.reservation_id, by=lin, version=None, now=NOON)
    sweep(play(world, NOON - MINUTE, NOON + 61 * MINUTE))
    assert Demerit.objects.get().evidence["confirmed"] is True


def test_h2_a_predecessors_time_stops_the_clock_and_it_goes_on_after(world: World, lin: Member, held: Allocation) -> None:
    last = _foreign_processes(world, lin, held)  # twenty minutes in the way
    sweep(play(world, last + PERIOD, NOON + 52 * MINUTE))
    assert again(held).status == Status.FORFEITED


def test_h2_the_gates_answer_is_kept_when_it_changes(world: World, lin: Member, held: Allocation) -> None:
    last = _in_maintenance(world, lin, held)
    for _round in range(3):
        sweep(last)
    Gpu.objects.update(service=Gpu.Service.IN_SERVICE)
    sweep(last)
    assert list(GateEntry.objects.values_list("reservation", "act", "allowed", "reason")) == [
        (held.reservation_id, "no_show", False, "maintenance"), (held.reservation_id, "no_show", True, "allowed"),
    ]


@pytest.mark.parametrize("kind", ["placed", "served", "swapped"])
def test_d5_k5_what_the_system_placed_carries_no_point_and_returns_all(
    world: World, lin: Member, held: Allocation, kind: str
) -> None:
    Reservation.objects.update(placed_at=NOON - HOUR)
    Notification.objects.create(
        key="told:1", kind=kind, member=lin, reservation=held.reservation, due_at=NOON, state="sent",
        sent_at=NOON - 10 * MINUTE,
    )
    last = play(world, NOON - MINUTE, NOON + 79 * MINUTE)
    sweep(last)
    assert again(held).status == Status.ACTIVE
    last = play(world, last + PERIOD, NOON + 81 * MINUTE)
    sweep(last)
    assert (again(held).status, Demerit.objects.count(), charged(lin)) == (Status.FORFEITED, 0, 0)
    Member.objects.update(language="en")
    assert deliver(last) == ["Not used and given up: 1 × A100-SXM4-80GB (a100:0)"]


def test_bg_12_the_sweep_is_on_the_beat_and_the_health_page_sees_it() -> None:
    from labgpu.celery import app
    from reservations import ticks

    assert app.conf.beat_schedule["presence"]["task"] == "monitoring.presence"
    assert "presence" in ticks.SWEEPS


# --- single cards (H3) --------------------------------------------------------------------------------------------------


@pytest.fixture
def two(world: World, lin: Member) -> Allocation:
    world.cards = 2
    world.look(NOON - HOUR)
    row = world.book(lin, NOON, END, places=(0, 1))
    Reservation.objects.update(booked_at=NOON - 24 * HOUR)
    charge(row)
    world.on[0] = [process(9, 2001)]
    return row


def test_h3_a_card_free_for_an_hour_beside_a_used_one_is_given_back_alone(world: World, lin: Member, two: Allocation) -> None:
    last = play(world, NOON - MINUTE, NOON + HOUR - PERIOD)
    sweep(last)
    assert not Allocation.objects.exclude(given_back_at=None).exists()
    last = play(world, last + PERIOD, NOON + HOUR + MINUTE)
    for _round in range(2):
        sweep(last)
    used, unused = Allocation.objects.order_by("gpu")
    assert (used.status, used.end) == ("active", END)
    assert (unused.status, unused.end, unused.given_back_at) == ("released", last, last)
    assert (again(two).status, Demerit.objects.count()) == (Status.ACTIVE, 0)
    assert charged(lin) == pytest.approx(4 + (last - NOON) / HOUR, abs=0.001)
    Member.objects.update(language="en")
    assert deliver(last) == ["Unused and given back: 1 × A100-SXM4-80GB (a100:1)"]
    giveback.undo_give_back(two.reservation_id, [unused.gpu_id], by=lin, version=None, now=last + MINUTE)
    last = play(world, last + PERIOD, last + HOUR)
    sweep(last)
    assert not Allocation.objects.exclude(given_back_at=None).exists()
    sweep(play(world, last + PERIOD, last + 2 * MINUTE))
    assert Allocation.objects.exclude(given_back_at=None).count() == 1
    assert reasons("give_back") == ["allowed"]


@pytest.mark.parametrize("doubt", [UNREAD, {"memory_used": 9 << 30}])
def test_h3_i1_a_card_in_doubt_is_not_given_back(world: World, two: Allocation, doubt: dict[str, Any]) -> None:
    world.changes[1] = doubt
    sweep(play(world, NOON - MINUTE, NOON + 3 * HOUR))
    assert not Allocation.objects.exclude(given_back_at=None).exists()


def test_h3_a_card_that_was_used_once_is_not_given_back_by_this_rule(world: World, two: Allocation) -> None:
    world.on[1] = [process(10, 2001)]
    play(world, NOON - MINUTE, NOON + MINUTE)
    world.on[1] = []
    sweep(play(world, NOON + MINUTE + PERIOD, NOON + 2 * HOUR))
    assert not Allocation.objects.exclude(given_back_at=None).exists()


def test_h3_a_process_on_one_card_confirms_all(world: World, two: Allocation) -> None:
    sweep(play(world, NOON - MINUTE, NOON + 45 * MINUTE))
    assert (again(two).status, Demerit.objects.count()) == (Status.ACTIVE, 0)


# --- release when my processes end (H7) ---------------------------------------------------------------------------------


@pytest.fixture
def done(world: World, lin: Member, held: Allocation) -> Allocation:
    """Lin's job ran from noon for an hour; the card is to be released when it ends."""
    Reservation.objects.update(release_when_done=True)
    Member.objects.update(language="en")
    world.on[0] = [process(9, 2001)]
    play(world, NOON, NOON + HOUR)
    world.on[0] = []
    return held


GONE = NOON + HOUR


def test_h7_ten_minutes_after_the_last_process_and_after_a_notice_it_is_released(
    world: World, lin: Member, done: Allocation
) -> None:
    last = play(world, GONE + PERIOD, GONE + MINUTE)
    sweep(last)
    (subject,) = deliver(last)
    assert subject.startswith("Your processes have ended: 1 × A100-SXM4-80GB (a100:0) will be released at ")
    last = play(world, last + PERIOD, GONE + 10 * MINUTE)
    sweep(last)
    assert again(done).status == Status.ACTIVE
    last = play(world, last + PERIOD, GONE + 11 * MINUTE)
    for _round in range(2):
        sweep(last)
    assert (again(done).status, again(done).ended_at) == (Status.RELEASED, last)
    assert charged(lin) == pytest.approx((last - NOON) / HOUR, abs=0.001)
    assert (Demerit.objects.count(), AuditEntry.objects.filter(verb="release", actor=None, origin="sweep").count()) == (0, 1)
    changes.undo_release(done.reservation_id, by=lin, version=None, now=last + MINUTE)
    sweep(play(world, last + PERIOD, last + 20 * MINUTE))
    assert again(done).status == Status.ACTIVE


def test_h7_without_a_notice_that_left_nothing_is_released(world: World, done: Allocation) -> None:
    last = play(world, GONE + PERIOD, GONE + 30 * MINUTE)
    sweep(last)
    assert again(done).status == Status.ACTIVE
    deliver(last)
    last = play(world, last + PERIOD, GONE + 34 * MINUTE)
    sweep(last)
    assert again(done).status == Status.ACTIVE  # it had no time to be answered yet
    sweep(play(world, last + PERIOD, GONE + 36 * MINUTE))
    assert again(done).status == Status.RELEASED


def test_h7_whoever_keeps_the_cards_keeps_them_until_another_process_has_ended(
    world: World, lin: Member, done: Allocation
) -> None:
    last = play(world, GONE + PERIOD, GONE + MINUTE)
    sweep(last)
    presence.keep(done.reservation_id, by=lin, version=None, now=last)
    row = Notification.objects.select_related("reservation", "member").get(kind="done")
    assert obsolete.cause(row, last) == "the holder keeps the cards"
    last = play(world, last + PERIOD, GONE + HOUR)
    sweep(last)
    assert again(done).status == Status.ACTIVE
    world.on[0] = [process(10, 2001)]
    last = play(world, last + PERIOD, GONE + 65 * MINUTE)
    world.on[0] = []
    last = play(world, last + PERIOD, GONE + 66 * MINUTE)
    sweep(last)
    assert len(deliver(last)) == 1
    sweep(play(world, last + PERIOD, GONE + 76 * MINUTE))
    assert again(done).status == Status.RELEASED


def test_h7_the_next_process_of_a_row_of_jobs_stops_it(world: World, done: Allocation) -> None:
    last = play(world, GONE + PERIOD, GONE + MINUTE)
    sweep(last)
    deliver(last)
    world.on[0] = [process(10, 2001)]
    last = play(world, last + PERIOD, GONE + 2 * MINUTE)
    world.on[0] = []
    sweep(play(world, last + PERIOD, GONE + 11 * MINUTE))
    assert again(done).status == Status.ACTIVE


def test_h7_i1_a_look_that_cannot_be_read_begins_the_time_anew(world: World, done: Allocation) -> None:
    last = play(world, GONE + PERIOD, GONE + MINUTE)
    sweep(last)
    deliver(last)
    play(world, last + PERIOD, GONE + 5 * MINUTE)
    world.changes[0] = UNREAD
    last = play(world, GONE + 5 * MINUTE + PERIOD, GONE + 6 * MINUTE)
    world.changes[0] = {}
    last = play(world, last + PERIOD, GONE + 12 * MINUTE)
    sweep(last)
    assert again(done).status == Status.ACTIVE
    sweep(play(world, last + PERIOD, GONE + 17 * MINUTE))
    assert again(done).status == Status.RELEASED


@pytest.mark.parametrize("wanted", [True, False])
def test_h7_only_who_wished_it_and_only_once_a_process_was_seen(world: World, held: Allocation, wanted: bool) -> None:
    Reservation.objects.update(release_when_done=wanted)
    if not wanted:
        Allocation.objects.update(first_seen=NOON, last_seen=NOON)
    last = play(world, NOON - MINUTE, NOON + 25 * MINUTE)
    sweep(last)
    assert (again(held).status, Notification.objects.filter(kind="done").count()) == (Status.ACTIVE, 0)


# --- races --------------------------------------------------------------------------------------------------------------


def test_h2_what_comes_between_the_first_look_and_the_lock_counts(
    world: World, lin: Member, held: Allocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = play(world, NOON - MINUTE, LIMIT + MINUTE)
    real = following._due
    asked = []

    def then_somebody_comes(*args: Any) -> Any:
        found = list(real(*args))
        if not asked:
            asked.append(True)
            presence.confirm(held.reservation_id, by=lin, version=None, now=last)
        return found

    monkeypatch.setattr(following, "_due", then_somebody_comes)
    sweep(last)
    assert again(held).status == Status.ACTIVE


def test_h2_one_reservation_that_cannot_be_followed_stops_no_other(
    world: World, lin: Member, held: Allocation, monkeypatch: pytest.MonkeyPatch, expect_logs: Any
) -> None:
    last = play(world, NOON - MINUTE, LIMIT + MINUTE)
    real = following._follow

    def stumble(attendance: Any, *rest: Any) -> None:
        if attendance.reservation_id == held.reservation_id:
            raise RuntimeError("poisoned")
        real(attendance, *rest)

    other = world.book(world.member("wu", 2002), NOON, END, gpus=(_second_card(world, held),))
    monkeypatch.setattr(following, "_follow", stumble)
    expect_logs("could not be followed")
    sweep(last)
    assert again(other).status == Status.ACTIVE  # no samples of that card: unknown


def _second_card(world: World, held: Allocation) -> Gpu:
    return Gpu.objects.create(uuid="GPU-x", host=held.gpu.host, pool=held.gpu.pool, model="A100", index=7)


def test_h5_an_extension_goes_on_beside_it(world: World, lin: Member, held: Allocation) -> None:
    Lab.objects.update(policy=Policy(windows=(), mode=Scheduling.PERSON).to_json())
    extension.extend(held.reservation_id, END + HOUR, by=lin, version=None, now=NOON)
    sweep(play(world, NOON - MINUTE, LIMIT + MINUTE))
    assert (again(held).status, charged(lin)) == (Status.FORFEITED, 2)
