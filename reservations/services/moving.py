"""Moving a reservation, and undoing a booking or a move within its seconds (H6, H0)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from .. import permissions
from ..models import AuditEntry, Member, Reservation
from ..prepared import prepared
from ..rules import booking as rules
from ..rules.lifecycle import Status
from ..rules.projects import pays
from ..rules.refusal import Code, Refused, refuse
from . import audit, displacing, extension, fees, former, freed, outbox
from .held import Held, Reason, cards_of, end_now, locked, post_both, remember, repeated, set_status, status_at
from .placing import allocate, facts_for, on_reserve

_UNDONE = ("undo_booking", "undo_move")
_BY_THE_CLOCK = (str(Status.ACTIVE), str(Status.FINISHED), "in_quota")


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
    while True:
        cards = wanted or cards_of(reservation_id)
        reach = displacing.reach(rules.Ask(tuple(cards), start, end, ""), now)
        with locked(
            reservation_id, by, permissions.Action.MOVE, None, now, also=[*cards, *reach.cards], with_members=reach.members,
            with_projects=reach.projects,
        ) as held:
            if done := repeated(by, key, fingerprint):
                return done
            if version is not None and version != held.reservation.version:
                raise refuse(Code.STALE)
            if (status := status_at(held.reservation, now)) != Status.BOOKED:
                raise refuse(Code.WRONG_STATUS, status=str(status))
            with transaction.atomic():  # undone whole where it turns out that more must be locked
                moved = _move(held, wanted, start, end, reach, by=by, now=now, origin=origin)
                if moved is not None:
                    remember(by, key, fingerprint, moved, now)
                    return moved
                transaction.set_rollback(True)


def _move(
    held: Held, wanted: tuple[int, ...] | None, start: datetime, end: datetime, reach: displacing.Reach, *, by: Member,
    now: datetime, origin: str,
) -> Reservation | None:
    """Moves under the lock; None where it would displace somebody whose rows are not locked."""
    reservation, lab = held.reservation, held.lab
    old_cards = tuple(row.gpu_id for row in held.allocations)
    old = former.record(reservation, old_cards)
    former.let_go(held)
    post_both(held, None, Reason.MOVED, now, sign=-1)
    fees.keep(held, now, former.keep_rows(held, reservation.version))
    ask = rules.Ask(
        old_cards if wanted is None else wanted, start, end, reservation.tier, project_id=reservation.project_id
    )
    facts = facts_for(reservation.holder, ask, lab, now)
    decision = rules.decide(ask, facts)
    plan = decision.plan
    if plan is None:
        raise Refused(decision.refusals)
    if not plan.displaced <= reach.reservations:
        return None
    if over := extension.collaborators_over(held, plan.held, now, cards=len(plan.card_ids)):
        raise Refused(over)
    kept_time = plan.held.start <= held.interval.start and held.interval.end <= plan.held.end
    cooled = None
    if not (kept_time and set(old_cards) <= set(plan.card_ids)):
        cooled = displacing.cool_down(reservation, lab, now)
    if not (held.interval.cut(plan.held) == plan.held and set(plan.card_ids) <= set(old_cards)):
        reservation.booked_at = now
    displaced = displacing.take_out(plan.displaced, now)
    length_over = reservation.may_move_until - reservation.end if reservation.may_move_until else None
    reservation.start, reservation.end, reservation.kind = plan.held.start, plan.held.end, plan.kind
    reservation.is_elastic, reservation.rank_tier = plan.is_elastic, plan.rank[1]
    reservation.project_pays, reservation.grant_id = pays(reservation.project_id, lab.policy), plan.grant_id
    reservation.may_move_until = None if length_over is None else plan.held.end + length_over
    reservation.placed_at = None
    if old["start"] != plan.held.start.isoformat():
        reservation.confirmed_at = None  # that somebody comes was said of the old start
    reservation.status = Status.ACTIVE if plan.held.start <= now else Status.BOOKED
    reservation.version += 1
    reservation.save()
    held_anew = allocate(reservation, plan, facts, lab)
    freed.note(held.allocations, now)
    post_both(held_anew, None, Reason.MOVED, now)
    returned = fees.return_for(plan.card_ids, plan.held, lab, now)
    outbox.write_reminders(reservation, lab, now)
    placed = displacing.place_anew(displaced, reservation, cause="move", now=now)
    entry = audit.note(
        "move", reservation, actor=by, origin=origin, now=now, old=old, new=former.record(reservation, plan.card_ids),
        **fees.recorded(returned), **displacing.recorded(placed), **on_reserve(plan.reserved),
        **({} if cooled is None else {"cooled": cooled}),
    )
    outbox.write_changed(reservation, entry, now)
    return reservation


def undo(
    reservation_id: int, *, by: Member, version: int | None, now: datetime, origin: str = "page"
) -> Reservation:
    """Takes a booking or a move back within its seconds: everything as before, without fee or point (H0).

    What was booked is cancelled, or released if it has started, and its whole charge returned. What was moved is again
    what it was; refused when its old cards, hours or room were taken meanwhile. So is what it displaced, unless an owner
    has acted since. Repeating an undo that was done returns the reservation as it stands.
    """
    needs = displacing.undo_needs(_displaced_by_last_act(reservation_id))
    with locked(
        reservation_id, by, permissions.Action.UNDO, None, now, also=needs.cards, with_members=needs.members,
        with_projects=needs.projects,
    ) as held:
        reservation = held.reservation
        last = _last_act(reservation.pk)
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
            former.restore_moved(held, last.change["old"], now)
        elif status == Status.BOOKED:
            set_status(held, Status.CANCELLED, ended_at=now)
        else:
            end_now(held, Status.RELEASED, reservation.start)  # as if it had never held
        if "cooled" in last.change:
            displacing.warm_up(reservation.holder, last.change["cooled"])
        displacing.bring_back(last.change.get("displaced", ()), now)
        verb = "undo_move" if last.verb == "move" else "undo_booking"
        entry = audit.note(verb, reservation, actor=by, origin=origin, now=now)
        outbox.write_changed(reservation, entry, now)
        return reservation


def undo_until(reservation: Reservation, policy_s: int) -> datetime | None:
    """Until when the last act on the reservation can be undone, or None if it was no booking and no move."""
    last = _last_act(reservation.pk)
    return last.at + timedelta(seconds=policy_s) if last is not None and last.verb in ("reserve", "move") else None


def _displaced_by_last_act(reservation_id: int) -> list[dict[str, Any]]:
    """Whom the last act displaced. What an act displaced is written with it and never changes; a later act displaces
    nobody whom an undo brings back, since it makes the undo stale."""
    last = _last_act(reservation_id)
    return list(last.change.get("displaced", ())) if last else []


def _last_act(reservation_id: int) -> AuditEntry | None:
    """The last that somebody did to the reservation; that it started or ended by the clock, or became in-quota, is nobody's
    act, and who works with whom on its cards changes nothing that an undo restores."""
    return next(iter(_acts(reservation_id)), None)


@prepared
def _acts(reservation_id: int) -> QuerySet[AuditEntry]:
    rows = AuditEntry.objects.filter(subject="reservation", subject_id=reservation_id)
    return rows.exclude(verb__in=[*_BY_THE_CLOCK, *audit.WORDS_ONLY]).order_by("-pk")[:1]
