"""The people of the lab, for admins."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from .. import labels, queries
from ..forms_people import AccountForm, InviteForm, MemberForm
from ..forms_projects import HoursForm, LeaveForm
from ..models import Invite, Member
from ..request import LabRequest
from ..rules.refusal import Refused
from ..services import leaving, people, projects
from . import errors
from .access import admin_required
from .projects import hour_rows


@require_safe
@admin_required
def members(request: LabRequest) -> HttpResponse:
    """All members, the open invites, and the mails that wait to be passed on."""
    return _list(request, InviteForm(policy=request.lab.policy, initial={"role": "master"}))


def _list(request: LabRequest, form: InviteForm) -> HttpResponse:
    listed = [
        {"one": one, "member": one.member, "role": labels.ROLE.get(one.member.role, one.member.role)}
        for one in queries.members_listed()
    ]
    invites = [{"invite": row, "role": labels.ROLE.get(row.role, row.role)} for row in queries.open_invites(request.now)]
    context = {
        "listed": listed, "invites": invites, "form": form, "mails_kept": not settings.EMAIL_CONFIGURED,
        "mails": [] if settings.EMAIL_CONFIGURED else queries.kept_mails(),
    }
    return render(request, "members/list.html", context, status=422 if form.is_bound else 200)


@never_cache
@require_POST
@admin_required
def invite(request: LabRequest) -> HttpResponse:
    """Makes an invite and shows its link, this once: only a hash of it is kept."""
    form = InviteForm(request.POST, policy=request.lab.policy)
    if not form.is_valid():
        return _list(request, form)
    token = people.invite(by=request.user, now=request.now, **form.cleaned_data)
    context = {
        "link": settings.SITE_URL + reverse("join", args=[token]), "uses": form.cleaned_data["uses"],
        "days": form.cleaned_data["days"], "role": labels.ROLE.get(form.cleaned_data["role"], form.cleaned_data["role"]),
    }
    return render(request, "members/invite.html", context, status=201)


@require_POST
@admin_required
def invite_revoke(request: LabRequest, pk: int) -> HttpResponse:
    """Ends an invite; ending it twice is the same."""
    try:
        people.revoke(pk, by=request.user, now=request.now)
    except Invite.DoesNotExist:
        raise Http404 from None
    messages.success(request, _("The invite is ended: nobody joins with it any more."))
    return _to("members")


@require_http_methods(["GET", "HEAD", "POST"])
@admin_required
@errors.patient
def member(request: LabRequest, pk: int) -> HttpResponse:
    """One member: role, duties, sign-in, Unix accounts."""
    listed = _listed(pk)
    initial = _initial(listed.member)
    if request.method != "POST":
        return _one(request, listed)
    form = MemberForm(request.POST, policy=request.lab.policy, initial=initial)
    if not form.is_valid():
        return _one(request, listed, form=form)
    try:
        people.change(pk, by=request.user, now=request.now, **form.cleaned_data)
    except Refused as refused:
        return _one(request, listed, form=form, refusals=errors.said(refused))
    messages.success(request, _("Saved."))
    if request.user.pk == pk and not form.cleaned_data["is_admin"]:
        return _to(settings.LOGIN_REDIRECT_URL)  # this page is theirs no more
    return _to("member", pk)


@require_POST
@admin_required
@errors.patient
def member_approve(request: LabRequest, pk: int) -> HttpResponse:
    """Lets somebody who waits take part."""
    try:
        approved = people.approve(pk, by=request.user, now=request.now)
    except Member.DoesNotExist:
        raise Http404 from None
    messages.success(request, _("%(name)s may take part now.") % {"name": approved.name})
    return _to("members")


@require_POST
@admin_required
def account_add(request: LabRequest, pk: int) -> HttpResponse:
    """Says that a Unix account is this member's."""
    listed = _listed(pk)
    form = AccountForm(request.POST, hosts=queries.hosts_named())
    if not form.is_valid():
        return _one(request, listed, account_form=form)
    values = form.cleaned_data
    try:
        people.add_account(
            pk, host_id=values["host"], unix_name=values["unix_name"], uid=values["uid"], by=request.user, now=request.now
        )
    except Refused as refused:
        return _one(request, listed, account_form=form, refusals=errors.said(refused))
    messages.success(request, _("Added: processes of %(account)s count as theirs.") % {"account": values["unix_name"]})
    return _to("member", pk)


@require_POST
@admin_required
def account_remove(request: LabRequest, pk: int, account_pk: int) -> HttpResponse:
    """Unties a Unix account; doing it twice is the same."""
    _listed(pk)
    people.remove_account(pk, account_pk, by=request.user, now=request.now)
    messages.success(request, _("Removed."))
    return _to("member", pk)


@require_POST
@admin_required
@errors.patient
def member_hours(request: LabRequest, pk: int) -> HttpResponse:
    """Gives the member hours once (E5)."""
    listed = _listed(pk)
    form = HoursForm(request.POST, auto_id="hours_%s")
    if not form.is_valid():
        return _one(request, listed, hours_form=form)
    try:
        projects.give_hours(member_id=pk, by=request.user, now=request.now, **form.cleaned_data)
    except Refused as refused:
        return _one(request, listed, hours_form=form, refusals=errors.said(refused))
    messages.success(request, _("Given."))
    return _to("member", pk)


@require_POST
@admin_required
@errors.patient
def member_leave(request: LabRequest, pk: int) -> HttpResponse:
    """Lets the member leave the lab; doing it twice is the same (B2)."""
    listed = _listed(pk)
    form = _leave_form(listed.member, request.POST)
    if not form.is_valid():
        return _one(request, listed, leave_form=form)
    try:
        leaving.leave(pk, successor_id=form.cleaned_data["successor"], by=request.user, now=request.now)
    except Refused as refused:
        return _one(request, listed, leave_form=form, refusals=errors.said(refused))
    messages.success(request, _("%(name)s has left the lab.") % {"name": listed.member.name})
    return _to(settings.LOGIN_REDIRECT_URL) if request.user.pk == pk else _to("member", pk)


def _leave_form(member: Member, data: QueryDict | None = None) -> LeaveForm:
    return LeaveForm(data, members=[one for one in queries.members_in() if one.pk != member.pk], auto_id="leave_%s")


def _initial(member: Member) -> dict[str, Any]:
    return {name: getattr(member, name) for name in ("role", "is_arbiter", "is_admin", "is_active", "ends_on")}


def _listed(pk: int) -> queries.ListedMember:
    listed = queries.member_listed(pk)
    if listed is None:
        raise Http404
    return listed


def _one(
    request: LabRequest, listed: queries.ListedMember, *, form: MemberForm | None = None,
    account_form: AccountForm | None = None, refusals: list[errors.Said] | None = None,
    hours_form: HoursForm | None = None, leave_form: LeaveForm | None = None,
) -> HttpResponse:
    form = form or MemberForm(policy=request.lab.policy, initial=_initial(listed.member))
    hours_form = hours_form or HoursForm(auto_id="hours_%s")
    leave_form = leave_form or _leave_form(listed.member)
    hosts = queries.hosts_named()
    account_form = account_form or AccountForm(hosts=hosts)
    refused = bool(refusals) or any(one.is_bound for one in (form, account_form, hours_form, leave_form))
    context = {
        "listed": listed, "member": listed.member, "form": form, "account_form": account_form, "has_hosts": bool(hosts),
        "refusals": refusals or [], "hours_form": hours_form, "leave_form": leave_form,
        "hours": hour_rows(queries.hour_grants(request.now, member=listed.member.pk)),
        "leads": [one.name for one in queries.projects_listed() if one.advisor_id == listed.member.pk],
    }
    return render(request, "members/member.html", context, status=422 if refused else 200)


def _to(name: str, *args: int) -> HttpResponse:
    response = redirect(name, *args)
    response.status_code = 303
    return response
