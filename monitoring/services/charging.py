"""Charging an overrun as far as it is proved (domain.md E3): from the end of the grace, growing while it lasts."""

from __future__ import annotations

from datetime import datetime, timedelta

from reservations.models import Allocation
from reservations.rules.interval import Interval
from reservations.services import locking, overruns

from .. import queries
from ..models import GateEntry, HostReading, Incident
from ..queries import CardWatch, HostWatch
from ..rules import gate, overrun
from ..rules.snapshot import Tenure


def follow(
    card: CardWatch, tenure: Tenure, watch: HostWatch, now: datetime, period: timedelta, *, at_once: bool
) -> None:
    """Charges what has been proved of an open overrun since it was charged last, and gives back what others lost by it.

    In steps of a quarter of an hour, so that the ledger grows slowly; with `at_once` whatever there is. Killed anywhere, nothing
    is written and the next sweep does it. Raises `locking.Busy`.
    """
    grace_until = tenure.end + watch.policy.grace
    until = overruns.charged_until([tenure.allocation_id], [tenure.end]).get((tenure.allocation_id, tenure.end))
    newest = card.facts.newest
    if newest is None or not (at_once or until is None or newest.at - until >= overrun.CHARGED_IN):
        return
    tolerance = timedelta(seconds=watch.policy.clock_tolerance_s)
    since = tenure.end if until is None else until
    looks = queries.looks_between([card.gpu_id], since, now, tolerance)[card.gpu_id]
    tenures = queries.tenures_on([card.gpu_id], tenure.start, now)[card.gpu_id]
    proved = overrun.proved(tenure, tenures, looks, since, period)
    if not proved or proved[-1].end <= grace_until:
        return
    losers = {row.reservation_id for row in overruns.kept_waiting(card.gpu_id, tenure.member_id, proved)}
    members, projects = queries.ledger.people_behind([tenure.reservation_id, *losers])
    with locking.hold(members=members, projects=projects, cards=[card.gpu_id]):
        incident = Incident.objects.select_for_update().get(kind=Incident.Kind.OVERRUN, allocation=tenure.allocation_id)
        row = Allocation.objects.get(pk=tenure.allocation_id)
        met = {row.reservation_id for row in overruns.kept_waiting(card.gpu_id, tenure.member_id, proved)}
        if row.end != tenure.end or not met <= losers:
            return  # extended, or booked by somebody since: the next sweep sees it as it is
        span = Interval(proved[0].start, now)
        answer = _ask_gate(card, watch, looks[-1].at, span, now, period)
        _log_answer(incident, answer, now)
        if answer.is_allowed:
            overruns.charge_proved(tenure.allocation_id, tenure.end, grace_until, proved, now=now)


def _ask_gate(
    card: CardWatch, watch: HostWatch, newest: datetime, since: Interval, now: datetime, period: timedelta
) -> gate.Answer:
    """Whether anything may be charged now. How well each stretch is covered has been asked of it (`overrun.proved`)."""
    reading = HostReading.objects.get(host=watch.host_id)
    case = gate.Case(
        start=newest, end=newest, samples=[newest], clock_offset_s=reading.clock_offset_s,
        is_mixed=queries.is_mixed(watch.simulated),
        in_maintenance=queries.ledger.in_maintenance(card.gpu_id, since),
    )
    return gate.ask(case, now=now, policy=watch.policy, period=period)


def _log_answer(incident: Incident, answer: gate.Answer, now: datetime) -> None:
    last = GateEntry.objects.filter(incident=incident, act="charge").order_by("-at", "-pk").first()
    if last is None or last.reason != answer.reason:
        GateEntry.objects.create(
            at=now, incident=incident, act="charge", allowed=answer.is_allowed, reason=str(answer.reason),
            coverage=round(answer.coverage, 4),
        )
