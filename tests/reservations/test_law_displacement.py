"""Displacing through the services: what is written, returned, told and taken back (C3, D3-D7, E3, H0)."""

from datetime import timedelta
from typing import Any

import pytest

from labgpu.notify.message import Message
from reservations import messages as messages_of
from reservations import obsolete
from reservations.models import Allocation, AuditEntry, Gpu, LedgerEntry, Member, Notification, Reservation
from reservations.queries import lab_facts, units_used
from reservations.rules.quota import UNITS_PER_GPU_HOUR
from reservations.rules.refusal import Code, Refused
from reservations.services import booking, changes, elastic, extension, moving
from tests import factories
from tests.factories import NOW, at

pytestmark = pytest.mark.django_db(transaction=True)
Kind = Notification.Kind

# Wednesday 00:00 in the lab, 34 hours from NOW: closes on Tuesday 18:00, freezes at 20:00.
START, END = 34, 42
SOON = NOW + timedelta(seconds=9)


@pytest.fixture(autouse=True)
def _lab(db: None) -> None:
    factories.lab(displacement=True)


@pytest.fixture
def card() -> Gpu:
    return factories.cards(1)[0]


@pytest.fixture
def weak() -> Member:
    return factories.member("Weak")


@pytest.fixture
def strong() -> Member:
    return factories.member("Strong")


@pytest.fixture
def beyond(weak: Member) -> Member:
    """A member of 10 hours a week whose hours are taken, on a card of another kind; a late cancellation costs a quarter."""
    roles = {"phd": {"weekly_hours": 10}, "staff": {"weekly_hours": 100}}
    factories.lab(displacement=True, elastic=True, late_cancel_percent=25, roles=roles)
    factories.reservation(weak, factories.cards(1, model="A100"), 100, 110)
    return weak


def explored(holder: Member, card: Gpu, start: float = START, end: float = END, **fields: Any) -> Reservation:
    """A reservation in the weakest tier, which may not be moved unless it says so."""
    return factories.reservation(holder, [card], start, end, **{"tier": "exploration", "may_move": False, **fields})


def again(row: Reservation) -> Reservation:
    return Reservation.objects.get(pk=row.pk)


def used(member: Member) -> int:
    return sum(row.units for row in LedgerEntry.objects.filter(member=member, account="quota"))


def messages(member: Member, *kinds: str) -> list[Notification]:
    return list(Notification.objects.filter(member=member, kind__in=kinds or [Kind.DISPLACED, Kind.PLACED, Kind.BROUGHT_BACK]))


# --- being displaced ---


def test_d4_the_weaker_one_is_displaced_and_its_charge_returned(card: Gpu, weak: Member, strong: Member) -> None:
    old = explored(weak, card)
    new = factories.reservation(strong, [card], START, END)
    displaced = again(old)
    assert (displaced.status, displaced.displaced_times, displaced.displaced_by) == ("displaced", 1, new)
    assert Allocation.objects.get(reservation=old).status == "displaced"
    assert used(weak) == 0
    assert used(strong) == 8 * UNITS_PER_GPU_HOUR
    entry = AuditEntry.objects.get(verb="displaced")
    assert (entry.subject_id, entry.actor, entry.change["by"]) == (old.pk, None, new.pk)


def test_d4_the_displaced_is_told_once_it_can_no_longer_be_undone(card: Gpu, weak: Member, strong: Member) -> None:
    explored(weak, card)
    factories.reservation(strong, [card], START, END)
    (message,) = messages(weak)
    assert (message.kind, message.due_at) == (Kind.DISPLACED, NOW + timedelta(seconds=10))


def test_c3_an_equal_rank_is_first_come_first_served(card: Gpu, weak: Member, strong: Member) -> None:
    factories.reservation(weak, [card], START, END)
    with pytest.raises(Refused) as refused:
        factories.reservation(strong, [card], START, END)
    assert refused.value.codes == [Code.CARD_TAKEN]


def test_j3_points_lower_the_rank_of_the_next_booking(card: Gpu, weak: Member, strong: Member) -> None:
    with_points(weak, 1)
    old = factories.reservation(weak, [card], START, END)
    assert (old.rank, old.tier) == ((0, 2), "regular")
    factories.reservation(strong, [card], START, END)
    assert again(old).status == "displaced"


def test_j3_with_three_points_nobody_is_displaced(card: Gpu, weak: Member, strong: Member) -> None:
    explored(weak, card)
    with_points(strong, 3)
    with pytest.raises(Refused) as refused:
        factories.reservation(strong, [card], START, END, tier="regular")
    assert refused.value.codes == [Code.CARD_TAKEN]  # two tiers weaker: no longer stronger at all
    factories.lab(displacement=True, tiers=["deadline", "regular", "exploration", "idle", "last"], granted_tiers=[])
    factories.reservation(weak, [other := factories.cards(1)[0]], START, END, tier="last", may_move=False)
    with pytest.raises(Refused) as refused:
        factories.reservation(strong, [other], START, END, tier="deadline")
    assert refused.value.codes == [Code.CARD_TAKEN, Code.NO_DISPLACING]


def with_points(member: Member, points: int) -> None:
    some = factories.cards(1)[0]
    done = factories.reservation(member, [some], None, 1, now=NOW - timedelta(days=1)) if points else None
    member.demerits.create(
        reason="overrun", points=points, fact=f"test:{member.pk}:{points}", reservation=done, evidence={}, issued_at=NOW,
        expires_at=NOW + timedelta(days=30),
    )


def test_d4_a_third_displacement_is_refused(weak: Member, strong: Member) -> None:
    cards = factories.cards(1)
    old = explored(weak, cards[0])
    Reservation.objects.filter(pk=old.pk).update(displaced_times=2)
    with pytest.raises(Refused) as refused:
        factories.reservation(strong, cards, START, END)
    assert refused.value.codes == [Code.CARD_TAKEN]


def test_d4_the_count_goes_on_with_what_takes_its_place(card: Gpu, weak: Member, strong: Member) -> None:
    old = explored(weak, card)
    factories.reservation(strong, [card], START, END)
    other = factories.cards(1)[0]
    new = explored(weak, other, instead_of=old.pk)
    assert (new.instead_of, new.displaced_times) == (old, 1)
    with pytest.raises(Refused) as refused:
        explored(weak, other, END, END + 4, instead_of=old.pk)
    assert refused.value.codes == [Code.REPLACED]


def test_d5_nobody_takes_the_place_of_a_strangers_reservation(card: Gpu, weak: Member, strong: Member) -> None:
    old = explored(weak, card)
    factories.reservation(strong, [card], START, END)
    with pytest.raises(Refused) as refused:
        explored(strong, factories.cards(1)[0], instead_of=old.pk)
    assert refused.value.codes == [Code.NOT_YOURS]


def test_d4_a_reservation_on_two_cards_makes_room_whole(weak: Member, strong: Member) -> None:
    cards = factories.cards(2)
    old = factories.reservation(weak, cards, START, END, tier="exploration", may_move=False)
    factories.reservation(strong, cards[:1], START, END)
    assert again(old).status == "displaced"
    assert set(Allocation.objects.filter(reservation=old).values_list("status", flat=True)) == {"displaced"}
    assert used(weak) == 0


# --- may move ---


def test_d5_exploration_may_move_unless_somebody_says_otherwise(weak: Member) -> None:
    cards = factories.cards(2)
    by_default = factories.reservation(weak, cards[:1], START, END, tier="exploration")
    regular = factories.reservation(weak, cards[1:], START, END)
    assert (by_default.may_move_until, regular.may_move_until) == (at(END + 48), None)


def test_d5_what_may_move_is_moved_to_the_earliest_time_that_is_free(card: Gpu, weak: Member, strong: Member) -> None:
    old = explored(weak, card, may_move=True)
    new = factories.reservation(strong, [card], START + 2, START + 6)
    moved = again(old)
    assert (moved.status, moved.start, moved.end) == ("booked", new.end, new.end + timedelta(hours=8))
    assert (moved.displaced_times, moved.placed_at, moved.displaced_by) == (1, NOW, None)
    assert used(weak) == 8 * UNITS_PER_GPU_HOUR
    (message,) = messages(weak)
    assert message.kind == Kind.PLACED
    assert message.reservation_version == moved.version


def test_d5_it_moves_to_another_card_of_its_kind(weak: Member, strong: Member) -> None:
    """The equal card is taken at the old time, but free soon after."""
    cards = factories.cards(2)
    old = explored(weak, cards[0], may_move=True)
    factories.reservation(strong, cards[1:], START, START + 1)
    new = factories.reservation(factories.member(), cards[:1], START, END + 20)
    moved = again(old)
    assert new.status == "booked"
    assert list(moved.allocations.values_list("gpu", flat=True)) == [cards[1].pk]
    assert moved.start == at(START + 1)


def test_d5_past_its_latest_end_it_is_displaced(card: Gpu, weak: Member, strong: Member) -> None:
    old = explored(weak, card, may_move=True, may_move_until=at(END + 1))
    factories.reservation(strong, [card], START, START + 2)
    assert again(old).status == "displaced"


def test_d5_a_move_costs_no_more_than_before(card: Gpu, weak: Member, strong: Member) -> None:
    """From a night at the plain rate into a working day at one and a half."""
    factories.lab(displacement=True, windows=[
        {"days": "working", "opens": "09:00", "shuts": "18:00", "rate": 150}, 
    ])
    old = explored(weak, card, may_move=True)
    factories.reservation(strong, [card], START, END + 1)
    moved = again(old)
    assert moved.start == at(END + 1)  # 09:00
    assert used(weak) == 8 * UNITS_PER_GPU_HOUR
    changes.cancel(moved.pk, by=weak, version=None, now=NOW)
    assert used(weak) == 0


def test_d5_what_the_system_moves_displaces_nobody(card: Gpu, weak: Member, strong: Member) -> None:
    third = factories.member("Third")
    behind = factories.reservation(third, [card], END, END + 4, tier="exploration", may_move=False)
    Reservation.objects.filter(pk=behind.pk).update(rank_tier=4)
    old = explored(weak, card, may_move=True)
    factories.reservation(strong, [card], START, END)
    assert again(behind).status == "booked"
    assert again(old).start == behind.end


# --- undo, and what follows ---


def test_h0_an_undo_brings_the_displaced_back_without_a_word(card: Gpu, weak: Member, strong: Member) -> None:
    old = explored(weak, card)
    new = factories.reservation(strong, [card], START, END)
    moving.undo(new.pk, by=strong, version=new.version, now=SOON)
    back = again(old)
    assert (back.status, back.displaced_times, back.displaced_by) == ("booked", 0, None)
    assert Allocation.objects.get(reservation=old).status == "booked"
    assert (used(weak), used(strong)) == (8 * UNITS_PER_GPU_HOUR, 0)
    assert [one.kind for one in messages(weak)] == [Kind.DISPLACED]  # due later, and then obsolete
    strong.refresh_from_db()
    assert strong.no_displacing_until is None


def test_h0_an_undo_brings_the_moved_back(card: Gpu, weak: Member, strong: Member) -> None:
    old = explored(weak, card, may_move=True)
    new = factories.reservation(strong, [card], START, END)
    moving.undo(new.pk, by=strong, version=new.version, now=SOON)
    back = again(old)
    assert (back.status, back.start, back.end, back.displaced_times, back.placed_at) == ("booked", at(START), at(END), 0, None)
    assert used(weak) == 8 * UNITS_PER_GPU_HOUR


def test_h0_a_move_undone_may_still_be_moved_as_long_as_before(card: Gpu, weak: Member) -> None:
    old = explored(weak, card, may_move=True)
    moved = moving.move(old.pk, start=at(START + 20), end=at(END + 30), by=weak, version=None, now=NOW)
    assert moved.may_move_until == at(END + 30 + 48)
    moving.undo(moved.pk, by=weak, version=None, now=SOON)
    assert again(old).may_move_until == at(END + 48)


def test_h0_an_undo_keeps_again_the_fee_that_what_was_moved_had_returned(card: Gpu, beyond: Member, strong: Member) -> None:
    """What made room moved to time that somebody had cancelled late; undone, nobody has booked that time again."""
    third = factories.member("Third", role="staff")
    late = factories.reservation(third, [card], 6, 14)
    changes.cancel(late.pk, by=third, version=None, now=at(4.5))
    hours = []
    old = factories.reservation(beyond, [card], 7, 9, now=at(4.6), may_move=True)
    hours.append(used(third) / UNITS_PER_GPU_HOUR)
    new = factories.reservation(strong, [card], 7, 9, now=at(4.7))
    assert again(old).start == at(9)
    hours.append(used(third) / UNITS_PER_GPU_HOUR)
    moving.undo(new.pk, by=strong, version=None, now=at(4.7) + timedelta(seconds=5))
    assert again(old).start == at(7)
    assert [*hours, used(third) / UNITS_PER_GPU_HOUR] == [1.5, 1, 1.5]


def test_h0_an_owner_who_was_told_is_told_again(card: Gpu, weak: Member, strong: Member) -> None:
    explored(weak, card)
    new = factories.reservation(strong, [card], START, END)
    Notification.objects.filter(kind=Kind.DISPLACED).update(state=Notification.State.SENT)
    moving.undo(new.pk, by=strong, version=new.version, now=SOON)
    assert [one.kind for one in messages(weak)] == [Kind.DISPLACED, Kind.BROUGHT_BACK]


@pytest.mark.parametrize("moved", [True, False])
def test_h0_an_undo_is_refused_once_a_displaced_owner_has_acted(card: Gpu, weak: Member, strong: Member, moved: bool) -> None:
    old = explored(weak, card, may_move=moved)
    new = factories.reservation(strong, [card], START, END)
    if moved:
        changes.cancel(old.pk, by=weak, version=None, now=SOON)
    else:
        explored(weak, factories.cards(1)[0], instead_of=old.pk)
    before = used(strong)
    with pytest.raises(Refused) as refused:
        moving.undo(new.pk, by=strong, version=new.version, now=SOON)
    assert refused.value.codes == [Code.OWNER_ACTED]
    assert (again(new).status, used(strong)) == ("booked", before)


def test_d6_who_cancels_what_displaced_somebody_displaces_nobody_for_seven_days(
    card: Gpu, weak: Member, strong: Member
) -> None:
    explored(weak, card)
    new = factories.reservation(strong, [card], START, END)
    changes.cancel(new.pk, by=strong, version=None, now=at(1))
    strong.refresh_from_db()
    assert strong.no_displacing_until == at(1) + timedelta(days=7)
    later = at(1.1)  # until then it is kept for who was displaced
    explored(factories.member(), card, now=later)
    with pytest.raises(Refused) as refused:
        factories.reservation(strong, [card], START, END, now=later)
    assert refused.value.codes == [Code.CARD_TAKEN, Code.NO_DISPLACING]


def test_d6_who_cancels_what_displaced_nobody_may_go_on(card: Gpu, strong: Member) -> None:
    row = factories.reservation(strong, [card], START, END)
    changes.cancel(row.pk, by=strong, version=None, now=at(1))
    strong.refresh_from_db()
    assert strong.no_displacing_until is None


def test_d6_moving_away_counts_as_cancelling_and_its_undo_takes_that_back(card: Gpu, weak: Member, strong: Member) -> None:
    explored(weak, card)
    new = factories.reservation(strong, [card], START, END)
    moved = moving.move(new.pk, start=at(START + 4), end=at(END + 4), by=strong, version=None, now=at(1))
    strong.refresh_from_db()
    assert strong.no_displacing_until is not None
    moving.undo(moved.pk, by=strong, version=moved.version, now=at(1) + timedelta(seconds=5))
    strong.refresh_from_db()
    assert strong.no_displacing_until is None


def test_h6_a_move_may_displace_too_and_its_undo_brings_back(weak: Member, strong: Member) -> None:
    cards = factories.cards(2, model="A100")
    old = explored(weak, cards[0])
    factories.reservation(factories.member(), cards[1:], START, END)
    row = factories.reservation(strong, cards[:1], START - 8, START)
    moved = moving.move(row.pk, start=at(START), end=at(END), by=strong, version=None, now=NOW)
    assert (again(old).status, again(old).displaced_by) == ("displaced", moved)
    moving.undo(moved.pk, by=strong, version=moved.version, now=SOON)
    assert again(old).status == "booked"
    assert again(row).start == at(START - 8)


# --- elastic ---


@pytest.fixture
def spent(weak: Member) -> Member:
    """A member of 10 hours a week who has booked them all for this week."""
    factories.lab(displacement=True, elastic=True, roles={"phd": {"weekly_hours": 10}})
    return weak


def test_e4_beyond_the_allowance_the_whole_is_charged_to_its_own_account(card: Gpu, spent: Member) -> None:
    row = factories.reservation(spent, [card], START, START + 12)
    assert (row.is_elastic, row.rank) == (True, (1, 1))
    assert used(spent) == 0
    sums = LedgerEntry.objects.filter(member=spent, account="elastic")
    assert sum(one.units for one in sums) == 12 * UNITS_PER_GPU_HOUR
    changes.cancel(row.pk, by=spent, version=None, now=at(1))
    assert sum(one.units for one in sums.all()) == 0


@pytest.mark.parametrize("start", [3, START], ids=["late", "planned"])
def test_e4_anybody_within_quota_displaces_it(card: Gpu, spent: Member, strong: Member, start: float) -> None:
    row = factories.reservation(spent, [card], start, start + 12)
    new = factories.reservation(strong, [card], start, start + 4, tier="exploration")
    assert (again(row).status, again(row).displaced_by) == ("displaced", new)
    assert sum(one.units for one in LedgerEntry.objects.filter(member=spent)) == 0


def test_e4_not_in_its_last_two_hours(card: Gpu, spent: Member, strong: Member) -> None:
    factories.reservation(spent, [card], 3, 15)
    with pytest.raises(Refused) as refused:
        factories.reservation(strong, [card], 3, 7, now=at(1))
    assert refused.value.codes == [Code.CARD_TAKEN]


def test_e4_the_oldest_becomes_in_quota_when_its_whole_charge_fits(spent: Member) -> None:
    cards = factories.cards(3)
    first = factories.reservation(spent, cards[:1], START, START + 8)
    large = factories.reservation(spent, cards[1:2], START, START + 9, now=at(0.1))
    small = factories.reservation(spent, cards[2:], START, START + 3, now=at(0.2))
    assert [row.is_elastic for row in (first, large, small)] == [False, True, True]
    assert elastic.due(at(1)) == []
    changes.cancel(first.pk, by=spent, version=None, now=at(1))
    assert elastic.due(at(1)) == [large.pk]
    assert not elastic.settle(small.pk, now=at(1))  # no overtaking by a smaller one
    assert elastic.settle(large.pk, now=at(1))
    assert not elastic.settle(large.pk, now=at(1))
    assert [again(row).is_elastic for row in (large, small)] == [False, True]
    assert used(spent) == 9 * UNITS_PER_GPU_HOUR
    assert sum(one.units for one in LedgerEntry.objects.filter(member=spent, account="elastic")) == 3 * UNITS_PER_GPU_HOUR
    assert elastic.due(at(1)) == []
    week = list(units_used(spent.pk, [NOW.date()]).values())
    assert week == [9 * UNITS_PER_GPU_HOUR]


def test_e4_an_elastic_one_is_extended_on_its_own_account(card: Gpu, spent: Member) -> None:
    row = factories.reservation(spent, [card], START, START + 12)
    extension.extend(row.pk, at(START + 14), by=spent, version=None, now=at(1))
    assert used(spent) == 0
    assert sum(one.units for one in LedgerEntry.objects.filter(account="elastic")) == 14 * UNITS_PER_GPU_HOUR


def test_e4_the_fee_of_an_elastic_one_returns_to_its_own_account(card: Gpu, beyond: Member, strong: Member) -> None:
    """Also when it was moved late, and is in-quota since."""
    row = factories.reservation(beyond, [card], 7, 9)
    other = Reservation.objects.get(holder=beyond, is_elastic=False)
    changes.cancel(other.pk, by=beyond, version=None, now=at(5.4))
    moved = moving.move(row.pk, start=at(20), end=at(22), by=beyond, version=None, now=at(5.5))
    sums = LedgerEntry.objects.filter(member=beyond, account="elastic")
    assert not moved.is_elastic
    assert sum(one.units for one in sums.all()) == UNITS_PER_GPU_HOUR / 2
    factories.reservation(strong, [card], 7, 9, now=at(6))
    assert sum(one.units for one in sums.all()) == 0
    assert used(beyond) == 2 * UNITS_PER_GPU_HOUR


def test_h0_what_became_in_quota_meanwhile_can_still_be_undone(card: Gpu, beyond: Member) -> None:
    from reservations.services import elastic

    row = factories.reservation(beyond, [card], START, START + 4)
    other = Reservation.objects.get(holder=beyond, is_elastic=False)
    changes.cancel(other.pk, by=beyond, version=None, now=NOW)
    assert elastic.settle(row.pk, now=NOW + timedelta(seconds=3))
    assert moving.undo(row.pk, by=beyond, version=row.version, now=SOON).status == "cancelled"
    assert sum(one.units for one in LedgerEntry.objects.filter(member=beyond)) == 0


def test_d4_the_request_key_makes_a_repeat_displace_once(card: Gpu, weak: Member, strong: Member) -> None:
    old = explored(weak, card)
    first = factories.reservation(strong, [card], START, END, key="the-same-key")
    assert factories.reservation(strong, [card], START, END, key="the-same-key") == first
    assert again(old).displaced_times == 1


def test_booking_check_says_beforehand_that_displacing_is_possible(card: Gpu, weak: Member, strong: Member) -> None:
    explored(weak, card)
    assert booking.check(strong, factories.request([card], START, END), now=NOW) == []


# --- what the displaced read ---


def said(member: Member, kind: Kind, now: Any) -> Message:
    row = Notification.objects.select_related("member", "reservation__holder").get(member=member, kind=kind)
    assert obsolete.cause(row, now) == ""
    return messages_of.compose(row, lab_facts(), now)


@pytest.mark.parametrize(("language", "words"), [("en", "had to make room"), ("zh-hans", "因此让出")])
def test_k1_the_displaced_read_who_goes_first_and_what_to_do(
    card: Gpu, weak: Member, strong: Member, language: str, words: str
) -> None:
    Member.objects.filter(pk=weak.pk).update(language=language)
    old = explored(weak, card)
    factories.reservation(strong, [card], START, END)
    message = said(weak, Kind.DISPLACED, at(0.1))
    assert words in message.text
    assert "Strong" in message.text
    assert f"/reservations/{old.pk}" in message.text


@pytest.mark.parametrize(("language", "words"), [("en", "Before: "), ("zh-hans", "原定：")])
def test_k1_the_moved_read_both_times(card: Gpu, weak: Member, strong: Member, language: str, words: str) -> None:
    Member.objects.filter(pk=weak.pk).update(language=language)
    explored(weak, card, may_move=True)
    factories.reservation(strong, [card], START, END)
    message = said(weak, Kind.PLACED, at(0.1))
    assert words in message.text
    assert "2026" in message.text or "08:00" in message.text


def test_k2_a_message_of_a_displacement_that_was_undone_is_dropped(card: Gpu, weak: Member, strong: Member) -> None:
    explored(weak, card)
    new = factories.reservation(strong, [card], START, END)
    moving.undo(new.pk, by=strong, version=new.version, now=SOON)
    row = Notification.objects.get(member=weak, kind=Kind.DISPLACED)
    assert obsolete.cause(row, at(0.1)) == "the reservation was changed"
