"""Disputes and their rulings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from .. import evidence, labels, permissions, queries
from ..forms_people import DisputeForm, RulingForm, SideForm
from ..models import Case, Demerit, Ruling
from ..permissions import Action
from ..request import LabRequest
from ..rules.refusal import Code, Refused, refuse
from ..rules.waivers import Waiver, would_help
from ..services import arbitration, booking, cleanup, conduct, exceptions
from . import cardlook, errors
from . import refused as refused_views
from .access import member_required

_STATUS = {
    Code.PARTY: 403, Code.NOT_ARBITER: 403, Code.STALE: 409, Code.CASE_DECIDED: 409, Code.ALREADY_DISPUTED: 409,
    Code.SIDE_STATED: 409,
}


@require_http_methods(["GET", "HEAD", "POST"])
@member_required
@errors.patient
def dispute(request: LabRequest, pk: int) -> HttpResponse:
    """Disputes one's own demerit. Another's and a missing one look alike."""
    demerit = queries.demerit_detail(pk)
    if demerit is None or not permissions.may(request.user, Action.DISPUTE, demerit):
        raise Http404
    case = next(iter(demerit.cases.all()), None)
    if request.method == "POST":
        form = DisputeForm(request.POST)
        if not form.is_valid():
            return _dispute_page(request, demerit, case, form, [], 422)
        try:
            opened = conduct.dispute(pk, form.cleaned_data["statement"], by=request.user, now=request.now)
        except Refused as refused:
            if Code.NOT_YOURS in refused.codes:
                raise Http404 from None
            return _dispute_page(request, demerit, case, form, errors.said(refused), 422)
        messages.success(request, _("Your dispute is with the arbiters. Until they decide, the demerit rests."))
        return _to_case(opened.pk)
    over = request.now >= _last_moment(request, demerit)
    reasons = errors.said(refuse(Code.DISPUTE_OVER, days=request.lab.policy.dispute_s / 86_400)) if over and not case else []
    return _dispute_page(request, demerit, case, DisputeForm(), reasons, 200)


def _last_moment(request: LabRequest, demerit: Demerit) -> datetime:
    return demerit.issued_at + timedelta(seconds=request.lab.policy.dispute_s)


def _dispute_page(
    request: LabRequest, demerit: Demerit, case: Case | None, form: DisputeForm, refusals: list[errors.Said], status: int
) -> HttpResponse:
    until = _last_moment(request, demerit)
    context = {
        "demerit": _shown(demerit), "case": case, "form": form, "refusals": refusals, "until": labels.instant(until),
        "is_open": case is None and request.now < until,
    }
    return render(request, "arbitration/dispute.html", context, status=status)


@require_safe
@member_required
def cases(request: LabRequest) -> HttpResponse:
    """For arbiters: what waits for a decision, oldest first, and what was decided."""
    if not permissions.may(request.user, Action.SEE_CASES):
        raise Http404
    open_ones = [
        {
            "case": case, "kind": labels.CASE_KIND[Case.Kind(case.kind)], "age": _age(case.opened_at, request.now),
            "opened": labels.instant(case.opened_at), "is_party": permissions.is_party(request.user, case),
            "about": _about(case), "opened_by": _opener(case),
        }
        for case in queries.open_cases()
    ]
    decided = []
    for case in queries.decided_cases():
        ruling = _last_ruling(case)
        decided.append(
            {
                "case": case, "kind": labels.CASE_KIND[Case.Kind(case.kind)], "ruling": ruling, "about": _about(case),
                "outcome": labels.outcome_of(case.kind, ruling.outcome) if ruling else "",
                "at": labels.instant(ruling.at) if ruling else "",
            }
        )
    return render(request, "arbitration/cases.html", {"open_cases": open_ones, "decided_cases": decided})


@require_safe
@member_required
def case(request: LabRequest, pk: int) -> HttpResponse:
    """One case for its parties and the arbiters."""
    found = _visible(request, pk)
    form = RulingForm(initial={"version": found.version, "waives": _would_help(request, found)})
    return _case_page(request, found, form, [], 200)


def _would_help(request: LabRequest, found: Case) -> list[str]:
    """What has to be set aside for the request as things are now: ticked beforehand."""
    if found.request is None or found.state != Case.State.OPEN or not permissions.may(request.user, Action.RULE, found):
        return []
    return sorted(would_help(booking.check(found.asker, exceptions.request_of(found), now=request.now)))


@require_POST
@member_required
@errors.patient
def case_rule(request: LabRequest, pk: int) -> HttpResponse:
    """Decides a case."""
    found = _visible(request, pk)
    form = RulingForm(request.POST)
    if not form.is_valid():
        if "outcome" in form.errors or "version" in form.errors:
            return errors.not_understood(request, _("Open the case again and press accept or decline."))
        return _case_page(request, found, form, [], 422)
    values = form.cleaned_data
    try:
        if found.request is not None and values["outcome"] == Ruling.Outcome.ACCEPTED:
            exceptions.grant(
                pk, [Waiver(one) for one in values["waives"]], values["reason"], by=request.user, version=values["version"],
                now=request.now,
            )
        else:
            arbitration.rule(
                pk, Ruling.Outcome(values["outcome"]), values["reason"], by=request.user, version=values["version"],
                now=request.now,
            )
    except Refused as refused:
        if Code.NOT_YOURS in refused.codes:
            raise Http404 from None
        status = max(_STATUS.get(code, 422) for code in refused.codes)
        found = _visible(request, pk)
        kept = RulingForm(
            initial={"reason": values["reason"], "version": found.version, "waives": values["waives"]}
        )
        return _case_page(request, found, kept, errors.said(refused), status)
    messages.success(request, _("Decided. The parties are told, with your reason."))
    return _to_case(pk)


@require_POST
@member_required
@errors.patient
def case_state(request: LabRequest, pk: int) -> HttpResponse:
    """What the person says whom a case is about that nobody opened (F3)."""
    found = _visible(request, pk)
    form = SideForm(request.POST)
    rulings = RulingForm(initial={"version": found.version})
    if not form.is_valid():
        return _case_page(request, found, rulings, [], 422, side=form)
    try:
        cleanup.state_side(pk, form.cleaned_data["statement"], by=request.user, now=request.now)
    except Refused as refused:
        if Code.NOT_YOURS in refused.codes:
            raise Http404 from None
        status = max(_STATUS.get(code, 422) for code in refused.codes)
        return _case_page(request, _visible(request, pk), rulings, errors.said(refused), status, side=form)
    messages.success(request, _("The arbiters read it with the case."))
    return _to_case(pk)


def _visible(request: LabRequest, pk: int) -> Case:
    found = queries.case_detail(pk)
    if found is None or not permissions.may(request.user, Action.SEE_CASE, found):
        raise Http404
    return found


def _case_page(
    request: LabRequest, found: Case, form: RulingForm, refusals: list[errors.Said], status: int, *, side: SideForm | None = None
) -> HttpResponse:
    is_arbiter = request.user.is_arbiter
    is_party = permissions.is_party(request.user, found)
    is_open = found.state == Case.State.OPEN
    standing = ""
    about = found.demerit.member if found.demerit is not None else found.concerns
    if is_arbiter and about is not None:
        points = queries.open_demerit_points(about, request.now)
        standing = ngettext("%(n)d point counts now.", "%(n)d points count now.", points) % {"n": points}
    context = {
        "case": found, "kind": labels.CASE_KIND[Case.Kind(found.kind)], "state": labels.CASE_STATE[Case.State(found.state)],
        "asked": _asked(request, found), "opened": labels.instant(found.opened_at),
        "demerit": _shown(found.demerit) if found.demerit else None,
        "cleanup": evidence.in_words(found.evidence) if found.kind == Case.Kind.CLEANUP else None,
        "may_state": is_open and not found.statement and permissions.may(request.user, Action.STATE_SIDE, found),
        "side": side or SideForm(),
        "history": _history(found), "standing": standing, "form": form, "refusals": refusals, "is_open": is_open,
        "may_rule": is_open and permissions.may(request.user, Action.RULE, found),
        "waits_for_others": is_open and is_arbiter and is_party, "see_list": permissions.may(request.user, Action.SEE_CASES),
        "waits": is_open and not is_arbiter,
    }
    return render(request, "arbitration/case.html", context, status=status)


@dataclass(frozen=True)
class Asked:
    """What a request asks for, and why the law refuses it as things are now."""

    cards: str
    period: str
    tier: str
    refusals: tuple[refused_views.Reason, ...]


def _asked(request: LabRequest, found: Case) -> Asked | None:
    if found.request is None:
        return None
    wanted = exceptions.request_of(found)
    start = wanted.start or request.now
    against = booking.check(found.asker, wanted, now=request.now) if found.state == Case.State.OPEN else []
    return Asked(
        cardlook.wanted_words(wanted), cardlook.period_words(start, max(wanted.end, start)),
        str(labels.TIER.get(wanted.tier, wanted.tier)),
        refused_views.reasons(replace(one, alternative=None) for one in against),
    )


@dataclass(frozen=True)
class ShownDemerit:
    """A demerit as pages show it."""

    demerit: Demerit
    reason: str
    state: str
    issued: str
    expires: str
    points: str
    period: str
    evidence: evidence.Evidence


def _shown(demerit: Demerit) -> ShownDemerit:
    reservation = demerit.reservation
    return ShownDemerit(
        demerit=demerit,
        reason=str(labels.DEMERIT_REASON[Demerit.Reason(demerit.reason)]),
        state=str(labels.DEMERIT_STATE[Demerit.State(demerit.state)]),
        issued=labels.instant(demerit.issued_at),
        expires=labels.instant(demerit.expires_at),
        points=ngettext("%(n)d point", "%(n)d points", demerit.points) % {"n": demerit.points},
        period=_("%(start)s to %(end)s")
        % {"start": labels.instant(reservation.start), "end": labels.instant(reservation.ended_at or reservation.end)},
        evidence=evidence.in_words(demerit.evidence),
    )


@dataclass(frozen=True)
class Event:
    """One line of a case's history."""

    at: datetime
    when: str
    text: str
    body: str = ""


def _history(found: Case) -> list[Event]:
    events = [Event(found.opened_at, labels.instant(found.opened_at), _opened(found))]
    if found.demerit is not None:
        at = found.demerit.issued_at
        events.append(Event(at, labels.instant(at), _("The demerit was issued, with its evidence.")))
    for ruling in found.rulings.all():
        text = _ruled(found, ruling)
        events.append(Event(ruling.at, labels.instant(ruling.at), text % {"name": ruling.arbiter.name}, ruling.reason))
    return sorted(events, key=lambda event: event.at)


def _opened(found: Case) -> str:
    if found.kind == Case.Kind.CLEANUP:
        return _("LabGPU opened the case in the weekly clean-up.")
    name = {"name": found.asker.name}
    if found.request is None:
        return _("%(name)s opened the dispute; the demerit rests.") % name
    return _("%(name)s asked the arbiters.") % name


def _opener(found: Case) -> str:
    return found.opened_by.name if found.opened_by is not None else "LabGPU"


def _ruled(found: Case, ruling: Ruling) -> str:
    accepted = ruling.outcome == Ruling.Outcome.ACCEPTED
    if found.kind == Case.Kind.CLEANUP:
        return _("%(name)s found: it was against the rule.") if accepted else _("%(name)s found: nothing against it.")
    if found.request is None:
        if accepted:
            return _("%(name)s accepted the dispute: the demerit is void.")
        return _("%(name)s declined the dispute: the demerit counts.")
    return _("%(name)s granted it: it is booked.") if accepted else _("%(name)s declined it.")


def _last_ruling(found: Case) -> Ruling | None:
    rulings = list(found.rulings.all())
    return rulings[-1] if rulings else None


def _about(found: Case) -> str:
    if found.kind == Case.Kind.CLEANUP:
        cards = evidence.in_words(found.evidence).cards
        return f"{found.concerns.name} · {cards}" if found.concerns else _("owners in doubt: %(cards)s") % {"cards": cards}
    if found.demerit is None:
        return _wish(found) if found.request else ""
    reason = labels.DEMERIT_REASON[Demerit.Reason(found.demerit.reason)]
    return ngettext("%(reason)s, %(n)d point", "%(reason)s, %(n)d points", found.demerit.points) % {
        "reason": reason, "n": found.demerit.points,
    }


def _wish(found: Case) -> str:
    wanted = exceptions.request_of(found)
    start = wanted.start or found.opened_at
    return f"{cardlook.count_words(wanted)} · {cardlook.period_words(start, max(wanted.end, start))}"


def _age(since: datetime, now: datetime) -> str:
    hours = int(max((now - since).total_seconds(), 0) // 3600)
    if hours < 48:
        return ngettext("%(n)d hour", "%(n)d hours", hours) % {"n": hours}
    return ngettext("%(n)d day", "%(n)d days", hours // 24) % {"n": hours // 24}


def _to_case(pk: int) -> HttpResponse:
    response = redirect("case", pk)
    response.status_code = 303
    return response
