"""Public holidays and make-up days (A5), from a kept library. A lab's own special days stand above them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from types import MappingProxyType

from chinese_calendar import constants

CALENDARS = ("cn",)


@lru_cache(maxsize=4)
def public_days(calendar: str) -> Mapping[date, bool]:
    """Date → whether it is worked, for dates that differ from their weekday; empty for a calendar that is not known.

    The library knows the years that the State Council has announced; later ones go by the weekday until it is updated or
    the lab enters them.
    """
    if calendar != "cn":
        return MappingProxyType({})
    days = dict.fromkeys(constants.holidays, False) | dict.fromkeys(constants.workdays, True)
    return MappingProxyType(days)
