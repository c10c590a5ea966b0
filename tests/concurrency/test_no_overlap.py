"""The guard of P1 itself: what it catches, what it lets pass, and that no change of the table loses it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, migrations, models, transaction
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from reservations.models import Allocation, Member, Reservation
from reservations.models.constraints import NoOverlap
from reservations.rules.lifecycle import HOLDING, Status
from reservations.rules.refusal import Code, Refused
from reservations.services import booking
from tests.concurrency.test_race_to_book import exceptions
from tests.rig import checkers, databases, world
from tests.rig.runner import Crew, Plan

NOW = world.MORNING
HOUR = timedelta(hours=1)
MICROSECOND = timedelta(microseconds=1)


# --- on the real table ------------------------------------------------------------------------------------------------
def reservation(holder: Member, start: datetime, end: datetime, status: Status = Status.BOOKED) -> Reservation:
    return Reservation.objects.create(
        holder=holder, status=status, tier="regular", rank_tier=1, start=start, end=end, booked_at=NOW
    )


def row(lab: world.World, start: float, end: float, status: Status = Status.BOOKED, card: int = 0) -> Allocation:
    """An unsaved row of `[NOW + start, NOW + end)` hours."""
    begins, ends = NOW + start * HOUR, NOW + end * HOUR
    held = reservation(lab.member(), begins, ends, status)
    return Allocation(reservation=held, gpu_id=lab.cards[card], status=status, start=begins, end=ends, weight=100)


@pytest.fixture
def lab(db: None) -> world.World:
    lab = world.make(members=1, cards=2)
    row(lab, 10, 12).save()
    return lab


def refused(write: Callable[[], Any]) -> None:
    """The write ends in an IntegrityError that names the guard, and leaves nothing."""
    before = Allocation.objects.count()
    with pytest.raises(IntegrityError, match="no_double_booking"), transaction.atomic():
        write()
    assert Allocation.objects.count() == before


@pytest.mark.django_db
@pytest.mark.parametrize(("start", "end"), [(8, 10), (12, 14), (12, 12.5)])
def test_touching_ends_are_no_overlap(lab: world.World, start: float, end: float) -> None:
    row(lab, start, end).save()


@pytest.mark.django_db
@pytest.mark.parametrize(("start", "end"), [(9, 11), (11, 13), (10, 12), (10.5, 11), (9, 13), (11.9999, 14), (8, 10.0001)])
def test_every_kind_of_overlap_is_refused(lab: world.World, start: float, end: float) -> None:
    refused(row(lab, start, end).save)


@pytest.mark.django_db
def test_one_microsecond_counts(lab: world.World) -> None:
    late = row(lab, 12, 14)
    late.start -= MICROSECOND
    refused(late.save)
    early = row(lab, 8, 10)
    early.end += MICROSECOND
    refused(early.save)


@pytest.mark.django_db
@pytest.mark.parametrize("status", [status for status in Status if status not in HOLDING])
def test_what_does_not_hold_is_not_in_the_way(lab: world.World, status: Status) -> None:
    row(lab, 10, 12, status).save()


@pytest.mark.django_db
@pytest.mark.parametrize("status", HOLDING)
def test_a_change_into_a_status_that_holds_is_guarded(lab: world.World, status: Status) -> None:
    other = row(lab, 11, 13, Status.RELEASED)
    other.save()
    refused(lambda: Allocation.objects.filter(pk=other.pk).update(status=status))
    other.status = status
    refused(other.save)


@pytest.mark.django_db
def test_every_way_of_writing_is_guarded(lab: world.World) -> None:
    refused(lambda: Allocation.objects.bulk_create([row(lab, 14, 15), row(lab, 11, 13)]))
    refused(lambda: Allocation.objects.bulk_create([row(lab, 14, 16), row(lab, 15, 17)]))  # with each other
    other = row(lab, 12, 13)
    other.save()
    refused(lambda: Allocation.objects.filter(pk=other.pk).update(start=NOW + 11 * HOUR))
    elsewhere = row(lab, 10, 12, card=1)
    elsewhere.save()
    refused(lambda: Allocation.objects.filter(pk=elsewhere.pk).update(gpu=lab.cards[0]))
    elsewhere.gpu_id = lab.cards[0]
    refused(lambda: Allocation.objects.bulk_update([elsewhere], ["gpu"]))


@pytest.mark.django_db(transaction=True)
def test_plain_sql_is_guarded() -> None:
    """DP-04: whoever has the database has the guard, whatever program writes."""
    lab = world.make(members=1, cards=1)
    row(lab, 10, 12).save()
    other = reservation(lab.member(), NOW + 11 * HOUR, NOW + 13 * HOUR)
    sql = (
        'INSERT INTO reservations_allocation (reservation_id, gpu_id, status, start, "end", weight, price, fee) VALUES '
        f"({other.pk}, {lab.cards[0]}, 'booked', '2026-03-02 11:00:00+00', '2026-03-02 13:00:00+00', 100, '[]', '[]')"
    )
    if not databases.is_postgres():
        sql = sql.replace("+00", "")  # as Django writes instants there
    with closing(databases.connect()) as plain:
        with pytest.raises(Exception, match="no_double_booking"):
            plain.execute(sql)
        assert checkers.rows(plain, "SELECT COUNT(*) FROM reservations_allocation") == [(1,)]
        assert checkers.overlaps(plain) == []


@pytest.mark.django_db
def test_rows_that_the_guard_cannot_see_are_impossible(lab: world.World) -> None:
    """Ends before starts, empty rows and rows without an end would slip through a range; other constraints stop them."""
    for start, end in ((15, 15), (16, 15)):
        held = reservation(lab.member(), NOW + 15 * HOUR, NOW + 16 * HOUR)
        bad = Allocation(
            reservation=held, gpu_id=lab.cards[0], status="booked", start=NOW + start * HOUR, end=NOW + end * HOUR, weight=1
        )
        with pytest.raises(IntegrityError, match="start_before_end"), transaction.atomic():
            bad.save()
    fields = {name: Allocation._meta.get_field(name) for name in ("gpu", "status", "start", "end")}
    assert not any(field.null for field in fields.values())


@pytest.mark.django_db
def test_full_clean_says_it_before_the_database(lab: world.World) -> None:
    with pytest.raises(ValidationError):
        row(lab, 11, 13).full_clean()
    row(lab, 12, 13).full_clean()
    row(lab, 11, 13, Status.CANCELLED).full_clean()
    Allocation.objects.get().full_clean()  # not in its own way


# --- through changes of the table -------------------------------------------------------------------------------------
GUARD = NoOverlap(
    name="scratch_guard", key="card", start="start", end="end", status="status", holding=tuple(str(one) for one in HOLDING)
)


def made() -> list[Operation]:
    fields = [
        ("id", models.BigAutoField(primary_key=True)),
        ("card", models.IntegerField()),
        ("status", models.CharField(max_length=16)),
        ("start", models.DateTimeField()),
        ("end", models.DateTimeField()),
    ]
    return [migrations.CreateModel("Holding", fields, options={"constraints": [GUARD]})]


class Scratch:
    """A table of a scratch app and the operations done to it, each of which can be undone."""

    def __init__(self) -> None:
        self.states, self.done = [ProjectState()], list[Operation]()

    def do(self, *operations: Operation) -> None:
        for operation in operations:
            after = self.states[-1].clone()
            operation.state_forwards("scratch", after)
            with connection.schema_editor() as editor:
                operation.database_forwards("scratch", editor, self.states[-1], after)
            self.states.append(after)
            self.done.append(operation)

    def undo(self) -> None:
        operation, after = self.done.pop(), self.states.pop()
        with connection.schema_editor() as editor:
            operation.database_backwards("scratch", editor, after, self.states[-1])

    @property
    def model(self) -> Any:
        return self.states[-1].apps.get_model("scratch", "Holding")

    def guards(self) -> bool:
        """Whether the guard works, for inserts and for updates; tried on rows, not read from a catalogue."""
        table = self.model.objects
        table.all().delete()
        table.create(card=1, status="booked", start=NOW, end=NOW + HOUR)
        table.create(card=1, status="booked", start=NOW + HOUR, end=NOW + 2 * HOUR)  # touching
        worked = []
        for write in (
            lambda: table.create(card=1, status="active", start=NOW, end=NOW + HOUR),
            lambda: table.filter(start=NOW + HOUR).update(start=NOW),
        ):
            try:
                with transaction.atomic():
                    write()
                    worked.append(False)
            except IntegrityError as problem:
                worked.append("scratch_guard" in str(problem))
        assert len(set(worked)) == 1, f"half a guard: {worked}"
        return worked[0]


@pytest.fixture
def scratch(transactional_db: None) -> Iterator[Scratch]:
    scratch = Scratch()
    scratch.do(*made())
    yield scratch
    while scratch.done:
        scratch.undo()


CHANGES: dict[str, list[Operation]] = {
    "another field": [migrations.AddField("holding", "note", models.CharField(max_length=9, default=""))],
    "another field, null": [migrations.AddField("holding", "note", models.CharField(max_length=9, null=True))],
    "a wider status": [migrations.AlterField("holding", "status", models.CharField(max_length=40))],
    "an indexed start": [migrations.AlterField("holding", "start", models.DateTimeField(db_index=True))],
    "a field gone": [
        migrations.AddField("holding", "note", models.TextField(default="")), migrations.RemoveField("holding", "note"),
    ],
    "another constraint": [
        migrations.AddConstraint(
            "holding", models.CheckConstraint(condition=models.Q(start__lt=models.F("end")), name="scratch_order")
        )
    ],
    "an index": [migrations.AddIndex("holding", models.Index(fields=["card", "end"], name="scratch_index"))],
    "another name of the table": [migrations.AlterModelTable("holding", "scratch_renamed")],
    "another name of the model": [
        migrations.RenameModel("Holding", "Held"), migrations.RenameModel("Held", "Holding"),
    ],
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", CHANGES)
def test_the_guard_lives_through_migrations_and_back(scratch: Scratch, change: str) -> None:
    assert scratch.guards()
    scratch.do(*CHANGES[change])
    assert scratch.guards()
    for _ in CHANGES[change]:
        scratch.undo()
    assert scratch.guards()


@pytest.mark.django_db(transaction=True)
def test_the_guard_goes_when_it_is_removed_and_comes_back(scratch: Scratch) -> None:
    scratch.do(migrations.RemoveConstraint("holding", "scratch_guard"))
    assert not scratch.guards()
    scratch.model.objects.all().delete()  # an overlap would keep the guard from coming back on PostgreSQL
    scratch.do(migrations.AddConstraint("holding", GUARD))
    assert scratch.guards()
    scratch.undo()
    assert not scratch.guards()
    scratch.model.objects.all().delete()
    scratch.undo()
    assert scratch.guards()


@pytest.mark.django_db(transaction=True)
def test_the_installed_tables_have_the_guard(plain: Any) -> None:
    """What migrations have made in the database under test, by its catalogue."""
    if databases.is_postgres():
        sql = "SELECT conname FROM pg_constraint WHERE conrelid = 'reservations_allocation'::regclass AND contype = 'x'"
        assert checkers.rows(plain, sql) == [("no_double_booking",)]
    else:
        sql = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'reservations_allocation' ORDER BY name"
        assert checkers.rows(plain, sql) == [("no_double_booking_insert",), ("no_double_booking_update",)]


# --- many cards at once -----------------------------------------------------------------------------------------------
def eight_at_once(lab: world.World, rounds: int, clients: int) -> list[Plan]:
    """Everybody books all eight cards, in an order of their own, for hours that half overlap."""
    chance = random.Random(8)
    plans = [Plan(f"c{i:02}", member) for i, member in enumerate(lab.members[:clients])]
    for number in range(rounds):
        for plan in plans:
            start = NOW + (1 + 3 * number + chance.choice((0, 0.5, 1))) * HOUR
            plan.steps.append({
                "op": "create", "cards": chance.sample(lab.cards, 8), "start": start.isoformat(), "now": NOW.isoformat(),
                "end": (start + HOUR).isoformat(), "insist": True,
            })
    return plans


@pytest.mark.django_db(transaction=True)
def test_eight_cards_in_any_order_never_deadlock(crew: Crew, plain: Any) -> None:
    lab = world.make(members=16, cards=8)
    events = crew.race(eight_at_once(lab, 10, 16), 10)
    assert exceptions(events) == []
    assert {code for one in events for code in one.answer.get("refused", ())} <= {"card_taken"}
    assert checkers.all_of(plain, lab.zone, events) == []
    assert sum(one.ok for one in events) >= 10


if databases.is_postgres():  # SQLite has one lock, which has no order

    @pytest.mark.django_db(transaction=True)
    def test_control_cards_locked_as_asked_deadlock(crew: Crew) -> None:
        lab = world.make(members=16, cards=8)
        events = crew.race(eight_at_once(lab, 3, 16), 3, without=["lock order"])
        assert any("deadlock" in line for line in exceptions(events))


@pytest.mark.django_db
def test_two_cards_are_booked_together_or_not_at_all(lab: world.World) -> None:
    with pytest.raises(Refused) as no:
        booking.reserve(
            lab.member(), booking.BookingRequest((lab.cards[1], lab.cards[0]), NOW + 11 * HOUR, NOW + 13 * HOUR), now=NOW
        )
    assert no.value.codes == [Code.CARD_TAKEN]
    assert not Allocation.objects.filter(gpu=lab.cards[1]).exists()
