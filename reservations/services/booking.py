"""Booking, releasing, undoing, cancelling, extending: the writes of a reservation's life."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.db import IntegrityError, OperationalError

from .. import permissions, queries
from ..models import Allocation, CardState, IdempotencyKey, LedgerEntry, Member, Reservation
from ..queries import LabFacts
from ..rules import booking as rules
from ..rules.interval import Interval
from ..rules.lifecycle import Status, can_become
from ..rules.quota import allowance_units, charge, unused
from ..rules.refusal import Alternative, Code, Refused, refuse
from ..rules.week import day_start, last_open_day, on_raster, round_to_raster, weeks_of
from . import audit, locking, outbox

_TINY = timedelta(microseconds=1)
Reason = LedgerEntry.Reason


@dataclass(frozen=True)
class BookingRequest:
    """What somebody asks for. `start` None = now. `key` makes a repeat of the same request harmless (P3)."""

    card_ids: tuple[int, ...]
    start: datetime | None
    end: datetime
    tier: str = "regular"
    purpose: str = Reservation.Purpose.TRAINING
    note: str = ""
    key: str = ""

    def fingerprint(self) -> str:
        """A hash of everything asked, to tell a repeat from another request under the same key."""
        asked = (sorted(self.card_ids), self.start, self.end, self.tier, self.purpose, self.note)
        return hashlib.sha256(repr(asked).encode()).hexdigest()


@contextmanager
def _guarded() -> Iterator[None]:
    """Turns the database's last word on an overlap into a refusal (the law's check speaks first, and better)."""
    try:
        yield
    except (IntegrityError, OperationalError) as problem:
        if "no_double_booking" in str(problem):
            raise refuse(Code.CARD_TAKEN, card="", holder="", start=None, end=None, reservation=None) from problem
        raise


# --- booking --------------------------------------------------------------------------------------------------------


def reserve(member: Member, request: BookingRequest, *, now: datetime, origin: str = "page") -> Reservation:
    """Books all the cards or none, charges the weeks, writes audit and the message before the end.

    Returns the reservation; for a repeat of the same key, the one made the first time. Raises `Refused` with every
    reason, or `locking.Busy`.
    """
    with _guarded(), locking.hold(members=[member.pk], cards=request.card_ids):
        if repeated := _repeated(member, request.key, request.fingerprint()):
            return repeated
        lab = queries.lab_facts()
        ask, facts = _facts(member, request, lab, now)
        if refusals := rules.check(ask, facts):
            raise Refused(refusals)
        held = rules.period(ask, facts)
        assert held is not None  # an empty period has been refused
        reservation = Reservation.objects.create(
            holder=member, status=Status.ACTIVE if held.start <= now else Status.BOOKED, tier=request.tier,
            rank_tier=lab.policy.rank_tier(request.tier), purpose=request.purpose, note=request.note,
            start=held.start, end=held.end, booked_at=now,
        )
        chosen = sorted(set(request.card_ids))
        Allocation.objects.bulk_create(
            [
                Allocation(
                    reservation=reservation, gpu_id=card_id, status=reservation.status, start=held.start, end=held.end,
                    weight=facts.cards[card_id].weight,
                )
                for card_id in chosen
            ]
        )
        charges = charge(held, [facts.cards[card_id].weight for card_id in chosen], lab.zone)
        _post(reservation, charges, Reason.BOOKED, now)
        outbox.write_ending(reservation, lab.policy, now)
        audit.note(
            "reserve", reservation, actor=member, origin=origin, now=now,
            cards=chosen, start=held.start.isoformat(), end=held.end.isoformat(), tier=request.tier,
        )
        _remember(member, request.key, request.fingerprint(), reservation, now)
        return reservation


def check(member: Member, request: BookingRequest, *, now: datetime) -> list[rules.Refusal]:
    """What would be refused if this were asked now; writes nothing and takes no lock."""
    ask, facts = _facts(member, request, queries.lab_facts(), now)
    return rules.check(ask, facts)


def _facts(member: Member, request: BookingRequest, lab: LabFacts, now: datetime) -> tuple[rules.Ask, rules.Facts]:
    ask = rules.Ask(tuple(sorted(set(request.card_ids))), request.start, request.end, request.tier)
    from_ = request.start or now
    until = min(max(request.end, from_ + _TINY), from_ + timedelta(days=366))
    weeks = [week for week, _ in weeks_of(Interval(min(from_, now), max(until, now + _TINY)), lab.zone)][:60]
    facts = rules.Facts(
        now=now, zone=lab.zone, policy=lab.policy, member_id=member.pk, member_approved=member.is_approved,
        member_role=member.role, cards=queries.cards(ask.card_ids),
        holdings=queries.holdings_between(ask.card_ids, min(from_, now), until),
        own=queries.holdings_of(member.pk, now), own_future=queries.future_count(member.pk, now),
        used=queries.units_used(member.pk, weeks),
    )
    return ask, facts


# --- changing -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Held:
    """A reservation under the lock, with its holding rows."""

    reservation: Reservation
    allocations: list[Allocation]
    lab: LabFacts

    @property
    def weights(self) -> list[int]:
        return [row.weight for row in self.allocations]


@contextmanager
def _locked(
    reservation_id: int, by: Member, action: permissions.Action, version: int | None, now: datetime
) -> Iterator[_Held]:
    """The door to every change: lock, re-read, right to act, version. Raises `Refused`."""
    found = Reservation.objects.filter(pk=reservation_id).values_list("holder", flat=True).first()
    if found is None:
        raise refuse(Code.NOT_YOURS)
    card_ids = Allocation.objects.filter(reservation=reservation_id).values_list("gpu", flat=True)
    # The actor too: a key is the actor's, and an arbiter may act for two holders at once.
    with _guarded(), locking.hold(members=[found, by.pk], cards=list(card_ids)):
        reservation = Reservation.objects.select_related("holder").get(pk=reservation_id)
        if not permissions.may(by, action, reservation):
            raise refuse(Code.NOT_YOURS)
        if version is not None and version != reservation.version:
            raise refuse(Code.STALE)
        rows = list(Allocation.objects.filter(reservation=reservation).order_by("gpu"))
        yield _Held(reservation, rows, queries.lab_facts())


def release(
    reservation_id: int, *, by: Member, version: int | None, now: datetime, origin: str = "page",
    knowing_it_runs: bool = False, pressed_by: int | None = None,
) -> Reservation:
    """Ends an active reservation now and returns what has not elapsed (H4, E3).

    With processes of the holder still seen on a card it is refused once (`STILL_RUNNING`) unless `knowing_it_runs`:
    LabGPU ends no process. Repeating a release that was done returns it as it stands. `pressed_by`: the member who was
    signed in when the link of `by` was pressed; only the audit keeps it.
    """
    with _locked(reservation_id, by, permissions.Action.RELEASE, None, now) as held:
        reservation = held.reservation
        if reservation.status == Status.RELEASED:
            return reservation
        if version is not None and version != reservation.version:
            raise refuse(Code.STALE)
        _require(reservation, Status.RELEASED, now)
        if not knowing_it_runs and _own_processes_seen(held, now):
            raise refuse(Code.STILL_RUNNING)
        returned = unused(Interval(reservation.start, reservation.end), now, held.weights, held.lab.zone)
        _end(held, Status.RELEASED, now)
        _post(reservation, _negative(returned), Reason.RELEASED, now)
        entry = audit.note(
            "release", reservation, actor=by, origin=origin, now=now, ended_at=now.isoformat(), **_pressed(pressed_by)
        )
        outbox.write_changed(reservation, entry, now)
        return reservation


def undo_release(
    reservation_id: int, *, by: Member, version: int | None, now: datetime, origin: str = "page",
    pressed_by: int | None = None,
) -> Reservation:
    """Takes a release back within its time, unless another holds a card meanwhile; charges again what was returned."""
    with _locked(reservation_id, by, permissions.Action.RELEASE, version, now) as held:
        reservation = held.reservation
        ended = reservation.ended_at
        if reservation.status != Status.RELEASED or ended is None:
            raise refuse(Code.WRONG_STATUS, status=reservation.status)
        limit = ended + timedelta(seconds=held.lab.policy.release_undo_s)
        if now >= min(limit, reservation.end):
            raise refuse(Code.UNDO_OVER)
        _refuse_undo(held, Interval(ended, reservation.end), now)
        _reopen(held, reservation.end)
        recharge = unused(Interval(reservation.start, reservation.end), ended, held.weights, held.lab.zone)
        _post(reservation, recharge, Reason.UNDONE, now)
        outbox.write_ending(reservation, held.lab.policy, now)
        entry = audit.note("undo_release", reservation, actor=by, origin=origin, now=now, **_pressed(pressed_by))
        outbox.write_changed(reservation, entry, now)
        return reservation


def cancel(
    reservation_id: int, *, by: Member, version: int | None, now: datetime, origin: str = "page", reason: str = ""
) -> Reservation:
    """Cancels a reservation that has not started and returns its charge. Repeating it returns it as it stands."""
    with _locked(reservation_id, by, permissions.Action.CANCEL, None, now) as held:
        reservation = held.reservation
        if reservation.status == Status.CANCELLED:
            return reservation
        if version is not None and version != reservation.version:
            raise refuse(Code.STALE)
        _require(reservation, Status.CANCELLED, now)
        returned = charge(Interval(reservation.start, reservation.end), held.weights, held.lab.zone)
        _set_status(held, Status.CANCELLED, ended_at=now)
        _post(reservation, _negative(returned), Reason.CANCELLED, now)
        entry = audit.note("cancel", reservation, actor=by, origin=origin, now=now, reason=reason)
        outbox.write_changed(reservation, entry, now)
        return reservation


def extend(
    reservation_id: int, new_end: datetime, *, by: Member, version: int | None, now: datetime, origin: str = "page",
    key: str = "", pressed_by: int | None = None,
) -> Reservation:
    """Moves the end later while the cards are free and the quota allows (H5); also within the grace after the end (H0).

    A repeat of the same key returns the reservation as it stands. Raises `Refused`; the refusal says the longest
    possible end.
    """
    fingerprint = hashlib.sha256(f"extend {reservation_id} {new_end.isoformat()}".encode()).hexdigest()
    with _locked(reservation_id, by, permissions.Action.EXTEND, None, now) as held:
        if repeated := _repeated(by, key, fingerprint):
            return repeated
        reservation, lab = held.reservation, held.lab
        if version is not None and version != reservation.version:
            raise refuse(Code.STALE)
        _refuse_unextendable(held, new_end, now)
        old_end = reservation.end
        added = charge(Interval(old_end, new_end), held.weights, lab.zone)
        if reservation.status == Status.FINISHED:
            _reopen(held, new_end)
        else:
            reservation.end = new_end
            reservation.version += 1
            reservation.save(update_fields=["end", "version"])
            Allocation.objects.filter(reservation=reservation, end=old_end).update(end=new_end)
        _post(reservation, added, Reason.EXTENDED, now)
        outbox.write_ending(reservation, lab.policy, now)
        entry = audit.note(
            "extend", reservation, actor=by, origin=origin, now=now,
            old_end=old_end.isoformat(), new_end=new_end.isoformat(), **_pressed(pressed_by),
        )
        outbox.write_changed(reservation, entry, now)
        _remember(by, key, fingerprint, reservation, now)
        return reservation


def longest_end(reservation: Reservation, *, now: datetime) -> datetime | None:
    """The latest end the reservation could be extended to now, or None when it cannot be extended (H5)."""
    held = _Held(
        reservation, list(Allocation.objects.filter(reservation=reservation).order_by("gpu")), queries.lab_facts()
    )
    return _longest(held, now)


def _longest(held: _Held, now: datetime) -> datetime | None:
    reservation, lab = held.reservation, held.lab
    policy = lab.policy
    status = _status_at(reservation, now)
    in_grace = status == Status.FINISHED and now < reservation.end + policy.grace
    if not in_grace and status not in (Status.BOOKED, Status.ACTIVE):
        return None
    if any(rules.service_refusals(_cards(held).values())):
        return None
    limit = round_to_raster(reservation.start + policy.longest, policy.raster_s, lab.zone, up=False)
    open_until = last_open_day(now, lab.zone, days_before=policy.opens_days, at=policy.opens_time)
    limit = min(limit, day_start(open_until + timedelta(days=1), lab.zone))
    for row in held.allocations:
        following = queries.next_holding(row.gpu_id, reservation.end, not_of=reservation.pk)
        if following:
            limit = min(limit, following.interval.start)
    if limit <= reservation.end or not reservation.holder.is_approved:
        return None
    own = _own_others(held, now)
    turns = sorted({reservation.end, *(one.interval.start for one in own if one.interval.start > reservation.end)})
    for turn in turns:  # more cards than the cap can only begin where the stretch or another reservation begins
        instant = Interval(turn, turn + _TINY)
        if turn < limit and any(rules.crowd_refusals(instant, len(held.allocations), own, policy)):
            limit = turn
    if limit <= reservation.end:
        return None
    for refusal in _quota_for(held, Interval(reservation.end, limit)):
        fits = refusal.facts["fits"]
        if fits is None:
            return None
        limit = min(limit, fits)
    return limit if limit > max(reservation.end, now) else None


def _quota_for(held: _Held, added: Interval) -> list[rules.Refusal]:
    reservation, lab = held.reservation, held.lab
    role = lab.policy.role(reservation.holder.role)
    used = queries.units_used(reservation.holder_id, [week for week, _ in weeks_of(added, lab.zone)])
    return list(
        rules.quota_refusals(
            added, held.weights, used=used, allowance=allowance_units(role.weekly_hours if role else 0),
            facts_zone=lab.zone, policy=lab.policy, asked_start=None,
        )
    )


def _refuse_unextendable(held: _Held, new_end: datetime, now: datetime) -> None:
    """Raises every reason why the end cannot move to `new_end` (H5)."""
    reservation, lab = held.reservation, held.lab
    policy = lab.policy
    status = _status_at(reservation, now)
    if status == Status.FINISHED:
        if now >= reservation.end + policy.grace:
            raise refuse(Code.GRACE_OVER)
    elif status not in (Status.BOOKED, Status.ACTIVE):
        raise refuse(Code.WRONG_STATUS, status=str(status))
    longest = _longest(held, now)
    instead = Alternative({"end": longest}) if longest else None
    if new_end <= max(reservation.end, now):
        raise refuse(Code.NOT_LATER, instead, longest=longest)
    refusals = []
    if not reservation.holder.is_approved:
        refusals.append(rules.Refusal(Code.NOT_APPROVED))
    if not on_raster(new_end, policy.raster_s, lab.zone):
        nearest = round_to_raster(new_end, policy.raster_s, lab.zone, up=True)
        refusals.append(
            rules.Refusal(Code.OFF_RASTER, {"minutes": policy.raster_s / 60}, Alternative({"end": nearest}))
        )
    if new_end - reservation.start > policy.longest:
        refusals.append(rules.Refusal(Code.TOO_LONG, {"hours": policy.longest_s / 3600}, instead))
        raise Refused(refusals)  # what stands beyond the limit is of no use to the reader
    added = Interval(reservation.end, new_end)
    refusals += [
        rules.Refusal(one.code, one.facts, instead)
        for one in rules.day_refusals(added, now=now, zone=lab.zone, policy=policy)
    ]
    refusals += rules.service_refusals(_cards(held).values())
    refusals += _taken(held, added, instead)
    refusals += rules.crowd_refusals(added, len(held.allocations), _own_others(held, now), policy)
    refusals += _quota_for(held, added)
    if refusals:
        raise Refused(refusals)


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
    card_ids = Allocation.objects.filter(reservation=reservation_id).values_list("gpu", flat=True)
    with locking.hold(cards=list(card_ids)):
        for old, new, due in (
            (Status.BOOKED, Status.ACTIVE, {"start__lte": now}),
            (Status.ACTIVE, Status.FINISHED, {"end__lte": now}),
        ):
            claimed = Reservation.objects.filter(pk=reservation_id, status=old, **due).update(status=new)
            if claimed:
                Allocation.objects.filter(reservation=reservation_id, status=old).update(status=new)
                reservation = Reservation.objects.select_related("holder").get(pk=reservation_id)
                audit.note(str(new), reservation, actor=None, origin="sweep", now=now)


# --- helpers --------------------------------------------------------------------------------------------------------


def _pressed(by: int | None) -> dict[str, Any]:
    return {} if by is None else {"pressed_by": by}


def _status_at(reservation: Reservation, now: datetime) -> Status:
    """The status by the clock: the sweep that writes it down may be late."""
    status = Status(reservation.status)
    if status == Status.BOOKED and reservation.start <= now:
        status = Status.ACTIVE
    if status == Status.ACTIVE and reservation.end <= now:
        status = Status.FINISHED
    return status


def _require(reservation: Reservation, new: Status, now: datetime) -> None:
    """Refuses a change the life of a reservation does not know."""
    status = _status_at(reservation, now)
    if status == Status.FINISHED or not can_become(status, new):
        raise refuse(Code.WRONG_STATUS, status=str(status))


def _own_processes_seen(held: _Held, now: datetime) -> bool:
    states = CardState.objects.filter(gpu__in=[row.gpu_id for row in held.allocations])
    return any(held.reservation.holder_id in state.owner_ids for state in states)


def _set_status(held: _Held, status: Status, *, ended_at: datetime | None) -> None:
    reservation = held.reservation
    reservation.status, reservation.ended_at = status, ended_at
    reservation.version += 1
    reservation.save(update_fields=["status", "ended_at", "version"])
    Allocation.objects.filter(reservation=reservation).update(status=status)


def _end(held: _Held, status: Status, now: datetime) -> None:
    _set_status(held, status, ended_at=now)
    for row in held.allocations:
        if row.end > now:
            Allocation.objects.filter(pk=row.pk).update(end=max(now, row.start + _TINY))


def _reopen(held: _Held, end: datetime) -> None:
    """Makes an ended reservation hold again until `end` (H0)."""
    reservation = held.reservation
    reservation.status, reservation.ended_at, reservation.end = Status.ACTIVE, None, end
    reservation.version += 1
    reservation.save(update_fields=["status", "ended_at", "end", "version"])
    Allocation.objects.filter(reservation=reservation).update(status=Status.ACTIVE, end=end)


def _cards(held: _Held) -> dict[int, rules.Card]:
    return queries.cards(row.gpu_id for row in held.allocations)


def _taken(held: _Held, span: Interval, instead: Alternative | None) -> list[rules.Refusal]:
    names = _cards(held)
    return [
        rules.Refusal(
            Code.CARD_TAKEN,
            {
                "card": names[one.card_id].label, "holder": one.holder_name, "start": one.interval.start,
                "end": one.interval.end, "reservation": one.reservation_id,
            },
            instead,
        )
        for one in queries.holdings_between(names, span.start, span.end)
        if one.reservation_id != held.reservation.pk
    ]


def _refuse_undo(held: _Held, span: Interval, now: datetime) -> None:
    """Raises when what the release gave back is no longer there: the cards, the hours, the room under the cap."""
    own = _own_others(held, now)
    refusals = [
        *_taken(held, span, None),
        *rules.crowd_refusals(span, len(held.allocations), own, held.lab.policy),
        *(rules.Refusal(one.code, one.facts) for one in _quota_for(held, span)),
    ]
    if refusals:
        raise Refused(refusals)


def _own_others(held: _Held, now: datetime) -> list[rules.Holding]:
    """What the holder has beside this reservation, from now on."""
    mine = queries.holdings_of(held.reservation.holder_id, now)
    return [one for one in mine if one.reservation_id != held.reservation.pk]


def _negative(units: Mapping[date, int]) -> dict[date, int]:
    return {week: -amount for week, amount in units.items()}


def _post(reservation: Reservation, units: Mapping[date, int], reason: str, now: datetime) -> None:
    LedgerEntry.objects.bulk_create(
        [
            LedgerEntry(
                member_id=reservation.holder_id, week=week, units=amount, reason=reason, reservation=reservation, at=now
            )
            for week, amount in sorted(units.items())
            if amount
        ]
    )


def _repeated(actor: Member, key: str, fingerprint: str) -> Reservation | None:
    """The answer given the first time this key was used; refuses another request under the same key (P3)."""
    if not key:
        return None
    kept = IdempotencyKey.objects.filter(actor=actor, key=key).select_related("reservation__holder").first()
    if kept is None:
        return None
    if kept.fingerprint != fingerprint:
        raise refuse(Code.KEY_REUSED)
    return kept.reservation


def _remember(actor: Member, key: str, fingerprint: str, reservation: Reservation, now: datetime) -> None:
    if key:
        IdempotencyKey.objects.create(actor=actor, key=key, fingerprint=fingerprint, reservation=reservation, at=now)


