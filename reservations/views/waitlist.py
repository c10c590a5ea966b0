"""Waiting for cards: the form that joins the waitlist, and leaving it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render, resolve_url
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from .. import forms, forms_waitlist, queries
from ..forms_wanted import GIB
from ..models import Reservation, WaitlistEntry
from ..request import LabRequest
from ..rules.projects import Scheduling
from ..rules.refusal import Code, Refused
from ..services import locking
from ..services import waitlist as service
from ..services.booking import BookingRequest
from . import refused
from .access import lead, member_required
from .tiers import open_tiers, usual_tier

_LARGEST_ID = 2**63 - 1
# What waiting can mend: somebody else has the cards, or goes first.
WAITABLE = {Code.CARD_TAKEN, Code.NOT_ENOUGH_CARDS, Code.CARD_OFFERED, Code.WAITLIST_FIRST, Code.NOT_RENEWED}


@require_http_methods(["GET", "HEAD", "POST"])
@member_required
def waitlist(request: HttpRequest) -> HttpResponse:
    """GET shows the form (filled in from the address, as `instead` makes it), POST joins."""
    if request.method != "POST":
        return _page(request, _form(request, initial=_given(request)))
    form = _form(request, request.POST)
    if not form.is_valid() or form.refusals:
        return _page(request, form, refused.reasons(form.refusals), status=422)
    try:
        service.join(request.user, form.wish, now=request.now)
    except Refused as problem:
        return _page(request, form, refused.reasons(problem.refusals), status=refused.status(problem.refusals))
    except locking.Busy:
        return refused.retry(_page(request, form, refused.busy(), status=409))
    messages.success(request, _("You are on the waitlist. You get a message as soon as it is your turn."))
    return lead(request, resolve_url("mine") + "#waiting")


def _form(request: HttpRequest, data: QueryDict | None = None, **kwargs: Any) -> forms_waitlist.WishForm:
    policy, projects = request.lab.policy, queries.projects_of(request.user.pk)
    tiers = open_tiers(projects, policy, request)
    form = forms_waitlist.WishForm(data, lab=request.lab, projects=projects, tiers=tiers, **kwargs)
    only = next(iter(projects)) if len(projects) == 1 and policy.mode != Scheduling.PERSON else None
    form.fields["project"].initial = only
    form.fields["tier"].initial = usual_tier(tiers, only, policy)
    return form


def instead(asked: BookingRequest) -> str:
    """The address of the form with everything that a refused request asked for (K5)."""
    return address(asked, asked.end - (asked.start or timezone.now()), asked.start, asked.end)


def address(asked: BookingRequest, length: timedelta, earliest: datetime | None, latest: datetime) -> str:
    """The address of the form with the cards and the purpose of a request, for that length at any time between."""
    given: list[tuple[str, str]] = [("card", str(card_id)) for card_id in asked.card_ids]
    given += [(name, str(value)) for name, value in _any_cards(asked).items() if value]
    given += [("start", earliest.isoformat())] if earliest else []
    given += [
        ("end", latest.isoformat()), ("hours", f"{max(length.total_seconds() / 3600, 0.25):.2f}"), ("tier", asked.tier),
        ("purpose", asked.purpose), ("project", str(asked.project_id or "")),
    ]
    return resolve_url("waitlist") + "?" + urlencode(given)


def _any_cards(asked: BookingRequest) -> dict[str, Any]:
    """What the form's fields say of a request for any cards that fit."""
    if asked.card_ids:
        return {}
    return {
        "count": asked.count, "pool": asked.pool_id, "model": asked.model, "min_memory": (asked.min_memory or 0) // GIB,
        "several_hosts": "on" if asked.several_hosts else "",
    }


def _given(request: HttpRequest) -> dict[str, Any]:
    """What the address fills in; what cannot be read is left as it is, for the reader to choose."""
    data: QueryDict = request.GET
    given: dict[str, Any] = {"card": [str(one) for one in forms.card_ids(data) if one]}
    for name in ("start", "end"):
        try:
            instant = forms.read_instant(data.get(name, ""), request.lab.zone)
            given[name] = forms.local_text(instant)
        except ValueError:
            given[name] = ""
    try:
        given["hours"] = min(max(round(float(data.get("hours", "4")) * 4 + 0.49) / 4, 0.25), 1000)
    except (ValueError, OverflowError):
        given["hours"] = 4
    for name in ("count", "pool", "model", "min_memory", "project"):
        if name in data:
            given[name] = data[name][:200]
    given["several_hosts"] = bool(data.get("several_hosts"))
    if data.get("tier") in request.lab.policy.tiers:
        given["tier"] = data["tier"]
    if data.get("purpose") in Reservation.Purpose.values:
        given["purpose"] = data["purpose"]
    return given


def _page(
    request: HttpRequest, form: forms_waitlist.WishForm, reasons: tuple[refused.Reason, ...] = (), status: int = 200
) -> HttpResponse:
    days = request.lab.policy.fair_share_s // 86_400
    return render(request, "reservations/waitlist.html", {"form": form, "refusals": reasons, "days": days}, status=status)


@require_POST
@member_required
def leave(request: LabRequest, pk: int) -> HttpResponse:
    """Takes a wish off the waitlist. What is missing and what is not the reader's look alike."""
    if pk > _LARGEST_ID or not WaitlistEntry.objects.filter(pk=pk, member=request.user).exists():
        raise Http404
    try:
        service.leave(pk, by=request.user, now=request.now)
    except Refused as problem:
        messages.warning(request, refused.reasons(problem.refusals)[0].sentence)
    except locking.Busy:
        messages.warning(request, refused.busy()[0].sentence)
    else:
        messages.success(request, _("It is off the waitlist."))
    return lead(request, resolve_url("mine"))
