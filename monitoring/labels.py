"""The words for the sensor's codes."""

from __future__ import annotations

from django.utils.translation import gettext_lazy, pgettext_lazy

from .rules.gate import Reason
from .rules.snapshot import Owner

OWNER = {
    Owner.VERIFIED: pgettext_lazy("owner", "verified"), Owner.RESOLVED: pgettext_lazy("owner", "resolved"),
    Owner.AMBIGUOUS: pgettext_lazy("owner", "ambiguous"), Owner.UNKNOWN: pgettext_lazy("owner", "unknown"),
}
GATE_REASON = {
    Reason.ALLOWED: gettext_lazy("allowed"), Reason.DECIDED: gettext_lazy("decided already"),
    Reason.MIXED: gettext_lazy("simulated data beside real cards"), Reason.MAINTENANCE: gettext_lazy("card out of service"),
    Reason.CLOCK: gettext_lazy("host and server clocks differ"),
    Reason.STALE: gettext_lazy("no fresh data"), Reason.COVERAGE: gettext_lazy("too few samples"),
}
