"""The quick bar above the schedule: how many cards, when, how long, and what that would be, before it is pressed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from django.views.decorators.http import require_safe

from .. import forms, labels, looks, queries
from ..models import Reservation
from ..queries import ShownCard
from ..rules.projects import Scheduling
from ..rules.week import NoSuchLocalTime, typed_instant
from . import previewed, say
from .access import member_required
from .tiers import open_tiers, usual_tier

LENGTHS = (1, 2, 4, 8, 12, 24)
_COUNTS = (1, 2, 3, 4, 6, 8)
_USUAL_HOURS = 8


@dataclass(frozen=True)
class Chip:
    """One choice of a row: what it submits and says. `hours`: the length that goes with it."""

    value: str
    words: str
    chosen: bool
    hours: int | None = None


@require_safe
@member_required
def bar(request: HttpRequest) -> HttpResponse:
    """The bar as a text (`say`), or cards and times (`card`, `start`, `end`), fill it in, with what that would be."""
    data, cards = request.GET.copy(), queries.shown_cards()
    questions: tuple[str, ...] = ()
    if text := request.GET.get("say", "").strip():
        data, questions = _said(request, text, cards)
    _localise(data, request)
    bar = context(request, data, cards)
    if not questions and {"when", "start"} & set(data):
        bar["outcome"] = previewed.outcome(request, whole(data, bar))
    return render(request, "reservations/_bar.html", {
        **bar, "said": request.GET.get("say", "")[: say.LONGEST], "questions": questions,
    })


def whole(data: QueryDict, bar: dict[str, Any]) -> QueryDict:
    """What the bar submits as it is shown: what filled it in, and its own choices for the rest."""
    filled = data.copy()
    shown = {
        "count": next((one for one, chosen in bar["counts"] if chosen), ""),
        "model": next((one for one, _words, chosen in bar["models"] if chosen), ""),
        "hours": next((one.value for one in bar["lengths"] if one.chosen), ""),
        "project": next((str(one) for one, _words, chosen in bar["projects"] if chosen), ""),
        "tier": next((one for one, *_rest, chosen in bar["tiers"] if chosen), ""),
        "purpose": next((one for one, _words, chosen in bar["purposes"] if chosen), ""),
    }
    for name, value in shown.items():
        if name not in filled:
            filled[name] = str(value)
    return filled


@require_safe
@member_required
def preview(request: HttpRequest) -> HttpResponse:
    """What the form, as it is filled in, would be."""
    return render(request, "reservations/_preview.html", {"outcome": previewed.outcome(request, request.GET)})


def _localise(data: QueryDict, request: HttpRequest) -> None:
    """Exact instants, as the calendar sends them, by the lab's clock, as the fields show them."""
    for name in ("start", "end"):
        with suppress(ValueError):
            data[name] = forms.local_text(forms.read_instant(data.get(name, ""), request.lab.zone))


def _said(request: HttpRequest, text: str, cards: Sequence[ShownCard]) -> tuple[QueryDict, tuple[str, ...]]:
    """What a text fills in, or what is asked back about it."""
    models = list(dict.fromkeys(card.model for card in cards))
    filled = say.fill(text, request.lab, models, request.now)
    data = QueryDict(mutable=True)
    if filled.questions:
        return data, filled.questions
    if filled.count:
        data["count"], data["model"] = str(filled.count), filled.model or ""
    if filled.start or filled.end:
        data["when"] = forms.FIELD if filled.start else forms.NOW
        data["start"] = forms.local_text(filled.start) if filled.start else ""
    if filled.end:
        data["hours"], data["end"] = _length_chip(filled, request), forms.local_text(filled.end)
    return data, ()


def _length_chip(filled: say.Filled, request: HttpRequest) -> str:
    """The chip that comes to the same end, if one does."""
    policy, zone = request.lab.policy, request.lab.zone
    for hours in LENGTHS:
        if forms.end_after(filled.start, str(hours), now=request.now, policy=policy, zone=zone) == filled.end:
            return str(hours)
    return forms.FIELD


def context(request: HttpRequest, data: QueryDict, cards: Sequence[ShownCard]) -> dict[str, Any]:
    """The bar's fields: as sent, else as the reader booked last, else as most do."""
    policy, habit = request.lab.policy, queries.habit_of(request.user)
    projects = queries.projects_of(request.user.pk)
    tiers = open_tiers(projects, policy, request)
    project = _project(data, habit, projects, policy.mode)
    tier = next((one for one in (data.get("tier"), habit and habit.tier) if one in tiers), None)
    purpose = next(
        (one for one in (data.get("purpose"), habit and habit.purpose) if one in Reservation.Purpose.values),
        Reservation.Purpose.TRAINING,
    )
    most = policy.most_cards(request.user.role)
    named = set(forms.card_ids(data))
    count = data.get("count") or str(min(habit.count if habit else 1, most))
    counts = [str(one) for one in _COUNTS if one <= min(most, len(cards))] or ["1"]
    models = list(dict.fromkeys(card.model for card in cards))
    model = data.get("model", habit.model if habit else "")
    return {
        "named": [(card.id, f"{card.host}:{card.card_index}") for card in cards if card.id in named],
        "counts": [(one, one == count) for one in (counts if count in counts or not _is_count(count) else [*counts, count])],
        "models": [(one, looks.model_name(one), one == model) for one in models],
        "several_hosts": bool(data.get("several_hosts")),
        "whens": list(_whens(request, data)), "start": data.get("start", "")[:40],
        "at": bool(data.get("start")) and data.get("when", forms.FIELD) == forms.FIELD,
        "lengths": list(_lengths(request, data, habit.length_s if habit else _USUAL_HOURS * 3600)),
        "end": data.get("end", "")[:40],
        "until": bool(data.get("end")) and data.get("hours", forms.FIELD) == forms.FIELD,
        "projects": [(pk, name, pk == project) for pk, name in projects.items()],
        "may_book_without": policy.mode != Scheduling.PROJECT,
        "tiers": [
            (code, labels.tier(code), labels.TIER_LETTER.get(code, ""), code == (tier or usual_tier(tiers, project, policy)))
            for code in tiers
        ],
        "purposes": [(code, labels.PURPOSE[code], code == purpose) for code in Reservation.Purpose],
        "key": forms.new_key(), "outcome": None, "said": "", "questions": (),
    }


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 3


def _project(data: QueryDict, habit: queries.Habit | None, projects: dict[int, str], mode: str) -> int | None:
    """The project shown: as sent, else of the last time, else the only one where projects pay."""
    if "project" in data:
        found = forms.card_ids(data, "project")[0] if data["project"] else None
        return found if found in projects else None
    if habit is not None and habit.project_id in projects:
        return habit.project_id
    return next(iter(projects)) if len(projects) == 1 and mode != Scheduling.PERSON else None


def _whens(request: HttpRequest, data: QueryDict) -> Iterator[Chip]:
    """Now, and the times at which most bookings begin."""
    chosen = data.get("when", "")
    yield Chip(forms.NOW, pgettext("a start", "Now"), chosen == forms.NOW)
    local = timezone.localtime(request.now)
    today, tomorrow = local.date(), local.date() + timedelta(days=1)
    times: list[tuple[date, time, str, int | None]] = [(tomorrow, time(9), _("Tomorrow 9:00"), None)]
    times.append((tomorrow, time(22), _("Tomorrow night"), 8))
    if local.time() < time(21, 30):
        times.insert(0, (today, time(22), _("Tonight"), 8))
    for day, at, words, hours in times:
        begins = datetime.combine(day, at)
        try:
            typed_instant(begins, request.lab.zone)
        except NoSuchLocalTime:
            continue
        value = begins.strftime("%Y-%m-%dT%H:%M")
        yield Chip(value, words, chosen == value, hours)


def _lengths(request: HttpRequest, data: QueryDict, usual_s: int) -> Iterator[Chip]:
    """The usual lengths that the policy allows; the one that the reader had last, or as sent, is chosen."""
    allowed = [hours for hours in LENGTHS if hours * 3600 <= request.lab.policy.longest_s]
    usual = max((hours for hours in allowed if hours * 3600 <= usual_s), default=allowed[0] if allowed else 0)
    chosen = data.get("hours") or ("" if data.get("end") else str(usual))
    for hours in allowed:
        # Translators: a length in hours
        yield Chip(str(hours), _("%(n)d h") % {"n": hours}, chosen == str(hours))
