"""`make torture`: ten thousand random sequences against the plain model of the law (T4), on both databases.

Hours of work: for before a release, and for whoever changes what a booking, a move or an undo does. `python -m tests.torture
2000` plays fewer. Every sequence has a fixed seed; a failure names it with its zone, and plays again the same.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.postgres import server

ROOT = Path(__file__).resolve().parent.parent
SEQUENCES, PARTS = 10_000, 20  # parts: so that the processors have something to share


def main() -> int:
    sequences = sys.argv[1] if len(sys.argv) > 1 else str(SEQUENCES)
    plays = {"TORTURE": sequences, "TORTURE_PARTS": str(PARTS)}
    code = play("SQLite", {**plays, "TEST_DATABASE": "sqlite"})
    with server() as socket_folder:
        again = play("PostgreSQL", {**plays, "TEST_DATABASE": "postgres", "TEST_POSTGRES_HOST": str(socket_folder)})
    return code or again


def play(called: str, env: dict[str, str]) -> int:
    print(f"\nThe law's model against the product, on {called}", flush=True)
    command = [
        sys.executable, "-m", "pytest", "-n", str(os.cpu_count() or 1), "--dist", "worksteal", "-k", "never_differ",
        "-o", "faulthandler_timeout=0", "tests/rules/test_model_of_the_ledger.py",
    ]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
