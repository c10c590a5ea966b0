"""The real product as a child of a test: the supervisor with all its parts, in a data folder and on a port of its own."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What a test's own process has in its environment and the product must not inherit.
NOT_INHERITED = ("DJANGO_SETTINGS_MODULE", "DATA_DIR", "SECRET_KEY", "DATABASE_URL", "REDIS_URL", "SITE_URL", "PORT", "HOST")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(data_dir: Path, port: int, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    return {**inherited, "DATA_DIR": str(data_dir), "PORT": str(port), **(extra or {})}


class Lab:
    """One running supervisor. `lines` is what it has said on the terminal so far."""

    def __init__(self, data_dir: Path, *arguments: str, env: Mapping[str, str] | None = None, port: int | None = None) -> None:
        self.data_dir = data_dir
        self.port = port or free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.lines: list[str] = []
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "labgpu.run", *arguments],
            cwd=ROOT,
            env=environment(data_dir, self.port, env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
        self.process.stdout.close()

    def wait_for_line(self, piece: str, timeout_s: float = 60.0) -> str:
        """The first line with this piece; fails when none comes in time or the supervisor ends first."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            ended = self.process.poll() is not None and not self._reader.is_alive()
            for line in list(self.lines):
                if piece in line:
                    return line
            assert not ended, f"the supervisor ended with {self.process.returncode} and said: {self.lines}"
            time.sleep(0.05)
        raise AssertionError(f"no line with {piece!r} in {timeout_s:.0f} s; said so far: {self.lines}; {self.last_words()}")

    def wait_until_up(self, timeout_s: float = 60.0) -> None:
        self.wait_for_line("LabGPU runs at", timeout_s)

    def status_of(self, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        finally:
            connection.close()

    def processes(self) -> dict[int, str]:
        """Every living process that was started for this data folder, the supervisor included: number and command line."""
        mark = f"DATA_DIR={self.data_dir}".encode()
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                # The broker writes its title over its environment; its working folder tells.
                inside = (folder / "cwd").readlink().is_relative_to(self.data_dir)
                if inside or mark in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue  # it ended while we looked, or is a zombie
        return found

    def part(self, piece: str) -> int:
        """The number of the child of the supervisor whose command line has this piece."""
        mine = [
            number
            for number, command in self.processes().items()
            if piece in command and parent_of(number) == self.process.pid
        ]
        assert len(mine) == 1, f"{piece}: {mine} among {self.processes()}"
        return mine[0]

    def wait_until_gone(self, timeout_s: float = 20.0) -> dict[int, str]:
        """What is still alive after that time at most; empty when nothing is."""
        end = time.monotonic() + timeout_s
        while (left := self.processes()) and time.monotonic() < end:
            time.sleep(0.1)
        return left

    def stop(self, number: int = signal.SIGTERM, timeout_s: float = 40.0) -> int:
        """Asks the supervisor to stop and gives its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=timeout_s)
        self._reader.join(timeout=5)
        return code

    def clean_up(self) -> None:
        """Ends whatever is left, the supervisor's orphans included; only what was started for this data folder."""
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for number in self.wait_until_gone(5):
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def last_words(self) -> str:
        """The ends of the parts' logs, for the message of a failing test."""
        logs = sorted(self.data_dir.glob("log/*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in logs)


def parent_of(number: int) -> int:
    try:
        return int(Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0
