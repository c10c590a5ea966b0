"""The ways out of a refusal that would really be booked: reads only, under no lock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..models import Member
from ..rules.refusal import Alternative, Refusal
from . import booking
from .booking import BookingRequest

_STEPS = 4  # of a way out through other refusals
_NAMES = {"start": "start", "end": "end", "project": "project_id", "tier": "tier"}


def allowed(member: Member, asked: BookingRequest, refusals: Iterable[Refusal], now: datetime) -> Iterator[Refusal]:
    """The refusals with ways out that are allowed: one that meets another refusal is followed further, and left out when it
    leads nowhere or where another leads already."""
    offered: set[tuple[object, ...]] = set()
    for refusal in refusals:
        way = refusal.alternative and _followed(member, asked, refusal.alternative, now)
        key = (way.start, way.end, way.project_id, way.tier) if way else ()
        if refusal.alternative and way and key not in offered:
            offered.add(key)
            yield replace(refusal, alternative=Alternative(_changed(asked, way, refusal.alternative)))
        else:
            yield replace(refusal, alternative=None)


def _followed(member: Member, asked: BookingRequest, way: Alternative, now: datetime) -> BookingRequest | None:
    """What the way out comes to, when it is allowed within a few steps."""
    for _step in range(_STEPS):
        asked = replace(asked, **{_NAMES[name]: value for name, value in way.values.items() if name in _NAMES})
        refusals = booking.check(member, asked, now=now)
        if not refusals:
            return asked
        further = next((one.alternative for one in refusals if one.alternative), None)
        if further is None:
            return None
        way = further
    return None


def _changed(asked: BookingRequest, way: BookingRequest, first: Alternative) -> dict[str, Any]:
    """What the button of a way out changes: the times, and project and tier where they are others."""
    values: dict[str, Any] = {}
    if (way.project_id, way.tier) == (asked.project_id, asked.tier) or (way.start, way.end) != (asked.start, asked.end):
        values |= {"start": way.start, "end": way.end}
    if way.project_id != asked.project_id:
        values |= {"project": way.project_id, "project_name": first.values.get("project_name", "")}
    if way.tier != asked.tier:
        values["tier"] = way.tier
    return values
