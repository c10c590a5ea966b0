"""Restarting, giving up and stopping, with small programs in place of the parts."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labgpu.run.parts import Part
from labgpu.run.supervisor import LOG_BYTES, Child, Keeper, rotate


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def part(code: str, *, stop_seconds: float = 5.0) -> Part:
    return Part("thing", "thing", (sys.executable, "-c", code), dict(os.environ), stop_seconds=stop_seconds)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def keep(tmp_path: Path, said: list[str]) -> Iterator[Callable[..., tuple[Keeper, Clock]]]:
    kept: list[Keeper] = []

    def start(code: str) -> tuple[Keeper, Clock]:
        clock = Clock()
        kept.append(Keeper(part(code), tmp_path / "thing.log", said.append, clock))
        kept[-1].start()
        return kept[-1], clock

    yield start
    for keeper in kept:
        keeper.stop()


def wait_until_ended(keeper: Keeper) -> None:
    end = time.monotonic() + 20
    while keeper.child is not None and not keeper.child.ended():
        assert time.monotonic() < end
        time.sleep(0.01)


def die(keeper: Keeper, clock: Clock) -> None:
    wait_until_ended(keeper)
    keeper.tick()


def test_waits_longer_after_each_death_and_is_given_up_after_five_in_a_minute(keep, said: list[str], tmp_path: Path) -> None:
    keeper, clock = keep("raise SystemExit(3)")
    for wait in (1, 2, 4, 8):
        die(keeper, clock)
        assert said[-1] == f"The thing stopped (exit code 3) and starts again in {wait} s; its log is {tmp_path / 'thing.log'}."
        clock.now += wait - 0.1
        keeper.tick()
        assert keeper.child is None
        clock.now += 0.2
        keeper.tick()
        assert keeper.child is not None
    die(keeper, clock)
    assert keeper.given_up
    log = tmp_path / "thing.log"
    assert said[-1] == f"The thing stopped 5 times in a minute (exit code 3) and is given up: its log is {log}."
    clock.now += 3600
    keeper.tick()
    assert keeper.child is None
    assert len(said) == 5


def test_deaths_far_apart_are_never_too_many(keep, said: list[str]) -> None:
    keeper, clock = keep("pass")
    for _ in range(7):
        die(keeper, clock)
        clock.now += 61
        keeper.tick()
    assert not keeper.given_up
    assert {line.split(" and ")[1].split(";")[0] for line in said} == {"starts again in 1 s"}


def test_what_a_dead_part_left_is_ended_before_it_starts_again(keep, tmp_path: Path) -> None:
    """A worker killed while its helpers live: two sets of them must never run."""
    pid_file = tmp_path / "helper"
    code = (
        "import subprocess, sys, os;"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        f"open({str(pid_file)!r}, 'w').write(str(p.pid)); os._exit(1)"
    )
    keeper, clock = keep(code)
    die(keeper, clock)
    helper = Path(f"/proc/{pid_file.read_text()}/stat")
    end = time.monotonic() + 5
    while helper.exists() and " Z " not in helper.read_text():
        assert time.monotonic() < end, "the helper lives on"
        time.sleep(0.02)


def test_replacing_forgets_the_deaths_and_runs_the_new_command(keep, tmp_path: Path) -> None:
    keeper, clock = keep("raise SystemExit(3)")
    for _ in range(5):
        die(keeper, clock)
        clock.now += 9
        keeper.tick()
    assert keeper.given_up
    keeper.replace(part(f"open({str(tmp_path / 'new')!r}, 'w').close()"))
    assert not keeper.given_up
    wait_until_ended(keeper)
    assert (tmp_path / "new").exists()


def test_a_part_that_does_not_listen_is_ended_in_bounded_time(tmp_path: Path, said: list[str]) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    log = tmp_path / "thing.log"
    keeper = Keeper(part(code, stop_seconds=0.5), log, said.append)
    keeper.start()
    end = time.monotonic() + 10
    while not (log.exists() and "deaf" in log.read_text()):
        assert time.monotonic() < end
        time.sleep(0.02)
    began = time.monotonic()
    keeper.stop()
    assert time.monotonic() - began < 3
    assert said == ["The thing did not stop in time and was ended."]


def test_a_child_says_what_ended_it(tmp_path: Path) -> None:
    child = Child(part("import time; time.sleep(60)"), tmp_path / "log")
    os.kill(child.process.pid, signal.SIGKILL)
    end = time.monotonic() + 5
    while not child.ended():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert child.bury() == -signal.SIGKILL
    assert child.ended()


def test_a_long_log_is_put_aside_at_a_start(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    rotate(log)
    log.write_bytes(b"x" * LOG_BYTES)
    rotate(log)
    assert log.exists()
    with log.open("ab") as file:
        file.write(b"y")
    rotate(log)
    assert not log.exists()
    assert (tmp_path / "web.log.1").stat().st_size == LOG_BYTES + 1
