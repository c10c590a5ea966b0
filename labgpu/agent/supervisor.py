"""Asks the reader with a deadline, because a driver in trouble may never answer.

At most one child is ever stuck and none is started beside it: a second would hang on the same driver, and a third. It
is not killed either: the signal waits behind the hung call anyway, and a driver interrupted half-way can take the host
with it. When it answers after all, that stale answer is thrown away and the child is used again.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Callable, List, Optional, Sequence, Union, cast

from labgpu.agent.procfs import ProcFs
from labgpu.agent.reading import MAX_TOOK_MS, BadReading, Problem, Reading, printable

_MOST_BYTES = 64 * 1024 * 1024  # of one answer: a child that never ends its line must not eat the host's memory


def reader_command(host: str) -> List[str]:
    """The command that starts the reader of this host's cards."""
    return [sys.executable, "-m", "labgpu.agent.reader", "--host", host]


class ReaderSupervisor:
    """One reader child and its pipe. Thread-safe: one look at a time, the others wait for it.

    ``command`` starts a reader (or the simulator) for ``host``; it can import ``labgpu`` wherever it is started.
    ``deadline_s`` is how long one look may take, the child's start included. ``simulated`` marks readings which the
    supervisor itself makes before the child has answered once. ``close`` it, or use it as a context manager.
    """

    def __init__(
        self,
        command: Sequence[str],
        deadline_s: float,
        host: str,
        *,
        simulated: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._command = list(command)
        self._deadline_s = deadline_s
        self._host = host
        self._simulated = simulated
        self._clock = clock
        self._lock = threading.Lock()
        self._child: Optional[_Child] = None
        self._owner = os.getpid()
        # From the clock, so that it keeps growing when this process is started anew.
        self._sequence = int(clock() * 1000)
        self._boot_id: Optional[str] = None

    def __enter__(self) -> ReaderSupervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self) -> Reading:
        """One look, within about ``deadline_s``; at once while a look hangs. Never raises for what the child does.

        Problems it adds itself, all without cards: ``hung``, ``reader_died``, ``bad_answer``. ``sequence`` grows by one
        with each reading.
        """
        with self._lock:
            self._sequence += 1
            asked_at, begun = self._clock(), time.monotonic()
            answer = self._hanging() or self._ask(begun + self._deadline_s, asked_at)
            if isinstance(answer, Problem):
                return self._without_cards(answer, asked_at, begun)
            self._boot_id, self._simulated = answer.boot_id, answer.simulated
            return answer

    def close(self) -> None:
        """End the child: by the end of its input, or by force if it does not. The supervisor may be used again."""
        with self._lock:
            child, self._child = self._child, None
            if child is not None and self._owner == os.getpid():
                child.end(patience_s=1.0)

    def _hanging(self) -> Optional[Problem]:
        """The problem while a look still hangs; None when a child can be asked. Throws a late answer away."""
        if self._owner != os.getpid():
            # After a fork the child and its pipe belong to the other process: asking it would mix up the answers.
            self._owner, self._child = os.getpid(), None
        child = self._child
        if child is None or child.stuck_since is None:
            return None
        line = child.line(time.monotonic())
        if line is None:
            return _hung_since(child.stuck_since)
        child.stuck_since = None
        if not line:
            self._end(child)
        return None

    def _ask(self, until: float, asked_at: float) -> Union[Reading, Problem]:
        try:
            child = self._ready_child()
        except OSError as error:
            return Problem("reader_died", printable(f"the reader could not be started: {error}"))
        if not child.ask(self._sequence):
            return self._died(child)
        while True:
            line = child.line(until)
            if line is None:
                child.stuck_since = asked_at
                return _hung_since(asked_at)
            if not line:
                return self._died(child)
            try:
                answer = Reading.from_json(line)
            except BadReading as error:
                return self._rubbish(child, str(error))
            if answer.host != self._host:
                return self._rubbish(child, f"the reader answers for {answer.host}, not for {self._host}")
            if answer.sequence == self._sequence:
                if answer.problem is not None and answer.problem.code == "mismatch":
                    # A process keeps the library it has loaded: only a new one gets what goes with the new driver.
                    self._end(child)
                return answer

    def _ready_child(self) -> _Child:
        child = self._child
        if child is not None and child.process.poll() is not None:
            self._end(child)  # ended between two looks: nothing was lost, start another
            child = None
        if child is None:
            child = self._child = _Child(self._command)
        return child

    def _died(self, child: _Child) -> Problem:
        status = self._end(child)
        return Problem("reader_died", f"the reader ended with status {status}; the next look starts another")

    def _rubbish(self, child: _Child, why: str) -> Problem:
        self._end(child)  # it answers, so it is not inside the driver: ending it is safe
        return Problem("bad_answer", printable(why))

    def _end(self, child: _Child) -> Optional[int]:
        self._child = None
        return child.end(patience_s=0.2)

    def _without_cards(self, problem: Problem, taken_at: float, begun: float) -> Reading:
        if self._boot_id is None and not self._simulated:
            self._boot_id = ProcFs().boot_id()
        return Reading(
            host=self._host,
            boot_id=self._boot_id or "",
            sequence=self._sequence,
            taken_at=taken_at,
            took_ms=min(MAX_TOOK_MS, round((time.monotonic() - begun) * 1000)),
            driver=None,
            problem=problem,
            simulated=self._simulated,
            cards=(),
        )


class _Child:
    """One reader process, its pipe, and what it has said so far."""

    def __init__(self, command: Sequence[str]) -> None:
        # -m finds the package wherever we were found: a checkout, site-packages or a zip archive.
        home = str(Path(__file__).parents[2])
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        self.stuck_since: Optional[float] = None  # epoch seconds when the unanswered request was made
        self._requests = cast(IO[bytes], self.process.stdin)
        self._answers = cast(IO[bytes], self.process.stdout)
        self._said = b""

    def ask(self, sequence: int) -> bool:
        """Send a request; False when nobody is there to take it."""
        try:
            self._requests.write(b"%d\n" % sequence)
        except OSError:
            return False
        return True

    def line(self, until: float) -> Optional[bytes]:
        """The next line; b"" when the child has ended or never ends its line; None when ``until`` has passed."""
        pipe = self._answers.fileno()
        # poll, not select: a worker with over a thousand open files would make select fail.
        watch = select.poll()
        watch.register(pipe, select.POLLIN)
        while b"\n" not in self._said:
            if not watch.poll(max(0.0, until - time.monotonic()) * 1000):
                return None
            piece = os.read(pipe, 1 << 20)
            if not piece or len(self._said) > _MOST_BYTES:
                return b""
            self._said += piece
        line, _, self._said = self._said.partition(b"\n")
        return line + b"\n"

    def end(self, patience_s: float) -> Optional[int]:
        """Close the pipe, wait, then kill. The exit status; None when it hangs in the kernel and ends when let go."""
        self._requests.close()
        self._answers.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(timeout=patience_s)
        self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(timeout=1.0)
        return None


def _hung_since(epoch: float) -> Problem:
    since = datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Problem("hung", "unknown since " + since)
