"""Keeping what was observed of the use of held cards (M1): samples live two days, what they add up to for ever."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from reservations import queries as ledger

from .. import queries
from ..models import CardUse
from ..rules import use
from ..rules.snapshot import Tenure
from .retention import KEPT

log = logging.getLogger(__name__)

# Looks of one card read at a time: after a long outage two days of them wait.
_STEP = timedelta(hours=6)
# The newest readings may still be on their way.
_PERIODS_ON_THE_WAY = 2


def account_use(*, now: datetime, period: timedelta) -> None:
    """Counts the samples that have come since the last sweep, for everything that held a card in the last two days.

    Killed anywhere, run twice or beside itself, each sample counts once: sum and watermark are one row, changed by
    compare-and-set. A card that cannot be accounted is logged and stops no other.
    """
    ready = now - _PERIODS_ON_THE_WAY * period
    tolerance = timedelta(seconds=ledger.lab_facts().policy.clock_tolerance_s)
    on_card = queries.tenures_on(queries.read_card_ids(), now - KEPT, now)
    due = [(gpu_id, tenure) for gpu_id, some in on_card.items() for tenure in some if tenure.start < ready]
    known = {row.pk: row for row in CardUse.objects.filter(pk__in=[tenure.allocation_id for _, tenure in due])}
    for gpu_id, tenure in due:
        row = known.get(tenure.allocation_id) or CardUse(pk=tenure.allocation_id, until=tenure.start)
        try:
            _carry_on(row, gpu_id, tenure, min(ready, tenure.end + use.reach(period)), now - KEPT, period, tolerance)
        except Exception:
            log.exception("The use of allocation %s could not be accounted.", tenure.allocation_id)


def _carry_on(
    row: CardUse, gpu_id: int, tenure: Tenure, until: datetime, oldest: datetime, period: timedelta, tolerance: timedelta
) -> None:
    """Moves the watermark to `until`, step by step. Where another sweep was faster, what it wrote stands."""
    since = max(row.until, oldest)  # before that no sample is left
    total = row.value
    while since < until:
        step = min(since + _STEP, until)
        looks = queries.looks_between([gpu_id], since - use.reach(period), step, tolerance)[gpu_id]
        total += use.use_between(tenure, looks, since, step, period=period)
        if not _write(row, total, step):
            return
        since = step


def _write(row: CardUse, total: use.Use, until: datetime) -> bool:
    values = {
        "observed": total.observed, "present": total.present, "busy": total.busy, "measured": total.measured, "until": until,
    }
    if row._state.adding:
        written, is_first = CardUse.objects.get_or_create(pk=row.pk, defaults=values)
        row._state.adding = False
        row.until = written.until
        return is_first
    changed = CardUse.objects.filter(pk=row.pk, until=row.until).update(**values)
    row.until = until
    return changed == 1
