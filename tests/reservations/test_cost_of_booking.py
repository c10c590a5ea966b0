"""What one act costs the database: a number of queries that no amount of stored rows changes, each led by an index."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection

from reservations.models import (
    Allocation,
    AuditEntry,
    FormerAllocation,
    IdempotencyKey,
    LedgerEntry,
    Notification,
    Reservation,
)
from reservations.services import booking, changes, extension, moving
from tests.factories import NOW, at, cards, lab, member, reservation

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
PEOPLE, CARDS, EACH = 40, 8, 1000  # of each card a thousand reservations: forty thousand rows with what belongs to them
BIG = {
    "reservations_reservation", "reservations_allocation", "reservations_ledgerentry", "reservations_auditentry",
    "reservations_notification", "reservations_formerallocation", "reservations_idempotencykey",
}
# Over the few rows that still hold or that were displaced: read whole they are small, however much is stored.
SPARSE = {"reservation_due", "reservation_displaced_by", "reservation_instead_of"}
# The most queries of each act, on either database, with those of transaction and lock.
MOST = {"by name": 36, "by count": 35, "displacing": 82, "extend": 50, "move": 60, "cancel": 26}

Query = tuple[str, Any]


class Stage:
    """Eight cards of a pool, and acts on days that are free of the crowd's reservations."""

    def __init__(self) -> None:
        lab(displacement=True, elastic=True, open_future=1000, cards_at_once=1000, opens_days=60)
        self.gpus = cards(CARDS)
        self.times = 0

    def acts(self) -> dict[str, Callable[[], Any]]:
        """Each act with people and on a day of its own, so that it does not matter what was done before."""
        self.times += 1
        day, key = 10 + 72 * self.times, f"key-{self.times}-"
        who, *others = (member() for _ in range(5))
        longer, moved, called_off = (
            reservation(others[n], self.gpus[2 + n : 3 + n], day, day + 2) for n in range(3)
        )
        for gpu in self.gpus[:7]:  # nothing equal is free, so that the weaker one makes room
            reservation(others[3], [gpu], day + 30, day + 40)
        reservation(others[3], self.gpus[7:], day + 30, day + 32, tier="exploration")

        def book(name: str, start: float, end: float, **asked: Any) -> Reservation:
            request = booking.BookingRequest(start=at(start), end=at(end), key=key + name, **{"card_ids": (), **asked})
            return booking.reserve(who, request, now=NOW)

        def change(act: Callable[..., Any], row: Reservation, *arguments: Any, **named: Any) -> Any:
            return act(row.pk, *arguments, by=row.holder, version=None, now=NOW, **named)

        return {
            "by name": lambda: book("name", day, day + 2, card_ids=tuple(gpu.pk for gpu in self.gpus[:2])),
            "by count": lambda: book("count", day + 4, day + 6, count=2, pool_id=self.gpus[0].pool_id),
            "displacing": lambda: book("over", day + 30, day + 31, card_ids=(self.gpus[7].pk,)),
            "extend": lambda: change(extension.extend, longer, at(day + 3), key=key + "longer"),
            "move": lambda: change(moving.move, moved, start=at(day + 10), end=at(day + 12), key=key + "moved"),
            "cancel": lambda: change(changes.cancel, called_off),
        }

    def fill(self) -> None:
        """A crowd's two years: what is over, and what is booked ahead on days without acts."""
        crowd = [member() for _ in range(PEOPLE)]
        spans = [at(-6 * n) for n in range(2, EACH - 20)] + [at(54 * 24 + 6 * n) for n in range(22)]
        rows, kept, units, audits, messages = [], [], [], [], []
        for number, start in enumerate(spans):
            status = "finished" if start < NOW else "booked"
            for gpu in self.gpus:
                holder = crowd[(number + gpu.index) % PEOPLE]
                end = start + 5 * HOUR
                rows.append(
                    Reservation(
                        holder=holder, status=status, tier="regular", rank_tier=1, start=start, end=end,
                        booked_at=min(start, NOW) - HOUR,
                    )
                )
                kept.append(Allocation(gpu=gpu, status=status, start=start, end=end, weight=100))
        rows = Reservation.objects.bulk_create(rows, batch_size=500)
        for row, one in zip(rows, kept, strict=True):
            one.reservation = row
            period = row.start.date() - timedelta(days=row.start.weekday())
            units.append(
                LedgerEntry(
                    member=row.holder, period=period, units=36_000_000, reason="booked", reservation=row, at=row.booked_at
                )
            )
            audits.append(
                AuditEntry(
                    at=row.booked_at, actor=row.holder, verb="reserve", subject="reservation", subject_id=row.pk, change={}
                )
            )
            messages.append(
                Notification(
                    key=f"ending:{row.pk}:v1", kind="ending", member=row.holder, reservation=row, reservation_version=1,
                    due_at=row.end, state="sent" if row.status == "finished" else "due",
                )
            )
        before = [
            FormerAllocation(reservation=one.reservation, version=0, gpu=one.gpu, start=one.start, end=one.end, weight=100)
            for one in kept
        ]
        keys = [
            IdempotencyKey(actor=row.holder, key=f"crowd-{row.pk}", fingerprint="0" * 64, reservation=row, at=row.booked_at)
            for row in rows
        ]
        for model, made in (
            (Allocation, kept), (FormerAllocation, before), (LedgerEntry, units), (AuditEntry, audits), (Notification, messages),
            (IdempotencyKey, keys),
        ):
            model._default_manager.bulk_create(made, batch_size=500)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")


@contextmanager
def queries_of() -> Iterator[list[Query]]:
    found: list[Query] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        found.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield found


def whole_tables(query: Query) -> list[str]:
    """The big tables that the database reads from end to end for this query, each with the line of the plan that says so."""
    sql, params = query
    if not sql.lstrip().startswith(("SELECT", "UPDATE", "DELETE")):
        return []
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}", params)
            lines = [row[3] for row in cursor.fetchall()]
            names = aliases(sql)
            return [
                line for line in lines if line.startswith("SCAN ") and names.get(line.split()[1], line.split()[1]) in BIG
            ]
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
        plan = cursor.fetchone()[0]
        return list(scans((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))


def aliases(sql: str) -> dict[str, str]:
    """What Django calls a table that it reads a second time."""
    words = sql.replace('"', "").replace(",", " ").split()
    return {after: name for name, after in pairwise(words) if name in BIG}


def scans(node: dict[str, Any]) -> Iterator[str]:
    table, kind = node.get("Relation Name"), node["Node Type"]
    whole = kind.startswith("Index") and "Index Cond" not in node and node.get("Index Name") not in SPARSE
    if table in BIG and (kind == "Seq Scan" or whole):
        yield f"{kind} on {table}"
    for inner in node.get("Plans", ()):
        yield from scans(inner)


def told(act: str, count: int, found: list[Query]) -> str:
    return f"{act}: {count} queries\n" + "\n".join(sql[:200] for sql, _ in found)


def test_queries_are_as_many_whatever_is_stored_and_each_finds_its_rows_by_an_index() -> None:
    stage = Stage()
    stage.acts()["by name"]()  # what is read once in a process has been read
    small: dict[str, int] = {}
    for name, act in stage.acts().items():
        with queries_of() as found:
            act()
        small[name] = len(found)
    stage.fill()
    for name, act in stage.acts().items():
        with queries_of() as found:
            act()
        assert len(found) == small[name], told(name, small[name], found)
        assert len(found) <= MOST[name], told(name, len(found), found)
        led_astray = {sql[:300]: lines for sql, params in found if (lines := whole_tables((sql, params)))}
        assert not led_astray, f"{name}: {led_astray}"


def test_control_a_query_without_an_index_is_noticed() -> None:
    stage = Stage()
    stage.fill()
    with queries_of() as found:
        list(Allocation.objects.filter(weight=7))
        list(LedgerEntry.objects.filter(units=7, reservation__note="x"))
    assert [bool(whole_tables(query)) for query in found] == [True, True]
    with queries_of() as found:
        list(Allocation.objects.filter(gpu=stage.gpus[0], end__gt=NOW))
    assert whole_tables(found[0]) == []
