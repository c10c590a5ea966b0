"""What is to be started and where: read from the environment and checked before anything is made or begun.

Standard library only: these checks answer before a single package has been imported.
"""

import errno
import fcntl
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from labgpu.run.trouble import Trouble

BASE_DIR = Path(__file__).resolve().parent.parent.parent
DATABASE_SCHEMES = ("sqlite", "postgres", "postgresql")
EMAIL_SCHEMES = ("smtp", "smtps", "smtp+tls", "smtp+ssl")
DEBUG_EMAIL_SCHEMES = ("consolemail", "filemail", "memorymail", "dummymail")
BROKER_SCHEMES = ("redis", "rediss", "redis+socket")
POSITIVE_NUMBERS = ("SWEEP_SECONDS", "SAMPLE_SECONDS", "READ_DEADLINE_SECONDS")
COUNTS = {"WEB_PROCESSES": 2, "WEB_THREADS": 8, "WORKER_PROCESSES": 2}


@dataclass(frozen=True)
class Plan:
    """One start of LabGPU. `broker_url` is None where the embedded broker serves; `host_name` names this machine's cards."""

    data_dir: Path
    bind_host: str
    port: int
    site_url: str
    host_name: str
    broker_url: str | None
    counts: Mapping[str, int]
    log_level: str
    demo: bool = False
    verbose: bool = False

    @property
    def log_dir(self) -> Path:
        return self.data_dir / "log"

    @property
    def scenario_dir(self) -> Path:
        return self.data_dir / "scenarios"

    @property
    def health_address(self) -> tuple[str, int]:
        """Where this machine reaches its own site: a site bound to every address is asked on the loopback one."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.bind_host, self.bind_host), self.port  # noqa: S104


def read_plan(env: Mapping[str, str], *, demo: bool = False, verbose: bool = False) -> Plan:
    """The plan that these environment variables ask for; an empty variable counts as not set. Raises Trouble."""
    port = _port(env.get("PORT") or "8000")
    bind_host = env.get("HOST") or "127.0.0.1"
    data_dir = Path(env.get("DATA_DIR") or BASE_DIR / "var" / ("demo" if demo else "lab")).absolute()
    _check_database_url(env.get("DATABASE_URL", ""))
    _check_email_url(env.get("EMAIL_URL", ""))
    for name in POSITIVE_NUMBERS:
        _check_positive(name, env.get(name, ""))
    shown_host = f"[{bind_host}]" if ":" in bind_host else bind_host
    here = "127.0.0.1" if bind_host in {"0.0.0.0", "::"} else shown_host  # noqa: S104
    return Plan(
        data_dir=data_dir,
        bind_host=bind_host,
        port=port,
        site_url=_site_url(env.get("SITE_URL") or f"http://{here}:{port}"),
        host_name=env.get("LABGPU_HOST") or socket.gethostname().split(".")[0],
        broker_url=_broker_url(env.get("REDIS_URL", "")),
        counts={name: _count(name, env.get(name, ""), default) for name, default in COUNTS.items()},
        log_level=_log_level(env.get("LOG_LEVEL") or "WARNING"),
        demo=demo,
        verbose=verbose,
    )


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise Trouble(f"PORT is {text!r}: give a number from 1 to 65535, for example PORT=8080.")
    return int(text)


def _site_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
        good = good and not parts.query and not parts.fragment and parts.path in {"", "/"} and "@" not in parts.netloc
    except ValueError:
        good = False
    if not good:
        raise Trouble(f"SITE_URL is {text!r}: give the whole address people type, for example https://gpu.example.edu")
    return text.rstrip("/")


def _check_database_url(text: str) -> None:
    """The address may hold a password, so it is never repeated."""
    if not text:
        return
    try:
        parts = urlsplit(text)
        good = parts.scheme in DATABASE_SCHEMES and len(parts.path) > 1 and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        raise Trouble(
            "DATABASE_URL is not an address LabGPU knows: give postgres://NAME:PASSWORD@HOST:5432/DATABASE or "
            "sqlite:////FOLDER/FILE, or leave it out to use a file in the data folder."
        )


def _check_email_url(text: str) -> None:
    """The address may hold a password, so it is never repeated."""
    if not text:
        return
    try:
        parts = urlsplit(text)
        good = parts.scheme in DEBUG_EMAIL_SCHEMES
        good = good or (parts.scheme in EMAIL_SCHEMES and bool(parts.hostname) and (parts.port or 1) > 0)
    except ValueError:
        good = False
    if not good:
        raise Trouble(
            "EMAIL_URL is not an address LabGPU knows: give smtp+tls://NAME:PASSWORD@HOST:587, smtp+ssl://… or smtp://…, "
            "or leave it out: admins then pass account mails on from the page Members."
        )


def _broker_url(text: str) -> str | None:
    if not text:
        return None
    try:
        parts = urlsplit(text)
        if parts.scheme in BROKER_SCHEMES and (parts.hostname or parts.path) and (parts.port or 1) > 0:
            return text
    except ValueError:
        pass
    raise Trouble(
        "REDIS_URL is not an address LabGPU knows: give redis://:PASSWORD@HOST:6379/0, or leave it out to use the "
        "embedded broker."
    )


def _check_positive(name: str, text: str) -> None:
    try:
        good = not text or 0 < float(text) <= 86_400
    except ValueError:
        good = False
    if not good:
        raise Trouble(f"{name} is {text!r}: give a number of seconds above 0, for example {name}=10.")


def _count(name: str, text: str, default: int) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 256):
        raise Trouble(f"{name} is {text!r}: give a whole number from 1 to 256, for example {name}={default}.")
    return int(text)


def _log_level(text: str) -> str:
    if text not in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}:
        raise Trouble(f"LOG_LEVEL is {text!r}: give DEBUG, INFO, WARNING, ERROR or CRITICAL.")
    return text


def make_data_dir(data_dir: Path) -> None:
    """The data folder with all that must lie in it before any part starts, readable by its owner alone. Raises Trouble."""
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("log", "run", "broker", "static"):
            (data_dir / name).mkdir(mode=0o700, exist_ok=True)
        probe = data_dir / "run" / f"probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise Trouble(
            f"The data folder {data_dir} cannot be written ({_reason(error)}): "
            "give another one with DATA_DIR=/path/to/folder or correct its owner and rights."
        ) from error


def make_secret_key(data_dir: Path) -> None:
    """The installation's secret, made once. A second maker at the same moment keeps the first one's."""
    path = data_dir / "secret_key"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        if not path.read_text(encoding="ascii", errors="replace").strip():
            raise Trouble(f"The file {path} is empty: restore it from your backup, or remove it to make a new one.") from None
        return
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(50) + "\n")
        file.flush()
        os.fsync(file.fileno())


def lock_data_dir(data_dir: Path, site_url: str) -> IO[str]:
    """Holds the data folder for this supervisor as long as the answer stays open. The kernel lets go when the process ends,
    however it ends, so no stale lock is ever left. Raises Trouble when another supervisor holds it."""
    file = (data_dir / "run" / "supervisor.lock").open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read(300).strip()
        file.close()
        if error.errno not in {errno.EWOULDBLOCK, errno.EACCES}:
            raise Trouble(
                f"The data folder {data_dir} cannot be locked ({_reason(error)}): give one on a local disk with DATA_DIR=."
            ) from error
        raise Trouble(
            f"LabGPU already runs on the data folder {data_dir} ({holder or 'just starting'}): "
            "use that one, stop it first, or give another folder with DATA_DIR=."
        ) from error
    file.truncate(0)
    file.write(f"process {os.getpid()}, {site_url}")
    file.flush()
    return file


def check_port_free(bind_host: str, port: int) -> None:
    """Raises Trouble when the site could not listen there."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(bind_host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise Trouble(f"HOST is {bind_host!r}, which is no address of this machine: try HOST=127.0.0.1.") from error
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise Trouble(
                    f"Port {port} is taken: stop what uses it or choose another, for example PORT={_other(port)}."
                ) from error
            if error.errno == errno.EACCES:
                raise Trouble(f"Port {port} is not open to this user: choose one above 1023, for example PORT=8000.") from error
            raise Trouble(f"HOST={bind_host} PORT={port} cannot be used ({_reason(error)}): try HOST=127.0.0.1.") from error


def _other(port: int) -> int:
    return port + 1 if port < 65535 else 8000


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
