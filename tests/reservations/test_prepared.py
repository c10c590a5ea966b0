"""Prepared queries give what Django's own give, for every sort of argument, and are compiled once for each shape."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Count, Q, QuerySet
from django.db.models.sql.compiler import SQLCompiler
from django.test.utils import CaptureQueriesContext

from reservations.models import Allocation, Gpu, LedgerEntry, Member, Reservation
from reservations.prepared import prepared
from reservations.services import booking
from reservations.services.booking import BookingRequest
from tests import factories as make

NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def booked() -> list[Reservation]:
    make.lab()
    cards = make.cards(4)
    people = [make.member(name) for name in ("Ann", "Bo")]
    return [
        booking.reserve(people[n % 2], BookingRequest((card.pk,), NOW + n * HOUR if n else None, NOW + (n + 3) * HOUR), now=NOW)
        for n, card in enumerate(cards)
    ]


def held(card_ids: list[int], start: datetime, end: datetime) -> QuerySet[Allocation, Any]:
    rows = Allocation.objects.filter(gpu__in=card_ids, start__lt=end, end__gt=start)
    return rows.order_by("pk").values_list("gpu", "start", "reservation__holder__name", "price")


def of_member(name: str, active: bool | None, member: int | None) -> QuerySet[Reservation]:
    rows = Reservation.objects.select_related("holder").filter(holder__name=name).order_by("pk")
    if active is not None:
        rows = rows.filter(holder__is_active=active)
    return rows if member is None else rows.exclude(holder=member)


def weeks(first: date, last: date) -> QuerySet[LedgerEntry, Any]:
    rows = LedgerEntry.objects.filter(period__gte=first, period__lte=last).values("period")
    return rows.annotate(rows=Count("pk", filter=Q(units__gt=0))).order_by("period").values_list("rows", "period")


def names(least: int) -> QuerySet[Member, str]:
    return Member.objects.filter(pk__gte=least).order_by("name").values_list("name", flat=True)


def fields(rows: Any) -> list[Any]:
    """Models as all their values, with those of the member that was read along."""
    return [
        ({name: value for name, value in vars(row).items() if name != "_state"}, row.holder.name, row.holder.email)
        if isinstance(row, Reservation) else row
        for row in rows
    ]


CASES: dict[str, tuple[Callable[..., Any], Callable[[list[Reservation]], list[tuple[Any, ...]]]]] = {
    "numbers and instants": (held, lambda rows: [
        ([row.allocations.get().gpu_id for row in rows[:count]], NOW + HOUR, NOW + 4 * HOUR) for count in (1, 2, 3, 4, 3, 0)
    ]),
    "texts, None and booleans": (of_member, lambda rows: [
        ("Ann", None, None), ("Bo", True, None), ("Bo", False, None), ("Ann", None, rows[0].holder_id), ("nobody", None, None),
    ]),
    "days and sums": (weeks, lambda rows: [(date(2026, 11, 23), date(2026, 12, 7)), (date(2026, 12, 7), date(2026, 12, 14))]),
    "one column": (names, lambda rows: [(rows[0].holder_id,), (rows[1].holder_id,), (2**63,)]),
}


@pytest.mark.django_db
@pytest.mark.parametrize("case", CASES)
def test_the_rows_are_those_of_the_queryset(case: str, booked: list[Reservation]) -> None:
    build, arguments = CASES[case]
    fast, some = prepared(build), 0
    for args in arguments(booked) * 2:  # compiled at first, then only executed
        expected = fields(build(*args))
        some += len(expected)
        assert fields(fast(*args)) == expected
    assert some


@pytest.mark.django_db
def test_what_was_read_along_costs_no_query(booked: list[Reservation]) -> None:
    fast = prepared(of_member)
    for _ in range(2):
        with CaptureQueriesContext(connection) as caught:
            assert {row.holder.name for row in fast("Ann", None, None)} == {"Ann"}
        assert len(caught) == 1


@pytest.mark.django_db
def test_a_shape_is_compiled_once(booked: list[Reservation], monkeypatch: pytest.MonkeyPatch) -> None:
    fast, card_ids = prepared(held), [row.allocations.get().gpu_id for row in booked]
    fast(card_ids[:3], NOW, NOW + HOUR)

    def compiles(*_: Any, **__: Any) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(SQLCompiler, "as_sql", compiles)
    assert len(fast(card_ids, NOW, NOW + 9 * HOUR)) == 4  # of three and of four: one shape
    with pytest.raises(AssertionError, match="compiled again"):
        fast(card_ids[:2], NOW, NOW + HOUR)


@pytest.mark.django_db
def test_an_argument_that_only_python_sees_is_refused() -> None:
    @prepared
    def later_cards(after: int, length: int) -> QuerySet[Gpu]:
        return Gpu.objects.filter(pk__gt=after + length)

    with pytest.raises(TypeError, match="no values in its query"):
        later_cards(1, 2)
