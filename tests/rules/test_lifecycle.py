"""H, H0: which status may follow which. The table is written out by hand from the law."""

import pytest

from reservations.rules.lifecycle import HOLDING, Status, can_become, is_final

MOVES = {
    "requested": {"booked", "declined", "cancelled", "lapsed"},
    "offered": {"booked", "passed"},
    "booked": {"active", "cancelled", "displaced"},
    "active": {"finished", "released", "forfeited", "interrupted"},
    "finished": {"active"},
    "released": {"active"},
    "displaced": {"booked"},  # H0: when what displaced it is undone
}


@pytest.mark.parametrize("old", list(Status))
def test_h_exactly_these_statuses_may_follow(old: Status) -> None:
    assert {str(new) for new in Status if can_become(old, new)} == MOVES.get(str(old), set())


def test_h_offered_booked_and_active_hold_their_cards() -> None:
    assert {str(status) for status in HOLDING} == {"offered", "booked", "active"}


def test_h_what_neither_waits_nor_holds_is_final() -> None:
    assert {str(status) for status in Status if not is_final(status)} == {"requested", "offered", "booked", "active"}
