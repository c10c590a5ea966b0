"""The waitlist's sweep: on the beat, at once when something came free, else every minute; late or twice changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import time_machine
from django.core.cache import cache

from labgpu.celery import app
from reservations import tasks, ticks
from reservations.models import Gpu, Reservation
from reservations.services import changes, locking, offers, waitlist
from reservations.services.booking import BookingRequest
from reservations.services.waitlist import WishRequest
from tests import factories as make
from tests.factories import NOW, at

pytestmark = pytest.mark.django_db
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)


@pytest.fixture
def card() -> Iterator[Gpu]:
    cache.clear()
    make.lab()
    host = make.host()
    host.has_reader = False
    host.save()
    yield make.cards(1, host)[0]
    cache.clear()


def waits(mode: str = "book", until: float = 12) -> None:
    wanted = BookingRequest((), None, at(until), count=1)
    waitlist.join(make.member(), WishRequest(wanted, 4 * HOUR, at(until), mode=mode), now=NOW)


def sweep(when: timedelta) -> None:
    with time_machine.travel(NOW + when, tick=False):
        tasks.serve_waitlist()


def placed() -> int:
    return Reservation.objects.exclude(placed_at=None).count()


def test_k5_the_sweep_is_on_the_beat_and_on_the_health_page() -> None:
    beat = {entry["task"]: entry for entry in app.conf.beat_schedule.values()}
    assert beat["reservations.serve_waitlist"]["schedule"] <= 10
    assert "waitlist" in ticks.SWEEPS


def test_k5_what_came_free_is_served_at_the_next_tick(card: Gpu) -> None:
    held = make.reservation(make.member(), [card], None, 20)
    waits()
    sweep(40 * SECOND)
    changes.release(held.pk, by=held.holder, version=None, now=NOW + 45 * SECOND)
    sweep(50 * SECOND)
    assert placed() == 1
    sweep(50 * SECOND)
    assert placed() == 1


def test_k5_without_anything_freed_everybody_is_looked_at_every_minute(card: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[object] = []
    monkeypatch.setattr(waitlist, "serve", lambda now, **rest: rounds.append(now))
    for seconds in (0, 10, 50, 60, 70, 119, 120):
        sweep(seconds * SECOND)
    assert rounds == [NOW, NOW + 60 * SECOND, NOW + 120 * SECOND]


def test_k5_an_offer_that_ran_out_is_ended_and_the_next_is_served(card: Gpu) -> None:
    waits("ask")
    sweep(0 * SECOND)
    waits(until=5)  # too short to come after what is offered
    sweep(10 * SECOND)
    assert placed() == 0
    sweep(timedelta(minutes=15))
    assert placed() == 1
    assert Reservation.objects.filter(status="passed").count() == 1


def test_k5_what_is_busy_or_broken_is_left_for_the_next_sweep(
    card: Gpu, monkeypatch: pytest.MonkeyPatch, expect_logs: object
) -> None:
    waits("ask")
    sweep(0 * SECOND)

    def busy(*args: object, **rest: object) -> None:
        raise locking.Busy

    with monkeypatch.context() as broken:
        broken.setattr(offers, "expire_one", busy)
        sweep(timedelta(minutes=15))
        assert Reservation.objects.filter(status="offered").count() == 1
    with monkeypatch.context() as broken:
        broken.setattr(offers, "expire_one", lambda *args, **rest: 1 / 0)
        expect_logs("left for the next sweep")  # type: ignore[operator]
        sweep(timedelta(minutes=16))
    sweep(timedelta(minutes=17))
    assert Reservation.objects.filter(status="passed").count() == 1
