"""The schedule: who holds which card when. The grid is a fragment of its own, asked for again every 20 s."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from django.utils.translation import get_language
from django.views.decorators.http import require_safe

from .. import queries
from ..rules.week import local_date
from . import calendar, cardlook, errors, quick
from .access import member_required

_AROUND = {calendar.HOURS_36: 1, calendar.WEEK: 7, calendar.LIST: 7}


@require_safe
@member_required
def schedule(request: HttpRequest) -> HttpResponse:
    """The page: `?view=36h|week|list&from=YYYY-MM-DD`; `new` marks a reservation just made."""
    try:
        win = _window(request)
    except calendar.BadWindow as problem:
        return errors.not_understood(request, str(problem))
    return render(request, "reservations/schedule.html", {
        **_grid(request, win), **_tools(request, win), **quick.context(request, QueryDict()),
    })


@require_safe
@member_required
def grid(request: HttpRequest) -> HttpResponse:
    """The grid alone, with an ETag: unchanged, it is answered 304 without a body."""
    try:
        win = _window(request)
    except calendar.BadWindow as problem:
        return HttpResponse(str(problem), status=400, content_type="text/plain; charset=utf-8")
    return conditional(request, "reservations/_grid.html", _grid(request, win))


def conditional(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    """A fragment with an ETag over the values it is made of; 304, before it is drawn, when the reader has it already.

    `context` must hold values only (no querysets, no clock), so that the same values make the same fragment.
    """
    told = repr((get_language(), request.lab, request.user.pk, sorted(context.items())))
    etag = quote_etag(hashlib.blake2b(told.encode(), digest_size=16).hexdigest())
    unchanged = get_conditional_response(request, etag=etag)
    if unchanged is not None:
        return unchanged
    response = HttpResponse(render_to_string(template, context, request))
    response["ETag"] = etag
    return response


def _window(request: HttpRequest) -> calendar.Window:
    asked = request.GET
    return calendar.window(asked.get("view", ""), asked.get("from", ""), now=request.now, zone=request.lab.zone)


def _grid(request: HttpRequest, win: calendar.Window) -> dict[str, Any]:
    gpus = queries.fleet()
    ids = [gpu.pk for gpu in gpus]
    maintenance = queries.maintenance_blocks(
        ids, min(win.start, request.now), max(win.end, request.now + cardlook.LOOK_AHEAD)
    )
    shown = (one for one in maintenance if one.start < win.end and one.end > win.start)
    blocks = [*queries.blocks_between(ids, win.start, win.end), *shown]
    holds = cardlook.holds(ids, request.now, maintenance)
    reader: dict[str, Any] = {"member": request.user, "now": request.now, "new_id": _new_id(request)}
    return {
        "view": win.view,
        "plain": win.plain,
        "grid_query": _query(view="" if win.plain else win.view, **{"from": win.day.isoformat() if win.day else ""}),
        "calendar": calendar.calendar(win, gpus, blocks, holds, **reader) if win.view != calendar.LIST else None,
        "days": calendar.listed(win, gpus, blocks, **reader) if win.plain or win.view == calendar.LIST else None,
        "cards": [(cardlook.look(gpu, request.now, holds[gpu.pk]), holds[gpu.pk]) for gpu in gpus]
        if win.plain or win.view == calendar.LIST else None,
        "has_cards": bool(gpus),
    }


def _new_id(request: HttpRequest) -> int:
    text = request.GET.get("new", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _query(**values: str) -> str:
    given = {name: value for name, value in values.items() if value}
    return "?" + urlencode(given) if given else ""


def _tools(request: HttpRequest, win: calendar.Window) -> dict[str, Any]:
    view = "" if win.plain else win.view
    day = win.day or local_date(request.now, win.zone)
    step = timedelta(days=_AROUND[win.view])
    kept = win.day.isoformat() if win.day else ""
    return {
        "period": cardlook.period_words(win.start, win.end),
        "day": day.isoformat(),
        "asked_view": view,
        "earlier": _query(view=view, **{"from": (day - step).isoformat()}),
        "later": _query(view=view, **{"from": (day + step).isoformat()}),
        "today": _query(view=view) or "?",
        "views": [(one, _query(view=one, **{"from": kept}), one == win.view) for one in calendar.VIEWS],
    }
