"""T4: random weeks of booking, played to the product and to a plain second reading of the law; they never differ.

Every run plays a fixed share of the sequences; `make torture` plays ten thousand (see docs/tour.md).
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import datetime
from typing import Any
from unittest.mock import patch
from zoneinfo import ZoneInfo

import pytest
from django.db import connection

from reservations.rules.lifecycle import Status
from tests.rig.model import DAY
from tests.rig.play import DAYS, Play, Rehearsal

SHARE, SHARE_AGAIN = 60, 12  # of every run, all zones together: the rules are the same on both databases
PARTS = int(os.environ.get("TORTURE_PARTS", "1"))
OFTEN = {
    "reserve", "extend", "release", "cancel", "undo", "move", "unbook", "again", "elastic", "displaced", "placed", "fee",
    "settled", "fee returned",
}


def sequences(part: int) -> range:
    """The seeds to play in each zone."""
    whole = int(os.environ.get("TORTURE", SHARE_AGAIN if connection.vendor == "postgresql" else SHARE)) // len(DAYS)
    return range(whole * part // PARTS, whole * (part + 1) // PARTS)


@pytest.mark.django_db
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("zone", DAYS)
def test_product_and_plain_model_never_differ(zone: str, part: int) -> None:
    for number in sequences(part):
        difference = Play(zone, number).run()
        assert not difference, f"sequence {number} in {zone}:\n" + "\n".join(difference)


def test_what_is_played_leaves_nothing_out() -> None:
    """By the model alone, which decides in a moment: the share of every run meets every act and consequence."""
    seen: Counter[str] = Counter()
    for zone in DAYS:
        for number in range(SHARE // len(DAYS)):
            play = Rehearsal(zone, number)
            play.run()
            seen += play.seen
    assert not OFTEN - set(seen), dict(seen)


def wall_clock_seconds(start: datetime, end: datetime) -> int:
    """The lengths that a lab would charge which subtracts what its clock shows."""
    zone = ZoneInfo("America/New_York")
    return int((end.astimezone(zone).replace(tzinfo=None) - start.astimezone(zone).replace(tzinfo=None)).total_seconds())


@pytest.mark.django_db
@pytest.mark.parametrize(
    "broken",
    [
        patch("reservations.rules.week.week_of", lambda at, zone: (at.date() - at.weekday() * DAY)),
        patch("reservations.rules.quota.whole_seconds", wall_clock_seconds),
        patch("reservations.services.held.scaled", lambda units, sign: units if sign > 0 else {}),
        patch("reservations.services.extension.status_at", lambda reservation, now: Status(reservation.status)),
        patch("reservations.services.displacing.bring_back", lambda *_: None),
        patch("reservations.rules.booking._may_be_elastic", lambda *_: False),
        patch("reservations.rules.displacement.freezes_at", lambda start, *_: start),
        patch("reservations.services.fees.keep", lambda *_: None),
        patch("tests.rig.model.Model._crowded", lambda *_: set()),
    ],
    ids=[
        "week in UTC", "hours of the wall clock", "nothing returned", "status of the last sweep", "undo leaves others out",
        "nothing elastic", "no closing hour", "no late fee", "model: no cap",
    ],
)
@pytest.mark.once
def test_control_the_model_notices_a_broken_rule(broken: Any) -> None:
    with broken:
        assert any(Play("America/New_York", number).run() for number in range(40))
