"""The fee of a late cancellation, its return as the time is booked again (E3), and both taken back by an undo (H0)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from ..models import Allocation, FormerAllocation
from ..prepared import prepared
from ..queries import LabFacts
from ..rules.interval import EPOCH, Interval
from ..rules.lifecycle import Status
from ..rules.quota import Price, Stretch, charge, price_from_json
from .held import Account, Held, Reason, post, scaled

_MICROSECOND = timedelta(microseconds=1)
Row = Allocation | FormerAllocation  # what bears a fee: a cancelled card, or a card as it was before a late move


def keep(held: Held, now: datetime, rows: Sequence[Row] | None = None) -> None:
    """Keeps the policy's share of the charge of the first hours, when the start is less than two hours away.

    The rows that bear it are those of the reservation, or `rows`.
    """
    policy, reservation = held.lab.policy, held.reservation
    if now <= reservation.start - timedelta(seconds=policy.late_cancel_s) or not policy.late_cancel_percent:
        return
    first = held.interval.cut(
        Interval(reservation.start, reservation.start + timedelta(seconds=policy.late_cancel_first_s))
    )
    assert first is not None  # it begins where the reservation does
    for row in held.allocations if rows is None else rows:
        kept = _share(_price(row), row.weight, first, policy.late_cancel_percent, held.lab)
        post(reservation, kept, Reason.FEE, now)
        # On which account: a reservation that was moved or has become in-quota since does not tell any more (E4).
        beyond = [1] if reservation.is_elastic else []
        _set_fee(row, [[*_micros(first), policy.late_cancel_percent, *beyond]])


def forgive(rows: Iterable[Row], lab: LabFacts, now: datetime) -> None:
    """Returns what is still kept on these rows."""
    for row in rows:
        for start, end, percent, *beyond in row.fee:
            kept = _share(_price(row), row.weight, Interval(_instant(start), _instant(end)), percent, lab)
            post(row.reservation, scaled(kept, -1), Reason.UNDONE, now, account=_account(beyond))
        if row.fee:
            _set_fee(row, [])


def return_for(card_ids: Iterable[int], booked: Interval, lab: LabFacts, now: datetime) -> list[dict[str, Any]]:
    """Returns the fees kept for time on these cards that has just been booked again; says which, for `take_again`."""
    wanted = (list(card_ids), booked.start, booked.end)
    rows: list[Row] = [*_cancelled(*wanted), *_moved_away(*wanted)]
    record = []
    for row in rows:
        left = []
        for start, end, percent, *beyond in row.fee:
            kept = Interval(_instant(start), _instant(end))
            again = kept.cut(booked)
            if again is None:
                left.append([start, end, percent, *beyond])
                continue
            returned = _share(_price(row), row.weight, again, percent, lab)
            post(row.reservation, scaled(returned, -1), Reason.REBOOKED, now, account=_account(beyond))
            record.append(
                {
                    "row": row.pk, "former": isinstance(row, FormerAllocation), "part": [*_micros(again), percent, *beyond],
                    "units": {week.isoformat(): units for week, units in returned.items()},
                }
            )
            left += [
                [*_micros(Interval(a, b)), percent, *beyond]
                for a, b in ((kept.start, again.start), (again.end, kept.end)) if a < b
            ]
        _set_fee(row, left)
    return record


@prepared
def _cancelled(card_ids: list[int], start: datetime, end: datetime) -> QuerySet[Allocation]:
    rows = Allocation.objects.filter(gpu__in=card_ids, start__lt=end, end__gt=start, status=Status.CANCELLED)
    return rows.exclude(fee=[]).select_related("reservation")


@prepared
def _moved_away(card_ids: list[int], start: datetime, end: datetime) -> QuerySet[FormerAllocation]:
    rows = FormerAllocation.objects.filter(gpu__in=card_ids, start__lt=end, end__gt=start)
    return rows.exclude(fee=[]).select_related("reservation")


def recorded(returned: list[dict[str, Any]]) -> dict[str, Any]:
    """What the audit keeps of the fees that a booking returned, if any."""
    return {"fees": returned} if returned else {}


def take_again(record: Iterable[dict[str, Any]], now: datetime) -> None:
    """Keeps again, to the unit, what a booking had returned that is undone now.

    The owner's balance may go below zero by it, as by the fee itself.
    """
    for one in record:
        row: Row = (FormerAllocation if one["former"] else Allocation).objects.select_related("reservation").get(pk=one["row"])
        units = {date.fromisoformat(week): amount for week, amount in one["units"].items()}
        post(row.reservation, units, Reason.FEE, now, account=_account(one["part"][3:]))
        _set_fee(row, _joined([*row.fee, one["part"]]))


def _joined(parts: Iterable[list[int]]) -> list[list[int]]:
    """The parts in order of time, those that touch as one."""
    whole: list[list[int]] = []
    for start, end, *terms in sorted(parts):
        if whole and whole[-1][1:] == [start, *terms]:
            whole[-1][1] = end
        else:
            whole.append([start, end, *terms])
    return whole


def _account(beyond: Sequence[int]) -> str:
    """The account on which a fee was kept: marked where it is the elastic one."""
    return Account.ELASTIC if beyond else Account.QUOTA


def _set_fee(row: Row, fee: list[list[int]]) -> None:
    row.fee = fee
    row.save(update_fields=["fee"])


def _share(price: Price, weight: int, within: Interval, percent: int, lab: LabFacts) -> dict[date, int]:
    return {week: units * percent // 100 for week, units in charge([(price, weight)], lab.zone, within).items()}


def _price(row: Row) -> Price:
    return price_from_json(row.price) if row.price else (Stretch(Interval(row.start, row.end)),)


def _micros(interval: Interval) -> tuple[int, int]:
    return (interval.start - EPOCH) // _MICROSECOND, (interval.end - EPOCH) // _MICROSECOND


def _instant(micros: int) -> datetime:
    return EPOCH + micros * _MICROSECOND
