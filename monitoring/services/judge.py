"""Judging: what the samples mean, told to the ledger; what lasts, opened, counted and closed.

Everything is derived anew from stored samples, so a judge that is killed, runs twice or comes late changes no outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError, transaction

from reservations import queries as ledger
from reservations.models import Allocation, CardState, Demerit, Reservation
from reservations.rules.interval import Interval
from reservations.services import conduct, locking, sightings
from reservations.services.sightings import Sighting

from .. import queries
from ..models import GateEntry, HostReading, Incident
from ..queries import CardWatch, HostWatch
from ..rules import gate, overrun, verdicts
from ..rules.snapshot import Look, Tenure
from ..rules.verdicts import Verdict
from . import charging

log = logging.getLogger(__name__)

_Finding = tuple[CardWatch, Tenure, overrun.Finding]


def judge_all(*, now: datetime, period: timedelta) -> None:
    """Judges every host that has ever been read; one that cannot be judged is logged and stops no other."""
    for host_id in queries.watched_host_ids():
        try:
            judge_host(host_id, now=now, period=period)
        except Exception:
            log.exception("Host %s could not be judged.", host_id)


def judge_host(host_id: int, *, now: datetime, period: timedelta) -> None:
    """Judges the host's cards: tells the ledger their states, then follows each overrun in a transaction of its own."""
    watch = queries.host_watch(host_id, now=now, period=period)
    if watch is None:
        return
    judged: list[tuple[CardWatch, Verdict]] = []
    findings: list[_Finding] = []
    for card in watch.cards:
        try:
            verdict = verdicts.judge(card.facts, watch.heartbeat, now=now, policy=watch.policy, period=period)
            if verdict is not None:
                judged.append((card, verdict))
            findings += _findings(card, watch, now, period)
        except Exception:
            log.exception("Card %s could not be judged.", card.label)
    _tell(judged, watch, now)
    for card, tenure, finding in findings:
        try:
            _follow(card, tenure, finding, watch, now, period)
        except locking.Busy:
            log.info("The ledger is busy: the overrun of allocation %s waits for the next sweep.", tenure.allocation_id)
        except Exception:
            log.exception("The overrun of allocation %s could not be followed.", tenure.allocation_id)


def _findings(card: CardWatch, watch: HostWatch, now: datetime, period: timedelta) -> list[_Finding]:
    """What is to be done about the card's ended tenures. On a host in trouble or whose clock differs nothing is decided."""
    if watch.heartbeat.problem or not watch.heartbeat.clock_agrees(watch.policy):
        return []
    found = []
    for tenure in card.facts.tenures:
        track = card.tracks.get(tenure.allocation_id, overrun.Track())
        if tenure.end > now and not track.is_open:
            continue
        finding = overrun.follow(
            tenure, card.facts.tenures, card.facts.looks, track, now=now, policy=watch.policy, period=period
        )
        if finding.first_sight and not (finding.counts or track.is_counted) and _somebody_waits(card, tenure, now):
            finding = overrun.follow(
                tenure, card.facts.tenures, card.facts.looks, track, now=now, policy=watch.policy, period=period,
                on_waitlist=True,
            )
        if track.is_open or finding.warns or finding.opens or finding.counts or finding.closes:
            found.append((card, tenure, finding))
    return found


def _somebody_waits(card: CardWatch, tenure: Tenure, now: datetime) -> bool:
    """Whether somebody else waits for such a card now (I4)."""
    instant = Interval(now, now + timedelta(microseconds=1))
    return ledger.somebody_waits([card.gpu_id], instant, now, besides=tenure.member_id)


# --- telling the ledger ---------------------------------------------------------------------------------------------


def _tell(judged: list[tuple[CardWatch, Verdict]], watch: HostWatch, now: datetime) -> None:
    told = [_sighting(card, verdict, watch) for card, verdict in judged]
    seen = {allocation: verdict.at for _, verdict in judged for allocation in verdict.under}
    try:
        with transaction.atomic():
            # Two judges of one host take turns: else the one that read first could write last, an older state.
            HostReading.objects.select_for_update().get(host=watch.host_id)
            sightings.record(told, now=now)
            sightings.saw_processes(seen)
    except DatabaseError:
        log.exception("The cards of host %s are told one by one.", watch.host_id)
        _tell_singly(told, now)


def _tell_singly(told: Iterable[Sighting], now: datetime) -> None:
    for one in told:
        try:
            with transaction.atomic():
                sightings.record([one], now=now)
        except DatabaseError:
            log.exception("The state of card %s could not be told.", one.gpu_id)


def _sighting(card: CardWatch, verdict: Verdict, watch: HostWatch) -> Sighting:
    look = verdict.look or Look(verdict.at)
    return Sighting(
        card.gpu_id, CardState.State(verdict.state), verdict.at, look.utilization, look.memory_used, look.temperature,
        None if look.processes is None else len(look.processes), verdict.member_ids, watch.simulated,
    )


# --- overruns -------------------------------------------------------------------------------------------------------


def _follow(
    card: CardWatch, tenure: Tenure, finding: overrun.Finding, watch: HostWatch, now: datetime, period: timedelta
) -> None:
    if finding.closes:
        if tenure.end <= now:
            charging.follow(card, tenure, watch, now, period, at_once=True)
        Incident.objects.filter(
            kind=Incident.Kind.OVERRUN, allocation=tenure.allocation_id, closed_at=None
        ).update(closed_at=now)
        return
    if finding.opens:
        _open(card, tenure, finding, now)
    if finding.warns:
        _warn(tenure, now)
    if finding.counts:
        _count(card, tenure, watch, now, period)
    if finding.first_sight is not None:  # it stands, as of now
        charging.follow(card, tenure, watch, now, period, at_once=finding.opens)


def _open(card: CardWatch, tenure: Tenure, finding: overrun.Finding, now: datetime) -> None:
    assert finding.first_sight is not None  # what opens has been seen
    incident, created = Incident.objects.get_or_create(
        kind=Incident.Kind.OVERRUN, allocation_id=tenure.allocation_id,
        defaults={
            "gpu_id": card.gpu_id, "member_id": tenure.member_id, "first_sight": finding.first_sight, "opened_at": now,
        },
    )
    if not created:
        Incident.objects.filter(pk=incident.pk).exclude(closed_at=None).update(closed_at=None)


def _warn(tenure: Tenure, now: datetime) -> None:
    """One message per reservation and end, however many cards it had; a later end is news again."""
    reservation = Reservation.objects.select_related("holder").get(pk=tenure.reservation_id)
    conduct.remind_overrun(fact=fact_of(tenure), reservation=reservation, now=now)


def fact_of(tenure: Tenure) -> str:
    """The name for ever of staying on after this end of this reservation: one fact, one demerit, however many cards."""
    return f"overrun:{tenure.reservation_id}:{int(tenure.end.timestamp())}"


def _count(card: CardWatch, tenure: Tenure, watch: HostWatch, now: datetime, period: timedelta) -> None:
    """Makes an open overrun an offence, if all that led here still holds under the lock and the gate agrees.

    Under the lock, because an extension in the grace or an undone release may commit at the same moment. Killed anywhere,
    nothing is written and the next sweep does it; done already, the fact is known.
    """
    with locking.hold(members=[tenure.member_id], cards=[card.gpu_id]):
        incident = Incident.objects.select_for_update().get(
            kind=Incident.Kind.OVERRUN, allocation=tenure.allocation_id
        )
        allocation = Allocation.objects.select_related("reservation__holder").get(pk=tenure.allocation_id)
        if allocation.end != tenure.end or incident.counted_at is not None:
            return
        tenures = queries.tenures_on([card.gpu_id], tenure.start, now)[card.gpu_id]
        track = overrun.Track(incident.closed_at is None, False, incident.first_sight)
        finding = overrun.follow(
            tenure, tenures, card.facts.looks, track, now=now, policy=watch.policy, period=period,
            on_waitlist=_somebody_waits(card, tenure, now),
        )
        if not finding.counts:
            return
        answer = _ask_gate(card, tenure, finding, watch, now, period)
        _log_answer(incident, answer, now)
        if answer.reason == gate.Reason.DECIDED:  # proved on another card of the reservation: one fact, one offence
            Incident.objects.filter(pk=incident.pk).update(counted_at=now)
        if not answer.is_allowed:
            return
        evidence = _evidence(card, tenure, finding, watch, incident, answer, now)
        incident.counted_at, incident.evidence, incident.gate = now, evidence, str(answer.reason)
        incident.save(update_fields=["counted_at", "evidence", "gate"])
        conduct.issue_overrun(
            fact=fact_of(tenure), reservation=allocation.reservation, evidence=evidence, now=now
        )


def _ask_gate(
    card: CardWatch, tenure: Tenure, finding: overrun.Finding, watch: HostWatch, now: datetime, period: timedelta
) -> gate.Answer:
    """The judged window runs from the end to the newest proof: a clock set forward leaves a hole in it."""
    newest = finding.run[-1].at
    tolerance = timedelta(seconds=watch.policy.clock_tolerance_s)
    reading = HostReading.objects.get(host=watch.host_id)
    case = gate.Case(
        start=tenure.end, end=newest, samples=queries.sample_instants(card.gpu_id, tenure.end, newest, tolerance),
        clock_offset_s=reading.clock_offset_s,
        is_mixed=queries.is_mixed(watch.simulated) or any(look.simulated != watch.simulated for look in finding.run),
        in_maintenance=queries.ledger.in_maintenance(card.gpu_id, Interval(tenure.end, now)),
        is_decided=Demerit.objects.filter(fact=fact_of(tenure)).exists(),
    )
    return gate.ask(case, now=now, policy=watch.policy, period=period)


def _log_answer(incident: Incident, answer: gate.Answer, now: datetime) -> None:
    if incident.gate == answer.reason:
        return
    Incident.objects.filter(pk=incident.pk).update(gate=str(answer.reason))
    GateEntry.objects.create(
        at=now, incident=incident, act="demerit", allowed=answer.is_allowed, reason=str(answer.reason),
        coverage=round(answer.coverage, 4),
    )


def _evidence(
    card: CardWatch, tenure: Tenure, finding: overrun.Finding, watch: HostWatch, incident: Incident,
    answer: gate.Answer, now: datetime,
) -> dict[str, Any]:
    """The proof as it stands: complete without any sample, which ages away. Names nobody but the person concerned."""
    proofs = [(look, look.proof_against(tenure.people)) for look in finding.run]
    processes = {(one.pid, one.started): one for _, some in proofs for one in some}
    return {
        "kind": "overrun",
        "card": card.label,
        "gpu": card.uuid,
        "end": tenure.end.isoformat(),
        "grace_until": (tenure.end + watch.policy.grace).isoformat(),
        "first_sight": incident.first_sight.isoformat(),
        "counted_at": now.isoformat(),
        "samples": [
            {
                "at": look.at.isoformat(), "pids": sorted(one.pid for one in some), "utilization": look.utilization,
                "memory": look.memory_used,
            }
            for look, some in proofs
        ],
        "processes": [
            {"pid": one.pid, "started": one.started, "uid": one.uid, "owner": str(one.owner)}
            for one in sorted(processes.values(), key=lambda one: (one.pid, one.started or 0))
        ],
        "waiting": finding.waited_for,
        "coverage": round(answer.coverage, 4),
        "simulated": watch.simulated,
    }

