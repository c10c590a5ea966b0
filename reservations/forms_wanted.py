"""What cards somebody wants, for how long and within which time: the fields that waiting and finding share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from . import labels, queries
from .forms import clock_refusal, read_instant
from .looks import model_name
from .models import Reservation
from .queries import LabFacts
from .rules.refusal import Refusal
from .rules.week import NoSuchLocalTime
from .services.booking import BookingRequest

GIB = 2**30
CLOCK = forms.TextInput(attrs={"type": "datetime-local"})


class WantedForm(forms.Form):
    """Cards by number, model, pool and memory, a length, and the time to look in.

    After `is_valid()`, unless `refusals` says what the clock refuses: `length`, `instants` (those of `start` and `end` that were
    given) and `asked()`.
    """

    count = forms.IntegerField(label=_("How many cards"), min_value=1, max_value=64, initial=1)
    pool = forms.ChoiceField(label=_("Pool"), required=False)
    model = forms.ChoiceField(label=_("Model"), required=False)
    min_memory = forms.IntegerField(label=_("Memory of each at least, GiB"), required=False, min_value=1, max_value=10_000)
    several_hosts = forms.BooleanField(label=_("They may be on several hosts"), required=False)
    hours = forms.DecimalField(
        label=_("How long, hours"), min_value=Decimal("0.25"), max_value=1000, max_digits=6, decimal_places=2, initial=4,
        help_text=_("Rounded up to the next step of the calendar."),
        widget=forms.NumberInput(attrs={"step": "0.25"}),
    )
    start = forms.CharField(
        label=_("Not before"), required=False, max_length=40, widget=CLOCK, help_text=_("Leave empty for as soon as possible.")
    )
    end = forms.CharField(label=_("Ends by"), required=False, max_length=40, widget=CLOCK)
    project = forms.ChoiceField(label=_("Project"), required=False)
    tier = forms.ChoiceField(label=_("Tier"))
    purpose = forms.ChoiceField(label=_("Purpose"), choices=[(code, labels.PURPOSE[code]) for code in Reservation.Purpose])

    def __init__(
        self, *args: Any, lab: LabFacts, projects: Mapping[int, str], tiers: Sequence[str], models: Iterable[str], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.lab = lab
        self.refusals: list[Refusal] = []
        self.instants: dict[str, datetime] = {}
        self.offer("pool", [("", _("any pool")), *((str(pk), name) for pk, name in queries.pools_by_name().items())])
        self.offer("model", [("", _("any model")), *((one, model_name(one)) for one in models)])
        self.offer("project", [("", _("none, on my own hours")), *((str(pk), name) for pk, name in projects.items())])
        self.offer("tier", [(code, labels.TIER.get(code, code)) for code in tiers])

    def offer(self, name: str, choices: list[tuple[Any, Any]]) -> None:
        """Sets what a field lets choose."""
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        for name in ("start", "end"):
            if not (text := str(cleaned.get(name) or "").strip()):
                continue
            try:
                self.instants[name] = read_instant(text, self.lab.zone)
            except NoSuchLocalTime as problem:
                self.refusals += clock_refusal(problem, name)
            except ValueError as problem:
                self.add_error(name, str(problem))
        return cleaned

    @property
    def length(self) -> timedelta:
        """What was typed, in whole steps of the calendar."""
        raster = self.lab.policy.raster_s
        return timedelta(seconds=math.ceil(self.cleaned_data["hours"] * 3600 / raster) * raster)

    def asked(self, start: datetime | None, end: datetime, card_ids: tuple[int, ...] = ()) -> BookingRequest:
        """The request for these times: of any cards that fit, or of the named ones."""
        cleaned = self.cleaned_data
        any_card = not card_ids
        return BookingRequest(
            card_ids, start, end, cleaned["tier"], cleaned["purpose"],
            count=cleaned["count"] if any_card else 0,
            pool_id=int(cleaned["pool"]) if cleaned["pool"] and any_card else None,
            model=cleaned["model"] or None if any_card else None,
            min_memory=cleaned["min_memory"] * GIB if cleaned["min_memory"] and any_card else None,
            several_hosts=cleaned["several_hosts"] and any_card,
            project_id=int(cleaned["project"]) if cleaned["project"] else None,
        )
