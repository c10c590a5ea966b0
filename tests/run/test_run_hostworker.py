"""The worker beside the cards: one look at a host at a time, and nothing of the server in it."""

import importlib
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from celery.worker.consumer.control import Control

from labgpu import hostworker
from labgpu.broker import INGEST_TASK, SERVER_QUEUE
from tests.lab import ROOT


class Reading:
    def __init__(self, host: str) -> None:
        self.host = host

    def to_dict(self) -> dict[str, object]:
        return {"host": self.host}


class SlowReader:
    """Stands in for the reader's supervisor; it answers when told."""

    started: list["SlowReader"] = []

    def __init__(self, command: list[str], deadline_s: float, host: str, *, simulated: bool = False) -> None:
        self.command, self.deadline_s, self.host, self.simulated = command, deadline_s, host, simulated
        self.asked = threading.Event()
        self.answer = threading.Event()
        self.answer.set()
        self.closed = False
        self.threads: set[str] = set()
        SlowReader.started.append(self)

    def read(self) -> Reading:
        self.threads.add(threading.current_thread().name)
        self.asked.set()
        assert self.answer.wait(10)
        return Reading(self.host)

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def slow_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    SlowReader.started = []
    monkeypatch.setattr(hostworker, "ReaderSupervisor", SlowReader)


def test_it_starts_without_django_and_without_the_apps() -> None:
    # Not plain `django`: Celery's own library looks for its lazy strings where Django is installed.
    names = ("django.conf", "django.db", "reservations", "monitoring", "psycopg", "sqlite3", "labgpu.settings", "pynvml")
    code = f"import labgpu.hostworker, sys; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_a_second_ask_while_one_is_under_way_is_dropped() -> None:
    readers = hostworker.Readers(("alpha", "beta"), None, 5)
    assert readers.read("alpha") == {"host": "alpha"}
    (reader,) = SlowReader.started
    reader.asked.clear()
    reader.answer.clear()
    answers: list[object] = []
    first = threading.Thread(target=lambda: answers.append(readers.read("alpha")))
    first.start()
    assert reader.asked.wait(5)
    assert readers.read("alpha") is None
    assert readers.read("beta") == {"host": "beta"}, "one host's slow read must not hold up another host"
    reader.answer.set()
    first.join(5)
    assert answers == [{"host": "alpha"}]
    assert readers.read("alpha") == {"host": "alpha"}
    assert len(SlowReader.started) == 2


def test_a_reader_is_asked_from_one_lasting_thread_whichever_thread_asks() -> None:
    """The kernel ends a reader with the thread that started it; the pool's threads come and go."""
    readers = hostworker.Readers(("alpha",), None, 5)
    for _ in range(3):
        asker = threading.Thread(target=readers.read, args=("alpha",))
        asker.start()
        asker.join(10)
    (reader,) = SlowReader.started
    assert reader.threads == {"reader-alpha_0"}
    readers.close()
    assert reader.closed


def test_a_failed_read_leaves_the_next_one_free(monkeypatch: pytest.MonkeyPatch) -> None:
    readers = hostworker.Readers(("alpha",), None, 5)
    readers.read("alpha")
    monkeypatch.setattr(SlowReader.started[0], "read", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        readers.read("alpha")
    monkeypatch.undo()
    assert readers._under_way["alpha"].acquire(blocking=False)


def test_a_host_of_another_worker_is_refused(expect_logs) -> None:
    expect_logs("asked for the cards of other, which this worker does not read")
    assert hostworker.Readers(("alpha",), None, 5).read("other") is None
    assert SlowReader.started == []


def test_only_hosts_with_a_scenario_are_simulated(tmp_path: Path) -> None:
    (tmp_path / "beta.json").write_text("{}")
    real = hostworker.supervisor_for("alpha", str(tmp_path), 5)
    simulated = hostworker.supervisor_for("beta", str(tmp_path), 5)
    assert (real.simulated, real.command[2]) == (False, "labgpu.agent.reader")
    assert simulated.simulated
    assert simulated.command[1:] == ["-m", "labgpu.simulator", "--host", "beta", "--scenario", str(tmp_path / "beta.json")]


def test_a_reading_goes_to_the_server_and_is_worth_nothing_after_three_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[object, ...]] = []

    def send_task(name: str, *, args: list[object], queue: str, expires: float, ignore_result: bool) -> None:
        sent.append((name, args, queue, expires))

    monkeypatch.setattr(hostworker, "readers", hostworker.Readers(("alpha",), None, 5))
    monkeypatch.setattr(hostworker.app, "send_task", send_task)
    hostworker.read_cards.run("alpha")
    assert sent == [(INGEST_TASK, [{"host": "alpha"}], SERVER_QUEUE, 3 * hostworker.PERIOD_S)]


@pytest.mark.parametrize("application", ["labgpu.celery", "labgpu.hostworker"])
def test_nobody_with_the_broker_s_address_commands_a_worker(application: str) -> None:
    app = importlib.import_module(application).app
    broker = SimpleNamespace(supports_exchange_type=lambda kind: True)
    assert not Control.include_if(None, SimpleNamespace(app=app, conninfo=broker))


def test_the_hosts_come_from_the_environment() -> None:
    assert hostworker.hosts_from({"LABGPU_HOSTS": "a, b,"}) == ("a", "b")
    assert hostworker.hosts_from({"LABGPU_HOST": "c"}) == ("c",)
    assert len(hostworker.hosts_from({})) == 1
