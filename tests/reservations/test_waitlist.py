"""K5: who waits is served: what comes free goes to them first, in the law's order, booked at once or offered."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, time, timedelta
from typing import Any

import pytest

from reservations import queries
from reservations.models import (
    AuditEntry,
    FreedSlot,
    Gpu,
    LedgerEntry,
    Member,
    Notification,
    Reservation,
    WaitlistEntry,
)
from reservations.rules.interval import Interval
from reservations.rules.refusal import Code, Refused
from reservations.services import booking, changes, extension, moving, offers, sightings, waitlist
from reservations.services.booking import BookingRequest
from reservations.services.waitlist import WishRequest
from tests import factories as make
from tests.factories import NOW, at

pytestmark = pytest.mark.django_db
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


@pytest.fixture
def cards() -> list[Gpu]:
    make.lab()
    host = make.host()
    host.has_reader = False
    host.save()
    return make.cards(2, host)


def wish(cards: list[Gpu] | int, hours: float, latest: float, *, earliest: float | None = None, mode: str = "book",
         **fields: Any) -> WishRequest:
    """These cards, or so many of any; hours counted from NOW."""
    named = tuple(card.pk for card in cards) if isinstance(cards, list) else ()
    count = 0 if isinstance(cards, list) else cards
    wanted = BookingRequest(named, None, at(latest), count=count, **fields)
    return WishRequest(wanted, timedelta(hours=hours), at(latest), None if earliest is None else at(earliest), mode)


def waits(member: Member, *args: Any, now: datetime = NOW, **fields: Any) -> WaitlistEntry:
    return waitlist.join(member, wish(*args, **fields), now=now)


def served(entry: WaitlistEntry) -> Reservation | None:
    entry.refresh_from_db()
    return entry.reservation


def fill(cards: list[Gpu], end: float, start: float | None = None, now: datetime = NOW) -> list[Reservation]:
    """Each card held by somebody of its own."""
    return [make.reservation(make.member(), [card], start, end, now=now) for card in cards]


def refused(act: Callable[[], Any]) -> list[Code]:
    with pytest.raises(Refused) as caught:
        act()
    return caught.value.codes


def balance(member: Member) -> int:
    return sum(LedgerEntry.objects.filter(member=member).values_list("units", flat=True))


# --- serving ----------------------------------------------------------------------------------------------------------


def test_k5_what_is_released_is_booked_for_who_waits_and_they_are_told(cards: list[Gpu]) -> None:
    first, _ = fill(cards, 8)
    li = make.member("Li")
    entry = waits(li, 1, 4, 6)
    assert waitlist.serve(NOW) == 0 and served(entry) is None
    changes.release(first.pk, by=first.holder, version=None, now=at(1))
    assert waitlist.serve(at(1)) == 1
    made = served(entry)
    assert made is not None
    assert (made.holder, made.status, made.kind, made.start, made.end) == (li, "active", "walk_in", at(1), at(5))
    assert made.placed_at == at(1) and made.offer_until is None
    assert entry.state == "served"
    [message] = Notification.objects.filter(member=li, kind="served")
    assert (message.reservation, message.due_at) == (made, at(1))
    assert AuditEntry.objects.filter(verb="place", subject_id=made.pk, actor=None).count() == 1


@pytest.mark.parametrize(
    ("start", "now", "kind", "status"),
    [(None, 0, "walk_in", "active"), (2.0, 0, "late", "booked"), (20.0, 0, "planned", "booked")],
)
def test_k5_d1_what_it_books_has_the_kind_of_its_start(
    cards: list[Gpu], start: float | None, now: float, kind: str, status: str
) -> None:
    entry = waits(make.member(), 1, 2, 48, earliest=start)
    waitlist.serve(at(now))
    made = served(entry)
    assert made is not None and (made.kind, made.status) == (kind, status)
    assert made.start == at(start or 0)


def test_k5_the_earliest_place_that_all_rules_allow_is_taken(cards: list[Gpu]) -> None:
    fill(cards, 5)
    entry = waits(make.member(), 2, 3, 48)
    waitlist.serve(NOW)
    made = served(entry)
    assert made is not None and (made.start, made.end) == (at(5), at(8))


def test_k5_nobody_is_served_twice_however_often_a_round_comes(cards: list[Gpu]) -> None:
    entry = waits(make.member(), 1, 2, 6)
    assert [waitlist.serve(at(0)), waitlist.serve(at(0)), waitlist.serve(at(0.1))] == [1, 0, 0]
    assert Reservation.objects.count() == 1 and served(entry) is not None


def test_k5_the_same_wish_waits_once_and_another_one_beside_it(cards: list[Gpu]) -> None:
    li = make.member()
    first = waits(li, 1, 2, 6)
    assert waits(li, 1, 2, 6).pk == first.pk
    assert waits(li, 1, 3, 6).pk != first.pk
    assert AuditEntry.objects.filter(verb="join_waitlist").count() == 2


def test_k5_a_wish_whose_time_has_passed_ends_and_says_so(cards: list[Gpu]) -> None:
    fill(cards, 24)
    li = make.member()
    entry = waits(li, 1, 2, 6)
    waitlist.serve(at(4))
    entry.refresh_from_db()
    assert entry.state == "waiting"
    waitlist.serve(at(4) + MINUTE)
    entry.refresh_from_db()
    assert entry.state == "expired"
    waitlist.serve(at(7))
    assert Notification.objects.filter(kind="wait_over", member=li, waitlist_entry=entry).count() == 1


def test_k5_somebody_who_left_the_lab_is_not_served_and_does_not_wait_for_ever(cards: list[Gpu]) -> None:
    li = make.member()
    entry = waits(li, 1, 2, 6)
    Member.objects.filter(pk=li.pk).update(is_active=False)
    waitlist.serve(NOW)
    assert served(entry) is None and entry.state == "waiting"
    waitlist.serve(at(5))
    entry.refresh_from_db()
    assert entry.state == "expired"


def test_k5_e2_who_has_no_hours_left_is_passed_over_and_the_next_is_served(cards: list[Gpu]) -> None:
    poor = make.member("Poor", role="undergraduate")  # 20 h a week
    make.reservation(poor, [cards[0]], 24, 43)
    entry, next_one = waits(poor, 1, 2, 6), waits(make.member(), 1, 2, 6)
    waitlist.serve(NOW)
    assert served(entry) is None
    assert served(next_one) is not None


def test_k5_leaving_ends_the_wait_once(cards: list[Gpu]) -> None:
    li, other = make.member(), make.member()
    entry = waits(li, 1, 2, 6)
    assert refused(lambda: waitlist.leave(entry.pk, by=other, now=NOW)) == [Code.NOT_YOURS]
    for _ in range(2):
        assert waitlist.leave(entry.pk, by=li, now=NOW).state == "left"
    assert waitlist.serve(NOW) == 0
    assert AuditEntry.objects.filter(verb="leave_waitlist").count() == 1
    again = waits(li, 1, 2, 6)
    waitlist.serve(NOW)
    assert refused(lambda: waitlist.leave(again.pk, by=li, now=NOW)) == [Code.WAIT_OVER]


def test_k5_what_no_waiting_mends_is_refused_at_once_with_every_reason(cards: list[Gpu]) -> None:
    li = make.member()
    assert refused(lambda: waits(li, 1, 4, 3)) == [Code.WAIT_TOO_SHORT]
    assert refused(lambda: waits(li, 5, 4, 6)) == [Code.NOT_ENOUGH_CARDS]
    assert refused(lambda: waits(li, 1, 100, 200)) == [Code.TOO_LONG]
    assert refused(lambda: waits(li, 1, 4, 6, tier="deadline")) == [Code.TIER_NEEDS_GRANT]
    assert refused(lambda: waits(li, 1, 4, 6, earliest=-1)) == [Code.IN_PAST]
    for hours in range(1, 7):
        waits(li, 1, hours, 24)
    assert refused(lambda: waits(li, 1, 7, 24)) == [Code.WAITS_ENOUGH]


# --- whose turn -------------------------------------------------------------------------------------------------------


def test_k5_the_strongest_goes_first_then_who_had_least_then_who_waits_longest(cards: list[Gpu]) -> None:
    card, other = cards
    much, little = make.member("Much"), make.member("Little")
    had = make.reservation(much, [card], None, 3)
    changes.release(had.pk, by=much, version=None, now=at(2))
    fill([other], 40, now=at(2))
    [held] = fill([card], 20, now=at(2))
    weak = waits(make.member("Weak"), 1, 2, 24, tier="exploration", now=at(3))
    longest = waits(much, 1, 2, 24, now=at(3))
    fair = waits(little, 1, 2, 24, now=at(4))
    fair_later = waits(make.member("Later"), 1, 2, 24, now=at(5))
    changes.release(held.pk, by=held.holder, version=None, now=at(6))
    waitlist.serve(at(6))
    starts = [served(one).start for one in (fair, fair_later, longest, weak)]  # type: ignore[union-attr]
    assert starts == [at(6), at(8), at(10), at(12)]


def test_k5_fair_share_counts_what_was_held_in_14_days_and_not_what_is_booked(cards: list[Gpu]) -> None:
    li = make.member()
    make.reservation(li, cards, None, 3)
    make.reservation(li, cards, 30, 33)
    lately = queries.held_since([li.pk], at(1) - timedelta(days=14), at(1))
    assert lately == {li.pk: 2 * HOUR}
    later = at(24 * 14) + HOUR
    Reservation.objects.filter(holder=li).update(status="finished")
    for one in Reservation.objects.filter(holder=li):
        one.allocations.update(status="finished")
    assert queries.held_since([li.pk], later - timedelta(days=14), later) == {li.pk: 2 * (2 * HOUR + 3 * HOUR)}


# --- offers -----------------------------------------------------------------------------------------------------------


def test_k5_who_asked_to_be_asked_is_offered_the_card_for_15_minutes(cards: list[Gpu]) -> None:
    li = make.member()
    entry = waits(li, 1, 4, 6, mode="ask")
    waitlist.serve(NOW)
    made = served(entry)
    assert made is not None
    assert (made.status, made.offer_until, made.placed_at) == ("offered", NOW + 15 * MINUTE, None)
    assert balance(li) == 4 * 36_000_000
    assert Notification.objects.filter(kind="offer", member=li, reservation=made).count() == 1
    wang = make.member()
    [card] = [row.gpu for row in made.allocations.all()]
    with pytest.raises(Refused) as caught:
        make.reservation(wang, [card], None, 2)
    [refusal] = caught.value.refusals
    assert (refusal.code, refusal.rule) == (Code.CARD_OFFERED, "K5")
    assert refusal.facts["until"] == NOW + 15 * MINUTE


def test_k5_an_offer_a_day_ahead_holds_for_two_hours(cards: list[Gpu]) -> None:
    near, far = (waits(make.member(), 1, 4, 60, earliest=hours, mode="ask") for hours in (23.75, 24))
    waitlist.serve(NOW)
    assert served(near).offer_until == NOW + 15 * MINUTE  # type: ignore[union-attr]
    assert served(far).offer_until == NOW + 2 * HOUR  # type: ignore[union-attr]


def test_k5_d1_a_taken_offer_is_booked_and_starts_when_it_is_taken(cards: list[Gpu]) -> None:
    li = make.member()
    entry = waits(li, 1, 4, 6, mode="ask")
    waitlist.serve(NOW)
    made = served(entry)
    assert made is not None
    when = NOW + 10 * MINUTE
    for _ in range(2):
        taken = offers.take(made.pk, by=li, version=None, now=when)
        assert (taken.status, taken.kind, taken.start, taken.end) == ("active", "walk_in", when, at(4))
    assert [(row.start, row.end, row.status) for row in taken.allocations.all()] == [(when, at(4), "active")]
    assert balance(li) == (4 * 60 - 10) * 600_000
    assert AuditEntry.objects.filter(verb="take_offer").count() == 1
    assert Notification.objects.filter(kind="ending", reservation=made, due_at=at(4) - 10 * MINUTE).count() == 1
    released = changes.release(made.pk, by=li, version=None, now=at(1))
    assert balance(li) == 50 * 600_000 and released.status == "released"


def test_k5_d2_an_offer_of_what_starts_now_is_a_walk_in_with_its_free_hours(cards: list[Gpu]) -> None:
    make.lab(walk_in_free_hours=16)
    li = make.member()
    entry = waits(li, 1, 4, 6, mode="ask")
    waitlist.serve(NOW)
    made = served(entry)
    assert made is not None
    offers.take(made.pk, by=li, version=None, now=NOW + 10 * MINUTE)
    used = LedgerEntry.objects.filter(member=li, account="free")
    assert sum(row.units for row in used) == 4 * 3600 - 600
    assert not LedgerEntry.objects.filter(member=li, account="quota").exists()


def test_k5_a_passed_offer_returns_everything_and_goes_to_the_next(cards: list[Gpu]) -> None:
    li = make.member()
    fill([cards[1]], 24)
    entry, following = waits(li, 1, 4, 6, mode="ask"), waits(make.member(), 1, 4, 7)
    waitlist.serve(NOW)
    made = served(entry)
    assert made is not None and made.status == "offered"
    assert served(following) is None
    for _ in range(2):
        assert offers.pass_on(made.pk, by=li, version=None, now=NOW + 5 * MINUTE).status == "passed"
    assert balance(li) == 0
    waitlist.serve(NOW + 5 * MINUTE)
    assert served(following) is not None
    assert refused(lambda: offers.take(made.pk, by=li, version=None, now=NOW + 6 * MINUTE)) == [Code.OFFER_ENDED]


def test_k5_an_offer_that_nobody_takes_ends_by_the_clock_and_by_the_sweep(cards: list[Gpu]) -> None:
    li = make.member()
    entry = waits(li, 1, 4, 6, mode="ask")
    waitlist.serve(NOW)
    made = served(entry)
    assert made is not None
    end = NOW + 15 * MINUTE
    assert offers.expire_due(end - timedelta(microseconds=1)) == []
    offers.expire_one(made.pk, now=end - timedelta(microseconds=1))
    assert refused(lambda: offers.take(made.pk, by=li, version=None, now=end)) == [Code.OFFER_ENDED]
    assert offers.expire_due(end) == [made.pk]
    for _ in range(2):
        offers.expire_one(made.pk, now=end)
    made.refresh_from_db()
    assert (made.status, made.ended_at, balance(li)) == ("passed", end, 0)
    assert Notification.objects.filter(kind="offer_over", member=li).count() == 1
    assert waitlist.serve(end) == 0


def test_k5_only_its_holder_answers_an_offer(cards: list[Gpu]) -> None:
    entry = waits(make.member(), 1, 4, 6, mode="ask")
    waitlist.serve(NOW)
    made = served(entry)
    assert made is not None
    for act in (offers.take, offers.pass_on):
        for who in (make.member(), make.arbiter()):
            assert refused(lambda act=act, who=who: act(made.pk, by=who, version=None, now=NOW)) == [Code.NOT_YOURS]


def test_k5_an_offer_of_a_later_start_leaves_time_to_take_it(cards: list[Gpu]) -> None:
    fill(cards, 0.5)
    entry = waits(make.member(), 1, 2, 6, mode="ask", now=NOW + 20 * MINUTE)
    waitlist.serve(NOW + 20 * MINUTE)
    made = served(entry)
    assert made is not None
    assert (made.start, made.offer_until) == (at(0.75), NOW + 35 * MINUTE)


@pytest.mark.parametrize(
    ("zone", "hour", "is_served"),
    [("", 22.99, True), ("", 23, False), ("", 2, False), ("", 8, True), ("Europe/Berlin", 23, True), ("Europe/Berlin", 14, False),
     ("Europe/Berlin", 15, True), ("Europe/Berlin", 7, False)],
)
def test_k5_in_quiet_hours_only_what_is_booked_at_once_is_served(
    cards: list[Gpu], zone: str, hour: float, is_served: bool
) -> None:
    """The lab's clock shows 14:00 at NOW, Berlin's 07:00."""
    now = at((hour - 14) % 24)
    asks = waits(make.member(zone=zone), 1, 2, 72, mode="ask", now=now)
    books = waits(make.member(zone=zone), 1, 2, 72, now=now)
    waitlist.serve(now)
    assert (served(asks) is not None) is is_served
    assert served(books) is not None


def test_k3_quiet_hours_that_end_as_they_begin_are_none(cards: list[Gpu]) -> None:
    entry = waits(make.member(quiet_from=time(8), quiet_to=time(8)), 1, 2, 72, mode="ask", now=at(12))
    waitlist.serve(at(12))
    assert served(entry) is not None


# --- first, but no longer than a round --------------------------------------------------------------------------------


def test_k5_between_the_cancellation_and_the_round_nobody_else_takes_the_slot(cards: list[Gpu]) -> None:
    booked = [make.reservation(make.member(), [card], 2, 20) for card in cards]
    entry = waits(make.member("Li"), 1, 10, 13)
    wang = make.member("Wang")
    changes.cancel(booked[0].pk, by=booked[0].holder, version=None, now=at(1))
    with pytest.raises(Refused) as caught:
        make.reservation(wang, [cards[0]], 2, 4, now=at(1))
    [refusal] = caught.value.refusals
    assert refusal.code == Code.WAITLIST_FIRST and refusal.facts["until"] == at(1) + queries.KEPT
    by_count = BookingRequest((), at(2), at(4), count=1)
    assert refused(lambda: booking.reserve(wang, by_count, now=at(1))) == [Code.WAITLIST_FIRST]
    assert refused(lambda: make.reservation(wang, [cards[0]], 2, 4, now=at(1))) == [Code.WAITLIST_FIRST]
    waitlist.serve(at(1))
    assert served(entry) is not None
    assert not FreedSlot.objects.exists()
    make.reservation(wang, [cards[0]], 13, 15, now=at(1))


def test_k5_after_the_round_it_is_first_come_first_served(cards: list[Gpu]) -> None:
    booked = [make.reservation(make.member(), [card], 2, 20) for card in cards]
    entry = waits(make.member(), 2, 10, 15)
    changes.cancel(booked[0].pk, by=booked[0].holder, version=None, now=at(1))
    wang = make.member()
    assert refused(lambda: make.reservation(wang, [cards[0]], 2, 4, now=at(1))) == [Code.WAITLIST_FIRST]
    waitlist.serve(at(1))
    assert served(entry) is None
    assert make.reservation(wang, [cards[0]], 2, 4, now=at(1)).status == "booked"


def test_k5_a_slot_is_not_kept_for_ever_when_no_round_comes(cards: list[Gpu]) -> None:
    booked = [make.reservation(make.member(), [card], 2, 20) for card in cards]
    waits(make.member(), 1, 10, 13)
    changes.cancel(booked[0].pk, by=booked[0].holder, version=None, now=at(1))
    late = at(1) + queries.KEPT
    assert make.reservation(make.member(), [cards[0]], 2, 4, now=late).status == "booked"


def test_k5_what_is_freed_is_kept_from_the_weaker_and_the_equal_only(cards: list[Gpu]) -> None:
    booked = [make.reservation(make.member(), [card], 2, 20) for card in cards]
    waits(make.member(), 1, 10, 13, tier="exploration")
    changes.cancel(booked[0].pk, by=booked[0].holder, version=None, now=at(1))
    weaker = make.member()
    assert refused(lambda: make.reservation(weaker, [cards[0]], 2, 4, now=at(1), tier="exploration")) == [Code.WAITLIST_FIRST]
    assert make.reservation(weaker, [cards[0]], 2, 4, now=at(1)).tier == "regular"


def test_k5_what_nobody_waits_for_is_anybodys(cards: list[Gpu]) -> None:
    booked = [make.reservation(make.member(), [card], 2, 20) for card in cards]
    waits(make.member(), [cards[1]], 10, 13)
    changes.cancel(booked[0].pk, by=booked[0].holder, version=None, now=at(1))
    assert not FreedSlot.objects.exists()
    assert make.reservation(make.member(), [cards[0]], 2, 4, now=at(1)).status == "booked"


def test_k5_h6_what_a_move_leaves_behind_goes_to_who_waits(cards: list[Gpu]) -> None:
    booked = [make.reservation(make.member(), [card], 2, 8) for card in cards]
    entry = waits(make.member(), 1, 6, 8, earliest=2)
    moving.move(booked[0].pk, start=at(10), end=at(16), by=booked[0].holder, version=None, now=at(1))
    assert refused(lambda: make.reservation(make.member(), [cards[0]], 2, 4, now=at(1))) == [Code.WAITLIST_FIRST]
    waitlist.serve(at(1))
    assert served(entry).start == at(2)  # type: ignore[union-attr]


# --- H4: three looks --------------------------------------------------------------------------------------------------


@pytest.fixture
def read(cards: list[Gpu]) -> list[Gpu]:
    """The cards on a host that is read."""
    host = cards[0].host
    host.has_reader = True
    host.save()
    return cards


def look(card: Gpu, when: datetime, state: str = "free") -> None:
    sightings.record([sightings.Sighting(card.pk, state, when)], now=when)  # type: ignore[arg-type]


def test_h4_a_released_card_is_offered_after_three_samples_in_a_row_show_it_free(read: list[Gpu]) -> None:
    first, _ = fill(read, 8)
    entry = waits(make.member(), 1, 4, 6)
    look(read[0], at(1) - timedelta(seconds=1))
    changes.release(first.pk, by=first.holder, version=None, now=at(1))
    for seconds, state in [(9, "free"), (19, "free"), (29, "overrun"), (39, "free"), (49, "free")]:
        when = at(1) + timedelta(seconds=seconds)
        look(read[0], when, state)
        waitlist.serve(when)
        assert served(entry) is None
    third = at(1) + timedelta(seconds=59)
    look(read[0], third)
    assert waitlist.is_due(third)
    waitlist.serve(third)
    assert served(entry).start == third  # type: ignore[union-attr]


def test_h4_until_then_others_may_take_it_by_name_and_the_system_does_not_choose_it(read: list[Gpu]) -> None:
    first, _ = fill(read, 8)
    waits(make.member(), 1, 4, 6)
    look(read[0], at(1))
    changes.release(first.pk, by=first.holder, version=None, now=at(1))
    look(read[0], at(1) + timedelta(seconds=9))
    when = at(1) + timedelta(seconds=10)
    wang = make.member()
    assert refused(lambda: booking.reserve(wang, BookingRequest((), None, at(3), count=1), now=when)) == [Code.WAITLIST_FIRST]
    assert make.reservation(wang, [read[0]], None, 3, now=when).status == "active"


def test_h4_once_it_is_seen_free_it_goes_to_who_waits_first(read: list[Gpu]) -> None:
    first, _ = fill(read, 8)
    waits(make.member(), 1, 4, 6)
    changes.release(first.pk, by=first.holder, version=None, now=at(1))
    for seconds in (9, 19, 29):
        look(read[0], at(1) + timedelta(seconds=seconds))
    when = at(1) + timedelta(seconds=30)
    assert refused(lambda: make.reservation(make.member(), [read[0]], None, 3, now=when)) == [Code.WAITLIST_FIRST]


def test_h4_what_had_not_begun_needs_no_samples(read: list[Gpu]) -> None:
    booked = [make.reservation(make.member(), [card], 2, 20) for card in read]
    entry = waits(make.member(), 1, 6, 10, earliest=2)
    changes.cancel(booked[0].pk, by=booked[0].holder, version=None, now=at(1))
    waitlist.serve(at(1))
    assert served(entry) is not None


def test_h4_d2_nobody_is_put_on_a_card_that_is_not_seen_free(read: list[Gpu]) -> None:
    look(read[0], NOW, "unbooked")
    entry, named = waits(make.member(), 1, 3.5, 3.6), waits(make.member(), [read[0]], 3.5, 3.6)
    waitlist.serve(NOW)
    assert served(entry) is None and served(named) is None
    look(read[0], NOW + timedelta(seconds=10))
    waitlist.serve(NOW + timedelta(seconds=10))
    assert served(entry) is not None


def test_h4_a_release_is_undone_while_no_offer_is_out(read: list[Gpu]) -> None:
    first, _ = fill(read, 8)
    waits(make.member(), 1, 3, 6, mode="ask")
    changes.release(first.pk, by=first.holder, version=None, now=at(1))
    undone = changes.undo_release(first.pk, by=first.holder, version=None, now=at(1) + MINUTE)
    assert undone.status == "active"
    changes.release(first.pk, by=first.holder, version=None, now=at(2))
    for seconds in (9, 19, 29):
        look(read[0], at(2) + timedelta(seconds=seconds))
    waitlist.serve(at(2) + MINUTE)
    assert refused(lambda: changes.undo_release(first.pk, by=first.holder, version=None, now=at(2) + 2 * MINUTE)) == [
        Code.CARD_OFFERED
    ]


# --- D2, H5 -----------------------------------------------------------------------------------------------------------


def test_d2_a_walk_in_is_not_renewed_on_a_card_that_somebody_waits_for(cards: list[Gpu]) -> None:
    li = make.member("Li")
    held = make.reservation(li, [cards[0]], None, 2)
    fill([cards[1]], 24)
    assert extension.longest_end(held, now=at(1)) is not None
    waits(make.member(), 1, 4, 12)
    assert extension.longest_end(held, now=at(1)) is None
    for act in (
        lambda: extension.extend(held.pk, at(3), by=li, version=None, now=at(1)),
        lambda: make.reservation(li, [cards[0]], 2, 4, now=at(1)),
        lambda: make.reservation(li, [cards[0]], None, 4, now=at(2) + 9 * MINUTE),
    ):
        assert refused(act) == [Code.NOT_RENEWED]
    booking.advance_one(held.pk, now=at(2))
    assert refused(lambda: make.reservation(li, [cards[0]], None, 4, now=at(2) + 9 * MINUTE)) == [Code.NOT_RENEWED]


def test_d2_it_is_renewed_where_nobody_or_only_its_holder_waits(cards: list[Gpu]) -> None:
    li = make.member("Li")
    held = make.reservation(li, [cards[0]], None, 2)
    waits(li, 2, 4, 12)
    waits(make.member(), [cards[1]], 4, 12)
    assert extension.extend(held.pk, at(3), by=li, version=None, now=at(1)).end == at(3)
    assert make.reservation(li, [cards[0]], 3, 4, now=at(1)).status == "booked"


def test_d2_what_was_booked_ahead_is_extended_though_somebody_waits(cards: list[Gpu]) -> None:
    li = make.member("Li")
    held = make.reservation(li, [cards[0]], 1, 2)
    fill([cards[1]], 24)
    waits(make.member(), 1, 4, 12, earliest=8)
    assert extension.extend(held.pk, at(3), by=li, version=None, now=at(1.5)).end == at(3)


def test_h5_an_extension_leaves_what_is_offered_and_what_is_kept(cards: list[Gpu]) -> None:
    li = make.member("Li")
    held = make.reservation(li, [cards[0]], 1, 2)
    following = make.reservation(make.member(), [cards[0]], 2, 8)
    fill([cards[1]], 24)
    entry = waits(make.member(), 1, 4, 7, mode="ask")
    changes.cancel(following.pk, by=following.holder, version=None, now=at(1.5))
    assert extension.longest_end(held, now=at(1.5)) is None
    assert refused(lambda: extension.extend(held.pk, at(3), by=li, version=None, now=at(1.5))) == [Code.WAITLIST_FIRST]
    waitlist.serve(at(1.5))
    assert served(entry).start == at(2)  # type: ignore[union-attr]
    assert refused(lambda: extension.extend(held.pk, at(3), by=li, version=None, now=at(1.5))) == [Code.CARD_OFFERED]


def test_k5_somebody_waits_for_such_a_card_at_such_a_time(cards: list[Gpu]) -> None:
    li = make.member()
    waits(li, [cards[0]], 2, 10, earliest=4)
    asked = lambda card, a, b, **who: queries.somebody_waits([card.pk], Interval(at(a), at(b)), NOW, **who)  # noqa: E731
    assert asked(cards[0], 3, 5) and asked(cards[0], 9, 20)
    assert not asked(cards[0], 0, 4) and not asked(cards[0], 10, 12)
    assert not asked(cards[1], 3, 5) and not asked(cards[0], 3, 5, besides=li.pk)
