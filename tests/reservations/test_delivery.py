"""Sending what the outbox holds: never twice without a crash, never lost, nothing out of date (K2, RN, BG-10, UI-11)."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection, transaction

from labgpu.notify.message import Message
from labgpu.notify.transport import TransportError
from reservations import looks, messages, queries, tasks
from reservations.models import CardState, Gpu, KeptMail, Member, Notification, Reservation, Ruling
from reservations.services import arbitration, booking, changes, conduct, delivery, extension
from reservations.services.delivery import Outcome, Sender
from tests import mailserver
from tests.factories import NOW, arbiter, at, cards, host, lab, member, request, reservation

pytestmark = pytest.mark.django_db
END = at(4)  # 18:00 in Shanghai
DUE = END - timedelta(minutes=10)
State = Notification.State


@pytest.fixture(autouse=True)
def _lab(db: None) -> None:
    lab()


@pytest.fixture
def mailbox(settings: Any) -> Iterator[mailserver.Mailserver]:
    with mailserver.running(settings) as server:
        yield server


class Kept:
    """A transport that keeps what it is given; `troubles` are raised first, one per message."""

    def __init__(self, *troubles: Exception | None) -> None:
        self.messages: list[Message] = []
        self.troubles = list(troubles)

    def send(self, message: Message) -> None:
        if self.troubles and (trouble := self.troubles.pop(0)):
            raise trouble
        self.messages.append(message)

    def close(self) -> None: ...


def sweep(now: datetime, kept: Kept | None = None) -> list[Outcome]:
    """One sweep by a sender with this transport."""
    with Sender({"kept": kept if kept is not None else Kept()}) as sender:
        return [sender.deliver(pk, now=now) for pk in delivery.due(now)]


def sent(now: datetime) -> list[Message]:
    kept = Kept()
    sweep(now, kept)
    return kept.messages


def until_six(holder: Member | None = None, gpus: list[Gpu] | None = None) -> Reservation:
    return reservation(holder or member("Lin"), gpus or cards(1), None, 4)


def states() -> list[tuple[str, str, str]]:
    return list(Notification.objects.order_by("pk").values_list("kind", "state", "error"))


def look(gpu: Gpu, state: CardState.State, when: datetime, **fields: Any) -> None:
    CardState.objects.update_or_create(gpu=gpu, defaults={"state": state, "since": when, "sampled_at": when, **fields})


# --- what is sent ------------------------------------------------------------------------------------------------------


def test_nothing_leaves_before_it_is_due() -> None:
    until_six()
    assert sent(DUE - timedelta(seconds=1)) == []
    assert len(sent(DUE)) == 1
    assert sent(DUE + timedelta(seconds=10)) == []
    assert states() == [("ending", "sent", "")]


def test_the_ending_mail_says_what_to_do_by_when_and_offers_two_actions() -> None:
    gpus = cards(2, host("gpu-a"), model="NVIDIA A100")
    until_six(gpus=gpus)
    (message,) = sent(DUE)
    assert message.subject == "10 min left: 2 × A100 (gpu-a:0, gpu-a:1), until 18:00 — release or extend"
    assert message.text.startswith("Save your work, then release the cards or extend before 18:00.\n")
    assert [action.label for action in message.actions] == ["Release now", "Extend"]
    assert all(action.url.startswith("http://127.0.0.1:8000/r/") for action in message.actions)
    assert "All times: Asia/Shanghai (UTC+08:00)" in message.text


def test_the_facts_come_in_the_stated_order() -> None:
    (gpu,) = cards(1, host("gpu-a"))
    lin = member("Lin")
    until_six(lin, [gpu])
    reservation(member("Wei"), [gpu], 6, 8)
    look(gpu, CardState.State.IN_USE, DUE, utilization=97, memory_used=60 << 30, process_count=2, owner_ids=[lin.pk])
    (message,) = sent(DUE)
    expected = [
        "\nEnds: Mon 30 Nov 18:00, in 10 min\n", "\nCards: 1 × RTX 4090 (gpu-a:0)\n",
        "\nNow: gpu-a:0: in use, 2 processes, 97 % use, 60.0 GiB memory\n", "\nNext: gpu-a:0: Wei, from 20:00\n",
        "\nExtension: possible until Mon 30 Nov 20:00\n",
        "Processes of yours that still run at 19:00 count as an overrun: 1 point.", "Release now", "Extend", "View",
    ]
    places = [message.text.find(piece) for piece in expected]
    assert -1 not in places, [piece for piece, place in zip(expected, places, strict=True) if place == -1]
    assert places == sorted(places)


def test_minutes_are_those_left_when_it_is_sent() -> None:
    until_six()
    (message,) = sent(END - timedelta(minutes=3, seconds=20))
    assert message.subject.startswith("3 min left")


def test_where_somebody_follows_at_once_no_extension_is_offered_and_the_grace_is_short() -> None:
    gpus = cards(1)
    until_six(gpus=gpus)
    reservation(member("Wei"), gpus, 4, 6)
    (message,) = sent(DUE)
    assert [action.label for action in message.actions] == ["Release now"]
    assert message.subject.endswith("until 18:00 — save and release")
    assert "still run at 18:10" in message.text


@pytest.mark.parametrize("age_s", [31, 3600])
def test_an_old_reading_says_nothing_of_now(age_s: int) -> None:
    (gpu,) = cards(1)
    until_six(gpus=[gpu])
    look(gpu, CardState.State.FREE, DUE - timedelta(seconds=age_s), process_count=0)
    (message,) = sent(DUE)
    assert f"{gpu}: not known: last read" in message.text
    assert f"{gpu}: free" not in message.text


def test_a_hostile_name_of_the_next_person_changes_neither_text_nor_page() -> None:
    gpus = cards(1)
    until_six(gpus=gpus)
    reservation(member("<script>alert(1)</script>\nRelease now\nhttp://evil.example"), gpus, 6, 8)
    (message,) = sent(DUE)
    assert "<script>" not in message.html
    assert "&lt;script&gt;" in message.html
    assert f"{gpus[0]}: <script>alert(1)</script> Release now http://evil.example, from" in message.text


# --- what is out of date -------------------------------------------------------------------------------------------------


def _cancel(made: Reservation, now: datetime) -> None:
    changes.cancel(made.pk, by=made.holder, version=made.version, now=now)


def _move(made: Reservation, now: datetime) -> None:
    _cancel(made, now)
    cards_of = [row.gpu for row in looks.cards_of(made.pk)]
    booking.reserve(made.holder, request(cards_of, 28, 32), now=now)


def _release(made: Reservation, now: datetime) -> None:
    changes.release(made.pk, by=made.holder, version=made.version, now=now)


def _extend(made: Reservation, now: datetime) -> None:
    extension.extend(made.pk, made.end + timedelta(hours=1), by=made.holder, version=made.version, now=now)


@pytest.mark.parametrize(
    ("change", "starts", "cause"),
    [
        (_cancel, 3.75, "the reservation is cancelled"), (_move, 3.75, "the reservation is cancelled"),
        (_release, None, "the reservation is released"), (_extend, None, "the reservation was changed"),
    ],
)
def test_rn_01_what_changed_one_second_before_sends_nothing_about_the_old_time(
    change: Callable[[Reservation, datetime], None], starts: float | None, cause: str
) -> None:
    lab(shortest_s=900, ending_notice_s=1800)
    made = reservation(member("Lin"), cards(1), starts, 4)
    due = END - timedelta(minutes=30)
    change(made, due - timedelta(seconds=1))
    assert sent(due) == []
    assert states()[0] == ("ending", "dropped", cause)


def test_rn_01_the_new_end_has_its_own_message() -> None:
    made = until_six()
    _extend(made, DUE - timedelta(seconds=1))
    assert sent(DUE) == []
    (message,) = sent(DUE + timedelta(hours=1))
    assert "until 19:00" in message.subject


def test_an_end_that_passed_during_an_outage_is_not_announced() -> None:
    until_six()
    assert sent(END) == []
    assert states() == [("ending", "dropped", "the end has passed")]


def test_rn_02_who_continues_on_the_same_cards_is_reminded_once_before_the_last_end() -> None:
    gpus, lin = cards(2), member("Lin")
    until_six(lin, gpus)
    second = reservation(lin, gpus, 4, 6)
    assert sent(DUE) == []
    (message,) = sent(DUE + timedelta(hours=2))
    assert "until 20:00" in message.subject
    assert f"/r/{second.pk}." in message.actions[0].url


@pytest.mark.parametrize("case", ["on fewer cards", "after a gap", "somebody else"])
def test_rn_02_any_other_sequel_is_no_reason_to_keep_silent(case: str) -> None:
    gpus, lin = cards(2), member("Lin")
    until_six(lin, gpus)
    if case == "on fewer cards":
        reservation(lin, gpus[:1], 4, 6)
    elif case == "after a gap":
        reservation(lin, gpus, 4.25, 6)
    else:
        reservation(member("Wei"), gpus, 4, 6)
    assert len(sent(DUE)) == 1


def test_who_was_deactivated_gets_nothing() -> None:
    made = until_six()
    Member.objects.filter(pk=made.holder_id).update(is_active=False)
    assert sent(DUE) == []
    assert states() == [("ending", "dropped", "the member is not active")]


def test_bg_10_a_booking_that_was_rolled_back_sends_nothing() -> None:
    lin, gpus = member("Lin"), cards(1)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        Reservation.objects.create(
            holder=lin, status="active", tier="regular", rank_tier=1, start=NOW, end=END, booked_at=NOW
        )
        made = Reservation.objects.get()
        from reservations.services import outbox

        outbox.write(Notification.Kind.ENDING, lin, key="ending:1:v1", due_at=NOW, reservation=made)
        raise ZeroDivisionError
    assert sent(DUE) == []
    reservation(lin, gpus, None, 4)
    assert len(sent(DUE)) == 1


# --- overrun, demerit, ruling ----------------------------------------------------------------------------------------------


def _over(holder: Member, gpus: list[Gpu]) -> Reservation:
    made = until_six(holder, gpus)
    Notification.objects.all().delete()
    booking.advance_one(made.pk, now=END)
    made.refresh_from_db()
    conduct.remind_overrun(fact=f"overrun:{made.pk}", reservation=made, now=END)
    return made


def test_the_overrun_mail_says_by_when_to_stop_and_offers_the_extension() -> None:
    (gpu,), lin = cards(1, host("gpu-a")), member("Lin")
    _over(lin, [gpu])
    look(gpu, CardState.State.OVERRUN, END, process_count=1, owner_ids=[lin.pk])
    (message,) = sent(END)
    assert message.subject == "Still running: 1 × RTX 4090 (gpu-a:0), ended 18:00 — stop your processes"
    assert message.text.startswith("Stop your processes on these cards, or extend, before 19:00.\n")
    assert [action.label for action in message.actions] == ["Extend"]


def test_after_the_time_allowed_it_does_not_promise_more() -> None:
    (gpu,), lin = cards(1), member("Lin")
    _over(lin, [gpu])
    look(gpu, CardState.State.OVERRUN, at(5.1), process_count=1, owner_ids=[lin.pk])
    (message,) = sent(at(5.1))
    assert "The time allowed ended at 19:00" in message.text
    assert message.actions == ()


def test_a_reminder_to_stop_is_dropped_when_the_processes_have_gone_but_not_when_that_is_unknown() -> None:
    (gpu,), lin = cards(1), member("Lin")
    _over(lin, [gpu])
    look(gpu, CardState.State.FREE, END, process_count=0)
    assert sent(END) == []
    assert states() == [("overrun", "dropped", "no process is seen any more")]
    Notification.objects.update(state=State.DUE)
    assert len(sent(END + timedelta(minutes=5))) == 1


def test_a_reminder_to_stop_is_dropped_when_the_reservation_was_extended_in_the_grace() -> None:
    lin = member("Lin")
    made = _over(lin, cards(1))
    extension.extend(made.pk, at(5), by=lin, version=made.version, now=END + timedelta(minutes=1))
    sent(END + timedelta(minutes=2))
    assert states()[0] == ("overrun", "dropped", "the reservation was changed")


def _demerit(holder: Member) -> Any:
    made = until_six(holder, cards(1, host("gpu-a")))
    Notification.objects.all().delete()
    return conduct.issue_overrun(fact=f"overrun:{made.pk}", reservation=made, evidence={"kind": "overrun"}, now=at(5))


def test_the_demerit_mail_says_what_until_when_and_how_to_dispute() -> None:
    one = _demerit(member("Lin"))
    (message,) = sent(at(5))
    assert message.subject == "1 point for overrun: 1 × RTX 4090 (gpu-a:0)"
    assert message.text.startswith("If this is wrong, dispute it by Mon 7 Dec 19:00: while it is being decided, ")
    assert "Counts until: Wed 30 Dec 19:00\n" in message.text
    assert "1 point now counts on your record." in message.text
    assert [action.label for action in message.actions] == ["Dispute"]
    assert message.actions[0].url.endswith(f"/demerits/{one.pk}/dispute")


@pytest.mark.parametrize("state", ["void", "disputed"])
def test_a_demerit_that_does_not_count_is_not_announced(state: str) -> None:
    one = _demerit(member("Lin"))
    one.state = state
    one.save()
    assert sent(at(5)) == []


@pytest.mark.parametrize(
    ("outcome", "subject"),
    [
        (Ruling.Outcome.ACCEPTED, "Your dispute was accepted: the overrun demerit is void"),
        (Ruling.Outcome.DECLINED, "Your dispute was declined: the overrun demerit counts"),
    ],
)
def test_the_ruling_mail_says_the_outcome_and_the_reason(outcome: Ruling.Outcome, subject: str) -> None:
    lin = member("Lin")
    one = _demerit(lin)
    case = conduct.dispute(one.pk, "The card hung.", by=lin, now=at(6))
    sent(at(6))
    arbitration.rule(case.pk, outcome, "The log shows <a hang>.", by=arbiter(), version=case.version, now=at(7))
    (message,) = sent(at(7))
    assert message.subject == subject
    assert "The log shows <a hang>." in message.text
    assert "The log shows &lt;a hang&gt;." in message.html


# --- whose words, whose clock ---------------------------------------------------------------------------------------------


def test_ui_11_language_dates_and_zone_are_the_recipients_whoever_acted_and_wherever_the_worker_runs() -> None:
    lab(zone="Asia/Shanghai", language="zh-hans")
    until_six(member("Lin", language="", zone=""))
    until_six(member("Ada", language="en", zone="Europe/Berlin"))
    from django.utils import timezone, translation

    with translation.override("en"), timezone.override("America/New_York"):
        lin, ada = sent(DUE)
        assert translation.get_language() == "en"
    assert (lin.language, ada.language) == ("zh-hans", "en")
    assert "18:00" in lin.subject
    assert "Asia/Shanghai (UTC+08:00)" in lin.text
    assert "until 11:00" in ada.subject
    assert "All times: Europe/Berlin (UTC+01:00)" in ada.text


@pytest.mark.parametrize("zone", ["Nowhere/Land", "../../etc/passwd", "Asia"])
def test_a_zone_that_this_machine_does_not_know_falls_back_to_the_labs(zone: str) -> None:
    until_six(member("Lin", zone=zone))
    (message,) = sent(DUE)
    assert "Asia/Shanghai" in message.text


# --- trouble --------------------------------------------------------------------------------------------------------------


@pytest.mark.once
def test_rn_04_of_a_hundred_three_bad_ones_fail_with_their_cause_and_97_leave(
    mailbox: mailserver.Mailserver, expect_logs: Any
) -> None:
    expect_logs("is given up")
    lab(cards_at_once=200)
    gpus = cards(100)
    people = [member(f"Member {number}", email=f"m{number}@lab.example") for number in range(100)]
    for person, gpu in zip(people, gpus, strict=True):
        reservation(person, [gpu], None, 4)
    Member.objects.filter(pk=people[12].pk).update(email="a@@b")
    mailbox.refuse["m40@lab.example"] = "550 5.1.1 unknown"
    Member.objects.filter(pk=people[70].pk).update(name="Lin\nBcc: everybody@lab.example")
    with time_machine.travel(DUE, tick=False):
        tasks.deliver()
    rows = dict(Notification.objects.values_list("member__pk", "state"))
    bad = {people[12].pk, people[40].pk, people[70].pk}
    assert {pk for pk, state in rows.items() if state == "failed"} == bad
    assert {pk for pk, state in rows.items() if state == "sent"} == {person.pk for person in people} - bad
    assert len(mailbox.mails) == 97
    assert sorted(mailbox.recipients) == sorted(
        f"m{number}@lab.example" for number in range(100) if number not in (12, 40, 70)
    )
    causes = dict(Notification.objects.filter(state="failed").values_list("member__pk", "error"))
    assert "a@@b" in causes[people[12].pk]
    assert causes[people[40].pk] == "550 5.1.1 unknown"
    assert "the recipient's name holds a line break" in causes[people[70].pk]


def test_passing_trouble_is_tried_again_after_waits_that_grow() -> None:
    until_six()
    busy = TransportError("451 try again", permanent=False)
    now, waits = DUE, []
    for number in range(4):
        assert sweep(now, Kept(busy)) == [Outcome.PUT_OFF]
        row = Notification.objects.get()
        assert (row.state, row.attempts, row.claim, row.error) == ("due", number + 1, "", "451 try again")
        waits.append((row.due_at - now).total_seconds())
        now = row.due_at
    for number, wait in enumerate(waits):
        assert 0.75 <= wait / (15 * 2**number) <= 1.25
    assert len(sent(now)) == 1


def test_waits_are_spread_so_that_a_server_coming_back_is_not_run_over() -> None:
    random.seed(7)
    lab(cards_at_once=200)
    for gpu in cards(20):
        reservation(member(), [gpu], None, 4)
    sweep(DUE, Kept(*[TransportError("451 try again", permanent=False)] * 20))
    assert len(set(Notification.objects.values_list("due_at", flat=True))) > 15


def test_after_days_of_trying_it_is_given_up_with_the_cause(expect_logs: Any) -> None:
    expect_logs("is given up")
    until_six()
    Notification.objects.update(attempts=delivery.MOST_ATTEMPTS - 1)
    assert sweep(DUE, Kept(TransportError("451 try again", permanent=False))) == [Outcome.FAILED]
    assert states() == [("ending", "failed", f"given up after {delivery.MOST_ATTEMPTS} attempts: 451 try again")]


def test_a_poisoned_row_does_not_stop_the_sweep(monkeypatch: pytest.MonkeyPatch, expect_logs: Any) -> None:
    expect_logs("could not be made")
    bad, good = until_six(), until_six()
    real = messages.compose

    def compose(row: Notification, *rest: Any) -> Message:
        if row.reservation_id == bad.pk:
            raise KeyError("poison")
        return real(row, *rest)

    monkeypatch.setattr(messages, "compose", compose)
    assert sweep(DUE) == [Outcome.PUT_OFF, Outcome.SENT]
    assert "KeyError" in Notification.objects.get(reservation=bad).error
    assert Notification.objects.get(reservation=good).state == "sent"


def test_when_the_mail_server_cannot_be_reached_the_sweep_ends_and_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab(cards_at_once=200)
    for gpu in cards(10):
        reservation(member(), [gpu], None, 4)
    down = Kept(*[TransportError("no route", permanent=False, channel=True)] * 10)
    monkeypatch.setattr(delivery, "TRANSPORTS", {"kept": lambda: down})
    with time_machine.travel(DUE, tick=False):
        tasks.deliver()
    assert len(down.troubles) == 7
    assert Notification.objects.filter(state="due").count() == 10
    assert len(sent(DUE + timedelta(minutes=1))) == 10


def test_a_row_that_the_database_refuses_is_left_and_the_next_is_sent(
    monkeypatch: pytest.MonkeyPatch, expect_logs: Any
) -> None:
    expect_logs("left for the next sweep")
    bad = until_six()
    until_six()
    kept, real = Kept(), Sender.deliver

    def deliver(self: Sender, pk: int, *, now: datetime) -> Outcome:
        if Notification.objects.get(pk=pk).reservation_id == bad.pk:
            raise RuntimeError("refused")
        return real(self, pk, now=now)

    monkeypatch.setattr(Sender, "deliver", deliver)
    monkeypatch.setattr(delivery, "TRANSPORTS", {"kept": lambda: kept})
    with time_machine.travel(DUE, tick=False):
        tasks.deliver()
    assert len(kept.messages) == 1


# --- crashes and races ----------------------------------------------------------------------------------------------------


def test_a_sender_killed_after_sending_costs_one_possible_duplicate_with_the_same_id() -> None:
    until_six()
    died = Kept()

    class Killed(BaseException):
        """What `kill -9` is to the code: nothing after it runs."""

    def die(message: Message) -> None:
        died.messages.append(message)
        raise Killed

    died.send = die  # type: ignore[method-assign]
    with pytest.raises(Killed):
        sweep(DUE, died)
    assert sent(DUE + timedelta(seconds=119)) == []
    (again,) = sent(DUE + timedelta(seconds=120))
    assert again.id == died.messages[0].id
    assert sent(DUE + timedelta(minutes=5)) == []
    assert states() == [("ending", "sent", "")]


def test_a_sender_that_lost_its_claim_marks_nothing(expect_logs: Any) -> None:
    expect_logs("was claimed by another sender")
    until_six()

    class Slow(Kept):
        def send(self, message: Message) -> None:
            super().send(message)
            Notification.objects.update(claim="somebody else's", claimed_until=DUE + timedelta(minutes=4))

    sweep(DUE, Slow())
    row = Notification.objects.get()
    assert (row.state, row.claim) == ("due", "somebody else's")


@pytest.mark.django_db(transaction=True)
def test_of_two_senders_at_one_row_one_sends() -> None:
    lab(cards_at_once=200)
    for gpu in cards(12):
        reservation(member(), [gpu], None, 4)
    kept, start = Kept(), threading.Barrier(4)
    outcomes: list[Outcome] = []

    def send() -> None:
        try:
            with Sender({"kept": kept}) as sender:
                rows = delivery.due(DUE)
                start.wait()
                outcomes.extend(sender.deliver(pk, now=DUE) for pk in rows)
        finally:
            connection.close()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 48
    assert outcomes.count(Outcome.SENT) == 12
    assert outcomes.count(Outcome.TAKEN) == 36
    assert len({message.id for message in kept.messages}) == len(kept.messages) == 12


@pytest.mark.django_db(transaction=True)
def test_control_without_the_claim_the_same_race_sends_twice(monkeypatch: pytest.MonkeyPatch, expect_logs: Any) -> None:
    """The guard taken away: rows are picked without looking whether somebody else has them."""
    expect_logs("was claimed by another sender")
    until_six()
    monkeypatch.setattr(delivery, "_free", lambda now: Notification.objects.filter(due_at__lte=now))
    kept, start = Kept(), threading.Barrier(2)

    class Slow(Kept):
        def send(self, message: Message) -> None:
            kept.send(message)

    def send() -> None:
        try:
            with Sender({"kept": Slow()}) as sender:
                rows = Notification.objects.values_list("pk", flat=True)
                start.wait()
                for pk in rows:
                    sender.deliver(pk, now=DUE)
        finally:
            connection.close()

    threads = [threading.Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept.messages) == 2


# --- the sweep of time -------------------------------------------------------------------------------------------------------


def test_the_advancing_sweep_starts_and_finishes_what_is_due() -> None:
    first = until_six()
    second = reservation(member("Wei"), cards(1), 1, 3)
    with time_machine.travel(at(1), tick=False):
        tasks.advance()
    assert (Reservation.objects.get(pk=first.pk).status, Reservation.objects.get(pk=second.pk).status) == ("active", "active")
    with time_machine.travel(at(4), tick=False):
        tasks.advance()
    assert (Reservation.objects.get(pk=first.pk).status, Reservation.objects.get(pk=second.pk).status) == (
        "finished", "finished",
    )


def test_one_reservation_in_trouble_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch, expect_logs: Any) -> None:
    expect_logs("left for the next sweep")
    bad, good = until_six(), until_six()
    real = booking.advance_one

    def advance_one(pk: int, *, now: datetime) -> None:
        if pk == bad.pk:
            raise RuntimeError("trouble")
        real(pk, now=now)

    monkeypatch.setattr(booking, "advance_one", advance_one)
    with time_machine.travel(END, tick=False):
        tasks.advance()
    assert Reservation.objects.get(pk=good.pk).status == "finished"


def test_without_a_mail_server_a_reminder_fails_with_its_cause_and_no_admin_sees_its_links(settings, expect_logs) -> None:  # type: ignore[no-untyped-def]
    expect_logs("no mail server is set up")
    settings.EMAIL_BACKEND = "labgpu.mail.KeptForAdmins"
    made = reservation(member(), cards(1), None, 2)
    now = made.end - timedelta(minutes=9)
    with Sender() as sender:
        for pk in delivery.due(now):
            sender.deliver(pk, now=now)
    row = Notification.objects.get(kind="ending")
    assert (row.state, row.error) == ("failed", "no mail server is set up: set EMAIL_URL")
    assert KeptMail.objects.count() == 0


# --- what somebody else did -----------------------------------------------------------------------------------------


def changed() -> list[Notification]:
    return list(Notification.objects.filter(kind="changed").order_by("pk"))


def test_h8_a_holder_is_told_at_once_of_what_an_arbiter_did() -> None:
    lin, judge, gpus = member("Lin"), arbiter("Gao"), cards(1)
    made = reservation(lin, gpus, None, 4)
    extension_end = at(5)
    extension.extend(made.pk, extension_end, by=judge, version=None, now=at(1))
    changes.release(made.pk, by=judge, version=None, now=at(2))
    changes.undo_release(made.pk, by=judge, version=None, now=at(2))
    coming = reservation(lin, gpus, 20, 22)
    changes.cancel(coming.pk, by=judge, version=None, now=at(3))
    rows = changed()
    assert [row.member for row in rows] == [lin] * 4
    assert [row.due_at for row in rows] == [at(1), at(2), at(2), at(3)]
    subjects = [messages.compose(row, queries.lab_facts(), at(3)).subject for row in rows]
    assert [subject.split(":")[0] for subject in subjects] == [
        "Gao extended your reservation", "Gao released your reservation", "Gao took the release of your reservation back",
        "Gao cancelled your reservation",
    ]


def test_h8_what_people_do_themselves_needs_no_message() -> None:
    lin, gpus = member("Lin"), cards(1)
    made = reservation(lin, gpus, None, 4)
    extension.extend(made.pk, at(5), by=lin, version=None, now=at(1), origin="link")
    changes.release(made.pk, by=lin, version=None, now=at(2), pressed_by=lin.pk)
    assert changed() == []


def test_a_forwarded_link_that_somebody_else_pressed_is_told_to_its_owner() -> None:
    lin, wu = member("Lin"), member("Wu")
    made = reservation(lin, cards(1), None, 4)
    changes.release(made.pk, by=lin, version=None, now=at(2), origin="link", pressed_by=wu.pk)
    (row,) = changed()
    message = messages.compose(row, queries.lab_facts(), at(2))
    assert (row.member, message.subject.split(":")[0]) == (lin, "Wu released your reservation")
    assert "by a link in a message to you" in message.text
