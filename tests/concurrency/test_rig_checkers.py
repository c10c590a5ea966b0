"""The judges on trial: each planted fault is found by the checker whose business it is, and nothing else is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reservations.models import Reservation
from reservations.services import booking, conduct, extension
from tests.rig import checkers, databases, history, world

HOUR = timedelta(hours=1)
NOW = world.MORNING

# What is planted, and the words by which it must be found. {a} and {b}: two reservations, on cards of their own.
PLANTED = {
    "an overlap": (
        "UPDATE reservations_allocation SET gpu_id = (SELECT gpu_id FROM reservations_allocation WHERE reservation_id = {a}) "
        "WHERE reservation_id = {b}",
        ["both hold card"],
    ),
    "a missing ledger row": (
        "DELETE FROM reservations_ledgerentry WHERE reservation_id = {a} AND reason = 'extended'", ["36000000, not 72000000"],
    ),
    "an edited ledger row": (
        "UPDATE reservations_ledgerentry SET units = units + 1 WHERE reservation_id = {a} AND reason = 'booked'",
        ["72000001, not 72000000"],
    ),
    "a ledger row moved to another week": (
        "UPDATE reservations_ledgerentry SET period = '2026-02-23' WHERE reservation_id = {b}",
        ["week 2026-02-23: 36000000, not 0", "week 2026-03-02: 0, not 36000000"],
    ),
    "a charge without a cause": (
        "DELETE FROM reservations_auditentry WHERE subject_id = {a} AND verb = 'extend'",
        ["(extended) have no cause", "v2: {'reserve': 1}", "2 messages for 1 ends"],
    ),
    "a lost message": (
        "DELETE FROM reservations_notification WHERE reservation_id = {b} AND kind = 'ending'",
        ["0 messages for 1 ends", "is reminded None"],
    ),
    "a second message": (
        "UPDATE reservations_notification SET reservation_version = 2 WHERE reservation_id = {a} AND kind = 'ending'",
        ["v2 has two messages", "1 messages for 2 ends"],
    ),
    "a lost reservation": (
        "UPDATE reservations_reservation SET status = 'cancelled' WHERE id = {b};"
        "UPDATE reservations_allocation SET status = 'cancelled' WHERE reservation_id = {b};"
        "UPDATE reservations_reservation SET version = 0 WHERE id = {b}",
        ["36000000, not 0", "v0: {'reserve': 1}", "cancelled: {'reserve': 1}", "cancelled 2026"],
    ),
    "a demerit without its message": (
        "DELETE FROM reservations_notification WHERE kind = 'demerit'", ["lacks its evidence"],
    ),
}


def _scene() -> tuple[world.World, Reservation, Reservation, list[history.Event]]:
    lab = world.make(members=2, cards=2)
    made = [
        booking.reserve(lab.member(i), booking.BookingRequest((lab.cards[i],), NOW + HOUR, NOW + 2 * HOUR), now=NOW)
        for i in range(2)
    ]
    events = [_told(number, "create", row, [lab.cards[number]]) for number, row in enumerate(made)]
    longer = extension.extend(made[0].pk, NOW + 3 * HOUR, by=lab.member(0), version=1, now=NOW)
    events.append(_told(2, "extend", longer, None))
    conduct.issue_overrun(fact="overrun:1", reservation=longer, evidence={"samples": [1]}, now=NOW)
    return lab, longer, made[1], events


def _told(number: int, op: str, row: Reservation, cards: list[int] | None) -> history.Event:
    answer: dict[str, Any] = {
        "ok": True, "reservation": row.pk, "start": row.start.isoformat(), "end": row.end.isoformat(),
        "status": str(row.status), "version": row.version, **({"cards": cards} if cards else {}),
    }
    asked = {"op": op} if cards else {"op": op, "reservation": row.pk}
    return history.Event(f"c{number}", 1, asked, 2 * number, 2 * number + 1, answer)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_fault_is_found(planted: str, tmp_path: Path) -> None:
    lab, a, b, events = _scene()
    with closing(databases.connect()) as plain:
        assert checkers.all_of(plain, lab.zone, events) == []
    sql, words = PLANTED[planted]
    with databases.own_copy(tmp_path) as copy:
        databases.drop_overlap_guard(copy)
        with closing(databases.connect(copy)) as damaged:
            for statement in sql.format(a=a.pk, b=b.pk).split(";"):
                _run(damaged, statement)
            found = checkers.all_of(damaged, lab.zone, events)
    for word in words:
        assert any(word in line for line in found), found
    extra = [line for line in found if not any(word in line for word in words)]
    assert all("in the table" in line for line in extra), extra  # the moved card also contradicts what was promised


def _run(damaged: Any, statement: str) -> None:
    if isinstance(damaged, sqlite3.Connection):
        damaged.execute("PRAGMA foreign_keys = OFF")
    damaged.execute(statement)




@pytest.mark.django_db(transaction=True)
def test_a_promise_that_is_in_no_table_is_found(plain: Any) -> None:
    _, _, b, events = _scene()
    ghost = history.Event("c9", 1, {"op": "create"}, 90, 91, {**events[1].answer, "reservation": b.pk + 1000})
    assert checkers.acknowledged(plain, [*events, ghost]) == [f"reservation {b.pk + 1000} was promised to c9 and is not there"]
    assert checkers.unasked(plain, events[:1]) == [f"reservations [{b.pk}] were promised to nobody"]
    # A client killed before its answer came may have booked.
    cut_off = history.Event("c9", 1, {"op": "create"}, 90)
    assert checkers.unasked(plain, [events[0], cut_off]) == []


def test_two_promises_for_one_card_are_found_in_the_history() -> None:
    def told(reservation: int, begun: int, ended: int, start: str, end: str) -> history.Event:
        answer = {"ok": True, "reservation": reservation, "start": start, "end": end, "status": "booked", "cards": [7]}
        return history.Event(f"c{reservation}", 1, {"op": "create"}, begun, ended, answer)

    first, second = told(1, 0, 5, "10", "12"), told(2, 3, 9, "11", "13")
    assert checkers.overlaps_told([first, second]) == ["card 7 was promised to 1 and to 2 at once"]
    touching = told(2, 3, 9, "12", "13")
    assert checkers.overlaps_told([first, touching]) == []
    # Cancelled before the other asked: no promise any more.
    done = {"ok": True, "reservation": 1, "status": "cancelled"}
    cancelled = history.Event("c1", 2, {"op": "cancel", "reservation": 1}, 6, 7, done)
    assert checkers.overlaps_told([first, cancelled, told(2, 8, 9, "11", "13")]) == []
