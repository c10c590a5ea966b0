"""What the schedule draws: values, read by statements that are compiled once, with instants as seconds since the epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from django.db.models import FloatField, Func, OuterRef, QuerySet

from ..models import Allocation, Gpu
from ..prepared import prepared
from ..rules.facts import Closed
from .holdings import maintenance_between, on_cards
from .lab import HELD_ONCE, HOLDING_CODES


class Block(NamedTuple):
    """One holding as the schedule draws it; `start` and `end` in seconds since the epoch."""

    reservation_id: int
    gpu_id: int
    start: float
    end: float
    status: str
    tier: str
    holder_id: int
    holder_name: str


class ShownCard(NamedTuple):
    """One card as pages name it, with what the sensor last said of it (`state` None: nothing)."""

    id: int
    host: str
    card_index: int
    model: str
    memory_total: int | None
    service: str
    state: str | None
    since: datetime | None
    sampled_at: datetime | None


class Seconds(Func):
    """An instant as seconds since the epoch, which both databases' drivers hand over without a detour by Django."""

    output_field = FloatField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="EXTRACT(EPOCH FROM %(expressions)s)::float8", **context)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        # Without the column's declared type, by which Django has the driver call Python for each value.
        return self.as_sql(compiler, connection, template="(%(expressions)s || '+00:00')", **context)

    def get_db_converters(self, connection: Any) -> list[Callable[..., Any]]:
        return [_from_text] if connection.vendor == "sqlite" else []


@lru_cache(maxsize=4096)
def _from_text(text: str, *_: object) -> float:
    return datetime.fromisoformat(text).timestamp()


_from_text.needs_value_only = True  # type: ignore[attr-defined]  # see `prepared`


def instant_of(seconds: float) -> datetime:
    """Seconds since the epoch as an instant."""
    return datetime.fromtimestamp(seconds, UTC)


def blocks_between(gpu_ids: Sequence[int], start: datetime, end: datetime) -> list[Block]:
    """What the schedule shows between two instants: everything held, and what ended early with the time it held; by card and
    in order of time."""
    return list(map(Block._make, _between(gpu_ids, start, end)))


@prepared
def _between(gpu_ids: Sequence[int], start: datetime, end: datetime) -> QuerySet[Gpu, tuple[Any, ...]]:
    rows = on_cards(gpu_ids, start, end, [*HOLDING_CODES, *HELD_ONCE])
    return rows.order_by("pk", "allocations__start").values_list(*_BLOCK)


_BLOCK = (
    "allocations__reservation_id", "pk", Seconds("allocations__start"), Seconds("allocations__end"), "allocations__status",
    "allocations__reservation__tier", "allocations__reservation__holder_id", "allocations__reservation__holder__name",
)


def maintenance_blocks(gpu_ids: Sequence[int], start: datetime, end: datetime) -> list[Block]:
    """The maintenance of these cards between two instants, as the schedule draws it: nobody's, without a reservation."""
    return [
        Block(
            0, one.card_id, one.interval.start.timestamp(), one.interval.end.timestamp(), str(Closed.MAINTENANCE), "", 0, ""
        )
        for one in maintenance_between(gpu_ids, start, end)
    ]


def next_blocks(gpu_ids: Sequence[int], now: datetime, count: int) -> list[Block]:
    """For each card what holds it at `now` or in the 30 days after, the first `count` in order of time."""
    rows = _NEXT[count](gpu_ids, now, now + timedelta(days=30))
    return list(map(Block._make, rows))


def _next(count: int) -> Callable[[Sequence[int], datetime, datetime], list[tuple[Any, ...]]]:
    @prepared
    def first_of_each(gpu_ids: Sequence[int], now: datetime, until: datetime) -> QuerySet[Gpu, tuple[Any, ...]]:
        # What holds a card does not overlap: in the order of ends, which the index has, it is in the order of starts.
        first = Allocation.objects.filter(gpu=OuterRef("pk"), status__in=HOLDING_CODES, end__gt=now, start__lt=until)
        rows = Gpu.objects.filter(pk__in=gpu_ids, allocations__in=first.order_by("end").values("pk")[:count])
        return rows.order_by("pk", "allocations__end").values_list(*_BLOCK)

    return first_of_each


class _Next(dict[int, Callable[[Sequence[int], datetime, datetime], list[tuple[Any, ...]]]]):
    def __missing__(self, count: int) -> Callable[[Sequence[int], datetime, datetime], list[tuple[Any, ...]]]:
        self[count] = _next(count)
        return self[count]


_NEXT = _Next()


def shown_cards() -> list[ShownCard]:
    """All cards with what the sensor last said, in the order of pages."""
    return list(map(ShownCard._make, _shown_cards()))


@prepared
def _shown_cards() -> QuerySet[Gpu, tuple[Any, ...]]:
    return Gpu.objects.order_by("host__name", "index", "pk").values_list(
        "pk", "host__name", "index", "model", "memory_total", "service", "state__state", "state__since", "state__sampled_at"
    )


def shown_card(gpu: Gpu) -> ShownCard:
    """A card whose host and state were loaded with it, as the same value."""
    state = getattr(gpu, "state", None)
    seen = (state.state, state.since, state.sampled_at) if state is not None else (None, None, None)
    return ShownCard(gpu.pk, gpu.host.name, gpu.index, gpu.model, gpu.memory_total, gpu.service, *seen)
