"""The form that looks for a slot."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from . import labels
from .forms_wanted import WantedForm


class FindForm(WantedForm):
    """What is looked for. `after`, `before`: the time to look in, None where it is open."""

    def __init__(self, *args: Any, now: datetime, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.now = now

    @property
    def after(self) -> datetime | None:
        """Not before this; None: from now on."""
        start = self.instants.get("start")
        return start if start is not None and start > self.now else None

    @property
    def before(self) -> datetime | None:
        """It ends by this; None: by the last day that is open."""
        return self.instants.get("end")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if self.before is None or "hours" not in cleaned:
            return cleaned
        room = self.before - (self.after or self.now)
        if room < self.length:
            self.add_error("end", _("Until then there is less time than %(length)s. Choose a later end or a shorter length.") % {
                "length": labels.length(int(self.length.total_seconds()))
            })
        return cleaned
