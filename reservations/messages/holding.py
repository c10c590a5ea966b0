"""Messages about the time one holds: whether one comes, what ends, what was given back."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from labgpu.notify.message import Action, one_line

from .. import labels
from ..links import LinkAction, link_for
from ..looks import cards_line, cards_of
from ..models import Member, Notification
from ..obsolete import changed_by, ended_of, given_back_of
from ..queries import LabFacts
from ..reader import near
from ..rules.lifecycle import Status
from ..services import extension
from .parts import (
    Fact,
    Words,
    booked_words,
    counts_from,
    extension_fact,
    look_lines,
    minutes,
    minutes_left,
    next_lines,
    next_on,
    page,
    reservation_of,
    still_running,
)


def ending(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = reservation_of(row)
    rows = cards_of(reservation.pk)
    end = reservation.end
    longest = extension.longest_end(reservation, now=now)
    said = {
        "left": minutes(minutes_left(end, now)), "cards": cards_line(rows), "end": near(end, now),
    }
    if longest:
        # Translators: subject of the mail before the end: 10 min left: 2 × A100 (gpu-a:0, gpu-a:1), until 18:00
        subject = _("%(left)s left: %(cards)s, until %(end)s — release or extend") % said
        lead = _("Save your work, then release the cards or extend before %(end)s.") % said
    else:
        subject = _("%(left)s left: %(cards)s, until %(end)s — save and release") % said
        lead = _("Save your work and release the cards before %(end)s.") % said
    following = next_on(rows, reservation, end)
    facts = (
        Fact(pgettext("fact", "Ends"), (_("%(end)s, in %(left)s") % {"end": labels.instant(end), "left": said["left"]},)),
        Fact(_("Cards"), (said["cards"],)),
        Fact(pgettext("fact", "Now"), look_lines(rows, reservation, now)),
        Fact(pgettext("fact", "Next"), next_lines(following, reservation, now)),
        extension_fact(longest),
    )
    counts = counts_from(rows, following, reservation, end, lab)
    follows = (
        _("At the end the cards are no longer yours, but LabGPU ends no process."),
        still_running(near(counts, now), lab.policy.overrun_points),
    )
    actions = [Action(_("Release now"), link_for(reservation, LinkAction.RELEASE).url)]
    if longest:
        actions.append(Action(_("Extend"), link_for(reservation, LinkAction.EXTEND).url))
    return Words(subject, lead, facts, follows, Action(_("View"), page("mine")), tuple(actions))


def confirm(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation, policy = reservation_of(row), lab.policy
    cards, start = cards_line(cards_of(reservation.pk)), near(reservation.start, now)
    said = {"cards": cards, "start": start}
    facts = (
        Fact(_("Cards"), (cards,)),
        Fact(pgettext("fact", "Booked"), (booked_words(reservation),)),
    )
    follows = []
    if policy.no_show_s:
        follows.append(
            _("Without a process of yours by %(short)s after the start the cards go to others; if you confirm, by %(long)s.")
            % {
                "short": minutes(policy.no_show_s // 60),
                "long": minutes(max(policy.no_show_s, policy.confirmed_no_show_s) // 60),
            }
        )
    follows.append(_("If you do not need them, give them back: the hours are yours again."))
    actions = (
        Action(_("I am coming"), link_for(reservation, LinkAction.CONFIRM).url),
        Action(_("I do not need them"), link_for(reservation, LinkAction.RELEASE).url),
    )
    return Words(
        # Translators: subject of the question whether somebody comes: Are you coming? 2 × A100 (gpu-a:0, gpu-a:1), from 14:00
        _("Are you coming? %(cards)s, from %(start)s") % said, _("Confirm that you will use these cards from %(start)s.") % said,
        facts, tuple(follows), Action(_("View"), page("reservation", reservation.pk)), actions,
    )


def extended(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = reservation_of(row)
    said = {"cards": cards_line(cards_of(reservation.pk)), "end": near(reservation.end, now)}
    facts = (
        Fact(_("Cards"), (said["cards"],)), Fact(pgettext("fact", "Booked"), (booked_words(reservation),)),
    )
    return Words(
        # Translators: subject of the mail when a reservation was extended by its holder's standing wish
        _("Extended until %(end)s: %(cards)s") % said,
        _("You wished it to go on while the cards are free. Release them when you are done."), facts,
        (_("The added time is charged. You can end the wish on the page of the reservation."),),
        Action(_("View"), page("reservation", reservation.pk)),
        (Action(_("Release now"), link_for(reservation, LinkAction.RELEASE).url),),
    )


def done(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation, ended = reservation_of(row), ended_of(row)
    assert ended is not None  # `obsolete.cause` has been asked
    wait = timedelta(seconds=lab.policy.done_release_s)
    at = max(ended + wait, now + wait / 2)
    said = {"cards": cards_line(cards_of(reservation.pk)), "at": near(at, now), "ended": near(ended, now)}
    facts = (
        Fact(_("Cards"), (said["cards"],)), Fact(pgettext("fact", "Last process seen"), (labels.instant(ended),)),
        Fact(pgettext("fact", "Booked"), (booked_words(reservation),)),
    )
    actions = (
        Action(_("Keep the cards"), link_for(reservation, LinkAction.KEEP).url),
        Action(_("Release now"), link_for(reservation, LinkAction.RELEASE).url),
    )
    return Words(
        # Translators: subject of the mail before cards are released because the processes have ended
        _("Your processes have ended: %(cards)s will be released at %(at)s") % said,
        _("You need do nothing. If another process of yours is to follow, keep the cards before %(at)s.") % said,
        facts, (_("What is left of the time goes back to your quota."),), Action(_("View"), page("reservation", reservation.pk)),
        actions,
    )


def given_back(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation, gone = reservation_of(row), given_back_of(row)
    said = {
        "gone": cards_line(gone), "kept": cards_line(cards_of(reservation.pk)),
        "limit": minutes(lab.policy.give_back_s // 60), "at": near(gone[0].end, now),
    }
    facts = (
        Fact(pgettext("fact", "Given back"), (said["gone"],)), Fact(pgettext("fact", "Still yours"), (said["kept"],)),
        Fact(pgettext("fact", "Booked"), (booked_words(reservation),)),
    )
    return Words(
        # Translators: subject of the mail when an unused card of several was given back by the system
        _("Unused and given back: %(gone)s") % said,
        _("No process of yours was seen there for %(limit)s, so it went back at %(at)s. You keep %(kept)s.") % said,
        facts,
        (
            _("There is no point for it, and its hours are yours again."),
            _("You can undo it for a few minutes on your own page."),
        ),
        Action(_("View"), page("reservation", reservation.pk)),
    )


def no_show(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = reservation_of(row)
    ended = reservation.ended_at or reservation.end
    said = {"cards": cards_line(cards_of(reservation.pk)), "ended": near(ended, now)}
    facts = (
        Fact(_("Cards"), (said["cards"],)), Fact(pgettext("fact", "Booked"), (booked_words(reservation),)),
        Fact(pgettext("fact", "Ended"), (labels.instant(ended),)),
    )
    return Words(
        # Translators: subject of the mail when nobody used what the system had booked or moved
        _("Not used and given up: %(cards)s") % said,
        _("No process of yours was seen there, so the cards went to others at %(ended)s.") % said, facts,
        (_("LabGPU had chosen this time: there is no point for it, and the whole charge is returned."),),
        Action(_("View"), page("mine")),
    )


def changed(row: Notification, lab: LabFacts, now: datetime) -> Words:
    entry, reservation = changed_by(row), row.reservation
    assert entry is not None and reservation is not None  # `obsolete.cause` has been asked
    presser = Member.objects.filter(pk=entry.change.get("pressed_by", entry.actor_id)).first()
    cards = cards_line(cards_of(reservation.pk))
    said = {"who": one_line(str(presser)) if presser else _("Somebody"), "cards": cards}
    subject, follows = {
        "release": (_("%(who)s released your reservation: %(cards)s"), _("You can undo it for a few minutes on your own page.")),
        "undo_release": (_("%(who)s took the release of your reservation back: %(cards)s"), ""),
        "cancel": (_("%(who)s cancelled your reservation: %(cards)s"), _("Its hours are yours again.")),
        "give_back": (
            _("%(who)s gave cards of your reservation back; you keep %(cards)s"),
            _("You can undo it for a few minutes on your own page."),
        ),
        "undo_give_back": (_("%(who)s took cards of your reservation again: %(cards)s"), ""),
        "confirm": (_("%(who)s confirmed that you come: %(cards)s"), ""),
        "keep": (_("%(who)s keeps your cards: %(cards)s"), ""),
        "wish": (_("%(who)s changed how your reservation ends: %(cards)s"), ""),
        "extend": (_("%(who)s extended your reservation: %(cards)s"), ""),
        "move": (_("%(who)s moved your reservation: %(cards)s"), ""),
        "undo_booking": (_("%(who)s undid your booking: %(cards)s"), _("Its hours are yours again.")),
        "take_offer": (_("%(who)s took what was offered to you: %(cards)s"), ""),
        "pass_offer": (_("%(who)s let pass what was offered to you: %(cards)s"), _("Its hours are yours again.")),
        "undo_move": (_("%(who)s undid the move of your reservation: %(cards)s"), ""),
        "retier": (
            _("%(who)s revoked the deadline grant of your reservation: %(cards)s"),
            _("It stays booked, as %(tier)s.") % {"tier": labels.tier(reservation.tier)},
        ),
    }[entry.verb]
    facts: tuple[Fact, ...] = (
        Fact(_("Cards"), (cards,)),
        Fact(pgettext("fact", "Booked"), (booked_words(reservation),)),
        Fact(pgettext("fact", "Status"), (str(labels.STATUS[Status(reservation.status)]),)),
        Fact(pgettext("fact", "When"), (labels.instant(entry.at),)),
    )
    if entry.origin == "link":
        facts += (Fact(pgettext("fact", "How"), (_("by a link in a message to you: keep such links to yourself"),)),)
    lead = _("This was not done by you. If it is not right, look at it now.")
    view = Action(_("View"), page("reservation", reservation.pk))
    return Words(subject % said, lead, facts, (follows,) if follows else (), view)
