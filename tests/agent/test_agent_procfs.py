"""Who owns a pid."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labgpu.agent import procfs
from labgpu.agent.procfs import Owner, ProcFs

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs a Linux /proc")

FIELDS_AFTER_THE_COMMAND = "S 1 7 7 0 -1 4194304 90 0 0 0 5 1 0 0 20 0 1 0 81234 1000 20 18446744073709551615"


def process(root: Path, pid: int, stat: str | None, status: str | None) -> None:
    entry = root / str(pid)
    entry.mkdir()
    if stat is not None:
        (entry / "stat").write_text(stat)
    if status is not None:
        (entry / "status").write_text(status)


def test_this_very_process_is_mine() -> None:
    owner = ProcFs().owner(os.getpid())
    assert (owner.uid, owner.problem) == (os.getuid(), None)
    assert owner.started is not None and owner.started > 0


def test_the_boot_has_the_kernels_name() -> None:
    assert ProcFs().boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_a_boot_that_cannot_be_read_has_no_name(tmp_path: Path) -> None:
    assert ProcFs(str(tmp_path)).boot_id() == ""


def test_a_process_that_has_ended_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert ProcFs().owner(child.pid) == Owner(None, None, "gone")


def test_a_command_with_blanks_and_parentheses_hides_no_field(tmp_path: Path) -> None:
    process(tmp_path, 7, f"7 (a) (b) 9) {FIELDS_AFTER_THE_COMMAND}", "Name:\ta\nUid:\t1003\t1003\t1003\t1003\n")
    process(tmp_path, 8, f"8 (x) y) {FIELDS_AFTER_THE_COMMAND}", "Uid:\t0\t1003\t1003\t1003\n")
    assert ProcFs(str(tmp_path)).owner(7) == Owner(1003, 81234, None)
    assert ProcFs(str(tmp_path)).owner(8) == Owner(0, 81234, None)


@pytest.mark.parametrize(
    ("stat", "status"),
    [
        ("", "Uid:\t1\t1\t1\t1\n"),
        ("7 (a", "Uid:\t1\t1\t1\t1\n"),
        ("7 (a) S 1", "Uid:\t1\t1\t1\t1\n"),
        (f"7 (a) {FIELDS_AFTER_THE_COMMAND}", "Name:\ta\n"),
        (f"7 (a) {FIELDS_AFTER_THE_COMMAND}", "Uid:\troot\n"),
    ],
)
def test_an_entry_that_makes_no_sense_is_unreadable_and_not_root(tmp_path: Path, stat: str, status: str) -> None:
    process(tmp_path, 7, stat, status)
    assert ProcFs(str(tmp_path)).owner(7) == Owner(None, None, "unreadable")


def test_an_entry_that_may_not_be_read_is_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process(tmp_path, 7, "", "")

    def refuse(directory: int, name: str) -> bytes:
        raise PermissionError(13, name)

    monkeypatch.setattr(procfs, "_read", refuse)
    assert ProcFs(str(tmp_path)).owner(7) == Owner(None, None, "denied")


def test_a_process_hidden_from_us_is_denied_and_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> int:
        raise FileNotFoundError

    def not_ours(pid: int, signal: int) -> None:
        assert signal == 0
        raise PermissionError

    monkeypatch.setattr(os, "open", missing)
    monkeypatch.setattr(os, "kill", not_ours)
    assert ProcFs().owner(4242).problem == "denied"


def test_a_pid_given_away_during_the_look_up_does_not_name_the_newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process(tmp_path, 7, f"7 (a) {FIELDS_AFTER_THE_COMMAND}", "Uid:\t1003\t1003\t1003\t1003\n")
    really_read = procfs._read

    def read(directory: int, name: str) -> bytes:
        found = really_read(directory, name)
        if name == "stat":
            shutil.rmtree(tmp_path / "7")
            process(tmp_path, 7, "", "Uid:\t2002\t2002\t2002\t2002\n")
        return found

    monkeypatch.setattr(procfs, "_read", read)
    assert ProcFs(str(tmp_path)).owner(7) == Owner(None, None, "gone")
