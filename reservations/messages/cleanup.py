"""Messages of the weekly clean-up (F3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from labgpu.notify.message import Action, one_line

from .. import evidence, labels
from ..models import Case, Notification, Ruling
from ..obsolete import case_of, cleanup_left
from ..queries import LabFacts
from ..reader import near
from .parts import Fact, Words, lines_of, on_record, page


def cleanup(row: Notification, lab: LabFacts, now: datetime) -> Words:
    notice, cards = cleanup_left(row, now)
    assert notice is not None  # `obsolete.cause` has been asked
    by = now + timedelta(seconds=notice.cleanup.grace_s)  # the hour counts from this message
    said = {"cards": _(", ").join(one_line(str(one["card"])) for one in cards), "by": near(by, now)}
    follows = (
        _("What of yours then still runs without a reservation, on whatever card, becomes one case for the arbiters. It gives no"
          " point by itself."),
        _("LabGPU ends no process."),
    )
    return Words(
        # Translators: subject of the mail of the weekly clean-up: Book or stop by 18:00: your processes on gpu-a:0
        _("Book or stop by %(by)s: your processes on %(cards)s") % said,
        _("These processes run without a reservation. Book what you use, or stop them, by %(by)s.") % said,
        tuple(_card_fact(one, now) for one in cards), follows, Action(pgettext("verb", "Book"), page("book")),
    )


def _card_fact(card: Mapping[str, Any], now: datetime) -> Fact:
    """One card of the list: its processes, and since when the longest was seen."""
    processes: Sequence[Mapping[str, Any]] = card["processes"]
    pids = _(", ").join(str(one["pid"]) for one in processes)
    since = min((datetime.fromisoformat(one["since"]) for one in processes if one.get("since")), default=None)
    words = ngettext("process %(pids)s", "processes %(pids)s", len(processes)) % {"pids": pids}
    if since is not None:
        # Translators: processes 4711, 4712, seen since 14:02
        words = _("%(processes)s, seen since %(since)s") % {"processes": words, "since": near(since, now)}
    return Fact(one_line(str(card["card"])), (words,))


def case_opened(row: Notification, lab: LabFacts, now: datetime) -> Words:
    case = case_of(row)
    assert case is not None  # `obsolete.cause` has been asked
    proof = evidence.in_words(case.evidence)
    facts = (
        Fact(_("Cards"), (proof.cards,)),
        Fact(pgettext("fact", "Proof"), tuple(proof.sentences)),
    )
    follows = (_("No point comes of it by itself. You are told what the arbiters say."),)
    return Words(
        # Translators: subject of the mail when a case of the weekly clean-up is opened; what follows are cards
        _("A case for the arbiters: processes without a reservation on %(cards)s") % {"cards": proof.cards},
        _("Say on the page of the case what the arbiters should know, and book or stop what still runs."),
        facts, follows, Action(_("See the case"), page("case", case.pk)),
    )


def cleanup_ruled(row: Notification, case: Case, ruling: Ruling, now: datetime) -> Words:
    """A ruling on a case of the clean-up, to who it is about."""
    against = ruling.outcome == Ruling.Outcome.ACCEPTED
    said = {"when": labels.instant(ruling.at), "arbiter": one_line(str(ruling.arbiter))}
    subject, lead = (
        (
            _("The arbiters say: it was against the rule"),
            _("Book cards before you use them. This ruling gives no point; it stays in the record of cases."),
        ) if against else (
            _("The arbiters say: nothing against it"), _("You need do nothing: nothing is held against you."),
        )
    )
    facts = (
        Fact(pgettext("fact", "Outcome"), (labels.outcome_of(case.kind, ruling.outcome),)),
        Fact(pgettext("fact", "Reason"), lines_of(ruling.reason)),
        Fact(pgettext("fact", "Decided"), (_("%(when)s by %(arbiter)s") % said,)),
        Fact(_("Cards"), (evidence.in_words(case.evidence).cards,)),
    )
    return Words(subject, lead, facts, (on_record(row, now),), Action(_("See the case"), page("case", case.pk)))
