"""From an empty installation to a lab: the one-time set-up page, the demonstration, and the page before both."""

from __future__ import annotations

from urllib.parse import urlsplit
from zoneinfo import available_timezones

from django.conf import settings
from django.contrib.auth import login
from django.http import HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from .. import queries
from ..forms_people import SetUpForm
from ..request import LabRequest
from ..rules.refusal import Refused
from ..services import people
from ..services import setup as service
from . import errors
from .access import admin_required, lead


@never_cache
@require_safe
def welcome(request: LabRequest) -> HttpResponse:
    """What an installation shows before it is set up."""
    if request.lab.is_set_up:
        return lead(request, resolve_url(settings.LOGIN_REDIRECT_URL))
    return render(request, "setup/welcome.html")


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
@errors.patient
def setup(request: LabRequest, token: str) -> HttpResponse:
    """The page behind the one-time link: names the lab, makes its first admin and signs them in."""
    if not service.is_valid(token, request.now):
        return _gone(request)
    form = SetUpForm(request.POST or None, initial={"language": translation.get_language(), "zone": str(request.lab.zone)})
    if request.method == "POST" and form.is_valid():
        try:
            admin = people.found(
                is_valid=lambda: service.is_valid(token, request.now), now=request.now, **form.cleaned_data
            )
        except Refused as refused:
            form.add_error("email", [one.sentence for one in errors.said(refused)])
        else:
            if admin is None:
                return _gone(request)
            service.close()
            login(request, admin, backend=settings.AUTHENTICATION_BACKENDS[0])
            return redirect("hosts")
    zones = sorted(zone for zone in available_timezones() if "/" in zone and not zone.startswith(("Etc/", "posix/", "right/")))
    return render(
        request, "setup/setup.html", {"form": form, "token": token, "zones": zones, "may_load_demo": _is_empty(request)},
        status=422 if form.is_bound else 200,
    )


@never_cache
@require_POST
@errors.patient
def demo_load(request: LabRequest) -> HttpResponse:
    """Loads the demonstration lab, for the bearer of the set-up link; signs its admin in and shows how others get in."""
    token = request.POST.get("token", "")
    if not service.is_valid(token, request.now):
        return _gone(request)
    from ..services import demo

    try:
        access = demo.load(now=request.now)
    except demo.NotDemo:
        return errors.page(
            request, "409.html", 409,
            sentence=_("This installation holds a lab already. Start the demonstration in a data folder of its own."),
        )
    service.close()
    login(request, access.admin, backend=settings.AUTHENTICATION_BACKENDS[0])
    return render(request, "setup/demo.html", {"access": access})


@never_cache
@require_POST
@admin_required
@errors.patient
def demo_wipe(request: LabRequest) -> HttpResponse:
    """Empties a demonstration and goes on to set up the real lab: whoever wiped it was its admin, so the link is theirs."""
    from ..services import demo

    if not request.lab.simulated:
        return errors.page(
            request, "409.html", 409, sentence=_("This is a real lab: only a demonstration can be wiped. Nothing was changed.")
        )
    demo.wipe()
    request.session.flush()
    link = service.link(request.now)
    response = redirect(urlsplit(link).path if link else "welcome")
    response.status_code = 303
    return response


def _is_empty(request: LabRequest) -> bool:
    """Whether nothing real is here yet: the demonstration never stands beside real cards."""
    return not request.lab.is_set_up and not queries.hosts_named()


def _gone(request: LabRequest) -> HttpResponse:
    return render(request, "setup/gone.html", status=404)
