"""The schedule: who holds which card when. The grid is a fragment of its own, asked for again every 20 s."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from .. import looks, program, queries
from ..models import Gpu
from ..queries import Block, ShownCard
from ..rules.week import local_date
from ..rules.windows import Timetable
from . import calendar, cardlook, errors, pieces, quick
from .access import member_required

_SERVING = str(Gpu.Service.IN_SERVICE)
_ONLY = {"mine": gettext_lazy("mine"), "free": gettext_lazy("free now")}
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
        **_grid(request, win, seen), **_tools(request, win, seen), **quick.context(request, QueryDict(), seen.cards),
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
    asked = (win, _new_id(request), _narrowed(request), request.user.is_admin, calendar.firm_until(request.now, request.lab))
    etag = _etag((asked, _told(seen, win), _clock(seen, win, request.now)), request)
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
    timetable: Timetable | None


def _seen(request: HttpRequest, win: calendar.Window) -> _Seen:
    cards = queries.shown_cards()
    ids = [card.id for card in cards]
    until = request.now + cardlook.LOOK_AHEAD
    maintenance = queries.maintenance_blocks(ids, min(win.start, request.now), max(win.end, until))
    start, end = win.start.timestamp(), win.end.timestamp()
    shown = [one for one in maintenance if one.start < end and one.end > start]
    return _Seen(
        cards, [*queries.blocks_between(ids, win.start, win.end), *shown],
        [*queries.next_blocks(ids, request.now, cardlook.AHEAD), *maintenance], queries.timetable_of_all(request.lab),
    )


def _told(seen: _Seen, win: calendar.Window) -> list[object]:
    """What was seen, without the instants at which cards were read: each reading has another, and only their age is shown.

    As plain tuples, which Python writes out at a tenth of the cost of named ones.
    """
    working = [seen.timetable.is_working(day) for day, _from, _to in calendar.days(win)] if seen.timetable else []
    return [[card[:-2] for card in seen.cards], [*map(tuple, seen.blocks)], [*map(tuple, seen.ahead)], working]


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
    has_cards, narrowed = bool(seen.cards), _narrowed(request)
    seen = _narrow(seen, narrowed, holds, request.user.pk)
    return {
        "view": win.view,
        "plain": win.plain,
        "grid_query": _query(view="" if win.plain else win.view, **{"from": win.day.isoformat() if win.day else ""}, **narrowed),
        "calendar": None if win.view == calendar.LIST
        else calendar.calendar(win, seen.cards, seen.blocks, holds, reader=reader, lab=request.lab, timetable=seen.timetable),
        "days": calendar.listed(win, seen.cards, seen.blocks, reader=reader) if is_list else None,
        "cards": [(cardlook.look_of(card, request.now, holds[card.id]), holds[card.id]) for card in seen.cards]
        if is_list else None,
        "has_cards": has_cards, "is_narrowed": bool(narrowed), "shown_cards": len(seen.cards),
    }


def _narrowed(request: HttpRequest) -> dict[str, str]:
    """Which cards alone are asked for: those of one `host` or `model`, and `only` the reader's (`mine`) or `free` ones."""
    asked = {name: request.GET.get(name, "")[:100] for name in ("host", "model", "only")}
    return {name: value for name, value in asked.items() if value and (name != "only" or value in _ONLY)}


def _narrow(seen: _Seen, by: dict[str, str], holds: Mapping[int, cardlook.Hold], member_id: int) -> _Seen:
    """What is left of it."""
    if not by:
        return seen
    mine = {block.gpu_id for block in seen.blocks if block.holder_id == member_id}
    cards = [
        card for card in seen.cards
        if by.get("host", card.host) == card.host and by.get("model", card.model) == card.model
        and (by.get("only") != "mine" or card.id in mine)
        and (by.get("only") != "free" or not (holds[card.id].holder or holds[card.id].closed or card.service != _SERVING))
    ]
    ids = {card.id for card in cards}
    return seen._replace(cards=cards, blocks=[block for block in seen.blocks if block.gpu_id in ids])


def _new_id(request: HttpRequest) -> int:
    text = request.GET.get("new", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _query(**values: str) -> str:
    given = {name: value for name, value in values.items() if value}
    return "?" + urlencode(given) if given else ""


def _tools(request: HttpRequest, win: calendar.Window, seen: _Seen) -> dict[str, Any]:
    view = "" if win.plain else win.view
    day = win.day or local_date(request.now, win.zone)
    step = timedelta(days=_AROUND[win.view])
    kept, by = win.day.isoformat() if win.day else "", _narrowed(request)
    hosts, models = (dict.fromkeys(values) for values in ([one.host for one in seen.cards], [one.model for one in seen.cards]))
    return {
        "narrow": [
            ("host", _("Host"), _("all hosts"), [(one, one, one == by.get("host")) for one in hosts]),
            ("model", _("Model"), _("all models"), [(one, looks.model_name(one), one == by.get("model")) for one in models]),
            ("only", _("Which cards"), _("all cards"), [(one, str(said), one == by.get("only")) for one, said in _ONLY.items()]),
        ],
        "period": cardlook.period_words(win.start, win.end),
        "day": day.isoformat(),
        "asked_view": view,
        "earlier": _query(view=view, **{"from": (day - step).isoformat()}, **by),
        "later": _query(view=view, **{"from": (day + step).isoformat()}, **by),
        "today": _query(view=view, **by) or "?",
        "views": [(one, _query(view=one, **{"from": kept}, **by), one == win.view) for one in calendar.VIEWS],
    }
