"""Time that somebody had booked and could not use: it costs nothing, and what was taken for it comes back (E3)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime

from .. import queries
from ..models import Allocation
from ..rules.interval import Interval
from ..rules.kinds import Kind
from ..rules.overruns import uncharged
from ..rules.quota import Stretch, charge, free_seconds, price_from_json, price_to_json
from . import audit, hours, locking
from .held import Account, Reason, post, scaled


def return_lost(
    row: Allocation, lost: Iterable[Interval], now: datetime, *, is_failure: bool = True
) -> dict[date, int]:
    """Returns the charge of the card's time inside `lost`, as far as it was held; gives the units returned, by quota week.

    From then on that time costs nothing, so that the same time is never returned twice, whoever asks again. What a failure takes
    late in a week stays valid beyond it, what an overrun takes does not. Under the lock of whoever pays and of the card.
    `row.reservation` must be loaded.
    """
    reservation, lab = row.reservation, queries.lab_facts()
    zone = lab.zone
    whole = Interval(row.start, row.end)
    gaps = [gap for one in lost if (gap := one.cut(whole)) is not None]
    price = price_from_json(row.price) if row.price else (Stretch(Interval(reservation.start, reservation.end)),)
    returned: dict[date, int] = {}
    free: dict[date, int] = {}
    for gap in gaps:
        _add(returned, charge([(price, row.weight)], zone, gap))
        _add(free, free_seconds(price, 1, zone, gap))
        price = uncharged(price, [gap])
    if not any(returned.values()) and not any(free.values()):
        return {}
    row.price = price_to_json(price)
    row.save(update_fields=["price"])
    post(reservation, scaled(returned, -1), Reason.LOST, now)
    if reservation.kind == Kind.WALK_IN:
        post(reservation, scaled(free, -1), Reason.LOST, now, account=Account.FREE)
    if is_failure and not reservation.is_elastic:
        hours.keep_valid(reservation, returned, why="failure", lab=lab, now=now)
    return returned


def return_downtime(host_id: int, down: Interval, *, now: datetime) -> None:
    """Returns to whoever held cards of a host while it was down what that time cost (E3); each under a lock of its own.

    The same call again returns nothing more. Raises `locking.Busy`: what was returned by then stays returned.
    """
    for row in queries.held_on_host(host_id, down):
        members, projects = queries.people_behind([row.reservation_id])
        with locking.hold(members=members, projects=projects, cards=[row.gpu_id]):
            fresh = Allocation.objects.select_related("reservation__holder").get(pk=row.pk)
            if returned := return_lost(fresh, [down], now):
                audit.note(
                    "return_lost", fresh.reservation, actor=None, origin="sweep", now=now, card=fresh.gpu_id,
                    start=down.start.isoformat(), end=down.end.isoformat(), units=sum(returned.values()),
                )


def _add(total: dict[date, int], part: dict[date, int]) -> None:
    for period, units in part.items():
        total[period] = total.get(period, 0) + units
