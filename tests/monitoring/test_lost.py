"""From readings to the ledger: a card that is gone, a host that is silent, one that comes back restarted (G6, E3)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import Sum

from monitoring.models import Downtime, HostReading, Sample
from monitoring.services import lost
from reservations.models import CardState, Gpu, LedgerEntry, Reservation
from reservations.services import interrupting
from tests.monitoring.world import NOON, PERIOD, World

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def pair(world: World) -> World:
    """Two cards on the host, both there since noon."""
    world.cards = 2
    world.look(NOON)
    return world


def losses(world: World) -> dict[int, str]:
    return {
        row.gpu.index: row.lost_how for row in CardState.objects.exclude(lost_since=None).select_related("gpu")
    }


def test_g6_a_card_that_its_answering_host_no_longer_names_is_lost_after_a_quarter_of_an_hour(pair: World) -> None:
    ann = pair.member("ann", 2001)
    held = pair.book(ann, NOON - HOUR, NOON + 4 * HOUR, places=(1,))
    gone = pair.gpu(1)
    pair.cards = 1
    last = pair.play(NOON + PERIOD, NOON + 15 * MINUTE - PERIOD)
    lost.sweep(now=last, period=PERIOD)
    assert losses(pair) == {}
    pair.play(last + PERIOD, NOON + 15 * MINUTE + PERIOD)
    lost.sweep(now=NOON + 15 * MINUTE + PERIOD, period=PERIOD)
    assert losses(pair) == {1: "gone"}
    assert CardState.objects.get(gpu=gone).lost_since == NOON
    assert interrupting.due(NOON + 16 * MINUTE) == [held.reservation_id]
    interrupting.interrupt(held.reservation_id, now=NOON + 16 * MINUTE)
    assert Reservation.objects.get().status == "interrupted"
    pair.cards = 2
    pair.play(NOON + 17 * MINUTE, NOON + 17 * MINUTE)
    lost.sweep(now=NOON + 17 * MINUTE, period=PERIOD)
    assert losses(pair) == {}, "seen again, it is there"


def test_g6_a_loss_outlives_the_samples(pair: World) -> None:
    pair.cards = 1
    last = pair.play(NOON + PERIOD, NOON + 16 * MINUTE)
    lost.sweep(now=last, period=PERIOD)
    Sample.objects.filter(gpu=pair.gpu(1)).delete()
    lost.sweep(now=last, period=PERIOD)
    assert losses(pair) == {1: "gone"}


def test_g6_a_card_that_answers_that_it_is_lost_is_lost(pair: World) -> None:
    pair.changes[1] = {"problem": {"code": "lost", "detail": ""}, "processes": None}
    last = pair.play(NOON + PERIOD, NOON + 16 * MINUTE)
    lost.sweep(now=last, period=PERIOD)
    assert losses(pair) == {1: "gone"}


def test_g6_i1_trouble_with_the_driver_loses_no_card(pair: World) -> None:
    """NV-07: a host whose reader fails says nothing of its cards."""
    at = NOON + PERIOD
    while at <= NOON + 20 * MINUTE:
        pair.look(at, cards=[], problem={"code": "driver", "detail": "mismatch"})
        at += 10 * PERIOD
    lost.sweep(now=NOON + 20 * MINUTE, period=PERIOD)
    assert losses(pair) == {}
    assert HostReading.objects.get().steady_since is None


def test_g6_i1_a_silent_host_is_lost_only_while_another_is_heard(pair: World) -> None:
    lost.sweep(now=NOON + 20 * MINUTE, period=PERIOD)
    assert losses(pair) == {}
    other = World(host="b100")
    last = other.play(NOON + PERIOD, NOON + 20 * MINUTE)
    lost.sweep(now=last, period=PERIOD)
    assert losses(pair) == {0: "silent", 1: "silent"}
    assert not interrupting.due(last)


def test_e3_a_host_that_comes_back_restarted_gives_the_time_it_was_down_back(pair: World) -> None:
    ann = pair.member("ann", 2001)
    pair.book(ann, NOON - HOUR, NOON + 4 * HOUR)
    pair.boot = "boot-2"
    pair.look(NOON + HOUR)
    assert [(row.start, row.end) for row in Downtime.objects.all()] == [(NOON, NOON + HOUR)]
    for minute in (1, 2):
        lost.sweep(now=NOON + HOUR + minute * MINUTE, period=PERIOD)
    returned = LedgerEntry.objects.filter(reason="lost").aggregate(units=Sum("units"))["units"]
    assert (returned, Downtime.objects.filter(settled_at=None).count()) == (-3600 * 100 * 100, 0)


@pytest.mark.parametrize(("boot", "minutes"), [("boot-1", 60), ("boot-2", 5), ("", 60)])
def test_e3_a_host_that_was_only_silent_or_only_briefly_gives_nothing_back(pair: World, boot: str, minutes: int) -> None:
    pair.boot = boot
    pair.look(NOON + minutes * MINUTE)
    assert not Downtime.objects.exists()
    assert Gpu.objects.count() == 2
