"""A directory tree that reads like /proc for the processes of a scenario."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from labgpu.simulator.scenario import Scenario


class FakeProc:
    """Keeps the tree under ``root`` in step with a scenario. ``root`` must be its own: entries are removed from it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._written: dict[int, tuple[int, int]] = {}
        self._boot_id: str | None = None

    def follow(self, scenario: Scenario, now: float) -> None:
        """Write what is there at ``now`` and remove what is not any more."""
        if scenario.boot_id != self._boot_id:
            file = self._root / "sys/kernel/random/boot_id"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(scenario.boot_id + "\n", "ascii")
            self._boot_id = scenario.boot_id
        wanted = {p.pid: (p.uid, p.started_ticks) for p in scenario.running(now) if not p.gone}
        for pid in [pid for pid, facts in self._written.items() if wanted.get(pid) != facts]:
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(self._root / str(pid))
            del self._written[pid]
        for pid, facts in wanted.items():
            if pid not in self._written:
                self._write(pid, *facts)
                self._written[pid] = facts

    def _write(self, pid: int, uid: int, started_ticks: int) -> None:
        entry = self._root / str(pid)
        entry.mkdir(parents=True, exist_ok=True)
        # As the kernel writes it: the command in parentheses, here with both traps in it, and the start as field 22.
        before_start = ["S", "1", str(pid), str(pid), *["0"] * 15]
        fields = " ".join([*before_start, str(started_ticks), *["0"] * 30])
        (entry / "stat").write_text(f"{pid} (python train) x) {fields}\n", "ascii")
        (entry / "status").write_text(
            f"Name:\tpython train) x\nPid:\t{pid}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n", "ascii"
        )
