"""Keeps the parts running: starts them, notices a death, restarts with back-off, stops them in reverse order.

Only processes that this supervisor started are ever signalled: each child leads a process group of its own, and a
group is signalled while its leader has not yet been reaped, so that its number cannot have passed to anybody else.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO

from labgpu.run.parts import Part
from labgpu.run.plan import BASE_DIR

MOST_DEATHS = 5
DEATHS_WINDOW_S = 60.0
LONGEST_BACK_OFF_S = 8.0
LOG_BYTES = 5_000_000
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _die_with(parent: int) -> Callable[[], None]:
    """What a child does before it becomes its program: ask the kernel to end it when `parent` ends, however that ends."""

    def before_exec() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        # The parent may have ended between the fork and the line above; then nobody would ever send the signal.
        if os.getppid() != parent:
            os._exit(1)

    return before_exec


def end_with_parent() -> None:
    """The supervisor itself goes, in order, when the one that started it (`make`) is killed. Linux only."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def rotate(log: Path) -> None:
    """Keeps the last LOG_BYTES or more of a log beside the new one. Done at a start only: a running part holds it open."""
    try:
        if log.stat().st_size > LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
    except FileNotFoundError:
        pass


class Child:
    """One running part. `log` is None where its output goes to the terminal."""

    def __init__(self, part: Part, log: Path | None, *, stdout: int | IO[bytes] | None = None) -> None:
        self.part = part
        self.log = log
        output: IO[bytes] | None = None
        if log is not None:
            rotate(log)
            output = log.open("ab")
        try:
            # A session of its own: Ctrl-C in the terminal reaches the supervisor alone, which then stops parts in order.
            self.process = subprocess.Popen(
                part.command,
                cwd=BASE_DIR,
                env=dict(part.env),
                stdin=subprocess.DEVNULL,
                stdout=stdout if stdout is not None else output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_die_with(os.getpid()),  # safe: the supervisor has one thread only
            )
        finally:
            if output is not None:
                output.close()

    def ended(self) -> bool:
        """Whether the child's first process has ended. Does not reap it, so that its group can still be signalled."""
        if self.process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def bury(self) -> int:
        """Ends what is left of an ended child's group and gives its exit code."""
        if self.process.returncode is None:
            self._signal_group(signal.SIGKILL)
        return self.process.wait()

    def ask_to_stop(self) -> None:
        """TERM to the first process: each part stops its own helpers in its own order."""
        if not self.ended():
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        if self.process.returncode is None:
            self._signal_group(signal.SIGKILL)
            self.process.wait()

    def stop(self, *, hurry: Callable[[], bool] = lambda: False) -> bool:
        """Asks, waits the part's time at most (or until `hurry`), then kills. True when it went by itself."""
        self.ask_to_stop()
        end = time.monotonic() + self.part.stop_seconds
        while not self.ended() and time.monotonic() < end and not hurry():
            time.sleep(0.02)
        by_itself = self.ended()
        self.kill()
        return by_itself

    def _signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: "not permitted" for a group of zombies
            os.killpg(self.process.pid, number)


class Keeper:
    """One part kept running: restarted when it dies, given up when it dies MOST_DEATHS times in DEATHS_WINDOW_S."""

    def __init__(
        self, part: Part, log: Path | None, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.part = part
        self.log = log
        self.given_up = False
        self._say = say
        self._clock = clock
        self._deaths: deque[float] = deque()
        self._start_at: float | None = None
        self.child: Child | None = None

    def start(self) -> None:
        self.child = Child(self.part, self.log)
        self._start_at = None

    def tick(self) -> None:
        """Looks once: buries a dead child, starts one whose waiting time is over."""
        now = self._clock()
        if self.child is not None and self.child.ended():
            code = self.child.bury()
            self.child = None
            self._died(code, now)
        if self._start_at is not None and now >= self._start_at:
            self.start()

    def replace(self, part: Part) -> None:
        """Stops the part and starts it with another command; its past deaths are forgotten."""
        self.stop()
        self.part = part
        self.given_up = False
        self._deaths.clear()
        self.start()

    def stop(self, *, hurry: Callable[[], bool] = lambda: False) -> None:
        self._start_at = None
        if self.child is not None:
            if not self.child.stop(hurry=hurry):
                self._say(f"The {self.part.called} did not stop in time and was ended.")
            self.child = None

    def _died(self, code: int, now: float) -> None:
        self._deaths.append(now)
        while now - self._deaths[0] > DEATHS_WINDOW_S:
            self._deaths.popleft()
        where = f"its log is {self.log}" if self.log else "its last words are above"
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        if len(self._deaths) >= MOST_DEATHS:
            self.given_up = True
            self._say(f"The {self.part.called} stopped {MOST_DEATHS} times in a minute ({how}) and is given up: {where}.")
            return
        wait = min(2.0 ** (len(self._deaths) - 1), LONGEST_BACK_OFF_S)
        self._start_at = now + wait
        self._say(f"The {self.part.called} stopped ({how}) and starts again in {wait:.0f} s; {where}.")
