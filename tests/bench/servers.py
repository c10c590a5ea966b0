"""The two servers of the bench, each gunicorn with one process on loopback, and the database under both."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from tests import postgres
from tests.bench import httpload

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATABASES = tuple(os.environ.get("BENCH_DATABASES", "sqlite postgres").split())
STORED = 5000  # reservations in either database before anything is measured
FLOOR_BASE = datetime(2026, 12, 7, tzinfo=UTC)
GUNICORN = ["--worker-class", "gthread", "--workers", "1", "--threads", "4", "--log-level", "warning", "--no-control-socket"]
START_S = 60
Request = tuple[str, str, dict[str, str], bytes | None]


@contextlib.contextmanager
def database(kind: str) -> Iterator[Path]:
    """A folder for SQLite files, or the socket folder of a private PostgreSQL."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="labgpu-bench-") as folder:
            yield Path(folder)
        return
    with postgres.server() as folder:
        for name in ("floor", "labgpu", "wide", "full"):
            command = [sys.executable, "-c", _CREATE, str(folder), name]
            subprocess.run(command, check=True)
        yield folder


_CREATE = """
import psycopg, sys
with psycopg.connect(host=sys.argv[1], user="postgres", dbname="postgres", autocommit=True) as c:
    c.execute(f'create database "{sys.argv[2]}"')
"""


class _Server:
    """A gunicorn of our own: started on a free loopback port, ended with the context."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.target: dict[str, Any] = {"host": "127.0.0.1", "port": self.port}
        self._folder = tempfile.TemporaryDirectory(prefix="labgpu-bench-")
        self.folder = Path(self._folder.name)
        self._process: subprocess.Popen[bytes] | None = None

    def _start(self, application: str, env: dict[str, str], cwd: Path) -> None:
        command = [sys.executable, "-m", "gunicorn", application, "--bind", f"127.0.0.1:{self.port}", *GUNICORN]
        self._process = subprocess.Popen(command, cwd=cwd, env=env)
        until = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if self._process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"bench: {application} did not start")
            time.sleep(0.05)

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._folder.cleanup()


class Floor(_Server):
    """The fixed floor: a bare view over Django's default middleware, its database filled with the same reservations."""

    def __init__(self, kind: str, place: Path) -> None:
        super().__init__()
        self._session = ""
        self._env = {**os.environ, "FLOOR_DB": "pg" if kind == "postgres" else "sqlite", "FLOOR_NAME": "floor"}
        self._env |= {"FLOOR_DSN_HOST": str(place), "FLOOR_DSN_PORT": "5432", "FLOOR_DSN_USER": "postgres"}
        self._env["FLOOR_SQLITE"] = str(self.folder / "floor.sqlite3")
        self._seed = [sys.executable, str(HERE / "floor" / "seed_floor.py"), self._env["FLOOR_DB"], str(STORED)]

    def __enter__(self) -> Self:
        seed = subprocess.run(self._seed, env=self._env, check=True, capture_output=True, text=True)
        self._session = seed.stdout.split()[-1]
        self._start("floorapp:application", self._env, HERE / "floor")
        return self

    def hello(self) -> Request:
        return ("GET", "/hello", {}, None)

    def reserves(self, first: int, count: int) -> list[Request]:
        """`count` of the floor's own signed-in bookings (`reserve-full`), each of a free hour of its own."""
        headers = {"Cookie": f"sessionid={self._session}", "Content-Type": "application/json"}
        requests: list[Request] = []
        for number in range(first, first + count):
            card = number % 8
            start = FLOOR_BASE + timedelta(hours=6 * (number // 8) + 4, minutes=30 * (card % 4) + 15)
            sent = {
                "gpu": card + 1, "user": 16, "title": "", "start": start.isoformat(),
                "end": (start + timedelta(hours=1)).isoformat(),
            }
            requests.append(("POST", "/reserve-full", headers, json.dumps(sent).encode()))
        return requests


class Product(_Server):
    """LabGPU itself, filled by `seed.py` with so many cards and reservations, asked as a signed-in member."""

    def __init__(self, kind: str, place: Path, *, stored: int = STORED, cards: int = 8, name: str = "labgpu") -> None:
        super().__init__()
        self._seed = [sys.executable, "-m", "tests.bench.seed", str(stored), str(cards)]
        self._env = {
            **os.environ, "SECRET_KEY": "bench-only-not-a-secret", "DATA_DIR": str(self.folder),
            "SITE_URL": f"http://127.0.0.1:{self.port}", "DJANGO_SETTINGS_MODULE": "labgpu.settings",
        }
        if kind == "postgres":
            self._env["DATABASE_URL"] = f"postgres://postgres@/{place}/{name}"
        self._known: dict[str, Any] = {}

    def __enter__(self) -> Self:
        seed = subprocess.run(
            self._seed, cwd=ROOT, env=self._env, check=False, capture_output=True, text=True,
        )
        if seed.returncode:
            raise SystemExit(f"bench: LabGPU's database could not be filled: {seed.stderr[-2000:]}")
        self._known = json.loads(seed.stdout.splitlines()[-1])
        self._start("labgpu.wsgi:application", self._env, ROOT)
        return self

    def _headers(self, **more: str) -> dict[str, str]:
        return {"Cookie": f"sessionid={self._known['session']}; csrftoken={self._known['csrf']}", **more}

    def week(self) -> Request:
        """The week as the page polls it: 8 cards x 7 days, about 225 reservations."""
        return ("GET", f"/schedule/grid?view=week&from={self._known['week']}", self._headers(**{"HX-Request": "true"}), None)

    def week_again(self, count: int) -> list[Request]:
        """The same, `count` times, by a browser that has it already: unchanged."""
        status, answered, _ = httpload.Conn("127.0.0.1", self.port).request(self.week())
        if status != 200:
            raise SystemExit(f"bench: the week fragment answered {status}")
        method, path, headers, body = self.week()
        return [(method, path, {**headers, "If-None-Match": answered[b"etag"][0].decode()}, body)] * count

    def page(self) -> Request:
        """The whole page of the week."""
        return ("GET", f"/?view=week&from={self._known['week']}", self._headers(), None)

    def preview(self) -> Request:
        """What the bar asks for a card that is taken at the asked time: the reason, and three other slots."""
        asked = {
            "card": str(self._known["cards"][0]), "start": self._known["taken"][0], "end": self._known["taken"][1],
            "tier": "regular", "purpose": "training", "key": "k" * 32,
        }
        return ("GET", f"/book/preview?{urlencode(asked)}", self._headers(**{"HX-Request": "true"}), None)

    def bookings(self, first: int, count: int) -> list[Request]:
        """`count` bookings by form, each of another hour, none taken."""
        return [self._booking(number) for number in range(first, first + count)]

    def race(self, number: int, count: int) -> list[Request]:
        """`count` bookings of one and the same free hour, each with a key of its own."""
        return [self._booking(number) for _ in range(count)]

    def _booking(self, number: int) -> Request:
        start, end = self._known["slots"][number]
        form = {
            "card": str(self._known["cards"][number % len(self._known["cards"])]), "start": start, "end": end,
            "tier": "regular", "purpose": "training", "note": "", "key": str(uuid.uuid4()),
            "csrfmiddlewaretoken": self._known["csrf"],
        }
        headers = self._headers(**{"Content-Type": "application/x-www-form-urlencoded"})
        return ("POST", "/book", headers, urlencode(form).encode())

    @property
    def seed(self) -> dict[str, Any]:
        """What the database was filled with."""
        return {name: self._known[name] for name in ("stored", "count", "base", "week")}
