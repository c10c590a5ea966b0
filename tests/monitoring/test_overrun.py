"""Staying on after the end, from readings to the demerit: the guilty, and the innocent that differ in one fact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest

from monitoring.models import GateEntry, Incident
from monitoring.services import judge as judging
from reservations.models import Allocation, Demerit, Gpu, Host, HostAccount, Lab, Member, Notification
from reservations.rules.lifecycle import Status
from reservations.services import booking, changes, extension, waitlist
from tests.monitoring.world import NOON, PERIOD, World, process

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
GRACE_OVER = NOON + 10 * MINUTE
THIRD = GRACE_OVER + 2 * PERIOD


@dataclass
class Pair:
    """Ann holds the card until noon and computes there as pid 100; Bo has it from noon on."""

    world: World
    ann: Member
    bo: Member
    mine: Allocation
    theirs: Allocation | None = None


@pytest.fixture
def alone(world: World) -> Pair:
    ann, bo = world.member("ann", 2001), world.member("bo", 2002)
    world.on[0] = [process(100, 2001)]
    return Pair(world, ann, bo, world.book(ann, NOON - 2 * HOUR, NOON))


@pytest.fixture
def pair(alone: Pair) -> Pair:
    alone.theirs = alone.world.book(alone.bo, NOON, NOON + 4 * HOUR)
    return alone


def reasons() -> list[str]:
    return list(GateEntry.objects.filter(act="demerit").values_list("reason", flat=True))


def reminders() -> int:
    return Notification.objects.filter(kind=Notification.Kind.OVERRUN).count()


# --- the guilty -----------------------------------------------------------------------------------------------------


def test_i4_who_stays_on_while_somebody_waits_gets_one_demerit_with_its_evidence(pair: Pair) -> None:
    pair.world.play(NOON - MINUTE, THIRD - PERIOD)
    assert not Demerit.objects.exists()
    pair.world.play(THIRD, THIRD)
    demerit = Demerit.objects.get()
    ended = int(NOON.timestamp())
    assert (demerit.member, demerit.fact) == (pair.ann, f"overrun:{pair.mine.reservation_id}:{ended}")
    memory = 4003 * 1024 * 1024
    assert demerit.evidence == {
        "kind": "overrun", "card": "a100:0", "gpu": "GPU-a100-0", "end": "2026-11-30T12:00:00+00:00",
        "grace_until": "2026-11-30T12:10:00+00:00", "first_sight": "2026-11-30T12:10:00+00:00",
        "counted_at": "2026-11-30T12:10:20+00:00",
        "samples": [
            {"at": f"2026-11-30T12:10:{second}+00:00", "pids": [100], "utilization": 90, "memory": memory}
            for second in ("00", "10", "20")
        ],
        "processes": [{"pid": 100, "started": 1100, "uid": 2001, "owner": "verified"}],
        "waiting": True, "coverage": 1.0, "simulated": False,
    }
    incident = Incident.objects.get()
    assert (incident.counted_at, incident.closed_at, incident.evidence) == (THIRD, None, demerit.evidence)
    assert (reasons(), pair.world.state()) == (["allowed"], "overrun")


def test_the_offender_is_warned_at_the_end_before_it_counts(pair: Pair) -> None:
    pair.world.play(NOON, NOON + PERIOD)
    assert reminders() == 0
    pair.world.play(NOON + 2 * PERIOD, THIRD)
    assert Notification.objects.filter(kind=Notification.Kind.OVERRUN).values_list("member", "due_at").get() == (
        pair.ann.pk, NOON + 2 * PERIOD,
    )


def test_staying_on_for_hours_is_one_demerit(pair: Pair) -> None:
    pair.world.play(NOON, THIRD + 5 * MINUTE)
    assert (Demerit.objects.count(), Incident.objects.count(), reminders(), reasons()) == (1, 1, 1, ["allowed"])


def test_relaunching_is_no_way_out(pair: Pair) -> None:
    at = NOON
    while at <= THIRD:
        pair.world.on[0] = [process(100 + pair.world.sequence, 2001)]
        pair.world.look(at)
        at += PERIOD
    assert Demerit.objects.count() == 1


def test_an_early_release_starts_the_same_grace(pair: Pair) -> None:
    assert pair.theirs is not None
    pair.theirs.delete()
    Lab.objects.filter(pk=1).update(zone="UTC")
    pair.world.play(NOON - 2 * MINUTE, NOON - HOUR / 60)
    changes.release(
        pair.mine.reservation_id, by=pair.ann, version=None, now=NOON - MINUTE, knowing_it_runs=True
    )
    pair.world.book(pair.bo, NOON - MINUTE, NOON + HOUR)
    pair.world.play(NOON - MINUTE, THIRD - MINUTE)
    assert Demerit.objects.get().evidence["end"] == (NOON - MINUTE).isoformat()


def test_with_nobody_waiting_it_is_reminded_once_and_counted_an_hour_after_the_end(alone: Pair) -> None:
    alone.world.play(NOON, THIRD)
    alone.world.play(THIRD + PERIOD, NOON + HOUR - PERIOD)
    assert (Demerit.objects.count(), reminders(), Incident.objects.count()) == (0, 1, 1)
    alone.world.play(NOON + HOUR, NOON + HOUR)
    evidence = Demerit.objects.get().evidence
    assert (evidence["waiting"], evidence["first_sight"], len(evidence["samples"]) >= 3) == (
        False, GRACE_OVER.isoformat(), True,
    )


def test_somebody_booking_later_makes_it_count_at_once(alone: Pair) -> None:
    alone.world.play(NOON, NOON + 20 * MINUTE - PERIOD)
    alone.world.book(alone.bo, NOON + 20 * MINUTE, NOON + 2 * HOUR)
    assert not Demerit.objects.exists()
    alone.world.play(NOON + 20 * MINUTE, NOON + 20 * MINUTE)
    assert Demerit.objects.get().issued_at == NOON + 20 * MINUTE


def test_the_end_is_the_reservation_s_not_the_sweep_s(pair: Pair) -> None:
    """Nothing marks the reservation finished here: the sweep that does so may be down."""
    pair.world.play(NOON, THIRD)
    pair.mine.refresh_from_db()
    assert (pair.mine.status, Demerit.objects.count()) == (Status.ACTIVE, 1)


def test_a_card_that_changes_its_number_is_the_same_card(pair: Pair) -> None:  # NV-15
    pair.world.play(NOON, THIRD - PERIOD)
    pair.world.changes[0] = {"index": 5}
    pair.world.look(THIRD)
    assert Demerit.objects.get().evidence["card"] == "a100:5"


# --- the innocent: each differs from the guilty in one fact -----------------------------------------------------------


def job_ends_in_the_grace(pair: Pair) -> None:
    pair.world.play(NOON, GRACE_OVER - PERIOD)
    pair.world.on[0] = []
    pair.world.play(GRACE_OVER, GRACE_OVER + 5 * MINUTE)


def job_ends_after_two_samples(pair: Pair) -> None:
    pair.world.play(NOON, GRACE_OVER + PERIOD)
    pair.world.on[0] = []
    pair.world.play(THIRD, THIRD + 5 * MINUTE)


def released_in_time_with_the_job(pair: Pair) -> None:
    pair.world.play(NOON - 5 * MINUTE, NOON - MINUTE)
    pair.world.on[0] = []
    changes.release(pair.mine.reservation_id, by=pair.ann, version=None, now=NOON - MINUTE, knowing_it_runs=True)
    pair.world.play(NOON - MINUTE, THIRD)


def as_root(pair: Pair) -> None:
    pair.world.on[0] = [process(100, 0)]
    pair.world.play(NOON, THIRD + MINUTE)


def by_an_unknown_uid(pair: Pair) -> None:
    pair.world.on[0] = [process(100, 2999)]
    pair.world.play(NOON, THIRD + MINUTE)


def owner_could_not_be_looked_up(pair: Pair) -> None:
    pair.world.on[0] = [process(100, None, started=None, problem="denied")]
    pair.world.play(NOON, THIRD + MINUTE)


def the_pid_belongs_to_the_next_holder_now(pair: Pair) -> None:
    pair.world.play(NOON, NOON + 5 * MINUTE)
    pair.world.on[0] = [process(100, 2002, started=999_999)]
    pair.world.play(NOON + 5 * MINUTE, THIRD + MINUTE)


def the_samples_repeat(pair: Pair) -> None:
    pair.world.play(NOON, GRACE_OVER)
    again = pair.world.reading(GRACE_OVER)
    for place in range(1, 5):
        again["sequence"] += 1
        judging_time = GRACE_OVER + place * PERIOD
        feed(again, judging_time)


def the_samples_are_from_before_the_end_of_the_grace(pair: Pair) -> None:
    """The host's worker was slow: what was taken in the grace arrives after it."""
    at = NOON
    while at < GRACE_OVER:
        pair.world.look(at, received=at + 25 * SECOND)
        at += PERIOD


def the_host_runs_ahead_within_tolerance(pair: Pair) -> None:
    """By the host's clock the last samples are after the grace, by the server's they are not."""
    at = NOON
    while at < GRACE_OVER:
        pair.world.look(at + 29 * SECOND, received=at)
        at += PERIOD


def the_host_s_clock_is_off(pair: Pair) -> None:
    at = NOON
    while at <= THIRD + MINUTE:
        pair.world.look(at - 31 * SECOND, received=at)
        at += PERIOD


def the_host_s_clock_is_hours_ahead(pair: Pair) -> None:  # NV-17
    at = NOON
    while at <= THIRD + MINUTE:
        pair.world.look(at + 2 * HOUR, received=at)
        at += PERIOD


def the_agent_is_silent(pair: Pair) -> None:
    pair.world.play(NOON, NOON + 5 * MINUTE)
    for place in range(40):
        judging.judge_all(now=NOON + 5 * MINUTE + place * MINUTE, period=PERIOD)


def the_card_is_lost(pair: Pair) -> None:
    pair.world.play(NOON, NOON + 5 * MINUTE)
    pair.world.changes[0] = {"problem": {"code": "lost", "detail": "GPU is lost"}, "processes": None}
    pair.world.play(NOON + 5 * MINUTE, THIRD + MINUTE)


def the_process_list_is_unknown(pair: Pair) -> None:
    pair.world.changes[0] = {"processes": None, "problem": {"code": "processes_unread", "detail": "not supported"}}
    pair.world.play(NOON, THIRD + MINUTE)


def only_memory_is_held(pair: Pair) -> None:  # AT-04
    pair.world.on[0] = []
    pair.world.changes[0] = {"memory_used": 9 << 30, "utilization": 97}
    pair.world.play(NOON, THIRD + MINUTE)


def a_sample_is_missing_before_the_third(pair: Pair) -> None:
    pair.world.play(NOON, GRACE_OVER)
    pair.world.look(GRACE_OVER + PERIOD, problem={"code": "hung", "detail": "unknown since"}, cards=[])
    pair.world.look(THIRD)


def the_next_reservation_is_the_own(pair: Pair) -> None:
    assert pair.theirs is not None
    pair.theirs.reservation.holder = pair.ann
    pair.theirs.reservation.save(update_fields=["holder"])
    pair.world.play(NOON, THIRD + MINUTE)


def extended_in_the_grace(pair: Pair) -> None:
    assert pair.theirs is not None
    pair.theirs.delete()
    Lab.objects.filter(pk=1).update(zone="UTC")
    pair.world.play(NOON, NOON + 5 * MINUTE)
    booking.advance_one(pair.mine.reservation_id, now=NOON + SECOND)
    extension.extend(
        pair.mine.reservation_id, NOON + HOUR, by=pair.ann, version=None, now=NOON + 9 * MINUTE
    )
    pair.world.play(NOON + 5 * MINUTE, THIRD + MINUTE)


def two_of_three_minutes_were_not_seen(pair: Pair) -> None:
    pair.world.play(NOON, NOON + 3 * MINUTE)
    pair.world.play(NOON + 9 * MINUTE, THIRD + MINUTE)


def a_clock_jumped_forward(pair: Pair) -> None:  # T7: one machine, so host and server agree on the wrong time
    pair.world.play(NOON, NOON + 3 * MINUTE)
    pair.world.play(NOON + 3 * MINUTE + 262 * SECOND, THIRD + 4 * MINUTE)


def only_a_desktop(pair: Pair) -> None:
    pair.world.on[0] = [process(100, 2001, kind="G", memory=60 << 20)]
    pair.world.play(NOON, THIRD + MINUTE)


def feed(reading: dict[str, object], now: object) -> None:
    from monitoring.services.ingest import ingest

    ingest(reading, now=now, period=PERIOD)  # type: ignore[arg-type]


INNOCENT: list[Callable[[Pair], None]] = [
    job_ends_in_the_grace, job_ends_after_two_samples, released_in_time_with_the_job, as_root, by_an_unknown_uid,
    owner_could_not_be_looked_up, the_pid_belongs_to_the_next_holder_now, the_samples_repeat,
    the_samples_are_from_before_the_end_of_the_grace, the_host_runs_ahead_within_tolerance, the_host_s_clock_is_off,
    the_host_s_clock_is_hours_ahead, the_agent_is_silent, the_card_is_lost, the_process_list_is_unknown,
    only_memory_is_held, a_sample_is_missing_before_the_third, the_next_reservation_is_the_own, extended_in_the_grace,
    two_of_three_minutes_were_not_seen, a_clock_jumped_forward, only_a_desktop,
]


@pytest.mark.parametrize("story", INNOCENT, ids=lambda story: story.__name__)
def test_nobody_innocent_is_punished(story: Callable[[Pair], None], pair: Pair) -> None:
    story(pair)
    assert list(Demerit.objects.values_list("fact", flat=True)) == []
    assert not Incident.objects.exclude(counted_at=None).exists()


def test_a_uid_mapped_later_proves_nothing_backwards(pair: Pair) -> None:
    pair.world.on[0] = [process(100, 2005)]
    pair.world.play(NOON, THIRD + MINUTE)
    pair.ann.host_accounts.update(uid=2005)
    judging.judge_all(now=THIRD + MINUTE + PERIOD, period=PERIOD)
    pair.world.play(THIRD + MINUTE + PERIOD, THIRD + MINUTE + 2 * PERIOD)
    assert not Demerit.objects.exists()
    pair.world.look(THIRD + MINUTE + 3 * PERIOD)
    assert Demerit.objects.get().evidence["first_sight"] == (THIRD + MINUTE + PERIOD).isoformat()


# --- in time --------------------------------------------------------------------------------------------------------


def test_what_the_gate_refuses_is_logged_once_and_counts_when_enough_was_seen(pair: Pair) -> None:
    pair.world.play(NOON, NOON + 7 * MINUTE)
    pair.world.play(NOON + 9 * MINUTE, THIRD + MINUTE)
    assert (reasons(), Demerit.objects.count()) == (["coverage"], 0)
    pair.world.play(THIRD + MINUTE + PERIOD, THIRD + 10 * MINUTE)
    assert (reasons(), Demerit.objects.count()) == (["coverage", "allowed"], 1)
    assert Demerit.objects.get().evidence["coverage"] >= 0.9


def test_i1_on_a_card_out_of_service_nothing_counts_until_it_is_back(pair: Pair) -> None:
    Gpu.objects.update(service=Gpu.Service.OUT_OF_SERVICE)
    pair.world.play(NOON, THIRD + MINUTE)
    assert reasons() == ["maintenance"]
    assert not Demerit.objects.exists()
    Gpu.objects.update(service=Gpu.Service.IN_SERVICE)
    pair.world.play(THIRD + MINUTE + PERIOD, THIRD + 2 * MINUTE)
    assert (reasons(), Demerit.objects.count()) == (["maintenance", "allowed"], 1)


def test_an_uncounted_overrun_closes_and_flapping_opens_no_second(alone: Pair) -> None:
    alone.world.play(NOON, THIRD)
    alone.world.on[0] = []
    alone.world.play(THIRD + PERIOD, THIRD + 3 * PERIOD)
    incident = Incident.objects.get()
    assert incident.closed_at == THIRD + 3 * PERIOD
    alone.world.on[0] = [process(200, 2001)]
    alone.world.play(THIRD + 4 * PERIOD, THIRD + 6 * PERIOD)
    again = Incident.objects.get()
    assert (again.pk, again.closed_at, again.first_sight) == (incident.pk, None, GRACE_OVER)


def test_a_counted_overrun_closes_when_the_processes_are_gone(pair: Pair) -> None:
    pair.world.play(NOON, THIRD)
    pair.world.on[0] = []
    pair.world.play(THIRD + PERIOD, THIRD + 3 * PERIOD)
    assert Incident.objects.get().closed_at == THIRD + 3 * PERIOD
    assert pair.world.state() == "free"


def test_in_the_grace_the_card_shows_overrun_without_consequence(pair: Pair) -> None:
    pair.world.play(NOON, NOON + PERIOD)
    assert (pair.world.state(), Incident.objects.count(), Demerit.objects.count()) == ("overrun", 0, 0)


def test_the_next_holder_s_own_job_beside_it_is_no_violation(pair: Pair) -> None:  # AT-10
    pair.world.on[0].append(process(300, 2002))
    pair.world.play(NOON, THIRD)
    assert Demerit.objects.get().member == pair.ann
    assert pair.theirs is not None
    pair.theirs.refresh_from_db()
    assert (pair.theirs.first_seen, pair.theirs.last_seen) == (NOON, THIRD)


def test_each_end_of_a_reservation_is_reminded_once_for_all_its_cards(world: World) -> None:
    world.cards = 2
    world.look(NOON - 2 * HOUR)
    ann = world.member("ann", 2001)
    world.book(ann, NOON - HOUR, NOON, places=(0, 1))
    world.on = {0: [process(100, 2001)], 1: [process(101, 2001)]}
    world.play(NOON, NOON + 9 * MINUTE)
    assert reminders() == 1


def test_j1_an_overrun_on_all_cards_of_a_reservation_is_one_offence(pair: Pair) -> None:
    world = World(host="two", cards=2)
    world.look(NOON - 3 * HOUR)
    for member, uid in ((pair.ann, 1101), (pair.bo, 1102)):
        HostAccount.objects.create(member=member, host=Host.objects.get(name="two"), unix_name=member.name, uid=uid)
    world.book(pair.ann, NOON - 2 * HOUR, NOON, places=(0, 1), status=Status.FINISHED)
    world.book(pair.bo, NOON, NOON + 4 * HOUR, places=(0, 1))
    world.on = {0: [process(100, 1101)], 1: [process(101, 1101)]}
    world.play(NOON - MINUTE, THIRD + 6 * PERIOD)
    assert Demerit.objects.filter(member=pair.ann).count() == 1
    assert Incident.objects.filter(gpu__host__name="two", counted_at=None).count() == 0


def test_i4_who_stays_on_while_somebody_is_on_the_waitlist_is_counted_at_once(alone: Pair) -> None:
    wanted = booking.BookingRequest((), None, NOON + 12 * HOUR, count=1)
    waitlist.join(alone.bo, waitlist.WishRequest(wanted, 4 * HOUR, NOON + 12 * HOUR, mode="ask"), now=NOON - HOUR)
    alone.world.play(NOON - MINUTE, THIRD - PERIOD)
    assert not Demerit.objects.exists()
    alone.world.play(THIRD, THIRD)
    demerit = Demerit.objects.get()
    assert (demerit.member, demerit.evidence["waiting"]) == (alone.ann, True)


def test_i4_who_waits_for_the_card_himself_or_for_another_day_hurries_nobody(alone: Pair) -> None:
    for member, earliest in ((alone.ann, None), (alone.bo, NOON + 4 * HOUR)):
        wanted = booking.BookingRequest((), None, NOON + 12 * HOUR, count=1)
        waitlist.join(member, waitlist.WishRequest(wanted, 4 * HOUR, NOON + 12 * HOUR, earliest), now=NOON - HOUR)
    alone.world.play(NOON - MINUTE, THIRD + MINUTE)
    assert not Demerit.objects.exists()
