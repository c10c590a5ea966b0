"""D1 and D2 through the services: the kind by the clock, walk-ins and their free card-hours. NOW is Monday 14:00."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta

import pytest

from reservations.models import Allocation, CardState, Host, LedgerEntry, Member, Reservation
from reservations.rules.kinds import Kind
from reservations.rules.lifecycle import Status
from reservations.rules.refusal import Code, Refused
from reservations.services import booking, changes, extension
from reservations.services.booking import BookingRequest
from reservations.services.sightings import Sighting, record
from tests.factories import NOW, at, cards, host, lab, member, reservation
from tests.reservations.accounts import charged, codes, free_hours, offered, only, seen_free

pytestmark = pytest.mark.django_db
MONDAY, TUESDAY = date(2026, 11, 30), date(2026, 12, 1)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)


@pytest.fixture(autouse=True)
def _lab() -> None:
    lab(balanced=True, walk_in_free_hours=3)


# --- D1: the kind ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "start", "kind"),
    [
        (NOW, None, Kind.WALK_IN),
        (NOW, 0, Kind.WALK_IN),
        (NOW, 0.25, Kind.LATE),
        (NOW, 9.75, Kind.LATE),  # 23:45 today
        (at(6) - SECOND, 10, Kind.PLANNED),  # 19:59:59, for tomorrow 00:00
        (at(6), 10, Kind.LATE),
        (at(6) - SECOND, 33.75, Kind.PLANNED),  # for tomorrow 23:45
        (at(6), 33.75, Kind.LATE),
        (at(6), 34, Kind.PLANNED),  # for the day after tomorrow 00:00
        (at(10), 34, Kind.PLANNED),
    ],
)
def test_d1_the_clock_decides_the_kind(now: datetime, start: float | None, kind: Kind) -> None:
    made = reservation(member(), cards(1), start, (start or 0) + 8, now=now)
    assert made.kind == kind
    assert Reservation.objects.get().kind == kind


def test_d1_the_kind_stays_what_it_was_when_booked() -> None:
    lin = member()
    made = reservation(lin, cards(1), 18, 20)
    longer = extension.extend(made.pk, at(20.5), by=lin, version=None, now=at(7))
    assert longer.kind == Kind.PLANNED


def test_d3_a_late_one_costs_what_a_planned_one_costs() -> None:
    lin = member()
    late = reservation(lin, cards(1), 3, 5)  # 17:00 to 19:00 today
    assert (late.kind, charged(lin), free_hours(lin)) == (Kind.LATE, 2.5, {})


# --- D2: limits -----------------------------------------------------------------------------------------------------


def test_d2_a_walk_in_lasts_at_most_eight_hours() -> None:
    lin, gpus = member(), cards(1)
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus, None, 8.25)
    refusal = only(caught)
    assert (refusal.code, refusal.facts, offered(refusal)) == (Code.WALK_IN_LONG, {"hours": 8}, {"start": None, "end": at(8)})
    assert reservation(lin, gpus, None, 8).end == at(8)


def test_d2_a_walk_in_is_extended_to_eight_hours_in_all() -> None:
    lin = member()
    made = reservation(lin, cards(1), None, 2)
    assert extension.longest_end(made, now=at(1)) == at(8)
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(8.25), by=lin, version=None, now=at(1))
    assert (only(caught).code, offered(only(caught))) == (Code.WALK_IN_LONG, {"end": at(8)})
    assert extension.extend(made.pk, at(8), by=lin, version=None, now=at(1)).end == at(8)


def test_d2_two_walk_in_cards_at_once_in_one_or_in_two() -> None:
    lin, gpus = member(), cards(4)
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus[:3], None, 2)
    assert codes(caught) == [Code.WALK_IN_CARDS]
    first = reservation(lin, gpus[:1], None, 2)
    reservation(lin, gpus[1:2], None, 4, now=at(0.5))
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus[2:3], None, 3, now=at(1))
    assert only(caught).facts == {"most": 2, "would": 3}
    reservation(lin, gpus[2:3], 1.5, 2)  # a late one is not a walk-in
    changes.release(first.pk, by=lin, version=None, now=at(1))
    assert reservation(lin, gpus[3:], None, 3, now=at(1)).kind == Kind.WALK_IN


def test_d2_an_ended_walk_in_does_not_come_back_beside_two_others() -> None:
    """Neither by an extension in the grace nor by the undo of a release (H0)."""
    lin, gpus = member(), cards(4)
    first = reservation(lin, gpus[:1], None, 2)
    reservation(lin, gpus[1:2], None, 6)
    booking.advance_one(first.pk, now=at(2))
    third = reservation(lin, gpus[2:3], None, 6, now=at(2))
    assert extension.longest_end(Reservation.objects.get(pk=first.pk), now=at(2) + MINUTE) is None
    with pytest.raises(Refused) as caught:
        extension.extend(first.pk, at(3), by=lin, version=None, now=at(2) + MINUTE)
    assert codes(caught) == [Code.WALK_IN_CARDS]
    changes.release(third.pk, by=lin, version=None, now=at(3))
    reservation(lin, gpus[3:], None, 6, now=at(3))
    with pytest.raises(Refused) as caught:
        changes.undo_release(third.pk, by=lin, version=None, now=at(3) + MINUTE)
    assert codes(caught) == [Code.WALK_IN_CARDS]


def test_d2_a_walk_in_waits_for_nobody_and_moves_nobody() -> None:
    gpus = cards(1)
    reservation(member(), gpus, 3, 5, tier="exploration")
    with pytest.raises(Refused) as caught:
        reservation(member(), gpus, None, 4)
    assert codes(caught) == [Code.CARD_TAKEN]
    reservation(member(), gpus, None, 3)


# --- D2: free card-hours --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2])
def test_d2_sixteen_card_hours_a_day_cost_nothing(count: int) -> None:
    lab(balanced=True)
    lin = member()
    reservation(lin, cards(count), None, 8)
    assert (charged(lin), free_hours(lin)) == (0, {MONDAY: 8 * count})


def test_d2_beyond_sixteen_the_ordinary_charge() -> None:
    lab(balanced=True)
    lin, gpus = member(), cards(3)
    reservation(lin, gpus[:2], None, 8)  # 14:00 to 22:00: sixteen card-hours
    reservation(lin, gpus[2:], None, 11, now=at(8))  # 22:00 to 01:00: two hours cost, the third is Tuesday's
    assert (charged(lin), free_hours(lin)) == (2, {MONDAY: 16, TUESDAY: 1})


@pytest.mark.parametrize(
    ("count", "weight", "end", "hours"),
    [
        (1, 100, 3, 0),
        (1, 100, 6, 3.5),  # free until 17:00; 17–18 at 1.5, 18–20 at 1
        (2, 100, 6, 11.5),  # free until 15:30; 2.5 h at 1.5 and 2 h at 1, twice
        (1, 250, 6, 8.75),
        (2, 250, 6, 28.75),
    ],
)
def test_d2_e1_the_first_time_is_free_then_it_costs_by_window_and_pool(
    count: int, weight: int, end: float, hours: float
) -> None:
    lin = member()
    reservation(lin, cards(count, weight=weight), None, end)
    assert (charged(lin), free_hours(lin)) == (hours, {MONDAY: 3})


def test_d2_cards_of_two_pools_share_the_free_time_evenly() -> None:
    lin = member()
    reservation(lin, [*cards(1), *cards(1, weight=250)], None, 4)  # free until 15:30, 2.5 h at 1.5 of weights 1 and 2.5
    assert (charged(lin), free_hours(lin)) == (2.5 * 1.5 * 3.5, {MONDAY: 3})


def test_d2_the_earliest_booked_is_free_first() -> None:
    lin, gpus = member(), cards(2)
    reservation(lin, gpus[:1], None, 2)
    assert free_hours(lin) == {MONDAY: 2}
    reservation(lin, gpus[1:], None, 2)  # one hour is left, 15:00 to 16:00 costs
    assert (charged(lin), free_hours(lin)) == (1.5, {MONDAY: 3})


def test_d2_a_walk_in_over_midnight_uses_the_free_hours_of_both_days() -> None:
    lin = member()
    reservation(lin, cards(1), None, 14, now=at(6))  # 20:00 to 04:00: 23–24 and 03–04 cost
    assert (charged(lin), free_hours(lin)) == (2, {MONDAY: 3, TUESDAY: 3})


def test_d2_the_free_hours_are_each_members_own() -> None:
    lin, wu = member(), member()
    for who in (lin, wu):
        reservation(who, cards(1), None, 3)
    assert free_hours(lin) == free_hours(wu) == {MONDAY: 3}
    assert charged(lin) == charged(wu) == 0


def test_d2_e2_only_what_is_not_free_needs_room_in_the_allowance() -> None:
    lab(balanced=True, walk_in_free_hours=3, elastic=False, roles={"phd": {"weekly_hours": 0}})
    lin, gpus = member(), cards(1)
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus, None, 4)
    refusal = only(caught)
    assert (refusal.code, refusal.facts["fits"], offered(refusal)) == (Code.QUOTA, at(3), {"start": None, "end": at(3)})
    made = reservation(lin, gpus, None, 3)
    assert extension.longest_end(made, now=at(1)) is None


# --- D2: giving back ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("released", "hours", "free"),
    [(2, 0, 2), (3, 0, 3), (3.5, 0.75, 3), (4, 1.5, 3), (5, 2.5, 3)],  # booked 14:00 to 20:00, free until 17:00
)
def test_d2_e3_a_release_returns_hours_and_free_time_that_have_not_elapsed(released: float, hours: float, free: float) -> None:
    lin = member()
    made = reservation(lin, cards(1), None, 6)
    changes.release(made.pk, by=lin, version=None, now=at(released))
    assert (charged(lin), free_hours(lin)) == (hours, {MONDAY: free})


def test_d2_a_give_back_makes_the_unused_free_hours_free_again() -> None:
    lin, gpus = member(), cards(1)
    made = reservation(lin, gpus, None, 4)
    changes.release(made.pk, by=lin, version=None, now=at(2))
    reservation(lin, gpus, None, 4, now=at(2))  # one hour is left: 16–17 free, 17–18 costs
    assert (charged(lin), free_hours(lin)) == (1.5, {MONDAY: 3})


def test_d2_h0_an_undo_takes_the_free_hours_again() -> None:
    lin = member()
    made = reservation(lin, cards(1), None, 6)
    changes.release(made.pk, by=lin, version=None, now=at(2))
    assert (charged(lin), free_hours(lin)) == (0, {MONDAY: 2})
    changes.undo_release(made.pk, by=lin, version=None, now=at(2) + 9 * MINUTE)
    assert (charged(lin), free_hours(lin)) == (3.5, {MONDAY: 3})


def test_d2_h0_an_undo_finds_free_only_what_another_walk_in_has_left() -> None:
    lin, gpus = member(), cards(2)
    made = reservation(lin, gpus[:1], None, 4)  # 14:00 to 18:00, free until 17:00
    changes.release(made.pk, by=lin, version=None, now=at(2))
    reservation(lin, gpus[1:], None, 3, now=at(2) + 5 * MINUTE)  # 16:05 to 17:00: 55 of the 60 free minutes
    changes.undo_release(made.pk, by=lin, version=None, now=at(2) + 8 * MINUTE)
    # 16:00 to 16:05 is free, 16:05 to 18:00 costs: 115 minutes at 1.5
    assert free_hours(lin) == {MONDAY: 3}
    assert charged(lin) == pytest.approx(2.875, abs=1e-9)
    changes.release(made.pk, by=lin, version=None, now=at(3))
    assert charged(lin) == pytest.approx(1.375, abs=1e-9)  # 16:05 to 17:00, at the price of the undo


def test_d2_e6_an_undo_keeps_free_what_was_free_although_the_lab_gives_none_any_more() -> None:
    lin = member()
    made = reservation(lin, cards(1), None, 6)
    lab(balanced=True, walk_in_free_hours=0)
    changes.release(made.pk, by=lin, version=None, now=at(2))
    changes.undo_release(made.pk, by=lin, version=None, now=at(2) + MINUTE)
    assert (charged(lin), free_hours(lin)) == (3.5, {MONDAY: 3})


def test_d2_h5_an_extension_takes_the_free_hours_that_are_left() -> None:
    lin = member()
    made = reservation(lin, cards(1), None, 2)
    extension.extend(made.pk, at(4), by=lin, version=None, now=at(1))
    assert (charged(lin), free_hours(lin)) == (1.5, {MONDAY: 3})
    changes.release(made.pk, by=lin, version=None, now=at(2.5))
    assert (charged(lin), free_hours(lin)) == (0, {MONDAY: 2.5})


def test_d2_a_planned_one_is_never_free() -> None:
    lin = member()
    made = reservation(lin, cards(1), 18, 20)
    extension.extend(made.pk, at(21), by=lin, version=None, now=at(19))
    assert (charged(lin), free_hours(lin)) == (1 + 1.5 + 1.5, {})


@pytest.mark.parametrize("seed", range(10))
def test_d2_whatever_is_done_no_day_has_more_free_time_than_the_law_gives(seed: int) -> None:
    """Random walk-ins, releases, undos and extensions: the day's budget holds, and no account falls below nothing."""
    dice = random.Random(seed)
    lin, gpus, now, mine = member(), cards(4), at(dice.choice((0, 5))), list[int]()
    step = timedelta(minutes=1, seconds=dice.choice((0, 7)), microseconds=dice.choice((0, 333)))
    for _ in range(24):
        now += step * dice.randint(1, 25)
        for pk in [*booking.start_due(now), *booking.finish_due(now)]:
            booking.advance_one(pk, now=now)
        try:
            match dice.choice(("book", "book", "release", "undo", "extend")):
                case "book":
                    end = _quarter(now) + timedelta(minutes=15 * dice.randint(2, 16))
                    some = tuple(gpu.pk for gpu in dice.sample(gpus, dice.randint(1, 2)))
                    mine.append(booking.reserve(lin, BookingRequest(some, None, end), now=now).pk)
                case "release" if mine:
                    changes.release(dice.choice(mine), by=lin, version=None, now=now)
                case "undo" if mine:
                    changes.undo_release(dice.choice(mine), by=lin, version=None, now=now)
                case "extend" if mine:
                    one = Reservation.objects.get(pk=dice.choice(mine))
                    extension.extend(one.pk, one.end + timedelta(minutes=30), by=lin, version=None, now=now)
        except Refused:
            pass
        assert all(0 <= hours <= 3 for hours in free_hours(lin).values())
        assert charged(lin) >= 0
    assert mine
    held = [row.end - row.start for row in Allocation.objects.all()]
    assert sum(free_hours(lin).values()) <= sum(one.total_seconds() + 1 for one in held) / 3600  # only what was held is free


def _quarter(now: datetime) -> datetime:
    quarter = timedelta(minutes=15)
    return now - (now - NOW) % quarter


# --- D2: which cards ------------------------------------------------------------------------------------------------


def by_count(who: Member, count: int = 1, start: float | None = None, end: float = 2) -> Reservation:
    request = BookingRequest((), None if start is None else at(start), at(end), count=count)
    return booking.reserve(who, request, now=NOW)


def test_d2_an_unknown_card_is_had_by_name_but_never_picked() -> None:
    lin, gpus = member(), cards(1)
    with pytest.raises(Refused) as caught:
        by_count(lin)
    assert codes(caught) == [Code.NOT_ENOUGH_CARDS]
    assert reservation(lin, gpus, None, 2).status == Status.ACTIVE


@pytest.mark.parametrize("state", [one for one in CardState.State if one != CardState.State.FREE])
def test_d2_a_card_not_seen_free_is_never_picked(state: CardState.State) -> None:
    one, other = cards(2)
    record([Sighting(one.pk, state, NOW)])
    seen_free(other)
    assert list(by_count(member()).allocations.values_list("gpu", flat=True)) == [other.pk]
    with pytest.raises(Refused) as caught:
        by_count(member())
    assert codes(caught) == [Code.NOT_ENOUGH_CARDS]


def test_d2_a_card_of_a_host_without_a_reader_may_be_picked() -> None:
    on = host()
    Host.objects.filter(pk=on.pk).update(has_reader=False)
    (gpu,) = cards(1, on)
    assert list(by_count(member()).allocations.values_list("gpu", flat=True)) == [gpu.pk]


def test_d2_for_a_later_start_an_unknown_card_is_picked_like_any_other() -> None:
    (gpu,) = cards(1)
    assert list(by_count(member(), start=18, end=20).allocations.values_list("gpu", flat=True)) == [gpu.pk]


def test_d2_the_free_account_moves_only_with_walk_ins() -> None:
    lin = member()
    made = reservation(lin, cards(1), 18, 20)
    changes.cancel(made.pk, by=lin, version=None, now=at(1))
    assert not LedgerEntry.objects.filter(account=LedgerEntry.Account.FREE).exists()
