"""What is beyond the allowance becomes in-quota once it fits (E4)."""

from __future__ import annotations

from datetime import datetime

from django.db.models import QuerySet

from ..models import Reservation
from ..rules.lifecycle import Status
from . import audit, extension
from .held import Reason, held_by, on_its_cards, post, scaled


def due(now: datetime) -> list[int]:
    """Of each member's elastic reservations that have not started the one booked first, where its whole charge fits now."""
    found: dict[int, Reservation] = {}
    for reservation in _waiting(now).select_related("holder"):
        found.setdefault(reservation.holder_id, reservation)
    return [one.pk for one in found.values() if _fits(one)]


def settle(reservation_id: int, *, now: datetime) -> bool:
    """Makes the reservation in-quota, if it is still the member's oldest and its whole charge still fits; says whether.

    None booked later overtakes it. Raises `locking.Busy`; the next sweep finds it again.
    """
    holder = Reservation.objects.values_list("holder", flat=True).get(pk=reservation_id)
    with on_its_cards(reservation_id, members=[holder]):
        reservation = _waiting(now).select_related("holder").filter(holder=holder).first()
        if reservation is None or reservation.pk != reservation_id or not _fits(reservation):
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


def _waiting(now: datetime) -> QuerySet[Reservation]:
    return Reservation.objects.filter(status=Status.BOOKED, is_elastic=True, start__gt=now).order_by("booked_at", "pk")


def _fits(reservation: Reservation) -> bool:
    held = held_by(reservation)
    return not extension.weeks_without_room(held, held.prices)
