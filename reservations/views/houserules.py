"""The house rules: the law with the lab's numbers, and the lab's own text, read and accepted by everybody who books (B2)."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from .. import queries
from ..forms_projects import RulesForm
from ..permissions import Action, may
from ..request import LabRequest
from ..rules.refusal import Refused
from ..services import houserules
from . import errors, rulesheet
from .access import admin_required, member_required


@require_http_methods(["GET", "HEAD", "POST"])
@member_required
@errors.patient
def house_rules(request: LabRequest) -> HttpResponse:
    """Shows them; POST accepts the version that was shown."""
    if request.method != "POST":
        return _show(request)
    sent = request.POST.get("version", "")
    version = int(sent) if sent.isascii() and sent.isdigit() and len(sent) < 9 else -1
    try:
        houserules.accept(version, by=request.user, now=request.now)
    except Refused as refused:
        return _show(request, refusals=errors.said(refused), status=409)
    messages.success(request, _("Accepted. You can book now."))
    return _back("book")


@require_POST
@admin_required
@errors.patient
def house_rules_text(request: LabRequest) -> HttpResponse:
    """Puts a new text in force."""
    form = RulesForm(request.POST)
    if not form.is_valid():
        return _show(request, form=form, status=422)
    houserules.write(form.cleaned_data["text"], by=request.user, now=request.now)
    messages.success(request, _("Saved."))
    return _back("house-rules")


def _show(
    request: LabRequest, *, form: RulesForm | None = None, refusals: list[errors.Said] | None = None, status: int = 200
) -> HttpResponse:
    text = houserules.text()
    context = {
        "five": rulesheet.FIVE, "sections": rulesheet.sheet(request.lab.policy, queries.pools_by_name()),
        "text": text, "version": request.lab.rules_version, "refusals": refusals or [],
        "accepted": request.user.accepted_rules >= request.lab.rules_version,
        "form": (form or RulesForm(initial={"text": text})) if may(request.user, Action.ADMINISTER) else None,
    }
    return render(request, "members/house_rules.html", context, status=status)


def _back(name: str) -> HttpResponse:
    response = redirect(name)
    response.status_code = 303
    return response
