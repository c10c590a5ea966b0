"""The small lab of the sensor's tests."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reservations.models import Lab
from tests.monitoring.world import NOON, World


@pytest.fixture
def lab(db: None) -> Lab:
    return Lab.objects.create(pk=1, name="lab", set_up_at=NOON - timedelta(days=30), policy={"mode": "person"})


@pytest.fixture
def world(lab: Lab) -> World:
    """One host with one card, known since before noon."""
    one = World()
    one.look(NOON - timedelta(hours=3))
    return one
