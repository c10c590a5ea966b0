"""What staying on costs: charged as far as it is proved, growing while it lasts, given back to whom it kept waiting (E3)."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from django.db.models import Sum

from monitoring.models import GateEntry, Incident
from reservations import queries
from reservations.models import Allocation, AuditEntry, Demerit, LedgerEntry, Member, OverrunCharge, Reservation, Ruling
from reservations.rules.kinds import Kind
from reservations.rules.lifecycle import Status
from reservations.rules.quota import UNITS_PER_GPU_HOUR
from reservations.services import arbitration, changes, conduct
from tests import factories as make
from tests.monitoring.world import NOON, PERIOD, World, process

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
GRACE_OVER = NOON + 10 * MINUTE
THIRD = GRACE_OVER + 2 * PERIOD
WEEK = date(2026, 11, 30)  # Monday; noon UTC is 20:00 in the lab, at the plain rate
SECOND_AT_TWICE = 2 * 100 * 100


@pytest.fixture
def ann(world: World) -> Member:
    ann = world.member("ann", 2001)
    world.on[0] = [process(100, 2001)]
    return ann


@pytest.fixture
def mine(world: World, ann: Member) -> Allocation:
    return world.book(ann, NOON - 2 * HOUR, NOON)


def units(member: Member, reason: str) -> int:
    rows = LedgerEntry.objects.filter(member=member, reason=reason, account="quota")
    return rows.aggregate(units=Sum("units"))["units"] or 0


def test_e3_a_proved_overrun_is_charged_twice_the_rate_from_the_end_of_the_grace(
    world: World, ann: Member, mine: Allocation
) -> None:
    world.play(NOON - MINUTE, THIRD - PERIOD)
    assert units(ann, "overrun") == 0
    world.play(THIRD, THIRD)
    assert units(ann, "overrun") == 20 * SECOND_AT_TWICE
    entry = AuditEntry.objects.get(verb="charge_overrun")
    assert (entry.subject_id, entry.change["units"]) == (mine.reservation_id, 20 * SECOND_AT_TWICE)
    assert not Demerit.objects.exists(), "nobody waits: charged, and no point yet (I4)"


def test_e3_it_grows_in_steps_while_it_lasts_and_the_rest_is_charged_when_they_are_gone(
    world: World, ann: Member, mine: Allocation
) -> None:
    world.play(NOON, THIRD)
    world.play(THIRD + PERIOD, GRACE_OVER + 14 * MINUTE)
    assert units(ann, "overrun") == 20 * SECOND_AT_TWICE
    world.play(GRACE_OVER + 14 * MINUTE + PERIOD, GRACE_OVER + 20 * MINUTE)
    grown = units(ann, "overrun")
    assert 15 * 60 * SECOND_AT_TWICE <= grown < 18 * 60 * SECOND_AT_TWICE
    world.on[0] = []
    world.play(GRACE_OVER + 20 * MINUTE + PERIOD, GRACE_OVER + 21 * MINUTE)
    assert Incident.objects.get().closed_at is not None
    assert units(ann, "overrun") == 20 * 60 * SECOND_AT_TWICE
    world.play(GRACE_OVER + 21 * MINUTE + PERIOD, GRACE_OVER + 22 * MINUTE)
    assert units(ann, "overrun") == 20 * 60 * SECOND_AT_TWICE, "judging again charges nothing again"
    assert LedgerEntry.objects.filter(reason="overrun").count() == 3


def test_e3_a_walk_in_and_an_elastic_reservation_pay_from_the_allowance_too(world: World, ann: Member, mine: Allocation) -> None:
    Reservation.objects.update(kind=Kind.WALK_IN, is_elastic=True)
    world.play(NOON, THIRD)
    assert units(ann, "overrun") == 20 * SECOND_AT_TWICE
    assert not LedgerEntry.objects.exclude(account="quota").exists()


def test_e3_time_that_is_not_proved_is_not_charged(world: World, ann: Member, mine: Allocation) -> None:
    """The host is silent for ten minutes in between: nobody knows who was there."""
    world.play(NOON, GRACE_OVER + 5 * MINUTE)
    back = GRACE_OVER + 15 * MINUTE
    world.play(back, back + 5 * MINUTE)
    world.on[0] = []
    world.play(back + 5 * MINUTE + PERIOD, back + 6 * MINUTE)
    assert units(ann, "overrun") == 10 * 60 * SECOND_AT_TWICE


def test_e3_who_leaves_within_the_grace_pays_nothing(world: World, ann: Member, mine: Allocation) -> None:
    world.play(NOON, GRACE_OVER - PERIOD)
    world.on[0] = []
    world.play(GRACE_OVER, GRACE_OVER + 5 * MINUTE)
    assert units(ann, "overrun") == 0


def test_i1_on_a_card_in_maintenance_nothing_is_charged_and_the_gate_says_why(
    world: World, ann: Member, mine: Allocation
) -> None:
    gpu = world.gpu()
    gpu.service = gpu.Service.OUT_OF_SERVICE
    gpu.save()
    world.play(NOON, THIRD + MINUTE)
    assert units(ann, "overrun") == 0
    assert list(GateEntry.objects.filter(act="charge").values_list("reason", flat=True)) == ["maintenance"]


def test_e3_whom_it_kept_waiting_gets_their_time_back_from_their_start(
    world: World, ann: Member, mine: Allocation
) -> None:
    """AT-10: the one who stays on is charged once, the next one pays for nothing they could not use."""
    bo = world.member("bo", 2002)
    theirs = world.book(bo, NOON, NOON + 4 * HOUR)
    world.play(NOON - MINUTE, THIRD)
    lost = 10 * 60 + 20
    assert units(bo, "lost") == -lost * 100 * 100
    world.play(THIRD + PERIOD, THIRD + MINUTE)
    world.on[0] = [process(200, 2002)]
    world.play(THIRD + MINUTE + PERIOD, THIRD + 2 * MINUTE)
    assert units(bo, "lost") == -(lost + 60) * 100 * 100
    theirs.refresh_from_db()
    assert sum(one[2] == 0 for one in theirs.price) >= 1, "that time costs nothing from now on"
    assert Demerit.objects.get().member == ann


def test_e3_what_a_voided_overrun_was_charged_comes_back_and_is_not_charged_again(
    world: World, ann: Member, mine: Allocation
) -> None:
    world.book(world.member("bo", 2002), NOON, NOON + 4 * HOUR)
    world.play(NOON, THIRD)
    demerit = Demerit.objects.get()
    case = conduct.dispute(demerit.pk, "It was not me.", by=ann, now=THIRD)
    arbitration.rule(case.pk, Ruling.Outcome.ACCEPTED, "Right.", by=make.arbiter(), version=1, now=THIRD + PERIOD)
    assert units(ann, "overrun") == 0
    assert AuditEntry.objects.get(verb="return_overrun").reason == "void"
    world.play(THIRD + 2 * PERIOD, THIRD + 20 * MINUTE)
    assert units(ann, "overrun") == 0


def test_e3_undoing_a_release_returns_what_was_charged_since(world: World, ann: Member) -> None:
    make.lab(overrun_grace_s=5 * 60)
    mine = world.book(ann, NOON - 2 * HOUR, NOON + HOUR)
    world.play(NOON - MINUTE, NOON - PERIOD)
    changes.release(mine.reservation_id, by=ann, version=None, now=NOON, knowing_it_runs=True)
    world.play(NOON, NOON + 8 * MINUTE)
    assert units(ann, "overrun") > 0
    changes.undo_release(mine.reservation_id, by=ann, version=None, now=NOON + 9 * MINUTE)
    assert units(ann, "overrun") == 0
    assert Reservation.objects.get().status == Status.ACTIVE


def test_e3_a_balance_below_zero_is_carried_on_to_the_next_week(world: World, ann: Member, mine: Allocation) -> None:
    """Ann has used her 100 hours; the overrun costs two more. They weigh on the week after, until it is paid off."""
    LedgerEntry.objects.create(
        member=ann, period=WEEK, units=100 * UNITS_PER_GPU_HOUR, reason="booked", reservation=mine.reservation, at=NOON
    )
    LedgerEntry.objects.create(
        member=ann, period=WEEK, units=2 * UNITS_PER_GPU_HOUR, reason="overrun", reservation=mine.reservation, at=NOON
    )
    this, following = queries.balances(ann, queries.lab_facts(), NOON)
    assert (this.used, this.left, this.debt) == (102 * UNITS_PER_GPU_HOUR, 0, 0)
    assert (following.left, following.debt) == (98 * UNITS_PER_GPU_HOUR, 2 * UNITS_PER_GPU_HOUR)
    later = WEEK + timedelta(days=14)
    assert queries.account(ann, None, [later], queries.lab_facts()).used == {later: 0}


def test_e3_one_charge_per_card_and_end_is_noted_beside_the_ledger(world: World, ann: Member, mine: Allocation) -> None:
    world.play(NOON, THIRD)
    note = OverrunCharge.objects.get()
    assert (note.allocation, note.ended, note.until) == (mine, NOON, THIRD)
    assert note.units == {WEEK.isoformat(): 20 * SECOND_AT_TWICE}
