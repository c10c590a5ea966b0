"""Hosts and cards, for admins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from .. import queries
from ..forms_people import CardForm, HostForm, ReplaceForm, ServiceForm
from ..models import Gpu, Host
from ..request import LabRequest
from ..rules.refusal import Code, Refusal, Refused
from ..services import inventory, locking
from . import errors, refused
from .access import admin_required


@require_safe
@admin_required
def hosts(request: LabRequest) -> HttpResponse:
    """All hosts with their cards, how to have them read, and the forms to add more."""
    return _page(request)


@require_POST
@admin_required
def host_add(request: LabRequest) -> HttpResponse:
    """Adds a host."""
    form = HostForm(request.POST)
    if not form.is_valid():
        return _page(request, host_form=form)
    try:
        inventory.add_host(by=request.user, now=request.now, **form.cleaned_data)
    except Refused as problem:
        form.add_error("name", [one.sentence for one in errors.said(problem)])
        return _page(request, host_form=form)
    messages.success(request, _("%(name)s is added.") % {"name": form.cleaned_data["name"]})
    return _to_hosts()


@require_POST
@admin_required
def host_reader(request: LabRequest, pk: int) -> HttpResponse:
    """Declares whether a host's cards are read."""
    wanted = request.POST.get("has_reader")
    if wanted not in {"yes", "no"}:
        return errors.not_understood(request, _("Say yes or no: are the cards of this host read?"))
    try:
        inventory.set_reader(pk, wanted == "yes", by=request.user, now=request.now)
    except Host.DoesNotExist:
        raise Http404 from None
    messages.success(request, _("Saved."))
    return _to_hosts()


@require_POST
@admin_required
def card_add(request: LabRequest, pk: int) -> HttpResponse:
    """Adds a card by hand to a host."""
    if not any(host.pk == pk for host in queries.hosts_named()):
        raise Http404
    form = CardForm(request.POST, prefix=f"host{pk}")
    if not form.is_valid():
        return _page(request, card_form=form, card_host=pk)
    values = form.cleaned_data
    try:
        inventory.add_card(
            by=request.user, host_id=pk, uuid=values["uuid"], model=values["model"], memory_total=form.memory_bytes(),
            index=values["index"], pool=values["pool"] or values["model"], now=request.now,
        )
    except Refused as refused:
        form.add_error("uuid", [one.sentence for one in errors.said(refused)])
        return _page(request, card_form=form, card_host=pk)
    messages.success(request, _("The card is added."))
    return _to_hosts()


@require_POST
@admin_required
def card_service(request: LabRequest, pk: int) -> HttpResponse:
    """Takes a card out of service, or puts it back."""
    form = ServiceForm(request.POST)
    if not form.is_valid():
        return errors.not_understood(request, _("Say whether the card is in service or not."))
    try:
        inventory.set_service(
            pk, Gpu.Service(form.cleaned_data["service"]), reason=form.cleaned_data["reason"], by=request.user, now=request.now
        )
    except Gpu.DoesNotExist:
        raise Http404 from None
    messages.success(request, _("Saved."))
    return _to_hosts()


@require_http_methods(["GET", "HEAD", "POST"])
@admin_required
def card_replace(request: LabRequest, pk: int) -> HttpResponse:
    """Gives what is to come on a card to the one that takes its place."""
    if request.method != "POST":
        return _replace_page(request, pk)
    form = ReplaceForm(request.POST)
    if not form.is_valid():
        return _replace_page(request, pk, reasons=refused.reasons([Refusal(Code.NOT_A_REPLACEMENT)]), status=422)
    new = form.cleaned_data["new"]
    try:
        moved = inventory.replace(pk, new, by=request.user, now=request.now)
    except Gpu.DoesNotExist:
        raise Http404 from None
    except Refused as problem:
        reasons = refused.reasons(replace(one, alternative=None) for one in problem.refusals)
        return _replace_page(request, pk, chosen=new, reasons=reasons, status=refused.status(problem.refusals))
    except locking.Busy:
        return refused.retry(_replace_page(request, pk, chosen=new, reasons=refused.busy(), status=409))
    words = ngettext(
        "Replaced: %(n)d reservation is on the new card now.", "Replaced: %(n)d reservations are on the new card now.", len(moved)
    )
    messages.success(request, words % {"n": len(moved)})
    return _to_hosts()


def _replace_page(
    request: LabRequest, pk: int, *, chosen: int | None = None, reasons: Sequence[refused.Reason] = (), status: int = 200
) -> HttpResponse:
    cards = {gpu.pk: gpu for gpu in queries.fleet()}
    if pk not in cards:
        raise Http404
    others = [gpu for gpu in cards.values() if gpu.pk != pk and gpu.service == Gpu.Service.IN_SERVICE]
    context = {"card": cards[pk], "choice": others, "chosen": chosen, "reasons": reasons}
    return render(request, "setup/replace.html", context, status=status)


def _page(
    request: LabRequest, *, host_form: HostForm | None = None, card_form: CardForm | None = None, card_host: int | None = None
) -> HttpResponse:
    listed = queries.hosts_listed()
    rows = [
        {
            "host": host,
            "cards": [
                {"gpu": gpu, "in_service": gpu.service == Gpu.Service.IN_SERVICE, "memory": _gib(gpu.memory_total)}
                for gpu in host.gpus.all()
            ],
            "form": card_form if card_form and host.pk == card_host else CardForm(prefix=f"host{host.pk}"),
            "open": host.pk == card_host,
            "is_this": host.name == settings.THIS_HOST,
        }
        for host in listed
    ]
    context = {
        "rows": rows, "host_form": host_form or HostForm(), "pools": queries.pool_names(),
        "this_host": settings.THIS_HOST,
    }
    return render(request, "setup/hosts.html", context, status=422 if host_form or card_form else 200)


def _gib(size: int | None) -> str:
    return "" if size is None else f"{size / 2**30:.0f} GiB"


def _to_hosts() -> HttpResponse:
    response = redirect("hosts")
    response.status_code = 303
    return response
