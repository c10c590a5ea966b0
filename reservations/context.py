"""What every template may use."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from . import permissions


def lab(request: HttpRequest) -> dict[str, Any]:
    """`lab`, `now`, the languages, and what the signed-in member may reach from the menu."""
    member = getattr(request, "user", None)
    signed_in = member is not None and member.is_authenticated
    match = getattr(request, "resolver_match", None)  # none where no address of ours was met
    return {
        "here": match.url_name if match else "",
        "lab": getattr(request, "lab", None),
        "now": getattr(request, "now", None),
        "languages": settings.LANGUAGES,
        "may_see_cases": signed_in and permissions.may(member, permissions.Action.SEE_CASES),
        "may_administer": signed_in and permissions.may(member, permissions.Action.ADMINISTER),
        "may_book": signed_in and permissions.may(member, permissions.Action.BOOK),
    }
