"""The sensor's tasks: their names, whom they ask, and that silence is noticed."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from labgpu.broker import INGEST_TASK
from labgpu.celery import app
from monitoring import labels, tasks
from monitoring.rules.gate import Reason
from monitoring.rules.snapshot import Owner
from reservations.models import Host
from tests.monitoring.world import NOON, World

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> list[tuple[Any, ...]]:
    settings.SCENARIO_DIR, settings.THIS_HOST, settings.SAMPLE_SECONDS = tmp_path, "here", 10.0
    sent: list[tuple[Any, ...]] = []

    def send_task(name: str, *, args: list[Any], queue: str, expires: float, ignore_result: bool) -> None:
        sent.append((name, args, queue, expires))

    monkeypatch.setattr(tasks.current_app, "send_task", send_task)
    return sent


def names(asked: list[tuple[Any, ...]]) -> list[str]:
    tasks.ask_hosts()
    found = [args[0] for _, args, _, _ in asked]
    asked.clear()
    return found


def test_the_tasks_have_the_names_that_others_send() -> None:
    app.loader.import_default_modules()
    beat = {entry["task"] for entry in app.conf.beat_schedule.values() if entry["task"].startswith("monitoring.")}
    assert beat | {INGEST_TASK} == {name for name in app.tasks if name.startswith("monitoring.")}


def test_this_machine_is_asked_before_anybody_entered_it(asked: list[tuple[Any, ...]]) -> None:
    tasks.ask_hosts()
    assert asked == [("labgpu.read_cards", ["here"], "gpu.here", 10.0)]


def test_every_host_with_a_reader_is_asked(asked: list[tuple[Any, ...]]) -> None:
    Host.objects.create(name="b")
    Host.objects.create(name="unread", has_reader=False)
    assert names(asked) == ["b", "here"]
    Host.objects.create(name="here", has_reader=False)
    assert names(asked) == ["b"]


def test_simulated_hosts_are_asked_instead_and_never_beside_real_cards(
    asked: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    (tmp_path / "sim-1.json").write_text(json.dumps({}))
    (tmp_path / "sim-2.json").write_text(json.dumps({}))
    assert names(asked) == ["sim-1", "sim-2"]
    Host.objects.create(name="sim-2", simulated=True, has_reader=False)
    assert names(asked) == ["sim-1"]
    Host.objects.create(name="sim-3", simulated=True)
    (tmp_path / "sim-1.json").unlink()
    assert names(asked) == []


def test_a_real_lab_never_asks_a_scenario(asked: list[tuple[Any, ...]], tmp_path: Path) -> None:
    World().look(NOON)
    (tmp_path / "sim-1.json").write_text(json.dumps({}))
    assert names(asked) == ["a100", "here"]


def test_a_reading_is_judged_and_silence_after_it_noticed(world: World) -> None:
    with time_machine.travel(NOON, tick=False):
        tasks.ingest(world.reading(NOON))
    assert world.state() == "free"
    for silent_for, state in ((30, "free"), (31, "unknown"), (900, "unknown"), (901, "offline")):
        with time_machine.travel(NOON + timedelta(seconds=silent_for), tick=False):
            tasks.judge()
        assert world.state() == state


def test_every_code_has_its_word() -> None:
    assert set(labels.OWNER) == set(Owner)
    assert set(labels.GATE_REASON) == set(Reason)
