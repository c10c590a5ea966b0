"""Joining by an invite, and the page of those who wait."""

from __future__ import annotations

from allauth.core.ratelimit import consume_or_429
from django.conf import settings
from django.contrib.auth import login
from django.http import HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils import translation
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from .. import labels
from ..forms_people import JoinForm
from ..request import LabRequest
from ..rules.refusal import Code, Refused
from ..services import people
from . import errors
from .access import lead, sign_in_url


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
@errors.patient
def join(request: LabRequest, token: str) -> HttpResponse:
    """The invite's page: whoever holds an open one becomes a member and is signed in.

    Every token that lets nobody in (never given out, used up, expired, revoked) is answered with the same 410.
    """
    if request.method == "POST" and (limited := consume_or_429(request, action="signup")):
        return limited
    if request.user.is_authenticated:
        return render(request, "members/joined_already.html", status=409 if request.method == "POST" else 200)
    invite = people.open_invite(token, request.now)
    if invite is None:
        return _over(request)
    role = labels.ROLE.get(invite.role, invite.role)
    form = JoinForm(request.POST or None, initial={"language": translation.get_language()})
    if request.method == "POST" and form.is_valid():
        values = form.cleaned_data
        try:
            member = people.join(token, now=request.now, **values)
        except Refused as refused:
            if Code.INVITE_OVER in refused.codes:
                return _over(request)
            form.add_error("email", [one.sentence for one in errors.said(refused)])
        else:
            login(request, member, backend=settings.AUTHENTICATION_BACKENDS[0])
            return redirect(settings.LOGIN_REDIRECT_URL)
    return render(
        request, "members/join.html", {"form": form, "role": role, "uses_left": invite.uses_left},
        status=422 if form.is_bound else 200,
    )


def _over(request: LabRequest) -> HttpResponse:
    return render(request, "members/invite_over.html", status=410)


@require_safe
def waiting(request: LabRequest) -> HttpResponse:
    """Says that an admin must approve the account; somebody approved is led on."""
    if not request.user.is_authenticated:
        return lead(request, sign_in_url(request))
    if request.user.is_approved:
        return lead(request, resolve_url(settings.LOGIN_REDIRECT_URL))
    return render(request, "members/waiting.html")
