"""Who comes and who has gone: confirming, no-shows, unused cards, and what holders wish for the end (H2, H3, H5, H7).

What monitoring has proved is written down here; it calls these under the lock, having passed the gate of I1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from .. import permissions
from ..models import Member, Notification, Reservation
from ..rules.interval import Interval
from ..rules.lifecycle import Status
from ..rules.presence import question_due
from ..rules.refusal import Code, refuse
from . import audit, changes, conduct, giveback, outbox
from .held import Held, Reason, end_now, keep_from, locked, post_both, pressed, status_at

_HELD = (Status.BOOKED, Status.ACTIVE)


def confirm(
    reservation_id: int, *, by: Member, version: int | None, now: datetime, origin: str = "page", pressed_by: int | None = None
) -> Reservation:
    """Says that somebody comes: once, which gives them the longer time to come (H2).

    From the time at which people are asked about this start. Repeating it returns the reservation as it stands. Raises
    `Refused`.
    """
    with locked(reservation_id, by, permissions.Action.CONFIRM, None, now) as held:
        reservation = held.reservation
        if reservation.confirmed_at is not None:
            return reservation
        if version is not None and version != reservation.version:
            raise refuse(Code.STALE)
        if (status := status_at(reservation, now)) not in _HELD:
            raise refuse(Code.WRONG_STATUS, status=str(status))
        if now < (begins := question_due(reservation.start, held.lab.zone)):
            raise refuse(Code.CONFIRM_EARLY, begins=begins)
        reservation.confirmed_at = now
        reservation.save(update_fields=["confirmed_at"])
        entry = audit.note("confirm", reservation, actor=by, origin=origin, now=now, **pressed(pressed_by))
        outbox.write_changed(reservation, entry, now)
        return reservation


def keep(
    reservation_id: int, *, by: Member, version: int | None, now: datetime, origin: str = "page", pressed_by: int | None = None
) -> Reservation:
    """Says that the processes that have ended were not the last: nothing is released before another one has ended (H7).

    Repeating it while no other process was seen returns the reservation as it stands. Raises `Refused`.
    """
    with locked(reservation_id, by, permissions.Action.CONFIRM, None, now) as held:
        reservation = held.reservation
        if is_kept(held):
            return reservation
        if version is not None and version != reservation.version:
            raise refuse(Code.STALE)
        if (status := status_at(reservation, now)) != Status.ACTIVE:
            raise refuse(Code.WRONG_STATUS, status=str(status))
        keep_from(reservation, now)
        entry = audit.note("keep", reservation, actor=by, origin=origin, now=now, **pressed(pressed_by))
        outbox.write_changed(reservation, entry, now)
        return reservation


def is_kept(held: Held) -> bool:
    """Whether somebody has asked to keep the cards since the last process was seen."""
    kept = held.reservation.kept_at
    return kept is not None and all(row.last_seen is None or row.last_seen <= kept for row in held.allocations)


def wish(
    reservation_id: int, *, release_when_done: bool, extend_while_free: bool, by: Member, now: datetime, origin: str = "page"
) -> Reservation:
    """Sets what the holder wishes for the end: released when the processes end (H7), extended while free (H5).

    As it is already, nothing is written. Raises `Refused`.
    """
    with locked(reservation_id, by, permissions.Action.EXTEND, None, now) as held:
        reservation = held.reservation
        wanted = {"release_when_done": release_when_done, "extend_while_free": extend_while_free}
        if all(getattr(reservation, name) == value for name, value in wanted.items()):
            return reservation
        if (status := status_at(reservation, now)) not in _HELD:
            raise refuse(Code.WRONG_STATUS, status=str(status))
        for name, value in wanted.items():
            setattr(reservation, name, value)
        reservation.save(update_fields=list(wanted))
        entry = audit.note(
            "wish", reservation, actor=by, origin=origin, now=now, release_when_done=release_when_done,
            extend_while_free=extend_while_free,
        )
        outbox.write_changed(reservation, entry, now)
        return reservation


# --- what the sensor has proved -----------------------------------------------------------------------------------------


def no_show_fact(reservation_id: int) -> str:
    """The name for ever of not having come to this reservation: one fact, one demerit (J1)."""
    return f"no_show:{reservation_id}"


def forfeit_no_show(held: Held, evidence: Mapping[str, Any], now: datetime) -> None:
    """Gives up the rest of a reservation that nobody came to, under the lock (H2).

    The charge of the first two hours is kept, time already elapsed included, and the holder gets a point. Of what the
    system booked or moved the whole charge is returned and there is no point.
    """
    reservation, policy = held.reservation, held.lab.policy
    if reservation.placed_at is not None:
        returned: Interval | None = held.interval
    else:
        kept_until = max(now, reservation.start + timedelta(seconds=policy.no_show_kept_s))
        returned = Interval(kept_until, reservation.end) if kept_until < reservation.end else None
    if returned is not None:
        post_both(held, returned, Reason.FORFEITED, now, sign=-1)
    end_now(held, Status.FORFEITED, now)
    audit.note("no_show", reservation, actor=None, origin="sweep", now=now, ended_at=now.isoformat())
    if reservation.placed_at is not None:
        outbox.write(
            Notification.Kind.NO_SHOW, reservation.holder, key=no_show_fact(reservation.pk), due_at=now,
            reservation=reservation,
        )
    else:
        conduct.issue_no_show(fact=no_show_fact(reservation.pk), reservation=reservation, evidence=evidence, now=now)


def give_back_unused(held: Held, gpu_ids: Iterable[int], now: datetime) -> None:
    """Gives cards back on which nobody came while others of the reservation are used, under the lock (H3)."""
    wanted = set(gpu_ids)
    part = Held(held.reservation, [row for row in held.allocations if row.gpu_id in wanted], held.lab)
    entry = giveback.let_go(part, None, "sweep", now)
    outbox.write(
        Notification.Kind.GIVEN_BACK, held.reservation.holder, key=f"given_back:{entry.pk}", due_at=now,
        reservation=held.reservation,
    )


def done_key(reservation_id: int, last_seen: datetime) -> str:
    """The key of the notice that the processes have ended: one for each time they did."""
    return f"done:{reservation_id}:{int(last_seen.timestamp())}"


def announce_release(reservation_id: int, last_seen: datetime, now: datetime) -> None:
    """Queues the notice that the cards will be released, once for each end of the processes (H7)."""
    reservation = Reservation.objects.select_related("holder").get(pk=reservation_id)
    outbox.write(
        Notification.Kind.DONE, reservation.holder, key=done_key(reservation_id, last_seen), due_at=now,
        reservation=reservation,
    )


def announced_at(reservation_id: int, last_seen: datetime) -> datetime | None:
    """When that notice really left, or None."""
    rows = Notification.objects.filter(key=done_key(reservation_id, last_seen), state=Notification.State.SENT)
    return rows.values_list("sent_at", flat=True).first()


def release_done(held: Held, now: datetime) -> None:
    """Releases what its holder wished to be released when their processes end, under the lock (H7)."""
    changes.end_by_release(held, None, "sweep", now)
