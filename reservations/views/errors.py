"""Pages for what went wrong: each says what to do next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.csrf import requires_csrf_token

from .. import labels
from ..rules.refusal import Refused
from ..services.locking import Busy

# Never offered again to be sent with one press: what was typed blindly is typed again.
_SECRET = ("password", "code", "token")


@dataclass(frozen=True)
class Said:
    """A refusal as a page shows it."""

    sentence: str
    rule: str


def said(refused: Refused) -> list[Said]:
    """The sentences of a refusal, in the reader's language."""
    return [Said(labels.sentence(refusal), refusal.rule) for refusal in refused.refusals]


def page(request: HttpRequest, template: str, status: int, **context: object) -> HttpResponse:
    """An error page. Where the lab was not read yet (a wrong host name, for example) it stands in a frame of its own."""
    frame = "base.html" if hasattr(request, "lab") and hasattr(request, "user") else "errors/frame.html"
    return render(request, template, {"frame": frame, **context}, status=status)


@requires_csrf_token
def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return page(request, "400.html", 400, sentence="")


def not_understood(request: HttpRequest, sentence: str) -> HttpResponse:
    """400 with a sentence that says what was wrong."""
    return page(request, "400.html", 400, sentence=sentence)


@requires_csrf_token
def permission_denied(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return page(request, "403.html", 403)


@requires_csrf_token
def page_not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Missing and forbidden look alike: the page says nothing of what was asked for."""
    return page(request, "404.html", 404)


@requires_csrf_token
def too_many_requests(request: HttpRequest) -> HttpResponse:
    response = page(request, "429.html", 429)
    response["Retry-After"] = "60"
    return response


def server_error(request: HttpRequest) -> HttpResponse:
    """Read from its file and sent as it is: whatever broke, this page needs nothing of it."""
    text = (Path(settings.BASE_DIR) / "templates" / "500.html").read_text(encoding="utf-8")
    return HttpResponse(text, status=500)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """The form's page was older than the sign-in. What was typed is kept, and one press sends it again.

    Only a form of our own pages is offered again (the browser says where it came from), never a password or code, and the
    page names who is signed in now: nothing is done in another person's name unseen.
    """
    ours = request.headers.get("Sec-Fetch-Site") == "same-origin"
    kept = []
    if ours:
        kept = [
            (name, value)
            for name, values in request.POST.lists()
            for value in values
            if name != "csrfmiddlewaretoken" and not any(word in name.lower() for word in _SECRET)
        ]
        ours = len(kept) >= len([name for name in request.POST if name != "csrfmiddlewaretoken"])
    response = page(
        request, "403_csrf.html", 403, action=request.get_full_path() if ours else "", kept=kept if ours else [],
        back=request.path if request.method == "POST" else "/",
    )
    if request.headers.get("HX-Request"):
        response["HX-Retarget"] = "body"
        response["HX-Reswap"] = "innerHTML"
    return response


def busy(request: HttpRequest, retry_after: int = Busy.retry_after) -> HttpResponse:
    """409: others were writing; nothing was written here."""
    response = page(
        request, "409.html", 409, sentence=_("Many people press at this moment. Nothing was written; try again in a few seconds.")
    )
    response["Retry-After"] = str(retry_after)
    return response


def patient(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Answers `Busy` with a page that says to try again."""

    @wraps(view)
    def asked(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except Busy as problem:
            return busy(request, problem.retry_after)

    return asked
