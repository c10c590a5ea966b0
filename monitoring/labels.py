"""The words for the sensor's codes."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as lazy
from django.utils.translation import pgettext_lazy

from .rules.gate import Reason
from .rules.snapshot import Owner

OWNER = {
    Owner.VERIFIED: pgettext_lazy("owner", "verified"), Owner.RESOLVED: pgettext_lazy("owner", "resolved"),
    Owner.AMBIGUOUS: pgettext_lazy("owner", "ambiguous"), Owner.UNKNOWN: pgettext_lazy("owner", "unknown"),
}
GATE_REASON = {
    Reason.ALLOWED: lazy("allowed"), Reason.DECIDED: lazy("decided already"),
    Reason.MIXED: lazy("simulated data beside real cards"), Reason.CLOCK: lazy("host and server clocks differ"),
    Reason.STALE: lazy("no fresh data"), Reason.COVERAGE: lazy("too few samples"),
}
