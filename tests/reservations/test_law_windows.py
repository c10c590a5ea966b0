"""E1, E6, F1 and F2 through the services: what a window's mode, rate and hours do. NOW is Monday 14:00."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from reservations.models import Allocation, Pool, Reservation
from reservations.rules.kinds import Kind
from reservations.rules.refusal import Code, Refused
from reservations.services import booking, changes, extension
from reservations.services.booking import BookingRequest
from tests.factories import NOW, at, cards, lab, member, request, reservation
from tests.reservations.accounts import charged, charged_by_week, codes, offered, only, preset

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def tuesday(hour: float) -> float:
    """Hours from NOW to an hour of Tuesday 1 December."""
    return 10 + hour


# --- E1: rates and weights ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "end", "hours"),
    [
        (8, 10, 2.5),  # 1 + 1.5
        (17, 19, 2.5),
        (9, 18, 13.5),
        (8, 19, 15.5),
        (18, 20, 2),
        (7, 9, 2),
        (8.75, 9.25, 0.625),
        (17.5, 33.5, 0.75 + 15 + 0.75),  # half an hour, the night, half an hour
    ],
)
def test_e1_f2_the_rate_changes_at_nine_and_at_six(start: float, end: float, hours: float) -> None:
    lab(balanced=True)
    lin = member()
    reservation(lin, cards(1), tuesday(start), tuesday(end))
    assert charged(lin) == hours


def test_e1_cards_of_two_pools_cost_their_weights() -> None:
    lab(balanced=True)
    lin = member()
    reservation(lin, [*cards(2), *cards(1, weight=250)], tuesday(8), tuesday(10))
    assert charged(lin) == 2.5 * (1 + 1 + 2.5)


def test_e1_f1_a_pool_with_a_window_of_its_own_has_its_own_rate() -> None:
    (plain,), (dear,) = cards(1), cards(1, model="NVIDIA H200")
    lab(balanced=True, windows=[{"rate": 150, "days": "working", "opens": "09:00", "shuts": "18:00"},
                                {"rate": 400, "opens": "08:00", "shuts": "10:00", "pool": dear.pool_id}])
    lin = member()
    reservation(lin, [plain, dear], tuesday(7), tuesday(11))
    assert charged(lin) == (2 + 2 * 1.5) + (1 + 2 * 4 + 1.5)


def test_e1_e2_a_weekend_over_two_weeks_has_the_rate_of_each_day() -> None:
    lab(balanced=True)
    lin = member()
    sunday = 5 * 24 + 10  # Sunday 6 December 00:00
    reservation(lin, cards(1), sunday + 16, sunday + 24 + 10)  # to Monday 10:00: 8 h, then 9 h and 1 h at 1.5
    assert sorted(charged_by_week(lin).values()) == [8, 10.5]


# --- E6: a price does not change later ------------------------------------------------------------------------------


DEARER = {"windows": [{"rate": 300}]}


def test_e6_cancelling_returns_the_price_of_the_booking() -> None:
    lab(balanced=True)
    lin = member()
    made = reservation(lin, cards(1), tuesday(8), tuesday(10))
    lab(balanced=True, **DEARER)
    assert charged(lin) == 2.5
    changes.cancel(made.pk, by=lin, version=None, now=at(1))
    assert charged(lin) == 0


def test_e6_release_and_undo_keep_the_old_price_and_an_extension_has_the_new_one() -> None:
    lab(balanced=True)
    lin, gpus = member(), cards(1)
    made = reservation(lin, gpus, tuesday(8), tuesday(12))
    assert charged(lin) == 1 + 3 * 1.5
    lab(balanced=True, **DEARER)
    extension.extend(made.pk, at(tuesday(13)), by=lin, version=None, now=at(tuesday(10)))
    assert charged(lin) == 5.5 + 3
    changes.release(made.pk, by=lin, version=None, now=at(tuesday(11)))
    assert charged(lin) == 1 + 2 * 1.5
    changes.undo_release(made.pk, by=lin, version=None, now=at(tuesday(11)) + MINUTE)
    assert charged(lin) == 5.5 + 3
    assert reservation(lin, gpus, tuesday(14), tuesday(15)).start == at(tuesday(14))
    assert charged(lin) == 8.5 + 3


def test_e6_a_pool_made_dearer_leaves_what_is_booked() -> None:
    lab(balanced=True)
    lin, gpus = member(), cards(1)
    made = reservation(lin, gpus, tuesday(8), tuesday(10))
    Pool.objects.update(weight=300)
    changes.cancel(made.pk, by=lin, version=None, now=at(1))
    assert charged(lin) == 0
    reservation(lin, gpus, tuesday(8), tuesday(10), now=at(1))
    assert charged(lin) == 7.5


def test_e6_a_row_of_0_1_0_without_a_price_has_the_plain_rate() -> None:
    lab()
    lin = member()
    made = reservation(lin, cards(1), tuesday(8), tuesday(12))
    Allocation.objects.update(price=[])
    lab(balanced=True)
    longer = extension.extend(made.pk, at(tuesday(13)), by=lin, version=None, now=at(tuesday(10)))
    assert charged(lin) == 4 + 1.5
    changes.release(made.pk, by=lin, version=longer.version, now=at(tuesday(11)))
    assert charged(lin) == 3


# --- F1: modes (the friendly preset: working days 09–18 for walk-ins, else long) -------------------------------------


@pytest.mark.parametrize(
    ("start", "end", "code", "instead"),
    [
        (10, 14, Code.WINDOW_WALK_IN, None),
        (4, 10, Code.WINDOW_WALK_IN, 9),
        (6, 10, Code.WINDOW_WALK_IN, None),  # until nine it would be too short for a long window
        (18, 21.75, Code.WINDOW_LONG, 22),
        (6, 8, Code.WINDOW_LONG, None),  # four hours would reach into the hours for walk-ins
        (5, 8, Code.WINDOW_LONG, 9),
    ],
)
def test_f1_planned_ones_stand_in_long_windows_only_and_for_four_hours(
    start: float, end: float, code: Code, instead: float | None
) -> None:
    preset("friendly")
    lin, gpus = member(), cards(1)
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus, tuesday(start), tuesday(end))
    refusal = only(caught)
    assert refusal.code == code
    values = None if instead is None else {"start": at(tuesday(start)), "end": at(tuesday(instead))}
    assert offered(refusal) == values
    if values:
        booking.reserve(lin, BookingRequest((gpus[0].pk,), **values), now=NOW)


@pytest.mark.parametrize(("start", "end"), [(18, 22), (5, 9), (0, 9), (18, 33)])
def test_f1_a_long_one_beside_the_day_is_allowed(start: float, end: float) -> None:
    preset("friendly")
    assert reservation(member(), cards(1), tuesday(start), tuesday(end)).kind == Kind.PLANNED


def test_f1_a_late_one_is_bound_like_a_planned_one() -> None:
    preset("friendly")
    with pytest.raises(Refused) as caught:
        reservation(member(), cards(1), 1, 3)
    assert set(codes(caught)) == {Code.WINDOW_WALK_IN}
    with pytest.raises(Refused) as caught:
        reservation(member(), cards(1), 4, 7)
    assert codes(caught) == [Code.WINDOW_LONG]
    assert reservation(member(), cards(1), 4, 8).kind == Kind.LATE


def test_f1_a_walk_in_begun_by_day_goes_on_into_the_night() -> None:
    preset("friendly")
    lin = member()
    made = reservation(lin, cards(1), None, 5)
    assert extension.longest_end(made, now=at(1)) == at(12)


def test_f1_a_walk_in_begun_in_a_long_window_ends_with_it() -> None:
    preset("friendly")
    lin, gpus = member(), cards(1)
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus, None, tuesday(9.25), now=at(8))
    refusal = only(caught)
    assert (refusal.code, offered(refusal)) == (Code.WALK_IN_WINDOW, {"start": None, "end": at(tuesday(9))})
    made = reservation(lin, gpus, None, 10, now=at(8))
    assert extension.longest_end(made, now=at(9)) == at(tuesday(9))
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(tuesday(9.5)), by=lin, version=None, now=at(9))
    assert (codes(caught), offered(only(caught))) == ([Code.WALK_IN_WINDOW], {"end": at(tuesday(9))})
    assert extension.extend(made.pk, at(tuesday(9)), by=lin, version=None, now=at(9)).end == at(tuesday(9))


def test_f1_an_extension_does_not_reach_into_hours_for_walk_ins() -> None:
    preset("friendly")
    lin = member()
    made = reservation(lin, cards(1), tuesday(2), tuesday(6))
    assert extension.longest_end(made, now=NOW) == at(tuesday(9))
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(tuesday(9.25)), by=lin, version=None, now=NOW)
    assert (codes(caught), offered(only(caught))) == ([Code.WINDOW_WALK_IN], {"end": at(tuesday(9))})


CLOSED = [{"mode": "closed", "days": "weekdays", "weekdays": [1], "opens": "12:00", "shuts": "14:00"}]


@pytest.mark.parametrize("now", [NOW, at(20)], ids=["planned", "walk-in"])
def test_f1_nothing_stands_in_a_closed_window(now: datetime) -> None:
    lab(windows=CLOSED)
    lin, gpus, start = member(), cards(1), None if now != NOW else tuesday(10)
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus, start, tuesday(13), now=now)
    refusal = only(caught)
    assert (refusal.code, refusal.facts["start"]) == (Code.WINDOW_CLOSED, at(tuesday(12)))
    assert offered(refusal)["end"] == at(tuesday(12))
    made = reservation(lin, gpus, start, tuesday(11), now=now)
    assert extension.longest_end(made, now=now) == at(tuesday(12))
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(tuesday(12.25)), by=lin, version=None, now=now)
    assert (codes(caught), offered(only(caught))) == ([Code.WINDOW_CLOSED], {"end": at(tuesday(12))})
    assert reservation(lin, gpus, tuesday(14), tuesday(15), now=NOW).kind == Kind.PLANNED


def test_f1_g2_a_request_by_count_takes_the_pool_whose_windows_allow_it() -> None:
    (shut,), (open_,) = cards(1), cards(1, model="NVIDIA H200")
    lab(windows=[{"mode": "closed", "pool": shut.pool_id}])
    made = booking.reserve(member(), BookingRequest((), at(18), at(20), count=1), now=NOW)
    assert list(made.allocations.values_list("gpu", flat=True)) == [open_.pk]
    with pytest.raises(Refused) as caught:
        booking.reserve(member(), BookingRequest((), at(18), at(20), count=1, pool_id=shut.pool_id), now=NOW)
    assert codes(caught) == [Code.WINDOW_CLOSED]


def test_f1_cards_of_two_pools_obey_the_windows_of_both() -> None:
    (plain,), (shut,) = cards(1), cards(1, model="NVIDIA H200")
    lab(windows=[{"mode": "closed", "opens": "12:00", "shuts": "13:00", "pool": shut.pool_id}])
    reservation(member(), [plain], tuesday(11), tuesday(14))
    with pytest.raises(Refused) as caught:
        reservation(member(), [plain, shut], tuesday(11), tuesday(14), tier="regular")
    assert set(codes(caught)) == {Code.CARD_TAKEN, Code.WINDOW_CLOSED}


# --- F2: the most hours inside --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "start", "end", "hours", "fits", "later"),
    [
        ("strict", 10, 15, 4, 14, 18),
        ("strict", 12, 20, 4, 16, 18),
        ("strict", 16, 24 + 12, 4, 24 + 11, 3 * 24 + 18),  # 2 h and 2 h; every night of the week has too much day beside it
        ("balanced", 9, 24 + 10, 9, 24 + 9, 18),
        ("balanced", 12, 24 + 15, 9, 24 + 12, 18),
    ],
)
def test_f2_the_refusal_says_what_fits_and_when_a_longer_one_may_start(
    name: str, start: float, end: float, hours: float, fits: float, later: float
) -> None:
    preset(name)
    lin, gpus = member(), cards(1)
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus, tuesday(start), tuesday(end))
    refusal = only(caught)
    assert refusal.code == Code.WINDOW_HOURS
    assert refusal.facts == {"hours": hours, "fits": at(tuesday(fits)), "later": at(tuesday(later))}
    assert offered(refusal) == {"start": at(tuesday(start)), "end": at(tuesday(fits))}
    asked = request(gpus, tuesday(later), tuesday(later + end - start))
    assert Code.WINDOW_HOURS not in [one.code for one in booking.check(lin, asked, now=NOW)]
    assert reservation(lin, gpus, tuesday(start), tuesday(fits)).end == at(tuesday(fits))


def test_f2_exactly_the_most_hours_are_allowed() -> None:
    preset("strict")
    reservation(member(), cards(1), tuesday(7), tuesday(13))
    reservation(member(), cards(1), tuesday(14), tuesday(24 + 9))


def test_f2_h5_an_extension_counts_the_hours_of_the_whole() -> None:
    preset("strict")
    lin = member()
    made = reservation(lin, cards(1), tuesday(9), tuesday(12))
    assert extension.longest_end(made, now=NOW) == at(tuesday(13))
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(tuesday(13.25)), by=lin, version=None, now=NOW)
    refusal = only(caught)
    assert (refusal.code, refusal.facts["fits"], offered(refusal)) == (
        Code.WINDOW_HOURS, at(tuesday(13)), {"end": at(tuesday(13))},
    )
    extension.extend(made.pk, at(tuesday(13)), by=lin, version=None, now=NOW)
    assert extension.longest_end(Reservation.objects.get(), now=NOW) is None


def test_f2_the_most_hours_do_not_bind_a_walk_in() -> None:
    """F1: a walk-in is checked at its start and against closed windows only."""
    lab(balanced=True, windows=[{"most_inside_s": 3600}])
    assert reservation(member(), cards(1), None, 3).kind == Kind.WALK_IN
