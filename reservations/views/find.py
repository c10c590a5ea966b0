"""Finding a slot: so many cards for so long, before a time; each result one press, or wait for one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from .. import forms, queries
from ..forms_find import FindForm
from ..rules.projects import pays
from ..rules.slots import open_until
from ..rules.week import round_to_raster
from ..services import slots
from ..services.booking import BookingRequest
from ..services.slots import Slot, Wanted
from . import previewed, quick, refused, waitlist
from .access import member_required
from .book import schedule_at

SEVERAL = 8
_TYPED = ("hours", "min_memory", "start", "end")  # the fields that show what was typed
_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)


@dataclass(frozen=True)
class Found:
    """A slot in words, with what the form that books it sends."""

    words: dict[str, Any]
    start: str
    end: str
    key: str
    schedule: str
    elastic: str
    is_cheapest: bool


@require_safe
@member_required
def find(request: HttpRequest) -> HttpResponse:
    """The form, filled in as the reader booked last or as sent, and what it finds; `length`: a button beside the hours."""
    sent = forms.with_override(request.GET).copy()
    if pressed := sent.get("length"):
        sent["hours"] = pressed
    cards = queries.shown_cards()
    usual = sent.copy()
    for name in ("start", "end"):  # with an end the bar leaves the length out; here both are asked
        usual.pop(name, None)
    bar = quick.context(request, usual, cards)
    data = quick.whole(sent, bar)
    form = FindForm(
        data, lab=request.lab, projects={pk: name for pk, name, _chosen in bar["projects"]},
        tiers=[code for code, *_rest in bar["tiers"]], models=[code for code, *_rest in bar["models"]], now=request.now,
    )
    good = form.is_valid() and not form.refusals
    context = {**_shown(form, data, bar), **(_result(request, form, bar) if good else _NO_RESULT)}
    return render(request, "reservations/find.html", context, status=200 if good else 422)


_NO_RESULT = {"found": (), "outcome": None, "wait": "", "payer": "", "book": None, "looked": False}


def _shown(form: FindForm, data: QueryDict, bar: dict[str, Any]) -> dict[str, Any]:
    """The form as the page draws it: the bar's choices, and what only this form asks."""
    return {
        **{name: bar[name] for name in ("counts", "models", "lengths", "projects", "may_book_without", "tiers", "purposes")},
        "several_hosts": bar["several_hosts"],
        "pools": [(code, words, str(code) == data.get("pool", "")) for code, words in form.fields["pool"].choices],  # type: ignore[attr-defined]
        "typed": {name: _typed(form, name, data.get(name, "")[:40]) for name in _TYPED},
        "errors": {name: [str(one) for one in form.errors.get(name, ())] for name in form.fields},
        "refusals": refused.reasons(form.refusals),
    }


def _typed(form: FindForm, name: str, text: str) -> str:
    """What a field shows again: an instant by the lab's clock, else as typed; nothing where the browser could not show it."""
    if name in form.instants:
        return forms.local_text(form.instants[name])
    if name in ("start", "end"):
        return "" if name in form.errors else text
    return text if _NUMBER.fullmatch(text) else ""


def _result(request: HttpRequest, form: FindForm, bar: dict[str, Any]) -> dict[str, Any]:
    """What was found, or why nothing was and what else there is; and where to wait."""
    cleaned, policy = form.cleaned_data, request.lab.policy
    asked = _at_first(request, form)
    wanted = Wanted(
        form.length, (), asked.count, asked.tier, asked.pool_id, asked.model, asked.min_memory, asked.several_hosts, form.after,
        asked.project_id,
    )
    found = slots.find(request.user, wanted, form.before, request.now, several=SEVERAL)
    outcome = None if found else _why_not(request, asked)
    latest = form.before or open_until(request.now, request.lab.zone, policy)
    pays_project = pays(asked.project_id, policy)
    name = next((words for pk, words, _chosen in bar["projects"] if pk == asked.project_id), "")
    return {
        "found": _in_words(request, found), "outcome": outcome, "looked": True,
        "wait": waitlist.address(asked, form.length, form.after, latest),
        "payer": _("the hours of %(project)s") % {"project": name} if pays_project else _("your own hours"),
        # What every form of the page that books sends; that of the reasons also what was asked.
        "book": {
            "tier": asked.tier, "purpose": asked.purpose, "project": cleaned["project"], "key": forms.new_key(),
            "count": asked.count, "model": asked.model or "", "several_hosts": asked.several_hosts,
            "start": _exact(asked.start), "end": _exact(asked.end),
        },
    }


def _at_first(request: HttpRequest, form: FindForm) -> BookingRequest:
    """What is looked for at the first moment at which it could begin: now, unless it is too long for the spot (D2)."""
    policy, zone, start = request.lab.policy, request.lab.zone, form.after
    if start is None and form.length > timedelta(seconds=policy.walk_in_longest_s):
        start = round_to_raster(request.now + timedelta(microseconds=1), policy.raster_s, zone, up=True)
    return form.asked(start, forms.end_of(start, form.length, now=request.now, policy=policy, zone=zone))


def _why_not(request: HttpRequest, asked: BookingRequest) -> previewed.Outcome:
    """What the law says of the first moment."""
    told = replace(previewed.outcome_of(request, asked), wait="")  # the page has its own link
    if asked.pool_id is None and asked.min_memory is None:
        return told
    # The form that books asks for a number and a model: a mere change of time would lose the pool and the memory.
    return replace(told, reasons=tuple(replace(one, instead=()) for one in told.reasons))


def _in_words(request: HttpRequest, found: Sequence[Slot]) -> tuple[Found, ...]:
    # The first of the cheapest, where waiting for it saves something.
    cheapest = min(found, key=lambda one: one.units, default=None)
    return tuple(
        Found(
            previewed.plan_words(one.plan, one.labels, one.units, one.weeks), _exact(one.start), _exact(one.plan.held.end),
            forms.new_key(), schedule_at(request, one.plan.held.start), str(previewed.ELASTIC) if one.plan.is_elastic else "",
            is_cheapest=one is cheapest and one is not found[0],
        )
        for one in found
    )


def _exact(instant: datetime | None) -> str:
    """An instant as a form sends it; empty for now."""
    return instant.isoformat() if instant else ""
