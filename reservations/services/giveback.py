"""Giving single cards of a reservation back, and taking that back within its time (G3, H3, H4, E3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from .. import permissions, queries
from ..models import Allocation, AuditEntry, FormerAllocation, Member, Reservation
from ..rules import booking as rules
from ..rules.interval import Interval
from ..rules.lifecycle import Status
from ..rules.refusal import Code, Refused, refuse
from . import audit, changes, displacing, extension, fees, freed, outbox, overruns
from .held import (
    TINY,
    Held,
    Reason,
    charge_what_is_no_longer_free,
    held_by,
    keep_from,
    locked,
    own_processes_seen,
    post_both,
    pressed,
    status_at,
    taken,
)

_HELD = (Status.BOOKED, Status.ACTIVE)


def give_back(
    reservation_id: int, card_ids: Iterable[int], *, by: Member, version: int | None, now: datetime, origin: str = "page",
    knowing_it_runs: bool = False, pressed_by: int | None = None,
) -> Reservation:
    """Gives these cards of a reservation back and keeps the others (G3).

    Of an active one they end now and what has not elapsed is returned; of one that has not started they are cancelled, with
    the fee of a late cancellation for them alone (E3). All that it holds: the whole is released or cancelled. With the
    holder's processes seen on them it is refused once (`STILL_RUNNING`) unless `knowing_it_runs`. Repeating what was done
    returns the reservation as it stands. Raises `Refused`.
    """
    wanted = set(card_ids)
    with locked(reservation_id, by, permissions.Action.RELEASE, None, now) as held:
        reservation = held.reservation
        if wanted and wanted <= _given_back(reservation):
            return reservation
        if version is not None and version != reservation.version:
            raise refuse(Code.STALE)
        if (status := status_at(reservation, now)) not in _HELD:
            raise refuse(Code.WRONG_STATUS, status=str(status))
        if status == Status.BOOKED and not permissions.may(by, permissions.Action.CANCEL, reservation):
            raise refuse(Code.NOT_YOURS)
        part = _part(held, wanted)
        if status == Status.ACTIVE and not knowing_it_runs and own_processes_seen(part):
            raise refuse(Code.STILL_RUNNING)
        if len(part.allocations) < len(held.allocations):
            entry = let_go(part, by, origin, now, pressed_by)
        elif status == Status.ACTIVE:
            entry = changes.end_by_release(held, by, origin, now, pressed_by)
        else:
            entry = changes.end_by_cancelling(held, by, origin, now, pressed_by=pressed_by)
        outbox.write_changed(reservation, entry, now)
        return reservation


def let_go(
    part: Held, by: Member | None, origin: str, now: datetime, pressed_by: int | None = None
) -> AuditEntry:
    """The rows of giving back `part`, some but not all of a reservation's cards; `by` None when the system does it.

    Returns its line of the audit. The message before the end is written again, for it is sent for one version only.
    """
    reservation, version, cooled = part.reservation, part.reservation.version, None
    freed.note(part.allocations, now)
    if status_at(reservation, now) == Status.ACTIVE:
        rest = Interval(max(now, reservation.start), reservation.end)
        post_both(part, rest, Reason.RELEASED, now, sign=-1)
        for row in part.allocations:
            row.status, row.end, row.given_back_at = Status.RELEASED, max(now, row.start + TINY), now
            row.save(update_fields=["status", "end", "given_back_at"])
    else:
        former = FormerAllocation.objects.bulk_create(
            FormerAllocation(
                reservation=reservation, version=version, gpu_id=row.gpu_id, start=row.start, end=row.end,
                weight=row.weight, price=row.price, given_back_at=now,
            )
            for row in part.allocations
        )
        post_both(part, None, Reason.CANCELLED, now, sign=-1)
        fees.keep(part, now, former)
        cooled = displacing.cool_down(reservation, part.lab, now)
        Allocation.objects.filter(pk__in=[row.pk for row in part.allocations]).delete()
    _grow_version(part, now)
    return audit.note(
        "give_back", reservation, actor=by, origin=origin, now=now, version=version,
        cards=[row.gpu_id for row in part.allocations], **pressed(pressed_by),
        **({} if cooled is None else {"cooled": cooled}),
    )


def undo_give_back(
    reservation_id: int, card_ids: Iterable[int], *, by: Member, version: int | None, now: datetime, origin: str = "page",
    pressed_by: int | None = None,
) -> Reservation:
    """Takes cards that were given back alone into the reservation again, within the time of undoing a release (H4).

    Charges them again at the old price and forgives their fee. Refused when the cards, the hours or the room under the caps
    are no longer there, or the reservation was extended or moved since. Repeating it returns the reservation as it stands.
    """
    wanted = set(card_ids)
    with locked(reservation_id, by, permissions.Action.RELEASE, None, now, also=wanted) as held:
        reservation = held.reservation
        if wanted and wanted <= {row.gpu_id for row in held.allocations}:
            return reservation
        if version is not None and version != reservation.version:
            raise refuse(Code.STALE)
        if (status := status_at(reservation, now)) not in _HELD:
            raise refuse(Code.WRONG_STATUS, status=str(status))
        rows = [row for row in given_back_rows(reservation) if row.gpu_id in wanted]
        if not rows or len(rows) < len(wanted):
            raise refuse(Code.CARD_UNKNOWN if wanted else Code.NO_CARDS)
        if any(now >= undo_until(row, held) for row in rows):
            raise refuse(Code.UNDO_OVER)
        together: dict[datetime, list[Allocation | FormerAllocation]] = defaultdict(list)
        for row in rows:
            assert row.given_back_at is not None
            together[row.given_back_at].append(row)
        for since, some in sorted(together.items()):
            _take_again(held, some, since, status, now)
        _grow_version(held, now)
        keep_from(reservation, now)
        entry = audit.note(
            "undo_give_back", reservation, actor=by, origin=origin, now=now, cards=sorted(wanted), **pressed(pressed_by)
        )
        outbox.write_changed(reservation, entry, now)
        return reservation


def given_back_rows(reservation: Reservation) -> list[Allocation | FormerAllocation]:
    """The rows of the cards that were given back alone, after the start or before it."""
    return [
        *reservation.allocations.exclude(given_back_at=None).select_related("gpu__host").order_by("gpu"),
        *reservation.former_allocations.exclude(given_back_at=None).select_related("gpu__host").order_by("gpu"),
    ]


def undo_until(row: Allocation | FormerAllocation, held: Held) -> datetime:
    """Until when the card can be taken again. What was extended or moved since is another promise: it never can."""
    reservation = held.reservation
    assert row.given_back_at is not None
    moved = isinstance(row, FormerAllocation) and (row.start, row.end) != (reservation.start, reservation.end)
    later = AuditEntry.objects.filter(
        subject="reservation", subject_id=reservation.pk, verb="extend", at__gte=row.given_back_at
    )
    if moved or later.exists():
        return row.given_back_at
    return min(row.given_back_at + timedelta(seconds=held.lab.policy.release_undo_s), reservation.end)


def undoable(reservation: Reservation, *, now: datetime) -> list[tuple[Allocation | FormerAllocation, datetime]]:
    """The cards given back alone that can still be taken again, each with until when. For a page: takes no lock."""
    rows = given_back_rows(reservation)
    held = held_by(reservation) if rows else None
    return [(row, until) for row in rows if held and now < (until := undo_until(row, held))]


def _given_back(reservation: Reservation) -> set[int]:
    """The cards given back alone, or with the whole."""
    if reservation.status in (Status.RELEASED, Status.CANCELLED):
        return set(reservation.allocations.values_list("gpu", flat=True))
    return {row.gpu_id for row in given_back_rows(reservation)}


def _part(held: Held, wanted: set[int]) -> Held:
    if not wanted:
        raise refuse(Code.NO_CARDS)
    rows = [row for row in held.allocations if row.gpu_id in wanted]
    if len(rows) < len(wanted):
        raise refuse(Code.CARD_UNKNOWN)
    return Held(held.reservation, rows, held.lab)


def _grow_version(held: Held, now: datetime) -> None:
    reservation = held.reservation
    reservation.version += 1
    reservation.save(update_fields=["version"])
    outbox.write_reminders(reservation, held.lab, now)


def _take_again(
    held: Held, rows: Sequence[Allocation | FormerAllocation], since: datetime, status: Status, now: datetime
) -> None:
    """Holds again what was given back at `since`, or raises what stands against it."""
    reservation = held.reservation
    former = [row for row in rows if isinstance(row, FormerAllocation)]
    part = Held(reservation, [_row_again(row, status, reservation) for row in rows], held.lab)
    span = held.interval if former else Interval(since, reservation.end)
    charge_what_is_no_longer_free(part, span, since)
    if refusals := list(_against(part, span, now)):
        raise Refused(refusals)
    for row in part.allocations:
        row.save()  # what ran on after it was given back runs within the reservation again
        overruns.take_back(overruns.charges_before(row.pk, reservation.end), now, why="undo_give_back")
    fees.forgive(former, held.lab, now)
    _warm_up(reservation, since)
    FormerAllocation.objects.filter(pk__in=[row.pk for row in former]).delete()
    post_both(part, span, Reason.UNDONE, now)
    fees.return_for([row.gpu_id for row in rows], span, held.lab, now)


def _warm_up(reservation: Reservation, since: datetime) -> None:
    """Takes back what followed from giving back cards of what had displaced somebody (D6)."""
    entry = AuditEntry.objects.filter(subject="reservation", subject_id=reservation.pk, verb="give_back", at=since).last()
    if entry is not None and "cooled" in entry.change:
        displacing.warm_up(reservation.holder, entry.change["cooled"])


def _row_again(row: Allocation | FormerAllocation, status: Status, reservation: Reservation) -> Allocation:
    if isinstance(row, Allocation):
        row.status, row.end, row.given_back_at = status, reservation.end, None
        return row
    return Allocation(
        reservation=reservation, gpu_id=row.gpu_id, status=status, start=row.start, end=row.end, weight=row.weight,
        price=row.price,
    )


def _against(part: Held, span: Interval, now: datetime) -> Iterator[rules.Refusal]:
    """What is no longer there of that which was given back: the cards, the hours, the room under the caps."""
    beside, holder = queries.holdings_of(part.reservation.holder_id, now), part.reservation.holder
    yield from taken(part, span, None)
    yield from extension.refuse_return(part, span, now, beside)
    yield from rules.crowd_refusals(span, len(part.allocations), beside, part.lab.policy, holder.role)
    yield from (rules.Refusal(one.code, one.facts) for one in extension.quota_for(part, part.prices, within=span))
