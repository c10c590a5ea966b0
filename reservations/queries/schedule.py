"""What the schedule draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from ..models import Allocation
from ..rules.facts import Closed
from .holdings import maintenance_between
from .lab import HELD_ONCE, HOLDING_CODES


@dataclass(frozen=True)
class Block:
    """One holding as the schedule draws it."""

    reservation_id: int
    gpu_id: int
    start: datetime
    end: datetime
    status: str
    tier: str
    holder_id: int
    holder_name: str

_BLOCK = (
    "reservation_id", "gpu_id", "start", "end", "status", "reservation__tier", "reservation__holder_id",
    "reservation__holder__name",
)


def blocks_between(gpu_ids: Sequence[int], start: datetime, end: datetime) -> list[Block]:
    """What the schedule shows between two instants: everything held, and what ended early with the time it held."""
    shown = [*HOLDING_CODES, *HELD_ONCE]
    rows = (
        Allocation.objects.filter(gpu__in=gpu_ids, status__in=shown, start__lt=end, end__gt=start)
        .order_by("gpu_id", "start")
        .values_list(*_BLOCK)
    )
    return [Block(*row) for row in rows]


def maintenance_blocks(gpu_ids: Sequence[int], start: datetime, end: datetime) -> list[Block]:
    """The maintenance of these cards between two instants, as the schedule draws it: nobody's, without a reservation."""
    return [
        Block(0, one.card_id, one.interval.start, one.interval.end, str(Closed.MAINTENANCE), "", 0, "")
        for one in maintenance_between(gpu_ids, start, end)
    ]


def next_blocks(gpu_ids: Sequence[int], now: datetime, count: int) -> list[Block]:
    """For each card what holds it at `now` or in the 30 days after, the first `count` in order of time."""
    place = Window(RowNumber(), partition_by=F("gpu"), order_by=F("start").asc())
    rows = (
        Allocation.objects.filter(
            gpu__in=gpu_ids, status__in=HOLDING_CODES, end__gt=now, start__lt=now + timedelta(days=30)
        )
        .annotate(place=place).filter(place__lte=count).order_by("gpu_id", "start").values_list(*_BLOCK)
    )
    return [Block(*row) for row in rows]
