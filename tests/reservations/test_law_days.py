"""A5 through the services: which days are worked changes rates, hours and quick cards. NOW is Monday 14:00."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest

from reservations.models import Gpu, Lab, Member, SpecialDay
from reservations.rules.refusal import Code, Refused
from reservations.services import booking, changes
from reservations.services.booking import BookingRequest
from tests.factories import NOW, at, cards, lab, member, reservation
from tests.reservations.accounts import charged, codes, preset

pytestmark = pytest.mark.django_db
TUESDAY, SATURDAY = date(2026, 12, 1), date(2026, 12, 5)
NATIONAL_DAY, MADE_UP = date(2026, 10, 1), date(2026, 10, 10)  # a Thursday and a Saturday
SEPTEMBER = datetime(2026, 9, 28, 4, tzinfo=UTC)  # Monday noon in the lab: all until 12 October is open


def book(who: Member, gpus: list[Gpu], day: date, *, now: datetime = NOW, hours: tuple[int, int] = (10, 12)) -> None:
    start, end = (datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(hours=hour - 8) for hour in hours)
    booking.reserve(who, BookingRequest(tuple(gpu.pk for gpu in gpus), start, end), now=now)


def rest(day: date) -> None:
    SpecialDay.objects.create(day=day, is_working=False)


def work(day: date) -> None:
    SpecialDay.objects.create(day=day, is_working=True)


@pytest.mark.parametrize(
    ("day", "change", "hours"), [(TUESDAY, None, 3), (TUESDAY, rest, 2), (SATURDAY, None, 2), (SATURDAY, work, 3)]
)
def test_a5_a_day_made_a_rest_day_or_a_working_day_has_its_rate(
    day: date, change: Callable[[date], None] | None, hours: float
) -> None:
    lab(balanced=True)
    if change:
        change(day)
    lin = member()
    book(lin, cards(1), day)
    assert charged(lin) == hours


@pytest.mark.parametrize(
    ("holidays", "day", "hours"), [("cn", NATIONAL_DAY, 2), ("", NATIONAL_DAY, 3), ("cn", MADE_UP, 3), ("", MADE_UP, 2)]
)
def test_a5_the_public_calendar_counts_where_the_lab_follows_it(holidays: str, day: date, hours: float) -> None:
    lab(balanced=True)
    Lab.objects.update(holidays=holidays)
    lin = member()
    book(lin, cards(1), day, now=SEPTEMBER)
    assert charged(lin) == hours


@pytest.mark.parametrize(("day", "change", "hours"), [(NATIONAL_DAY, work, 3), (MADE_UP, rest, 2)])
def test_a5_the_labs_own_day_stands_above_the_public_calendar(day: date, change: Callable[[date], None], hours: float) -> None:
    lab(balanced=True)
    change(day)
    lin = member()
    book(lin, cards(1), day, now=SEPTEMBER)
    assert charged(lin) == hours


def test_a5_f2_a_rest_day_has_no_most_hours() -> None:
    preset("strict")
    lin, gpus = member(), cards(1)
    with pytest.raises(Refused) as caught:
        book(lin, gpus, TUESDAY, hours=(10, 15))
    assert codes(caught) == [Code.WINDOW_HOURS]
    rest(TUESDAY)
    book(lin, gpus, TUESDAY, hours=(10, 15))
    assert charged(lin) == 5


def test_a5_g7_a_rest_day_keeps_no_quick_card_and_a_made_up_day_does() -> None:
    lab(quick_cards=1)
    gpus = cards(4)
    for gpu in gpus[:3]:
        book(member(), [gpu], TUESDAY, hours=(10, 13))
        book(member(), [gpu], SATURDAY, hours=(10, 13))
    work(SATURDAY)
    with pytest.raises(Refused) as caught:
        book(member(), gpus[3:], TUESDAY, hours=(10, 13))
    assert codes(caught) == [Code.RESERVE_KEPT]
    with pytest.raises(Refused):
        book(member(), gpus[3:], SATURDAY, hours=(10, 13))
    SpecialDay.objects.all().delete()
    rest(TUESDAY)
    book(member(), gpus[3:], TUESDAY, hours=(10, 13))
    book(member(), gpus[3:], SATURDAY, hours=(10, 13))


def test_a5_d2_walk_ins_of_the_friendly_lab_go_by_the_day() -> None:
    preset("friendly")
    with pytest.raises(Refused) as caught:
        book(member(), cards(1), TUESDAY, hours=(10, 14))
    assert codes(caught) == [Code.WINDOW_WALK_IN]
    rest(TUESDAY)
    book(member(), cards(1), TUESDAY, hours=(10, 14))


def test_a5_e6_a_day_changed_later_leaves_the_price() -> None:
    lab(balanced=True)
    lin, gpus = member(), cards(1)
    made = reservation(lin, gpus, 20, 22)
    rest(TUESDAY)
    changes.cancel(made.pk, by=lin, version=None, now=at(1))
    assert charged(lin) == 0
