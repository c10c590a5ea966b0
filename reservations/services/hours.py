"""Hours that came back late in a week stay valid beyond it (E3)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta

from ..models import HourGrant, LedgerEntry, Reservation
from ..queries import LabFacts
from ..rules.week import week_interval
from . import audit
from .held import Reason, post, scaled


def keep_valid(reservation: Reservation, returned: Mapping[date, int], *, why: str, lab: LabFacts, now: datetime) -> int:
    """Keeps hours valid for seven days that were returned by displacement, maintenance or failure in a week's last 48 hours.

    `returned`: units (positive) per week that the caller has just posted back to the account that paid. Of the weeks that end
    within the time the units leave the week's room again and become one-off hours instead, so that they are never usable
    twice. Returns the units kept. Call it in the transaction of the return, under its lock; `why` goes into the audit.
    """
    late = timedelta(seconds=lab.policy.returned_late_s)
    kept = {
        week: units
        for week, units in returned.items()
        if units > 0 and (end := week_interval(week, lab.zone).end) - late <= now < end
    }
    total = sum(kept.values())
    if not total:
        return 0
    post(reservation, kept, Reason.KEPT, now)
    grant = HourGrant.objects.create(
        member_id=None if reservation.payer_id else reservation.holder_id, project_id=reservation.payer_id, units=total,
        code=HourGrant.Code.RETURNED, starts_at=now, ends_at=now + timedelta(seconds=lab.policy.returned_valid_s),
        reservation=reservation,
    )
    audit.note(
        "keep_hours", grant, actor=None, origin="sweep", now=now, reason=why, units=total, reservation=reservation.pk,
        ends_at=grant.ends_at.isoformat(),
    )
    return total


def take_back(reservation: Reservation, now: datetime) -> None:
    """Undoes what `keep_valid` did for this reservation, before what caused it is undone (H0): the hours are the week's again.

    Ask quota after it: the hours may have been used meanwhile.
    """
    grants = HourGrant.objects.filter(reservation=reservation, code=HourGrant.Code.RETURNED, units__gt=0, ends_at__gt=now)
    for grant in grants:
        rows = LedgerEntry.objects.filter(reservation=reservation, reason=Reason.KEPT, at=grant.starts_at)
        post(reservation, scaled({row.period: row.units for row in rows}, -1), Reason.UNDONE, now)
        HourGrant.objects.filter(pk=grant.pk).update(units=0)
        audit.note("take_hours_back", grant, actor=None, origin="sweep", now=now, reservation=reservation.pk)
