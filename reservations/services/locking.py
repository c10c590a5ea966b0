"""The one lock door. docs/locking.md says who takes what, and why in this order.

The database's own constraint makes a double booking impossible. This lock protects sums (quota, caps), which no
constraint expresses, and keeps racing writers in a queue instead of in a deadlock.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from django.db import DatabaseError, OperationalError, connection, transaction
from django.db.models import QuerySet

from ..models import Gpu, Member, Project
from ..prepared import prepared

LOCK_WAIT_S = 3
_POLL_S = (0.001, 0.02)
_BUSY_STATES = {"55P03", "40P01", "40001"}  # lock not available, deadlock detected, serialisation failure


class Busy(Exception):
    """The lock was not to be had in time. Nothing was written; trying again in `retry_after` seconds may succeed."""

    retry_after = 2


@contextmanager
def hold(
    *, members: Iterable[int] = (), projects: Iterable[int] = (), cards: Iterable[int] = ()
) -> Iterator[None]:
    """A transaction that has locked these members, then these projects, then these cards, each in order of their key.

    On SQLite the transaction itself is the lock (BEGIN IMMEDIATE: one writer). On PostgreSQL rows are locked
    `FOR NO KEY UPDATE`, which does not hinder foreign keys. Waits at most 3 s. Must be the outermost transaction: what
    is read inside must be what was committed before the lock was had. Raises `Busy`.
    """
    try:
        with ExitStack() as stack:
            _begin(stack)
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_WAIT_S}s'")
                for lock, ids in ((_members, members), (_projects, projects), (_cards, cards)):
                    lock(sorted(set(ids)))
            yield
    except OperationalError as problem:
        if is_busy(problem):
            raise Busy from problem
        raise


@prepared
def _members(ids: list[int]) -> QuerySet[Member, int]:
    return Member.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk").values_list("pk", flat=True)


@prepared
def _projects(ids: list[int]) -> QuerySet[Project, int]:
    return Project.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk").values_list("pk", flat=True)


@prepared
def _cards(ids: list[int]) -> QuerySet[Gpu, int]:
    return Gpu.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk").values_list("pk", flat=True)


def _begin(stack: ExitStack) -> None:
    """Opens the transaction. On SQLite that waits for the one write lock, by a clock of its own.

    SQLite's waiting sleeps in steps that are the same for everybody, soon 100 ms each: of fifty who come at once two get in
    per step, and the last are told "busy" after 3 s although the lock was free nearly all the time. Uneven short steps let
    them in one after the other.
    """
    if connection.vendor != "sqlite":
        stack.enter_context(transaction.atomic(durable=True))
        return
    deadline = time.monotonic() + LOCK_WAIT_S
    _sqlite_waits(0)
    try:
        while True:
            try:
                stack.enter_context(transaction.atomic(durable=True))
                return
            except OperationalError as problem:
                if not is_busy(problem) or time.monotonic() > deadline:
                    raise
            time.sleep(random.uniform(*_POLL_S))  # noqa: S311  (no secret: only unlike the neighbour's)
    finally:
        _sqlite_waits(LOCK_WAIT_S)


def _sqlite_waits(seconds: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA busy_timeout = {seconds * 1000}")


def is_busy(problem: DatabaseError) -> bool:
    """Whether the database says that another writer was in the way for too long, and nothing worse."""
    cause = problem.__cause__
    return getattr(cause, "sqlstate", None) in _BUSY_STATES or "database is locked" in str(problem)
