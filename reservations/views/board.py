"""The board: what each card does now, and who holds it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from .. import names, queries
from ..models import CardState, Gpu
from . import cardlook
from .access import member_required
from .schedule import conditional

NOTHING = "–"


@dataclass(frozen=True)
class Row:
    """One card of the board. What could not be read is a dash, never a zero."""

    card: cardlook.CardLook
    who: str
    since: datetime | None
    hold: cardlook.Hold
    use: str
    percent: int | None
    memory: str
    temperature: str
    age: str


@require_safe
@member_required
def board(request: HttpRequest) -> HttpResponse:
    """The page."""
    return render(request, "monitoring/board.html", _board(request))


@require_safe
@member_required
def table(request: HttpRequest) -> HttpResponse:
    """The table alone, with an ETag."""
    return conditional(request, "monitoring/_board_table.html", _board(request))


def _board(request: HttpRequest) -> dict[str, Any]:
    gpus = queries.fleet()
    holds = cardlook.holds([gpu.pk for gpu in gpus], request.now)
    states = {gpu.pk: state for gpu in gpus if (state := cardlook.state_of(gpu)) is not None}
    seen = queries.member_names({owner for state in states.values() for owner in state.owner_ids})
    owners = {pk: names.shown(name) for pk, name in seen.items()}
    hosts: dict[str, list[Row]] = {}
    for gpu in gpus:
        card = cardlook.look(gpu, request.now, holds[gpu.pk])
        state = states.get(gpu.pk) if card.fresh else None
        hosts.setdefault(gpu.host.name, []).append(_row(gpu, card, state, holds[gpu.pk], owners))
    return {"hosts": hosts}


def _row(
    gpu: Gpu, card: cardlook.CardLook, state: CardState | None, hold: cardlook.Hold, owners: dict[int, str]
) -> Row:
    seen = [owners[owner] for owner in state.owner_ids if owner in owners] if state else []
    return Row(
        card=card, who=_who(hold.holder, seen), since=card.since, hold=hold,
        use=f"{state.utilization} %" if state and state.utilization is not None else NOTHING,
        percent=state.utilization if state else None, memory=_memory(gpu, state),
        temperature=f"{state.temperature} °C" if state and state.temperature is not None else NOTHING, age=card.age,
    )


def _who(holder: str, seen: list[str]) -> str:
    """Who holds the card, and whose processes were seen where that is somebody else."""
    others = ", ".join(name for name in seen if name != holder)
    if holder and others:
        return _("%(holder)s; seen: %(others)s") % {"holder": holder, "others": others}
    return holder or (_("seen: %(others)s") % {"others": others} if others else NOTHING)


def _memory(gpu: Gpu, state: CardState | None) -> str:
    if state is None or state.memory_used is None:
        return NOTHING
    used = f"{state.memory_used / cardlook.GIB:.1f}"
    return f"{used} / {cardlook.gib(gpu.memory_total)}" if gpu.memory_total else f"{used} GiB"
