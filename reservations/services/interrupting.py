"""Cards that are taken out of a reservation's reach: what is active there ends, what is to come goes elsewhere (G5, G6)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from .. import queries
from ..models import Allocation, CardState, Gpu, MaintenanceCard, Notification, Reservation
from ..rules.interval import Interval
from ..rules.lifecycle import Status
from ..rules.swaps import swaps
from . import audit, displacing, fees, hours, outbox, returning
from .held import TINY, Held, Reason, end_now, guarded, held_by, on_its_cards, post_both, status_at

# Whose time has come may still be written down as booked.
_HELD = [str(Status.BOOKED), str(Status.ACTIVE)]


@dataclass(frozen=True)
class Why:
    """Why a card is out of reach: the audit's word, and since when it was lost already."""

    cause: str
    since: datetime | None = None


def out_of_reach(card_ids: Iterable[int], now: datetime) -> dict[int, Why]:
    """Those of these cards on which nothing can go on: in urgent maintenance, or gone from a host that answers.

    A host that is silent says nothing of what runs on it: its active reservations go on (I1).
    """
    wanted = list(card_ids)
    urgent = MaintenanceCard.objects.filter(gpu__in=wanted, maintenance__is_urgent=True, start__lte=now, end__gt=now)
    gone = CardState.objects.filter(gpu__in=wanted, lost_how=CardState.Lost.GONE).exclude(lost_since=None)
    found = {gpu_id: Why("lost", since) for gpu_id, since in gone.values_list("gpu_id", "lost_since")}
    found |= {gpu_id: Why("maintenance") for gpu_id in urgent.values_list("gpu_id", flat=True) if gpu_id not in found}
    return found


def due(now: datetime, of: Collection[int] | None = None) -> list[int]:
    """Reservations (of these) that are active on a card that is out of reach."""
    rows = Allocation.objects.filter(status__in=_HELD, start__lte=now, end__gt=now)
    if of is not None:
        rows = rows.filter(reservation__in=list(of))
    closed = MaintenanceCard.objects.filter(maintenance__is_urgent=True, start__lte=now, end__gt=now).values("gpu")
    gone = CardState.objects.filter(lost_how=CardState.Lost.GONE).exclude(lost_since=None).values("gpu")
    both = rows.filter(gpu__in=closed) | rows.filter(gpu__in=gone)
    return sorted(set(both.values_list("reservation_id", flat=True)))


def interrupt(reservation_id: int, *, now: datetime) -> bool:
    """Takes what is out of reach from an active reservation; says whether there was anything.

    Those cards end now and what has not elapsed is returned, with the time for which they were gone already; no point, no fee.
    The others go on; where none is left the reservation is interrupted. The holder is told, and may take equal cards with
    one press (`replacing`). Done already, it does nothing. Raises `locking.Busy`.
    """
    with guarded(), on_its_cards(reservation_id, people=True):
        reservation = Reservation.objects.select_related("holder").get(pk=reservation_id)
        if status_at(reservation, now) != Status.ACTIVE:
            return False
        held = held_by(reservation)
        reasons = out_of_reach([row.gpu_id for row in held.allocations], now)
        part = Held(reservation, [row for row in held.allocations if row.gpu_id in reasons], held.lab)
        if not part.allocations:
            return False
        _return(part, reasons, now)
        whole = len(part.allocations) == len(held.allocations)
        if whole:
            end_now(held, Status.INTERRUPTED, now)
        else:
            for row in part.allocations:
                row.status, row.end = Status.INTERRUPTED, max(now, row.start + TINY)
                row.save(update_fields=["status", "end"])
            reservation.version += 1
            reservation.save(update_fields=["version"])
            outbox.write_reminders(reservation, held.lab, now)
        causes = sorted({reasons[row.gpu_id].cause for row in part.allocations})
        entry = audit.note(
            "interrupt", reservation, actor=None, origin="system", now=now, cause=causes[0], whole=whole,
            cards=[row.gpu_id for row in part.allocations],
        )
        outbox.write(
            Notification.Kind.INTERRUPTED, reservation.holder, key=f"interrupted:{entry.pk}", due_at=now,
            reservation=reservation,
        )
        return True


def _return(part: Held, reasons: dict[int, Why], now: datetime) -> None:
    """Returns the rest, and the time for which each card was gone already (E3)."""
    reservation = part.reservation
    for row in part.allocations:
        since = reasons[row.gpu_id].since
        if since is not None and since < now:
            returning.return_lost(row, [Interval(since, now)], now)
    rest = Interval(max(now, reservation.start), reservation.end)
    post_both(part, rest, Reason.INTERRUPTED, now, sign=-1)
    if not reservation.is_elastic:
        hours.keep_valid(reservation, part.charge(rest), why="interrupt", lab=part.lab, now=now)


# --- what has not started ---------------------------------------------------------------------------------------------


def swap(reservation_id: int, gone: set[int], *, cause: str, now: datetime) -> bool:
    """Gives a reservation that has not started equal free cards for the same time instead of those that are gone, at the same
    price; says whether there were enough. The holder is told.

    Equal: of the same pool and model (`rules.swaps`). The emergency reserve may be used for it: that is public. Under the lock
    over its holder, its cards and those of their pools.
    """
    reservation = Reservation.objects.select_related("holder").get(pk=reservation_id)
    held = held_by(reservation)
    mine = queries.cards([row.gpu_id for row in held.allocations])
    mates = queries.cards(queries.pool_mates(mine))
    busy = {
        one.card_id
        for one in [*queries.holdings_between(mates, held.interval.start, held.interval.end), *queries.lost_cards(mates, now)]
        if one.reservation_id != reservation_id
    }
    free = [card for card in mates.values() if card.in_service and card.id not in busy and card.id not in gone]
    found = swaps(list(mine.values()), gone, free)
    if not found:
        return False
    for row in held.allocations:
        if row.gpu_id in found:
            Allocation.objects.filter(pk=row.pk).update(gpu=found[row.gpu_id])
    reservation.version += 1
    reservation.placed_at = now
    reservation.save(update_fields=["version", "placed_at"])
    returned = fees.return_for(found.values(), held.interval, held.lab, now)
    outbox.write_reminders(reservation, held.lab, now)
    entry = audit.note(
        "swap", reservation, actor=None, origin="system", now=now, cause=cause, old=sorted(found),
        new=[found[one] for one in sorted(found)], **fees.recorded(returned),
    )
    outbox.write(
        Notification.Kind.SWAPPED, reservation.holder, key=f"swapped:{entry.pk}", due_at=now, reservation=reservation
    )
    return True


def swap_due(now: datetime) -> list[int]:
    """Reservations that start within the next day on a card whose loss is proved, the next to start first (G6)."""
    lost = CardState.objects.exclude(lost_since=None).values("gpu")
    rows = Allocation.objects.filter(
        status=str(Status.BOOKED), gpu__in=lost, start__gt=now, start__lte=now + queries.LOST_AHEAD
    )
    return list(dict.fromkeys(rows.order_by("start", "reservation").values_list("reservation_id", flat=True)))


def swap_or_displace(reservation_id: int, *, now: datetime) -> bool:
    """Gives what starts soon on a lost card an equal free one at the same time, or else displaces it (G6, D5).

    Says whether there was anything to do. Raises `locking.Busy`.
    """
    with guarded(), on_its_cards(reservation_id, people=True):
        if reservation_id not in swap_due(now):
            return False
        cards = Allocation.objects.filter(reservation=reservation_id).values_list("gpu", flat=True)
        gone = {one.card_id for one in queries.lost_cards(cards, now)}
        if not swap(reservation_id, gone, cause="lost", now=now):
            displacing.place_anew(displacing.take_out([reservation_id], now), None, cause="lost", now=now)
        return True


def replace_card(old: Gpu, new: Gpu, *, now: datetime) -> list[int]:
    """Gives what is to come on the old card to the new one, and tells the holders; returns the reservations. Under the lock
    over their holders and both cards; that the new card is free for all of it has been asked."""
    rows = Allocation.objects.filter(gpu=old, status=str(Status.BOOKED), start__gt=now).select_related("reservation__holder")
    moved = []
    for row in rows.order_by("start", "pk"):
        reservation = row.reservation
        Allocation.objects.filter(pk=row.pk).update(gpu=new)
        reservation.version += 1
        reservation.save(update_fields=["version"])
        outbox.write_reminders(reservation, queries.lab_facts(), now)
        entry = audit.note(
            "swap", reservation, actor=None, origin="system", now=now, cause="replacement", old=[old.pk], new=[new.pk]
        )
        outbox.write(
            Notification.Kind.SWAPPED, reservation.holder, key=f"swapped:{entry.pk}", due_at=now, reservation=reservation
        )
        moved.append(reservation.pk)
    return moved
