"""Two acts made to meet: each in a thread of its own, the second let in while the first stands at a delicate point."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import connection

from reservations.rules.refusal import Refused
from reservations.services import locking

POINTS = ("before the lock", "before the check", "after the check", "before the commit")
PATIENCE_S = 30.0
SETTLE_S = 0.015  # how long the second gets to run into the lock; too short only makes a gentler order


def answer(act: Callable[[], Any]) -> str:
    """What the act was answered: done, refused with its reasons, or busy."""
    try:
        done = act()
        return f"done, {done.status} v{done.version}" if done is not None else "done"
    except Refused as refusal:
        return f"refused: {refusal}"
    except locking.Busy:
        return "busy"


def takes_lock(sql: str) -> bool:
    return sql.startswith(("BEGIN", "SET LOCAL lock_timeout"))


class Actor(threading.Thread):
    """Acts in a thread, stops once at a point (if any), and notes when it comes to its lock."""

    def __init__(self, act: Callable[[], Any], point: str = "") -> None:
        super().__init__(daemon=True)
        self.act, self.point, self.said = act, point, ""
        self.at_lock, self.stopped, self.go_on = threading.Event(), threading.Event(), threading.Event()

    def run(self) -> None:
        try:
            self._commit, connection.commit = connection.commit, self._before_commit  # type: ignore[method-assign]
            with connection.execute_wrapper(self._before_statement):
                self.said = answer(self.act)
        except Exception as problem:
            self.said = f"error: {problem!r}"
        finally:
            connection.close()
            self.stopped.set()
            self.at_lock.set()

    def _pause(self, point: str) -> None:
        if point == self.point and not self.stopped.is_set():
            self.stopped.set()
            self.go_on.wait(PATIENCE_S)

    def _before_statement(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if takes_lock(sql):
            self._pause("before the lock")
            self.at_lock.set()
        elif self.at_lock.is_set() and "FOR NO KEY UPDATE" not in sql and not sql.startswith("PRAGMA"):
            self._pause("before the check")
        if sql.startswith(("INSERT", "UPDATE", "DELETE")):
            self._pause("after the check")
        return execute(sql, params, many, context)

    def _before_commit(self) -> None:
        self._pause("before the commit")
        self._commit()


def met(first: Callable[[], Any], second: Callable[[], Any], point: str) -> tuple[str, str]:
    """Both acts, the second let in while the first stands at the point. Returns what both were answered."""
    one, other = Actor(first, point), Actor(second)
    one.start()
    assert one.stopped.wait(PATIENCE_S)
    other.start()
    assert other.at_lock.wait(PATIENCE_S)
    end = time.monotonic() + SETTLE_S
    while other.is_alive() and time.monotonic() < end:
        time.sleep(0.001)
    one.go_on.set()
    for actor in (one, other):
        actor.join(PATIENCE_S)
        assert not actor.is_alive(), f"{actor.act}, {point}: it hangs"
    return one.said, other.said
