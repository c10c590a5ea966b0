"""Who owns a pid and since when it runs, from /proc.

A pid alone names nobody for long: the kernel gives it away again. (boot, pid, start) is one process, so all are read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Optional


@dataclass(frozen=True)
class Owner:
    """``uid`` is the real user, ``started`` the clock ticks since boot; ``problem`` says why they are None."""

    uid: Optional[int]
    started: Optional[int]
    problem: Optional[str]


class ProcFs:
    """The process table under ``root``; another root lets tests and the simulator play one."""

    def __init__(self, root: str = "/proc") -> None:
        self.root = root

    def boot_id(self) -> str:
        """The kernel's name for this boot, "" where there is none to read."""
        try:
            found = Path(self.root, "sys/kernel/random/boot_id").read_text("ascii")[:64].strip()
        except (OSError, ValueError):
            return ""
        return found if found.isprintable() else ""

    def owner(self, pid: int) -> Owner:
        """The owner of ``pid``; never raises. ``problem`` is None, "gone", "denied" or "unreadable"."""
        try:
            # Both files are opened through one directory handle: when the process ends in between and its pid is given
            # to another, the second open fails instead of answering for the newcomer.
            directory = os.open(f"{self.root}/{pid}", os.O_RDONLY | os.O_DIRECTORY)
            try:
                started = _started(_read(directory, "stat"))
                # Not the owner of the directory: that is root for every process which is not dumpable.
                uid = _uid(_read(directory, "status"))
            finally:
                os.close(directory)
        except PermissionError:
            return Owner(None, None, "denied")
        except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
            return Owner(None, None, "denied" if self._is_hidden(pid) else "gone")
        except (OSError, ValueError, IndexError):
            return Owner(None, None, "unreadable")
        return Owner(uid, started, None)

    def _is_hidden(self, pid: int) -> bool:
        # With hidepid=2 the processes of others look as if they had ended. Signal 0 tells without touching them.
        if self.root != "/proc":
            return False
        try:
            os.kill(pid, 0)
        except PermissionError:
            return True
        except (OSError, OverflowError):
            pass
        return False


def _read(directory: int, name: str) -> bytes:
    file = os.open(name, os.O_RDONLY, dir_fd=directory)
    try:
        return os.read(file, 65536)
    finally:
        os.close(file)


def _started(stat: bytes) -> int:
    # The command is the second field, in parentheses, and may hold blanks and parentheses; field 22 is the start.
    return int(stat[stat.rindex(b")") + 1 :].split()[19])


def _uid(status: bytes) -> int:
    for line in status.split(b"\n"):
        if line.startswith(b"Uid:"):
            return int(line.split()[1])
    raise ValueError("no Uid line")
