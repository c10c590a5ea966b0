"""Putting old samples away."""

from __future__ import annotations

from datetime import datetime, timedelta

from ..models import Sample

KEPT = timedelta(hours=48)
BATCH = 900  # keys in one statement
_FUTURE = timedelta(days=1)


def forget_samples(*, now: datetime, batches: int = 10) -> int:
    """Deletes samples received over two days ago, oldest first, at most `batches` small ones; returns how many.

    By the server's clock, so that a host's wrong one keeps nothing for ever. Rows are in order of arrival, so the oldest
    are found without an index of their own, and no delete locks long. Those of a server's clock that ran days ahead go
    too: at the head of the queue they would keep all that follow.
    """
    gone = 0
    for _ in range(batches):
        oldest = Sample.objects.order_by("pk").values_list("pk", "received_at")
        if not any(_is_due(received_at, now) for _, received_at in oldest[:1]):
            break
        due = [pk for pk, received_at in oldest[:BATCH] if _is_due(received_at, now)]
        gone += Sample.objects.filter(pk__in=due).delete()[0]
    return gone


def _is_due(received_at: datetime, now: datetime) -> bool:
    return not now - KEPT <= received_at <= now + _FUTURE
