"""Processes that work until they are killed: `kill -9` at any instant, and the next one takes their place at once.

`python -m tests.rig.faults` is the nursery: it has loaded everything, has no thread and no connection, and forks one
process per order, so that a new one works after milliseconds. Only what was forked here is ever signalled, by its number.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class Nursery:
    """Starts, kills and stops working processes. `jobs` are functions of `tests.rig.jobs`."""

    def __init__(self, log: Path, env: dict[str, str]) -> None:
        self.log, self.alive, self.killed = log, set[int](), 0
        self._log = log.open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.rig.faults"], cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._log, text=True,
        )

    def _ask(self, **order: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the nursery is gone:\n{self.log.read_text()[-4000:]}"
        return json.loads(line)

    def start(self, job: str, **arguments: Any) -> int:
        pid = int(self._ask(start=job, arguments=arguments))
        self.alive.add(pid)
        return pid

    def kill(self, pid: int) -> None:
        """`kill -9`: no handler runs, nothing is flushed, no lock is given back by hand."""
        self._end(pid, signal.SIGKILL)
        self.killed += 1

    def stop(self, pid: int) -> int:
        """Asks to finish; returns the exit status."""
        return self._end(pid, signal.SIGTERM)

    def _end(self, pid: int, number: signal.Signals) -> int:
        assert pid in self.alive
        os.kill(pid, number)  # not reaped before we ask, so the number is still its own
        self.alive.discard(pid)
        return int(self._ask(reap=pid))

    def close(self) -> None:
        for pid in list(self.alive):
            self._end(pid, signal.SIGKILL)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=20)
        self._process.stdout.close()
        self._log.close()


class VirtualClock:
    """A clock that all processes share and that runs faster: it starts at `base` and passes `speed` seconds a second."""

    def __init__(self, base: str, epoch: float, speed: float) -> None:
        from datetime import datetime

        self.base, self.epoch, self.speed = datetime.fromisoformat(base), epoch, speed

    def now(self) -> Any:
        from datetime import timedelta

        return self.base + timedelta(seconds=(time.monotonic() - self.epoch) * self.speed)


def _child(job: str, arguments: dict[str, Any]) -> None:
    from tests.rig import jobs

    status = 1
    try:
        getattr(jobs, job)(**arguments)
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def main() -> None:
    import tests.rig.jobs  # noqa: F401  (loaded once, before any fork)

    children: set[int] = set()
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        if "start" in order:
            pid = os.fork()
            if not pid:
                os.close(0)
                _child(order["start"], order["arguments"])
            children.add(pid)
            answer = pid
        else:
            _, status = os.waitpid(order["reap"], 0)
            children.discard(order["reap"])
            answer = os.waitstatus_to_exitcode(status)
        print(answer, flush=True)
    for pid in children:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
