"""The reader's language."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from ..request import LabRequest
from ..services import people
from . import errors

_A_YEAR = 365 * 24 * 3600


@require_POST
def set_language(request: LabRequest) -> HttpResponse:
    """Keeps the language for this browser and, when signed in, for the member; then back to the page, if it is ours."""
    language = request.POST.get("language", "")
    if language not in dict(settings.LANGUAGES):
        return errors.not_understood(request, _("LabGPU does not speak this language. Choose one from the list."))
    if request.user.is_authenticated:
        people.choose_language(request.user, language)
    page = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(page, allowed_hosts={request.get_host()}, require_https=request.is_secure()):
        page = "/"
    response = redirect(page)
    response.status_code = 303
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME, language, max_age=_A_YEAR, secure=settings.SESSION_COOKIE_SECURE, httponly=True,
        samesite="Lax",
    )
    return response
