"""Projects: who belongs, what is left of their hours, and their deadline grants, which everybody sees (B5, B6, C2, E5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django import forms as django_forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from .. import labels, queries
from ..forms_projects import (
    DecisionForm,
    GrantForm,
    HoursForm,
    MemberChoice,
    ProjectChangeForm,
    ProjectForm,
    RevokeForm,
)
from ..models import DeadlineGrant, HourGrant, Project
from ..permissions import Action, may
from ..request import LabRequest
from ..rules.refusal import Code, Refused
from ..rules.week import local_date
from ..services import grants as service
from ..services import projects as write
from . import errors
from .access import admin_required, member_required

LARGEST_ID = 2**63 - 1
_FORBIDDEN = {Code.NOT_YOURS, Code.GRANT_PARTY, Code.GRANT_ADVISOR, Code.GRANT_ARBITER, Code.NOT_IN_PROJECT}


@dataclass(frozen=True)
class GrantRow:
    """A deadline grant as pages show it, and what this reader may do with it."""

    grant: DeadlineGrant
    days: str
    deadline: str
    budget: str
    left: str
    state_words: str
    is_live: bool
    may_decide: bool = False
    may_revoke: bool = False
    waits_for: str = ""


@dataclass
class _Bound:
    """The form of a press that was refused, to be shown again with what is wrong."""

    name: str = ""
    form: django_forms.Form | None = None
    refusals: list[errors.Said] = field(default_factory=list)
    status: int = 200
    subject: int | None = None

    def get(self, name: str, fresh: Callable[[], Any]) -> Any:
        return self.form if self.name == name and self.form is not None else fresh()


@require_http_methods(["GET", "HEAD", "POST"])
@member_required
@errors.patient
def projects(request: LabRequest) -> HttpResponse:
    """All projects and the deadline grants in force; admins make projects here."""
    if request.method != "POST":
        return _list(request, _project_form)
    if not may(request.user, Action.ADMINISTER):
        return errors.permission_denied(request)
    form = ProjectForm(request.POST, members=queries.members_in())
    if not form.is_valid():
        return _list(request, lambda: form)
    values = form.cleaned_data
    try:
        made = write.make(
            values["name"], advisor_id=values["advisor"], weekly_hours=values["weekly_hours"], by=request.user, now=request.now
        )
    except Refused as refused:
        return _list(request, lambda: form, errors.said(refused))
    messages.success(request, _("The project is there. Add its members now."))
    return _to("project", made.pk)


def _project_form() -> ProjectForm:
    return ProjectForm(members=queries.members_in())


def _list(request: LabRequest, form: Callable[[], ProjectForm], refusals: list[errors.Said] | None = None) -> HttpResponse:
    administers = may(request.user, Action.ADMINISTER)
    shown = form() if administers else None
    rows = [
        {"project": one, "members": [row.member for row in one.members.all()], "mine": _belongs(request, one)}
        for one in queries.projects_listed()
    ]
    context = {
        "rows": rows, "form": shown, "refusals": refusals or [],
        "grants": _grant_rows(request, queries.grants_in_force(request.lab, request.now)), "mode": request.lab.policy.mode,
    }
    return render(request, "projects/list.html", context, status=422 if refusals or (shown and shown.is_bound) else 200)


def _belongs(request: LabRequest, project: Project) -> bool:
    return project.advisor_id == request.user.pk or any(row.member_id == request.user.pk for row in project.members.all())


@require_safe
@member_required
def project(request: LabRequest, pk: int) -> HttpResponse:
    """One project."""
    return _one(request, _found(pk), _Bound())


def _found(pk: int) -> Project:
    found = queries.project_detail(pk) if pk <= LARGEST_ID else None
    if found is None:
        raise Http404
    return found


def _one(request: LabRequest, one: Project, bound: _Bound) -> HttpResponse:
    user, policy = request.user, request.lab.policy
    administers, leads = may(user, Action.ADMINISTER), may(user, Action.LEAD, one)
    people = queries.members_in() if administers or leads else []
    inside = {row.member_id for row in one.members.all()}
    today = local_date(request.now, request.lab.zone)
    grants = queries.grants_of(one.pk)
    context = {
        "project": one, "bound": bound, "refusals": bound.refusals, "leads": leads, "administers": administers,
        "members": [row.member for row in one.members.all()], "belongs": _belongs(request, one),
        "weeks": [
            (labels.day(week.week), labels.hours(week.left), labels.hours(week.allowance))
            for week in queries.balances(user, request.lab, request.now, project=one.pk)
        ],
        "hours": hour_rows(queries.hour_grants(request.now, project=one.pk)),
        "grants": _grant_rows(request, grants, bound), "share": policy.project_share,
        "change_form": administers and bound.get("change", lambda: ProjectChangeForm(
            members=people if one.advisor in people else [one.advisor, *people], initial={
                "name": one.name, "advisor": one.advisor_id, "weekly_hours": one.weekly_hours, "is_open": one.closed_at is None,
            },
        )),
        "member_form": leads and bound.get(
            "member", lambda: MemberChoice(members=[row for row in people if row.pk not in inside])
        ),
        "hours_form": administers and bound.get("hours", lambda: HoursForm(auto_id="hours_%s")),
        "grant_form": one.closed_at is None and may(user, Action.REQUEST, one) and bound.get(
            "grant", lambda: GrantForm(auto_id="grant_%s", initial={"first_day": today})
        ),
        "grant_days": policy.grant_days,
    }
    return render(request, "projects/project.html", context, status=bound.status)


def hour_rows(rows: list[HourGrant]) -> list[dict[str, Any]]:
    """One-off hours as pages show them."""
    return [
        {
            "hours": labels.hours(row.units), "until": row.ends_at, "reason": row.reason, "by": row.given_by,
            "returned": row.code == HourGrant.Code.RETURNED,
        }
        for row in rows
    ]


def _grant_rows(request: LabRequest, rows: list[DeadlineGrant], bound: _Bound | None = None) -> list[GrantRow]:
    used = queries.grant_used([row.pk for row in rows])
    waiting = [
        row for row in rows
        if row.state == DeadlineGrant.State.REQUESTED and not service.is_over(row, request.lab, request.now)
    ]
    deciders = service.deciders_of(waiting, request.lab, request.now) if waiting else {}
    found = []
    for row in rows:
        over = service.is_over(row, request.lab, request.now)
        waits = row in waiting
        who = deciders.get(row.pk, [])
        live = row.state == DeadlineGrant.State.GRANTED and not over
        found.append(
            GrantRow(
                row, _("%(start)s to %(end)s") % {"start": labels.day(row.first_day), "end": labels.day(row.last_day)},
                labels.day(row.deadline), labels.card_hours(row.budget), labels.card_hours(max(row.budget - used[row.pk], 0)),
                str(labels.GRANT_STATE["over" if row.state == DeadlineGrant.State.GRANTED and over else row.state]), live,
                may_decide=request.user.pk in [one.pk for one in who],
                may_revoke=(live or waits) and may(request.user, Action.REVOKE, row),
                waits_for=labels.join(str(one) for one in who) if waits else "",
            )
        )
    return found


# --- presses ----------------------------------------------------------------------------------------------------------


def _press(
    request: LabRequest, one: Project, name: str, form: django_forms.Form, act: Callable[[dict[str, Any]], object], done: str,
    *, subject: int | None = None,
) -> HttpResponse:
    """One press on a project's page: does it, or says on the same page why not."""
    bound = _Bound(name, form, status=422, subject=subject)
    if not form.is_valid():
        return _one(request, one, bound)
    try:
        act(form.cleaned_data)
    except Refused as refused:
        if _FORBIDDEN & set(refused.codes):
            return errors.permission_denied(request)
        bound.refusals = errors.said(refused)
        return _one(request, one, bound)
    messages.success(request, done)
    return _to("project", one.pk)


@require_POST
@admin_required
@errors.patient
def change(request: LabRequest, pk: int) -> HttpResponse:
    """Name, advisor, allowance; closing and reopening."""
    one = _found(pk)
    people = queries.members_in()
    form = ProjectChangeForm(request.POST, members=people if one.advisor in people else [one.advisor, *people])
    return _press(
        request, one, "change", form,
        lambda values: write.change(
            pk, name=values["name"], advisor_id=values["advisor"], weekly_hours=values["weekly_hours"],
            is_open=values["is_open"], by=request.user, now=request.now,
        ),
        _("Saved."),
    )


@require_POST
@member_required
@errors.patient
def member_add(request: LabRequest, pk: int) -> HttpResponse:
    """Lets a member book for the project."""
    one = _found(pk)
    if not may(request.user, Action.LEAD, one):
        return errors.permission_denied(request)
    form = MemberChoice(request.POST, members=queries.members_in())
    return _press(
        request, one, "member", form,
        lambda values: write.add_member(pk, values["member"], by=request.user, now=request.now), _("Added."),
    )


@require_POST
@member_required
@errors.patient
def member_remove(request: LabRequest, pk: int, member_pk: int) -> HttpResponse:
    """Takes a member out of the project."""
    one = _found(pk)
    if not may(request.user, Action.LEAD, one):
        return errors.permission_denied(request)
    if member_pk <= LARGEST_ID:
        write.remove_member(pk, member_pk, by=request.user, now=request.now)
    messages.success(request, _("Removed. What they have booked stays."))
    return _to("project", pk)


@require_POST
@admin_required
@errors.patient
def hours(request: LabRequest, pk: int) -> HttpResponse:
    """Gives the project hours once."""
    one = _found(pk)
    return _press(
        request, one, "hours", HoursForm(request.POST, auto_id="hours_%s"),
        lambda values: write.give_hours(project_id=pk, by=request.user, now=request.now, **values), _("Given."),
    )


@require_POST
@member_required
@errors.patient
def grant_request(request: LabRequest, pk: int) -> HttpResponse:
    """Asks for a deadline grant."""
    one = _found(pk)
    if not may(request.user, Action.REQUEST, one):
        return errors.permission_denied(request)
    return _press(
        request, one, "grant", GrantForm(request.POST, auto_id="grant_%s"),
        lambda values: service.request(pk, by=request.user, now=request.now, **values),
        _("Asked. You are told when it is decided."),
    )


def _grant(pk: int) -> DeadlineGrant:
    found = queries.grant_detail(pk) if pk <= LARGEST_ID else None
    if found is None:
        raise Http404
    return found


@require_POST
@member_required
@errors.patient
def grant_decide(request: LabRequest, pk: int) -> HttpResponse:
    """Grants or declines a request."""
    found = _grant(pk)
    return _press(
        request, _found(found.project_id), "decide", DecisionForm(request.POST, auto_id=f"decide{pk}_%s"),
        lambda values: service.decide(
            pk, values["outcome"] == "granted", values["reason"], by=request.user, now=request.now
        ),
        _("Decided. Who asked is told."), subject=pk,
    )


@require_POST
@member_required
@errors.patient
def grant_revoke(request: LabRequest, pk: int) -> HttpResponse:
    """Ends a grant, or takes a request back."""
    found = _grant(pk)
    if not may(request.user, Action.REVOKE, found):
        return errors.permission_denied(request)
    return _press(
        request, _found(found.project_id), "revoke", RevokeForm(request.POST, auto_id=f"revoke{pk}_%s"),
        lambda values: service.revoke(pk, values["reason"], by=request.user, now=request.now),
        _("Ended. Whose reservations it changes is told."), subject=pk,
    )


def _to(name: str, *args: int) -> HttpResponse:
    response = redirect(name, *args)
    response.status_code = 303
    return response
