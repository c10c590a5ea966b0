"""Who does not come and who has gone: the acts that rest on a card being observed free (domain.md H2, H3, H7).

Everything is derived anew from stored samples and decided again under the lock, where the gate of I1 has the last word; so a
sweep that is killed, comes late or runs twice changes no outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from reservations import queries as ledger
from reservations.models import Demerit, Reservation
from reservations.queries import Attendance, Place
from reservations.rules.interval import Interval
from reservations.rules.policy import Policy
from reservations.rules.presence import comes_from, time_to_come
from reservations.services import held as ledger_rows
from reservations.services import locking
from reservations.services import presence as ledger_acts
from reservations.services.held import Held

from .. import queries
from ..models import GateEntry
from ..rules import gate, presence
from ..rules.presence import Counted
from ..rules.snapshot import FRESH_PERIODS, Look

log = logging.getLogger(__name__)

# How far before a start it is looked what was on the card already.
_BEFORE = timedelta(minutes=10)


@dataclass(frozen=True)
class Act:
    """One act that is due: its name in the gate's log, the cards it is about, the counted time it rests on."""

    name: str
    gpu_ids: tuple[int, ...]
    counted: Counted
    carry_out: Callable[[Held, Mapping[str, Any], datetime], None]
    gpu_id: int | None = None  # where it is about one card alone
    evidence: Mapping[str, Any] | None = None


def sweep(*, now: datetime, period: timedelta) -> None:
    """Follows every reservation whose time is now. One that cannot be followed is logged and stops no other."""
    policy = ledger.lab_facts().policy
    for attendance in ledger.attendances(now):
        try:
            _follow(attendance, policy, now, period)
        except locking.Busy:
            log.info("The ledger is busy: reservation %s waits for the next sweep.", attendance.reservation_id)
        except Exception:
            log.exception("Reservation %s could not be followed.", attendance.reservation_id)


def _follow(attendance: Attendance, policy: Policy, now: datetime, period: timedelta) -> None:
    if not any(_may_be_due(attendance, policy, now)):
        return
    _announce(attendance, policy, now, period)
    if not any(True for _ in _due(attendance, policy, now, period)):
        return
    pk = attendance.reservation_id
    with ledger_rows.guarded(), ledger_rows.on_its_cards(pk, people=True):
        # As it is now: an extension, a release or a process may have come between.
        for again in ledger.attendances(now, only=[pk]):
            row = Reservation.objects.select_related("holder").get(pk=pk)
            for act in _due(again, policy, now, period):
                answer = _ask_gate(again, act, policy, now, period)
                _log_answer(again, act, answer, now)
                if answer.is_allowed:
                    act.carry_out(ledger_rows.held_by(row), {**(act.evidence or {}), "coverage": round(answer.coverage, 4)}, now)


def _may_be_due(attendance: Attendance, policy: Policy, now: datetime) -> Iterator[bool]:
    """By the clock alone, before any sample is read."""
    limit = time_to_come(policy, is_confirmed=attendance.is_confirmed)
    begins = comes_from(attendance.start, attendance.booked_at, attendance.asked, policy)
    if not attendance.came:
        yield limit is not None and begins is not None and now - begins >= limit
        return
    yield attendance.release_when_done
    idle = any(place.first_seen is None for place in attendance.places)
    since = _unused_since(attendance)
    yield bool(policy.give_back_s) and idle and now - since >= timedelta(seconds=policy.give_back_s)


def _due(attendance: Attendance, policy: Policy, now: datetime, period: timedelta) -> Iterator[Act]:
    """What is due of this reservation, as the samples have it. One act at a time that ends the whole; else single cards."""
    if not attendance.came:
        if (act := _no_show(attendance, policy, now, period)) is not None:
            yield act
        return
    if (act := _done(attendance, policy, now, period)) is not None:
        yield act
        return
    yield from _unused(attendance, policy, now, period)


# --- nobody came (H2) ---------------------------------------------------------------------------------------------------


def _no_show(attendance: Attendance, policy: Policy, now: datetime, period: timedelta) -> Act | None:
    limit = time_to_come(policy, is_confirmed=attendance.is_confirmed)
    begins = comes_from(attendance.start, attendance.booked_at, attendance.asked, policy)
    if limit is None or begins is None or now - begins < limit:
        return None
    looks = _looks(attendance.places, attendance.start - _BEFORE, now, policy)
    if not _nobody_seen(attendance, looks, policy):
        return None
    counted = presence.counted(looks, begins, period)
    if counted.total < limit or counted.until is None:
        return None
    evidence = {
        "kind": "no_show",
        "cards": [place.label for place in attendance.places],
        "start": attendance.start.isoformat(),
        "counted_from": begins.isoformat(),
        "counted_s": int(counted.total.total_seconds()),
        "limit_s": int(limit.total_seconds()),
        "confirmed": attendance.is_confirmed,
        "asked_at": attendance.asked.sent_at.isoformat() if attendance.asked.sent_at else None,
        "last_look": counted.until.isoformat(),
        "looks": min(len(some) for some in (counted.samples or {}).values()),
        "counted_at": now.isoformat(),
        "simulated": any(look.simulated for some in looks.values() for look in some),
    }
    gpus = tuple(looks)
    return Act("no_show", gpus, counted, lambda held, proof, at: ledger_acts.forfeit_no_show(held, proof, at), None, evidence)


def _nobody_seen(attendance: Attendance, looks: presence.Looks, policy: Policy) -> bool:
    """Whether no look since the start shows the holder, or somebody who may be (I3)."""
    since = {gpu_id: [look for look in some if look.at >= attendance.start] for gpu_id, some in looks.items()}
    if any(presence.last_sight(some, attendance.owners) for some in since.values()):
        return False
    return not any(
        presence.may_be_theirs(some, attendance.start, policy.samples_in_a_row) for some in looks.values()
    )


# --- single cards (H3) --------------------------------------------------------------------------------------------------


def _unused(attendance: Attendance, policy: Policy, now: datetime, period: timedelta) -> Iterator[Act]:
    limit = timedelta(seconds=policy.give_back_s)
    since = _unused_since(attendance)
    idle = [place for place in attendance.places if place.first_seen is None]
    # All cards of a reservation whose used one was given back are idle: one of them is kept, for that is H2's and I6's.
    if not limit or now - since < limit or len(idle) == len(attendance.places):
        return
    looks = _looks(idle, attendance.start - _BEFORE, now, policy)
    for gpu_id, some in looks.items():
        if not _nobody_seen(attendance, {gpu_id: some}, policy):
            continue
        counted = presence.counted({gpu_id: some}, since, period)
        if counted.total >= limit:
            yield Act("give_back", (gpu_id,), counted, partial(_give_back, gpu_id), gpu_id)


def _unused_since(attendance: Attendance) -> datetime:
    """The later of start and booking (H3); or when somebody took such a card again, or said that they keep the cards."""
    turns = (attendance.start, attendance.booked_at, attendance.kept_at)
    return max(turn for turn in turns if turn is not None)


def _give_back(gpu_id: int, held: Held, proof: Mapping[str, Any], now: datetime) -> None:
    ledger_acts.give_back_unused(held, [gpu_id], now)


# --- the processes have ended (H7) --------------------------------------------------------------------------------------


def _gone(
    attendance: Attendance, policy: Policy, now: datetime, period: timedelta
) -> tuple[presence.Gone, datetime, presence.Looks] | None:
    """That all own processes have ended and nobody has asked to keep the cards since; with when the last was seen."""
    if not (attendance.release_when_done and attendance.came):
        return None
    span = timedelta(seconds=policy.done_release_s) + _BEFORE
    looks = _looks(attendance.places, max(attendance.start, now - span), now, policy)
    sights = [presence.last_sight(some, attendance.owners) for some in looks.values()]
    seen = max((one for one in (attendance.last_seen, *sights) if one is not None), default=None)
    if seen is None or (attendance.kept_at is not None and seen <= attendance.kept_at):
        return None
    found = presence.gone(looks, seen, now, period)
    return (found, seen, looks) if found is not None else None


def _announce(attendance: Attendance, policy: Policy, now: datetime, period: timedelta) -> None:
    found = _gone(attendance, policy, now, period)
    if found is not None and found[0].looks >= FRESH_PERIODS:
        ledger_acts.announce_release(attendance.reservation_id, found[1], now)


def _done(attendance: Attendance, policy: Policy, now: datetime, period: timedelta) -> Act | None:
    found = _gone(attendance, policy, now, period)
    if found is None:
        return None
    row, seen, looks = found
    wait = timedelta(seconds=policy.done_release_s)
    told_at = ledger_acts.announced_at(attendance.reservation_id, seen)
    # The notice must have left, and have left time to press "keep".
    if row.length < wait or told_at is None or now - told_at < wait / 2:
        return None
    counted = presence.counted(looks, row.since, period)
    return Act("release", tuple(looks), counted, lambda held, proof, at: ledger_acts.release_done(held, at))


# --- samples and the gate -----------------------------------------------------------------------------------------------


def _looks(places: Sequence[Place], since: datetime, now: datetime, policy: Policy) -> dict[int, list[Look]]:
    found = queries.looks_between(
        [place.gpu_id for place in places], since, now, timedelta(seconds=policy.clock_tolerance_s)
    )
    return {place.gpu_id: found[place.gpu_id] for place in places}


def _ask_gate(attendance: Attendance, act: Act, policy: Policy, now: datetime, period: timedelta) -> gate.Answer:
    """The worst answer over the act's cards: coverage is asked of the counted time alone (H2)."""
    counted, start = act.counted, act.counted.start
    if counted.until is None or start is None or counted.samples is None:
        return gate.Answer(gate.Reason.COVERAGE, 0.0)
    offsets = queries.clock_offsets({place.host_id for place in attendance.places})
    is_decided = act.name == "no_show" and Demerit.objects.filter(
        fact=ledger_acts.no_show_fact(attendance.reservation_id)
    ).exists()
    answers = []
    for place in attendance.places:
        if place.gpu_id not in act.gpu_ids:
            continue
        reading = offsets.get(place.host_id)
        case = gate.Case(
            start=start, end=counted.until, samples=counted.samples[place.gpu_id],
            clock_offset_s=reading.offset_s if reading else float("inf"),
            is_mixed=reading is not None and queries.is_mixed(reading.simulated),
            in_maintenance=ledger.in_maintenance(place.gpu_id, Interval(attendance.start, now)), is_decided=is_decided,
        )
        answers.append(gate.ask(case, now=now, policy=policy, period=period))
    return min(answers, key=lambda answer: (answer.is_allowed, answer.coverage))


def _log_answer(attendance: Attendance, act: Act, answer: gate.Answer, now: datetime) -> None:
    about = {"reservation_id": attendance.reservation_id, "act": act.name, "gpu_id": act.gpu_id}
    last = GateEntry.objects.filter(**about).order_by("-at", "-pk").first()
    if last is not None and last.reason == answer.reason:
        return
    GateEntry.objects.create(
        at=now, allowed=answer.is_allowed, reason=str(answer.reason), coverage=round(answer.coverage, 4), **about
    )
