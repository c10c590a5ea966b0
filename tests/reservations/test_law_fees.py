"""E3: the fee of a late cancellation and its return. NOW is Monday 14:00."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pytest

from reservations.models import Gpu, LedgerEntry, Member, Reservation
from reservations.rules.refusal import Refused
from reservations.services import booking, changes, extension
from tests.factories import NOW, at, cards, lab, member, reservation
from tests.reservations.accounts import charged, charged_by_week, free_hours

pytestmark = pytest.mark.django_db
TINY, MINUTE = timedelta(microseconds=1), timedelta(minutes=1)
EVENING = 29  # Tuesday 19:00, in hours from NOW: from here to Wednesday 09:00 the rate is 1
LATE = at(EVENING - 1)


@pytest.fixture(autouse=True)
def _lab() -> None:
    lab(balanced=True)


def cancel(made: Reservation, now: datetime) -> None:
    changes.cancel(made.pk, by=made.holder, version=None, now=now)


def cancelled_late(who: Member, gpus: list[Gpu], start: float = EVENING, end: float = EVENING + 8) -> Reservation:
    made = reservation(who, gpus, start, end)
    cancel(made, at(start - 1))
    return made


# --- the fee --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "hours"),
    [(timedelta(hours=20), 0), (timedelta(hours=2), 0), (timedelta(hours=2) - TINY, 2), (timedelta(minutes=1), 2), (TINY, 2)],
)
def test_e3_under_two_hours_before_the_start_a_quarter_is_kept(before: timedelta, hours: float) -> None:
    lin = member()
    cancel(reservation(lin, cards(1), EVENING, EVENING + 8), at(EVENING) - before)
    assert charged(lin) == hours


@pytest.mark.parametrize(
    ("start", "end", "count", "weight", "hours"),
    [
        (EVENING, EVENING + 2, 1, 100, 0.5),
        (EVENING, EVENING + 16, 1, 100, 2),  # of sixteen hours the first eight
        (26, 34, 1, 100, 2.25),  # 16:00 to 24:00: two hours at 1.5, six at 1
        (26, 44, 1, 100, 2.25),
        (EVENING, EVENING + 8, 2, 200, 8),
        (EVENING, EVENING + 0.5, 1, 100, 0.125),
    ],
)
def test_e3_the_fee_is_a_quarter_of_the_charge_of_the_first_eight_hours(
    start: float, end: float, count: int, weight: int, hours: float
) -> None:
    lin = member()
    cancelled_late(lin, cards(count, weight=weight), start, end)
    assert charged(lin) == hours


def test_e3_e2_each_week_keeps_the_fee_of_its_own_part() -> None:
    lin, sunday_22 = member(), 6 * 24 + 8
    cancelled_late(lin, cards(1), sunday_22, sunday_22 + 8)
    assert list(charged_by_week(lin).values()) == [0.5, 1.5]
    reservation(member(), cards(1), sunday_22, sunday_22 + 8, now=at(sunday_22 - 0.5))  # another card returns nothing
    assert list(charged_by_week(lin).values()) == [0.5, 1.5]


def test_e3_the_fee_of_an_extended_one_counts_what_was_added() -> None:
    lin = member()
    made = reservation(lin, cards(1), EVENING, EVENING + 4)
    extension.extend(made.pk, at(EVENING + 6), by=lin, version=None, now=NOW)
    cancel(made, LATE)
    assert charged(lin) == 1.5


def test_e3_a_lab_may_keep_nothing() -> None:
    lab(balanced=True, late_cancel_percent=0)
    lin = member()
    cancelled_late(lin, cards(1))
    assert charged(lin) == 0


def test_e3_cancelling_twice_costs_one_fee() -> None:
    lin = member()
    made = reservation(lin, cards(1), EVENING, EVENING + 8)
    for _ in range(2):
        cancel(made, LATE)
    assert charged(lin) == 2


# --- its return -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "end", "left"),
    [
        (0, 8, 0),
        (0, 12, 0),
        (2, 4, 1.5),
        (6, 10, 1.5),
        (8, 10, 2),  # beyond what the fee was for
        (0, 0.5, 1.875),
    ],
)
def test_e3_the_fee_is_returned_as_the_time_is_booked_again(start: float, end: float, left: float) -> None:
    lin, gpus = member(), cards(1)
    cancelled_late(lin, gpus, EVENING, EVENING + 12)
    reservation(member(), gpus, EVENING + start, EVENING + end, now=LATE + MINUTE)
    assert charged(lin) == left


def test_e3_it_is_returned_in_proportion_of_time_and_rate() -> None:
    lin, gpus = member(), cards(1)
    cancelled_late(lin, gpus, 26, 34)  # 16:00 to 24:00: a fee of 2.25, of it 0.75 for the two hours until 18:00
    reservation(member(), gpus, 27, 29, now=at(25.5))  # 17:00 to 19:00
    assert charged(lin) == 2.25 - 0.375 - 0.25


def test_e3_e2_it_is_returned_to_the_week_that_kept_it() -> None:
    lin, gpus, sunday_22 = member(), cards(1), 6 * 24 + 8
    cancelled_late(lin, gpus, sunday_22, sunday_22 + 8)
    reservation(member(), gpus, sunday_22 + 1, sunday_22 + 4, now=at(sunday_22 - 0.5))
    assert list(charged_by_week(lin).values()) == [0.25, 1]


def test_e3_in_parts_by_several_until_nothing_is_kept() -> None:
    lin, gpus = member(), cards(1)
    cancelled_late(lin, gpus)
    for start, end, left in ((2, 4, 1.5), (5, 6, 1.25), (0, 2, 0.75), (6, 10, 0.25), (4, 5, 0)):
        reservation(member(), gpus, EVENING + start, EVENING + end, now=LATE + MINUTE)
        assert charged(lin) == left


def test_e3_whoever_books_it_again_also_who_cancelled_it() -> None:
    lin, gpus = member(), cards(1)
    cancelled_late(lin, gpus)
    reservation(lin, gpus, EVENING, EVENING + 8, now=LATE + MINUTE)
    assert charged(lin) == 8


def test_e3_it_is_never_returned_twice() -> None:
    lin, wu, li, gpus = member(), member(), member(), cards(1)
    cancelled_late(lin, gpus)
    second = reservation(wu, gpus, EVENING + 2, EVENING + 6, now=LATE + MINUTE)
    assert charged(lin) == 1
    cancel(second, at(EVENING + 1))  # less than two hours before: a fee of Wu's own
    assert (charged(lin), charged(wu)) == (1, 1)
    reservation(li, gpus, EVENING + 2, EVENING + 8, now=at(EVENING + 1) + MINUTE)
    assert (charged(lin), charged(wu), charged(li)) == (0.5, 0, 6)


def test_e3_of_two_cards_only_the_one_booked_again_counts() -> None:
    lin, gpus = member(), cards(2)
    cancelled_late(lin, gpus)
    assert charged(lin) == 4
    reservation(member(), gpus[:1], EVENING, EVENING + 8, now=LATE + MINUTE)
    assert charged(lin) == 2
    reservation(member(), gpus[1:], EVENING + 4, EVENING + 8, now=LATE + MINUTE)
    assert charged(lin) == 1


def test_e3_d2_a_walk_in_books_it_again_too_even_for_nothing() -> None:
    lin, wu, gpus = member(), member(), cards(1)
    cancelled_late(lin, gpus)
    reservation(wu, gpus, None, EVENING + 4, now=at(EVENING) + 30 * MINUTE)
    assert charged(lin) == 2 - 3.5 / 4
    assert (charged(wu), sum(free_hours(wu).values())) == (0, 3.5)


def test_e3_h5_an_extension_books_it_again_too() -> None:
    lin, wu, gpus = member(), member(), cards(1)
    made = reservation(wu, gpus, EVENING - 4, EVENING)
    cancelled_late(lin, gpus)
    extension.extend(made.pk, at(EVENING + 4), by=wu, version=None, now=LATE + MINUTE)
    assert charged(lin) == 1


def test_e3_h0_the_undo_of_a_release_books_it_again_too() -> None:
    lin, wu, gpus = member(), member(), cards(1)
    made = reservation(wu, gpus, EVENING - 3, EVENING + 4)
    changes.release(made.pk, by=wu, version=None, now=at(EVENING - 2))
    second = reservation(lin, gpus, EVENING - 1, EVENING + 3, now=at(EVENING - 2) + MINUTE)
    cancel(second, at(EVENING - 2) + 2 * MINUTE)
    assert charged(lin) == 1
    changes.undo_release(made.pk, by=wu, version=None, now=at(EVENING - 2) + 3 * MINUTE)
    assert charged(lin) == 0


def test_e3_e6_the_share_and_the_price_are_those_of_the_cancellation() -> None:
    lin, gpus = member(), cards(1)
    cancelled_late(lin, gpus)
    lab(balanced=True, late_cancel_percent=100, windows=[{"rate": 300}])
    reservation(member(), gpus, EVENING, EVENING + 8, now=LATE + MINUTE)
    assert charged(lin) == 0


@pytest.mark.parametrize("seed", range(6))
def test_e3_an_account_is_never_below_what_the_law_keeps(seed: int) -> None:
    """Random bookings and late cancellations of two cards, against a list of quarters of an hour and who paid for each."""
    dice = random.Random(seed)
    people, gpus = [member() for _ in range(4)], cards(2)
    kept: dict[tuple[int, int], list[int]] = {}  # card, quarter: for whom a fee is still kept
    booked: list[Reservation] = []
    for turn in range(40):
        now = at(EVENING - 1) + turn * MINUTE
        if booked and dice.random() < 0.45:
            made = booked.pop(dice.randrange(len(booked)))
            # Told long before: no fee. It is for the first eight hours, and only under two hours before the start.
            changes.cancel(made.pk, by=made.holder, version=None, now=now)
            if now > made.start - timedelta(hours=2):
                for gpu_id, quarter in _quarters(made):
                    if quarter < _quarter_of(made.start) + 32:
                        kept.setdefault((gpu_id, quarter), []).append(made.holder_id)
        else:
            start = EVENING + dice.randint(0, 7) / 4
            who, some = dice.choice(people), dice.sample(gpus, dice.randint(1, 2))
            try:
                made = reservation(who, some, start, start + dice.randint(2, 40) / 4, now=now)
            except Refused:
                continue
            booked.append(made)
            for place in _quarters(made):
                kept.pop(place, None)
        for who in people:
            fees = sum(payers.count(who.pk) for payers in kept.values()) / 16  # a quarter of a quarter of an hour
            held = sum(_cost(one) for one in booked if one.holder_id == who.pk)
            assert charged(who) == pytest.approx(fees + held, abs=1e-6)
    reasons = set(LedgerEntry.objects.values_list("reason", flat=True))
    assert {"fee", "rebooked"} <= reasons


def _quarter_of(instant: datetime) -> int:
    return (instant - NOW) // timedelta(minutes=15)


def _quarters(made: Reservation) -> list[tuple[int, int]]:
    span = range(_quarter_of(made.start), _quarter_of(made.end))
    return [(row.gpu_id, quarter) for row in made.allocations.all() for quarter in span]


def _cost(made: Reservation) -> float:
    return len(made.allocations.all()) * (made.end - made.start) / timedelta(hours=1)


def test_e3_a_release_keeps_no_fee() -> None:
    lin = member()
    made = reservation(lin, cards(1), EVENING, EVENING + 8)
    booking.advance_one(made.pk, now=at(EVENING))
    changes.release(made.pk, by=lin, version=None, now=at(EVENING))
    assert charged(lin) == 0
