"""Collaborators of a reservation: the holder asks and takes away, whoever is asked answers (B4)."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import resolve_url
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from .. import forms, queries
from ..models import Reservation
from ..request import LabRequest
from ..rules.refusal import Code, Refused
from ..services import collaborators, locking
from . import refused
from .access import lead, member_required
from .reservation import show

LARGEST_ID = 2**63 - 1


@require_POST
@member_required
def invite(request: LabRequest, pk: int) -> HttpResponse:
    """Asks a member to work on the same cards."""
    found = _found(pk)
    member_id = forms.card_ids(request.POST, "member")  # an id as sent; nonsense stands as 0, which nobody is
    return _act(
        request, found,
        lambda: collaborators.invite(pk, member_id[0] if member_id else 0, by=request.user, now=request.now),
        _("Asked. They answer on the page of this reservation."),
    )


@require_POST
@member_required
def remove(request: LabRequest, pk: int, member_pk: int) -> HttpResponse:
    """Takes a collaborator, or an invitation, away."""
    found = _found(pk)
    wanted = member_pk if member_pk <= LARGEST_ID else 0
    return _act(
        request, found, lambda: collaborators.remove(pk, wanted, by=request.user, now=request.now), _("Removed.")
    )


@require_POST
@member_required
def answer(request: LabRequest, pk: int) -> HttpResponse:
    """Accepts (`answer` yes) or declines an invitation; a collaborator leaves by declining."""
    found = _found(pk)
    if request.POST.get("answer") == "yes":
        return _act(
            request, found, lambda: collaborators.accept(pk, by=request.user, now=request.now),
            _("Accepted. Your processes on these cards count as the holder's from now on."),
        )
    return _act(
        request, found, lambda: collaborators.decline(pk, by=request.user, now=request.now), _("Declined.")
    )


def _found(pk: int) -> Reservation:
    found = queries.reservation_detail(pk) if pk <= LARGEST_ID else None
    if found is None:
        raise Http404
    return found


def _act(request: LabRequest, found: Reservation, write: Callable[[], object], done: str) -> HttpResponse:
    try:
        write()
    except Refused as problem:
        if {Code.NOT_YOURS, Code.NOT_INVITED} & set(problem.codes):
            raise Http404 from None
        return show(
            request, _found(found.pk), reasons=refused.reasons(problem.refusals), status=refused.status(problem.refusals)
        )
    except locking.Busy:
        return refused.retry(show(request, found, reasons=refused.busy(), status=409))
    messages.success(request, done)
    if request.htmx:
        return show(request, _found(found.pk), changed=True)
    return lead(request, resolve_url("reservation", found.pk))
