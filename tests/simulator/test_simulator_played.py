"""A scenario file steered while the unchanged agent looks at it, through the same supervisor as on a real host."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labgpu.agent.nvml import pynvml
from labgpu.agent.reading import Card, Problem, Process, Reading
from labgpu.agent.supervisor import ReaderSupervisor
from labgpu.simulator.double import Double, installed
from labgpu.simulator.identities import MIB, card
from labgpu.simulator.scenario import Scenario, parse

ROOT = Path(__file__).parents[2]
A, B = card("a100-80", 0), card("rtx4090", 1)
DEADLINE_S = 10.0


class Host:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.command = [sys.executable, "-m", "labgpu.simulator", "--host", "gpu-a", "--scenario", str(path)]
        self.supervisor = ReaderSupervisor(self.command, DEADLINE_S, "gpu-a", simulated=True)

    def play(self, **data: Any) -> None:
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps({"cards": [A, B], **data}))
        beside.replace(self.path)

    def read(self) -> Reading:
        return self.supervisor.read()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    one = Host(tmp_path / "scenario.json")
    one.play()
    yield one
    one.supervisor.close()


def test_a_host_is_read_as_its_scenario_says(host: Host) -> None:
    host.play(
        boot_id="b-1",
        driver="580.95.05",
        processes=[
            {
                "pid": 4242,
                "uid": 1003,
                "card": A["uuid"],
                "memory": 1000 * MIB,
                "utilization": 50,
                "started_ticks": 777,
            }
        ],
    )
    reading = host.read()
    assert (reading.simulated, reading.boot_id, reading.driver, reading.problem) == (True, "b-1", "580.95.05", None)
    assert reading.cards == (
        Card(
            uuid=A["uuid"],
            index=0,
            name="NVIDIA A100-SXM4-80GB",
            bus_id="00000000:01:00.0",
            serial=A["serial"],
            memory_total=81920 * MIB,
            memory_used=1007 * MIB,
            utilization=50,
            encoder=0,
            decoder=0,
            temperature=49,
            power_mw=231_000,
            problem=None,
            processes=(Process(4242, 777, 1003, "C", 1000 * MIB, None),),
        ),
        Card(
            uuid=B["uuid"],
            index=1,
            name="NVIDIA GeForce RTX 4090",
            bus_id="00000000:02:00.0",
            serial=None,
            memory_total=24564 * MIB,
            memory_used=12 * MIB,
            utilization=0,
            encoder=0,
            decoder=0,
            temperature=36,
            power_mw=18_000,
            problem=None,
            processes=(),
        ),
    )


def test_the_scenario_can_be_steered_between_two_looks(host: Host) -> None:
    assert [found.processes for found in host.read().cards] == [(), ()]
    job = {"pid": 1, "uid": 1003, "card": B["uuid"], "memory": MIB}
    host.play(processes=[job])
    assert [len(found.processes or ()) for found in host.read().cards] == [0, 1]
    host.play(processes=[{**job, "until": time.time()}])
    assert [found.processes for found in host.read().cards] == [(), ()]
    host.play(cards=[{**A, "faults": [{"kind": "lost"}]}, B])
    assert [found.problem for found in host.read().cards] == [Problem("lost", "GPU is lost"), None]


@pytest.mark.parametrize("kind", ["no_library", "no_driver", "mismatch", "no_permission", "unknown_error"])
def test_a_host_in_trouble_says_so_and_is_well_when_the_trouble_is_taken_out(host: Host, kind: str) -> None:
    assert host.read().problem is None
    host.play(faults=[{"kind": kind}])
    found = [host.read() for _ in range(2)]
    assert [reading.problem and reading.problem.code for reading in found] == [kind, kind]
    assert [reading.simulated for reading in found] == [True, True]
    host.play()
    assert host.read().problem is None


def test_a_host_that_hangs_is_unknown_and_well_again_when_the_driver_lets_go(host: Host) -> None:
    assert host.read().problem is None
    host.play(faults=[{"kind": "hang"}])
    host.supervisor._deadline_s = 0.3
    found = [host.read() for _ in range(3)]
    assert [(reading.problem and reading.problem.code, reading.simulated) for reading in found] == [("hung", True)] * 3
    host.supervisor._deadline_s = DEADLINE_S
    host.play()
    end = time.monotonic() + DEADLINE_S
    while (reading := host.read()).problem is not None:
        assert reading.problem.code == "hung"
        assert time.monotonic() < end
        time.sleep(0.02)
    assert len(reading.cards) == 2


@pytest.mark.parametrize("text", [None, "{"])
def test_without_a_scenario_it_says_so_and_ends(tmp_path: Path, text: str | None) -> None:
    host = Host(tmp_path / "scenario.json")
    if text is not None:
        host.path.write_text(text)
    run = subprocess.run(host.command, cwd=ROOT, input=b"\n", capture_output=True, check=False, timeout=30)
    assert (run.returncode, run.stdout) == (2, b"")
    assert run.stderr.startswith(b"labgpu.simulator: " + bytes(host.path))


def test_its_process_table_is_gone_when_it_ends(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    assert host.read().problem is None
    assert len(list(place.iterdir())) == 1
    host.supervisor.close()
    assert list(place.iterdir()) == []


def test_the_double_is_in_place_for_the_length_of_its_block_and_leaves_nothing_behind() -> None:
    before = pynvml.nvmlLib
    with installed(Double(lambda: Scenario(driver="1"))):
        pynvml.nvmlInit()
        with installed(Double(lambda: Scenario(driver="2"))):
            pynvml.nvmlInit()
            assert pynvml.nvmlSystemGetDriverVersion() == "2"
        assert pynvml.nvmlSystemGetDriverVersion() == "1"
    assert pynvml.nvmlLib is before
    assert pynvml._nvmlGetFunctionPointer_cache == {}


def test_one_look_sees_one_moment_however_long_it_takes() -> None:
    clock = iter([100.0, 200.0, 300.0])
    moments: list[float] = []
    double = Double(Scenario, clock=lambda: next(clock), on_look=lambda scenario, now: moments.append(now))
    with installed(double):
        pynvml.nvmlInit()
        pynvml.nvmlDeviceGetCount()
        pynvml.nvmlSystemGetDriverVersion()
        pynvml.nvmlDeviceGetCount()
    assert moments == [100.0, 200.0, 300.0]


def test_a_hang_on_a_virtual_clock_lasts_until_its_end_and_takes_no_real_time() -> None:
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += 10

    played = Double(
        lambda: parse({"faults": [{"kind": "hang", "until": 150}]}),
        clock=lambda: now[0],
        sleep=sleep,
    )
    with installed(played):
        pynvml.nvmlInit()
    assert now[0] == 150.0
