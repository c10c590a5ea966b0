"""Starts many clients at once: a few processes, many clients in each, rounds that all begin at the same instant."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.rig import databases, history

ROOT = Path(__file__).resolve().parents[2]
ROUND_S = 120.0  # a hung process fails the test after this; nothing is measured by it


@dataclass
class Plan:
    """What one client does: in round i, `steps[i]` (a step, several in a row, or None for nothing)."""

    name: str
    member: int
    steps: list[Any] = field(default_factory=list)


class Crew:
    """Client processes that stay for many races. Close it; it ends only what it started."""

    def __init__(self, folder: Path, processes: int = 2) -> None:
        self._folder, self._races = folder, 0
        env = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
        self._errors = (folder / "crew.log").open("w")
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.rig.client"], cwd=ROOT, env=env, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=self._errors, text=True,
            )
            for _ in range(processes)
        ]

    def race(
        self, plans: Sequence[Plan], rounds: int, *, database: str | None = None, without: Sequence[str] = ()
    ) -> list[history.Event]:
        """Runs all plans round by round, everybody released together, and returns the whole history."""
        self._races += 1
        folder = self._folder / f"race-{self._races}"
        folder.mkdir()
        shares = [list(plans[i :: len(self._processes)]) for i in range(len(self._processes))]
        self._tell(
            [
                {
                    "do": "load", "database": database or databases.name(), "folder": str(folder), "without": list(without),
                    "plans": [vars(plan) for plan in share],
                }
                for share in shares
            ]
        )
        for number in range(rounds):
            self._tell([{"do": "round", "number": number, "at": time.monotonic() + 0.01}] * len(shares))
        self._tell([{"do": "end"}] * len(shares))
        return history.read(folder)

    def _tell(self, commands: Sequence[dict[str, Any]]) -> None:
        for process, command in zip(self._processes, commands, strict=True):
            assert process.stdin is not None
            process.stdin.write(json.dumps(command) + "\n")
            process.stdin.flush()
        for process in self._processes:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], ROUND_S)
            line = process.stdout.readline() if ready else ""
            assert line, f"a client process is gone or hangs:\n{(self._folder / 'crew.log').read_text()[-4000:]}"
            troubles = json.loads(line)["troubles"]
            assert not troubles, "\n".join(troubles)

    def close(self) -> None:
        for process in self._processes:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=10)
            process.stdout.close()
        self._errors.close()
