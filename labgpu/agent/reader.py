"""The long-lived child that looks: ``python -m labgpu.agent.reader --host NAME``.

One request line on standard input, one reading as a JSON line on standard output. A request may be a whole number: the
answer then carries it as its sequence, so that whoever asks can tell a late answer from the one awaited; otherwise the
sequence counts up. It ends with its standard input, so a supervisor that dies leaves nothing behind.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
import time
from dataclasses import replace
from typing import BinaryIO, Callable, Optional, Sequence, Tuple

from labgpu.agent.nvml import HostProblem, Nvml
from labgpu.agent.procfs import ProcFs
from labgpu.agent.reading import MAX_COUNTER, Card, Problem, Reading


def main(
    argv: Optional[Sequence[str]] = None,
    *,
    proc_root: str = "/proc",
    simulated: bool = False,
    clock: Callable[[], float] = time.time,
) -> int:
    """Serve requests until standard input ends. The keyword arguments are for the simulator, which wraps this."""
    parser = argparse.ArgumentParser(prog="labgpu.agent.reader", description="Read the cards of this host on request.")
    parser.add_argument("--host", required=True, help="the host's name in LabGPU")
    host = parser.parse_args(argv).host
    _end_with_parent()
    # Whatever a driver library prints must not land between the answers: they get the pipe for themselves.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        serve(sys.stdin.buffer, answers, Reader(host, Nvml(), ProcFs(proc_root), simulated=simulated, clock=clock))
    except BrokenPipeError:
        os.close(answers.fileno())  # nobody listens any more; closing the file would try to write again
    return 0


class Reader:
    """Takes readings of this host. Not thread-safe; use it in the process that made it."""

    def __init__(
        self,
        host: str,
        nvml: Nvml,
        procfs: ProcFs,
        *,
        simulated: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._host = host
        self._nvml = nvml
        self._procfs = procfs
        self._simulated = simulated
        self._clock = clock
        self._sequence = 0

    def read(self, sequence: Optional[int] = None) -> Reading:
        """One look at all cards. What the driver or /proc refuses becomes a problem in the reading, never an error."""
        self._sequence = self._sequence + 1 if sequence is None else sequence
        taken_at = self._clock()
        begun = time.monotonic()
        problem: Optional[Problem] = None
        cards: Tuple[Card, ...] = ()
        driver: Optional[str] = None
        try:
            cards = tuple(self._with_owners(card) for card in self._nvml.look())
            driver = self._nvml.driver()
        except HostProblem as error:
            problem = error.problem
        return Reading(
            host=self._host,
            boot_id=self._procfs.boot_id(),
            sequence=self._sequence,
            taken_at=taken_at,
            took_ms=round((time.monotonic() - begun) * 1000),
            driver=driver,
            problem=problem,
            simulated=self._simulated,
            cards=cards,
        )

    def _with_owners(self, card: Card) -> Card:
        if not card.processes:
            return card
        found = []
        for process in card.processes:
            owner = self._procfs.owner(process.pid)
            found.append(replace(process, started=owner.started, uid=owner.uid, problem=owner.problem))
        return replace(card, processes=tuple(found))


def serve(requests: BinaryIO, answers: BinaryIO, reader: Reader) -> None:
    """Answer each line of ``requests`` with one line in ``answers``, until the requests end."""
    for line in iter(lambda: requests.readline(64), b""):
        answers.write(reader.read(_asked_sequence(line)).to_json().encode("ascii") + b"\n")
        answers.flush()


def _asked_sequence(line: bytes) -> Optional[int]:
    text = line.strip()
    if not text.isdigit():
        return None
    return min(int(text), MAX_COUNTER)


def _end_with_parent() -> None:
    if not sys.stdin.isatty():
        # Ctrl-C in a terminal reaches the whole group; the supervisor decides, and its end closes our standard input.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        # Reading the end of standard input is not enough for a look that hangs inside the library.
        # Linux sends it when the *thread* that started us ends; the supervisor then simply starts another reader.
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, int(signal.SIGKILL), 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
