"""Refusals as pages say them: every reason with its rule, and what would be allowed instead as buttons."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpResponse
from django.shortcuts import resolve_url
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .. import forms, labels
from ..rules.instead import How
from ..rules.refusal import Alternative, Code, Refusal
from ..services.booking import BookingRequest
from ..services.locking import Busy
from ..services.slots import Slot
from . import cardlook

# What somebody else's doing has overtaken: the same request might have been right a moment ago.
_CONFLICTS = {Code.CARD_TAKEN, Code.MAINTENANCE, Code.CARD_LOST, Code.STALE, Code.KEY_REUSED, Code.NO_EQUAL_CARD}


# Where to go first.
_PAGES = {
    Code.HOUSE_RULES: ("house-rules", gettext_lazy("Read the house rules")),
    Code.TIER_NEEDS_GRANT: ("projects", gettext_lazy("Projects")),
    Code.NOT_IN_PROJECT: ("projects", gettext_lazy("Projects")),
}


@dataclass(frozen=True)
class Instead:
    """A button: what it says and the value it submits."""

    words: str
    value: str


@dataclass(frozen=True)
class Reason:
    """Why not, with its rule, buttons for what would be allowed, and a page where something is to be done first."""

    sentence: str
    rule: str
    instead: tuple[Instead, ...]
    page: str = ""
    page_words: str = ""


def reasons(refusals: Iterable[Refusal], *, times_only: bool = False) -> tuple[Reason, ...]:
    """All reasons, each sentence once with all its ways out; with `times_only` without other projects and tiers."""
    found: dict[tuple[str, str], list[Instead]] = {}
    pages: dict[tuple[str, str], tuple[str, str]] = {}
    for refusal in refusals:
        said = labels.sentence(refusal), refusal.rule
        ways = found.setdefault(said, [])
        if refusal.code in _PAGES:
            name, words = _PAGES[refusal.code]
            pages[said] = resolve_url(name), str(words)
        if refusal.alternative is None or (times_only and not {"start", "end"} & set(refusal.alternative.values)):
            continue
        if value := forms.pack(refusal.alternative):
            ways.append(Instead(_words(refusal.alternative, twice=refusal.code == Code.TIME_TWICE), value))
    return tuple(Reason(*said, tuple(ways), *pages.get(said, ())) for said, ways in found.items())


def others(
    slots: Iterable[Slot], asked: BookingRequest, offered: Collection[tuple[datetime | None, datetime]]
) -> tuple[Instead, ...]:
    """Slots as buttons that book them, but for the asked cards at a time that another button `offered` already."""
    ways = []
    for slot in slots:
        start, plan = slot.start, slot.plan
        if set(plan.card_ids) == set(asked.card_ids) and (start, plan.held.end) in offered:
            continue
        same_time = (start, plan.held.end) == (asked.start, asked.end)
        values = {"start": start, "end": plan.held.end, "cards": plan.card_ids}
        ways.append(Instead(_slot_words(slot, same_time=same_time), forms.pack(Alternative(values))))
    return tuple(ways)


def _slot_words(slot: Slot, *, same_time: bool) -> str:
    held = slot.plan.held
    facts = {
        "cards": _(", ").join(slot.labels), "period": cardlook.period_words(held.start, held.end),
        "price": _("%(hours)s GPU-hours") % {"hours": labels.hours(slot.units)} if slot.units else _("free of charge"),
    }
    # Translators: what can be booked instead, each a button; %(cards)s names cards, %(price)s is what it costs
    if slot.how == How.FEWER:
        return _("One card fewer: %(cards)s, %(period)s, %(price)s") % facts
    if slot.how == How.SHORTER:
        return _("Shorter: %(cards)s, %(period)s, %(price)s") % facts
    if same_time:
        return _("Other cards: %(cards)s, %(period)s, %(price)s") % facts
    return _("At another time: %(cards)s, %(period)s, %(price)s") % facts


def busy() -> tuple[Reason, ...]:
    """What a page says when the lock was not to be had: nothing was written. Its status is 409, with `retry`."""
    return (Reason(_("LabGPU is busy with other bookings; nothing was changed. Press again in a few seconds."), "", ()),)


def status(refusals: Iterable[Refusal]) -> int:
    """409 for what another has overtaken, else 422."""
    return 409 if any(refusal.code in _CONFLICTS for refusal in refusals) else 422


def retry(response: HttpResponse) -> HttpResponse:
    """The answer with the time after which to press again."""
    response.headers["Retry-After"] = str(Busy.retry_after)
    return response


def _words(alternative: Alternative, *, twice: bool) -> str:
    values = alternative.values
    start, end = values.get("start"), values.get("end")
    if twice:
        # Both readings look alike on the clock: only the distance to UTC tells them apart.
        one = timezone.localtime(start or end)
        offset = one.strftime("%z")
        return f"{labels.instant(one)} (UTC{offset[:3]}:{offset[3:]})"
    if "project" in values or "tier" in values:
        return _other_words(values)
    if start and end:
        return _("Book %(period)s") % {"period": cardlook.period_words(start, end)}
    if end:
        return _("Until %(time)s") % {"time": labels.instant(end)}
    if start:
        return _("From %(time)s") % {"time": labels.instant(start)}
    return _("From now on")


def _other_words(values: Mapping[str, Any]) -> str:
    """Another project, none, or another tier, in words."""
    tier = labels.tier(values["tier"]) if "tier" in values else ""
    if values.get("project"):
        return _("For the project %(project)s") % {"project": values.get("project_name", values["project"])}
    if "project" in values:
        return _("On your own hours, as %(tier)s") % {"tier": tier} if tier else _("On your own hours")
    return _("As %(tier)s") % {"tier": tier}
