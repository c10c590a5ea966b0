"""When a periodic task last went round: kept in the cache, which lies in the database, for the health page."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.core.cache import cache

SWEEPS = ("advance", "deliver", "presence", "waitlist")


def mark(name: str, now: datetime) -> None:
    """Notes that this sweep went round at `now`."""
    cache.set(f"tick:{name}", now.isoformat(), timeout=None)


def ages(names: Iterable[str], now: datetime) -> dict[str, float | None]:
    """Seconds since each sweep last went round; None for one that has not been seen."""
    wanted = {f"tick:{name}": name for name in names}
    seen = cache.get_many(wanted)
    return {
        name: max((now - datetime.fromisoformat(seen[key])).total_seconds(), 0.0) if key in seen else None
        for key, name in wanted.items()
    }
