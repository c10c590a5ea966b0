"""What is beyond the allowance becomes in-quota once it fits (E4)."""

from __future__ import annotations

from datetime import datetime

from django.db.models import QuerySet

from ..models import Reservation
from ..rules.lifecycle import Status
from . import audit, extension
from .held import Reason, held_by, on_its_cards, post, scaled


def due(now: datetime) -> list[int]:
    """Of each account's elastic reservations that have not started the one booked first, where its whole charge fits now."""
    found: dict[tuple[int | None, int | None], Reservation] = {}
    for reservation in _waiting(now).select_related("holder"):
        found.setdefault(_account(reservation), reservation)
    return [one.pk for one in found.values() if _fits(one)]


def settle(reservation_id: int, *, now: datetime) -> bool:
    """Makes the reservation in-quota, if it is still its account's oldest and its whole charge still fits; says whether.

    None booked later overtakes it. Raises `locking.Busy`; the next sweep finds it again.
    """
    with on_its_cards(reservation_id, people=True):
        reservation = Reservation.objects.select_related("holder").get(pk=reservation_id)
        mine = _account(reservation)
        oldest = next((one for one in _waiting(now) if _account(one) == mine), None)
        if oldest is None or oldest.pk != reservation_id or not _fits(reservation):
            return False
        held = held_by(reservation)
        charge = held.charge()
        post(reservation, scaled(charge, -1), Reason.IN_QUOTA, now)
        # Same version: nothing that a link or an open page could do with it has changed.
        reservation.is_elastic = False
        reservation.save(update_fields=["is_elastic"])
        post(reservation, charge, Reason.IN_QUOTA, now)
        audit.note("in_quota", reservation, actor=None, origin="sweep", now=now)
        return True


def _account(reservation: Reservation) -> tuple[int | None, int | None]:
    """Whose account pays: the project's, or the holder's own (B5)."""
    project = reservation.payer_id
    return project, reservation.holder_id if project is None else None


def _waiting(now: datetime) -> QuerySet[Reservation]:
    return Reservation.objects.filter(status=Status.BOOKED, is_elastic=True, start__gt=now).order_by("booked_at", "pk")


def _fits(reservation: Reservation) -> bool:
    held = held_by(reservation)
    return not extension.weeks_without_room(held, held.prices)
