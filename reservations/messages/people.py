"""Messages about projects and people."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from labgpu.notify.message import Action, one_line

from .. import labels
from ..looks import cards_line, cards_of
from ..models import DeadlineGrant, Notification
from ..queries import LabFacts
from .parts import Fact, Words, booked_words, lines_of, page, reservation_of


def invited(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = reservation_of(row)
    cards = cards_line(cards_of(reservation.pk))
    said = {"who": one_line(str(reservation.holder)), "cards": cards}
    facts = (
        Fact(_("Cards"), (cards,)),
        Fact(pgettext("fact", "Booked"), (booked_words(reservation),)),
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


def grant(row: Notification, lab: LabFacts, now: datetime) -> Words:
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
        Fact(pgettext("fact", "Reason"), lines_of(grant.reason)),
    ]
    if grant.decision:
        facts.append(Fact(pgettext("fact", "Decision"), lines_of(grant.decision)))
    return Words(subject % said, lead, tuple(facts), (), Action(_("Project"), page("project", grant.project_id)))
