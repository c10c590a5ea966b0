"""Django's admin: raw repair only, for admins of the lab. Everyday work has pages that check and say what they do.

Its sign-in is the site's own, with its limits (AU-13). Nothing is deleted here, what is written once cannot be changed, and
each change is in the lab's audit too.
"""

from __future__ import annotations

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.db.models import Model
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from . import models
from .models.appendonly import AppendOnly
from .permissions import Action, may
from .request import LabRequest
from .services import audit


def _is_admin(request: HttpRequest) -> bool:
    return request.user.is_authenticated and may(request.user, Action.ADMINISTER)


def _inside(request: HttpRequest, extra_context: object = None) -> HttpResponse:
    """Somebody signed in is in already. Django's own form would try passwords for them without a limit (AU-13)."""
    return redirect("admin:index")


def _password(request: HttpRequest, extra_context: object = None) -> HttpResponse:
    """Changed where everybody changes theirs: with its limit, and with the mail that says so."""
    return redirect("account_change_password")


# What other apps registered goes: a session or an address added by hand there would sign somebody in as another.
for _theirs in list(admin.site._registry):
    admin.site.unregister(_theirs)
admin.site.site_header = admin.site.site_title = "LabGPU"
admin.site.login = secure_admin_login(_inside)  # type: ignore[method-assign, assignment]
admin.site.password_change = _password  # type: ignore[method-assign, assignment]
admin.site.has_permission = _is_admin  # type: ignore[method-assign, assignment]


class Shown(admin.ModelAdmin):
    """May be looked at."""

    list_per_page = 50
    show_full_result_count = False

    def has_module_permission(self, request: HttpRequest) -> bool:
        return _is_admin(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return _is_admin(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class Repaired(Shown):
    """May be changed, with a line in the audit."""

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return _is_admin(request)

    def save_model(self, request: LabRequest, obj: Model, form: ModelForm, change: bool) -> None:  # type: ignore[override]
        super().save_model(request, obj, form, change)
        values = {name: str(form.cleaned_data.get(name)) for name in form.changed_data}
        if values:  # saved as it was: nothing to tell
            audit.note("repair", obj, actor=request.user, origin="admin", now=request.now, change=values)


class Members(Repaired):
    """Without what the members page guards: the last admin, sign-in, passwords."""

    list_display = ("name", "email", "role", "approval", "is_active", "is_arbiter", "is_admin")
    search_fields = ("name", "email")
    fields = (
        "email", "name", "role", "approval", "language", "zone", "quiet_from", "quiet_to", "joined_at", "last_login", "is_active",
        "is_arbiter", "is_admin",
    )
    readonly_fields = ("approval", "joined_at", "last_login", "is_active", "is_arbiter", "is_admin")


class Hosts(Repaired):
    list_display = ("name", "has_reader", "simulated")
    readonly_fields = ("simulated",)


class Gpus(Repaired):
    list_display = ("__str__", "model", "pool", "service", "uuid")
    list_select_related = ("host", "pool")
    readonly_fields = ("uuid",)


class Pools(Repaired):
    list_display = ("name", "weight")


_REPAIRED = {models.Member: Members, models.Host: Hosts, models.Gpu: Gpus, models.Pool: Pools}
_SHOWN = (
    models.Lab, models.HostAccount, models.Invite, models.CardState, models.Reservation, models.Allocation, models.LedgerEntry,
    models.Demerit, models.Case, models.Ruling, models.Notification, models.AuditEntry, models.Project, models.ProjectMember,
    models.DeadlineGrant, models.HourGrant, models.Collaborator,
    models.WaitlistEntry,
)
for _model, _page in _REPAIRED.items():
    admin.site.register(_model, _page)
for _model in _SHOWN:
    admin.site.register(_model, Shown)
assert not any(issubclass(model, AppendOnly) for model in _REPAIRED)
