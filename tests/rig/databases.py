"""The database under test by its plain driver, and copies of it that a control test may damage."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from django.db import connection


def name() -> str:
    """The name of the database that this test works on."""
    return str(connection.settings_dict["NAME"])


def is_postgres() -> bool:
    return connection.vendor == "postgresql"


def connect(database: str | None = None) -> Any:
    """A DB-API connection to the test's database (or a copy of it) that knows nothing of Django."""
    if is_postgres():
        import psycopg

        return psycopg.connect(
            host=os.environ["TEST_POSTGRES_HOST"], user="postgres", dbname=database or name(), autocommit=True
        )
    return sqlite3.connect(database or name(), timeout=10, isolation_level=None)


@contextmanager
def own_copy(folder: Path) -> Iterator[str]:
    """A copy of the test's database as it stands, for a test that takes a guard away. The value is its name."""
    if is_postgres():
        copy, original = f"copy_{secrets.token_hex(6)}", name()
        connection.close()  # a template must have no visitors
        with closing(connect("postgres")) as server:
            server.execute(f"CREATE DATABASE {copy} TEMPLATE {original}")
            try:
                yield copy
            finally:
                server.execute(f"DROP DATABASE {copy} WITH (FORCE)")
        return
    copy = str(folder / f"copy_{secrets.token_hex(6)}.sqlite3")
    with closing(connect()) as original_file, closing(sqlite3.connect(copy)) as target:
        original_file.backup(target)
        target.execute("PRAGMA journal_mode=WAL")
    yield copy


def drop_overlap_guard(copy: str) -> None:
    """Takes the guard of P1 out of a copy."""
    with closing(connect(copy)) as plain:
        if is_postgres():
            plain.execute("ALTER TABLE reservations_allocation DROP CONSTRAINT no_double_booking")
        else:
            plain.execute("DROP TRIGGER no_double_booking_insert")
            plain.execute("DROP TRIGGER no_double_booking_update")
