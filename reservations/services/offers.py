"""What the system books or offers to somebody, and what becomes of an offer (K5, D6)."""

from __future__ import annotations

from datetime import datetime

from .. import permissions, queries
from ..models import Allocation, AuditEntry, Member, Notification, Reservation
from ..queries import LabFacts
from ..rules.interval import Interval
from ..rules.kinds import kind_of
from ..rules.lifecycle import Status
from ..rules.quota import Stretch, price_from_json, price_to_json
from ..rules.refusal import Code, refuse
from ..rules.waitlist import offer_until, quiet_until
from . import audit, fees, former, outbox
from .held import Held, Reason, held_by, locked, on_its_cards, post_both, pressed, set_status

# --- making one -----------------------------------------------------------------------------------------------------


def give_back(displaced_id: int, *, now: datetime) -> bool:
    """Offers somebody the slot from which they were displaced, at the old price and seniority (D6); says whether.

    A reservation of its own, of the count of displacements and the rank that the old one had. Not where its holder could not
    have it: the cards are taken, hours or room are spent elsewhere. In the holder's quiet hours it holds that much longer, but
    never past its start.
    """
    with on_its_cards(displaced_id, people=True):
        old = next((one for one in queries.may_come_back(now) if one.pk == displaced_id), None)
        if old is None:
            return False
        before = held_by(old)
        if any(former.against(before, now)):
            return False
        lab = before.lab
        until = offer_until(before.interval, awake_from(old.holder, lab, now), lab.policy)
        reservation = Reservation.objects.create(
            holder=old.holder, status=Status.OFFERED, kind=kind_of(old.start, now, lab.zone, lab.policy.freezing),
            tier=old.tier, rank_tier=old.rank_tier, is_elastic=old.is_elastic, purpose=old.purpose, note=old.note,
            start=old.start, end=old.end, booked_at=old.booked_at, offer_until=min(until, old.start), instead_of=old,
            displaced_times=old.displaced_times, may_move_until=old.may_move_until, project=old.project,
            project_pays=old.project_pays, grant=old.grant, expected_memory=old.expected_memory,
        )
        Allocation.objects.bulk_create(
            [
                Allocation(
                    reservation=reservation, gpu_id=row.gpu_id, status=Status.OFFERED, start=row.start, end=row.end,
                    weight=row.weight, price=row.price,
                )
                for row in before.allocations
            ]
        )
        post_both(held_by(reservation), None, Reason.BOOKED, now)
        returned = fees.return_for([row.gpu_id for row in before.allocations], before.interval, lab, now)
        audit.note(
            "offer", reservation, actor=None, origin="sweep", now=now, until=min(until, old.start).isoformat(),
            instead_of=old.pk, **fees.recorded(returned),
        )
        outbox.write(
            Notification.Kind.OFFER, old.holder, key=f"offer:{reservation.pk}", due_at=now, reservation=reservation
        )
        return True


def awake_from(member: Member, lab: LabFacts, now: datetime) -> datetime:
    """The end of the member's quiet hours, if it is one, else `now`."""
    return quiet_until(now, member.quiet_from, member.quiet_to, queries.zone_of(member, lab.zone)) or now


# --- what becomes of an offer ---------------------------------------------------------------------------------------


def take(
    reservation_id: int, *, by: Member, version: int | None, now: datetime, origin: str = "page",
    pressed_by: int | None = None,
) -> Reservation:
    """Takes an offer while it holds: it is booked, of the kind that its start has now (D1).

    One that could start at once starts now, and what has passed of it is returned. Repeating it returns it as it stands.
    """
    with locked(reservation_id, by, permissions.Action.TAKE, None, now) as held:
        reservation = held.reservation
        if reservation.status in (Status.BOOKED, Status.ACTIVE) and _was_taken(reservation):
            return reservation
        _require_open(reservation, version, now)
        lab = held.lab
        if reservation.start < now:
            _begin_now(held, now)
        reservation.kind = kind_of(reservation.start, now, lab.zone, lab.policy.freezing)
        reservation.status = Status.ACTIVE if reservation.start <= now else Status.BOOKED
        if reservation.instead_of_id is None:  # D6: with the old seniority
            reservation.booked_at = now
        reservation.offer_until = None
        reservation.version += 1
        reservation.save(update_fields=["kind", "status", "start", "booked_at", "offer_until", "version"])
        Allocation.objects.filter(reservation=reservation).update(status=reservation.status)
        outbox.write_reminders(reservation, lab, now)
        entry = audit.note("take_offer", reservation, actor=by, origin=origin, now=now, **pressed(pressed_by))
        outbox.write_changed(reservation, entry, now)
        return reservation


def pass_on(
    reservation_id: int, *, by: Member, version: int | None, now: datetime, origin: str = "page",
    pressed_by: int | None = None,
) -> Reservation:
    """Lets an offer pass: its charge is returned in full, and whoever waits next is asked. Repeating it changes nothing."""
    with locked(reservation_id, by, permissions.Action.DECLINE, None, now) as held:
        reservation = held.reservation
        if reservation.status == Status.PASSED:
            return reservation
        _require_open(reservation, version, now)
        _let_pass(held, now)
        entry = audit.note("pass_offer", reservation, actor=by, origin=origin, now=now, **pressed(pressed_by))
        outbox.write_changed(reservation, entry, now)
        return reservation


def expire_due(now: datetime) -> list[int]:
    """Offers whose time has run out."""
    rows = Reservation.objects.filter(status=Status.OFFERED, offer_until__lte=now)
    return list(rows.order_by("offer_until", "pk").values_list("pk", flat=True)[:500])


def expire_one(reservation_id: int, *, now: datetime) -> None:
    """Ends one offer that nobody took in its time, and says so; does nothing when it was answered meanwhile."""
    with on_its_cards(reservation_id, people=True):
        reservation = Reservation.objects.select_related("holder").get(pk=reservation_id)
        if reservation.status != Status.OFFERED or reservation.offer_until is None or now < reservation.offer_until:
            return
        _let_pass(held_by(reservation), now)
        audit.note("offer_expired", reservation, actor=None, origin="sweep", now=now)
        outbox.write(
            Notification.Kind.OFFER_OVER, reservation.holder, key=f"offer_over:{reservation.pk}", due_at=now,
            reservation=reservation,
        )


def withdraw(reservation_id: int, *, now: datetime, cause: str) -> None:
    """Ends an offer whose cards are taken out of use, and says so. Under the lock over its people, its cards and their pools."""
    reservation = Reservation.objects.select_related("holder").get(pk=reservation_id)
    _let_pass(held_by(reservation), now)
    audit.note("offer_expired", reservation, actor=None, origin="system", now=now, cause=cause)
    outbox.write(
        Notification.Kind.OFFER_OVER, reservation.holder, key=f"offer_over:{reservation.pk}", due_at=now,
        reservation=reservation,
    )


def _was_taken(reservation: Reservation) -> bool:
    done = AuditEntry.objects.filter(subject="reservation", subject_id=reservation.pk, verb="take_offer")
    return done.exists()


def _require_open(reservation: Reservation, version: int | None, now: datetime) -> None:
    """Refuses what is no offer any more; by the clock, also when no sweep has been by."""
    if reservation.status != Status.OFFERED:
        over = reservation.status == Status.PASSED
        raise refuse(Code.OFFER_ENDED) if over else refuse(Code.WRONG_STATUS, status=reservation.status)
    if reservation.offer_until is None or now >= reservation.offer_until:
        raise refuse(Code.OFFER_ENDED)
    if version is not None and version != reservation.version:
        raise refuse(Code.STALE)


def _let_pass(held: Held, now: datetime) -> None:
    post_both(held, None, Reason.PASSED, now, sign=-1)
    set_status(held, Status.PASSED, ended_at=now)


def _begin_now(held: Held, now: datetime) -> None:
    """Makes an offer that could have begun already begin at `now`, at the price of what is left of it."""
    reservation = held.reservation
    post_both(held, Interval(reservation.start, now), Reason.PASSED, now, sign=-1)
    reservation.start = now
    for row in held.allocations:
        left = [one for one in price_from_json(row.price) if one.interval.end > now]
        rest = [Stretch(Interval(max(one.interval.start, now), one.interval.end), one.rate, one.free) for one in left]
        row.start, row.price = now, price_to_json(tuple(rest))
        row.save(update_fields=["start", "price"])
