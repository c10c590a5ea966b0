"""The fee of a late cancellation, and its return as the time is booked again (E3)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta

from ..models import Allocation
from ..queries import LabFacts
from ..rules.interval import EPOCH, Interval
from ..rules.lifecycle import Status
from ..rules.quota import Price, Stretch, charge, price_from_json
from .held import Held, Reason, post

_MICROSECOND = timedelta(microseconds=1)


def keep(held: Held, now: datetime) -> None:
    """Keeps the policy's share of the charge of the first hours, when the start is less than two hours away."""
    policy, reservation = held.lab.policy, held.reservation
    if now <= reservation.start - timedelta(seconds=policy.late_cancel_s) or not policy.late_cancel_percent:
        return
    first = held.interval.cut(
        Interval(reservation.start, reservation.start + timedelta(seconds=policy.late_cancel_first_s))
    )
    assert first is not None  # it begins where the reservation does
    for row in held.allocations:
        kept = _share(_price(row), row.weight, first, policy.late_cancel_percent, held.lab)
        post(reservation, kept, Reason.FEE, now)
        Allocation.objects.filter(pk=row.pk).update(fee=[[*_micros(first), policy.late_cancel_percent]])


def return_for(card_ids: Iterable[int], booked: Interval, lab: LabFacts, now: datetime) -> None:
    """Returns the fees kept for time on these cards that has just been booked again."""
    rows = Allocation.objects.filter(
        gpu__in=list(card_ids), status=Status.CANCELLED, start__lt=booked.end, end__gt=booked.start
    ).exclude(fee=[])
    for row in rows.select_related("reservation"):
        left = []
        for start, end, percent in row.fee:
            kept = Interval(_instant(start), _instant(end))
            again = kept.cut(booked)
            if again is None:
                left.append([start, end, percent])
                continue
            returned = _share(_price(row), row.weight, again, percent, lab)
            post(row.reservation, {week: -units for week, units in returned.items()}, Reason.REBOOKED, now)
            left += [
                [*_micros(Interval(a, b)), percent] for a, b in ((kept.start, again.start), (again.end, kept.end)) if a < b
            ]
        Allocation.objects.filter(pk=row.pk).update(fee=left)


def _share(price: Price, weight: int, within: Interval, percent: int, lab: LabFacts) -> dict[date, int]:
    return {week: units * percent // 100 for week, units in charge([(price, weight)], lab.zone, within).items()}


def _price(row: Allocation) -> Price:
    return price_from_json(row.price) if row.price else (Stretch(Interval(row.start, row.end)),)


def _micros(interval: Interval) -> tuple[int, int]:
    return (interval.start - EPOCH) // _MICROSECOND, (interval.end - EPOCH) // _MICROSECOND


def _instant(micros: int) -> datetime:
    return EPOCH + micros * _MICROSECOND
