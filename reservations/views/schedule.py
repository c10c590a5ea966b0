"""The schedule: who holds which card when. The grid is a fragment of its own, asked for again every 20 s."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from django.utils.translation import get_language
from django.views.decorators.http import require_safe

from .. import program, queries
from ..queries import Block, ShownCard
from ..rules.week import local_date
from . import calendar, cardlook, errors, pieces, quick
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
    seen = _seen(request, win)
    return render(request, "reservations/schedule.html", {
        **_grid(request, win, seen), **_tools(request, win), **quick.context(request, QueryDict(), seen.cards),
    })


@require_safe
@member_required
def grid(request: HttpRequest) -> HttpResponse:
    """The grid alone, with an ETag: unchanged, it is answered 304, before anything is put into words."""
    try:
        win = _window(request)
    except calendar.BadWindow as problem:
        return HttpResponse(str(problem), status=400, content_type="text/plain; charset=utf-8")
    seen = _seen(request, win)
    etag = _etag((win, _new_id(request), request.user.is_admin, _told(seen), _clock(seen, win, request.now)), request)
    unchanged = get_conditional_response(request, etag=etag)
    return unchanged or _drawn(request, "reservations/_grid.html", _grid(request, win, seen), etag)


def conditional(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    """A fragment with an ETag over the values it is made of; 304, before it is drawn, when the reader has it already.

    `context` must hold values only (no querysets, no clock), so that the same values make the same fragment.
    """
    etag = _etag(sorted(context.items()), request)
    return get_conditional_response(request, etag=etag) or _drawn(request, template, context, etag)


def _etag(values: object, request: HttpRequest) -> str:
    """What changes whenever a fragment made of these values would: with the reader, the language, the lab, the program too."""
    content = repr((program.version(), get_language(), request.lab, request.user.pk, values))
    return quote_etag(hashlib.blake2b(content.encode(), digest_size=16).hexdigest())


def _drawn(request: HttpRequest, template: str, context: dict[str, Any], etag: str) -> HttpResponse:
    response = HttpResponse(render_to_string(template, context, request))
    response["ETag"] = etag
    return response


def _window(request: HttpRequest) -> calendar.Window:
    asked = request.GET
    return calendar.window(asked.get("view", ""), asked.get("from", ""), now=request.now, zone=request.lab.zone)


class _Seen(NamedTuple):
    """All of the database that a grid shows, as it was read: the cards, what stands on them in the window, and what holds
    each from now on. Its version is its content; nothing that writes needs to say that something has changed."""

    cards: list[ShownCard]
    blocks: list[Block]
    ahead: list[Block]


def _seen(request: HttpRequest, win: calendar.Window) -> _Seen:
    cards = queries.shown_cards()
    ids = [card.id for card in cards]
    until = request.now + cardlook.LOOK_AHEAD
    maintenance = queries.maintenance_blocks(ids, min(win.start, request.now), max(win.end, until))
    start, end = win.start.timestamp(), win.end.timestamp()
    shown = [one for one in maintenance if one.start < end and one.end > start]
    return _Seen(
        cards, [*queries.blocks_between(ids, win.start, win.end), *shown],
        [*queries.next_blocks(ids, request.now, cardlook.AHEAD), *maintenance],
    )


def _told(seen: _Seen) -> list[list[tuple[object, ...]]]:
    """What was seen, without the instants at which cards were read: each reading has another, and only their age is shown.

    As plain tuples, which Python writes out at a tenth of the cost of named ones.
    """
    return [[card[:-2] for card in seen.cards], [*map(tuple, seen.blocks)], [*map(tuple, seen.ahead)]]


def _clock(seen: _Seen, win: calendar.Window, now: datetime) -> tuple[object, ...]:
    """All that the clock changes while what was seen stays: the line of now, what has begun and ended, how old figures are
    and which are too old, and how far ahead an instant is said without its date."""
    this = now.timestamp()
    ages = [cardlook.seen_ago(card, now) for card in seen.cards]
    return (
        win.start <= now < win.end and win.column(now),
        [len([1 for one in some if one[2] <= this]) for some in (seen.blocks, seen.ahead)],  # starts, and ends, that have come
        [len([1 for one in some if one[3] <= this]) for some in (seen.blocks, seen.ahead)],
        [None if age is None else (cardlook.is_fresh(age), cardlook.age_words(age)) for age in ages],
        [(cardlook.is_near(one.start, now), cardlook.is_near(one.end, now)) for one in seen.ahead],
    )


def _grid(request: HttpRequest, win: calendar.Window, seen: _Seen) -> dict[str, Any]:
    holds = cardlook.holds([card.id for card in seen.cards], request.now, seen.ahead)
    reader = pieces.Reader(request.user.pk, request.now, _new_id(request))
    is_list = win.plain or win.view == calendar.LIST
    return {
        "view": win.view,
        "plain": win.plain,
        "grid_query": _query(view="" if win.plain else win.view, **{"from": win.day.isoformat() if win.day else ""}),
        "calendar": calendar.calendar(win, seen.cards, seen.blocks, holds, reader=reader) if win.view != calendar.LIST else None,
        "days": calendar.listed(win, seen.cards, seen.blocks, reader=reader) if is_list else None,
        "cards": [(cardlook.look_of(card, request.now, holds[card.id]), holds[card.id]) for card in seen.cards]
        if is_list else None,
        "has_cards": bool(seen.cards),
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
