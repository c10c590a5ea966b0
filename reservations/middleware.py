"""Per request: the lab's facts and zone, one instant called now, and the reader's language."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.utils import timezone, translation

from . import names, queries
from .services import locking
from .views import errors

# What asks of the lab nothing: answered before the database is read.
_BARE = (settings.STATIC_URL, "/health")


class LabMiddleware:
    """Gives each request `lab` (`queries.LabFacts`) and `now`; pages are drawn in the lab's zone.

    Language: the member's choice, then this browser's choice (cookie), then the browser's header, then the lab's.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        self.languages = dict(settings.LANGUAGES)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.now = timezone.now()
        if request.path.startswith(_BARE):
            return self.get_response(request)
        request.lab = queries.lab_facts()
        timezone.activate(request.lab.zone)
        self._choose_language(request)
        try:
            with names.shown_as(request.lab.show_names):
                response = self.get_response(request)
            response.headers.setdefault("Content-Language", translation.get_language() or "")
            # What a page shows depends on who asks: no shared cache may keep it.
            response.headers.setdefault("Cache-Control", "private, no-cache")
            return response
        finally:
            timezone.deactivate()

    def process_exception(self, request: HttpRequest, problem: Exception) -> HttpResponse | None:
        """Answers a write that came too late to the lock of another as busy: a service that takes no lock of its own (an
        invite, a host, signing out) waits as long, and nothing was written."""
        is_busy = isinstance(problem, OperationalError) and locking.is_busy(problem)
        return errors.busy(request) if is_busy and hasattr(request, "lab") else None

    def _choose_language(self, request: HttpRequest) -> None:
        chosen = request.user.language if request.user.is_authenticated else ""
        if not chosen and settings.LANGUAGE_COOKIE_NAME not in request.COOKIES and not _header_names(request):
            chosen = request.lab.language
        if chosen in self.languages and chosen != request.LANGUAGE_CODE:
            translation.activate(chosen)
            request.LANGUAGE_CODE = chosen


def _header_names(request: HttpRequest) -> bool:
    """Whether the browser's header asks for a language that LabGPU speaks."""
    accepted = request.headers.get("Accept-Language", "").lower()
    return any(part.split(";")[0].strip().startswith(("zh", "en")) for part in accepted.split(","))
