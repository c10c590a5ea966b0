"""From a row of the outbox to a message: what is said, in the recipient's language, when it is sent.

Facts come in one order: what ends when, cards, what they do now, who is next, how far it can be extended, what follows.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

from django.template.loader import render_to_string
from django.utils import translation

from labgpu.notify.message import Message, Recipient, one_line

from ..models import Notification
from ..queries import LabFacts
from ..reader import read_by, zone_words
from .cleanup import case_opened, cleanup
from .conduct import demerit, overrun, ruling
from .displaced import brought_back, displaced, interrupted, maintenance, placed, swapped
from .holding import changed, confirm, done, ending, extended, given_back, no_show
from .parts import Kind, about
from .people import grant, invited
from .waiting import offer, offer_over, served, wait_over


def compose(row: Notification, lab: LabFacts, now: datetime) -> Message:
    """The message of a row as things stand now. Raises `BadMessage` when a name or address has a line break."""
    member = row.member
    with read_by(member, lab) as zone:
        words = _SAID[Kind(row.kind)](row, lab, now)
        context = {
            "words": words, "lab_name": one_line(lab.name) or "LabGPU", "zone": zone_words(zone, now), "kind": row.kind,
            "language": translation.get_language(), "simulated": lab.simulated, "name": one_line(member.name),
        }
        return Message(
            id=_message_id(row), thread=_thread(row), recipient=Recipient(member.name, member.email),
            subject=one_line(words.subject), actions=words.actions,
            text=render_to_string(f"notify/{row.kind}/message.txt", context).strip() + "\n",
            html=render_to_string(f"notify/{row.kind}/message.html", context),
            language=translation.get_language() or "",
        )


def _message_id(row: Notification) -> str:
    """Unique for ever, also in a database that was begun anew at the same address."""
    reservation = about(row)
    began = reservation.booked_at.timestamp() if reservation else ""
    return f"{row.kind}.{row.pk}.{hashlib.sha256(f'{row.key} {row.member_id} {began}'.encode()).hexdigest()[:16]}"


def _thread(row: Notification) -> str:
    reservation = about(row)
    return f"reservation.{reservation.pk}.{int(reservation.booked_at.timestamp())}" if reservation else f"{row.kind}.{row.pk}"


_SAID = {
    Kind.ENDING: ending, Kind.CHANGED: changed, Kind.OVERRUN: overrun, Kind.DEMERIT: demerit, Kind.RULING: ruling,
    Kind.DISPLACED: displaced, Kind.PLACED: placed, Kind.BROUGHT_BACK: brought_back, Kind.INVITED: invited,
    Kind.GRANT: grant, Kind.INTERRUPTED: interrupted, Kind.SWAPPED: swapped, Kind.MAINTENANCE: maintenance,
    Kind.CONFIRM: confirm, Kind.EXTENDED: extended, Kind.DONE: done, Kind.GIVEN_BACK: given_back,
    Kind.NO_SHOW: no_show,
    Kind.SERVED: served, Kind.OFFER: offer, Kind.OFFER_OVER: offer_over, Kind.WAIT_OVER: wait_over,
    Kind.CLEANUP: cleanup, Kind.CASE: case_opened,
}
