"""F3: two sweeps at once, a sweep killed anywhere, a booking that meets it: one message and one case for each person, or none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from monitoring.models import GateEntry
from monitoring.services import cleanup
from reservations.models import AuditEntry, Case, Cleanup, CleanupNotice, Lab, Notification
from reservations.services import cleanup as ledger
from reservations.services.delivery import Sender, due
from tests.conftest import ExpectLogs
from tests.monitoring.test_races import Killed, at_once
from tests.monitoring.world import PERIOD, World, process

FIVE = datetime(2026, 12, 4, 9, 0, tzinfo=UTC)  # Friday 17:00 in Shanghai
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
SIX = FIVE + HOUR
SWEEPS = 4

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ready() -> World:
    """Ann and somebody in doubt are on two cards at five."""
    Lab.objects.create(pk=1, name="lab", set_up_at=FIVE - timedelta(days=30), policy={"mode": "person"})
    world = World(cards=2)
    world.look(FIVE - 3 * HOUR)
    world.member("ann", 2001)
    world.member("bo", 2002)
    world.on = {0: [process(100, 2001), process(101, 2002)], 1: [process(200, 0)]}
    world.play(FIVE - MINUTE, FIVE)
    return world


def sweep(now: datetime) -> None:
    cleanup.sweep(now=now, period=PERIOD)


def send(now: datetime) -> None:
    with Sender() as sender:
        for pk in due(now):
            sender.deliver(pk, now=now)


def an_hour_later(world: World) -> None:
    sweep(FIVE)
    send(FIVE)
    world.play(FIVE + PERIOD, SIX, judged=6)


def written() -> tuple[int, int, int, int]:
    """Clean-ups, notices, messages that list, entries of the audit that say so."""
    return (
        Cleanup.objects.count(), CleanupNotice.objects.count(), Notification.objects.filter(kind="cleanup").count(),
        AuditEntry.objects.filter(verb__in=["begin_cleanup", "list_cleanup"]).count(),
    )


def opened() -> tuple[int, int, int, int]:
    """Cases, messages that tell of them, allowed answers of the gate, entries of the audit."""
    return (
        Case.objects.count(), Notification.objects.filter(kind="case").count(), GateEntry.objects.filter(allowed=True).count(),
        AuditEntry.objects.filter(verb="open_cleanup_case").count(),
    )


def test_f3_many_sweeps_at_once_tell_each_person_once(ready: World) -> None:
    assert at_once(*[lambda: sweep(FIVE)] * SWEEPS) == []
    sweep(FIVE + PERIOD)
    assert written() == (1, 2, 2, 3)
    assert {one["processes"][0]["pid"] for one in Cleanup.objects.get().doubtful} == {200}


def test_f3_many_sweeps_at_once_open_one_case_for_each_person_and_one_for_those_in_doubt(ready: World) -> None:
    an_hour_later(ready)
    assert at_once(*[lambda: sweep(SIX)] * SWEEPS) == []
    sweep(SIX + PERIOD)
    assert opened() == (3, 2, 2, 3)
    assert set(CleanupNotice.objects.values_list("outcome", flat=True)) == {"case"}


def test_f3_control_without_the_names_of_facts_a_race_is_seen(ready: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same race with the guard taken away: cases of names that differ, and notices that are never closed."""
    an_hour_later(ready)
    numbers = count()

    def unguarded(notice: CleanupNotice, evidence: Any, *, now: datetime) -> None:
        Case.objects.create(
            fact=f"{next(numbers)}", kind="cleanup", concerns=notice.member, opened_at=now, evidence=dict(evidence)
        )

    monkeypatch.setattr(cleanup.ledger_acts, "open_case", unguarded)
    assert at_once(*[lambda: sweep(SIX)] * SWEEPS) == []
    assert Case.objects.exclude(concerns=None).count() > 2


@pytest.mark.parametrize("place", ["take_list", "open_case", "settle_doubt"])
def test_f3_a_sweep_killed_anywhere_is_finished_by_the_next(
    ready: World, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    write, names = ledger.audit.note, {"take_list": "list_cleanup"}

    def killed(verb: str, *args: Any, **values: Any) -> Any:
        write(verb, *args, **values)
        if verb == names.get(place, "open_cleanup_case") and (place != "settle_doubt" or args[0].concerns_id is None):
            raise Killed

    if place != "take_list":
        an_hour_later(ready)
    now = FIVE if place == "take_list" else SIX
    with monkeypatch.context() as patch:
        patch.setattr(ledger.audit, "note", killed)
        with pytest.raises(Killed):
            sweep(now)
    sweep(now)
    sweep(now)
    if place == "take_list":
        assert written() == (1, 2, 2, 3)
    else:
        assert opened() == (3, 2, 2, 3)


def test_f3_one_person_who_cannot_be_followed_stops_no_other(
    ready: World, monkeypatch: pytest.MonkeyPatch, expect_logs: ExpectLogs
) -> None:
    an_hour_later(ready)
    look = cleanup._look_again

    def poisoned(notice: CleanupNotice, *args: Any) -> None:
        if notice.member.name == "ann":
            raise RuntimeError("poison")
        look(notice, *args)

    expect_logs("could not be followed")
    with monkeypatch.context() as patch:
        patch.setattr(cleanup, "_look_again", poisoned)
        sweep(SIX)
    assert list(Case.objects.exclude(concerns=None).values_list("concerns__name", flat=True)) == ["bo"]
    sweep(SIX)
    assert opened()[0] == 3
