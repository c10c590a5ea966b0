"""Ways around the limits that the plain model showed: each is closed."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from reservations.models import Reservation
from reservations.rules.refusal import Code, Refused
from reservations.services import booking, changes, extension
from tests.rig import world

NOW = world.MORNING
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def book(lab: world.World, cards: int, start: datetime, hours: int, first: int = 0) -> Reservation:
    chosen = tuple(lab.cards[first : first + cards])
    return booking.reserve(lab.member(), booking.BookingRequest(chosen, start, start + hours * HOUR), now=NOW)


@pytest.mark.django_db
def test_an_extension_counts_the_cards_held_beside_it() -> None:
    lab = world.make(members=1, cards=4, cards_at_once=3)
    first = book(lab, 2, NOW + HOUR, 1)
    book(lab, 2, NOW + 3 * HOUR, 1, first=2)
    assert extension.longest_end(first, now=NOW) == NOW + 3 * HOUR
    with pytest.raises(Refused) as refused:
        extension.extend(first.pk, NOW + 3 * HOUR + 15 * MINUTE, by=lab.member(), version=None, now=NOW)
    assert refused.value.codes == [Code.CARDS_AT_ONCE]
    assert refused.value.refusals[0].facts == {"most": 3, "would": 4}
    extension.extend(first.pk, NOW + 3 * HOUR, by=lab.member(), version=None, now=NOW)


@pytest.mark.django_db
def test_an_undo_finds_the_hours_spent_elsewhere() -> None:
    lab = world.make(members=1, cards=2, weekly_hours=10)
    first = book(lab, 1, NOW, 10)
    changes.release(first.pk, by=lab.member(), version=None, now=NOW)
    second = book(lab, 1, NOW, 10, first=1)
    with pytest.raises(Refused) as refused:
        changes.undo_release(first.pk, by=lab.member(), version=None, now=NOW + MINUTE)
    assert refused.value.codes == [Code.QUOTA]
    changes.release(second.pk, by=lab.member(), version=None, now=NOW + MINUTE)
    with pytest.raises(Refused):  # a minute was spent
        changes.undo_release(first.pk, by=lab.member(), version=None, now=NOW + MINUTE)


@pytest.mark.django_db
def test_an_undo_counts_the_cards_held_beside_it() -> None:
    lab = world.make(members=1, cards=3, cards_at_once=2)
    first = book(lab, 2, NOW, 2)
    changes.release(first.pk, by=lab.member(), version=None, now=NOW)
    book(lab, 1, NOW + HOUR, 1, first=2)
    with pytest.raises(Refused) as refused:
        changes.undo_release(first.pk, by=lab.member(), version=None, now=NOW + MINUTE)
    assert refused.value.codes == [Code.CARDS_AT_ONCE]


@pytest.mark.django_db
@pytest.mark.parametrize("swept", [True, False], ids=["after the sweep", "before the sweep"])
def test_the_grace_is_over_by_the_clock_not_by_the_sweep(swept: bool) -> None:
    lab = world.make(members=1, cards=1)
    held = book(lab, 1, NOW, 1)
    if swept:
        booking.advance_one(held.pk, now=held.end)
    held.refresh_from_db()
    assert extension.longest_end(held, now=held.end + 9 * MINUTE) is not None
    assert extension.longest_end(held, now=held.end + 10 * MINUTE) is None
    with pytest.raises(Refused) as refused:
        extension.extend(held.pk, held.end + HOUR, by=lab.member(), version=None, now=held.end + 10 * MINUTE)
    assert refused.value.codes == [Code.GRACE_OVER]
