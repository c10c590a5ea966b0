"""What happened to a reservation, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .. import labels
from ..models import AuditEntry
from . import cardlook


@dataclass(frozen=True)
class Event:
    """One line of the history: when, what, and by whom (empty when LabGPU itself acted)."""

    at: datetime
    words: str
    by: str
    reason: str


def _extended(change: Mapping[str, Any]) -> str:
    try:
        end = datetime.fromisoformat(change["new_end"])
    except (KeyError, TypeError, ValueError):
        return _("extended")
    return _("extended to %(time)s") % {"time": labels.instant(end)}


def _given_back(change: Mapping[str, Any]) -> str:
    cards = change.get("cards")
    count = len(cards) if isinstance(cards, list) else 1
    return ngettext("%(n)d card given back", "%(n)d cards given back", count) % {"n": count}


def _wished(change: Mapping[str, Any]) -> str:
    words = {
        (True, True): _("to be released when the processes end, and extended while free"),
        (True, False): _("to be released when the processes end"), (False, True): _("to be extended while free"),
    }
    return words.get((change.get("release_when_done") is True, change.get("extend_while_free") is True), _("ends as booked"))


def _moved(change: Mapping[str, Any]) -> str:
    try:
        old, new = (
            cardlook.period_words(*(datetime.fromisoformat(change[side][edge]) for edge in ("start", "end")))
            for side in ("old", "new")
        )
    except (KeyError, TypeError, ValueError):
        return _("moved")
    return _("moved from %(old)s to %(new)s") % {"old": old, "new": new}


def _booked(change: Mapping[str, Any]) -> str:
    reserve = change.get("reserve")
    if not isinstance(reserve, int) or not reserve:
        return _("booked")
    return ngettext(
        "booked, with %(n)d card of the emergency reserve", "booked, with %(n)d cards of the emergency reserve", reserve
    ) % {"n": reserve}



def _charged(change: Mapping[str, Any]) -> str:
    units = change.get("units")
    if not isinstance(units, int):
        return _("overrun charged")
    return _("overrun charged: %(hours)s GPU-hours") % {"hours": labels.hours(units)}


def _offered(change: Mapping[str, Any]) -> str:
    try:
        until = datetime.fromisoformat(change["until"])
    except (KeyError, TypeError, ValueError):
        return _("offered")
    return _("offered until %(time)s") % {"time": labels.instant(until)}


_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "reserve": _booked,
    "release": lambda change: _("released"),
    "undo_release": lambda change: _("release undone"),
    "cancel": lambda change: _("cancelled"),
    "give_back": _given_back,
    "undo_give_back": lambda change: _("cards taken again"),
    "extend": _extended,
    "move": _moved,
    "undo_booking": lambda change: _("booking undone"),
    "undo_move": lambda change: _("move undone"),
    "displaced": lambda change: _("displaced"),
    "placed": lambda change: _("displaced and moved by LabGPU"),
    "brought_back": lambda change: _("back in its place: what displaced it was undone"),
    "charge_overrun": _charged,
    "return_overrun": lambda change: _("what the overrun was charged came back"),
    "interrupt": lambda change: _("interrupted") if change.get("whole", True) else _("cards taken away, the others go on"),
    "swap": lambda change: _("given equal cards at the same time"),
    "return_lost": lambda change: _("time of a failure returned"),
    "in_quota": lambda change: _("now within quota"),
    "retier": lambda change: _("deadline grant revoked, now %(tier)s") % {"tier": labels.tier(change.get("new", ""))},
    "invite_collaborator": lambda change: _("%(name)s asked to join") % {"name": change.get("name", "")},
    "accept_collaboration": lambda change: _("joined"),
    "decline_collaboration": lambda change: _("declined or left"),
    "remove_collaborator": lambda change: _("%(name)s removed") % {"name": change.get("name", "")},
    "confirm": lambda change: _("confirmed"),
    "keep": lambda change: _("kept, though its processes had ended"),
    "wish": _wished,
    "no_show": lambda change: _("given up: nobody came"),
    "place": lambda change: _("booked for its holder, who waited for it"),
    "offer": _offered,
    "take_offer": lambda change: _("offer taken"),
    "pass_offer": lambda change: _("offer passed on"),
    "offer_expired": lambda change: _("offer ended untaken"),
    "active": lambda change: _("started"),
    "finished": lambda change: _("ended as booked"),
}


def events(entries: Iterable[AuditEntry]) -> tuple[Event, ...]:
    """The audit's entries in words, oldest first. A verb this version does not know says that something changed."""
    return tuple(
        Event(
            entry.at, _WORDS.get(entry.verb, lambda change: _("changed"))(entry.change),
            str(entry.actor) if entry.actor else "", entry.reason,
        )
        for entry in entries
    )
