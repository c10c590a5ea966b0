"""Releasing, undoing a release, cancelling: the ends that people give their reservations (H0, H4, E3)."""

from __future__ import annotations

from datetime import datetime, timedelta

from .. import permissions
from ..models import AuditEntry, Member, Reservation
from ..rules import booking as rules
from ..rules.interval import Interval
from ..rules.lifecycle import Status
from ..rules.refusal import Code, Refused, refuse
from . import audit, displacing, extension, fees, outbox, overruns
from .held import (
    Held,
    Reason,
    charge_what_is_no_longer_free,
    end_now,
    keep_from,
    locked,
    own_others,
    own_processes_seen,
    post_both,
    pressed,
    reopen,
    require,
    set_status,
    taken,
)


def release(
    reservation_id: int, *, by: Member, version: int | None, now: datetime, origin: str = "page",
    knowing_it_runs: bool = False, pressed_by: int | None = None,
) -> Reservation:
    """Ends an active reservation now and returns what has not elapsed (H4, E3).

    With processes of the holder still seen on a card it is refused once (`STILL_RUNNING`) unless `knowing_it_runs`:
    LabGPU ends no process. Repeating a release that was done returns it as it stands. `pressed_by`: the member who was
    signed in when the link of `by` was pressed; only the audit keeps it.
    """
    with locked(reservation_id, by, permissions.Action.RELEASE, None, now) as held:
        reservation = held.reservation
        if reservation.status == Status.RELEASED:
            return reservation
        if version is not None and version != reservation.version:
            raise refuse(Code.STALE)
        require(reservation, Status.RELEASED, now)
        if not knowing_it_runs and own_processes_seen(held):
            raise refuse(Code.STILL_RUNNING)
        outbox.write_changed(reservation, end_by_release(held, by, origin, now, pressed_by), now)
        return reservation


def end_by_release(
    held: Held, by: Member | None, origin: str, now: datetime, pressed_by: int | None = None
) -> AuditEntry:
    """The rows of a release of what is held now; `by` None when the system releases. Returns its line of the audit."""
    post_both(held, _rest(held, now), Reason.RELEASED, now, sign=-1)
    end_now(held, Status.RELEASED, now)
    return audit.note(
        "release", held.reservation, actor=by, origin=origin, now=now, ended_at=now.isoformat(), **pressed(pressed_by)
    )


def undo_release(
    reservation_id: int, *, by: Member, version: int | None, now: datetime, origin: str = "page",
    pressed_by: int | None = None,
) -> Reservation:
    """Takes a release back within its time, if what was given back is still there; charges it again at the old price."""
    with locked(reservation_id, by, permissions.Action.RELEASE, version, now) as held:
        reservation = held.reservation
        ended = reservation.ended_at
        if reservation.status != Status.RELEASED or ended is None:
            raise refuse(Code.WRONG_STATUS, status=reservation.status)
        limit = ended + timedelta(seconds=held.lab.policy.release_undo_s)
        if now >= min(limit, reservation.end):
            raise refuse(Code.UNDO_OVER)
        span = _rest(held, ended)
        charge_what_is_no_longer_free(held, span, ended)
        _refuse_undo(held, span, now)
        reopen(held, reservation.end)
        for row in held.allocations:  # what ran on after the release runs within the reservation again
            overruns.take_back(overruns.charges_before(row.pk, reservation.end), now, why="undo_release")
        keep_from(reservation, now)
        post_both(held, span, Reason.UNDONE, now)
        fees.return_for([row.gpu_id for row in held.allocations], span, held.lab, now)
        outbox.write_reminders(reservation, held.lab, now)
        entry = audit.note("undo_release", reservation, actor=by, origin=origin, now=now, **pressed(pressed_by))
        outbox.write_changed(reservation, entry, now)
        return reservation


def cancel(
    reservation_id: int, *, by: Member, version: int | None, now: datetime, origin: str = "page", reason: str = "",
    pressed_by: int | None = None,
) -> Reservation:
    """Cancels a reservation that has not started and returns its charge, less the fee of a late cancellation (E3).

    Repeating it returns it as it stands.
    """
    with locked(reservation_id, by, permissions.Action.CANCEL, None, now) as held:
        reservation = held.reservation
        if reservation.status == Status.CANCELLED:
            return reservation
        if version is not None and version != reservation.version:
            raise refuse(Code.STALE)
        require(reservation, Status.CANCELLED, now)
        outbox.write_changed(reservation, end_by_cancelling(held, by, origin, now, reason, pressed_by), now)
        return reservation


def end_by_cancelling(
    held: Held, by: Member, origin: str, now: datetime, reason: str = "", pressed_by: int | None = None
) -> AuditEntry:
    """The rows of a cancellation of what has not started. Returns its line of the audit."""
    set_status(held, Status.CANCELLED, ended_at=now)
    post_both(held, None, Reason.CANCELLED, now, sign=-1)
    fees.keep(held, now)
    displacing.cool_down(held.reservation, held.lab, now)
    return audit.note(
        "cancel", held.reservation, actor=by, origin=origin, now=now, reason=reason, **pressed(pressed_by)
    )


def _rest(held: Held, from_: datetime) -> Interval:
    """The booked time that has not elapsed at `from_`."""
    return Interval(max(from_, held.reservation.start), held.reservation.end)


def _refuse_undo(held: Held, span: Interval, now: datetime) -> None:
    """Raises when what the release gave back is no longer there: the cards, the hours, the room under the cap."""
    own, holder = own_others(held, now), held.reservation.holder
    refusals = [
        *taken(held, span, None),
        *extension.refuse_return(held, span, now),
        *rules.crowd_refusals(span, len(held.allocations), own, held.lab.policy, holder.role),
        *(rules.Refusal(one.code, one.facts) for one in extension.quota_for(held, held.prices, within=span)),
    ]
    if refusals:
        raise Refused(refusals)
