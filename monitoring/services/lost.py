"""Telling the ledger which cards are gone (domain.md G6), and giving back what a failed host took (E3)."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from reservations.models import CardState
from reservations.rules.interval import Interval
from reservations.services import locking, returning, sightings

from .. import queries
from ..models import Downtime
from ..rules.lost import losses

log = logging.getLogger(__name__)


def sweep(*, now: datetime, period: timedelta) -> None:
    """Judges which cards are gone, and tells the ledger; what follows for reservations is the ledger's sweep.

    Derived anew each time: a card that is seen again is no longer lost at the next look. Then whoever held cards of a host while
    it was down gets that time back; killed between, the next sweep does it again, and it is returned once.
    """
    policy = queries.ledger.lab_facts().policy
    cards, hosts = queries.last_seen(), queries.answers(policy)
    found = losses(cards, hosts, now=now, policy=policy, period=period)
    sightings.lose({one.gpu_id: (one.since, CardState.Lost(one.how)) for one in found})


    for row in Downtime.objects.filter(settled_at=None).order_by("pk")[:50]:
        try:
            returning.return_downtime(row.host_id, Interval(row.start, row.end), now=now)
        except locking.Busy:
            log.info("The ledger is busy: the downtime of host %s is returned by the next sweep.", row.host_id)
            continue
        Downtime.objects.filter(pk=row.pk).update(settled_at=now)
