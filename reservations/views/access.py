"""Who comes in: the door before every page of the lab."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme

from .. import permissions
from . import errors


def member_required(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Lets approved members in, once the lab is set up.

    Others are led on: signed out to sign-in (and back here), waiting to the page that says so, inactive ones are signed
    out. A fragment is never answered with another page: htmx is told to lead the whole page there.
    """

    @wraps(view)
    def guarded(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        if not request.lab.is_set_up:
            return lead(request, resolve_url("welcome"))
        if request.user.is_authenticated and not request.user.is_active:
            logout(request)
        if not request.user.is_authenticated:
            return lead(request, sign_in_url(request))
        if not request.user.is_approved:
            return lead(request, resolve_url("waiting"))
        return view(request, *args, **kwargs)

    return guarded


def admin_required(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Lets admins in; to other members the page says that it is theirs."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        if not permissions.may(request.user, permissions.Action.ADMINISTER):
            return errors.permission_denied(request)
        return view(request, *args, **kwargs)

    return member_required(guarded)


def sign_in_url(request: HttpRequest) -> str:
    """Sign-in, and from there back to the page the reader was on."""
    page = request.get_full_path() if request.method == "GET" else ""
    if request.htmx:
        page = request.htmx.current_url_abs_path or ""
    if not url_has_allowed_host_and_scheme(page, allowed_hosts=None):
        page = ""
    return resolve_url(settings.LOGIN_URL) + ("?" + urlencode({"next": page}) if page else "")


def lead(request: HttpRequest, url: str) -> HttpResponse:
    """A redirect of the whole page, for browsers and for htmx alike."""
    if request.htmx:
        return HttpResponse(status=204, headers={"HX-Redirect": url})
    response = redirect(url)
    if request.method != "GET":
        response.status_code = 303
    return response
