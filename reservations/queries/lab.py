"""The lab as values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from .. import names
from ..models import Lab
from ..prepared import prepared
from ..rules.lifecycle import HOLDING, Status
from ..rules.policy import Policy

HOLDING_CODES = [str(status) for status in HOLDING]

# What has held its cards and has ended: any of these ends starts the same grace (I4).
HELD_ONCE = [str(status) for status in (Status.FINISHED, Status.RELEASED, Status.FORFEITED, Status.INTERRUPTED)]


@dataclass(frozen=True)
class LabFacts:
    """The lab as values: name, zone, language, policy, whether its data is simulated, whether it is set up."""

    name: str
    zone: ZoneInfo
    language: str
    policy: Policy
    simulated: bool
    is_set_up: bool
    holidays: str = "cn"
    rules_version: int = 0  # of the house rules that members must have accepted; 0: the lab has none
    show_names: str = names.FULL


def lab_facts() -> LabFacts:
    """The lab of this installation as it is now; before set-up, a lab with the defaults."""
    rows = _lab()
    return _as_facts(*rows[0]) if rows else _as_facts(*(_default(name) for name in _COLUMNS))


_COLUMNS = (
    "name", "zone", "language", "policy", "simulated", "set_up_at", "holidays", "rules_version", "house_rules", "show_names",
)


@prepared
def _lab() -> QuerySet[Lab, tuple[Any, ...]]:
    # The policy as its text, which is the same for every reader until somebody changes it.
    return Lab.objects.filter(pk=1).annotate(text=Cast("policy", TextField())).values_list(
        *("text" if name == "policy" else name for name in _COLUMNS)
    )


def _default(name: str) -> Any:
    value = getattr(Lab(), name)
    return json.dumps(value) if name == "policy" else value


@lru_cache(maxsize=8)
def _as_facts(
    name: str, zone: str, language: str, policy: str, simulated: bool, set_up_at: datetime | None, holidays: str,
    rules_version: int, house_rules: str, show_names: str,
) -> LabFacts:
    """Kept by everything the row says: it is read anew each time, and understood once."""
    return LabFacts(
        name, ZoneInfo(zone), language, Policy.from_json(json.loads(policy)), simulated, set_up_at is not None, holidays,
        rules_version if house_rules.strip() else 0, show_names,
    )

# What was really held counts against a grant's budget: neither what was cancelled nor what was displaced.
CONSUMING = [*HOLDING_CODES, *(str(one) for one in (Status.FINISHED, Status.RELEASED, Status.FORFEITED, Status.INTERRUPTED))]

# Statuses under which a card was really had.
REALLY_HELD = [str(one) for one in (Status.ACTIVE, Status.FINISHED, Status.RELEASED, Status.FORFEITED, Status.INTERRUPTED)]
