"""D6: what was displaced is offered its slot again before anybody who waits, at the old price and seniority."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from reservations import queries
from reservations.models import AuditEntry, Gpu, LedgerEntry, Member, Notification, Reservation
from reservations.rules.refusal import Code, Refused
from reservations.services import booking, changes, moving, offers, waitlist
from reservations.services.booking import BookingRequest
from reservations.services.waitlist import WishRequest
from tests import factories as make
from tests.factories import NOW, at

pytestmark = pytest.mark.django_db
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


@pytest.fixture
def card() -> Gpu:
    make.lab(displacement=True)
    host = make.host()
    host.has_reader = False
    host.save()
    return make.cards(1, host)[0]


def displaced(card: Gpu, *, now: Any = NOW, **fields: Any) -> tuple[Reservation, Reservation]:
    """Li's exploration of the day after tomorrow, and what took its place an hour later."""
    weak = make.reservation(make.member("Li"), [card], 44, 48, tier="exploration", may_move=False, now=now, **fields)
    strong = make.reservation(make.member("Wang"), [card], 44, 48, now=now + HOUR)
    weak.refresh_from_db()
    assert (weak.status, weak.displaced_by) == ("displaced", strong)
    return weak, strong


def back(weak: Reservation) -> Reservation | None:
    return Reservation.objects.filter(instead_of=weak).first()


def balance(member: Member) -> int:
    return sum(LedgerEntry.objects.filter(member=member).values_list("units", flat=True))


def waits(who: Member, now: Any, **fields: Any) -> Any:
    wanted = BookingRequest((), None, at(48), count=1, **fields)
    return waitlist.join(who, WishRequest(wanted, 4 * HOUR, at(48), at(44)), now=now)


def test_d6_the_slot_is_offered_to_whom_it_was_taken_from_before_those_who_wait(card: Gpu) -> None:
    weak, strong = displaced(card)
    entry = waits(make.member("Zhao"), at(2))
    changes.cancel(strong.pk, by=strong.holder, version=None, now=at(3))
    for _ in range(2):
        waitlist.serve(at(3))
    offered = back(weak)
    assert offered is not None
    assert (offered.holder, offered.status, offered.start, offered.end) == (weak.holder, "offered", at(44), at(48))
    assert (offered.booked_at, offered.rank, offered.displaced_times) == (NOW, weak.rank, 1)
    assert offered.offer_until == at(5)
    entry.refresh_from_db()
    assert entry.state == "waiting"
    assert Notification.objects.filter(kind="offer", member=weak.holder, reservation=offered).count() == 1


def test_d6_at_the_old_price(card: Gpu) -> None:
    weak, strong = displaced(card)
    paid = LedgerEntry.objects.get(member=weak.holder, reason="booked").units
    card.pool.weight = 500
    card.pool.save()
    changes.cancel(strong.pk, by=strong.holder, version=None, now=at(3))
    waitlist.serve(at(3))
    offered = back(weak)
    assert offered is not None and balance(weak.holder) == paid
    taken = offers.take(offered.pk, by=weak.holder, version=None, now=at(4))
    assert (taken.status, taken.booked_at, balance(weak.holder)) == ("booked", NOW, paid)


def test_d6_passed_on_it_goes_to_who_waits_and_is_not_offered_again(card: Gpu) -> None:
    weak, strong = displaced(card)
    entry = waits(make.member("Zhao"), at(2))
    changes.cancel(strong.pk, by=strong.holder, version=None, now=at(3))
    waitlist.serve(at(3))
    offered = back(weak)
    assert offered is not None
    offers.pass_on(offered.pk, by=weak.holder, version=None, now=at(4))
    waitlist.serve(at(4))
    entry.refresh_from_db()
    assert (entry.state, balance(weak.holder)) == ("served", 0)
    assert Reservation.objects.filter(instead_of=weak).count() == 1


def test_d6_until_it_is_offered_nobody_else_takes_the_slot(card: Gpu) -> None:
    _, strong = displaced(card)
    changes.cancel(strong.pk, by=strong.holder, version=None, now=at(3))
    with pytest.raises(Refused) as caught:
        make.reservation(make.member(), [card], 45, 46, now=at(3))
    assert caught.value.codes == [Code.WAITLIST_FIRST]
    waitlist.serve(at(3))
    with pytest.raises(Refused) as caught:
        make.reservation(make.member(), [card], 45, 46, now=at(3))
    assert caught.value.codes == [Code.CARD_OFFERED]


def test_d6_what_was_moved_away_gives_the_slot_back_too_and_what_was_moved_a_little_does_not(card: Gpu) -> None:
    weak, strong = displaced(card)
    moving.move(strong.pk, start=at(46), end=at(50), by=strong.holder, version=None, now=at(2))
    waitlist.serve(at(2))
    assert back(weak) is None
    moving.move(strong.pk, start=at(60), end=at(64), by=strong.holder, version=None, now=at(3))
    waitlist.serve(at(3))
    assert back(weak) is not None


def test_d6_nothing_is_offered_where_the_slot_is_taken_or_replaced_or_over(card: Gpu) -> None:
    weak, strong = displaced(card)
    other = BookingRequest((card.pk,), at(52), at(56), tier="exploration", instead_of=weak.pk)
    booking.reserve(weak.holder, other, now=at(2))
    changes.cancel(strong.pk, by=strong.holder, version=None, now=at(3))
    waitlist.serve(at(3))
    assert Reservation.objects.filter(instead_of=weak, status="offered").count() == 0


def test_d6_nor_to_somebody_who_could_not_have_it(card: Gpu) -> None:
    weak, strong = displaced(card)
    Member.objects.filter(pk=weak.holder_id).update(role="undergraduate")  # 20 h a week
    others = make.cards(1, card.host, model="Other")
    make.reservation(weak.holder, others, 30, 48, now=at(2))
    changes.cancel(strong.pk, by=strong.holder, version=None, now=at(3))
    waitlist.serve(at(3))
    assert back(weak) is None


def test_d6_an_undo_offers_nothing(card: Gpu) -> None:
    weak, strong = displaced(card)
    moving.undo(strong.pk, by=strong.holder, version=None, now=at(1) + timedelta(seconds=5))
    waitlist.serve(at(2))
    weak.refresh_from_db()
    assert weak.status == "booked" and back(weak) is None


def test_d6_in_quiet_hours_the_offer_holds_that_much_longer(card: Gpu) -> None:
    weak, strong = displaced(card)
    night = at(12)  # 02:00
    changes.cancel(strong.pk, by=strong.holder, version=None, now=night)
    waitlist.serve(night)
    offered = back(weak)
    assert offered is not None and offered.offer_until == at(18) + 2 * HOUR  # 08:00, and two hours


def test_d6_of_two_the_older_comes_first(card: Gpu) -> None:
    weak, strong = displaced(card)
    again = make.reservation(make.member(), [card], 40, 44, tier="exploration", may_move=False, now=at(2))
    both = make.reservation(make.member(), [card], 40, 44, now=at(3))
    changes.cancel(strong.pk, by=strong.holder, version=None, now=at(4))
    changes.cancel(both.pk, by=both.holder, version=None, now=at(4))
    assert [one.pk for one in queries.may_come_back(at(4))] == [weak.pk, again.pk]
    waitlist.serve(at(4))
    assert back(weak) is not None and back(again) is not None


def test_h0_an_offer_is_audited_with_what_it_stands_for(card: Gpu) -> None:
    weak, strong = displaced(card)
    changes.cancel(strong.pk, by=strong.holder, version=None, now=at(3))
    waitlist.serve(at(3))
    offered = back(weak)
    assert offered is not None
    [entry] = AuditEntry.objects.filter(verb="offer", subject_id=offered.pk)
    assert entry.change["instead_of"] == weak.pk and entry.actor is None
