"""What the tests of the law read from the accounts."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from reservations.models import CardState, Gpu, Lab, LedgerEntry, Member
from reservations.rules.policy import PRESETS
from reservations.rules.quota import UNITS_PER_GPU_HOUR
from reservations.rules.refusal import Code, Refusal, Refused
from reservations.services.sightings import Sighting, record
from tests.factories import NOW, lab

Account = LedgerEntry.Account


def charged(who: Member) -> float:
    """GPU-hours on the quota account over all weeks."""
    return sum(charged_by_week(who).values())


def charged_by_week(who: Member) -> dict[date, float]:
    weeks: dict[date, int] = {}
    for week, units in LedgerEntry.objects.filter(member=who, account=Account.QUOTA).values_list("period", "units"):
        weeks[week] = weeks.get(week, 0) + units
    return {week: units / UNITS_PER_GPU_HOUR for week, units in weeks.items() if units}


def free_hours(who: Member) -> dict[date, float]:
    """Free card-hours taken per lab day."""
    days: dict[date, int] = {}
    for day, seconds in LedgerEntry.objects.filter(member=who, account=Account.FREE).values_list("period", "units"):
        days[day] = days.get(day, 0) + seconds
    return {day: seconds / 3600 for day, seconds in days.items() if seconds}


def preset(name: str, **changes: Any) -> Lab:
    """The lab under a preset, by person, with what is named changed."""
    return lab(balanced=True, **(PRESETS[name].to_json() | {"mode": "person"} | changes))


def seen_free(*gpus: Gpu) -> None:
    """The sensor has just seen these cards free."""
    record([Sighting(gpu.pk, CardState.State.FREE, NOW) for gpu in gpus])


def codes(caught: pytest.ExceptionInfo[Refused]) -> list[Code]:
    return caught.value.codes


def only(caught: pytest.ExceptionInfo[Refused]) -> Refusal:
    (refusal,) = caught.value.refusals
    return refusal


def offered(refusal: Refusal) -> Any:
    """What the refusal offers instead, or None."""
    return refusal.alternative and refusal.alternative.values
