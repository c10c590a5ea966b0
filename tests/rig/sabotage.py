"""Guards taken away one by one, in the process of a control test only.

A test that cannot fail proves nothing. Each race is run once more with its guard missing, and must then fail.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from django.db import connections, transaction


@contextmanager
def _unlocked(**_: Any) -> Iterator[None]:
    """A transaction without a lock. On SQLite the transaction is the lock, so there it is no transaction at all."""
    if connections["default"].vendor == "sqlite":
        yield
    else:
        with transaction.atomic():
            yield


def _deferred() -> Any:
    options = connections["default"].settings_dict["OPTIONS"]
    return patch.dict(options, {"transaction_mode": "DEFERRED"})


def _unsorted() -> Any:
    """Cards locked in no order."""
    from reservations.models import Gpu

    @contextmanager
    def hold(
        *, members: Iterable[int] = (), projects: Iterable[int] = (), cards: Iterable[int] = ()
    ) -> Iterator[None]:
        with transaction.atomic():
            with connections["default"].cursor() as cursor:
                cursor.execute("SET LOCAL deadlock_timeout = '20ms'")  # a second each would make the control slow
            wanted = list(cards)
            for card in random.sample(wanted, len(wanted)):
                Gpu.objects.select_for_update(no_key=True).get(pk=card)
            yield

    return patch("reservations.services.locking.hold", hold)


def _unclaimed(now: Any) -> Any:
    from reservations.models import Notification

    return Notification.objects.filter(state=Notification.State.DUE, due_at__lte=now)


@contextmanager
def _everywhere(name: str) -> Iterator[None]:
    """Takes a helper away from every service that uses it."""
    with ExitStack() as stack:
        for service in ("booking", "extension"):
            stack.enter_context(patch(f"reservations.services.{service}.{name}", lambda *_: None))
        yield


GUARDS: dict[str, Any] = {
    "lock": lambda: patch("reservations.services.locking.hold", _unlocked),
    "immediate": _deferred,
    "lock order": _unsorted,
    "check of taken cards": lambda: patch("reservations.rules.booking.taken_refusals", lambda *_: ()),
    "look-up of keys": lambda: _everywhere("repeated"),
    "claim of messages": lambda: patch("reservations.services.delivery._free", _unclaimed),
    "memory of keys": lambda: _everywhere("remember"),
}


@contextmanager
def without(*guards: str) -> Iterator[None]:
    """Everything inside runs without these guards."""
    with ExitStack() as stack:
        for guard in guards:
            stack.enter_context(GUARDS[guard]())
        yield
