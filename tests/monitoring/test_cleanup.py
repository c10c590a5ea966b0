"""F3: the weekly clean-up, from readings to messages and cases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core import mail
from django.db import connection
from django.test.utils import CaptureQueriesContext

from monitoring.models import GateEntry, HostReading, Incident, Sample
from monitoring.services import cleanup
from reservations.models import (
    CardState,
    Case,
    Cleanup,
    CleanupNotice,
    Collaborator,
    Demerit,
    Gpu,
    Lab,
    Maintenance,
    MaintenanceCard,
    Member,
    Notification,
)
from reservations.services.delivery import Outcome, Sender, due
from tests.conftest import ExpectLogs
from tests.monitoring.world import PERIOD, World, process

FIVE = datetime(2026, 12, 4, 9, 0, tzinfo=UTC)  # Friday 17:00 in Shanghai
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
SIX = FIVE + HOUR

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    """Two cards, known since before; Ann and Bo have accounts there."""
    Lab.objects.create(pk=1, name="lab", set_up_at=FIVE - timedelta(days=30), policy={"mode": "person"})
    one = World(cards=2)
    one.look(FIVE - 3 * HOUR)
    return one


@pytest.fixture
def ann(world: World) -> Member:
    return world.member("ann", 2001)


@pytest.fixture
def bo(world: World) -> Member:
    return world.member("bo", 2002)


def sweep(now: datetime) -> None:
    cleanup.sweep(now=now, period=PERIOD)


def send(now: datetime) -> list[Outcome]:
    with Sender() as sender:
        return [sender.deliver(pk, now=now) for pk in due(now)]


def told(now: datetime = FIVE) -> list[int]:
    """Sweeps and sends; whom the clean-up has told by then."""
    sweep(now)
    send(now)
    rows = Notification.objects.filter(kind="cleanup", state=Notification.State.SENT)
    return list(rows.order_by("member").values_list("member", flat=True))


def outcomes() -> dict[str, str]:
    return dict(CleanupNotice.objects.values_list("member__name", "outcome"))


def play_on(world: World, until: datetime = SIX) -> None:
    world.play(FIVE + PERIOD, until, judged=6)


def cases() -> list[tuple[str | None, str]]:
    return list(Case.objects.order_by("pk").values_list("concerns__name", "fact"))


# --- being told -----------------------------------------------------------------------------------------------------------
def test_f3_who_has_processes_without_a_reservation_is_told_once_of_all_of_them(world: World, ann: Member, bo: Member) -> None:
    world.book(bo, FIVE - HOUR, FIVE + 3 * HOUR, places=(1,))
    world.on = {0: [process(100, 2001)], 1: [process(101, 2001), process(102, 2002)]}
    world.play(FIVE - MINUTE, FIVE)
    assert told() == [ann.pk]
    notice = CleanupNotice.objects.get()
    assert [(one["card"], [p["pid"] for p in one["processes"]]) for one in notice.found] == [("a100:0", [100]), ("a100:1", [101])]
    assert notice.found[0]["processes"][0]["since"] == (FIVE - MINUTE).isoformat()
    [message] = mail.outbox
    assert message.to == [f"ann <{ann.email}>"]
    for word in ("18:00", "a100:0", "a100:1", "100", "101", "16:59"):
        assert word in message.body
    assert "102" not in message.body
    assert told(FIVE + PERIOD) == [ann.pk] and len(mail.outbox) == 1


def test_f3_nobody_is_told_before_the_time_nor_where_the_clean_up_is_off(world: World, ann: Member) -> None:
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE)
    sweep(FIVE - timedelta(seconds=1))
    assert not Cleanup.objects.exists()
    Lab.objects.update(policy={"mode": "person", "cleanup": False})
    assert told() == []
    assert not Cleanup.objects.exists()
    Lab.objects.update(policy={"mode": "person", "cleanup_weekday": 3})
    assert told() == []
    Lab.objects.update(policy={"mode": "person", "cleanup_at": "17:01"})
    assert told() == []
    Lab.objects.update(policy={"mode": "person", "cleanup_at": "16:59"})
    assert told() == [ann.pk]


def test_f3_a_collaborator_is_at_home(world: World, ann: Member, bo: Member) -> None:
    allocation = world.book(bo, FIVE - HOUR, FIVE + HOUR)
    row = Collaborator.objects.create(reservation=allocation.reservation, member=ann, at=FIVE - HOUR)
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE)
    Collaborator.objects.filter(pk=row.pk).update(state="accepted")
    assert told() == []
    Cleanup.objects.all().delete()
    Collaborator.objects.filter(pk=row.pk).update(state="invited")
    assert told() == [ann.pk]


def test_f3_who_stays_on_after_a_reservation_is_left_to_i4(world: World, ann: Member) -> None:
    world.book(ann, FIVE - 3 * HOUR, FIVE - 20 * MINUTE)
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - 30 * MINUTE, FIVE, judged=120)
    assert Incident.objects.filter(closed_at=None).count() == 1
    assert told() == []
    play_on(world)
    assert told(SIX) == [] and not Case.objects.exists()


def test_f3_a_message_is_dropped_when_nothing_of_theirs_is_left(world: World, ann: Member) -> None:
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE)
    sweep(FIVE)
    world.on[0] = []
    world.look(FIVE + PERIOD)
    assert send(FIVE + PERIOD) == [Outcome.DROPPED]
    assert mail.outbox == []
    sweep(FIVE + 2 * PERIOD)
    assert outcomes() == {"ann": "untold"}


def test_f3_a_message_is_dropped_when_they_have_booked_what_they_use(world: World, ann: Member) -> None:
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE)
    sweep(FIVE)
    world.book(ann, FIVE, FIVE + HOUR)
    assert send(FIVE) == [Outcome.DROPPED]


def test_f3_a_message_leaves_while_nobody_knows_whether_they_are_gone(world: World, ann: Member) -> None:
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE)
    sweep(FIVE)
    CardState.objects.update(state="unknown", owner_ids=[])
    assert send(FIVE) == [Outcome.SENT]


# --- an hour later ----------------------------------------------------------------------------------------------------------
def test_f3_who_is_still_there_an_hour_later_has_one_case_and_no_point(world: World, ann: Member) -> None:
    world.on = {0: [process(100, 2001)], 1: [process(101, 2001)]}
    world.play(FIVE - MINUTE, FIVE)
    told()
    play_on(world)
    sweep(SIX - timedelta(seconds=1))
    assert cases() == []
    sweep(SIX)
    assert cases() == [("ann", f"cleanup:2026-11-30:{ann.pk}")]
    case = Case.objects.get()
    assert (case.kind, case.state, case.opened_by, case.statement, case.opened_at) == ("cleanup", "open", None, "", SIX)
    assert case.evidence["cards"] == ["a100:0", "a100:1"]
    assert {one["pid"] for one in case.evidence["processes"]} == {100, 101}
    assert (case.evidence["told_at"], case.evidence["due_at"]) == (FIVE.isoformat(), SIX.isoformat())
    assert len(case.evidence["samples"]) == 3
    assert not Demerit.objects.exists()
    assert GateEntry.objects.values_list("act", "allowed", "cleanup_notice__member").get() == ("case", True, ann.pk)
    for later in (SIX + PERIOD, SIX + HOUR):
        sweep(later)
    assert len(cases()) == 1 and outcomes() == {"ann": "case"}
    send(SIX)
    assert [row.kind for row in Notification.objects.filter(member=ann).order_by("pk")] == ["cleanup", "case"]
    assert len(mail.outbox) == 2


def test_f3_starting_again_elsewhere_is_no_way_out(world: World, ann: Member) -> None:
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE)
    told()
    world.on = {1: [process(555, 2001)]}
    play_on(world)
    sweep(SIX)
    assert [one for one, _ in cases()] == ["ann"]
    assert Case.objects.get().evidence["cards"] == ["a100:1"]


@pytest.mark.parametrize("gone_at", [SIX - PERIOD, SIX])
def test_f3_who_is_gone_by_then_has_none(world: World, ann: Member, gone_at: datetime) -> None:
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE)
    told()
    world.play(FIVE + PERIOD, gone_at - PERIOD, judged=6)
    world.on[0] = []
    world.play(gone_at, SIX)
    sweep(SIX)
    assert (cases(), outcomes()) == ([], {"ann": "gone"})
    world.on[0] = [process(100, 2001)]  # back again: that is next week's
    world.play(SIX + PERIOD, SIX + MINUTE)
    sweep(SIX + MINUTE)
    assert cases() == []


def test_f3_who_has_booked_by_then_has_none(world: World, ann: Member) -> None:
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE)
    told()
    world.book(ann, FIVE + 30 * MINUTE, FIVE + 3 * HOUR)
    play_on(world)
    sweep(SIX)
    assert (cases(), outcomes()) == ([], {"ann": "gone"})


def test_f3_who_has_booked_in_the_last_second_has_none(
    world: World, ann: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the sweep's look and its lock: what counts is read again under it."""
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE)
    told()
    play_on(world)
    hold = cleanup.locking.hold

    def late(**what: Any) -> Any:
        if what.get("cards"):
            world.book(ann, SIX - MINUTE, SIX + HOUR)
        return hold(**what)

    monkeypatch.setattr(cleanup.locking, "hold", late)
    sweep(SIX)
    assert cases() == []


def test_f3_who_came_after_the_list_was_made_is_not_accused(world: World, ann: Member) -> None:
    world.play(FIVE - MINUTE, FIVE)
    told()
    world.on[0] = [process(100, 2001)]
    play_on(world)
    sweep(SIX)
    assert (cases(), outcomes()) == ([], {})


def test_f3_nobody_has_a_case_who_was_not_told(world: World, ann: Member) -> None:
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE)
    sweep(FIVE)  # the mail server is down all the time
    play_on(world)
    sweep(SIX)
    assert (cases(), outcomes()) == ([], {"ann": ""})
    Notification.objects.update(state="failed")
    sweep(SIX + PERIOD)
    assert (cases(), outcomes()) == ([], {"ann": "untold"})


def test_f3_the_hour_counts_from_when_they_were_told(world: World, ann: Member) -> None:
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE)
    sweep(FIVE)
    late = FIVE + 20 * MINUTE
    world.play(FIVE + PERIOD, late, judged=6)
    send(late)
    assert "18:20" in mail.outbox[0].body
    world.play(late + PERIOD, late + HOUR, judged=6)
    sweep(SIX)
    assert cases() == []
    sweep(late + HOUR)
    assert [one for one, _ in cases()] == ["ann"]


def test_f3_after_a_missed_time_it_is_made_up_for_on_that_day(world: World, ann: Member) -> None:
    """The server was down at five and comes back in the evening; at first no card has been read three times."""
    back = FIVE + 4 * HOUR
    world.on[0] = [process(100, 2001)]
    world.look(back)
    sweep(back)
    assert (Cleanup.objects.get().at, outcomes()) == (back, {})
    world.play(back + PERIOD, back + MINUTE)
    assert told(back + MINUTE) == [ann.pk]
    world.play(back + MINUTE + PERIOD, back + HOUR + MINUTE, judged=6)
    sweep(back + HOUR)
    assert cases() == []
    sweep(back + HOUR + MINUTE)
    assert [one for one, _ in cases()] == ["ann"]


def test_f3_what_was_missed_for_the_whole_day_is_left_out(world: World, ann: Member) -> None:
    saturday = FIVE + 7 * HOUR
    world.on[0] = [process(100, 2001)]
    world.play(saturday - MINUTE, saturday)
    assert told(saturday) == []
    assert not Cleanup.objects.exists()


def test_f3_a_lab_elsewhere_cleans_up_on_its_own_friday(world: World, ann: Member) -> None:
    """In Cairo the first hour of Friday 24 April 2026 is skipped: 17:00 is 14:00 in UTC, not 15:00."""
    Lab.objects.update(zone="Africa/Cairo", policy={"mode": "person"})
    five = datetime(2026, 4, 24, 14, 0, tzinfo=UTC)
    HostReading.objects.all().delete()
    world.on[0] = [process(100, 2001)]
    world.play(five - MINUTE, five)
    sweep(five - timedelta(seconds=1))
    assert not Cleanup.objects.exists()
    assert told(five) == [ann.pk]
    assert "18:00" in mail.outbox[0].body


def test_f3_a_late_sweep_decides_as_one_in_time_would(world: World, ann: Member, bo: Member) -> None:
    """Ann was there when the hour ended and is; Bo has gone since; somebody who was gone then and is back is not accused."""
    eve = world.member("eve", 2003)
    world.on = {0: [process(100, 2001), process(101, 2002), process(102, 2003)]}
    world.play(FIVE - MINUTE, FIVE)
    assert told() == [ann.pk, bo.pk, eve.pk]
    world.play(FIVE + PERIOD, SIX - MINUTE, judged=6)
    world.on = {0: [process(100, 2001), process(101, 2002)]}
    world.play(SIX - 50 * timedelta(seconds=1), SIX)
    world.on = {0: [process(100, 2001), process(103, 2003)]}
    world.play(SIX + PERIOD, SIX + 20 * MINUTE, judged=6)
    sweep(SIX + 20 * MINUTE)
    assert outcomes() == {"ann": "case", "bo": "gone", "eve": "gone"}


# --- unknown is not idle --------------------------------------------------------------------------------------------------------
def test_f3_a_silent_host_is_passed_over_and_said(world: World, ann: Member, expect_logs: ExpectLogs) -> None:
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE - 40 * timedelta(seconds=1))
    assert told() == []
    said = {one["card"]: one["why"] for one in Cleanup.objects.get().unlisted.values()}
    assert said == {"a100:0": "silent", "a100:1": "silent"}
    midnight = FIVE + 7 * HOUR
    sweep(midnight)
    assert Cleanup.objects.get().settled_at == midnight


def test_f3_a_host_that_falls_silent_in_the_hour_accuses_nobody(world: World, ann: Member) -> None:
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE)
    told()
    world.play(FIVE + PERIOD, SIX - MINUTE, judged=6)
    sweep(SIX)
    assert (cases(), outcomes()) == ([], {"ann": "unknown"})


def test_f3_an_hour_that_the_clock_has_skipped_is_no_hour(world: World, ann: Member) -> None:
    """The server's and the host's clocks are set forward together: the gate of I1 sees the hole."""
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE)
    told()
    world.play(SIX - MINUTE, SIX)
    sweep(SIX)
    assert cases() == []
    assert GateEntry.objects.values_list("allowed", "reason").get() == (False, "coverage")
    sweep(SIX + HOUR)
    assert outcomes() == {"ann": "unknown"}


def test_f3_a_card_in_maintenance_or_out_of_service_accuses_nobody(world: World, ann: Member) -> None:
    admin = world.member("admin")
    announced = Maintenance.objects.create(
        start=FIVE - HOUR, end=FIVE + HOUR, announced_by=admin, announced_at=FIVE - HOUR
    )
    MaintenanceCard.objects.create(maintenance=announced, gpu=world.gpu(0), start=FIVE - HOUR, end=FIVE + HOUR)
    Gpu.objects.filter(pk=world.gpu(1).pk).update(service=Gpu.Service.OUT_OF_SERVICE)
    world.on = {0: [process(100, 2001)], 1: [process(101, 2001)]}
    world.play(FIVE - MINUTE, FIVE)
    assert told() == []
    assert [one["why"] for one in Cleanup.objects.get().unlisted.values()] == ["maintenance"]


def test_f3_a_maintenance_in_the_hour_accuses_nobody(world: World, ann: Member) -> None:
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE)
    told()
    announced = Maintenance.objects.create(
        start=FIVE + MINUTE, end=FIVE + 5 * MINUTE, announced_by=ann, announced_at=FIVE
    )
    MaintenanceCard.objects.create(
        maintenance=announced, gpu=world.gpu(0), start=FIVE + MINUTE, end=FIVE + 5 * MINUTE
    )
    play_on(world)
    sweep(SIX)
    assert cases() == []
    assert GateEntry.objects.get().reason == "maintenance"


def test_f3_simulated_cards_beside_real_ones_accuse_nobody(world: World, ann: Member) -> None:
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE)
    other = World(host="made-up", simulated=True)
    Gpu.objects.all().update(host=world.gpu().host)
    host = type(world.gpu().host).objects.create(name="made-up", simulated=True)
    Gpu.objects.create(uuid="GPU-made-up", host=host, pool=world.gpu().pool, model="A100", index=0)
    assert other.simulated and told() == []
    assert {one["why"] for one in Cleanup.objects.get().unlisted.values()} == {"mixed"}


# --- owners in doubt ------------------------------------------------------------------------------------------------------------
def test_f3_owners_in_doubt_go_to_arbiters_only_and_name_nobody(world: World, ann: Member) -> None:
    world.on = {0: [process(200, 0)], 1: [process(201, 3000), process(202, 998, memory=10 << 20)]}
    world.play(FIVE - MINUTE, FIVE)
    assert told() == []
    play_on(world)
    sweep(SIX)
    sweep(SIX + PERIOD)
    assert cases() == [(None, "cleanup:2026-11-30:doubt")]
    case = Case.objects.get()
    assert {one["pid"] for one in case.evidence["processes"]} == {200, 201}
    assert "ann" not in str(case.evidence)
    assert not Notification.objects.exists()


def test_f3_what_has_ended_by_then_is_no_case(world: World) -> None:
    world.on = {0: [process(200, 0)]}
    world.play(FIVE - MINUTE, FIVE)
    told()
    world.on = {0: [process(300, 0)]}  # another one: nobody was told, and nothing is held against anybody
    play_on(world)
    sweep(SIX)
    assert cases() == []


def test_f3_somebody_who_has_left_is_told_nothing_and_named_nowhere(world: World, ann: Member) -> None:
    Member.objects.filter(pk=ann.pk).update(is_active=False)
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE)
    assert told() == []
    play_on(world)
    sweep(SIX)
    assert cases() == [(None, "cleanup:2026-11-30:doubt")]


# --- the sweep itself -----------------------------------------------------------------------------------------------------------
def test_f3_switched_off_in_the_hour_nobody_has_a_case(world: World, ann: Member) -> None:
    world.on = {0: [process(100, 2001)], 1: [process(200, 0)]}
    world.play(FIVE - MINUTE, FIVE)
    told()
    Lab.objects.update(policy={"mode": "person", "cleanup": False})
    play_on(world)
    sweep(SIX)
    assert (cases(), outcomes()) == ([], {"ann": "off"})
    assert Cleanup.objects.get().settled_at == SIX


def test_f3_each_week_is_its_own(world: World, ann: Member) -> None:
    world.on[0] = [process(100, 2001)]
    for week in (0, 1):
        five = FIVE + week * timedelta(days=7)
        world.play(five - MINUTE, five)
        told(five)
        world.play(five + PERIOD, five + HOUR, judged=6)
        sweep(five + HOUR)
    assert [fact for _, fact in cases()] == [f"cleanup:2026-11-30:{ann.pk}", f"cleanup:2026-12-07:{ann.pk}"]


def test_f3_an_edited_policy_changes_no_hour_of_which_people_were_told(world: World, ann: Member) -> None:
    world.on[0] = [process(100, 2001)]
    world.play(FIVE - MINUTE, FIVE)
    told()
    Lab.objects.update(policy={"mode": "person", "cleanup_grace_s": 60, "cleanup_weekday": 4, "cleanup_at": "17:10"})
    world.play(FIVE + PERIOD, FIVE + 20 * MINUTE, judged=6)
    assert told(FIVE + 20 * MINUTE) == [ann.pk]
    assert cases() == []


def _reads(now: datetime) -> int:
    with CaptureQueriesContext(connection) as asked:
        sweep(now)
    return len([one for one in asked if one["sql"].startswith("SELECT")])


@pytest.mark.parametrize("stage", ["listing", "looking again"])
def test_f3_the_sweep_reads_with_as_many_queries_for_three_people_as_for_one(stage: str) -> None:
    counts = []
    Lab.objects.create(pk=1, name="lab", set_up_at=FIVE - timedelta(days=30), policy={"mode": "person"})
    for cards in (1, 3):
        world = World(host=f"h{cards}", cards=cards)
        world.look(FIVE - 3 * HOUR)
        for place in range(cards):
            member = world.member(f"m{cards}{place}", 2000 + place)
            if stage == "listing":  # else each is told, which takes writing
                world.book(member, FIVE - HOUR, FIVE + 2 * HOUR, places=(place,))
            world.on[place] = [process(100 + place, 2000 + place), process(200 + place, 0)]
        world.play(FIVE - MINUTE, FIVE)
        if stage == "listing":
            counts.append(_reads(FIVE))
        else:
            assert len(told()) == cards
            Cleanup.objects.update(unlisted={})  # the cards of the first time are silent by now
            world.on = {}
            world.play(SIX - MINUTE, SIX)
            counts.append(_reads(SIX))
            assert set(outcomes().values()) == {"gone"}
        CleanupNotice.objects.all().delete()
        Cleanup.objects.all().delete()
        Notification.objects.all().delete()
        Sample.objects.all().delete()
    assert counts[0] == counts[1] > 5, counts


def test_f3_a_quiet_sweep_asks_two_things(world: World) -> None:
    assert _reads(FIVE - HOUR) == 2
