"""Two judges at once, a judge killed anywhere, a change of the ledger in between: one demerit, or none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from monitoring.models import GateEntry, Incident
from monitoring.services import ingest as ingesting
from monitoring.services import judge as judging
from reservations.models import Allocation, CardState, Demerit, Lab, Notification
from reservations.services import conduct
from tests.conftest import ExpectLogs
from tests.monitoring.world import NOON, PERIOD, World, process

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
THIRD = NOON + 10 * MINUTE + 2 * PERIOD

pytestmark = pytest.mark.django_db(transaction=True)


class Killed(BaseException):
    """What no handler of errors catches."""


@pytest.fixture
def ready() -> World:
    """Ann has stayed on into Bo's time; the reading that proves it is the next."""
    Lab.objects.create(pk=1, name="lab", set_up_at=NOON - timedelta(days=30))
    world = World(cards=2)
    world.look(NOON - 3 * HOUR)
    ann, bo = world.member("ann", 2001), world.member("bo", 2002)
    world.book(ann, NOON - 2 * HOUR, NOON)
    world.book(bo, NOON, NOON + 2 * HOUR)
    world.on[0] = [process(100, 2001)]
    world.play(NOON, THIRD - PERIOD)
    return world


def counted() -> tuple[int, int, int, int]:
    return (
        Demerit.objects.count(), Incident.objects.exclude(counted_at=None).count(),
        GateEntry.objects.filter(allowed=True, act="demerit").count(), Notification.objects.filter(kind="demerit").count(),
    )


def at_once(*jobs: Callable[[], object]) -> list[BaseException]:
    """Runs the jobs in threads that begin together; returns what they raised."""
    gate, raised = threading.Barrier(len(jobs)), []

    def run(job: Callable[[], object]) -> None:
        try:
            gate.wait()
            job()
        except BaseException as problem:
            raised.append(problem)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_many_judges_at_once_make_one_demerit(ready: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as quiet:  # the reading is stored, its judge killed before it began
        quiet.setattr(ingesting.judge, "judge_host", lambda *args, **kwargs: None)
        ready.look(THIRD)
    assert counted() == (0, 0, 0, 0)
    raised = at_once(*[lambda: judging.judge_all(now=THIRD, period=PERIOD)] * 4)
    assert (raised, counted()) == ([], (1, 1, 1, 1))
    judging.judge_all(now=THIRD + PERIOD, period=PERIOD)
    assert counted() == (1, 1, 1, 1)


def test_the_same_reading_in_two_workers_at_once_is_one(ready: World) -> None:
    reading = ready.reading(THIRD)
    raised = at_once(*[lambda: ingesting.ingest(reading, now=THIRD, period=PERIOD)] * 4)
    assert (raised, counted()) == ([], (1, 1, 1, 1))
    assert [state.sampled_at for state in CardState.objects.all()] == [THIRD, THIRD]


def test_an_unknown_host_in_two_workers_at_once_is_one() -> None:
    Lab.objects.create(pk=1, name="lab", set_up_at=NOON - timedelta(days=30))
    world = World(cards=4)
    readings = [world.reading(NOON + place * PERIOD) for place in range(3)]
    raised = at_once(
        *[lambda one=one: ingesting.ingest(one, now=NOON + 2 * PERIOD, period=PERIOD) for one in readings]  # type: ignore[misc]
    )
    assert raised == []
    assert [state.sampled_at for state in CardState.objects.all()] == [NOON + 2 * PERIOD] * 4


@pytest.mark.parametrize("place", ["before the demerit", "after the demerit"])
def test_a_judge_killed_while_it_counts_leaves_nothing_and_the_next_one_counts(
    ready: World, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = conduct.issue_overrun

    def killed(**kwargs: Any) -> None:
        if place == "after the demerit":
            honest(**kwargs)
        raise Killed

    with monkeypatch.context() as deadly:
        deadly.setattr(conduct, "issue_overrun", killed)
        with pytest.raises(Killed):
            ready.look(THIRD)
    assert counted() == (0, 0, 0, 0)
    judging.judge_all(now=THIRD + PERIOD, period=PERIOD)
    assert counted() == (1, 1, 1, 1)


@pytest.mark.parametrize("step", ["_open", "_warn", "_count", "_log_answer", "_evidence"])
def test_a_judge_killed_at_any_step_is_made_good_by_the_next(
    ready: World, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*args: Any) -> None:
        raise Killed

    with monkeypatch.context() as deadly:
        deadly.setattr(judging, step, killed)
        with pytest.raises(Killed):
            ready.look(THIRD)
    judging.judge_all(now=THIRD + PERIOD, period=PERIOD)
    assert counted() == (1, 1, 1, 1)


def test_an_overrun_that_fails_is_logged_and_stops_no_other_card(
    ready: World, monkeypatch: pytest.MonkeyPatch, expect_logs: ExpectLogs
) -> None:
    expect_logs("could not be followed")
    ready.on[1] = [process(101, 2001)]
    ann, bo = Allocation.objects.order_by("pk")
    ready.book(ann.reservation.holder, NOON - HOUR, NOON, places=(1,))
    ready.book(bo.reservation.holder, NOON, NOON + HOUR, places=(1,))
    honest = judging._evidence

    def poisoned(card: Any, *args: Any) -> Any:
        if card.label.endswith(":0"):
            raise RuntimeError("poison")
        return honest(card, *args)

    monkeypatch.setattr(judging, "_evidence", poisoned)
    ready.play(THIRD, THIRD + 3 * PERIOD)
    assert [one.evidence["card"] for one in Demerit.objects.all()] == ["a100:1"]


def test_an_extension_that_commits_at_the_last_moment_is_respected(
    ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = judging._count

    def extended_just_before(card: Any, tenure: Any, *args: Any) -> None:
        Allocation.objects.filter(reservation__holder__name="bo").delete()
        Allocation.objects.filter(pk=tenure.allocation_id).update(end=NOON + HOUR)
        honest(card, tenure, *args)

    monkeypatch.setattr(judging, "_count", extended_just_before)
    ready.look(THIRD)
    assert Demerit.objects.count() == 0
    monkeypatch.undo()
    ready.look(THIRD + PERIOD)
    assert (Incident.objects.get().closed_at, ready.state()) == (THIRD + PERIOD, "in_use")


def test_a_reservation_given_back_at_the_last_moment_no_longer_waits(
    ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = judging._count

    def given_back_just_before(*args: Any) -> None:
        Allocation.objects.filter(reservation__holder__name="bo").update(end=NOON + MINUTE)
        honest(*args)

    monkeypatch.setattr(judging, "_count", given_back_just_before)
    ready.look(THIRD)
    assert Demerit.objects.count() == 0
