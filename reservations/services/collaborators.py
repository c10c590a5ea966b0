"""Up to three collaborators beside the holder: asked by the holder, counted once they accept (B4)."""

from __future__ import annotations

from datetime import datetime

from .. import permissions, queries
from ..models import Collaborator, Member, Notification, Reservation
from ..permissions import Action
from ..rules import booking as rules
from ..rules.interval import Interval
from ..rules.lifecycle import Status
from ..rules.refusal import Code, Refused, refuse
from . import audit, outbox
from .held import Held, held_by, on_its_cards, status_at

MOST = 3
State = Collaborator.State
_LIVE = (State.INVITED, State.ACCEPTED)


def invite(
    reservation_id: int, member_id: int, *, by: Member, now: datetime, origin: str = "page"
) -> Collaborator:
    """Asks a member to work on the cards of a reservation that is booked or active; they are sent where to answer.

    Inviting somebody twice is the same; who declined may be asked again. Raises `Refused`.
    """
    with on_its_cards(reservation_id, members=[by.pk], people=True):
        held = _held(reservation_id, now)
        reservation = held.reservation
        if not permissions.may(by, Action.COLLABORATE, reservation):
            raise refuse(Code.NOT_YOURS)
        member = Member.objects.filter(pk=member_id, is_active=True, approval=Member.Approval.APPROVED).first()
        if member is None:
            raise refuse(Code.MEMBER_UNKNOWN)
        if member.pk == reservation.holder_id:
            raise refuse(Code.COLLABORATOR_HOLDER)
        live = reservation.collaborators.filter(state__in=_LIVE)
        if found := live.filter(member=member).first():
            return found
        if live.count() >= MOST:
            raise refuse(Code.COLLABORATORS_FULL, most=MOST)
        row, _ = Collaborator.objects.update_or_create(
            reservation=reservation, member=member, defaults={"state": State.INVITED, "at": now}
        )
        audit.note("invite_collaborator", reservation, actor=by, origin=origin, now=now, member=member.pk, name=str(member))
        outbox.write(
            Notification.Kind.INVITED, member, key=f"invited:{row.pk}:{int(now.timestamp())}", due_at=now,
            reservation=reservation,
        )
        return row


def accept(reservation_id: int, *, by: Member, now: datetime, origin: str = "page") -> Collaborator:
    """The invited member's own press: from now their processes count as the holder's, and the cards to their cap (B1).

    Accepting twice is the same. Raises `Refused`: not invited, or too many cards at once for them.
    """
    with on_its_cards(reservation_id, members=[by.pk], people=True):
        held = _held(reservation_id, now)
        reservation = held.reservation
        row = reservation.collaborators.filter(member=by, state__in=_LIVE).first()
        if row is None or not by.is_approved:
            raise refuse(Code.NOT_INVITED)
        if row.state == State.ACCEPTED:
            return row
        if refusals := list(_too_many(held, by, now)):
            raise Refused(refusals)
        row.state, row.at = State.ACCEPTED, now
        row.save(update_fields=["state", "at"])
        audit.note("accept_collaboration", reservation, actor=by, origin=origin, now=now)
        return row


def _too_many(held: Held, by: Member, now: datetime) -> list[rules.Refusal]:
    """What the member would hold too much of with these cards (B1). Under the lock over the member."""
    span = Interval(max(held.reservation.start, now), held.reservation.end)
    own = queries.holdings_of(by.pk, now)
    cards = sum(row.end > now for row in held.allocations)
    return list(rules.crowd_refusals(span, cards, own, held.lab.policy, by.role))


def decline(reservation_id: int, *, by: Member, now: datetime, origin: str = "page") -> None:
    """The invited member says no, or a collaborator leaves: what they run counts as theirs again. Twice is the same."""
    with on_its_cards(reservation_id, members=[by.pk], people=True):
        reservation = Reservation.objects.get(pk=reservation_id)
        row = reservation.collaborators.filter(member=by).first()
        if row is None:
            raise refuse(Code.NOT_INVITED)
        if row.state in _LIVE:
            row.state, row.at = State.DECLINED, now
            row.save(update_fields=["state", "at"])
            audit.note("decline_collaboration", reservation, actor=by, origin=origin, now=now)


def remove(reservation_id: int, member_id: int, *, by: Member, now: datetime, origin: str = "page") -> None:
    """The holder takes a collaborator or an invitation away. Twice is the same. Raises `Refused`."""
    with on_its_cards(reservation_id, members=[by.pk, member_id], people=True):
        reservation = Reservation.objects.select_related("holder", "project").get(pk=reservation_id)
        if not permissions.may(by, Action.COLLABORATE, reservation):
            raise refuse(Code.NOT_YOURS)
        row = reservation.collaborators.filter(member=member_id, state__in=_LIVE).select_related("member").first()
        if row is not None:
            row.state, row.at = State.REMOVED, now
            row.save(update_fields=["state", "at"])
            audit.note(
                "remove_collaborator", reservation, actor=by, origin=origin, now=now, member=member_id, name=str(row.member)
            )


def _held(reservation_id: int, now: datetime) -> Held:
    """The reservation, which must be booked or active, with its rows."""
    reservation = Reservation.objects.select_related("holder", "project").get(pk=reservation_id)
    if (status := status_at(reservation, now)) not in (Status.BOOKED, Status.ACTIVE):
        raise refuse(Code.WRONG_STATUS, status=str(status))
    return held_by(reservation)
