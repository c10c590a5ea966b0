"""From the driver's binding to the ledger: the simulator's reader, the supervisor, ingest and judgement in one line."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from labgpu.agent.supervisor import ReaderSupervisor
from monitoring.services.ingest import Outcome, ingest
from reservations.models import CardState, HostAccount
from tests.monitoring.world import MIB, PERIOD, World

pytestmark = pytest.mark.usefixtures("lab")


def test_a_played_host_shows_each_state_its_scenario_has(tmp_path: Path) -> None:
    cards = [
        {"uuid": f"GPU-{name}", "name": "NVIDIA L40S", "memory_total": 46068 * MIB, "baseline": baseline, "faults": faults}
        for name, baseline, faults in (
            ("free", 3 * MIB, []), ("used", 3 * MIB, []), ("unbooked", 3 * MIB, []), ("root", 3 * MIB, []),
            ("leak", 9000 * MIB, []), ("lost", 3 * MIB, [{"kind": "lost"}]), ("list", 3 * MIB, []), ("late", 3 * MIB, []),
        )
    ]
    cards[6]["not_supported"] = ["processes"]
    processes = [
        {"pid": 100 + place, "uid": uid, "card": f"GPU-{name}", "memory": 5000 * MIB, "utilization": 80}
        for place, (name, uid) in enumerate([("used", 2001), ("unbooked", 2001), ("root", 0), ("late", 2001)])
    ]
    scenario = tmp_path / "sim.json"
    scenario.write_text(json.dumps({"cards": cards, "processes": processes}))
    command = [sys.executable, "-m", "labgpu.simulator", "--host", "sim", "--scenario", str(scenario)]
    now = timezone.now()
    world = World(host="sim", simulated=True)
    with ReaderSupervisor(command, 30, "sim", simulated=True) as supervisor:
        assert ingest(supervisor.read().to_dict(), now=timezone.now(), period=PERIOD) == Outcome.STORED
        ann = world.member("ann", 2001)
        gpus = {state.gpu.uuid: state.gpu for state in CardState.objects.select_related("gpu")}
        hour = timedelta(hours=1)
        for uuid, start, end in (("GPU-used", now - hour, now + hour), ("GPU-late", now - 2 * hour, now - hour / 12)):
            world.book(ann, start, end, gpus=(gpus[uuid],))
        assert ingest(supervisor.read().to_dict(), now=timezone.now(), period=PERIOD) == Outcome.STORED
    assert HostAccount.objects.count() == 1
    assert {state.gpu.uuid[4:]: state.state for state in CardState.objects.select_related("gpu")} == {
        "free": "free", "used": "in_use", "unbooked": "unbooked", "root": "unknown", "leak": "not_visible",
        "lost": "offline", "list": "unknown", "late": "overrun",
    }
    assert all(CardState.objects.values_list("simulated", flat=True))
