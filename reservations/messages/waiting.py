"""Messages to those who wait."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from labgpu.notify.message import Action

from .. import labels, wishes
from ..links import LinkAction, link_for
from ..looks import cards_line, cards_of
from ..models import Notification
from ..queries import LabFacts
from ..reader import near
from .parts import Fact, Words, page, reservation_of, slot


def served(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = reservation_of(row)
    cards = cards_line(cards_of(reservation.pk))
    said = {"cards": cards, "start": near(reservation.start, now), "end": near(reservation.end, now)}
    begun = reservation.start <= now
    # Translators: subject of the mail to who waited: Booked for you: 1 × A100 (gpu-a:0), from 14:00 to 18:00
    subject = _("Booked for you: %(cards)s, from %(start)s to %(end)s") % said
    if begun:
        lead = _("What you waited for is yours: you can start now. If you no longer need it, release it.")
    else:
        lead = _("What you waited for is yours from %(start)s. If you no longer need it, cancel it soon.") % said
    follows = (_("It was booked because you chose “book for me” on the waitlist."),)
    return Words(subject, lead, slot(reservation, cards), follows, Action(_("View"), page("reservation", reservation.pk)))


def offer(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = reservation_of(row)
    assert reservation.offer_until is not None  # `obsolete.cause` has been asked
    cards = cards_line(cards_of(reservation.pk))
    said = {
        "cards": cards, "start": near(reservation.start, now), "end": near(reservation.end, now),
        "until": near(reservation.offer_until, now),
    }
    # Translators: subject of an offer: Take it by 14:15? 1 × A100 (gpu-a:0), from 14:00 to 18:00
    subject = _("Take it by %(until)s? %(cards)s, from %(start)s to %(end)s") % said
    lead = _("What you wait for is there. It is held for you until %(until)s: take it or let it pass.") % said
    if reservation.start <= now:
        follows = _("It starts when you take it. Untaken, it goes to whoever waits next, and costs you nothing.")
    else:
        follows = _("Untaken, it goes to whoever waits next, and costs you nothing.")
    facts = (*slot(reservation, cards), Fact(pgettext("fact", "Held for you until"), (labels.instant(reservation.offer_until),)))
    actions = (
        Action(_("Take it"), link_for(reservation, LinkAction.TAKE).url),
        Action(_("Let it pass"), link_for(reservation, LinkAction.DECLINE).url),
    )
    return Words(subject, lead, facts, (follows,), Action(_("View"), page("mine")), actions)


def offer_over(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = reservation_of(row)
    cards = cards_line(cards_of(reservation.pk))
    # Translators: subject of the mail when an offer was not taken: The offer has ended: 1 × A100 (gpu-a:0)
    subject = _("The offer has ended: %(cards)s") % {"cards": cards}
    lead = _("Nobody took it in its time, so it went to whoever waits next. Wait again if you still need cards.")
    follows = (_("It cost you nothing."),)
    return Words(subject, lead, slot(reservation, cards), follows, Action(_("Wait again"), page("waitlist")))


def wait_over(row: Notification, lab: LabFacts, now: datetime) -> Words:
    entry = row.waitlist_entry
    assert entry is not None  # `obsolete.cause` has been asked
    what = wishes.what_words(entry)
    # Translators: subject of the mail when waiting was in vain: Nothing came free: 2 × A100, 8 h
    subject = _("Nothing came free: %(what)s") % {"what": what}
    lead = _("Your wish had to end by %(latest)s and its length no longer fits. Look for another time, or wait again.") % {
        "latest": labels.instant(entry.latest)
    }
    facts = (
        Fact(pgettext("fact", "What"), (what,)),
        Fact(pgettext("fact", "Waited since"), (labels.instant(entry.created_at),)),
    )
    return Words(subject, lead, facts, (), Action(_("Wait again"), page("waitlist")))
