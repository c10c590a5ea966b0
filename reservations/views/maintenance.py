"""Maintenance, for admins: what it would mean is shown before it is announced."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from .. import forms, labels, queries
from ..forms_people import MaintenanceForm
from ..models import Gpu, Maintenance, Reservation
from ..request import LabRequest
from ..rules.refusal import Code, Refused
from ..rules.week import NoSuchLocalTime
from ..services import locking
from ..services import maintenance as service
from . import cardlook, refused
from .access import admin_required

LONGEST = timedelta(days=366)


@require_http_methods(["GET", "HEAD", "POST"])
@admin_required
def maintenance(request: LabRequest) -> HttpResponse:
    """GET lists what is announced, with the form; POST shows what the form would mean (`do=look`) or announces it."""
    if request.method != "POST":
        return _page(request, MaintenanceForm())
    form = MaintenanceForm(request.POST)
    card_ids = forms.card_ids(request.POST)
    start, end = (_instant(request, form, name) for name in ("start", "end")) if form.is_valid() else (None, None)
    if not form.is_valid() or end is None:
        return _page(request, form, status=422)
    if end - request.now > LONGEST:
        form.add_error("end", _("A maintenance ends within a year. For longer, take the cards out of service."))
        return _page(request, form, status=422)
    urgent, reason = form.cleaned_data["urgent"], form.cleaned_data["reason"]
    try:
        if request.POST.get("do") != "announce":
            shown = service.effect(card_ids, start, end, urgent=urgent, now=request.now)
            return _page(request, form, effect=shown)
        service.announce(
            card_ids, start, end, reason=reason, urgent=urgent, by=request.user, now=request.now,
            seen=str(request.POST.get("seen", ""))[:2000],
        )
    except Refused as problem:
        again = None
        if Code.STALE in problem.codes:  # somebody has booked since it was shown
            again = service.effect(card_ids, start, end, urgent=urgent, now=request.now)
        return _page(
            request, form, effect=again, reasons=refused.reasons(problem.refusals), status=refused.status(problem.refusals)
        )
    except locking.Busy:
        return refused.retry(_page(request, form, reasons=refused.busy(), status=409))
    messages.success(request, _("Announced. Whoever is affected is told."))
    return _to_list()


@require_POST
@admin_required
def maintenance_end(request: LabRequest, pk: int) -> HttpResponse:
    """Ends a maintenance now, or calls it off."""
    try:
        service.end_early(pk, by=request.user, now=request.now)
    except Maintenance.DoesNotExist:
        raise Http404 from None
    except Refused as problem:
        return _page(
            request, MaintenanceForm(), reasons=refused.reasons(problem.refusals), status=refused.status(problem.refusals)
        )
    except locking.Busy:
        return refused.retry(_page(request, MaintenanceForm(), reasons=refused.busy(), status=409))
    messages.success(request, _("Ended. The cards can be booked again."))
    return _to_list()


def _instant(request: LabRequest, form: MaintenanceForm, name: str) -> datetime | None:
    text = str(form.cleaned_data.get(name) or "").strip()
    if not text:
        return None
    try:
        return forms.read_instant(text, request.lab.zone)
    except NoSuchLocalTime as problem:
        code = Code.TIME_TWICE if problem.twice else Code.TIME_SKIPPED
        first, second = problem.readings
        form.add_error(name, labels.sentence(refused.Refusal(code, {"first": first, "second": second})))
    except ValueError as problem:
        form.add_error(name, str(problem))
    return None


def _page(
    request: LabRequest, form: MaintenanceForm, *, effect: service.Effect | None = None,
    reasons: tuple[refused.Reason, ...] = (), status: int = 200,
) -> HttpResponse:
    ticked = set(forms.card_ids(request.POST))
    hosts: dict[str, list[tuple[Gpu, bool]]] = {}
    for gpu in queries.fleet():
        hosts.setdefault(gpu.host.name, []).append((gpu, gpu.pk in ticked))
    context = {
        "form": form, "hosts": hosts, "rows": [_row(one, request.now) for one in queries.maintenance_listed(request.now)],
        "effect": _shown(effect) if effect else None, "reasons": reasons,
    }
    return render(request, "setup/maintenance.html", context, status=status)


def _row(one: Maintenance, now: datetime) -> dict[str, Any]:
    rows = list(one.cards.all())
    return {
        "maintenance": one, "cards": cardlook.cards_words(row.gpu for row in rows),
        "period": cardlook.period_words(one.start, one.end), "begun": one.start <= now,
        "waits": [
            _("%(card)s from %(time)s") % {"card": str(row.gpu), "time": labels.instant(row.start)}
            for row in rows if row.start > one.start
        ],
    }


def _shown(effect: service.Effect) -> dict[str, Any]:
    return {
        "begins": labels.instant(effect.begins), "seen": effect.seen,
        "waited_for": [_line(one) for one in effect.waited_for], "displaced": [_line(one) for one in effect.displaced],
        "interrupted": [_line(one) for one in effect.interrupted], "offers": [_line(one) for one in effect.offers],
    }


def _line(one: Reservation) -> dict[str, Any]:
    return {"pk": one.pk, "holder": str(one.holder), "period": cardlook.period_words(one.start, one.end)}


def _to_list() -> HttpResponse:
    response = redirect("maintenance")
    response.status_code = 303
    return response
