"""`make test`: the whole suite, first on SQLite, then what needs a database again on PostgreSQL.

What runs once only is told by tests/conftest.py: tests that open no database, those marked `once`, and browser tests not
marked `both`.
Arguments are handed to pytest: `python -m tests.suite tests/reservations -k quota`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.postgres import server

ROOT = Path(__file__).resolve().parent.parent
PROCESSES = "3"  # one more than two cores: some tests wait for a lab to live through its minutes
NO_TESTS = 5  # pytest's exit code where nothing was selected: right for the second run of a selection without a database


def main() -> int:
    if not os.environ.get("SKIP_E2E"):
        ensure_browser()
    code, closing = run("SQLite", {"TEST_DATABASE": "sqlite"})
    with server() as socket_folder:
        env = {"TEST_DATABASE": "postgres", "TEST_POSTGRES_HOST": str(socket_folder), "TEST_AGAIN": "1"}
        code_again, _ = run("PostgreSQL", env)
    if code:
        print(f"\nThe suite on SQLite ended with\n{closing}", flush=True)  # a failure must not hide above a good second run
    return code or (0 if code_again == NO_TESTS else code_again)


def run(called: str, env: dict[str, str]) -> tuple[int, str]:
    """One run of pytest; its exit code and its closing line."""
    print(f"\nThe suite on {called}", flush=True)
    command = [sys.executable, "-m", "pytest", "-n", PROCESSES, "--dist", "worksteal", *sys.argv[1:]]
    # Tests start hundreds of processes of the product's: what one has compiled the others need not compile again.
    around = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, cwd=ROOT, env={**around, **env}, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    closing = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        closing = line.strip() or closing
    return process.wait(), closing


def ensure_browser() -> None:
    """Debian's chromium and a font with Chinese characters: installed when we may, else a sentence that says so."""
    wanted = []
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        wanted.append("chromium")
    if not has_chinese_font():
        wanted.append("fonts-noto-cjk")
    if not wanted:
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"tests: installing {' and '.join(wanted)} …", flush=True)
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *wanted]
        for command in (["apt-get", "update", "-qq"], install):
            subprocess.run(command, env=quiet, stdout=subprocess.DEVNULL, check=False)
        if shutil.which("chromium") and has_chinese_font():
            return
    raise SystemExit(
        f"tests: the browser tests need {' and '.join(wanted)}: install with your system's package manager (on Debian: "
        f"apt-get install {' '.join(wanted)}), or leave these tests out with SKIP_E2E=1."
    )


def has_chinese_font() -> bool:
    lister = shutil.which("fc-list")
    return bool(lister and subprocess.run([lister, ":lang=zh-cn"], capture_output=True, check=False).stdout.strip())


if __name__ == "__main__":
    sys.exit(main())
