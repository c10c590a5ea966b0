"""A reservation as it was before it was moved or made room: recorded, kept, and put back (H0, H6, D5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from .. import queries
from ..models import Allocation, FormerAllocation, Reservation
from ..rules import booking as rules
from ..rules.lifecycle import Status
from ..rules.refusal import Code, Refused
from . import extension, fees, freed, outbox
from .held import Held, Reason, held_by, own_others, post_both, taken

_LATER_OR_NEVER = ("may_move_until", "placed_at", "confirmed_at")


def record(reservation: Reservation, card_ids: Iterable[int]) -> dict[str, Any]:
    """The reservation as the audit keeps it, and as an undo finds it again."""
    return {
        "version": reservation.version, "start": reservation.start.isoformat(), "end": reservation.end.isoformat(),
        "cards": list(card_ids), "kind": str(reservation.kind), "rank_tier": reservation.rank_tier,
        "project_pays": reservation.project_pays, "grant": reservation.grant_id,
        "is_elastic": reservation.is_elastic, "booked_at": reservation.booked_at.isoformat(),
        **{name: value.isoformat() for name in _LATER_OR_NEVER if (value := getattr(reservation, name))},
    }


def keep_rows(held: Held, version: int) -> list[FormerAllocation]:
    """Keeps the rows as they were in this version of the reservation."""
    return FormerAllocation.objects.bulk_create(
        [
            FormerAllocation(
                reservation=held.reservation, version=version, gpu_id=row.gpu_id, start=row.start,
                end=row.end, weight=row.weight, price=row.price,
            )
            for row in held.allocations
        ]
    )


def let_go(held: Held) -> None:
    """The reservation holds nothing any more, until it is written anew in the same transaction."""
    Allocation.objects.filter(reservation=held.reservation).delete()
    Reservation.objects.filter(pk=held.reservation.pk).update(status=Status.CANCELLED)


def restore_moved(held: Held, old: Mapping[str, Any], now: datetime) -> None:
    """Puts a moved reservation back to what it was, if that is still to be had; its present charge is returned already.

    Raises `Refused` with what was taken meanwhile.
    """
    reservation = held.reservation
    kept = FormerAllocation.objects.filter(reservation=reservation, version=old["version"], given_back_at=None)
    rows = list(kept.order_by("gpu"))
    fees.forgive(rows, held.lab, now)
    let_go(held)
    for name in ("start", "end", "booked_at"):
        setattr(reservation, name, datetime.fromisoformat(old[name]))
    for name in _LATER_OR_NEVER:
        setattr(reservation, name, datetime.fromisoformat(old[name]) if name in old else None)
    reservation.kind, reservation.rank_tier = old["kind"], old["rank_tier"]
    reservation.is_elastic = old.get("is_elastic", False)
    reservation.project_pays, reservation.grant_id = old.get("project_pays", False), old.get("grant")
    before = Held(
        reservation,
        [
            Allocation(
                reservation=reservation, gpu_id=row.gpu_id, status=Status.BOOKED, start=row.start, end=row.end,
                weight=row.weight, price=row.price,
            )
            for row in rows
        ],
        held.lab,
    )
    _hold_again(before, now)
    Allocation.objects.bulk_create(before.allocations)
    freed.note(held.allocations, now)


def restore_displaced(reservation: Reservation, now: datetime) -> None:
    """Makes a displaced reservation hold its cards again as before (H0). Raises `Refused` with what was taken meanwhile."""
    before = held_by(reservation)
    _hold_again(before, now)
    Allocation.objects.filter(reservation=reservation).update(status=Status.BOOKED)


def _hold_again(before: Held, now: datetime) -> None:
    if refusals := list(against(before, now)):
        raise Refused(refusals)
    reservation = before.reservation
    reservation.status, reservation.ended_at = Status.BOOKED, None
    reservation.version += 1
    reservation.save()
    post_both(before, None, Reason.UNDONE, now)
    fees.return_for([row.gpu_id for row in before.allocations], before.interval, before.lab, now)
    outbox.write_reminders(reservation, before.lab, now)


def against(before: Held, now: datetime) -> Iterator[rules.Refusal]:
    """What was taken meanwhile of that which the reservation held before: cards, room under the caps, hours."""
    policy, holder, span = before.lab.policy, before.reservation.holder, before.interval
    yield from taken(before, span, None)
    yield from extension.refuse_return(before, span, now)
    yield from rules.crowd_refusals(span, len(before.allocations), own_others(before, now), policy, holder.role)
    most = policy.most_ahead(holder.role)
    if span.start > now and queries.future_count(holder.pk, now) + 1 > most:
        yield rules.Refusal(Code.OPEN_FUTURE, {"most": most})
    yield from (rules.Refusal(one.code, one.facts) for one in extension.quota_for(before, before.prices))
