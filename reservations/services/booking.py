"""Booking: a request becomes a reservation, or every reason why not. And time passing over it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from .. import permissions, queries
from ..models import Allocation, Member, Reservation
from ..queries import LabFacts
from ..rules import booking as rules
from ..rules.interval import Interval
from ..rules.lifecycle import Status
from ..rules.quota import price_to_json
from ..rules.refusal import Alternative, Code, Refused, refuse
from ..rules.week import NoSuchLocalTime, local_date, round_to_raster, typed_instant, weeks_of
from . import audit, fees, locking, outbox
from .held import TINY, Reason, guarded, held_by, on_its_cards, post_both, remember, repeated

LONGEST_LOOK = timedelta(days=366)
BESIDE = timedelta(hours=2)  # how far beside the asked time a gap is small (G2)


@dataclass(frozen=True)
class BookingRequest:
    """What somebody asks for. `start` None = now. `key` makes a repeat of the same request harmless (P3).

    Cards by name, or `count` of any that fit the pool, the model and the memory (bytes).
    """

    card_ids: tuple[int, ...]
    start: datetime | None
    end: datetime
    tier: str = "regular"
    purpose: str = Reservation.Purpose.TRAINING
    note: str = ""
    key: str = ""
    count: int = 0
    pool_id: int | None = None
    model: str | None = None
    min_memory: int | None = None
    several_hosts: bool = False

    def fingerprint(self) -> str:
        """A hash of everything asked, to tell a repeat from another request under the same key."""
        cards = (self.count, self.pool_id, self.model, self.min_memory, self.several_hosts)
        asked = (sorted(self.card_ids), self.start, self.end, self.tier, self.purpose, self.note, *(cards if self.count else ()))
        return hashlib.sha256(repr(asked).encode()).hexdigest()

    def ask(self) -> rules.Ask:
        return rules.Ask(
            tuple(sorted(set(self.card_ids))), self.start, self.end, self.tier, self.count, self.pool_id, self.model,
            self.min_memory, self.several_hosts,
        )


def reserve(member: Member, request: BookingRequest, *, now: datetime, origin: str = "page") -> Reservation:
    """Books all the cards or none, charges the weeks, writes audit and the message before the end.

    Returns the reservation; for a repeat of the same key, the one made the first time. Raises `Refused` with every
    reason, or `locking.Busy`.
    """
    ask = request.ask()
    with guarded(), locking.hold(members=[member.pk], cards=_cards_to_lock(ask)):
        if done := repeated(member, request.key, request.fingerprint()):
            return done
        member = Member.objects.get(pk=member.pk)  # approval and role as they are now, not when the page was asked
        lab = queries.lab_facts()
        facts = facts_for(member, ask, lab, now)
        decision = rules.decide(ask, facts)
        if decision.plan is None:
            raise Refused(decision.refusals)
        plan = decision.plan
        reservation = Reservation.objects.create(
            holder=member, status=Status.ACTIVE if plan.held.start <= now else Status.BOOKED, kind=plan.kind,
            tier=request.tier, rank_tier=lab.policy.rank_tier(request.tier), purpose=request.purpose, note=request.note,
            start=plan.held.start, end=plan.held.end, booked_at=now,
        )
        allocate(reservation, plan, facts)
        post_both(held_by(reservation), None, Reason.BOOKED, now)
        returned = fees.return_for(plan.card_ids, plan.held, lab, now)
        outbox.write_ending(reservation, lab.policy, now)
        audit.note(
            "reserve", reservation, actor=member, origin=origin, now=now, cards=list(plan.card_ids),
            start=plan.held.start.isoformat(), end=plan.held.end.isoformat(), tier=request.tier, kind=str(plan.kind),
            **fees.recorded(returned),
        )
        remember(member, request.key, request.fingerprint(), reservation, now)
        return reservation


def allocate(reservation: Reservation, plan: rules.Plan, facts: rules.Facts) -> None:
    """Writes the rows of the plan's cards."""
    Allocation.objects.bulk_create(
        [
            Allocation(
                reservation=reservation, gpu_id=card_id, status=reservation.status, start=plan.held.start,
                end=plan.held.end, weight=facts.cards[card_id].weight, price=price_to_json(plan.prices[card_id]),
            )
            for card_id in plan.card_ids
        ]
    )


def again(reservation_id: int, *, by: Member, now: datetime, key: str, origin: str = "page") -> Reservation:
    """Books the same cards at the same clock time next week, with the same tier and purpose, under all rules (D8).

    A reservation of its own. A repeat of the same key returns the one made the first time. What began between two steps
    of the raster (a walk-in) begins at the earlier one. Raises `Refused`, also where the clock skips or repeats a time.
    """
    return reserve(by, next_week(reservation_id, by=by, key=key), now=now, origin=origin)


def next_week(reservation_id: int, *, by: Member, key: str) -> BookingRequest:
    """What `again` asks for. Raises `Refused`: for a local time that does not exist or comes twice with both readings (A3)."""
    found = Reservation.objects.select_related("holder").filter(pk=reservation_id).first()
    if found is None or not permissions.may(by, permissions.Action.AGAIN, found):
        raise refuse(Code.NOT_YOURS)
    lab = queries.lab_facts()
    start = round_to_raster(found.start, lab.policy.raster_s, lab.zone, up=False)
    card_ids = found.allocations.order_by("gpu").values_list("gpu", flat=True)
    return BookingRequest(
        tuple(card_ids), _week_later(start, "start", lab.zone), _week_later(found.end, "end", lab.zone), found.tier,
        found.purpose, key=key,
    )


def _week_later(instant: datetime, field: str, zone: ZoneInfo) -> datetime:
    try:
        return typed_instant(instant.astimezone(zone).replace(tzinfo=None) + timedelta(days=7), zone)
    except NoSuchLocalTime as problem:
        code = Code.TIME_TWICE if problem.twice else Code.TIME_SKIPPED
        first, second = problem.readings
        raise Refused(
            rules.Refusal(code, {"first": first, "second": second}, Alternative({field: reading}))
            for reading in problem.readings
        ) from None


def check(member: Member, request: BookingRequest, *, now: datetime) -> list[rules.Refusal]:
    """What would be refused if this were asked now; writes nothing and takes no lock."""
    ask = request.ask()
    return list(rules.decide(ask, facts_for(member, ask, queries.lab_facts(), now)).refusals)


def _cards_to_lock(ask: rules.Ask) -> list[int]:
    """The named cards and their pools' others, whose sums (reserve, quick cards) the answer rests on; or all that may be
    chosen from."""
    return queries.pool_mates(ask.card_ids) if ask.is_named else queries.serving_cards(ask.pool_id)


def facts_for(member: Member, ask: rules.Ask, lab: LabFacts, now: datetime) -> rules.Facts:
    """Everything the answer to this request rests on. Under the lock, if something is to be written."""
    from_ = ask.start or now
    until = min(max(ask.end, from_ + TINY), from_ + LONGEST_LOOK)
    whole = Interval(min(from_, now), max(until, now + TINY))
    weeks = [week for week, _ in weeks_of(whole, lab.zone)][:60]
    card_ids = _cards_to_lock(ask)
    cards = queries.cards(card_ids)
    pools = queries.pools(sorted({card.pool_id for card in cards.values()}), lab)
    days = [local_date(whole.start, lab.zone) + timedelta(days=n) for n in range((whole.end - whole.start).days + 2)]
    return rules.Facts(
        now=now, zone=lab.zone, policy=lab.policy, member_id=member.pk, member_approved=member.is_approved,
        member_role=member.role, cards=cards if not ask.is_named else queries.named(cards, ask.card_ids), pools=pools,
        holdings=queries.holdings_between(card_ids, min(from_, now) - BESIDE, until + BESIDE),
        own=queries.holdings_of(member.pk, now), own_future=queries.future_count(member.pk, now),
        used=queries.units_used(member.pk, weeks), free_used=queries.free_seconds_used(member.pk, days[:400]),
        used_last=queries.card_used_last(member.pk) if not ask.is_named else None,
    )


# --- time passing ---------------------------------------------------------------------------------------------------


def start_due(now: datetime) -> list[int]:
    """Reservations whose start has come and that are not active yet."""
    rows = Reservation.objects.filter(status=Status.BOOKED, start__lte=now)
    return list(rows.order_by("start").values_list("pk", flat=True)[:500])


def finish_due(now: datetime) -> list[int]:
    """Active reservations whose end has come."""
    rows = Reservation.objects.filter(status=Status.ACTIVE, end__lte=now)
    return list(rows.order_by("end").values_list("pk", flat=True)[:500])


def advance_one(reservation_id: int, *, now: datetime) -> None:
    """Starts or finishes one reservation whose time has come; does nothing when somebody else has done so (H1).

    Under the lock of every change: an extension that meets the sweep must not read `active` and end up `finished`.
    Raises `locking.Busy`; the next sweep finds it again.
    """
    with on_its_cards(reservation_id):
        for old, new, due in (
            (Status.BOOKED, Status.ACTIVE, {"start__lte": now}),
            (Status.ACTIVE, Status.FINISHED, {"end__lte": now}),
        ):
            claimed = Reservation.objects.filter(pk=reservation_id, status=old, **due).update(status=new)
            if claimed:
                Allocation.objects.filter(reservation=reservation_id, status=old).update(status=new)
                reservation = Reservation.objects.select_related("holder").get(pk=reservation_id)
                audit.note(str(new), reservation, actor=None, origin="sweep", now=now)
