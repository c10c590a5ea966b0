"""Whose eyes read it: language, zone and clock of one person, for what leaves without a request of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils import timezone, translation

from . import labels, names, queries
from .models import Member
from .queries import LabFacts


@contextmanager
def read_by(member: Member, lab: LabFacts) -> Iterator[ZoneInfo]:
    """Words, numbers and times as this member reads them: their language and zone, else the lab's (K3)."""
    language = member.language if member.language in dict(settings.LANGUAGES) else lab.language
    zone = zone_of(member, lab)
    with translation.override(language), timezone.override(zone), names.shown_as(lab.show_names):
        yield zone


def zone_of(member: Member, lab: LabFacts) -> ZoneInfo:
    """The member's own zone where they have chosen one, else the lab's."""
    return queries.zone_of(member, lab.zone)


def near(value: datetime, now: datetime) -> str:
    """The time of day when it falls on the reader's today, else with its date."""
    same_day = timezone.localtime(value).date() == timezone.localtime(now).date()
    return labels.clock(value) if same_day else labels.instant(value)


def zone_words(zone: ZoneInfo, now: datetime) -> str:
    """The zone by name and distance: Asia/Shanghai (UTC+08:00)."""
    offset = now.astimezone(zone).strftime("%z")
    return f"{zone.key} (UTC{offset[:3]}:{offset[3:]})"
