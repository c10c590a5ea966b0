"""G2, G4, G7 and the caps of B1 through the services. NOW is Monday 14:00; Tuesday is worked, Saturday is not."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from reservations.models import Allocation, Gpu, Pool, Reservation
from reservations.rules.lifecycle import HOLDING
from reservations.rules.refusal import Code, Refused
from reservations.services import booking, changes, extension
from reservations.services.booking import BookingRequest
from reservations.services.locking import Busy
from tests.factories import NOW, at, cards, host, lab, member, reservation
from tests.reservations.accounts import charged, codes, only, preset, seen_free

pytestmark = pytest.mark.django_db
TUESDAY, SATURDAY = 10, 4 * 24 + 10  # midnight, in hours from NOW
MINUTE = timedelta(minutes=1)


def by_count(
    count: int, start: float | None = 18, end: float = 20, *, who: Any = None, now: Any = NOW, **fields: Any
) -> Reservation:
    request = BookingRequest((), None if start is None else at(start), at(end), count=count, **fields)
    return booking.reserve(who or member(), request, now=now)


def taken(made: Reservation) -> list[int]:
    return sorted(made.allocations.values_list("gpu", flat=True))


def ids(gpus: Sequence[Gpu]) -> list[int]:
    return sorted(gpu.pk for gpu in gpus)


# --- G2: choice by count --------------------------------------------------------------------------------------------


@pytest.fixture
def plain() -> None:
    lab()


@pytest.mark.usefixtures("plain")
class TestChoice:
    def test_g2_by_count_the_lowest_bus_ids_of_one_host(self) -> None:
        gpus = cards(4)
        for _ in range(2):  # the same answer every time
            made = by_count(2)
            assert taken(made) == ids(gpus[:2])
            changes.cancel(made.pk, by=made.holder, version=None, now=NOW)
        assert (made.end - made.start, charged(made.holder)) == (timedelta(hours=2), 0)

    def test_g2_what_is_written_is_one_reservation_on_one_host(self) -> None:
        cards(1)
        second = cards(3)
        cards(2)
        lin = member()
        made = by_count(3, who=lin)
        assert taken(made) == ids(second)
        assert {row.gpu.host_id for row in made.allocations.select_related("gpu")} == {second[0].host_id}
        assert charged(lin) == 6
        assert Reservation.objects.count() == 1

    def test_g2_several_hosts_only_where_they_are_allowed(self) -> None:
        gpus = [*cards(2), *cards(2)]
        with pytest.raises(Refused) as caught:
            by_count(3)
        assert (only(caught).code, only(caught).facts) == (Code.NOT_ENOUGH_CARDS, {"count": 3})
        assert len(set(taken(by_count(3, several_hosts=True))) & set(ids(gpus))) == 3

    def test_g2_not_enough_cards_writes_nothing(self) -> None:
        gpus = cards(2)
        reservation(member(), gpus[:1], 19, 21)
        with pytest.raises(Refused) as caught:
            by_count(2)
        assert codes(caught) == [Code.NOT_ENOUGH_CARDS]
        assert (Reservation.objects.count(), Allocation.objects.count()) == (1, 1)
        assert taken(by_count(1)) == ids(gpus[1:])

    def test_g2_a_count_of_none_asks_for_nothing(self) -> None:
        cards(1)
        with pytest.raises(Refused) as caught:
            by_count(0)
        assert codes(caught) == [Code.NO_CARDS]

    def test_g2_by_pool_by_model_and_by_memory(self) -> None:
        on = host()
        small, other, big = cards(1, on), cards(1, on, model="NVIDIA A100"), cards(1, on, model="NVIDIA H200")
        Gpu.objects.filter(pk=big[0].pk).update(memory_total=141 << 30)
        Gpu.objects.filter(pk=small[0].pk).update(memory_total=None)
        assert taken(by_count(1, pool_id=other[0].pool_id)) == ids(other)
        assert taken(by_count(1, 30, 32, model="NVIDIA H200")) == ids(big)
        assert taken(by_count(1, 40, 42, min_memory=141 << 30)) == ids(big)
        assert taken(by_count(1, 50, 52, min_memory=1)) == ids(other)  # nobody knows the memory of the small one
        with pytest.raises(Refused) as caught:
            by_count(1, 60, 62, min_memory=(141 << 30) + 1)
        assert codes(caught) == [Code.NOT_ENOUGH_CARDS]
        with pytest.raises(Refused):
            by_count(1, 60, 62, model="NVIDIA H200", pool_id=other[0].pool_id)

    def test_g2_g5_a_card_out_of_service_is_not_chosen(self) -> None:
        gpus = cards(2)
        Gpu.objects.filter(pk=gpus[0].pk).update(service=Gpu.Service.OUT_OF_SERVICE)
        assert taken(by_count(1)) == ids(gpus[1:])

    def test_g2_no_small_gap_if_another_card_leaves_none(self) -> None:
        gpus = cards(3)
        reservation(member(), gpus[:1], 15, 17)  # one hour before
        reservation(member(), gpus[1:2], 21, 22)  # one hour after
        assert taken(by_count(1)) == ids(gpus[2:])
        assert taken(by_count(1)) == ids(gpus[:1])  # as much waste on both: the lowest bus id

    def test_g2_the_card_used_last_before_the_lowest_bus_id(self) -> None:
        lin, gpus = member(), cards(3)
        reservation(lin, gpus[2:], None, 2)
        assert taken(by_count(1, who=lin)) == ids(gpus[2:])
        assert taken(by_count(1)) == ids(gpus[:1])

    def test_g2_a_pool_at_a_time(self) -> None:
        on = host()
        cards(1, on)
        two = cards(2, on, model="NVIDIA A100")
        assert taken(by_count(2)) == ids(two)

    def test_g2_e2_a_pool_that_the_allowance_pays_for_goes_before_one_it_does_not(self) -> None:
        on, lin = host(), member(role="undergraduate")
        dear = cards(1, on, weight=300)
        plain = cards(2, on)
        assert taken(by_count(1, 18, 22, who=lin)) == ids(dear)  # 12 of 20 hours, and the lower bus id among equals
        assert set(taken(by_count(1, 30, 34, who=lin))) <= set(ids(plain))

    def test_g2_b1_e2_caps_and_allowance_hold_by_count_as_by_name(self) -> None:
        lab(cards_at_once=2, open_future=1)
        cards(8)
        with pytest.raises(Refused) as caught:
            by_count(3)
        assert codes(caught) == [Code.CARDS_AT_ONCE]
        with pytest.raises(Refused) as caught:
            by_count(2, 18, 30, who=member(role="undergraduate"))
        assert codes(caught) == [Code.QUOTA]
        lin = member()
        by_count(2, who=lin)
        with pytest.raises(Refused) as caught:
            by_count(1, 40, 42, who=lin)
        assert codes(caught) == [Code.OPEN_FUTURE]

    def test_p3_the_same_form_by_count_books_once(self) -> None:
        cards(4)
        lin = member()
        assert by_count(1, who=lin, key="form") == by_count(1, who=lin, key="form")
        with pytest.raises(Refused) as caught:
            by_count(2, who=lin, key="form")
        assert codes(caught) == [Code.KEY_REUSED]


# --- B1: caps of a role ---------------------------------------------------------------------------------------------


def test_b1_a_role_may_have_caps_of_its_own() -> None:
    lab(cards_at_once=2, open_future=2, roles={
        "phd": {"weekly_hours": 100, "cards_at_once": 3, "open_future": 1}, "master": {"weekly_hours": 100},
    })
    gpus, phd, master = cards(8), member(), member(role="master")
    with pytest.raises(Refused) as caught:
        reservation(phd, gpus[:4], 18, 20)
    assert only(caught).facts == {"most": 3, "would": 4}
    reservation(phd, gpus[:3], 18, 20)
    with pytest.raises(Refused) as caught:
        reservation(phd, gpus[:1], 30, 32)
    assert (codes(caught), only(caught).facts) == ([Code.OPEN_FUTURE], {"most": 1})
    with pytest.raises(Refused) as caught:
        reservation(master, gpus[3:6], 18, 20)
    assert only(caught).facts == {"most": 2, "would": 3}
    reservation(master, gpus[3:5], 18, 20)
    reservation(master, gpus[3:5], 30, 32)


def test_b1_h5_an_extension_obeys_the_cap_of_the_role() -> None:
    lab(cards_at_once=8, roles={"phd": {"weekly_hours": 100, "cards_at_once": 1}})
    lin, gpus = member(), cards(2)
    made = reservation(lin, gpus[:1], 18, 20)
    reservation(lin, gpus[1:], 21, 22)
    assert extension.longest_end(made, now=NOW) == at(21)
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(21.25), by=lin, version=None, now=NOW)
    assert codes(caught) == [Code.CARDS_AT_ONCE]


# --- G4: the emergency reserve (strict: one of four, and one quick card) ---------------------------------------------


def three_taken(gpus: list[Gpu], start: float | None, end: float, now: Any = NOW) -> None:
    for gpu in gpus[:3]:
        reservation(member(), [gpu], start, end, now=now)


def test_g4_planned_ones_take_three_of_four_and_a_short_walk_in_the_last() -> None:
    preset("strict")
    gpus = cards(4)
    three_taken(gpus, 1, 3)
    with pytest.raises(Refused) as caught:
        reservation(member(), gpus[3:], 1, 3)
    assert (only(caught).code, only(caught).facts) == (Code.RESERVE_KEPT, {"reserve": 1, "quick": 1})
    with pytest.raises(Refused) as caught:
        reservation(member(), gpus[3:], None, 3.25, now=at(1))
    assert codes(caught) == [Code.RESERVE_KEPT]
    assert reservation(member(), gpus[3:], None, 3, now=at(1)).start == at(1)


def test_g4_by_count_what_is_kept_back_is_not_there() -> None:
    preset("strict")
    gpus = cards(4)
    seen_free(*gpus)
    three_taken(gpus, None, 2)
    with pytest.raises(Refused) as caught:
        by_count(1, 0.25, 2)
    assert codes(caught) == [Code.NOT_ENOUGH_CARDS]
    with pytest.raises(Refused) as caught:
        by_count(1, None, 2.25)
    assert codes(caught) == [Code.NOT_ENOUGH_CARDS]
    assert taken(by_count(1, None, 2)) == ids(gpus[3:])


def test_g4_which_card_is_kept_does_not_matter_only_how_many() -> None:
    preset("strict")
    gpus = cards(4)
    reservation(member(), gpus[2:], SATURDAY + 10, SATURDAY + 12)
    reservation(member(), gpus[:1], SATURDAY + 10, SATURDAY + 12)
    with pytest.raises(Refused) as caught:
        reservation(member(), gpus[1:2], SATURDAY + 11, SATURDAY + 12)
    assert codes(caught) == [Code.RESERVE_KEPT]
    reservation(member(), gpus[1:2], SATURDAY + 12, SATURDAY + 14)


@pytest.mark.parametrize(("count", "reserve", "quick", "allowed"), [
    (3, None, None, 3), (4, None, None, 3), (4, 0, 0, 4), (3, 1, 0, 2), (4, 2, None, 2), (5, None, None, 4),
])
def test_g4_n_a_pool_of_four_or_more_keeps_the_presets_number_or_its_own(
    count: int, reserve: int | None, quick: int | None, allowed: int
) -> None:
    preset("strict")
    gpus = cards(count)
    Pool.objects.update(reserve=reserve, quick=quick)
    refused = 0
    for gpu in gpus:
        try:
            reservation(member(), [gpu], TUESDAY + 20, TUESDAY + 22)
        except Refused as problem:
            assert problem.codes == [Code.RESERVE_KEPT]
            refused += 1
    assert count - refused == allowed


def test_g4_a_card_out_of_service_makes_the_pool_smaller_not_the_reserve() -> None:
    preset("strict")
    gpus = cards(5)
    Gpu.objects.filter(pk=gpus[4].pk).update(service=Gpu.Service.OUT_OF_SERVICE)
    three_taken(gpus, TUESDAY + 20, TUESDAY + 22)
    with pytest.raises(Refused) as caught:
        reservation(member(), gpus[3:4], TUESDAY + 20, TUESDAY + 22)
    assert codes(caught) == [Code.RESERVE_KEPT]


def test_g4_h5_a_walk_in_on_the_reserve_is_extended_to_two_hours_in_all() -> None:
    lab(emergency_reserve=1, walk_in_longest_s=8 * 3600)
    gpus, lin = cards(4), member()
    three_taken(gpus, 0.25, 8)
    made = reservation(lin, gpus[3:], None, 1)
    assert extension.longest_end(made, now=at(0.5)) == at(2)
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(2.25), by=lin, version=None, now=at(0.5))
    assert Code.RESERVE_KEPT in codes(caught)
    assert extension.extend(made.pk, at(2), by=lin, version=None, now=at(0.5)).end == at(2)


def test_g4_h0_a_release_is_not_undone_into_the_reserve() -> None:
    preset("strict")
    gpus, lin = cards(4), member()
    made = reservation(lin, gpus[:1], SATURDAY + 1, SATURDAY + 9)
    for gpu in gpus[1:3]:
        reservation(member(), [gpu], SATURDAY + 1, SATURDAY + 9)
    now = at(SATURDAY + 2)
    changes.release(made.pk, by=lin, version=None, now=now)
    reservation(member(), gpus[3:], SATURDAY + 3, SATURDAY + 9, now=now)
    with pytest.raises(Refused) as caught:
        changes.undo_release(made.pk, by=lin, version=None, now=now + MINUTE)
    assert codes(caught) == [Code.RESERVE_KEPT]


# --- G7: quick cards ------------------------------------------------------------------------------------------------


def test_g7_on_a_working_day_one_card_is_left_for_two_hours() -> None:
    lab(quick_cards=1)
    gpus = cards(4)
    three_taken(gpus, TUESDAY + 10, TUESDAY + 16)
    with pytest.raises(Refused) as caught:
        reservation(member(), gpus[3:], TUESDAY + 10, TUESDAY + 12.25)
    assert codes(caught) == [Code.RESERVE_KEPT]
    reservation(member(), gpus[3:], TUESDAY + 10, TUESDAY + 12)
    reservation(member(), gpus[3:], TUESDAY + 12, TUESDAY + 14)


def test_g7_a_short_one_does_not_use_up_what_is_left_for_long_ones() -> None:
    lab(quick_cards=1)
    gpus = cards(4)
    reservation(member(), gpus[:1], TUESDAY + 10, TUESDAY + 12)
    for gpu in gpus[1:]:
        reservation(member(), [gpu], TUESDAY + 10, TUESDAY + 16)
    with pytest.raises(Refused):
        reservation(member(), gpus[:1], TUESDAY + 12, TUESDAY + 15)


def test_g7_on_a_rest_day_all_cards_are_free_for_long_ones() -> None:
    lab(quick_cards=1)
    for gpu in cards(4):
        reservation(member(), [gpu], SATURDAY + 10, SATURDAY + 16)


def test_g7_a_night_that_reaches_into_a_working_day_counts() -> None:
    lab(quick_cards=1)
    gpus, monday = cards(4), SATURDAY + 48
    three_taken(gpus, monday - 4, monday + 4)
    with pytest.raises(Refused):
        reservation(member(), gpus[3:], monday - 4, monday + 0.25)
    reservation(member(), gpus[3:], monday - 4, monday)


def test_g7_g4_with_a_reserve_both_are_kept_from_long_ones() -> None:
    preset("strict")
    gpus = cards(4)
    for gpu in gpus[:2]:
        reservation(member(), [gpu], TUESDAY + 19, TUESDAY + 23)
    with pytest.raises(Refused):
        reservation(member(), gpus[2:3], TUESDAY + 19, TUESDAY + 21.25)
    reservation(member(), gpus[2:3], TUESDAY + 19, TUESDAY + 21)
    with pytest.raises(Refused):
        reservation(member(), gpus[3:], TUESDAY + 19, TUESDAY + 21)


def test_g7_h5_a_short_one_on_the_quick_card_does_not_grow_long_by_extension() -> None:
    lab(quick_cards=1)
    gpus, lin = cards(4), member()
    three_taken(gpus, TUESDAY + 10, TUESDAY + 16)
    made = reservation(lin, gpus[3:], TUESDAY + 10, TUESDAY + 11)
    assert extension.longest_end(made, now=NOW) == at(TUESDAY + 12)
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(TUESDAY + 12.25), by=lin, version=None, now=NOW)
    assert codes(caught) == [Code.RESERVE_KEPT]
    extension.extend(made.pk, at(TUESDAY + 12), by=lin, version=None, now=NOW)
    with pytest.raises(Refused):
        extension.extend(made.pk, at(TUESDAY + 12.5), by=lin, version=None, now=NOW)


# --- races ----------------------------------------------------------------------------------------------------------


def at_once(requests: Sequence[tuple[Any, BookingRequest]]) -> list[str]:
    """All asked at the same moment, each in a thread of its own; busy ones ask again."""
    start, outcomes = threading.Barrier(len(requests)), list[str]()

    def ask(who: Any, request: BookingRequest) -> None:
        try:
            start.wait(timeout=30)
            while True:
                try:
                    booking.reserve(who, request, now=NOW)
                    outcomes.append("booked")
                    return
                except Busy:
                    continue
                except Refused as problem:
                    outcomes.append(" ".join(problem.codes))
                    return
        except Exception as problem:
            outcomes.append(repr(problem))
        finally:
            connection.close()

    threads = [threading.Thread(target=ask, args=pair) for pair in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return sorted(outcomes)


def overlaps() -> int:
    rows = list(Allocation.objects.filter(status__in=[str(one) for one in HOLDING]).order_by("gpu", "start"))
    return sum(one.gpu_id == two.gpu_id and one.end > two.start for one, two in pairwise(rows))


@pytest.mark.django_db(transaction=True)
def test_g2_p1_ten_at_once_by_count_on_four_cards_four_get_one() -> None:
    lab()
    gpus = cards(4)
    request = BookingRequest((), at(18), at(20), count=1)
    outcomes = at_once([(member(), request) for _ in range(10)])
    assert outcomes == ["booked"] * 4 + [str(Code.NOT_ENOUGH_CARDS)] * 6
    assert sorted(Allocation.objects.values_list("gpu", flat=True)) == ids(gpus)
    assert overlaps() == 0


@pytest.mark.django_db(transaction=True)
def test_e2_ten_at_once_by_count_never_exceed_one_allowance() -> None:
    lab()
    cards(10)
    lin = member(role="undergraduate")  # 20 GPU-hours: two reservations of eight
    outcomes = at_once([(lin, BookingRequest((), at(18), at(26), count=1)) for _ in range(10)])
    assert outcomes == ["booked"] * 2 + [str(Code.QUOTA)] * 8
    assert (charged(lin), overlaps()) == (16, 0)


@pytest.mark.django_db(transaction=True)
def test_g4_ten_at_once_by_name_leave_the_reserve() -> None:
    preset("strict")
    gpus = cards(5)
    wishes = [BookingRequest((gpu.pk,), at(TUESDAY + 20), at(TUESDAY + 22)) for gpu in gpus for _ in range(2)]
    outcomes = at_once([(member(), wish) for wish in wishes])
    assert outcomes.count("booked") == 4
    assert Allocation.objects.count() == 4


# --- the number of queries ------------------------------------------------------------------------------------------


def queries_of(act: Any) -> int:
    with CaptureQueriesContext(connection) as seen:
        act()
    return len(seen)


def filled(gpus: list[Gpu], days: int) -> None:
    for day in range(1, days + 1):
        for gpu in gpus:
            reservation(member(), [gpu], 24 * day - 4, 24 * day - 3)


@pytest.mark.parametrize("rules", [{}, {"quick_cards": 1, "emergency_reserve": 1}], ids=["plain", "reserve"])
@pytest.mark.parametrize("named", [True, False], ids=["by name", "by count"])
def test_booking_needs_as_many_queries_for_four_cards_among_many_as_for_one(named: bool, rules: dict[str, int]) -> None:
    lab(**rules)
    gpus, counts = cards(6), []
    for stored in (0, 6):
        filled(gpus[:4], stored)
        for many in (1, 4):
            lin, start = member(), 24 * 8 + len(counts) * 4
            wish = BookingRequest(
                tuple(gpu.pk for gpu in gpus[:many]) if named else (), at(start), at(start + 2), count=0 if named else many
            )
            counts.append(queries_of(lambda lin=lin, wish=wish: booking.reserve(lin, wish, now=NOW)))
    assert len(set(counts)) == 1, counts


def test_the_longest_end_needs_as_many_queries_for_four_cards_among_many_as_for_one() -> None:
    lab(quick_cards=1, emergency_reserve=1)
    gpus, counts = cards(6), []
    for stored in (0, 6):
        filled(gpus[:4], stored)
        for many in (1, 4):
            start = 24 * 8 + len(counts) * 24
            made = reservation(member(), gpus[:many], start, start + 2)
            counts.append(queries_of(lambda made=made: extension.longest_end(made, now=NOW)))
    assert len(set(counts)) == 1, counts
