"""Time that is given back while somebody waits for it: it goes to the waitlist first (K5, H4)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from .. import queries
from ..models import Allocation, FormerAllocation, FreedSlot, Gpu, MaintenanceCard
from ..rules.interval import Interval


def note(
    rows: Sequence[Allocation | FormerAllocation | MaintenanceCard], now: datetime, *, was_offered: bool = False
) -> None:
    """Notes the time from `now` on that these rows held, where somebody waits for such a card or was displaced from it (D6);
    in the caller's transaction.

    What had begun is offered by the waitlist only after samples have shown the card free; on a host without a reader, what
    had not begun and what was only offered (`was_offered`), at once (H4).
    """
    displaced = queries.displaced_from([row.gpu_id for row in rows], now)
    if not displaced and not queries.anybody_waits(now):
        return
    waiting = queries.wishes(now, queries.lab_facts())
    rows = [row for row in rows if row.end > now]
    spans = {row.gpu_id: Interval(max(row.start, now), row.end) for row in rows}
    used = {row.gpu_id for row in rows if row.start < now and not was_offered}
    found = queries.cards(spans)
    unread = set(Gpu.objects.filter(pk__in=spans, host__has_reader=False).values_list("pk", flat=True))
    FreedSlot.objects.bulk_create(
        [
            FreedSlot(
                gpu_id=card_id, start=span.start, end=span.end, at=now,
                ready_at=None if card_id in used - unread else now,
            )
            for card_id, span in sorted(spans.items())
            if any(one.wants(found[card_id], span) for one in waiting)
            or any(span.overlaps(slot) for slot in displaced.get(card_id, ()))
        ]
    )
