"""Messages about overruns, demerits and what arbiters decided."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from labgpu.notify.message import Action, one_line

from .. import evidence, labels
from ..links import LinkAction, link_for
from ..looks import cards_line, cards_of
from ..models import Case, Demerit, Notification, Reservation, Ruling
from ..obsolete import ended_alone, ruling_of
from ..queries import LabFacts
from ..reader import near
from ..services import extension
from .cleanup import cleanup_ruled
from .parts import (
    Fact,
    Words,
    booked_words,
    counts_from,
    extension_fact,
    lines_of,
    look_lines,
    next_lines,
    next_on,
    on_record,
    page,
    reservation_of,
    still_running,
)


def overrun(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = reservation_of(row)
    alone = ended_alone(row)
    rows = alone or cards_of(reservation.pk)
    ended = alone[0].end if alone else reservation.ended_at or reservation.end
    longest = None if alone else extension.longest_end(reservation, now=now)
    following = next_on(rows, reservation, ended)
    counts = counts_from(rows, following, reservation, ended, lab)
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
        follows = still_running(when, points)
    else:
        lead = _("Stop your processes on these cards before %(counts)s.") % said
        follows = still_running(when, points)
    facts = (
        Fact(pgettext("fact", "Ended"), (labels.instant(ended),)),
        Fact(_("Cards"), (cards,)),
        Fact(pgettext("fact", "Now"), look_lines(rows, reservation, now)),
        Fact(pgettext("fact", "Next"), next_lines(following, reservation, now)),
        extension_fact(longest),
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


def demerit(row: Notification, lab: LabFacts, now: datetime) -> Words:
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
        facts, (*_kept(demerit, lab), on_record(row, now)), Action(_("Your record"), page("mine")), (dispute,),
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


def ruling(row: Notification, lab: LabFacts, now: datetime) -> Words:
    ruling, demerit = ruling_of(row), row.demerit
    assert ruling is not None  # `obsolete.cause` has been asked
    if ruling.case.kind == Case.Kind.CLEANUP:
        return cleanup_ruled(row, ruling.case, ruling, now)
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
        Fact(pgettext("fact", "Reason"), lines_of(ruling.reason)),
        Fact(pgettext("fact", "Decided"), (_("%(when)s by %(arbiter)s") % said,)),
        Fact(_("Cards"), (cards_line(cards_of(demerit.reservation_id)),)),
    )
    return Words(subject, lead, facts, (on_record(row, now),), Action(_("Your record"), page("mine")))


def _request_ruled(row: Notification, ruling: Ruling, now: datetime) -> Words:
    """A ruling on a request that the law refused (L3)."""
    said = {"when": labels.instant(ruling.at), "arbiter": one_line(str(ruling.arbiter))}
    facts = [
        Fact(pgettext("fact", "Outcome"), (str(labels.OUTCOME[Ruling.Outcome(ruling.outcome)]),)),
        Fact(pgettext("fact", "Reason"), lines_of(ruling.reason)),
        Fact(pgettext("fact", "Decided"), (_("%(when)s by %(arbiter)s") % said,)),
    ]
    made = ruling.reservation
    if made is None:
        return Words(
            _("Your request was declined"), _("The arbiter has not made an exception. The reason is below."), tuple(facts), (),
            Action(_("Your reservations"), page("mine")),
        )
    cards = cards_line(cards_of(made.pk))
    facts += [Fact(_("Cards"), (cards,)), Fact(pgettext("fact", "Booked"), (booked_words(made),))]
    return Words(
        _("Granted: %(cards)s, %(start)s") % {"cards": cards, "start": near(made.start, now)},
        _("An arbiter has made an exception for you: it is booked. You need do nothing."), tuple(facts), (),
        Action(_("View"), page("reservation", made.pk)),
    )


def _proof_lines(stored: Any) -> tuple[str, ...]:
    """The proof of a demerit in sentences; the samples themselves are on the page of the record."""
    proof = evidence.in_words(stored)
    return tuple(proof.sentences) or tuple(
        _("%(name)s: %(value)s") % {"name": name, "value": value} for name, value in proof.facts
    ) or (_("on your record"),)
