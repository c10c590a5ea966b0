"""A lab that an earlier version left is brought up to date: nothing it holds is lost, and the guard stands."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.rig import checkers
from tests.rig.databases import connect
from tests.upgrade.dump import DUMPS, ROOT, program

VERSIONS = sorted({path.name.rsplit(".", 2)[0] for path in DUMPS.glob("*.sql")})


def place(url: str) -> str:
    """The file of a SQLite database, the name of a PostgreSQL one."""
    return url.removeprefix("sqlite:///") if url.startswith("sqlite") else url.rsplit("/", 1)[1]


def restore(url: str, version: str) -> None:
    """Fills the empty database with the dump, as an admin would."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(place(url))) as database:
            database.executescript((DUMPS / f"{version}.sqlite.sql").read_text(encoding="utf-8"))
        return
    psql = [program("psql"), "-h", os.environ["TEST_POSTGRES_HOST"], "-U", "postgres", "-d", place(url)]
    psql += ["-v", "ON_ERROR_STOP=1", "-q"]
    with (DUMPS / f"{version}.postgres.sql").open("rb") as dump:
        subprocess.run(psql, stdin=dump, check=True, stdout=subprocess.DEVNULL, cwd="/")


def manage(url: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DATABASE_URL": url, "DATA_DIR": str(folder), "SECRET_KEY": "only-for-this-test"}
    command = [sys.executable, "manage.py", *arguments]
    env["DJANGO_SETTINGS_MODULE"] = "labgpu.settings"
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_there_is_a_dump_of_each_version_on_both_databases() -> None:
    assert VERSIONS
    for version in VERSIONS:
        assert {path.name for path in DUMPS.glob(f"{version}.*")} == {f"{version}.sqlite.sql", f"{version}.postgres.sql"}


@pytest.mark.parametrize("version", VERSIONS)
def test_an_earlier_lab_is_brought_up_to_date_and_loses_nothing(
    version: str, fresh_database_url: str, tmp_path: Path, insert_overlap: Callable[[Any], None]
) -> None:
    restore(fresh_database_url, version)
    with closing(connect(place(fresh_database_url))) as plain:
        before = _facts(plain)
    for _ in range(2):  # the second time there is nothing to do
        done = manage(fresh_database_url, tmp_path, "migrate", "--no-input")
        assert done.returncode == 0, done.stderr
    assert manage(fresh_database_url, tmp_path, "makemigrations", "--check", "--dry-run").returncode == 0
    with closing(connect(place(fresh_database_url))) as plain:
        assert _facts(plain) == before
        assert checkers.overlaps(plain) == []
        with pytest.raises(Exception, match="no_double_booking"):
            insert_overlap(plain)


@pytest.fixture
def insert_overlap() -> Callable[[Any], None]:
    """DP-03: plain SQL puts a second holding row over the first that lies ahead."""

    def insert(plain: Any) -> None:
        plain.execute(
            "INSERT INTO reservations_allocation (reservation_id, gpu_id, status, start, \"end\", weight, price, fee) "
            "SELECT (SELECT max(id) FROM reservations_reservation r WHERE r.id NOT IN "
            "(SELECT reservation_id FROM reservations_allocation b WHERE b.gpu_id = a.gpu_id)), a.gpu_id, 'booked', "
            "a.start, a.\"end\", 100, '[]', '[]' FROM reservations_allocation a WHERE a.status = 'booked' ORDER BY a.id LIMIT 1"
        )

    return insert


def _facts(plain: Any) -> dict[str, list[tuple[Any, ...]]]:
    """What an upgrade must not change: who holds what when, what it cost, who stands where."""
    return {
        name: sorted(checkers.rows(plain, sql), key=repr)
        for name, sql in {
            "held": 'SELECT reservation_id, gpu_id, status, start, "end" FROM reservations_allocation',
            "reservations": 'SELECT id, holder_id, status, tier, start, "end", ended_at FROM reservations_reservation',
            "units": "SELECT member_id, sum(units) FROM reservations_ledgerentry GROUP BY member_id",
            "demerits": "SELECT member_id, points, state, fact FROM reservations_demerit",
            "rulings": "SELECT case_id, outcome, reason FROM reservations_ruling",
            "audit": "SELECT count(*) FROM reservations_auditentry WHERE verb <> 'upgrade'",
            "messages": "SELECT key, state FROM reservations_notification",
        }.items()
    }
