"""The Celery application of the worker on a card host: reads the cards of its own hosts and hands the Reading on.

It imports no Django and knows no database: whoever takes over a card host gets the broker's address and no key to the
ledger. It reads and never judges.

    celery -A labgpu.hostworker worker -Q gpu.<host> --pool threads

Environment: REDIS_URL; LABGPU_HOSTS (names separated by commas; default: this machine's short name); SAMPLE_SECONDS;
READ_DEADLINE_SECONDS; SCENARIO_DIR (a host with a file <host>.json there is simulated).
"""

import logging
import os
import socket
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from celery import Celery
from celery.signals import worker_process_shutdown, worker_shutdown
from kombu import Exchange, Queue

from labgpu.agent.supervisor import ReaderSupervisor, reader_command
from labgpu.broker import BROKER_OPTIONS, INGEST_TASK, READ_TASK, SERVER_QUEUE, host_queue

log = logging.getLogger(__name__)


def hosts_from(env: Mapping[str, str]) -> tuple[str, ...]:
    """The hosts this worker reads for."""
    named = tuple(name.strip() for name in env.get("LABGPU_HOSTS", "").split(",") if name.strip())
    return named or (env.get("LABGPU_HOST") or socket.gethostname().split(".")[0],)


def supervisor_for(host: str, scenario_dir: str | None, deadline_s: float) -> ReaderSupervisor:
    """Over the simulator where a scenario file names the host, else over the real reader."""
    scenario = Path(scenario_dir) / f"{host}.json" if scenario_dir else None
    if scenario is not None and scenario.exists():
        command = [sys.executable, "-m", "labgpu.simulator", "--host", host, "--scenario", str(scenario)]
        return ReaderSupervisor(command, deadline_s, host, simulated=True)
    return ReaderSupervisor(reader_command(host), deadline_s, host)


class Readers:
    """One reader per host, started on its first ask. Never two reads of one host at once: a second ask is dropped, for
    what it would answer is already on its way.

    Each host has one thread that lasts as long as this worker: the kernel ends a reader with the thread that started it,
    and a thread of Celery's pool ends before the readers have been closed in order."""

    def __init__(self, hosts: tuple[str, ...], scenario_dir: str | None, deadline_s: float) -> None:
        self._scenario_dir = scenario_dir
        self._deadline_s = deadline_s
        self._under_way = {host: threading.Lock() for host in hosts}
        self._threads = {host: ThreadPoolExecutor(1, thread_name_prefix=f"reader-{host}") for host in hosts}
        self._supervisors: dict[str, ReaderSupervisor] = {}

    def read(self, host: str) -> dict[str, object] | None:
        """The host's Reading as plain values; None when a read of it is under way or the host is not read here."""
        under_way = self._under_way.get(host)
        if under_way is None:
            log.error("asked for the cards of %s, which this worker does not read", host)
            return None
        if not under_way.acquire(blocking=False):
            return None
        try:
            return self._threads[host].submit(self._look, host).result()
        finally:
            under_way.release()

    def _look(self, host: str) -> dict[str, object]:
        supervisor = self._supervisors.get(host)
        if supervisor is None:
            supervisor = supervisor_for(host, self._scenario_dir, self._deadline_s)
            self._supervisors[host] = supervisor
        return supervisor.read().to_dict()

    def close(self) -> None:
        for supervisor in self._supervisors.values():
            supervisor.close()


PERIOD_S = float(os.environ.get("SAMPLE_SECONDS") or 10)
HOSTS = hosts_from(os.environ)
readers = Readers(HOSTS, os.environ.get("SCENARIO_DIR") or None, float(os.environ.get("READ_DEADLINE_SECONDS") or 5))

# No fixups: a DJANGO_SETTINGS_MODULE left in the environment would make Celery load Django.
app = Celery("labgpu.hostworker", broker=os.environ.get("REDIS_URL") or "redis://127.0.0.1:6379/0", fixups=[])
app.conf.update(BROKER_OPTIONS, timezone="UTC")
app.conf.task_queues = [Queue(name, Exchange(name), routing_key=name) for name in map(host_queue, HOSTS)]
app.conf.task_default_queue = host_queue(HOSTS[0])


@app.task(name=READ_TASK)
def read_cards(host: str) -> None:
    """Reads this host's cards once and sends the Reading to the server. A Reading that waits longer than three periods is
    dropped by the broker's reader: later ones tell more, and an old one must not pass for the present."""
    reading = readers.read(host)
    if reading is not None:
        app.send_task(INGEST_TASK, args=[reading], queue=SERVER_QUEUE, expires=3 * PERIOD_S, ignore_result=True)


@worker_shutdown.connect
@worker_process_shutdown.connect
def _close_readers(**_: object) -> None:
    readers.close()
