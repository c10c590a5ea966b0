"""Messages to those who made room, or whose cards were taken from them."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from labgpu.notify.message import Action, one_line

from .. import labels, queries
from ..looks import all_cards_of, cards_line, cards_of
from ..models import AuditEntry, Notification
from ..obsolete import cause_of, maintenance_of
from ..queries import LabFacts
from ..reader import near
from .parts import (
    CAUSE,
    DISPLACED_BY,
    Fact,
    Words,
    booked_words,
    by_ruling,
    displacer,
    goes_first,
    needed,
    page,
    period,
    reservation_of,
)


def displaced(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = reservation_of(row)
    cards = cards_line(cards_of(reservation.pk))
    said = {"cards": cards, "start": near(reservation.start, now)}
    facts = (
        Fact(_("Cards"), (cards,)),
        Fact(pgettext("fact", "Booked"), (booked_words(reservation),)),
        Fact(pgettext("fact", "Instead of it"), (displacer(reservation, cause_of(row)),)), *by_ruling(reservation),
    )
    follows = [_("Its hours are yours again.")]
    if reservation.displaced_times >= lab.policy.safe_after:
        follows.append(_("It has made room often enough: what you take in its place will not be displaced again."))
    return Words(
        # Translators: subject of the mail to whom was displaced: Displaced: 2 × A100 (gpu-a:0, gpu-a:1), tomorrow 22:00
        _("Displaced: %(cards)s, %(start)s — choose another time") % said,
        DISPLACED_BY.get(cause_of(row), goes_first)(), facts, tuple(follows),
        Action(_("Your reservations"), page("mine")),
        (Action(_("Choose another time"), page("reservation", reservation.pk)),),
    )


def placed(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = reservation_of(row)
    cards = cards_line(cards_of(reservation.pk))
    former = queries.former_period(reservation)
    said = {"cards": cards, "start": near(reservation.start, now)}
    facts = (
        Fact(_("Cards"), (cards,)),
        Fact(pgettext("fact", "Booked"), (booked_words(reservation),)),
        *((Fact(pgettext("fact", "Before"), (period(*former),)),) if former else ()),
    )
    return Words(
        # Translators: subject of the mail when LabGPU moved a reservation: Moved to tomorrow 22:00: 2 × A100 (gpu-a:0, gpu-a:1)
        _("Moved to %(start)s: %(cards)s") % said,
        _("%(why)s LabGPU moved your reservation, as you allowed. It costs no more than before.") % {
            "why": CAUSE.get(cause_of(row), needed)()
        },
        facts, (_("If the new time does not suit you, move or cancel it."),),
        Action(_("View"), page("reservation", reservation.pk)),
    )


def brought_back(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = reservation_of(row)
    cards = cards_line(cards_of(reservation.pk))
    facts = (Fact(_("Cards"), (cards,)), Fact(pgettext("fact", "Booked"), (booked_words(reservation),)))
    return Words(
        _("Yours again: %(cards)s, %(start)s") % {"cards": cards, "start": near(reservation.start, now)},
        _("What had displaced your reservation was undone: it is booked as before. You need do nothing."),
        facts, (), Action(_("View"), page("reservation", reservation.pk)),
    )


def interrupted(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = reservation_of(row)
    entry = AuditEntry.objects.get(pk=int(row.key.rpartition(":")[2]))
    lost = [one for one in all_cards_of(reservation.pk) if one.gpu_id in entry.change["cards"]]
    said = {"cards": cards_line(lost), "why": CAUSE[entry.change["cause"]](), "end": near(reservation.end, now)}
    going_on = [one for one in cards_of(reservation.pk) if one.gpu_id not in entry.change["cards"]]
    facts = (
        Fact(_("Cards"), (said["cards"],)),
        Fact(pgettext("fact", "Ended"), (labels.instant(entry.at),)),
        *((Fact(pgettext("fact", "Goes on"), (cards_line(going_on),)),) if not entry.change["whole"] else ()),
    )
    view = Action(_("View"), page("reservation", reservation.pk))
    actions = (Action(_("Take an equal card"), view.url),) if now < reservation.end else ()
    return Words(
        # Translators: subject of the mail when cards were taken away: Interrupted: 1 × A100 (gpu-a:0) — take an equal card
        _("Interrupted: %(cards)s — take an equal card") % said,
        _("%(why)s If an equal card is free, it is yours until %(end)s with one press; it costs what is returned here.") % said,
        facts, (_("What was left of the time is returned, and no point is given."),), view, actions,
    )


def swapped(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = reservation_of(row)
    cards = cards_line(cards_of(reservation.pk))
    facts = (Fact(_("Cards"), (cards,)), Fact(pgettext("fact", "Booked"), (booked_words(reservation),)))
    return Words(
        # Translators: subject of the mail when equal cards took the place of others, with the cards and when it starts
        _("Other cards, same time: %(cards)s, %(start)s") % {"cards": cards, "start": near(reservation.start, now)},
        _("%(why)s You have equal cards at the same time and the same price. You need do nothing.") % {
            "why": CAUSE.get(cause_of(row), needed)()
        },
        facts, (), Action(_("View"), page("reservation", reservation.pk)),
    )


def maintenance(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation, found = reservation_of(row), maintenance_of(row)
    assert found is not None  # `obsolete.cause` has been asked
    cards = cards_line(cards_of(reservation.pk))
    said = {"cards": cards, "start": near(found.start, now)}
    facts = (
        Fact(pgettext("fact", "Maintenance"), (period(found.start, found.end),)),
        Fact(_("Cards"), (cards,)),
        Fact(pgettext("fact", "Reason"), (one_line(found.reason),)),
    )
    return Words(
        # Translators: subject of the mail before an urgent maintenance: Urgent maintenance from 18:00: 1 × A100 (gpu-a:0)
        _("Urgent maintenance from %(start)s: %(cards)s") % said,
        _("Save your work by %(start)s: the cards in maintenance are taken from your reservation then.") % said,
        facts, (_("What is left of the time is returned then, and no point is given."),),
        Action(_("View"), page("reservation", reservation.pk)),
    )
