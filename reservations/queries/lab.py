"""The lab as values."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from django.db.models import QuerySet

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
    """The lab of this installation; before set-up, a lab with the defaults."""
    lab = next(iter(_lab()), None) or Lab()
    return LabFacts(
        lab.name, ZoneInfo(lab.zone), lab.language, Policy.from_json(lab.policy), lab.simulated, lab.set_up_at is not None,
        lab.holidays, lab.rules_version if lab.house_rules.strip() else 0, lab.show_names,
    )


@prepared
def _lab() -> QuerySet[Lab]:
    return Lab.objects.filter(pk=1)

# What was really held counts against a grant's budget: neither what was cancelled nor what was displaced.
CONSUMING = [*HOLDING_CODES, *(str(one) for one in (Status.FINISHED, Status.RELEASED, Status.FORFEITED, Status.INTERRUPTED))]

# Statuses under which a card was really had.
REALLY_HELD = [str(one) for one in (Status.ACTIVE, Status.FINISHED, Status.RELEASED, Status.FORFEITED, Status.INTERRUPTED)]
