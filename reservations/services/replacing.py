"""Equal cards for what an interruption took, with one press (G5, G6)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from .. import permissions, queries
from ..models import Allocation, Collaborator, Member, Reservation
from ..rules import booking as rules
from ..rules.interval import Interval
from ..rules.kinds import Kind
from ..rules.lifecycle import Status
from ..rules.quota import Price, Stretch, free_first, price_from_json, price_to_json
from ..rules.refusal import Code, Refused, refuse
from ..rules.swaps import swaps
from ..rules.week import local_date
from . import audit, extension, fees, outbox
from .held import Held, Reason, held_by, locked, post_both, remember, repeated

# What took the place of lost cards and is over gives the right to others back only where it never held.
_NEVER_HELD = [str(Status.CANCELLED), str(Status.PASSED), str(Status.DISPLACED)]


@dataclass(frozen=True)
class Equal:
    """What can be had now: for each lost card's row the equal card that is free for the rest of the time."""

    cards: dict[int, int]
    rows: Sequence[Allocation]


def equal_cards(reservation: Reservation, *, now: datetime) -> Equal | None:
    """The equal cards that the holder could take now for all that was lost and not made good; None where nothing was lost.

    Empty `cards`: something was lost, and no equal cards are free. For a page, or under the lock.
    """
    rows = _unmade(reservation, now)
    if not rows:
        return None
    gone = queries.cards([row.gpu_id for row in rows])
    mates = queries.cards(queries.pool_mates(gone))
    taken = [*queries.holdings_between(mates, now, reservation.end), *queries.lost_cards(mates, now)]
    busy = {one.card_id for one in taken}
    free = [card for card in mates.values() if card.in_service and card.pickable and card.id not in {*busy, *gone}]
    return Equal(dict(swaps(list(gone.values()), gone, free) or {}), rows)


def _unmade(reservation: Reservation, now: datetime) -> list[Allocation]:
    """The rows of lost cards for which the holder has taken none yet, while their time lasts."""
    if now >= reservation.end:
        return []
    rows = list(reservation.allocations.filter(status=str(Status.INTERRUPTED)).order_by("end", "gpu"))
    made = Allocation.objects.filter(reservation__instead_of=reservation).exclude(reservation__status__in=_NEVER_HELD)
    return rows[made.count():]


def take_equal(
    reservation_id: int, *, by: Member, now: datetime, key: str, origin: str = "page"
) -> Reservation:
    """Books equal cards for the rest of the time for what was lost, as the same kind, in the same tier, at the old price.

    Charged again is what the interruption returned; windows and the lengths of walk-ins are not asked again. A repeat of the
    same key returns the reservation made the first time. Raises `Refused`: nothing lost, no equal card free, or no room under
    the caps or in the allowance any more.
    """
    fingerprint = hashlib.sha256(f"equal {reservation_id}".encode()).hexdigest()
    with locked(reservation_id, by, permissions.Action.TAKE_EQUAL, None, now) as held:
        if done := repeated(by, key, fingerprint):
            return done
        old, lab = held.reservation, held.lab
        equal = equal_cards(old, now=now)
        if equal is None:
            raise refuse(Code.NOTHING_LOST)
        if not equal.cards:
            raise refuse(Code.NO_EQUAL_CARD)
        span = Interval(now, old.end)
        prices = _prices(equal, old, span, lab)
        new = Reservation(
            holder=old.holder, status=Status.ACTIVE, kind=old.kind, tier=old.tier, rank_tier=old.rank_tier,
            is_elastic=old.is_elastic, purpose=old.purpose, note=old.note, start=span.start, end=span.end, booked_at=now,
            instead_of=old, displaced_times=old.displaced_times, project_id=old.project_id, project_pays=old.project_pays,
            grant_id=old.grant_id,
        )
        rows = [
            Allocation(
                reservation=new, gpu_id=equal.cards[row.gpu_id], status=Status.ACTIVE, start=span.start, end=span.end,
                weight=row.weight, price=price_to_json(prices[row.gpu_id]),
            )
            for row in equal.rows
        ]
        whole = Held(new, rows, lab)
        refusals = [
            *rules.crowd_refusals(
                span, len(rows), queries.holdings_of(old.holder_id, now), lab.policy, old.holder.role
            ),
            *(rules.Refusal(one.code, one.facts) for one in extension.quota_for(whole, whole.prices)),
        ]
        if refusals:
            raise Refused(refusals)
        new.save()
        Allocation.objects.bulk_create(rows)
        Collaborator.objects.bulk_create(
            Collaborator(reservation=new, member_id=pk, state=Collaborator.State.ACCEPTED, at=now)
            for pk in sorted(old.collaborator_ids)
        )
        post_both(held_by(new), None, Reason.BOOKED, now)
        returned = fees.return_for(equal.cards.values(), span, lab, now)
        outbox.write_reminders(new, lab, now)
        audit.note(
            "reserve", new, actor=by, origin=origin, now=now, cards=sorted(equal.cards.values()), instead_of=old.pk,
            start=span.start.isoformat(), end=span.end.isoformat(), tier=new.tier, kind=str(new.kind),
            **fees.recorded(returned),
        )
        remember(by, key, fingerprint, new, now)
        return new


def _prices(equal: Equal, old: Reservation, span: Interval, lab: queries.LabFacts) -> dict[int, Price]:
    """The old price of each lost card's rest; of a walk-in's with as much free time as is left now (D2)."""
    prices = {row.gpu_id: _rest(row, old, span) for row in equal.rows}
    if old.kind != Kind.WALK_IN:
        return prices
    day, last = local_date(span.start, lab.zone), local_date(span.end, lab.zone)
    days = [day + timedelta(days=n) for n in range((last - day).days + 1)]
    used = queries.free_seconds_used(old.holder_id, days)
    left = {day: max(lab.policy.walk_in_free_hours * 3600 - used[day], 0) for day in days}
    return {card_id: free_first(price, len(prices), left, lab.zone) for card_id, price in prices.items()}


def _rest(row: Allocation, old: Reservation, span: Interval) -> Price:
    price = price_from_json(row.price) if row.price else (Stretch(Interval(old.start, old.end)),)
    return tuple(Stretch(part, one.rate) for one in price if (part := one.interval.cut(span)) is not None)
