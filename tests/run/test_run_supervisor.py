"""All parts really start under one supervisor, and really end with it."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab import ROOT, Lab, free_port, parent_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and relies on the kernel's parent-death signal")

PARTS = ("gunicorn", "labgpu.celery worker", "labgpu.hostworker worker", "labgpu.celery beat", "valkey-server")


def wait_until_all_work(lab: Lab) -> None:
    """Up, and the worker has its processes: what is stopped or killed then is a lab in full work, not one half started."""
    lab.wait_until_up()

    def has_processes() -> bool:
        worker = _part_or_none(lab, "labgpu.celery worker")
        return worker is not None and sum(parent_of(number) == worker for number in lab.processes()) == 2

    wait_for(has_processes, 30, "the server's worker has no processes")


def wait_for(condition: Callable[[], object], timeout_s: float, what: str) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def said(lab: Lab, piece: str) -> list[str]:
    return [line for line in lab.lines if piece in line]


def test_one_command_starts_all_parts_and_term_leaves_none(start_lab: Callable[..., Lab], tmp_path: Path) -> None:
    lab = start_lab(data_dir=tmp_path / "a folder with spaces")
    wait_until_all_work(lab)
    assert lab.status_of("/health") == 200
    for piece in PARTS:
        lab.part(piece)
    assert said(lab, lab.address)
    wait_for(lambda: said(lab, "Set it up here (one time): " + lab.address), 5, "no set-up link")
    mode = stat.S_IMODE(lab.data_dir.stat().st_mode)
    assert (mode, stat.S_IMODE((lab.data_dir / "secret_key").stat().st_mode)) == (0o700, 0o600)
    began = time.monotonic()
    lab.process.send_signal(signal.SIGTERM)
    time.sleep(0.6)
    # `make` and the kernel send it again; that must not end in haste what is stopping in order.
    assert lab.stop(signal.SIGTERM) == 0
    assert time.monotonic() - began < 30
    assert lab.wait_until_gone(1) == {}
    assert not said(lab, "did not stop in time"), lab.lines
    with sqlite3.connect(lab.data_dir / "labgpu.sqlite3") as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_killed_supervisor_leaves_no_process(start_lab: Callable[..., Lab]) -> None:
    lab = start_lab()
    wait_until_all_work(lab)
    for piece in PARTS:
        lab.part(piece)
    lab.process.kill()
    assert lab.wait_until_gone(25) == {}


def test_a_supervisor_killed_while_it_prepares_leaves_no_process(start_lab: Callable[..., Lab]) -> None:
    lab = start_lab()
    wait_for(lambda: any("manage.py prepare" in command for command in lab.processes().values()), 20, "never prepared")
    lab.process.kill()
    assert lab.wait_until_gone(15) == {}


def test_a_second_supervisor_on_the_same_folder_is_refused_and_harms_nothing(start_lab: Callable[..., Lab]) -> None:
    lab = start_lab()
    lab.wait_until_up()
    second = start_lab(data_dir=lab.data_dir)
    assert second.process.wait(timeout=20) == 2
    wait_for(lambda: second.lines, 5, "said nothing")
    assert len(second.lines) == 1
    assert "already runs on the data folder" in second.lines[0]
    assert str(lab.process.pid) in second.lines[0]
    assert lab.status_of("/health") == 200


def test_the_card_worker_follows_the_simulated_hosts(start_lab: Callable[..., Lab]) -> None:
    lab = start_lab(LABGPU_HOST="realhost")
    lab.wait_until_up()
    wait_for(lambda: _queues(lab) == "gpu.realhost", 20, "this machine is not read")
    folder = lab.data_dir / "scenarios"
    folder.mkdir()
    for name in ("sim-b.json", "sim-a.json"):
        (folder / name).write_text("{}")
    wait_for(lambda: _queues(lab) == "gpu.sim-a,gpu.sim-b", 20, "the new hosts are not read")
    for path in folder.iterdir():
        path.unlink()
    wait_for(lambda: _queues(lab) == "gpu.realhost", 20, "this machine is not read again")
    assert not said(lab, "card worker stopped"), lab.lines
    assert lab.stop() == 0
    assert lab.wait_until_gone(1) == {}


def _queues(lab: Lab) -> str | None:
    commands = [command for command in lab.processes().values() if "labgpu.hostworker worker" in command]
    return commands[0].split(" -Q ")[1].split()[0] if len(commands) == 1 else None


def test_a_part_that_dies_is_started_again_and_said_in_one_line(start_lab: Callable[..., Lab]) -> None:
    lab = start_lab()
    lab.wait_until_up()
    before = {piece: lab.part(piece) for piece in ("labgpu.celery worker", "gunicorn", "valkey-server")}
    for number in before.values():
        os.kill(number, signal.SIGKILL)
    for called in ("server's worker", "site", "broker"):
        line = lab.wait_for_line(f"The {called} stopped (signal 9) and starts again in 1 s", 10)
        assert str(lab.data_dir / "log") in line

    def all_new() -> bool:
        running = [n for n, command in lab.processes().items() if any(piece in command for piece in before)]
        return not set(before.values()) & set(running) and all(_part_or_none(lab, piece) for piece in before)

    wait_for(all_new, 20, "not started again")
    wait_for(lambda: _health(lab) == 200, 30, "the site does not answer again")
    assert lab.stop() == 0


def _part_or_none(lab: Lab, piece: str) -> int | None:
    try:
        return lab.part(piece)
    except AssertionError:
        return None


def _health(lab: Lab) -> int:
    try:
        return lab.status_of("/health")
    except OSError:
        return 0


def test_a_child_of_make_goes_when_make_is_killed(tmp_path: Path) -> None:
    """`make run` killed is a killed parent too."""
    port = str(free_port())
    env = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    env |= {"DATA_DIR": str(tmp_path / "lab"), "PORT": port}
    code = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'labgpu.run', '--end-with-parent'])"
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    lab = object.__new__(Lab)
    lab.data_dir = tmp_path / "lab"
    try:
        assert parent.stdout is not None
        for line in parent.stdout:
            if "LabGPU runs at" in line:
                break
        parent.kill()
        parent.wait()
        left = lab.wait_until_gone(30)
    finally:
        parent.kill()
        for number in lab.processes():
            os.kill(number, signal.SIGKILL)
        if parent.stdout is not None:
            parent.stdout.close()
    assert left == {}
