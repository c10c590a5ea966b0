"""The sweeps of the ledger: each looks for due rows and hands them, one by one, to the services.

A sweep that ends early, runs twice or at the same time as another changes nothing: the rows are claimed one by one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from datetime import datetime

from celery import shared_task
from django.utils import timezone

from . import queries, ticks
from .rules.refusal import Refused
from .services import (
    booking,
    delivery,
    elastic,
    extension,
    grants,
    interrupting,
    leaving,
    locking,
    offers,
    waitlist,
)

log = logging.getLogger(__name__)

# A sweep stays well under the broker's visibility timeout, or it would be handed out a second time while it runs.
BUDGET_S = 45.0
# However little happens, everybody who waits is looked at so often: a week begins, a day opens, a policy changes.
ROUND_S = 60.0


@shared_task(name="reservations.deliver")
def deliver() -> None:
    """Sends what is due (K2)."""
    ticks.mark("deliver", timezone.now())
    stop = time.monotonic() + BUDGET_S
    with delivery.Sender() as sender:
        for notification_id in delivery.due(timezone.now()):
            if time.monotonic() > stop or sender.is_hopeless:
                return
            try:
                sender.deliver(notification_id, now=timezone.now())
            except Exception:
                log.exception("message row %s: left for the next sweep", notification_id)


@shared_task(name="reservations.people")
def people() -> None:
    """Lets members leave whose last day is over (B2), and requests for deadline grants lapse (B3)."""
    now = timezone.now()
    for member_id in leaving.leave_due(now):
        try:
            leaving.leave(member_id, by=None, now=now, origin="sweep")
        except Refused as problem:
            log.warning("member %s cannot leave by the clock: %s", member_id, problem)
        except locking.Busy:
            log.info("member %s: busy, left for the next sweep", member_id)
        except Exception:
            log.exception("member %s: left for the next sweep", member_id)
    try:
        grants.lapse_due(now)
    except locking.Busy:
        log.info("deadline grants: busy, left for the next sweep")


@shared_task(name="reservations.advance")
def advance() -> None:
    """Starts and finishes reservations whose time has come (H1), and extends what is to be extended while free (H5).

    Takes from them what is out of reach (G5, G6). What is beyond the allowance comes within it (E4).
    """
    ticks.mark("advance", timezone.now())
    stop = time.monotonic() + BUDGET_S
    now = timezone.now()
    # First what goes on by its holder's wish: whoever comes late must not find it finished.
    acts: list[tuple[Callable[..., object], int]] = [
        *((extension.extend_free, pk) for pk in extension.free_due(now, queries.lab_facts().policy)),
        *((booking.advance_one, pk) for pk in dict.fromkeys([*booking.finish_due(now), *booking.start_due(now)])),
    ]
    for act, reservation_id in acts:
        if time.monotonic() > stop:
            return
        try:
            act(reservation_id, now=now)
        except locking.Busy:
            log.info("reservation %s: busy, left for the next sweep", reservation_id)
        except Refused as problem:
            log.info("reservation %s: not extended: %s", reservation_id, problem)
        except Exception:
            log.exception("reservation %s: left for the next sweep", reservation_id)
    _each(interrupting.due(now), interrupting.interrupt, now)
    _each(interrupting.swap_due(now), interrupting.swap_or_displace, now)
    for reservation_id in elastic.due(now):
        try:
            elastic.settle(reservation_id, now=now)
        except locking.Busy:
            log.info("reservation %s: busy, left for the next sweep", reservation_id)


def _each(ids: Iterable[int], act: Callable[..., object], now: datetime) -> None:
    """Does it to each; what is busy or fails is left for the next sweep."""
    for reservation_id in ids:
        try:
            act(reservation_id, now=now)
        except locking.Busy:
            log.info("reservation %s: busy, left for the next sweep", reservation_id)
        except Exception:
            log.exception("reservation %s: left for the next sweep", reservation_id)


@shared_task(name="reservations.serve_waitlist")
def serve_waitlist() -> None:
    """Ends offers that have run out, and serves who waits: at once when something was given back, else every minute (K5)."""
    now = timezone.now()
    ticks.mark("waitlist", now)
    for reservation_id in offers.expire_due(now):
        try:
            offers.expire_one(reservation_id, now=now)
        except locking.Busy:
            log.info("offer %s: busy, left for the next sweep", reservation_id)
        except Exception:
            log.exception("offer %s: left for the next sweep", reservation_id)
    age = ticks.ages(["waitlist-round"], now)["waitlist-round"]
    if age is None or age >= ROUND_S or waitlist.is_due(now):
        ticks.mark("waitlist-round", now)
        waitlist.serve(now, budget_s=BUDGET_S)
