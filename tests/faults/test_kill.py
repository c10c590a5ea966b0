"""T5, commit size: twenty times `kill -9` at any instant, among people who book and a sweep that sends.

Nothing that was answered "yes" is lost, no half of anything is there, the books balance, each message leaves, and a
message leaves twice at most once per kill of its sender.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reservations.models import Notification, Reservation
from reservations.services import booking
from tests import mailserver
from tests.rig import checkers, databases, history, world
from tests.rig.faults import Nursery, VirtualClock

KILLS = int(os.environ.get("KILLS", "20"))
LENGTH, FIRST_MINUTE = timedelta(hours=6), timedelta(minutes=1)
NOTICE = LENGTH - FIRST_MINUTE  # a message is due a minute (of the fast clock) after its booking
SPEED = 60.0
DRAIN_S = 90.0
ENOUGH = 51  # bookings that were answered "yes"


@pytest.fixture
def nursery(database_env: Any, tmp_path: Path) -> Iterator[Nursery]:
    logging.getLogger("mail.log").setLevel(logging.WARNING)  # the mail server's every line
    nursery = Nursery(tmp_path / "nursery.log", database_env())
    yield nursery
    nursery.close()


@pytest.mark.django_db(transaction=True)
def test_killed_processes_lose_nothing_and_repeat_little(nursery: Nursery, tmp_path: Path, settings: Any) -> None:
    lab = world.make(
        members=9, cards=200, raster_s=60, shortest_s=60, ending_notice_s=int(NOTICE.total_seconds()), release_undo_s=600
    )
    folder = tmp_path / "history"
    folder.mkdir()
    chance = random.Random(6)
    clock = {"base": world.MORNING.isoformat(), "epoch": time.monotonic(), "speed": SPEED}
    with mailserver.running(settings) as server:

        def start(role: str, generation: int) -> int:
            if role == "sweep":
                return nursery.start("sweep", clock=clock, mail_port=server.port)
            number = int(role)
            return nursery.start(
                "book", clock=clock, folder=str(folder), name=f"g{generation}-{role}", length_s=int(LENGTH.total_seconds()),
                members=lab.members[3 * number : 3 * number + 3], cards=lab.cards, pause_s=0.05,
            )

        roles = ["0", "1", "2", "sweep"]
        working = {role: start(role, 0) for role in roles}
        senders_killed = 0
        for generation in range(1, KILLS + 1):
            time.sleep(chance.uniform(0.1, 0.8))
            role = chance.choice(["sweep", "sweep", *roles])
            nursery.kill(working[role])
            senders_killed += role == "sweep"
            working[role] = start(role, generation)
        _until_booked(ENOUGH)
        for role in roles[:3]:
            assert nursery.stop(working[role]) == 0, nursery.log.read_text()[-4000:]
        _drain(VirtualClock(**clock))
        assert nursery.stop(working["sweep"]) == 0, nursery.log.read_text()[-4000:]

    assert nursery.killed == KILLS
    assert "Traceback" not in nursery.log.read_text()
    events = history.read(folder)
    print(history.tally(events), f"{len(server.mails)} mails, {senders_killed} senders killed")
    assert [one.answer["error"] for one in events if "error" in one.answer] == []
    with closing(databases.connect()) as plain:
        assert checkers.all_of(plain, lab.zone, events, notice=NOTICE) == []
    assert sum(one.ok for one in events) >= ENOUGH
    _mails_are_complete(server, senders_killed)


def _until_booked(count: int) -> None:
    """Waits until so many reservations stand, however slow the machine."""
    end = time.monotonic() + DRAIN_S
    # A killed process may have booked without having told; there are at most as many of those as kills.
    while (booked := Reservation.objects.count()) < count + KILLS:
        assert time.monotonic() < end, f"only {booked} bookings"
        time.sleep(0.1)


def _drain(clock: VirtualClock) -> None:
    """Waits until the sweep has dealt with everything that was due when nobody booked any more."""
    until = clock.now() + FIRST_MINUTE
    end = time.monotonic() + DRAIN_S
    waiting = Notification.objects.filter(state=Notification.State.DUE, due_at__lte=until)
    while clock.now() < until or waiting.exists():
        assert time.monotonic() < end, f"{waiting.count()} messages are still due"
        time.sleep(0.1)


def _mails_are_complete(server: mailserver.Mailserver, senders_killed: int) -> None:
    mails = Counter(str(mail["Message-ID"]) for mail in server.mails)
    states = Counter(Notification.objects.values_list("state", flat=True))
    assert states.keys() <= {"sent", "dropped", "due"}
    sent = Notification.objects.filter(state=Notification.State.SENT)
    assert sent.count() > 5
    # Each row that says "sent" left. A sender killed between the two may leave a mail whose row was dropped after.
    assert sent.count() <= len(mails) <= sent.count() + senders_killed
    twice = {mail: count for mail, count in mails.items() if count > 1}
    assert sum(count - 1 for count in twice.values()) <= senders_killed
    unsent = Notification.objects.filter(state=Notification.State.DROPPED).values_list("kind", "error")
    said = {(kind, text.split(" ", 3)[-1]) for kind, text in unsent}
    # The question whether one comes is dropped with the reservation that it asks about.
    assert {why for kind, why in said if kind != "confirm"} <= {"released", "cancelled", "changed", "was changed"}
    assert {why for kind, why in said if kind == "confirm"} <= {"over"}


def _two_senders(nursery: Nursery, settings: Any, missing: list[str]) -> tuple[Counter[str], int]:
    """Forty messages due at once, two senders at work on them. Returns how often each left, and how many were due."""
    lab = world.make(members=1, cards=40)
    end = world.MORNING + timedelta(minutes=30)
    for card in lab.cards:
        booking.reserve(lab.member(), booking.BookingRequest((card,), None, end), now=world.MORNING)
    clock = {"base": (end - timedelta(minutes=9)).isoformat(), "epoch": time.monotonic(), "speed": 1.0}
    with mailserver.running(settings) as server:
        senders = [nursery.start("sweep", clock=clock, mail_port=server.port, missing=missing) for _ in range(2)]
        last = time.monotonic() + DRAIN_S
        while Notification.objects.filter(state=Notification.State.DUE).exists() and time.monotonic() < last:
            time.sleep(0.05)
        assert [nursery.stop(pid) for pid in senders] == [0, 0], nursery.log.read_text()[-4000:]
        return Counter(str(mail["Message-ID"]) for mail in server.mails), len(lab.cards)


@pytest.mark.django_db(transaction=True)
def test_two_senders_send_each_message_once(nursery: Nursery, settings: Any) -> None:
    left, due = _two_senders(nursery, settings, [])
    assert len(left) == due
    assert set(left.values()) == {1}


@pytest.mark.django_db(transaction=True)
def test_control_without_the_claim_messages_leave_twice(nursery: Nursery, settings: Any) -> None:
    left, due = _two_senders(nursery, settings, ["claim of messages"])
    assert len(left) == due
    assert max(left.values()) > 1
