"""What an overrun costs whoever stays on, and what it gives back to whom it kept waiting (E3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime

from .. import queries
from ..models import Allocation, OverrunCharge
from ..rules.interval import Interval, merged
from ..rules.lifecycle import Status
from ..rules.overruns import overrun_price
from ..rules.quota import charge, priced
from . import audit, returning
from .held import Account, Reason, post

# Whoever had the card: who was displaced or cancelled lost nothing.
_HAD = [
    str(one)
    for one in (
        Status.BOOKED, Status.ACTIVE, Status.FINISHED, Status.RELEASED, Status.FORFEITED, Status.INTERRUPTED
    )
]


def kept_waiting(gpu_id: int, member_id: int, proved: Sequence[Interval]) -> list[Allocation]:
    """What others held of this card while the member was proved to be there. To lock their holders, and under that lock."""
    if not proved:
        return []
    rows = Allocation.objects.filter(
        gpu=gpu_id, status__in=_HAD, start__lt=proved[-1].end, end__gt=proved[0].start
    ).exclude(reservation__holder=member_id)
    return list(rows.select_related("reservation__holder").order_by("start", "pk"))


def charged_until(allocation_ids: Iterable[int], ended: Iterable[datetime]) -> dict[tuple[int, datetime], datetime]:
    """Up to when staying on after these ends of these cards has been charged."""
    rows = OverrunCharge.objects.filter(allocation__in=list(allocation_ids), ended__in=list(ended))
    return {(row.allocation_id, row.ended): row.until for row in rows}


def charge_proved(
    allocation_id: int, ended: datetime, grace_until: datetime, proved: Sequence[Interval], *, now: datetime
) -> int:
    """Charges the proved time after the grace at twice the window's rate, as far as it has not been; returns the units.

    To the account of the allowance that the reservation is charged to, the holder's or a project's, also of what was elastic or a
    walk-in; the balance may go below zero by it. Others who had
    the card meanwhile get what they lost of their time back, from their start. `proved`: in order, from the end on. Under the
    lock of all their holders and the card; the caller has passed the gate of I1. The same call again charges nothing.
    """
    row = Allocation.objects.select_related("reservation__holder", "gpu").get(pk=allocation_id)
    kept, _ = OverrunCharge.objects.get_or_create(
        allocation=row, ended=ended, defaults={"until": grace_until, "units": {}}
    )
    if kept.void_at is not None:
        return 0
    for loser in kept_waiting(row.gpu_id, row.reservation.holder_id, proved):
        returning.return_lost(loser, proved, now, is_failure=False)
    parts = [part for one in merged(proved) if one.end > kept.until
             and (part := Interval(max(one.start, kept.until), one.end))]
    if not parts:
        return 0
    lab = queries.lab_facts()
    timetable = queries.pools([row.gpu.pool_id], lab)[row.gpu.pool_id].timetable
    units: dict[date, int] = {}
    for part in parts:
        price = overrun_price(priced(timetable.segments(part)))
        for week, amount in charge([(price, row.weight)], lab.zone).items():
            units[week] = units.get(week, 0) + amount
    post(row.reservation, units, Reason.OVERRUN, now, account=Account.QUOTA)
    kept.until = parts[-1].end
    kept.units = {week: kept.units.get(week, 0) + units.get(date.fromisoformat(week), 0)
                  for week in {*kept.units, *(one.isoformat() for one in units)}}
    kept.save(update_fields=["until", "units"])
    total = sum(units.values())
    audit.note(
        "charge_overrun", row.reservation, actor=None, origin="sweep", now=now, card=row.gpu_id, ended=ended.isoformat(),
        until=kept.until.isoformat(), units=total,
    )
    return total


def take_back(rows: Iterable[OverrunCharge], now: datetime, *, why: str) -> None:
    """Returns what these overruns were charged, and never charges them again. Under the lock of their holders."""
    for row in rows:
        if row.void_at is not None:
            continue
        row.void_at = now
        row.save(update_fields=["void_at"])
        units = {date.fromisoformat(week): -amount for week, amount in row.units.items()}
        reservation = row.allocation.reservation
        post(reservation, units, Reason.OVERRUN, now, account=Account.QUOTA)
        audit.note(
            "return_overrun", reservation, actor=None, origin="system", now=now, reason=why, ended=row.ended.isoformat(),
            units=-sum(units.values()),
        )


def charges_of(fact: str) -> list[OverrunCharge]:
    """The charges of the overrun that this name of a fact stands for (`fact_of`)."""
    kind, _, rest = fact.partition(":")
    reservation_id, _, ended = rest.partition(":")
    if kind != "overrun" or not (reservation_id.isdecimal() and ended.isdecimal()):
        return []
    rows = OverrunCharge.objects.filter(allocation__reservation=int(reservation_id), void_at=None)
    found = rows.select_related("allocation__reservation__holder").order_by("pk")
    return [row for row in found if int(row.ended.timestamp()) == int(ended)]


def charges_before(allocation_id: int, end: datetime) -> list[OverrunCharge]:
    """The charges after earlier ends of a card that is held beyond them again: that time is the reservation's own now."""
    rows = OverrunCharge.objects.filter(allocation=allocation_id, ended__lt=end, void_at=None)
    return list(rows.select_related("allocation__reservation__holder").order_by("pk"))
