"""The form for waiting: what is wished for, as a value for the service. The law itself is not here: the service decides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from . import labels
from .forms import clock_refusal, read_instant
from .looks import model_name
from .models import Gpu, Pool, Reservation, WaitlistEntry
from .queries import LabFacts
from .rules.refusal import Refusal
from .rules.week import NoSuchLocalTime
from .services.booking import BookingRequest
from .services.waitlist import WishRequest

_GIB = 2**30
_CLOCK = forms.TextInput(attrs={"type": "datetime-local"})


class WishForm(forms.Form):
    """After `is_valid()`, `wish` is what is wished for, unless `refusals` says what the clock refuses."""

    count = forms.IntegerField(label=_("How many cards"), min_value=1, max_value=64, initial=1)
    pool = forms.ChoiceField(label=_("Pool"), required=False)
    model = forms.ChoiceField(label=_("Model"), required=False)
    min_memory = forms.IntegerField(label=_("Memory of each at least, GiB"), required=False, min_value=1, max_value=10_000)
    card = forms.MultipleChoiceField(
        label=_("Only these cards"), required=False, widget=forms.CheckboxSelectMultiple,
        help_text=_("Leave all unticked for any cards that fit. With ticks, the lines above do not count."),
    )
    several_hosts = forms.BooleanField(label=_("They may be on several hosts"), required=False)
    hours = forms.DecimalField(
        label=_("How long, hours"), min_value=Decimal("0.25"), max_value=1000, max_digits=6, decimal_places=2, initial=4,
        help_text=_("Rounded up to the next step of the calendar."),
        widget=forms.NumberInput(attrs={"step": "0.25"}),
    )
    start = forms.CharField(
        label=_("Not before"), required=False, max_length=40, widget=_CLOCK, help_text=_("Leave empty for as soon as possible.")
    )
    end = forms.CharField(
        label=_("Until when"), max_length=40, widget=_CLOCK, help_text=_("It must have ended by then."),
        error_messages={"required": _("Choose until when you wait.")},
    )
    project = forms.ChoiceField(label=_("Project"), required=False)
    tier = forms.ChoiceField(label=_("Tier"))
    purpose = forms.ChoiceField(label=_("Purpose"), choices=[(code, labels.PURPOSE[code]) for code in Reservation.Purpose])
    mode = forms.ChoiceField(
        label=_("When something comes free"), widget=forms.RadioSelect, initial=WaitlistEntry.Mode.BOOK,
        choices=[
            (WaitlistEntry.Mode.BOOK, _("Book it for me")),
            (WaitlistEntry.Mode.ASK, _("Ask me: it is held for me for a short while")),
        ],
    )

    def __init__(self, *args: Any, lab: LabFacts, projects: Mapping[int, str], tiers: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lab = lab
        self.refusals: list[Refusal] = []
        self.instants: dict[str, datetime] = {}
        serving = list(
            Gpu.objects.filter(service=Gpu.Service.IN_SERVICE).select_related("host").order_by("host__name", "index", "pk")
        )
        models = sorted({gpu.model for gpu in serving})
        choices: dict[str, list[tuple[Any, Any]]] = {
            "pool": [("", _("any pool")), *((str(pk), name) for pk, name in Pool.objects.values_list("pk", "name"))],
            "model": [("", _("any model")), *((one, model_name(one)) for one in models)],
            "card": [(str(gpu.pk), f"{gpu} {model_name(gpu.model)}") for gpu in serving],
            "project": [("", _("none, on my own hours")), *((str(pk), name) for pk, name in projects.items())],
            "tier": [(code, labels.TIER.get(code, code)) for code in tiers],
        }
        for name, values in choices.items():
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = values

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
    def wish(self) -> WishRequest:
        cleaned, raster = self.cleaned_data, self.lab.policy.raster_s
        named = tuple(int(one) for one in cleaned["card"])
        length = math.ceil(cleaned["hours"] * 3600 / raster) * raster
        wanted = BookingRequest(
            named, None, self.instants["end"], cleaned["tier"], cleaned["purpose"],
            count=0 if named else cleaned["count"],
            pool_id=int(cleaned["pool"]) if cleaned["pool"] and not named else None,
            model=cleaned["model"] or None if not named else None,
            min_memory=cleaned["min_memory"] * _GIB if cleaned["min_memory"] and not named else None,
            several_hosts=cleaned["several_hosts"] and not named,
            project_id=int(cleaned["project"]) if cleaned["project"] else None,
        )
        return WishRequest(
            wanted, timedelta(seconds=length), self.instants["end"], self.instants.get("start"), cleaned["mode"]
        )
