"""From a row of the outbox to a message: what is said, in the recipient's language, when it is sent.

Facts come in one order: what ends when, cards, what they do now, who is next, how far it can be extended, what follows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, reverse
from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from labgpu.notify.message import Action, Message, Recipient, one_line

from . import evidence, labels, names, queries, wishes
from .links import LinkAction, link_for
from .looks import all_cards_of, cards_line, cards_of, looks, people_of
from .models import Allocation, AuditEntry, DeadlineGrant, Demerit, Member, Notification, Reservation, Ruling
from .obsolete import cause_of, changed_by, ended_alone, ended_of, given_back_of, maintenance_of, ruling_of
from .queries import LabFacts
from .reader import near, read_by, zone_words
from .rules.facts import Holding
from .rules.interval import Interval
from .rules.lifecycle import Status
from .services import extension

Kind = Notification.Kind

# --- what is said -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fact:
    """One line of facts: what it is, and what is so."""

    name: str
    lines: tuple[str, ...]

    @property
    def plain(self) -> list[str]:
        """As lines of a plain text: on one line where it is one."""
        if len(self.lines) == 1:
            # Translators: a fact of a message, such as: Cards: 2 × A100 (gpu-a:0, gpu-a:1)
            return [_("%(name)s: %(value)s") % {"name": self.name, "value": self.lines[0]}]
        # Translators: a fact of a message whose values stand on the following lines
        return [_("%(name)s:") % {"name": self.name}, *(f"  {line}" for line in self.lines)]


@dataclass(frozen=True)
class Words:
    """What a message says, before it is laid out.

    `lead`: what to do by when. `follows`: what happens otherwise, a sentence each. `view`: the one link beside the actions.
    """

    subject: str
    lead: str
    facts: tuple[Fact, ...]
    follows: tuple[str, ...]
    view: Action
    actions: tuple[Action, ...] = ()


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
    reservation = _about(row)
    began = reservation.booked_at.timestamp() if reservation else ""
    return f"{row.kind}.{row.pk}.{hashlib.sha256(f'{row.key} {row.member_id} {began}'.encode()).hexdigest()[:16]}"


def _thread(row: Notification) -> str:
    reservation = _about(row)
    return f"reservation.{reservation.pk}.{int(reservation.booked_at.timestamp())}" if reservation else f"{row.kind}.{row.pk}"


def _about(row: Notification) -> Reservation | None:
    return row.reservation or (row.demerit.reservation if row.demerit else None)


def page(name: str, *args: Any) -> str:
    """The whole address of a page; the site's front where it has no such page."""
    try:
        return settings.SITE_URL + reverse(name, args=args)
    except NoReverseMatch:
        return settings.SITE_URL + "/"


def minutes_left(end: datetime, now: datetime) -> int:
    """Minutes until the end, to the nearest, at least one."""
    return max(1, round((end - now).total_seconds() / 60))


def _minutes(count: int) -> str:
    # Translators: a length of time
    return _("%(n)d min") % {"n": count}


def _reservation(row: Notification) -> Reservation:
    assert row.reservation is not None  # `obsolete.cause` has been asked
    return row.reservation


def _ending(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = _reservation(row)
    rows = cards_of(reservation.pk)
    end = reservation.end
    longest = extension.longest_end(reservation, now=now)
    said = {
        "left": _minutes(minutes_left(end, now)), "cards": cards_line(rows), "end": near(end, now),
    }
    if longest:
        # Translators: subject of the mail before the end: 10 min left: 2 × A100 (gpu-a:0, gpu-a:1), until 18:00
        subject = _("%(left)s left: %(cards)s, until %(end)s — release or extend") % said
        lead = _("Save your work, then release the cards or extend before %(end)s.") % said
    else:
        subject = _("%(left)s left: %(cards)s, until %(end)s — save and release") % said
        lead = _("Save your work and release the cards before %(end)s.") % said
    following = _following(rows, reservation, end)
    facts = (
        Fact(pgettext("fact", "Ends"), (_("%(end)s, in %(left)s") % {"end": labels.instant(end), "left": said["left"]},)),
        Fact(_("Cards"), (said["cards"],)),
        Fact(pgettext("fact", "Now"), _look_lines(rows, reservation, now)),
        Fact(pgettext("fact", "Next"), _next_lines(following, reservation, now)),
        _extension(longest),
    )
    counts = _counts_from(rows, following, reservation, end, lab)
    follows = (
        _("At the end the cards are no longer yours, but LabGPU ends no process."),
        _still_running(near(counts, now), lab.policy.overrun_points),
    )
    actions = [Action(_("Release now"), link_for(reservation, LinkAction.RELEASE).url)]
    if longest:
        actions.append(Action(_("Extend"), link_for(reservation, LinkAction.EXTEND).url))
    return Words(subject, lead, facts, follows, Action(_("View"), page("mine")), tuple(actions))


def _confirm(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation, policy = _reservation(row), lab.policy
    cards, start = cards_line(cards_of(reservation.pk)), near(reservation.start, now)
    said = {"cards": cards, "start": start}
    facts = (
        Fact(_("Cards"), (cards,)),
        Fact(pgettext("fact", "Booked"), (_booked_words(reservation),)),
    )
    follows = []
    if policy.no_show_s:
        follows.append(
            _("Without a process of yours by %(short)s after the start the cards go to others; if you confirm, by %(long)s.")
            % {
                "short": _minutes(policy.no_show_s // 60),
                "long": _minutes(max(policy.no_show_s, policy.confirmed_no_show_s) // 60),
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


def _extended(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = _reservation(row)
    said = {"cards": cards_line(cards_of(reservation.pk)), "end": near(reservation.end, now)}
    facts = (
        Fact(_("Cards"), (said["cards"],)), Fact(pgettext("fact", "Booked"), (_booked_words(reservation),)),
    )
    return Words(
        # Translators: subject of the mail when a reservation was extended by its holder's standing wish
        _("Extended until %(end)s: %(cards)s") % said,
        _("You wished it to go on while the cards are free. Release them when you are done."), facts,
        (_("The added time is charged. You can end the wish on the page of the reservation."),),
        Action(_("View"), page("reservation", reservation.pk)),
        (Action(_("Release now"), link_for(reservation, LinkAction.RELEASE).url),),
    )


def _done(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation, ended = _reservation(row), ended_of(row)
    assert ended is not None  # `obsolete.cause` has been asked
    wait = timedelta(seconds=lab.policy.done_release_s)
    at = max(ended + wait, now + wait / 2)
    said = {"cards": cards_line(cards_of(reservation.pk)), "at": near(at, now), "ended": near(ended, now)}
    facts = (
        Fact(_("Cards"), (said["cards"],)), Fact(pgettext("fact", "Last process seen"), (labels.instant(ended),)),
        Fact(pgettext("fact", "Booked"), (_booked_words(reservation),)),
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


def _given_back(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation, gone = _reservation(row), given_back_of(row)
    said = {
        "gone": cards_line(gone), "kept": cards_line(cards_of(reservation.pk)),
        "limit": _minutes(lab.policy.give_back_s // 60), "at": near(gone[0].end, now),
    }
    facts = (
        Fact(pgettext("fact", "Given back"), (said["gone"],)), Fact(pgettext("fact", "Still yours"), (said["kept"],)),
        Fact(pgettext("fact", "Booked"), (_booked_words(reservation),)),
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


def _no_show(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = _reservation(row)
    ended = reservation.ended_at or reservation.end
    said = {"cards": cards_line(cards_of(reservation.pk)), "ended": near(ended, now)}
    facts = (
        Fact(_("Cards"), (said["cards"],)), Fact(pgettext("fact", "Booked"), (_booked_words(reservation),)),
        Fact(pgettext("fact", "Ended"), (labels.instant(ended),)),
    )
    return Words(
        # Translators: subject of the mail when nobody used what the system had booked or moved
        _("Not used and given up: %(cards)s") % said,
        _("No process of yours was seen there, so the cards went to others at %(ended)s.") % said, facts,
        (_("LabGPU had chosen this time: there is no point for it, and the whole charge is returned."),),
        Action(_("View"), page("mine")),
    )


def _overrun(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = _reservation(row)
    alone = ended_alone(row)
    rows = alone or cards_of(reservation.pk)
    ended = alone[0].end if alone else reservation.ended_at or reservation.end
    longest = None if alone else extension.longest_end(reservation, now=now)
    following = _following(rows, reservation, ended)
    counts = _counts_from(rows, following, reservation, ended, lab)
    points = lab.policy.overrun_points
    cards, when = cards_line(rows), near(counts, now)
    said = {"cards": cards, "ended": near(ended, now), "counts": when, "n": points}
    # Translators: subject of the mail after the end: Still running: 1 × A100 (gpu-a:0), ended 18:00 — stop your processes
    subject = _("Still running: %(cards)s, ended %(ended)s — stop your processes") % said
    if now >= counts:
        lead = _("Stop your processes on these cards now: the reservation ended at %(ended)s.") % said
        follows = ngettext(
            "The time allowed ended at %(counts)s: what still ran then counts as an overrun, %(n)d point.",
            "The time allowed ended at %(counts)s: what still ran then counts as an overrun, %(n)d points.",
            points,
        ) % said
    elif longest:
        lead = _("Stop your processes on these cards, or extend, before %(counts)s.") % said
        follows = _still_running(when, points)
    else:
        lead = _("Stop your processes on these cards before %(counts)s.") % said
        follows = _still_running(when, points)
    facts = (
        Fact(pgettext("fact", "Ended"), (labels.instant(ended),)),
        Fact(_("Cards"), (cards,)),
        Fact(pgettext("fact", "Now"), _look_lines(rows, reservation, now)),
        Fact(pgettext("fact", "Next"), _next_lines(following, reservation, now)),
        _extension(longest),
    )
    actions = (Action(_("Extend"), link_for(reservation, LinkAction.EXTEND).url),) if longest else ()
    return Words(
        subject, lead, facts, (_("LabGPU ends no process."), follows, _charged(reservation, lab, now)),
        Action(_("View"), page("mine")), actions,
    )


def _charged(reservation: Reservation, lab: LabFacts, now: datetime) -> str:
    grace_until = (reservation.ended_at or reservation.end) + lab.policy.grace
    return _("What runs on after %(when)s is charged at twice the rate, whether or not somebody waits.") % {
        "when": near(grace_until, now)
    }


def _still_running(when: str, points: int) -> str:
    return ngettext(
        "Processes of yours that still run at %(when)s count as an overrun: %(n)d point.",
        "Processes of yours that still run at %(when)s count as an overrun: %(n)d points.",
        points,
    ) % {"when": when, "n": points}


def _demerit(row: Notification, lab: LabFacts, now: datetime) -> Words:
    demerit = row.demerit
    assert demerit is not None  # `obsolete.cause` has been asked
    reservation = demerit.reservation
    rows = cards_of(reservation.pk)
    reason = labels.DEMERIT_REASON[Demerit.Reason(demerit.reason)]
    last_day = demerit.issued_at + timedelta(seconds=lab.policy.dispute_s)
    points = ngettext("%(n)d point", "%(n)d points", demerit.points) % {"n": demerit.points}
    cards, until = cards_line(rows), labels.instant(demerit.expires_at)
    said = {
        "points": points, "reason": reason, "cards": cards,
        "ended": labels.instant(_ended(demerit)),
        "until": until, "dispute": labels.instant(last_day),
    }
    facts = (
        Fact(pgettext("fact", "What"), (_("%(reason)s: %(points)s") % said,)),
        Fact(pgettext("fact", "Reservation"), (_("ended %(ended)s") % said,)),
        Fact(_("Cards"), (cards,)),
        Fact(pgettext("fact", "Proof"), _proof_lines(demerit.evidence)),
        Fact(pgettext("fact", "Counts until"), (until,)),
    )
    dispute = Action(_("Dispute"), page("dispute", demerit.pk))
    return Words(
        # Translators: subject of the mail on a demerit: 1 point for overrun: 1 × A100 (gpu-a:0)
        _("%(points)s for %(reason)s: %(cards)s") % said,
        _("If this is wrong, dispute it by %(dispute)s: while it is being decided, the points do not count.") % said,
        facts, (*_kept(demerit, lab), _on_record(row, now)), Action(_("Your record"), page("mine")), (dispute,),
    )


def _kept(demerit: Demerit, lab: LabFacts) -> tuple[str, ...]:
    if demerit.reason != Demerit.Reason.NO_SHOW:
        return ()
    hours = lab.policy.no_show_kept_s / 3600
    return (
        _("The cards went to others. The charge of the first %(n)g h is kept, the rest is yours again.") % {"n": hours},
    )


def _ended(demerit: Demerit) -> datetime:
    """When the holding ended that the demerit is about: a card given back alone has an end of its own."""
    reservation, proof = demerit.reservation, demerit.evidence
    try:
        return datetime.fromisoformat(proof["end"])
    except (KeyError, TypeError, ValueError):
        return reservation.ended_at or reservation.end


def _changed(row: Notification, lab: LabFacts, now: datetime) -> Words:
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
        Fact(pgettext("fact", "Booked"), (_booked_words(reservation),)),
        Fact(pgettext("fact", "Status"), (str(labels.STATUS[Status(reservation.status)]),)),
        Fact(pgettext("fact", "When"), (labels.instant(entry.at),)),
    )
    if entry.origin == "link":
        facts += (Fact(pgettext("fact", "How"), (_("by a link in a message to you: keep such links to yourself"),)),)
    lead = _("This was not done by you. If it is not right, look at it now.")
    view = Action(_("View"), page("reservation", reservation.pk))
    return Words(subject % said, lead, facts, (follows,) if follows else (), view)


def _served(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = _reservation(row)
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
    return Words(subject, lead, _slot(reservation, cards), follows, Action(_("View"), page("reservation", reservation.pk)))


def _offer(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = _reservation(row)
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
    facts = (*_slot(reservation, cards), Fact(pgettext("fact", "Held for you until"), (labels.instant(reservation.offer_until),)))
    actions = (
        Action(_("Take it"), link_for(reservation, LinkAction.TAKE).url),
        Action(_("Let it pass"), link_for(reservation, LinkAction.DECLINE).url),
    )
    return Words(subject, lead, facts, (follows,), Action(_("View"), page("mine")), actions)


def _offer_over(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = _reservation(row)
    cards = cards_line(cards_of(reservation.pk))
    # Translators: subject of the mail when an offer was not taken: The offer has ended: 1 × A100 (gpu-a:0)
    subject = _("The offer has ended: %(cards)s") % {"cards": cards}
    lead = _("Nobody took it in its time, so it went to whoever waits next. Wait again if you still need cards.")
    follows = (_("It cost you nothing."),)
    return Words(subject, lead, _slot(reservation, cards), follows, Action(_("Wait again"), page("waitlist")))


def _wait_over(row: Notification, lab: LabFacts, now: datetime) -> Words:
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


def _slot(reservation: Reservation, cards: str) -> tuple[Fact, ...]:
    said = {"start": labels.instant(reservation.start), "end": labels.instant(reservation.end)}
    return (
        Fact(_("Cards"), (cards,)), Fact(pgettext("fact", "When"), (_("%(start)s to %(end)s") % said,)),
        Fact(pgettext("fact", "Kind"), (str(labels.KIND[reservation.kind]),)),
    )


def _ruling(row: Notification, lab: LabFacts, now: datetime) -> Words:
    ruling, demerit = ruling_of(row), row.demerit
    assert ruling is not None  # `obsolete.cause` has been asked
    if demerit is None:
        return _request_ruled(row, ruling, now)
    points = ngettext("%(n)d point", "%(n)d points", demerit.points) % {"n": demerit.points}
    said = {
        "points": points, "reason": labels.DEMERIT_REASON[Demerit.Reason(demerit.reason)],
        "when": labels.instant(ruling.at), "arbiter": one_line(str(ruling.arbiter)),
    }
    if ruling.outcome == Ruling.Outcome.ACCEPTED:
        subject = _("Your dispute was accepted: the %(reason)s demerit is void") % said
        lead = _("You need do nothing. The demerit of %(points)s is void and counts no more.") % said
    else:
        subject = _("Your dispute was declined: the %(reason)s demerit counts") % said
        lead = _("The demerit of %(points)s counts again, until %(until)s.") % (
            said | {"until": labels.instant(demerit.expires_at)}
        )
    facts = (
        Fact(pgettext("fact", "Outcome"), (str(labels.OUTCOME[Ruling.Outcome(ruling.outcome)]),)),
        Fact(pgettext("fact", "Reason"), _lines(ruling.reason)),
        Fact(pgettext("fact", "Decided"), (_("%(when)s by %(arbiter)s") % said,)),
        Fact(_("Cards"), (cards_line(cards_of(demerit.reservation_id)),)),
    )
    return Words(subject, lead, facts, (_on_record(row, now),), Action(_("Your record"), page("mine")))


def _request_ruled(row: Notification, ruling: Ruling, now: datetime) -> Words:
    """A ruling on a request that the law refused (L3)."""
    said = {"when": labels.instant(ruling.at), "arbiter": one_line(str(ruling.arbiter))}
    facts = [
        Fact(pgettext("fact", "Outcome"), (str(labels.OUTCOME[Ruling.Outcome(ruling.outcome)]),)),
        Fact(pgettext("fact", "Reason"), _lines(ruling.reason)),
        Fact(pgettext("fact", "Decided"), (_("%(when)s by %(arbiter)s") % said,)),
    ]
    made = ruling.reservation
    if made is None:
        return Words(
            _("Your request was declined"), _("The arbiter has not made an exception. The reason is below."), tuple(facts), (),
            Action(_("Your reservations"), page("mine")),
        )
    cards = cards_line(cards_of(made.pk))
    facts += [Fact(_("Cards"), (cards,)), Fact(pgettext("fact", "Booked"), (_booked_words(made),))]
    return Words(
        _("Granted: %(cards)s, %(start)s") % {"cards": cards, "start": near(made.start, now)},
        _("An arbiter has made an exception for you: it is booked. You need do nothing."), tuple(facts), (),
        Action(_("View"), page("reservation", made.pk)),
    )


def _on_record(row: Notification, now: datetime) -> str:
    total = queries.open_demerit_points(row.member, now)
    return ngettext(
        "%(n)d point now counts on your record.", "%(n)d points now count on your record.", total
    ) % {"n": total}


def _displaced(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = _reservation(row)
    cards = cards_line(cards_of(reservation.pk))
    said = {"cards": cards, "start": near(reservation.start, now)}
    facts = (
        Fact(_("Cards"), (cards,)),
        Fact(pgettext("fact", "Booked"), (_booked_words(reservation),)),
        Fact(pgettext("fact", "Instead of it"), (_displacer(reservation, cause_of(row)),)), *_by_ruling(reservation),
    )
    follows = [_("Its hours are yours again.")]
    if reservation.displaced_times >= lab.policy.safe_after:
        follows.append(_("It has made room often enough: what you take in its place will not be displaced again."))
    return Words(
        # Translators: subject of the mail to whom was displaced: Displaced: 2 × A100 (gpu-a:0, gpu-a:1), tomorrow 22:00
        _("Displaced: %(cards)s, %(start)s — choose another time") % said,
        _DISPLACED_BY.get(cause_of(row), _goes_first)(), facts, tuple(follows),
        Action(_("Your reservations"), page("mine")),
        (Action(_("Choose another time"), page("reservation", reservation.pk)),),
    )


def _placed(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = _reservation(row)
    cards = cards_line(cards_of(reservation.pk))
    former = queries.former_period(reservation)
    said = {"cards": cards, "start": near(reservation.start, now)}
    facts = (
        Fact(_("Cards"), (cards,)),
        Fact(pgettext("fact", "Booked"), (_booked_words(reservation),)),
        *((Fact(pgettext("fact", "Before"), (_period(*former),)),) if former else ()),
    )
    return Words(
        # Translators: subject of the mail when LabGPU moved a reservation: Moved to tomorrow 22:00: 2 × A100 (gpu-a:0, gpu-a:1)
        _("Moved to %(start)s: %(cards)s") % said,
        _("%(why)s LabGPU moved your reservation, as you allowed. It costs no more than before.") % {
            "why": _CAUSE.get(cause_of(row), _needed)()
        },
        facts, (_("If the new time does not suit you, move or cancel it."),),
        Action(_("View"), page("reservation", reservation.pk)),
    )


def _brought_back(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = _reservation(row)
    cards = cards_line(cards_of(reservation.pk))
    facts = (Fact(_("Cards"), (cards,)), Fact(pgettext("fact", "Booked"), (_booked_words(reservation),)))
    return Words(
        _("Yours again: %(cards)s, %(start)s") % {"cards": cards, "start": near(reservation.start, now)},
        _("What had displaced your reservation was undone: it is booked as before. You need do nothing."),
        facts, (), Action(_("View"), page("reservation", reservation.pk)),
    )


def _by_ruling(reservation: Reservation) -> tuple[Fact, ...]:
    """Why an arbiter let somebody else go first, if one did (L2)."""
    ruling = reservation.displaced_by.rulings.order_by("-pk").first() if reservation.displaced_by else None
    return (Fact(pgettext("fact", "Reason"), _lines(ruling.reason)),) if ruling else ()


def _booked_words(reservation: Reservation) -> str:
    return _period(reservation.start, reservation.end)


def _period(start: datetime, end: datetime) -> str:
    return _("%(start)s to %(end)s") % {"start": labels.instant(start), "end": labels.instant(end)}


def _goes_first() -> str:
    return _("A reservation that goes first needs these cards, so yours had to make room. Choose another time now.")


def _needed() -> str:
    return _("A reservation that goes first needed its place.")


_DISPLACED_BY: Mapping[str, Callable[[], str]] = {
    "maintenance": lambda: _("The cards are in maintenance then. Choose another time or other cards now."),
    "lost": lambda: _(
        "A card is offline, and no equal one is free at the same time. Choose another time or other cards now."
    ),
}
_CAUSE: Mapping[str, Callable[[], str]] = {
    "maintenance": lambda: _("The cards are in maintenance."), "lost": lambda: _("A card is offline."),
    "replacement": lambda: _("A card was replaced by another."),
}


def _interrupted(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = _reservation(row)
    entry = AuditEntry.objects.get(pk=int(row.key.rpartition(":")[2]))
    lost = [one for one in all_cards_of(reservation.pk) if one.gpu_id in entry.change["cards"]]
    said = {"cards": cards_line(lost), "why": _CAUSE[entry.change["cause"]](), "end": near(reservation.end, now)}
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


def _swapped(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = _reservation(row)
    cards = cards_line(cards_of(reservation.pk))
    facts = (Fact(_("Cards"), (cards,)), Fact(pgettext("fact", "Booked"), (_booked_words(reservation),)))
    return Words(
        # Translators: subject of the mail when equal cards took the place of others, with the cards and when it starts
        _("Other cards, same time: %(cards)s, %(start)s") % {"cards": cards, "start": near(reservation.start, now)},
        _("%(why)s You have equal cards at the same time and the same price. You need do nothing.") % {
            "why": _CAUSE.get(cause_of(row), _needed)()
        },
        facts, (), Action(_("View"), page("reservation", reservation.pk)),
    )


def _maintenance(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation, found = _reservation(row), maintenance_of(row)
    assert found is not None  # `obsolete.cause` has been asked
    cards = cards_line(cards_of(reservation.pk))
    said = {"cards": cards, "start": near(found.start, now)}
    facts = (
        Fact(pgettext("fact", "Maintenance"), (_period(found.start, found.end),)),
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


def _displacer(reservation: Reservation, cause: str) -> str:
    """Who goes first, with the rank that those displaced by it may see (J5)."""
    by = reservation.displaced_by
    if by is None:
        return _CAUSE[cause]() if cause in _CAUSE else _("the cards are not available")
    return _("%(who)s, %(tier)s") % {"who": one_line(names.shown(by.holder)), "tier": labels.TIER.get(by.tier, by.tier)}


def _invited(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = _reservation(row)
    cards = cards_line(cards_of(reservation.pk))
    said = {"who": one_line(str(reservation.holder)), "cards": cards}
    facts = (
        Fact(_("Cards"), (cards,)),
        Fact(pgettext("fact", "Booked"), (_booked_words(reservation),)),
    )
    follows = (
        _("If you accept, your processes on these cards count as the holder's, and the cards count to your own limit too."),
        _("If you do nothing, nothing changes for you."),
    )
    answer = Action(_("Accept or decline"), page("reservation", reservation.pk))
    return Words(
        # Translators: subject of the mail to somebody who is asked to share a reservation
        _("%(who)s asks you to work on the same cards: %(cards)s") % said,
        _("Accept or decline on the page of the reservation. Sign in there as usual."), facts, follows, answer,
    )


def _grant(row: Notification, lab: LabFacts, now: datetime) -> Words:
    grant = row.grant
    assert grant is not None  # `obsolete.cause` has been asked
    said = {"project": one_line(grant.project.name), "deadline": labels.day(grant.deadline)}
    state = DeadlineGrant.State(grant.state)
    subject, lead = {
        DeadlineGrant.State.REQUESTED: (
            _("Please decide: deadline grant for %(project)s, deadline %(deadline)s"),
            _("Grant or decline it on the project's page."),
        ),
        DeadlineGrant.State.GRANTED: (
            _("Granted: the deadline tier for %(project)s until its deadline %(deadline)s"),
            _("Members of the project can book in the deadline tier now."),
        ),
        DeadlineGrant.State.DECLINED: (
            _("Declined: the deadline grant for %(project)s"), _("You need do nothing. The project books in its usual tiers."),
        ),
        DeadlineGrant.State.REVOKED: (
            _("Revoked: the deadline grant for %(project)s"),
            _("What was booked under it and was not frozen goes on in another tier."),
        ),
        DeadlineGrant.State.LAPSED: (
            _("Lapsed: the request for a deadline grant for %(project)s"), _("Nobody decided it in time. You can ask again."),
        ),
    }[state]
    facts = [
        Fact(pgettext("fact", "Project"), (said["project"],)),
        Fact(pgettext("fact", "Days"), (
            _("%(start)s to %(end)s") % {"start": labels.day(grant.first_day), "end": labels.day(grant.last_day)},
        )),
        Fact(pgettext("fact", "Budget"), (_("%(n)s hours × cards") % {"n": labels.card_hours(grant.budget)},)),
        Fact(pgettext("fact", "Asked by"), (one_line(str(grant.requested_by)),)),
        Fact(pgettext("fact", "Reason"), _lines(grant.reason)),
    ]
    if grant.decision:
        facts.append(Fact(pgettext("fact", "Decision"), _lines(grant.decision)))
    return Words(subject % said, lead, tuple(facts), (), Action(_("Project"), page("project", grant.project_id)))


def _lines(text: str) -> tuple[str, ...]:
    return tuple(one_line(line) for line in text.splitlines() if line.strip())


_SAID = {
    Kind.ENDING: _ending, Kind.CHANGED: _changed, Kind.OVERRUN: _overrun, Kind.DEMERIT: _demerit, Kind.RULING: _ruling,
    Kind.DISPLACED: _displaced, Kind.PLACED: _placed, Kind.BROUGHT_BACK: _brought_back, Kind.INVITED: _invited,
    Kind.GRANT: _grant, Kind.INTERRUPTED: _interrupted, Kind.SWAPPED: _swapped, Kind.MAINTENANCE: _maintenance,
    Kind.CONFIRM: _confirm, Kind.EXTENDED: _extended, Kind.DONE: _done, Kind.GIVEN_BACK: _given_back,
    Kind.NO_SHOW: _no_show,
    Kind.SERVED: _served, Kind.OFFER: _offer, Kind.OFFER_OVER: _offer_over, Kind.WAIT_OVER: _wait_over,
}


# --- facts ------------------------------------------------------------------------------------------------------------


def _extension(longest: datetime | None) -> Fact:
    words = _("possible until %(end)s") % {"end": labels.instant(longest)} if longest else _("not possible")
    return Fact(pgettext("fact", "Extension"), (words,))


def _look_lines(rows: Sequence[Allocation], reservation: Reservation, now: datetime) -> tuple[str, ...]:
    return tuple(look.line for look in looks(rows, people_of(reservation), now))


def _following(
    rows: Sequence[Allocation], reservation: Reservation, end: datetime
) -> list[tuple[Allocation, Holding]]:
    """For each card the next reservation on it after the end, where there is one."""
    found = [(row, queries.next_holding(row.gpu_id, end, not_of=reservation.pk)) for row in rows]
    return [(row, holding) for row, holding in found if holding is not None]


def _next_lines(
    following: Sequence[tuple[Allocation, Holding]], reservation: Reservation, now: datetime
) -> tuple[str, ...]:
    lines = []
    for row, holding in following:
        said = {
            "card": str(row.gpu), "holder": one_line(names.shown(holding.holder_name)), "start": near(holding.interval.start, now)
        }
        if holding.holder_id == reservation.holder_id:
            lines.append(_("%(card)s: you yourself, from %(start)s") % said)
        else:
            lines.append(_("%(card)s: %(holder)s, from %(start)s") % said)
    return tuple(lines) or (_("nobody has booked these cards"),)


def _counts_from(
    rows: Sequence[Allocation], following: Sequence[tuple[Allocation, Holding]], reservation: Reservation,
    end: datetime, lab: LabFacts,
) -> datetime:
    """From when an overrun counts: after the grace where somebody else has the card next or waits for it, else later (I4)."""
    later = end + timedelta(seconds=max(lab.policy.overrun_unwaited_s, lab.policy.overrun_grace_s))
    waited = any(
        holding.holder_id != reservation.holder_id and holding.interval.start < later for _, holding in following
    ) or queries.somebody_waits([row.gpu_id for row in rows], Interval(end, later), end, besides=reservation.holder_id)
    return end + lab.policy.grace if waited else later


def _proof_lines(stored: Any) -> tuple[str, ...]:
    """The proof of a demerit in sentences; the samples themselves are on the page of the record."""
    proof = evidence.in_words(stored)
    return tuple(proof.sentences) or tuple(
        _("%(name)s: %(value)s") % {"name": name, "value": value} for name, value in proof.facts
    ) or (_("on your record"),)
