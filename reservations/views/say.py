"""One line of text that fills the booking form in (`rules/phrases.py`)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext as _

from .. import forms
from ..queries import LabFacts
from ..rules import phrases
from ..rules.phrases import Asked, Unclear

LONGEST = 200  # characters


@dataclass(frozen=True)
class Filled:
    """What a text fills in: start (None: now) and end, and how many cards of which model. With `questions`, nothing."""

    questions: tuple[str, ...] = ()
    start: datetime | None = None
    end: datetime | None = None
    count: int = 0
    model: str | None = None


def fill(text: str, lab: LabFacts, models: Collection[str], now: datetime) -> Filled:
    """The text in the fields of the form, or what has to be asked back."""
    said = phrases.read(text[:LONGEST], now=timezone.localtime(now).replace(tzinfo=None), models=models)
    if said.asks:
        return Filled(tuple(_question(one, models) for one in said.asks))
    try:
        start = None if said.start is None else _instant(said.start, lab)
        end = None if said.end is None else _instant(said.end, lab)
    except ValueError:  # the clock is changed over it
        return Filled((_("The clock is changed at that time. Choose another time, or fill in the fields below."),))
    if end is None and said.length is not None:
        end = forms.end_of(start, said.length, now=now, policy=lab.policy, zone=lab.zone)
    return Filled((), start, end, said.count or (1 if said.model else 0), said.model)


def _instant(local: datetime, lab: LabFacts) -> datetime:
    return forms.read_instant(local.strftime("%Y-%m-%dT%H:%M"), lab.zone)


def _question(asked: Asked, models: Collection[str]) -> str:
    words = {
        Unclear.WORD: _("“%(piece)s” was not understood."),
        Unclear.NUMBER: _("“%(piece)s”: cards, hours, or an hour of the day? Write for example 2 cards, 8h or 22:00."),
        Unclear.MODEL: _("“%(piece)s” fits several models: %(models)s. Tick the cards below."),
        Unclear.DAY: _("“%(piece)s”: which day? Write it like 2026-12-01."),
        Unclear.TIME: _("“%(piece)s”: at what time? Add for example 22:00."),
        Unclear.HALF: _("“%(piece)s”: in the morning or in the afternoon? Write for example 15:00."),
        Unclear.TWICE: _("“%(piece)s” does not agree with the rest. Say each thing once."),
        Unclear.ORDER: _("It would end before it starts: %(piece)s."),
        Unclear.PAST: _("%(piece)s has passed."),
    }
    fits = [model for model in models if asked.piece in model.lower()]
    return words[asked.what] % {"piece": asked.piece, "models": _(", ").join(fits)}
