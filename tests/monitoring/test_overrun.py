"""Staying on after the end, from readings to the demerit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from monitoring.models import Incident
from reservations.models import Demerit
from tests.monitoring.world import NOON, PERIOD, World, process

MINUTE = timedelta(minutes=1)
GRACE = 10 * MINUTE


@pytest.fixture
def pair(world: World) -> Any:
    """Ann holds the card until noon and runs pid 100 there; Bo has it from noon on."""
    ann, bo = world.member("ann", 2001), world.member("bo", 2002)
    mine = world.book(ann, NOON - 2 * 60 * MINUTE, NOON)
    theirs = world.book(bo, NOON, NOON + 4 * 60 * MINUTE)
    world.on[0] = [process(100, 2001)]
    return ann, bo, mine, theirs


def test_who_stays_on_while_somebody_waits_gets_one_demerit_with_its_evidence(world: World, pair: Any) -> None:
    ann, _, mine, _ = pair
    world.play(NOON - MINUTE, NOON + GRACE + 2 * PERIOD)
    demerit = Demerit.objects.get()
    assert (demerit.member, demerit.fact) == (ann, f"overrun:{mine.pk}")
    assert demerit.evidence["waiting"] is True
    assert len(demerit.evidence["samples"]) == 3
    world.play(NOON + GRACE + 3 * PERIOD, NOON + GRACE + 20 * PERIOD)
    assert Demerit.objects.count() == 1
    assert Incident.objects.get().counted_at == NOON + GRACE + 2 * PERIOD
