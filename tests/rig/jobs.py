"""What the processes of the crash tests do all day: book and change, or sweep and send."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.rig.client import Client, connection
from tests.rig.faults import VirtualClock
from tests.rig.sabotage import without

MINUTE = timedelta(minutes=1)


def _asked_to_stop() -> threading.Event:
    event = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: event.set())
    return event


def book(
    clock: dict[str, Any], folder: str, name: str, members: list[int], cards: list[int], length_s: int, pause_s: float
) -> None:
    """Several people who book, cancel, release, undo and extend, each in a thread, until asked to stop."""
    stop, time_ = _asked_to_stop(), VirtualClock(**clock)

    def person(number: int, member: int) -> None:
        chance = random.Random(f"{name}-{number}")
        client = Client({"name": f"{name}-{number}", "member": member, "steps": []}, Path(folder))
        length = timedelta(seconds=length_s)
        while not stop.is_set():
            now = time_.now()
            minute = now.replace(second=0, microsecond=0)
            start = None if chance.random() < 0.6 else minute + chance.randint(1, 5000) * MINUTE
            asked = {
                "op": "create", "cards": chance.sample(cards, chance.choice((1, 1, 2))), "now": now.isoformat(),
                "start": start and start.isoformat(), "end": ((start or minute) + length).isoformat(),
            }
            op = chance.choices(("create", "extend", "cancel", "release", "undo"), (50, 12, 12, 20, 6))[0]
            if op != "create":
                asked = {"op": op, "now": now.isoformat(), "minutes": 15, "otherwise": asked}
            client.act(asked)
            time.sleep(chance.random() * pause_s)
        connection.close()

    people = [threading.Thread(target=person, args=one) for one in enumerate(members)]
    for thread in people:
        thread.start()
    for thread in people:
        while thread.is_alive():
            thread.join(0.2)


def sweep(clock: dict[str, Any], mail_port: int, missing: Sequence[str] = ()) -> None:
    """The minute's work without the broker: starts and ends what is due, sends what is due, over and over."""
    from django.conf import settings

    from reservations.services import booking, delivery, locking

    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_TIMEOUT = "127.0.0.1", mail_port, 20
    stop, time_ = _asked_to_stop(), VirtualClock(**clock)
    guards = ExitStack()
    guards.enter_context(without(*missing))
    while not stop.is_set():
        for pk in [*booking.start_due(time_.now()), *booking.finish_due(time_.now())]:
            try:
                booking.advance_one(pk, now=time_.now())
            except locking.Busy:
                continue
        with delivery.Sender() as sender:
            for pk in delivery.due(time_.now(), most=20):
                sender.deliver(pk, now=time_.now())
        time.sleep(0.01)
    connection.close()
