"""Asking the reader with a deadline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labgpu.agent.reading import Problem, Reading
from labgpu.agent.supervisor import ReaderSupervisor, reader_command

ROOT = Path(__file__).parents[2]
DEADLINE_S = 5.0  # of looks that are meant to succeed: long, because the machine may be busy
SHORT_S = 0.3

# Does what the file "act" says at each request. Notes its pid, so that a test can count the children.
CHILD = """
import dataclasses, os, sys, time, pathlib
from labgpu.agent.reading import Problem, Reading
here = pathlib.Path(sys.argv[1])
with open(here / "children", "a") as file:
    file.write(f"{os.getpid()}\\n")
def act():
    return (here / "act").read_text()
for line in iter(sys.stdin.buffer.readline, b""):
    (here / "asked").write_text(line.decode())
    while act() == "hang":
        time.sleep(0.01)
    if act() == "die":
        os._exit(3)
    if act() == "rubbish":
        print("Segmentation violation", flush=True)
        continue
    host = "gpu-b" if act() == "another host" else "gpu-a"
    problem = Problem("mismatch", "") if act() == "mismatch" else None
    answer = Reading(host, "b-1", int(line), time.time(), 1, "to " + line.decode().strip(), problem, False, ())
    if act() == "old first":
        print(dataclasses.replace(answer, sequence=int(line) - 1, driver="old").to_json(), flush=True)
    print(answer.to_json(), flush=True)
    (here / "answered").write_text(line.decode())
"""


class Child:
    """The play child and what it was told."""

    def __init__(self, here: Path) -> None:
        self.here = here
        (here / "child.py").write_text(CHILD)
        self.act("answer")
        self.command = [sys.executable, str(here / "child.py"), str(here)]

    def act(self, what: str) -> None:
        (self.here / "next").write_text(what)
        (self.here / "next").replace(self.here / "act")

    def pids(self) -> list[int]:
        file = self.here / "children"
        return [int(line) for line in file.read_text().split()] if file.exists() else []


@pytest.fixture
def child(tmp_path: Path) -> Child:
    return Child(tmp_path)


@pytest.fixture
def supervisor(child: Child) -> Iterator[ReaderSupervisor]:
    with ReaderSupervisor(child.command, DEADLINE_S, "gpu-a") as one:
        yield one


def wait_until(true: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        # A zombie that nobody has collected is dead all the same.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def hang(supervisor: ReaderSupervisor, child: Child) -> Reading:
    """Start the child, then let the next look hang, with a short deadline."""
    assert supervisor.read().problem is None
    child.act("hang")
    supervisor._deadline_s = SHORT_S
    return supervisor.read()


def test_no_child_is_started_before_the_first_look_and_one_serves_all(supervisor: ReaderSupervisor, child: Child) -> None:
    assert child.pids() == []
    found = [supervisor.read() for _ in range(3)]
    assert [reading.problem for reading in found] == [None] * 3
    assert [reading.driver for reading in found] == [f"to {reading.sequence}" for reading in found]
    assert [reading.sequence - found[0].sequence for reading in found] == [0, 1, 2]
    assert len(child.pids()) == 1


def test_the_sequence_keeps_growing_when_the_supervisor_is_started_anew(child: Child) -> None:
    with ReaderSupervisor(child.command, DEADLINE_S, "gpu-a", clock=lambda: 1000.0) as one:
        assert one.read().sequence == 1_000_001
    with ReaderSupervisor(child.command, DEADLINE_S, "gpu-a", clock=lambda: 1010.0) as one:
        assert one.read().sequence == 1_010_001


def test_a_look_that_hangs_is_unknown_since_it_was_asked_and_within_the_deadline(
    supervisor: ReaderSupervisor, child: Child
) -> None:
    begun = time.monotonic()
    supervisor._clock = lambda: 1796048373.9
    reading = hang(supervisor, child)
    assert reading.problem == Problem("hung", "unknown since 2026-11-30T14:19:33Z")
    assert (reading.cards, reading.driver, reading.boot_id, reading.taken_at) == ((), None, "b-1", 1796048373.9)
    assert reading.took_ms >= SHORT_S * 1000
    assert time.monotonic() - begun < SHORT_S + DEADLINE_S
    assert Reading.from_dict(reading.to_dict()) == reading


def test_while_a_look_hangs_no_second_child_is_started_and_the_first_is_not_killed(
    supervisor: ReaderSupervisor, child: Child
) -> None:
    first = hang(supervisor, child)
    begun = time.monotonic()
    again = [supervisor.read() for _ in range(5)]
    assert time.monotonic() - begun < 5 * SHORT_S  # at once: it does not wait a deadline each
    assert [reading.problem for reading in again] == [first.problem] * 5
    assert [reading.sequence - first.sequence for reading in again] == [1, 2, 3, 4, 5]
    (pid,) = child.pids()
    assert is_alive(pid)


def test_a_late_answer_is_thrown_away_and_the_child_is_used_again(supervisor: ReaderSupervisor, child: Child) -> None:
    late = hang(supervisor, child)
    child.act("answer")
    wait_until(lambda: (child.here / "answered").read_text() == f"{late.sequence}\n")
    supervisor._deadline_s = DEADLINE_S
    reading = supervisor.read()
    assert reading.problem is None
    assert reading.sequence == late.sequence + 1
    assert reading.driver == f"to {late.sequence + 1}"
    assert len(child.pids()) == 1


def test_a_stuck_child_that_has_died_is_replaced(supervisor: ReaderSupervisor, child: Child) -> None:
    hang(supervisor, child)
    os.kill(child.pids()[0], signal.SIGKILL)
    child.act("answer")
    supervisor._deadline_s = DEADLINE_S
    wait_until(lambda: not is_alive(child.pids()[0]))
    assert supervisor.read().problem is None
    assert len(child.pids()) == 2


def test_a_child_killed_between_two_looks_is_replaced_and_no_look_is_lost(supervisor: ReaderSupervisor, child: Child) -> None:
    supervisor.read()
    os.kill(child.pids()[0], signal.SIGKILL)
    wait_until(lambda: not is_alive(child.pids()[0]))
    assert supervisor.read().problem is None
    assert len(child.pids()) == 2


def test_a_child_that_dies_during_a_look_is_said_to_and_the_next_look_works(supervisor: ReaderSupervisor, child: Child) -> None:
    child.act("die")
    problem = Problem("reader_died", "the reader ended with status 3; the next look starts another")
    assert [supervisor.read().problem, supervisor.read().problem] == [problem, problem]
    child.act("answer")
    assert supervisor.read().problem is None
    assert len(child.pids()) == 3


def test_an_answer_to_another_request_is_not_taken_for_this_one(supervisor: ReaderSupervisor, child: Child) -> None:
    child.act("old first")
    found = [supervisor.read() for _ in range(2)]
    assert [reading.driver for reading in found] == [f"to {reading.sequence}" for reading in found]


def test_a_child_that_answers_rubbish_is_ended_and_replaced(supervisor: ReaderSupervisor, child: Child) -> None:
    child.act("rubbish")
    problem = supervisor.read().problem
    assert problem is not None and problem.code == "bad_answer"
    wait_until(lambda: not is_alive(child.pids()[0]))
    child.act("answer")
    assert supervisor.read().problem is None


def test_a_child_that_answers_for_another_host_is_not_believed(supervisor: ReaderSupervisor, child: Child) -> None:
    child.act("another host")
    assert supervisor.read().problem == Problem("bad_answer", "the reader answers for gpu-b, not for gpu-a")


def test_a_child_whose_library_no_longer_fits_the_driver_is_replaced(supervisor: ReaderSupervisor, child: Child) -> None:
    child.act("mismatch")
    assert supervisor.read().problem == Problem("mismatch", "")
    assert not is_alive(child.pids()[0])
    child.act("answer")
    assert supervisor.read().problem is None
    assert len(child.pids()) == 2


def test_a_command_that_cannot_be_started_is_a_problem_and_no_error() -> None:
    with ReaderSupervisor(["/nonexistent/reader"], DEADLINE_S, "gpu-a") as supervisor:
        problem = supervisor.read().problem
    assert problem is not None
    assert problem.code == "reader_died"
    assert "could not be started" in problem.detail


def test_several_threads_share_one_child_and_each_gets_its_own_answer(supervisor: ReaderSupervisor, child: Child) -> None:
    found: list[Reading] = []
    threads = [threading.Thread(target=lambda: found.append(supervisor.read())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({reading.sequence for reading in found}) == 8
    assert [reading.driver for reading in found] == [f"to {reading.sequence}" for reading in found]
    assert len(child.pids()) == 1


@pytest.mark.parametrize("stuck", [False, True])
def test_closing_leaves_no_child_behind(child: Child, stuck: bool) -> None:
    supervisor = ReaderSupervisor(child.command, DEADLINE_S, "gpu-a")
    if stuck:
        hang(supervisor, child)
    else:
        supervisor.read()
    supervisor.close()
    supervisor.close()
    (pid,) = child.pids()
    assert not is_alive(pid)


def test_what_the_supervisor_makes_up_is_marked_as_simulated_where_it_plays_a_simulation() -> None:
    with ReaderSupervisor(["/nonexistent/reader"], DEADLINE_S, "gpu-a", simulated=True) as supervisor:
        reading = supervisor.read()
    assert (reading.simulated, reading.boot_id) == (True, "")


@pytest.mark.parametrize("hanging", [False, True])
def test_after_a_fork_each_process_has_a_child_of_its_own(child: Child, hanging: bool) -> None:
    program = f"""
import os, pathlib
from labgpu.agent.supervisor import ReaderSupervisor
one = ReaderSupervisor({child.command!r}, {DEADLINE_S}, "gpu-a")
assert one.read().problem is None
expected = None
if {hanging}:
    pathlib.Path({str(child.here / "act")!r}).write_text("hang")
    one._deadline_s, expected = {SHORT_S}, "hung"
def look():
    problem = one.read().problem
    return problem and problem.code
assert look() == expected
pid = os.fork()
if pid == 0:
    found = look()
    one.close()
    os._exit(0 if found == expected else 1)
assert os.waitpid(pid, 0)[1] == 0
assert look() == expected
one.close()
"""
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=30)
    assert len(child.pids()) == 2


# The real reader as a child


def test_the_reader_is_found_wherever_the_supervisor_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with ReaderSupervisor(reader_command("gpu-a"), 2 * DEADLINE_S, "gpu-a") as supervisor:
        found = [supervisor.read() for _ in range(2)]
    assert [reading.host for reading in found] == ["gpu-a", "gpu-a"]
    assert {reading.simulated for reading in found} == {False}


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="this machine has a driver")
def test_a_host_without_a_driver_says_so_and_lives_on() -> None:
    answered = subprocess.run(reader_command("gpu-a"), cwd=ROOT, input=b"\n\n900\n", capture_output=True, check=True, timeout=30)
    found = [Reading.from_json(line) for line in answered.stdout.splitlines()]
    assert [reading.problem for reading in found] == [Problem("no_library", "NVML Shared Library Not Found")] * 3
    assert [reading.sequence for reading in found] == [1, 2, 900]
    assert answered.stderr == b""


@pytest.mark.skipif(sys.platform != "linux", reason="the parent's death is told on Linux only")
@pytest.mark.parametrize("hanging", [False, True])
def test_a_supervisor_that_is_killed_leaves_no_reader_behind(tmp_path: Path, hanging: bool) -> None:
    scenario = tmp_path / "scenario.json"
    scenario.write_text(json.dumps({"faults": [{"kind": "hang"}] if hanging else []}))
    program = f"""
import sys, time
from labgpu.agent.supervisor import ReaderSupervisor
command = [sys.executable, "-m", "labgpu.simulator", "--host", "gpu-a", "--scenario", {str(scenario)!r}]
one = ReaderSupervisor(command, 1.5, "gpu-a")
problem = one.read().problem
print(one._child.process.pid, problem and problem.code, flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid, code = parent.stdout.readline().split()
    assert code == (b"hung" if hanging else b"None")
    assert is_alive(int(pid))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not is_alive(int(pid)))


def test_what_a_driver_library_prints_does_not_land_between_the_answers() -> None:
    program = """
import os, sys
from labgpu.agent import nvml, reader
def look(self):
    os.write(1, b"NVRM: a library may print what it likes\\n")
    return ()
nvml.Nvml.look = look
sys.exit(reader.main(["--host", "gpu-a"]))
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, input=b"\n\n", capture_output=True, check=True, timeout=30)
    assert [Reading.from_json(line).sequence for line in run.stdout.splitlines()] == [1, 2]
    assert run.stderr.splitlines() == [b"NVRM: a library may print what it likes"] * 2


def test_an_interrupt_meant_for_the_supervisor_does_not_end_the_reader() -> None:
    with ReaderSupervisor(reader_command("gpu-a"), 2 * DEADLINE_S, "gpu-a") as supervisor:
        supervisor.read()
        child = supervisor._child
        assert child is not None
        child.process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        supervisor.read()
        assert supervisor._child is child
