"""Sending what the outbox holds (K2): never lost, and at most one duplicate per crash.

A row is claimed by a conditional update before it is sent and marked by another after: of two senders one has it, and the
claim of a sender that died runs out. Nothing here is in a transaction: a mail server may take its time, and no lock may
wait for it.
"""

from __future__ import annotations

import logging
import random
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from django.db import OperationalError
from django.db.models import F, Q, QuerySet

from labgpu.notify.message import BadMessage
from labgpu.notify.registry import TRANSPORTS
from labgpu.notify.transport import Transport, TransportError

from .. import messages, obsolete, queries
from ..models import Notification

log = logging.getLogger(__name__)

# Longer than the slowest send (a mail session with 15 s per answer), so that a live sender is not overtaken.
CLAIM = timedelta(minutes=2)
_FIRST_WAIT_S, _LONGEST_WAIT_S = 15.0, 900.0
# With the longest wait this is about three days of trying; a row that kills its sender stops here too.
MOST_ATTEMPTS = 300
# So many failures to reach the mail server in a row end a sweep: the next rows would fare no better.
_HOPELESS = 3
_MARK_TRIES = 5


class Outcome(StrEnum):
    """What became of one row in one sweep."""

    TAKEN = "taken"  # somebody else has it, or it is not due
    SENT = "sent"
    DROPPED = "dropped"
    PUT_OFF = "put_off"
    FAILED = "failed"


def due(now: datetime, most: int = 500) -> list[int]:
    """Rows that are due and that nobody has claimed, the longest due first."""
    return list(_free(now).order_by("due_at", "pk").values_list("pk", flat=True)[:most])


def _free(now: datetime) -> QuerySet[Notification]:
    unclaimed = Q(claim="") | Q(claimed_until=None) | Q(claimed_until__lte=now)
    return Notification.objects.filter(unclaimed, state=Notification.State.DUE, due_at__lte=now)


class Sender:
    """The sender of one sweep: keeps its transports open between messages. Use it in a `with` block, in one thread."""

    def __init__(self, transports: Mapping[str, Transport] | None = None) -> None:
        self._transports = transports if transports is not None else {name: make() for name, make in TRANSPORTS.items()}
        self._unreachable = 0

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *problem: object) -> None:
        for transport in self._transports.values():
            transport.close()

    @property
    def is_hopeless(self) -> bool:
        """Whether the transport could not be reached so often in a row that this sweep may end."""
        return self._unreachable >= _HOPELESS

    def deliver(self, notification_id: int, *, now: datetime) -> Outcome:
        """Claims, re-reads, and sends or drops one row. Whatever goes wrong with it stays with it: nothing is raised
        but what the database itself refuses."""
        claim = secrets.token_hex(16)
        claimed = _free(now).filter(pk=notification_id).update(
            claim=claim, claimed_until=now + CLAIM, attempts=F("attempts") + 1
        )
        if claimed != 1:
            return Outcome.TAKEN
        row = Notification.objects.select_related(
            "member", "reservation__holder", "demerit__reservation__holder", "waitlist_entry__pool"
        ).get(pk=notification_id)
        try:
            if reason := obsolete.cause(row, now):
                return _mark(row, claim, Outcome.DROPPED, now, reason)
            message = messages.compose(row, queries.lab_facts(), now)
            for transport in self._transports.values():
                transport.send(message)
        except BadMessage as problem:
            return _give_up(row, claim, str(problem), now)
        except TransportError as problem:
            self._unreachable = self._unreachable + 1 if problem.channel else 0
            if problem.permanent:
                return _give_up(row, claim, str(problem), now)
            log.info("message %s did not leave (attempt %s): %s", row.key, row.attempts, problem)
            return _put_off(row, claim, str(problem), now)
        except OperationalError:
            raise
        except Exception as problem:
            # One poisoned row must not stop the sweep; it is tried again, as an upgrade may cure it.
            log.exception("message %s could not be made", row.key)
            return _put_off(row, claim, f"{type(problem).__name__}: {problem}", now)
        self._unreachable = 0
        return _mark(row, claim, Outcome.SENT, now)


def _give_up(row: Notification, claim: str, cause: str, now: datetime) -> Outcome:
    log.warning("message %s is given up: %s", row.key, cause)
    return _mark(row, claim, Outcome.FAILED, now, cause)


def _put_off(row: Notification, claim: str, cause: str, now: datetime) -> Outcome:
    """Tries again later: each wait about twice the last, spread out so that a server coming back is not run over."""
    if row.attempts >= MOST_ATTEMPTS:
        return _give_up(row, claim, f"given up after {row.attempts} attempts: {cause}", now)
    wait_s = min(_FIRST_WAIT_S * 2.0 ** min(row.attempts - 1, 10), _LONGEST_WAIT_S)
    spread = random.uniform(0.75, 1.25)  # noqa: S311  (no secret)
    _update(row, claim, due_at=now + timedelta(seconds=wait_s * spread), error=cause[:300])
    return Outcome.PUT_OFF


_STATES = {
    Outcome.SENT: Notification.State.SENT, Outcome.DROPPED: Notification.State.DROPPED,
    Outcome.FAILED: Notification.State.FAILED,
}


def _mark(row: Notification, claim: str, outcome: Outcome, now: datetime, cause: str = "") -> Outcome:
    sent_at = now if outcome == Outcome.SENT else None
    _update(row, claim, state=_STATES[outcome], sent_at=sent_at, error=cause[:300])
    return outcome


def _update(row: Notification, claim: str, **values: object) -> None:
    """Writes what became of a row while the claim is still ours.

    Worth several tries: a message that left but was not marked leaves again when the claim has run out.
    """
    for attempt in range(_MARK_TRIES):
        try:
            changed = Notification.objects.filter(pk=row.pk, claim=claim, state=Notification.State.DUE).update(
                claim="", claimed_until=None, **values
            )
        except OperationalError:
            if attempt == _MARK_TRIES - 1:
                raise
        else:
            if not changed:
                log.warning("message %s was claimed by another sender meanwhile", row.key)
            return
