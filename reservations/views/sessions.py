"""Where a member is signed in, and signing out everywhere else."""

from __future__ import annotations

from allauth.usersessions.models import UserSession
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.sessions.models import Session
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from ..request import LabRequest


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def sessions(request: LabRequest) -> HttpResponse:
    """The member's sessions that still live. Ours, not allauth's: that one deletes rows on GET, one query each."""
    mine = UserSession.objects.filter(user=request.user)
    if request.method == "POST":
        others = mine.exclude(session_key=request.session.session_key)
        Session.objects.filter(session_key__in=list(others.values_list("session_key", flat=True))).delete()
        others.delete()
        messages.success(request, _("You are signed out everywhere else."))
        response = redirect("usersessions_list")
        response.status_code = 303
        return response
    alive = set(
        Session.objects.filter(session_key__in=mine.values("session_key"), expire_date__gt=request.now).values_list(
            "session_key", flat=True
        )
    )
    rows = [
        {"session": row, "is_current": row.session_key == request.session.session_key}
        for row in mine.order_by("-created_at")
        if row.session_key in alive
    ]
    return render(request, "usersessions/usersession_list.html", {"rows": rows})
