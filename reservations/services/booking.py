"""Booking: a request becomes a reservation, or every reason why not. And time passing over it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from .. import permissions, queries
from ..models import Allocation, Member, Reservation
from ..prepared import insert
from ..queries import LabFacts
from ..rules import booking as rules
from ..rules.lifecycle import Status
from ..rules.projects import pays
from ..rules.refusal import Alternative, Code, Refused, refuse
from ..rules.week import NoSuchLocalTime, round_to_raster, typed_instant
from . import audit, displacing, fees, locking, outbox
from .held import Reason, guarded, held_by, on_its_cards, post_both, remember, repeated
from .placing import allocate, facts_for, on_reserve


@dataclass(frozen=True)
class BookingRequest:
    """What somebody asks for. `start` None = now. `key` makes a repeat of the same request harmless (P3).

    Cards by name, or `count` of any that fit the pool, the model and the memory (bytes). `expected_memory`, in bytes, is what
    the holder says of their work: it decides nothing (B4).
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
    may_move: bool | None = None  # when displaced (D5); None = as the tier has it
    may_move_until: datetime | None = None  # until when it then ends at the latest; None = as the policy has it
    instead_of: int | None = None  # a displaced reservation of the member's that this one takes the place of
    project_id: int | None = None
    expected_memory: int | None = None
    release_when_done: bool = False
    extend_while_free: bool = False

    def fingerprint(self) -> str:
        """A hash of everything asked, to tell a repeat from another request under the same key."""
        cards = (self.count, self.pool_id, self.model, self.min_memory, self.several_hosts)
        moving = (self.may_move, self.may_move_until, self.instead_of)
        wishes = (self.release_when_done, self.extend_while_free)
        asked = (
            sorted(self.card_ids), self.start, self.end, self.tier, self.purpose, self.note, *(cards if self.count else ()),
            *(moving if any(one is not None for one in moving) else ()), *(wishes if any(wishes) else ()),
            *(("for", self.project_id, self.expected_memory) if self.project_id or self.expected_memory else ()),
        )
        return hashlib.sha256(repr(asked).encode()).hexdigest()

    def ask(self) -> rules.Ask:
        return rules.Ask(
            tuple(sorted(set(self.card_ids))), self.start, self.end, self.tier, self.count, self.pool_id, self.model,
            self.min_memory, self.several_hosts, project_id=self.project_id,
        )


def reserve(member: Member, request: BookingRequest, *, now: datetime, origin: str = "page") -> Reservation:
    """Books all the cards or none, displaces whom the law lets it, charges the weeks, writes audit and the messages.

    Returns the reservation; for a repeat of the same key, the one made the first time. Raises `Refused` with every
    reason, or `locking.Busy`.
    """
    ask = request.ask()
    reach = displacing.reach(ask, now)
    while True:
        projects = {*reach.projects, *([] if ask.project_id is None else [ask.project_id])}
        with guarded(), locking.hold(
            members=[member.pk, *reach.members], projects=projects, cards=reach.cards
        ):
            if done := repeated(member, request.key, request.fingerprint()):
                return done
            member = queries.member_now(member.pk)  # approval and role as they are now, not when the page was asked
            lab = queries.lab_facts()
            facts = facts_for(member, ask, lab, now, as_asked=True)
            replaced = _replaced(member, request)
            if replaced is not None:
                ask, facts = at_the_old_charge(ask, facts, replaced)
            decision = rules.decide(ask, facts)
            if decision.plan is None:
                raise Refused(decision.refusals)
            if decision.plan.displaced <= reach.reservations:
                made = write(member, request, decision.plan, facts, lab, now=now, origin=origin, by=member)
                remember(member, request.key, request.fingerprint(), made, now)
                return made
        reach = displacing.reach(ask, now)  # somebody to displace has come since: their rows must be locked too


def write(
    member: Member, request: BookingRequest, plan: rules.Plan, facts: rules.Facts, lab: LabFacts, *, now: datetime,
    origin: str, by: Member | None, verb: str = "reserve", offer_until: datetime | None = None,
    placed_at: datetime | None = None, **noted: Any,
) -> Reservation:
    """Writes what was decided, under the lock: who makes room, the reservation, its charge, audit (with `noted`), messages.

    With `offer_until` it is only offered, which holds and charges it until then (K5).
    """
    status = Status.ACTIVE if plan.held.start <= now else Status.BOOKED
    replaced = _replaced(member, request)
    displaced = displacing.take_out(plan.displaced, now)
    reservation = Reservation(
        holder=member, status=Status.OFFERED if offer_until else status, kind=plan.kind, offer_until=offer_until,
        placed_at=placed_at, tier=request.tier, rank_tier=plan.rank[1], is_elastic=plan.is_elastic,
        purpose=request.purpose, note=request.note,
        start=plan.held.start, end=plan.held.end, booked_at=now, instead_of=replaced,
        may_move_until=_may_move_until(request, plan, facts),
        displaced_times=replaced.displaced_times if replaced else 0, project_id=request.project_id,
        project_pays=pays(request.project_id, lab.policy), grant_id=plan.grant_id, expected_memory=request.expected_memory,
        release_when_done=request.release_when_done, extend_while_free=request.extend_while_free,
    )
    insert([reservation])
    post_both(allocate(reservation, plan, facts, lab), None, Reason.BOOKED, now)
    returned = fees.return_for(plan.card_ids, plan.held, lab, now)
    if not offer_until:
        outbox.write_reminders(reservation, lab, now)
    moved = displacing.place_anew(displaced, reservation, cause="reserve", now=now)
    audit.note(
        verb, reservation, actor=by, origin=origin, now=now, cards=list(plan.card_ids),
        start=plan.held.start.isoformat(), end=plan.held.end.isoformat(), tier=request.tier, kind=str(plan.kind),
        **fees.recorded(returned), **displacing.recorded(moved), **on_reserve(plan.reserved),
        **noted,
    )
    return reservation


def _replaced(member: Member, request: BookingRequest) -> Reservation | None:
    """The displaced reservation that this one takes the place of: its count of displacements goes on (D4)."""
    if request.instead_of is None:
        return None
    found = Reservation.objects.filter(pk=request.instead_of, holder=member).first()
    if found is None or found.status != Status.DISPLACED:
        raise refuse(Code.NOT_YOURS)
    if is_replaced(found):
        raise refuse(Code.REPLACED)
    return found


def is_replaced(displaced: Reservation) -> bool:
    """Whether its holder has taken another time in its place."""
    return displaced.replacements.exclude(status__in=[Status.CANCELLED, Status.PASSED]).exists()


def in_place_of(displaced: Reservation) -> BookingRequest:
    """The request that the displaced reservation was, to be asked again at another time (D5)."""
    card_ids = displaced.allocations.order_by("gpu").values_list("gpu", flat=True)
    return BookingRequest(
        tuple(card_ids), displaced.start, displaced.end, displaced.tier, displaced.purpose, displaced.note,
        may_move=displaced.may_move_until is not None, instead_of=displaced.pk, project_id=displaced.project_id,
        expected_memory=displaced.expected_memory,
    )


def at_the_old_charge(ask: rules.Ask, facts: rules.Facts, replaced: Reservation) -> tuple[rules.Ask, rules.Facts]:
    """What displaced a reservation was a ruling: what takes its place costs no more than it did (L3). Else as it was."""
    by = replaced.displaced_by
    if by is None or not by.rulings.exists():
        return ask, facts
    held = held_by(replaced)
    return replace(ask, at_most=held.prices[0][0]), displacing.no_heavier(facts, held)


def _may_move_until(request: BookingRequest, plan: rules.Plan, facts: rules.Facts) -> datetime | None:
    may = request.tier in facts.policy.moving_tiers if request.may_move is None else request.may_move
    if not may:
        return None
    return request.may_move_until or plan.held.end + timedelta(seconds=facts.policy.may_move_s)


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
    card_ids = found.allocations.filter(given_back_at=None).order_by("gpu").values_list("gpu", flat=True)
    return BookingRequest(
        tuple(card_ids), _week_later(start, "start", lab.zone), _week_later(found.end, "end", lab.zone), found.tier,
        found.purpose, key=key, project_id=found.project_id, expected_memory=found.expected_memory,
        release_when_done=found.release_when_done, extend_while_free=found.extend_while_free,
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


def look(member: Member, request: BookingRequest, *, now: datetime) -> rules.Decision:
    """What would be decided if this were asked now; writes nothing and takes no lock."""
    ask = request.ask()
    return rules.decide(ask, facts_for(member, ask, queries.lab_facts(), now, as_asked=True))


def check(member: Member, request: BookingRequest, *, now: datetime) -> list[rules.Refusal]:
    """What would be refused if this were asked now."""
    return list(look(member, request, now=now).refusals)


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
