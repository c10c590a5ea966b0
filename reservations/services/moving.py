"""Moving a reservation, and undoing a booking or a move within its seconds (H6, H0)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from .. import permissions, queries
from ..models import Allocation, AuditEntry, FormerAllocation, Member, Reservation
from ..rules import booking as rules
from ..rules.lifecycle import Status
from ..rules.refusal import Code, Refused, refuse
from . import audit, booking, extension, fees, outbox
from .held import (
    Held,
    Reason,
    end_now,
    held_by,
    locked,
    own_others,
    post_both,
    remember,
    repeated,
    set_status,
    status_at,
    taken,
)

_UNDONE = ("undo_booking", "undo_move")


def move(
    reservation_id: int, *, card_ids: Iterable[int] | None = None, start: datetime, end: datetime, by: Member,
    version: int | None, now: datetime, origin: str = "page", key: str = "",
) -> Reservation:
    """Cancels and books in one transaction: the same reservation, at another time or on other cards (H6).

    Only before it starts. All rules are asked as if the old time were free again. Less than two hours before the start it
    is a late cancellation, whose fee is kept; what the new time covers of the old is booked again and returned (E3). The
    seniority stays only inside the old time and cards; the kind is that of the new start. A repeat of the same key returns
    the reservation as it stands. Raises `Refused`, and then all is as it was.
    """
    wanted = None if card_ids is None else tuple(sorted(set(card_ids)))
    asked = ("move", reservation_id, wanted, start.isoformat(), end.isoformat())
    fingerprint = hashlib.sha256(repr(asked).encode()).hexdigest()
    with locked(reservation_id, by, permissions.Action.MOVE, None, now, also=wanted or ()) as held:
        if done := repeated(by, key, fingerprint):
            return done
        reservation, lab = held.reservation, held.lab
        if version is not None and version != reservation.version:
            raise refuse(Code.STALE)
        if (status := status_at(reservation, now)) != Status.BOOKED:
            raise refuse(Code.WRONG_STATUS, status=str(status))
        old_cards = tuple(row.gpu_id for row in held.allocations)
        old = _record(reservation, old_cards)
        _let_go(held)
        post_both(held, None, Reason.MOVED, now, sign=-1)
        fees.keep(held, now, _keep_former(held))
        ask = rules.Ask(old_cards if wanted is None else wanted, start, end, reservation.tier)
        facts = booking.facts_for(reservation.holder, ask, lab, now)
        decision = rules.decide(ask, facts)
        if decision.plan is None:
            raise Refused(decision.refusals)
        plan = decision.plan
        if not (held.interval.cut(plan.held) == plan.held and set(plan.card_ids) <= set(old_cards)):
            reservation.booked_at = now
        reservation.start, reservation.end, reservation.kind = plan.held.start, plan.held.end, plan.kind
        reservation.rank_tier = lab.policy.rank_tier(reservation.tier)
        reservation.status = Status.ACTIVE if plan.held.start <= now else Status.BOOKED
        reservation.version += 1
        reservation.save()
        booking.allocate(reservation, plan, facts)
        post_both(held_by(reservation), None, Reason.MOVED, now)
        returned = fees.return_for(plan.card_ids, plan.held, lab, now)
        outbox.write_ending(reservation, lab.policy, now)
        entry = audit.note(
            "move", reservation, actor=by, origin=origin, now=now, old=old, new=_record(reservation, plan.card_ids),
            **fees.recorded(returned),
        )
        outbox.write_changed(reservation, entry, now)
        remember(by, key, fingerprint, reservation, now)
        return reservation


def undo(
    reservation_id: int, *, by: Member, version: int | None, now: datetime, origin: str = "page"
) -> Reservation:
    """Takes a booking or a move back within its seconds: everything as before, without fee or point (H0).

    What was booked is cancelled, or released if it has started, and its whole charge returned. What was moved is again
    what it was; refused when its old cards, hours or room were taken meanwhile. Repeating an undo that was done returns
    the reservation as it stands.
    """
    with locked(reservation_id, by, permissions.Action.UNDO, None, now) as held:
        reservation = held.reservation
        last = _last_act(reservation)
        if last is not None and last.verb in _UNDONE:
            return reservation
        if last is None or last.verb not in ("reserve", "move") or version not in (None, reservation.version):
            raise refuse(Code.STALE)
        if now >= last.at + timedelta(seconds=held.lab.policy.booking_undo_s):
            raise refuse(Code.UNDO_OVER)
        if (status := status_at(reservation, now)) not in (Status.BOOKED, Status.ACTIVE):
            raise refuse(Code.WRONG_STATUS, status=str(status))
        post_both(held, None, Reason.UNDONE, now, sign=-1)
        fees.take_again(last.change.get("fees", ()), now)
        if last.verb == "move":
            _restore(held, last.change["old"], now)
            outbox.write_ending(reservation, held.lab.policy, now)
        elif status == Status.BOOKED:
            set_status(held, Status.CANCELLED, ended_at=now)
        else:
            end_now(held, Status.RELEASED, reservation.start)  # as if it had never held
        verb = "undo_move" if last.verb == "move" else "undo_booking"
        entry = audit.note(verb, reservation, actor=by, origin=origin, now=now)
        outbox.write_changed(reservation, entry, now)
        return reservation


def undo_until(reservation: Reservation, policy_s: int) -> datetime | None:
    """Until when the last act on the reservation can be undone, or None if it was no booking and no move."""
    last = _last_act(reservation)
    return last.at + timedelta(seconds=policy_s) if last is not None and last.verb in ("reserve", "move") else None


def _last_act(reservation: Reservation) -> AuditEntry | None:
    """The last that somebody did to the reservation; that it started by the clock is nobody's act."""
    rows = AuditEntry.objects.filter(subject="reservation", subject_id=reservation.pk).exclude(verb=str(Status.ACTIVE))
    return rows.order_by("-pk").first()


def _record(reservation: Reservation, card_ids: Iterable[int]) -> dict[str, Any]:
    """The reservation as the audit keeps it, and as an undo finds it again."""
    return {
        "version": reservation.version, "start": reservation.start.isoformat(), "end": reservation.end.isoformat(),
        "cards": list(card_ids), "kind": str(reservation.kind), "rank_tier": reservation.rank_tier,
        "booked_at": reservation.booked_at.isoformat(),
    }


def _let_go(held: Held) -> None:
    """The reservation holds nothing any more, until it is written anew in the same transaction."""
    Allocation.objects.filter(reservation=held.reservation).delete()
    Reservation.objects.filter(pk=held.reservation.pk).update(status=Status.CANCELLED)


def _keep_former(held: Held) -> list[FormerAllocation]:
    return FormerAllocation.objects.bulk_create(
        [
            FormerAllocation(
                reservation=held.reservation, version=held.reservation.version, gpu_id=row.gpu_id, start=row.start,
                end=row.end, weight=row.weight, price=row.price,
            )
            for row in held.allocations
        ]
    )


def _restore(held: Held, old: dict[str, Any], now: datetime) -> None:
    """Puts the reservation back to what it was before the move, if that is still to be had."""
    reservation = held.reservation
    rows = list(FormerAllocation.objects.filter(reservation=reservation, version=old["version"]).order_by("gpu"))
    fees.forgive(rows, held.lab, now)
    _let_go(held)
    for name in ("start", "end", "booked_at"):
        setattr(reservation, name, datetime.fromisoformat(old[name]))
    reservation.kind, reservation.rank_tier, reservation.status = old["kind"], old["rank_tier"], Status.BOOKED
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
    if refusals := list(_against(before, now)):
        raise Refused(refusals)
    reservation.version += 1
    reservation.save()
    Allocation.objects.bulk_create(before.allocations)
    post_both(before, None, Reason.UNDONE, now)
    fees.return_for([row.gpu_id for row in rows], before.interval, held.lab, now)


def _against(before: Held, now: datetime) -> Iterable[rules.Refusal]:
    """What was taken meanwhile of that which the reservation held before: cards, room under the caps, hours."""
    policy, holder, span = before.lab.policy, before.reservation.holder, before.interval
    yield from taken(before, span, None)
    yield from extension.refuse_return(before, span, now)
    yield from rules.crowd_refusals(span, len(before.allocations), own_others(before, now), policy, holder.role)
    most = policy.most_ahead(holder.role)
    if span.start > now and queries.future_count(holder.pk, now) + 1 > most:
        yield rules.Refusal(Code.OPEN_FUTURE, {"most": most})
    yield from (rules.Refusal(one.code, one.facts) for one in extension.quota_for(before, before.prices))
