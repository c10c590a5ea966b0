"""The health address about readings: each host counts for itself."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from reservations.models import CardState, Gpu, Host
from tests import factories as make


def _read(gpu: Gpu, *, minutes_ago: float = 0, state: str = "free") -> None:
    at = timezone.now() - timedelta(minutes=minutes_ago)
    CardState.objects.update_or_create(gpu=gpu, defaults={"state": state, "since": at, "sampled_at": at})


def _samples(client: Client) -> dict[str, Any]:
    line: dict[str, Any] = client.get(reverse("health")).json()["checks"]["samples"]
    return line


@pytest.fixture
def two(db: None) -> tuple[Gpu, Gpu]:
    make.lab()
    return make.cards(1)[0], make.cards(1)[0]


def test_a_host_that_fell_silent_does_not_hide_behind_another(two: tuple[Gpu, Gpu], client: Client) -> None:
    _read(two[0])
    _read(two[1])
    assert _samples(client)["state"] == "ok"
    _read(two[1], minutes_ago=2)
    line = _samples(client)
    assert (line["state"], line["silent"], round(line["seconds_ago"])) == ("red", 1, 120)


def test_a_card_judged_offline_just_now_is_no_reading(two: tuple[Gpu, Gpu], client: Client) -> None:
    _read(two[0])
    _read(two[1], state="offline")
    assert _samples(client)["state"] == "red"


def test_a_host_that_nobody_reads_is_not_waited_for(two: tuple[Gpu, Gpu], client: Client) -> None:
    _read(two[0])
    Host.objects.filter(pk=two[1].host_id).update(has_reader=False)
    assert _samples(client)["state"] == "ok"
