"""What the sensor says beside one's own past reservations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django import template
from django.utils import formats
from django.utils.translation import gettext as _

from reservations.models import Reservation
from reservations.views.mine import Row

from .. import queries
from ..rules import use

register = template.Library()


@dataclass(frozen=True)
class Note:
    """A sentence about booked against used. `is_good`: early release, shown as good (M1)."""

    words: str
    is_good: bool = False


@register.simple_tag
def use_notes(rows: Iterable[Row], now: datetime) -> dict[int, Note]:
    """What to say of these rows' reservations, by id: off by more than half, or released early. One statement."""
    by_reservation: dict[int, list[queries.Accounted]] = {}
    for one in queries.accounts_of([row.reservation.pk for row in rows], now):
        by_reservation.setdefault(one.reservation_id, []).append(one)
    found = {pk: _note([one.account for one in cards]) for pk, cards in by_reservation.items()}
    return {pk: note for pk, note in found.items() if note is not None}


@register.filter
def note_of(notes: Mapping[int, Note], reservation: Reservation) -> Note | None:
    """The note of one reservation."""
    return notes.get(reservation.pk)


def _note(accounts: list[use.Account]) -> Note | None:
    off = [one for one in accounts if use.is_off_by_more_than_half(one)]
    stayed = [one for one in off if one.overrun * 2 > one.booked]
    if stayed:
        worst = max(stayed, key=lambda one: one.overrun)
        return Note(
            _("Your processes stayed %(stayed)s h after the end; booked were %(booked)s h. Book longer or extend in time.")
            % {"stayed": _hours(worst.overrun), "booked": _hours(worst.booked)}
        )
    if off:
        worst = min(off, key=lambda one: one.use.present)
        return Note(
            _("Used %(used)s h of %(booked)s h booked. Book less next time, or release when you are done.")
            % {"used": _hours(worst.use.present), "booked": _hours(worst.booked)}
        )
    if any(use.mark(one) == use.Mark.EARLY_RELEASE for one in accounts):
        return Note(_("Released early: good."), is_good=True)
    return None


def _hours(length: timedelta) -> str:
    return formats.number_format(length / timedelta(hours=1), decimal_pos=1)
