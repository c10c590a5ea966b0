"""The form for waiting: what is wished for, as a value for the service. The law itself is not here: the service decides."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from .forms_wanted import CLOCK, WantedForm
from .looks import model_name
from .models import Gpu, WaitlistEntry
from .services.waitlist import WishRequest


class WishForm(WantedForm):
    """After `is_valid()`, `wish` is what is wished for, unless `refusals` says what the clock refuses."""

    card = forms.MultipleChoiceField(
        label=_("Only these cards"), required=False, widget=forms.CheckboxSelectMultiple,
        help_text=_("Leave all unticked for any cards that fit. With ticks, the lines above do not count."),
    )
    end = forms.CharField(
        label=_("Until when"), max_length=40, widget=CLOCK, help_text=_("It must have ended by then."),
        error_messages={"required": _("Choose until when you wait.")},
    )
    mode = forms.ChoiceField(
        label=_("When something comes free"), widget=forms.RadioSelect, initial=WaitlistEntry.Mode.BOOK,
        choices=[
            (WaitlistEntry.Mode.BOOK, _("Book it for me")),
            (WaitlistEntry.Mode.ASK, _("Ask me: it is held for me for a short while")),
        ],
    )
    field_order = (
        "count", "pool", "model", "min_memory", "card", "several_hosts", "hours", "start", "end", "project", "tier", "purpose",
        "mode",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        serving = list(
            Gpu.objects.filter(service=Gpu.Service.IN_SERVICE).select_related("host").order_by("host__name", "index", "pk")
        )
        super().__init__(*args, models=sorted({gpu.model for gpu in serving}), **kwargs)
        self.offer("card", [(str(gpu.pk), f"{gpu} {model_name(gpu.model)}") for gpu in serving])

    @property
    def wish(self) -> WishRequest:
        end = self.instants["end"]
        wanted = self.asked(None, end, tuple(int(one) for one in self.cleaned_data["card"]))
        return WishRequest(wanted, self.length, end, self.instants.get("start"), self.cleaned_data["mode"])
