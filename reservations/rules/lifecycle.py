"""The statuses of a reservation and the moves between them (domain.md H)."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    REQUESTED = "requested"
    OFFERED = "offered"
    BOOKED = "booked"
    ACTIVE = "active"
    FINISHED = "finished"
    RELEASED = "released"
    FORFEITED = "forfeited"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    DISPLACED = "displaced"
    DECLINED = "declined"
    LAPSED = "lapsed"
    PASSED = "passed"


# What holds its cards. The database's overlap guard covers exactly these.
HOLDING = (Status.OFFERED, Status.BOOKED, Status.ACTIVE)

_MOVES: dict[Status, frozenset[Status]] = {
    Status.REQUESTED: frozenset({Status.BOOKED, Status.DECLINED, Status.CANCELLED, Status.LAPSED}),
    Status.OFFERED: frozenset({Status.BOOKED, Status.PASSED}),
    Status.BOOKED: frozenset({Status.ACTIVE, Status.CANCELLED, Status.DISPLACED}),
    Status.ACTIVE: frozenset({Status.FINISHED, Status.RELEASED, Status.FORFEITED, Status.INTERRUPTED}),
    # H0: the only ways out of a final status, each within its time (the caller checks the time): undoing a release,
    # extending in the grace, undoing what displaced it.
    Status.RELEASED: frozenset({Status.ACTIVE}),
    Status.FINISHED: frozenset({Status.ACTIVE}),
    Status.DISPLACED: frozenset({Status.BOOKED}),
}


def can_become(old: Status, new: Status) -> bool:
    """Whether the law knows a way from `old` to `new` (H, H0). Times and rights are checked elsewhere."""
    return new in _MOVES.get(old, frozenset())


def is_final(status: Status) -> bool:
    """Whether a reservation in this status has run its course (it may still be undone by H0)."""
    return status not in (Status.REQUESTED, *HOLDING)
