"""The booking form: cards, a period, a tier; every reason against it at once, with ways out as buttons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render, resolve_url
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from .. import forms, labels, queries
from ..models import Case, Reservation
from ..rules.instead import may_help
from ..rules.lifecycle import Status
from ..rules.policy import Policy, Scheduling
from ..rules.projects import pays
from ..rules.refusal import Code, Refusal, Refused
from ..rules.waivers import would_help
from ..rules.week import NoSuchLocalTime, local_date
from ..services import booking, exceptions, locking, moving, slots, ways
from ..services.booking import BookingRequest
from . import cardlook, refused, say
from .access import lead, member_required
from .previewed import Outcome
from .tiers import open_tiers, usual_tier
from .waitlist import WAITABLE, instead

LENGTHS = (1, 2, 4, 8, 12, 24, 48)
_WINDOW = timedelta(hours=34)


@dataclass(frozen=True)
class Choice:
    """A card to tick."""

    card: cardlook.CardLook
    hold: cardlook.Hold
    ticked: bool


@require_http_methods(["GET", "HEAD", "POST"])
@member_required
def book(request: HttpRequest) -> HttpResponse:
    """GET shows the form (`?card=…&start=…&end=…` fill it in, or a text, `?say=…`), POST books; `length` fills in the end."""
    if request.method == "POST":
        return _length(request) if "length" in request.POST else _book(request)
    return _said(request) if request.GET.get("say", "").strip() else _page(request, _given(request))


def _said(request: HttpRequest) -> HttpResponse:
    """The form as a text fills it in, with the cards that would be chosen; what is unclear is asked, and nothing filled in."""
    models = list(dict.fromkeys(gpu.model for gpu in queries.fleet()))
    filled = say.fill(request.GET["say"], request.lab, models, request.now)
    said = {"start": filled.start, "end": filled.end}
    times = {name: forms.local_text(instant) if instant else "" for name, instant in said.items()}
    data = QueryDict(mutable=True)
    if filled.questions or filled.end is None or not filled.count:
        return _page(request, times, data=data, questions=filled.questions)
    projects, policy = queries.projects_of(request.user.pk), request.lab.policy
    project = _chosen_project(data, projects, policy)
    asked = BookingRequest(
        (), filled.start, filled.end, usual_tier(open_tiers(projects, policy, request), project, policy),
        count=filled.count, model=filled.model, project_id=project,
    )
    decision = booking.look(request.user, asked, now=request.now)
    if decision.plan is not None:
        data.setlist("card", [str(pk) for pk in decision.plan.card_ids])
        return _page(request, times, data=data)
    # Other slots name their cards; a mere change of time would leave the form without any.
    why = [replace(one, alternative=None) for one in decision.refusals]
    others = _others(request, asked, [one.code for one in why], why)
    return _page(request, times, data=data, reasons=refused.reasons(why), others=others)


def _given(request: HttpRequest) -> dict[str, str]:
    """What the address fills in; what cannot be read is left empty, for the reader to choose."""
    given = {}
    for name in ("start", "end"):
        try:
            given[name] = forms.local_text(forms.read_instant(request.GET.get(name, ""), request.lab.zone))
        except ValueError:
            given[name] = ""
    return given


def _book(request: HttpRequest) -> HttpResponse:
    form = forms.BookingForm(request.POST, policy=request.lab.policy, zone=request.lab.zone, now=request.now)
    if not form.is_valid() or form.refusals:
        if _from_bar(request):
            problems = tuple(str(one) for found in form.errors.values() for one in found)
            return _in_bar(request, form, Outcome(reasons=refused.reasons(form.refusals), problems=problems), 422)
        return _page(request, _typed(form), form=form, reasons=refused.reasons(form.refusals), status=422)
    if "ask" in request.POST:
        return _ask(request, form)
    try:
        made = booking.reserve(request.user, form.request, now=request.now)
    except Refused as problem:
        return _not_booked(request, form, problem)
    except locking.Busy:
        if _from_bar(request):
            return refused.retry(_in_bar(request, form, Outcome(reasons=refused.busy()), 409))
        return refused.retry(_page(request, _typed(form), form=form, reasons=refused.busy(), status=409))
    messages.success(request, booked_words(form.request.ask().wanted, made), extra_tags=undo_tag(request, made))
    return lead(request, schedule_with(request, made))


def _not_booked(request: HttpRequest, form: forms.BookingForm, problem: Refused) -> HttpResponse:
    """Every reason, in the bar or on the page of the form, with what can be had instead."""
    allowed = list(ways.allowed(request.user, form.request, problem.refusals, request.now))
    told: dict[str, Any] = {
        "reasons": refused.reasons(allowed), "others": _others(request, form.request, problem.codes, allowed),
        "wait": instead(form.request) if WAITABLE & set(problem.codes) else "",
    }
    status, fresh_key = refused.status(problem.refusals), Code.KEY_REUSED in problem.codes
    if _from_bar(request):
        return _in_bar(request, form, Outcome(**told, book_page=_address(form.sent)), status, fresh_key=fresh_key)
    may_ask = bool(would_help(problem.refusals))
    return _page(request, _typed(form), form=form, status=status, fresh_key=fresh_key, may_ask=may_ask, **told)


def _from_bar(request: HttpRequest) -> bool:
    """Whether the bar above the schedule asked, which shows the answer in its place."""
    return bool(request.htmx) and "bar" in request.POST


def _in_bar(
    request: HttpRequest, form: forms.BookingForm, told: Outcome, status: int, *, fresh_key: bool = False
) -> HttpResponse:
    sent = form.sent.get("key", "")
    key = forms.new_key() if fresh_key or "key" in form.errors else sent
    return render(request, "reservations/_preview.html", {"outcome": replace(told, key=key, is_preview=False)}, status=status)


def _address(sent: QueryDict) -> str:
    """The page of the form with what was asked, for who wants to ask the arbiters or change more."""
    given = [(name, value) for name in ("card", "start", "end", "tier", "project") for value in sent.getlist(name) if value]
    return resolve_url("book") + "?" + urlencode(given)


def _ask(request: HttpRequest, form: forms.BookingForm) -> HttpResponse:
    """Hands a request that the law refuses to the arbiters (L1)."""
    refusals = booking.check(request.user, form.request, now=request.now)
    taken = {Code.CARD_TAKEN, Code.NOT_ENOUGH_CARDS} & {one.code for one in refusals}
    kind = Case.Kind.QUEUE_JUMP if taken else Case.Kind.EXCEPTION
    try:
        case = exceptions.ask(
            request.user, form.request, str(request.POST.get("statement", ""))[:2000], kind=kind, now=request.now
        )
    except Refused as problem:
        return _page(
            request, _typed(form), form=form, reasons=refused.reasons([*problem.refusals, *refusals]),
            status=refused.status(problem.refusals), may_ask=bool(would_help(refusals)),
        )
    except locking.Busy:
        return refused.retry(_page(request, _typed(form), form=form, reasons=refused.busy(), status=409))
    messages.success(request, _("Your request is with the arbiters; you are told what they decide."))
    return lead(request, resolve_url("case", case.pk))


def _others(
    request: HttpRequest, asked: BookingRequest, codes: Iterable[Code], allowed: Iterable[Refusal]
) -> tuple[refused.Instead, ...]:
    """Other slots as buttons, where a time or cards were refused."""
    if not may_help(codes):
        return ()
    values = [one.alternative.values for one in allowed if one.alternative and "start" in one.alternative.values]
    return refused.others(
        slots.alternatives_for(request.user, asked, request.now), asked, {(one["start"], one["end"]) for one in values}
    )


def undo_tag(request: HttpRequest, made: Reservation) -> str:
    """What makes a message of success carry the button that undoes a booking or a move while it lasts (H0)."""
    until = moving.undo_until(made, request.lab.policy.booking_undo_s)
    return f"undo {made.pk} {made.version} {int(until.timestamp() * 1000)}" if until else ""


def booked_words(count: int, made: Reservation) -> str:
    """That so many cards are booked, and when; and what the reader should know of it."""
    told = [_booked(count, made)]
    if made.is_elastic and made.status == Status.BOOKED:
        told.append(
            _("It is beyond your hours (elastic): it makes room for anybody within theirs until two hours before it starts.")
        )
    if number := queries.displaced_count(made):
        told.append(
            ngettext("%(n)d reservation made room for it.", "%(n)d reservations made room for it.", number) % {"n": number}
        )
    return " ".join(told)


def _booked(count: int, made: Reservation) -> str:
    return ngettext("Booked: %(n)d card, %(period)s.", "Booked: %(n)d cards, %(period)s.", count) % {
        "n": count, "period": cardlook.period_words(made.start, made.end)
    }


def schedule_with(request: HttpRequest, made: Reservation) -> str:
    """The schedule at a time at which the reservation is seen."""
    return schedule_at(request, made.start, new=made.pk)


def schedule_at(request: HttpRequest, start: datetime, **more: int) -> str:
    """The schedule at a time at which what starts then is seen."""
    query: dict[str, str | int] = {**more}
    if start > request.now + _WINDOW:
        query = {"from": local_date(start, request.lab.zone).isoformat(), **query}
    return resolve_url("schedule") + ("?" + urlencode(query) if query else "")


def _length(request: HttpRequest) -> HttpResponse:
    """Fills in the end for a pressed length (elapsed hours, A2); books nothing."""
    data = request.POST
    values = {"start": data.get("start", "")[:40], "end": data.get("end", "")[:40]}
    try:
        start = forms.read_instant(values["start"], request.lab.zone) if values["start"].strip() else None
        end = forms.end_after(start, data["length"], now=request.now, policy=request.lab.policy, zone=request.lab.zone)
    except NoSuchLocalTime as problem:
        return _page(request, values, reasons=refused.reasons(forms.clock_refusal(problem, "start")), status=422)
    except ValueError as problem:
        return _page(request, values, errors={"start": [str(problem)]}, status=422)
    if end is None:
        return _page(request, values, errors={"end": [_("There is no such length. Choose one of the buttons.")]}, status=422)
    times = {"start": forms.local_text(start) if start else "", "end": forms.local_text(end)}
    return _page(request, times, pressed=data["length"])


def _typed(form: forms.BookingForm) -> dict[str, str]:
    """Start and end as the fields show them again: by the lab's clock, or as typed where they could not be read."""
    return {
        name: forms.local_text(form.instants[name]) if name in form.instants else str(form.data.get(name, ""))[:40]
        for name in ("start", "end")
    }


def _page(
    request: HttpRequest, times: Mapping[str, str], *, form: forms.BookingForm | None = None,
    reasons: tuple[refused.Reason, ...] = (), errors: Mapping[str, list[str]] | None = None, status: int = 200,
    fresh_key: bool = False, pressed: str = "", others: tuple[refused.Instead, ...] = (), may_ask: bool = False,
    wait: str = "", data: QueryDict | None = None, questions: tuple[str, ...] = (),
) -> HttpResponse:
    if data is None:
        data = form.sent if form is not None else request.POST if request.method == "POST" else request.GET
    found = dict(errors or {})
    if form is not None:
        found.update({name: [str(one) for one in problems] for name, problems in form.errors.items()})
    key = data.get("key", "")
    if fresh_key or "key" in found or not key or request.method != "POST" or len(key) > 80:
        key = forms.new_key()
    context = {
        **_choices(request, data), "times": times, "reasons": reasons, "others": others, "errors": found, "key": key,
        "other_errors": [one for name, problems in found.items() if name in ("key", "tier", "project") for one in problems],
        "note": data.get("note", "")[:200], "memory": data.get("memory", "")[:6], "has_refusals": bool(reasons or found),
        "may_ask": may_ask, "statement": data.get("statement", "")[:2000],
        "now_local": forms.local_text(request.now), "wait": wait, "questions": questions,
        "said": request.GET.get("say", "")[: say.LONGEST],
        # The length that was pressed keeps the focus: who uses the keyboard goes on from there.
        "pressed": int(pressed) if pressed else 0,
    }
    template = "reservations/_book_form.html" if request.htmx else "reservations/book.html"
    return render(request, template, context, status=status)


def _choices(request: HttpRequest, data: QueryDict) -> dict[str, Any]:
    gpus = queries.fleet()
    ticked = set(forms.card_ids(data))
    holds = cardlook.holds([gpu.pk for gpu in gpus], request.now)
    hosts: dict[str, list[Choice]] = {}
    for gpu in gpus:
        hosts.setdefault(gpu.host.name, []).append(
            Choice(cardlook.look(gpu, request.now, holds[gpu.pk]), holds[gpu.pk], gpu.pk in ticked)
        )
    policy = request.lab.policy
    projects = queries.projects_of(request.user.pk)
    chosen = _chosen_project(data, projects, policy)
    tiers = open_tiers(projects, policy, request)
    tier = data.get("tier") if data.get("tier") in tiers else usual_tier(tiers, chosen, policy)
    purpose = data.get("purpose") if data.get("purpose") in Reservation.Purpose.values else Reservation.Purpose.TRAINING
    return {
        "hosts": hosts,
        "tiers": [(code, labels.TIER.get(code, code), labels.TIER_LETTER.get(code, ""), code == tier) for code in tiers],
        "purposes": [(code, labels.PURPOSE[code], code == purpose) for code in Reservation.Purpose],
        "lengths": [hours for hours in LENGTHS if hours * 3600 <= policy.longest_s],
        "balances": [
            (
                labels.day(one.week), labels.hours(one.left), labels.hours(one.allowance),
                labels.hours(one.extra) if one.extra else "",
            )
            for one in queries.balances(
                request.user, request.lab, request.now, project=chosen if pays(chosen, policy) else None
            )
        ],
        "projects": [(pk, name, pk == chosen) for pk, name in projects.items()], "chosen": chosen,
        "balance_of": projects.get(chosen, "") if pays(chosen, policy) and chosen else "",
        # Who belongs to no project is told what that means before they press.
        "without": "" if projects else str(policy.mode), "free_tiers": [labels.tier(code) for code in policy.free_tiers],
        "may_book_without": policy.mode != Scheduling.PROJECT,
        "most_cards": policy.cards_at_once,
        "displacement": policy.displacement or policy.elastic, "may_move": data.get("may_move", ""),
        "moving_tiers": _(", ").join(str(labels.TIER.get(code, code)) for code in policy.moving_tiers),
        "wishes": {name: bool(data.get(name)) for name in ("release_when_done", "extend_while_free")},
    }


def _chosen_project(data: QueryDict, projects: Mapping[int, str], policy: Policy) -> int | None:
    """The project that the form shows: as sent, else the only one there is where projects pay."""
    sent = data.get("project")
    if sent is not None:
        found = forms.card_ids(data, "project")[0] if sent else None
        return found if found in projects else None
    return next(iter(projects)) if len(projects) == 1 and policy.mode != Scheduling.PERSON else None
