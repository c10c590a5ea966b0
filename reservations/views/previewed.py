"""What a booking would be, in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .. import forms, labels, names
from ..rules.booking import Plan
from ..rules.kinds import Kind, freezes_at
from ..services import preview as service
from ..services.preview import Preview
from . import cardlook, refused
from .waitlist import WAITABLE, instead


@dataclass(frozen=True)
class WeekWords:
    """A quota week that is charged: its name and the hours before, after and allowed."""

    title: str
    before: str
    after: str
    allowance: str


@dataclass(frozen=True)
class Room:
    """A reservation that would make room."""

    pk: int
    holder: str
    cards: str
    period: str
    moves: bool


@dataclass(frozen=True)
class Outcome:
    """What pressing would come to (`is_preview`), or came to: the plan, or what is missing or refused and what else there is.

    `wait`, `book_page`: addresses; `key`: what the form's key becomes where it was asked.
    """

    plan: dict[str, Any] | None = None
    reasons: tuple[refused.Reason, ...] = ()
    problems: tuple[str, ...] = ()
    others: tuple[refused.Instead, ...] = ()
    wait: str = ""
    book_page: str = ""
    key: str = ""
    is_preview: bool = True


def outcome(request: HttpRequest, data: QueryDict) -> Outcome:
    """What is missing in the form, what it would be, or why not and what else."""
    form = forms.BookingForm(data, policy=request.lab.policy, zone=request.lab.zone, now=request.now)
    form.is_valid()
    problems = [str(one) for name, found in form.errors.items() if name != "key" for one in found]
    if not form.card_ids() and not data.get("count"):
        problems.append(_("Choose how many cards."))
    if problems or form.refusals:
        return Outcome(problems=tuple(problems), reasons=refused.reasons(form.refusals))
    asked = form.request
    found = service.preview(request.user, asked, now=request.now)
    if found.plan is not None:
        return Outcome(_plan(request, found, found.plan), others=refused.others(found.others, asked, ()))
    codes = {one.code for one in found.refusals}
    return Outcome(
        reasons=refused.reasons(found.refusals), others=refused.others(found.others, asked, _offered(found)),
        wait=instead(asked) if WAITABLE & codes else "",
    )


def _offered(found: Preview) -> set[tuple[datetime | None, datetime]]:
    """The times that a way out of a refusal books already."""
    values = [one.alternative.values for one in found.refusals if one.alternative and "start" in one.alternative.values]
    return {(one["start"], one["end"]) for one in values}


def _plan(request: HttpRequest, found: Preview, plan: Plan) -> dict[str, Any]:
    held = plan.held
    return {
        "cards": _(", ").join(found.labels),
        "count": ngettext("%(n)d card", "%(n)d cards", len(found.labels)) % {"n": len(found.labels)},
        "period": cardlook.period_words(held.start, held.end), "length": cardlook.length_words(held.start, held.end),
        "price": _("%(hours)s GPU-hours") % {"hours": labels.hours(found.units)} if found.units else _("free of charge"),
        "weeks": [
            WeekWords(labels.day(one.monday), labels.hours(one.before), labels.hours(one.after), labels.hours(one.allowance))
            for one in found.weeks
        ],
        "rank": _rank(request, found, plan),
        "room": [
            Room(
                one.pk, names.shown(str(one.holder)), cardlook.cards_words(row.gpu for row in one.allocations.all()),
                cardlook.period_words(one.start, one.end), one.may_move_until is not None,
            )
            for one in found.makes_room
        ],
    }


def _rank(request: HttpRequest, found: Preview, plan: Plan) -> str:
    """Before whom it goes, and why (C3, E4, J3)."""
    if plan.is_elastic:
        return _("Beyond your hours (elastic): it makes room for anybody within theirs until two hours before it starts.")
    policy = request.lab.policy
    place = plan.rank[1]
    if found.steps:
        below = place >= len(policy.tiers)
        stands = _("below every tier") if below else _("as %(tier)s") % {"tier": labels.tier(policy.tiers[place])}
        return ngettext(
            "Because of your demerits it counts %(n)d tier lower: %(stands)s.",
            "Because of your demerits it counts %(n)d tiers lower: %(stands)s.", found.steps,
        ) % {"n": found.steps, "stands": stands}
    if plan.kind != Kind.PLANNED:
        return _("Nobody can displace it.")
    until = freezes_at(plan.held.start, request.lab.zone, policy.closing)  # D4: the evening on which it becomes firm
    stronger = [labels.tier(code) for code in policy.tiers[:place]] if policy.displacement and request.now < until else []
    if not stronger:
        return _("Nobody can displace it.")
    return _("A stronger tier (%(tiers)s) may displace it until %(time)s.") % {
        "tiers": _(", ").join(stronger), "time": labels.instant(until)
    }
