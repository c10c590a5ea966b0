"""Maintenance, lost cards and what comes in their place, through the services (G5, G6, E3)."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Sum

from reservations import queries, tasks
from reservations.models import (
    Allocation,
    AuditEntry,
    CardState,
    Demerit,
    FreedSlot,
    Gpu,
    HourGrant,
    LedgerEntry,
    Maintenance,
    MaintenanceCard,
    Member,
    Notification,
    Project,
    Reservation,
    WaitlistEntry,
)
from reservations.queries import LOST_AHEAD
from reservations.rules.interval import Interval
from reservations.rules.quota import UNITS_PER_GPU_HOUR
from reservations.rules.refusal import Code, Refused
from reservations.services import booking, changes, extension, interrupting, inventory, maintenance, replacing, returning
from tests import factories
from tests.factories import NOW, at

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = UNITS_PER_GPU_HOUR
# NOW is Monday 14:00 in the lab. Tuesday is not firm before 20:00: its midnight is 10 hours from NOW.


@pytest.fixture(autouse=True)
def _lab(db: None) -> None:
    factories.lab()


@pytest.fixture
def gpus() -> list[Gpu]:
    found = factories.cards(2)
    CardState.objects.bulk_create(
        CardState(gpu=gpu, state=CardState.State.FREE, since=NOW, sampled_at=NOW) for gpu in found
    )
    return found


@pytest.fixture
def lin() -> Member:
    return factories.member("Lin")


@pytest.fixture
def boss() -> Member:
    return factories.admin("Boss")


def announce(by: Member, gpus: list[Gpu], start: float | None, end: float, **fields: Any) -> Maintenance:
    asked = {"reason": "new fan", "urgent": False, "now": NOW, **fields}
    return maintenance.announce(
        [gpu.pk for gpu in gpus], None if start is None else at(start), at(end), by=by, **asked
    )


def again(row: Reservation) -> Reservation:
    return Reservation.objects.get(pk=row.pk)


def used(member: Member) -> int:
    rows = LedgerEntry.objects.filter(member=member, account="quota")
    return rows.aggregate(units=Sum("units"))["units"] or 0


def told(member: Member) -> list[str]:
    kinds = ["displaced", "placed", "interrupted", "swapped", "maintenance"]
    return list(Notification.objects.filter(member=member, kind__in=kinds).order_by("pk").values_list("kind", flat=True))


def lose(gpu: Gpu, how: str = "gone", since: float = -0.25) -> None:
    CardState.objects.filter(gpu=gpu).update(lost_since=at(since), lost_how=how, state="offline")


def refused(act: Any) -> list[Code]:
    with pytest.raises(Refused) as problem:
        act()
    return problem.value.codes


# --- planned ----------------------------------------------------------------------------------------------------------


def test_g5_planned_maintenance_begins_after_what_is_active_and_firm_and_says_when(
    gpus: list[Gpu], lin: Member, boss: Member
) -> None:
    active = factories.reservation(lin, [gpus[0]], None, 2)
    firm = factories.reservation(lin, [gpus[1]], 5, 8)
    found = maintenance.effect([gpu.pk for gpu in gpus], at(1), at(30), urgent=False, now=NOW)
    assert found.times == {gpus[0].pk: Interval(at(2), at(30)), gpus[1].pk: Interval(at(8), at(30))}
    assert (found.begins, [one.pk for one in found.waited_for]) == (at(8), [active.pk, firm.pk])
    assert not found.displaced
    announce(boss, gpus, 1, 30)
    assert (again(active).status, again(firm).status, told(lin)) == ("active", "booked", [])
    assert list(MaintenanceCard.objects.order_by("gpu").values_list("start", flat=True)) == [at(2), at(8)]


def test_g5_what_is_not_firm_makes_room_its_charge_comes_back_and_its_holder_is_told_why(
    gpus: list[Gpu], lin: Member, boss: Member
) -> None:
    """BT-15: who is affected is told once, and nobody gets a point for the displaced time."""
    row = factories.reservation(lin, [gpus[0]], 20, 24, may_move=False)
    announce(boss, [gpus[0]], 22, 30)
    assert (again(row).status, used(lin), told(lin)) == ("displaced", 0, ["displaced"])
    entry = AuditEntry.objects.get(verb="displaced")
    assert entry.change["cause"] == "maintenance"
    assert not Demerit.objects.exists()


def test_g5_what_may_move_is_moved_out_of_the_maintenance(gpus: list[Gpu], lin: Member, boss: Member) -> None:
    row = factories.reservation(lin, [gpus[0]], 20, 24, may_move=True)
    announce(boss, gpus, 19, 30)
    assert (again(row).status, again(row).start, told(lin)) == ("booked", at(30), ["placed"])


def test_g5_e4_what_is_elastic_never_freezes_and_makes_room(gpus: list[Gpu], lin: Member, boss: Member) -> None:
    row = factories.reservation(lin, [gpus[0]], 3, 5, may_move=False)
    Reservation.objects.filter(pk=row.pk).update(is_elastic=True)
    announce(boss, [gpus[0]], 2, 6)
    assert again(row).status == "displaced"


def test_g5_a_maintenance_with_no_time_left_after_what_is_firm_is_refused_until_when(
    gpus: list[Gpu], lin: Member, boss: Member
) -> None:
    factories.reservation(lin, [gpus[0]], None, 6)
    with pytest.raises(Refused) as problem:
        announce(boss, [gpus[0]], 1, 5)
    (reason,) = problem.value.refusals
    assert (reason.code, reason.facts["until"]) == (Code.MAINTENANCE_WAITS, at(6))
    assert not Maintenance.objects.exists()


def test_g5_bookings_extensions_and_moves_into_a_maintenance_are_refused_with_its_time(
    gpus: list[Gpu], lin: Member, boss: Member
) -> None:
    row = factories.reservation(lin, [gpus[0]], None, 2)
    announce(boss, [gpus[0]], 4, 6)
    with pytest.raises(Refused) as problem:
        factories.reservation(lin, [gpus[0]], 3, 5)
    (reason,) = problem.value.refusals
    assert (reason.code, reason.rule, reason.facts["start"], reason.facts["end"]) == (Code.MAINTENANCE, "G5", at(4), at(6))
    assert extension.longest_end(row, now=NOW) == at(4)
    assert Code.MAINTENANCE in refused(
        lambda: extension.extend(row.pk, at(5), by=lin, version=None, now=NOW)
    )
    factories.reservation(lin, [gpus[0]], 6, 8)
    by_count = booking.BookingRequest((), at(3), at(5), count=1, pool_id=gpus[0].pool_id)
    made = booking.reserve(lin, by_count, now=NOW)
    assert made.allocations.get().gpu == gpus[1], "a request by count goes round it"


def test_g5_announcing_twice_is_one_maintenance_and_another_on_the_same_card_is_refused(
    gpus: list[Gpu], boss: Member
) -> None:
    first = announce(boss, [gpus[0]], 4, 6)
    assert announce(boss, [gpus[0]], 4, 6) == first
    assert refused(lambda: announce(boss, gpus, 5, 7)) == [Code.MAINTENANCE_TWICE]
    assert Maintenance.objects.count() == 1


def test_g5_what_was_shown_is_what_is_announced(gpus: list[Gpu], lin: Member, boss: Member) -> None:
    seen = maintenance.effect([gpus[0].pk], at(20), at(30), urgent=False, now=NOW).seen
    factories.reservation(lin, [gpus[0]], 22, 24)
    assert refused(lambda: announce(boss, [gpus[0]], 20, 30, seen=seen)) == [Code.STALE]
    assert not Maintenance.objects.exists()


def test_g5_ended_early_the_cards_can_be_booked_again_and_called_off_it_leaves_nothing(
    gpus: list[Gpu], lin: Member, boss: Member
) -> None:
    begun, coming = announce(boss, [gpus[0]], None, 6), announce(boss, [gpus[1]], 4, 6)
    for one in (begun, coming, begun):
        maintenance.end_early(one.pk, by=boss, now=at(1))
    assert [(row.gpu, row.end) for row in MaintenanceCard.objects.all()] == [(gpus[0], at(1))]
    factories.reservation(lin, gpus, None, 5, now=at(1))
    assert AuditEntry.objects.filter(verb="end_maintenance").count() == 2
    over = announce(boss, [factories.cards(1)[0]], None, 1)
    assert refused(lambda: maintenance.end_early(over.pk, by=boss, now=at(2))) == [Code.MAINTENANCE_OVER]


def test_g5_only_admins_announce(gpus: list[Gpu], lin: Member) -> None:
    assert refused(lambda: announce(lin, gpus, 1, 2)) == [Code.NOT_YOURS]


# --- urgent -----------------------------------------------------------------------------------------------------------


def test_g5_urgent_maintenance_needs_a_reason(gpus: list[Gpu], boss: Member) -> None:
    assert refused(lambda: announce(boss, gpus, None, 2, urgent=True, reason=" ")) == [Code.TEXT_MISSING]


def test_g5_e3_urgent_maintenance_interrupts_what_is_active_and_the_rest_comes_back_without_a_point(
    gpus: list[Gpu], lin: Member, boss: Member
) -> None:
    """QT-05: interrupted after three of eight hours, three are paid, in one entry."""
    row = factories.reservation(lin, [gpus[0]], None, 8)
    announce(boss, [gpus[0]], None, 10, urgent=True, now=at(3))
    found = again(row)
    assert (found.status, found.ended_at, used(lin)) == ("interrupted", at(3), 3 * HOUR)
    assert Allocation.objects.get(reservation=row).end == at(3)
    assert LedgerEntry.objects.filter(reason="interrupted").count() == 1
    assert (told(lin), Demerit.objects.count()) == (["interrupted"], 0)
    assert not interrupting.interrupt(row.pk, now=at(3)), "once"


def test_g5_one_that_begins_later_tells_first_and_interrupts_by_the_sweep_when_it_begins(
    gpus: list[Gpu], lin: Member, boss: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = factories.reservation(lin, [gpus[0]], None, 8)
    announce(boss, [gpus[0]], 2, 10, urgent=True)
    assert (again(row).status, told(lin), interrupting.due(at(1))) == ("active", ["maintenance"], [])
    monkeypatch.setattr(tasks.timezone, "now", lambda: at(2))
    tasks.advance()
    tasks.advance()
    assert (again(row).status, again(row).ended_at, told(lin)) == ("interrupted", at(2), ["maintenance", "interrupted"])


def test_g5_g3_the_other_cards_of_a_reservation_go_on(gpus: list[Gpu], lin: Member, boss: Member) -> None:
    row = factories.reservation(lin, gpus, None, 8)
    announce(boss, [gpus[0]], None, 10, urgent=True, now=at(2))
    found = again(row)
    assert (found.status, used(lin), told(lin)) == ("active", (2 + 8) * HOUR, ["interrupted"])
    assert [(one.status, one.end) for one in found.allocations.order_by("gpu")] == [("interrupted", at(2)), ("active", at(8))]
    changes.release(row.pk, by=lin, version=None, now=at(3))
    assert used(lin) == (2 + 3) * HOUR, "only the card that went on is released"
    changes.undo_release(row.pk, by=lin, version=None, now=at(3) + timedelta(minutes=1))
    statuses = found.allocations.order_by("gpu").values_list("status", flat=True)
    assert (list(statuses), used(lin)) == (["interrupted", "active"], 10 * HOUR)


def test_g5_what_is_firm_goes_to_an_equal_free_card_at_the_same_time_and_price(
    gpus: list[Gpu], lin: Member, boss: Member
) -> None:
    row = factories.reservation(lin, [gpus[0]], 3, 6)
    announce(boss, [gpus[0]], 2, 10, urgent=True)
    found = again(row)
    assert (found.status, found.start, found.allocations.get().gpu) == ("booked", at(3), gpus[1])
    assert (used(lin), told(lin), found.version) == (3 * HOUR, ["swapped"], 2)


def test_g5_without_an_equal_card_it_is_displaced(gpus: list[Gpu], lin: Member, boss: Member) -> None:
    row = factories.reservation(lin, [gpus[0]], 3, 6, may_move=False)
    announce(boss, gpus, 2, 10, urgent=True)
    assert (again(row).status, used(lin), told(lin)) == ("displaced", 0, ["displaced"])


# --- lost cards -------------------------------------------------------------------------------------------------------


def test_g6_what_starts_within_a_day_on_a_lost_card_goes_to_an_equal_one_and_what_starts_later_stays(
    gpus: list[Gpu], lin: Member
) -> None:
    soon = factories.reservation(lin, [gpus[0]], 20, 22)
    later = factories.reservation(lin, [gpus[0]], 30, 32)
    lose(gpus[0], "silent")
    assert interrupting.swap_due(NOW) == [soon.pk]
    assert interrupting.swap_or_displace(soon.pk, now=NOW)
    assert again(soon).allocations.get().gpu == gpus[1]
    assert interrupting.swap_due(NOW) == []
    assert not interrupting.swap_or_displace(soon.pk, now=NOW), "once"
    assert (again(later).allocations.get().gpu, interrupting.swap_due(at(7))) == (gpus[0], [later.pk])


def test_g6_without_an_equal_card_it_is_displaced_or_moved(gpus: list[Gpu], lin: Member) -> None:
    other = factories.member("Wang")
    factories.reservation(other, [gpus[1]], 0.25, 30)
    fixed = factories.reservation(lin, [gpus[0]], 2, 4, may_move=False)
    moving = factories.reservation(lin, [gpus[0]], 5, 7, may_move=True)
    lose(gpus[0])
    for one in interrupting.swap_due(NOW):
        interrupting.swap_or_displace(one, now=NOW)
    assert (again(fixed).status, told(lin)) == ("displaced", ["displaced", "placed"])
    assert again(moving).start >= NOW + LOST_AHEAD, "never onto the lost card within the next day"


def test_g6_a_lost_card_interrupts_what_is_active_and_the_time_it_was_gone_comes_back_too(
    gpus: list[Gpu], lin: Member
) -> None:
    """NV-04: the present holder is told, nothing is held against anybody."""
    row = factories.reservation(lin, [gpus[0]], None, 8)
    lose(gpus[0], since=1.75)
    assert interrupting.due(at(2)) == [row.pk]
    interrupting.interrupt(row.pk, now=at(2))
    assert (again(row).status, used(lin), told(lin)) == ("interrupted", int(1.75 * HOUR), ["interrupted"])
    assert LedgerEntry.objects.filter(reason="lost").get().units == -HOUR // 4


def test_g6_i1_a_silent_host_interrupts_nobody(gpus: list[Gpu], lin: Member) -> None:
    row = factories.reservation(lin, [gpus[0]], None, 8)
    lose(gpus[0], "silent")
    assert interrupting.due(at(2)) == []
    assert not interrupting.interrupt(row.pk, now=at(2))
    assert again(row).status == "active"
    extension.extend(row.pk, at(9), by=lin, version=None, now=at(2))


def test_g6_a_lost_card_is_not_offered_for_the_next_day(gpus: list[Gpu], lin: Member) -> None:
    lose(gpus[0])
    with pytest.raises(Refused) as problem:
        factories.reservation(lin, [gpus[0]], 3, 5)
    (reason,) = problem.value.refusals
    assert (reason.code, reason.rule, reason.facts["end"]) == (Code.CARD_LOST, "G6", NOW + LOST_AHEAD)
    factories.reservation(lin, [gpus[0]], 25, 26)
    made = booking.reserve(lin, booking.BookingRequest((), at(3), at(5), count=1, pool_id=gpus[0].pool_id), now=NOW)
    assert made.allocations.get().gpu == gpus[1]


# --- an equal card, with one press ------------------------------------------------------------------------------------


def test_g5_an_equal_free_card_is_had_with_one_press_for_the_rest_of_the_time_at_the_old_price(
    gpus: list[Gpu], lin: Member, boss: Member
) -> None:
    row = factories.reservation(lin, [gpus[0]], None, 8, purpose="inference")
    announce(boss, [gpus[0]], None, 10, urgent=True, now=at(2))
    made = replacing.take_equal(row.pk, by=lin, now=at(2.5), key="press")
    assert (made.start, made.end, made.status, made.kind, made.purpose) == (at(2.5), at(8), "active", row.kind, "inference")
    assert (made.allocations.get().gpu, made.instead_of, used(lin)) == (gpus[1], row, int(7.5 * HOUR))
    assert replacing.take_equal(row.pk, by=lin, now=at(3), key="press") == made
    assert refused(lambda: replacing.take_equal(row.pk, by=lin, now=at(3), key="other")) == [Code.NOTHING_LOST]


def test_g5_where_none_is_free_it_says_so_and_where_nothing_was_lost_too(gpus: list[Gpu], lin: Member, boss: Member) -> None:
    row = factories.reservation(lin, [gpus[0]], None, 8)
    assert refused(lambda: replacing.take_equal(row.pk, by=lin, now=at(1), key="a")) == [Code.NOTHING_LOST]
    announce(boss, gpus, None, 10, urgent=True, now=at(2))
    assert refused(lambda: replacing.take_equal(row.pk, by=lin, now=at(2), key="b")) == [Code.NO_EQUAL_CARD]
    assert refused(lambda: replacing.take_equal(row.pk, by=lin, now=at(8), key="c")) == [Code.NOTHING_LOST]
    stranger = factories.member("Stranger")
    assert refused(lambda: replacing.take_equal(row.pk, by=stranger, now=at(2), key="d")) == [Code.NOT_YOURS]


def test_g5_a_card_that_nobody_knows_to_be_free_is_not_picked(gpus: list[Gpu], lin: Member, boss: Member) -> None:
    row = factories.reservation(lin, [gpus[0]], None, 8)
    CardState.objects.filter(gpu=gpus[1]).update(state="unknown")
    announce(boss, [gpus[0]], None, 10, urgent=True, now=at(2))
    assert refused(lambda: replacing.take_equal(row.pk, by=lin, now=at(2), key="a")) == [Code.NO_EQUAL_CARD]


# --- time lost to a failed host ---------------------------------------------------------------------------------------


def test_e3_time_lost_to_a_failed_host_comes_back_once(gpus: list[Gpu], lin: Member) -> None:
    factories.reservation(lin, gpus, None, 8)
    down = Interval(at(2), at(3))
    for _ in range(2):
        returning.return_downtime(gpus[0].host_id, down, now=at(4))
    assert (used(lin), LedgerEntry.objects.filter(reason="lost").count()) == (14 * HOUR, 2)
    assert AuditEntry.objects.filter(verb="return_lost").count() == 2


def test_e3_d2_free_time_that_was_lost_is_free_again(gpus: list[Gpu], lin: Member) -> None:
    factories.lab(walk_in_free_hours=16)
    factories.reservation(lin, [gpus[0]], None, 8)
    returning.return_downtime(gpus[0].host_id, Interval(at(2), at(3)), now=at(4))
    free = LedgerEntry.objects.filter(account="free").aggregate(seconds=Sum("units"))["seconds"]
    assert (free, used(lin)) == (7 * 3600, 0)


# --- a replacement ----------------------------------------------------------------------------------------------------


def test_g6_a_replacement_takes_over_what_is_to_come_and_the_old_card_goes_out_of_service(
    gpus: list[Gpu], lin: Member, boss: Member
) -> None:
    active = factories.reservation(lin, [gpus[0]], None, 2)
    coming = factories.reservation(lin, [gpus[0]], 3, 5)
    moved = inventory.replace(gpus[0].pk, gpus[1].pk, by=boss, now=NOW)
    assert moved == [coming.pk]
    assert (again(coming).allocations.get().gpu, again(active).allocations.get().gpu) == (gpus[1], gpus[0])
    assert Gpu.objects.get(pk=gpus[0].pk).service == "out_of_service"
    assert (told(lin), used(lin)) == (["swapped"], 4 * HOUR)
    assert inventory.replace(gpus[0].pk, gpus[1].pk, by=boss, now=NOW) == []


def test_g6_a_replacement_that_is_not_free_or_no_other_card_takes_over_nothing(
    gpus: list[Gpu], lin: Member, boss: Member
) -> None:
    coming = factories.reservation(lin, [gpus[0]], 3, 5)
    factories.reservation(factories.member(), [gpus[1]], 4, 6)
    assert refused(lambda: inventory.replace(gpus[0].pk, gpus[1].pk, by=boss, now=NOW)) == [Code.CARD_TAKEN]
    for other in (gpus[0].pk, 987_654):
        assert refused(lambda other=other: inventory.replace(gpus[0].pk, other, by=boss, now=NOW)) == [Code.NOT_A_REPLACEMENT]
    assert refused(lambda: inventory.replace(gpus[0].pk, gpus[1].pk, by=lin, now=NOW)) == [Code.NOT_YOURS]
    assert again(coming).allocations.get().gpu == gpus[0]


def test_g5_nothing_is_held_against_anybody_in_maintenance(gpus: list[Gpu], boss: Member) -> None:
    announce(boss, [gpus[0]], 1, 2)
    assert queries.in_maintenance(gpus[0].pk, Interval(at(0), at(1.5)))
    assert not queries.in_maintenance(gpus[0].pk, Interval(at(0), at(1)))
    assert not queries.in_maintenance(gpus[1].pk, Interval(at(0), at(2)))


def test_e3_hours_that_maintenance_returns_late_in_a_week_stay_valid_for_seven_days(
    gpus: list[Gpu], lin: Member, boss: Member
) -> None:
    """Saturday 14:00: the week ends in 34 hours. What is returned is Lin's for a week, and no room in the week that ends."""
    saturday = at(120)
    row = factories.reservation(lin, [gpus[0]], None, 128, now=saturday)
    announce(boss, [gpus[0]], 122, 130, urgent=True, now=at(122))
    assert again(row).status == "interrupted"
    grant = HourGrant.objects.get()
    assert (grant.member, grant.units, grant.ends_at) == (lin, 6 * HOUR, at(122) + timedelta(days=7))
    (this, following) = queries.balances(lin, queries.lab_facts(), at(122))
    assert (this.used, this.extra, following.extra) == (8 * HOUR, 6 * HOUR, 6 * HOUR)
    made = replacing.take_equal(row.pk, by=lin, now=at(123), key="press")
    assert made.status == "active"


def test_e3_hours_returned_early_in_a_week_are_the_week_s(gpus: list[Gpu], lin: Member, boss: Member) -> None:
    factories.reservation(lin, [gpus[0]], None, 8)
    announce(boss, [gpus[0]], 2, 10, urgent=True, now=at(2))
    assert not HourGrant.objects.exists()
    tasks.advance()


def test_b5_what_a_project_paid_comes_back_to_it_and_pays_for_the_equal_card(
    gpus: list[Gpu], lin: Member, boss: Member
) -> None:
    project = Project.objects.create(name="Vision", advisor=boss)
    row = factories.reservation(lin, [gpus[0]], None, 8)
    Reservation.objects.filter(pk=row.pk).update(project=project, project_pays=True)
    LedgerEntry.objects.create(
        member=lin, project=project, period=LedgerEntry.objects.get().period, units=0, reason="booked", reservation=row, at=NOW
    )
    announce(boss, [gpus[0]], 2, 10, urgent=True, now=at(2))
    made = replacing.take_equal(row.pk, by=lin, now=at(2), key="press")
    assert (made.project, made.project_pays) == (project, True)
    assert set(LedgerEntry.objects.filter(reason="interrupted").values_list("project", flat=True)) == {project.pk}
    assert set(made.ledger.values_list("project", flat=True)) == {project.pk}


@pytest.mark.parametrize("urgent", [False, True])
def test_g5_k5_what_is_only_offered_is_withdrawn_and_said_to_be(
    gpus: list[Gpu], lin: Member, boss: Member, urgent: bool
) -> None:
    row = factories.reservation(lin, [gpus[0]], 2, 4)
    Reservation.objects.filter(pk=row.pk).update(status="offered", offer_until=at(1))
    row.allocations.update(status="offered")
    announce(boss, [gpus[0]], 1, 6, urgent=urgent)
    assert (again(row).status, used(lin)) == ("passed", 0)
    assert Notification.objects.filter(member=lin, kind="offer_over").count() == 1


def test_g5_k5_what_an_early_end_frees_goes_to_whoever_waits(gpus: list[Gpu], lin: Member, boss: Member) -> None:
    made = announce(boss, [gpus[0]], 1, 6)
    WaitlistEntry.objects.create(
        member=lin, tier="regular", count=1, length_s=3600, earliest=NOW, latest=at(6), created_at=NOW,
        fingerprint="x",
    )
    maintenance.end_early(made.pk, by=boss, now=NOW)
    slot = FreedSlot.objects.get()
    assert (slot.gpu, slot.start, slot.end) == (gpus[0], at(1), at(6))


def test_h2_who_was_given_another_card_is_given_the_time_of_what_the_system_placed(gpus: list[Gpu], lin: Member) -> None:
    """The clock of a no-show starts after the message of the swap was delivered, as after any word of what LabGPU did."""
    row = factories.reservation(lin, [gpus[0]], 2, 4)
    lose(gpus[0])
    interrupting.swap_or_displace(row.pk, now=NOW)
    (before,) = queries.attendances(at(2.1), only=[row.pk])
    assert (before.asked.placed_by_system, before.asked.told_at) == (True, None)
    Notification.objects.filter(kind="swapped").update(state="sent", sent_at=at(0.1))
    (after,) = queries.attendances(at(2.1), only=[row.pk])
    assert after.asked.told_at == at(0.1)
