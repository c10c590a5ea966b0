"""The weekly clean-up (domain.md F3): lists processes without a reservation, tells their owners, and looks again an hour later.

Everything is derived from stored samples and from what the ledger has written, and written by the ledger once; so a sweep that is
killed, comes late, or runs twice at a time changes no outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from reservations import queries as ledger
from reservations.models import Cleanup, CleanupNotice, Member, Notification
from reservations.queries import LabFacts
from reservations.rules.interval import Interval
from reservations.rules.policy import Policy
from reservations.rules.week import week_of, weekly_time
from reservations.services import cleanup as ledger_acts
from reservations.services import locking

from .. import queries
from ..models import GateEntry
from ..rules import gate
from ..rules.cleanup import Found, Watched, unbooked
from ..rules.snapshot import FRESH_PERIODS, SeenProcess

log = logging.getLogger(__name__)

Outcome = CleanupNotice.Outcome
Cards = Mapping[int, Watched]


def sweep(*, now: datetime, period: timedelta) -> None:
    """Begins the clean-up when its time has come, lists what can be read, and follows whoever was told."""
    lab = ledger.lab_facts()
    if lab.is_set_up and lab.policy.cleanup:
        _begin(lab, now, period)
    for cleanup in Cleanup.objects.filter(settled_at=None).order_by("week"):
        try:
            _follow(cleanup, lab.policy, now, period)
        except locking.Busy:
            log.info("The ledger is busy: the %s waits for the next sweep.", cleanup)
        except Exception:
            log.exception("The %s could not be followed.", cleanup)


def _begin(lab: LabFacts, now: datetime, period: timedelta) -> None:
    time = weekly_time(now, lab.zone, weekday=lab.policy.cleanup_weekday, at=lab.policy.cleaning)
    week = week_of(now, lab.zone)
    if not time.start <= now < time.end or Cleanup.objects.filter(week=week).exists():
        return
    cards = queries.unbooked_watch(now - _span(lab.policy, period), now, lab.policy)
    names = {card.gpu_id: card.label for card in cards.values()}
    ledger_acts.begin(week, until=time.end, grace_s=lab.policy.cleanup_grace_s, cards=names, now=now)


def _span(policy: Policy, period: timedelta) -> timedelta:
    """How far back the looks of one judgement lie."""
    return (policy.samples_in_a_row + FRESH_PERIODS) * period


def _follow(cleanup: Cleanup, policy: Policy, now: datetime, period: timedelta) -> None:
    if cleanup.unlisted and now < cleanup.until and policy.cleanup:
        _list(cleanup, policy, now, period)
    _settle_notices(cleanup, policy, now, period)
    _settle_doubt(cleanup, policy, now, period)
    if now < cleanup.until and policy.cleanup:
        return
    rest = Cleanup.objects.filter(pk=cleanup.pk).exclude(doubt_settled_at=None)
    if rest.exists() and not cleanup.notices.filter(outcome=Outcome.OPEN).exists():
        ledger_acts.close(cleanup.pk, now=now)
        if cleanup.unlisted:
            log.info("In the %s nothing could be said of: %s.", cleanup, _names(cleanup.unlisted.values()))


def _names(cards: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(str(one["card"]) for one in cards)


# --- listing -----------------------------------------------------------------------------------------------------------------


def _list(cleanup: Cleanup, policy: Policy, now: datetime, period: timedelta) -> None:
    """Lists the cards that can be judged by now. A card that cannot is asked again by the next sweep, for the rest of the day."""
    wanted = [int(gpu) for gpu in cleanup.unlisted]
    cards = queries.unbooked_watch(now - _span(policy, period), now, policy, only=wanted)
    found = _found(cards, now, now, policy, period)
    seen = {(gpu, one.pid) for gpu, card in found.items() for some in card.owners.values() for one in some}
    since = queries.first_sights(seen) if seen else {}
    owners: dict[int, list[dict[str, Any]]] = {}
    for gpu, card in found.items():
        for member, processes in card.owners.items():
            owners.setdefault(member, []).append(_card(cards[gpu], processes, since))
    doubtful = [_card(cards[gpu], card.doubtful, {}) for gpu, card in found.items() if card.doubtful]
    # A card that has gone out of service in the meantime is nobody's to be asked about.
    read = dict.fromkeys(wanted, "") | {gpu: str(card.skip or "") for gpu, card in found.items()}
    if not all(read.values()) or read != {int(gpu): kept["why"] for gpu, kept in cleanup.unlisted.items()}:
        ledger_acts.take_list(cleanup.pk, read, owners, doubtful, now=now)
        cleanup.refresh_from_db()


def _found(cards: Cards, at: datetime, now: datetime, policy: Policy, period: timedelta) -> dict[int, Found]:
    """What each card says at this instant."""
    people = frozenset(Member.objects.filter(is_active=True).values_list("pk", flat=True))
    return {gpu: unbooked(card, at, people, now=now, policy=policy, period=period) for gpu, card in cards.items()}


def _card(
    card: Watched, processes: Iterable[SeenProcess], since: Mapping[tuple[int, int], datetime]
) -> dict[str, Any]:
    return {
        "gpu": card.gpu_id, "card": card.label,
        "processes": [
            {**_process(one), "since": at.isoformat() if (at := since.get((card.gpu_id, one.pid))) else None}
            for one in processes
        ],
    }


def _process(one: SeenProcess) -> dict[str, Any]:
    return {"pid": one.pid, "started": one.started, "uid": one.uid, "owner": str(one.owner)}


# --- looking again -------------------------------------------------------------------------------------------------------------


def _settle_notices(cleanup: Cleanup, policy: Policy, now: datetime, period: timedelta) -> None:
    notices = list(cleanup.notices.filter(outcome=Outcome.OPEN).select_related("member"))
    if not notices:
        return
    grace = timedelta(seconds=cleanup.grace_s)
    messages = {
        row.key: row for row in Notification.objects.filter(key__in=[notice.message_key for notice in notices])
    }
    due: list[tuple[CleanupNotice, datetime]] = []
    for notice in notices:
        row = messages.get(notice.message_key)
        if not policy.cleanup:
            ledger_acts.settle(notice.pk, Outcome.OFF)
        elif row is None or row.state in (Notification.State.DROPPED, Notification.State.FAILED):
            ledger_acts.settle(notice.pk, Outcome.UNTOLD)
        elif row.sent_at is None or now < row.sent_at + grace:
            continue  # the hour counts from when they were told
        elif now >= row.sent_at + 2 * grace:
            ledger_acts.settle(notice.pk, Outcome.UNKNOWN)
        else:
            due.append((notice, row.sent_at))
    if not due:
        return
    since = min(told for _, told in due) + grace - _span(policy, period)
    cards = queries.unbooked_watch(since, now, policy)
    present = _found(cards, now, now, policy, period)
    for notice, told in due:
        try:
            _look_again(notice, told, told + grace, cards, present, policy, now, period)
        except locking.Busy:
            log.info("The ledger is busy: the notice of %s waits for the next sweep.", notice)
        except Exception:
            log.exception("The notice of %s could not be followed.", notice)


def _look_again(
    notice: CleanupNotice, told: datetime, due: datetime, cards: Cards, present: Mapping[int, Found], policy: Policy,
    now: datetime, period: timedelta,
) -> None:
    """Whether they were still there when the hour was over, and are: then there is a case, if the gate of I1 agrees.

    Any process of theirs without a reservation counts, on whatever card: relaunching is no way out. Who was gone at either time
    is not accused, nor is anybody by a host that was silent.
    """
    people = {notice.member_id}
    then = {gpu: unbooked(card, due, people, now=now, policy=policy, period=period) for gpu, card in cards.items()}
    if not any(one.owners for one in then.values()):
        listed = {one["gpu"] for one in notice.found}
        in_doubt = any(one.skip for gpu, one in then.items() if gpu in listed)
        ledger_acts.settle(notice.pk, Outcome.UNKNOWN if in_doubt else Outcome.GONE)
        return
    here = [gpu for gpu, one in present.items() if notice.member_id in one.owners]
    if not here:
        if not any(one.skip for gpu, one in present.items() if then[gpu].owners):
            ledger_acts.settle(notice.pk, Outcome.GONE)
        return
    with locking.hold(members=[notice.member_id], cards=here):
        # As it is now: somebody may have booked what they use, or another sweep may have been faster.
        notice = CleanupNotice.objects.select_for_update(of=("self",)).select_related("cleanup", "member").get(pk=notice.pk)
        if notice.outcome != Outcome.OPEN:
            return
        fresh = queries.unbooked_watch(due - _span(policy, period), now, policy, only=here)
        found = {gpu: one for gpu, one in _found(fresh, now, now, policy, period).items() if notice.member_id in one.owners}
        for gpu, one in found.items():
            answer = _ask_gate(fresh[gpu], one, told, policy, now, period)
            _log_answer(notice, gpu, answer, now)
            if answer.is_allowed:
                evidence = _evidence(notice, told, due, fresh, found, gpu, answer)
                ledger_acts.open_case(notice, evidence, now=now)
                return


def _ask_gate(
    card: Watched, found: Found, told: datetime, policy: Policy, now: datetime, period: timedelta
) -> gate.Answer:
    """The judged window runs from when they were told to the newest proof: a clock set forward leaves a hole in it."""
    newest = found.run[-1].at
    tolerance = timedelta(seconds=policy.clock_tolerance_s)
    case = gate.Case(
        start=told, end=newest, samples=queries.sample_instants(card.gpu_id, told, newest, tolerance),
        clock_offset_s=card.heartbeat.clock_offset_s,
        is_mixed=card.is_mixed or any(look.simulated != card.simulated for look in found.run),
        in_maintenance=ledger.in_maintenance(card.gpu_id, Interval(told, now)),
    )
    return gate.ask(case, now=now, policy=policy, period=period)


def _log_answer(notice: CleanupNotice, gpu_id: int, answer: gate.Answer, now: datetime) -> None:
    last = GateEntry.objects.filter(cleanup_notice=notice, gpu=gpu_id).order_by("-at", "-pk").first()
    if last is None or last.reason != answer.reason:
        GateEntry.objects.create(
            at=now, cleanup_notice=notice, gpu_id=gpu_id, act="case", allowed=answer.is_allowed, reason=str(answer.reason),
            coverage=round(answer.coverage, 4),
        )


def _evidence(
    notice: CleanupNotice, told: datetime, due: datetime, cards: Cards, found: Mapping[int, Found], proved: int,
    answer: gate.Answer,
) -> dict[str, Any]:
    """The proof as it stands, complete without any sample. Names nobody but the person concerned."""
    card, run = cards[proved], found[proved].run
    return {
        "kind": "cleanup",
        "card": card.label, "gpu": card.uuid,
        "cards": [cards[gpu].label for gpu in found],
        "listed_at": notice.listed_at.isoformat(), "told_at": told.isoformat(), "due_at": due.isoformat(),
        "last_look": run[-1].at.isoformat(),
        "listed": [
            {**process, "card": one["card"]} for one in notice.found for process in one["processes"]
        ],
        "processes": [
            {**_process(one), "card": cards[gpu].label} for gpu in found for one in found[gpu].owners[notice.member_id]
        ],
        "samples": [
            {
                "at": look.at.isoformat(), "pids": sorted(one.pid for one in look.proof_against({notice.member_id})),
                "utilization": look.utilization, "memory": look.memory_used,
            }
            for look in run
        ],
        "coverage": round(answer.coverage, 4),
        "simulated": card.simulated,
    }


# --- what nobody can be said to own ----------------------------------------------------------------------------------------


def _settle_doubt(cleanup: Cleanup, policy: Policy, now: datetime, period: timedelta) -> None:
    """One case for the arbiters on the same processes, if they are still there; nobody is told, so nothing is said of anybody."""
    due = cleanup.at + timedelta(seconds=cleanup.grace_s)
    if cleanup.doubt_settled_at is not None or (policy.cleanup and now < due):
        return
    if not policy.cleanup or not cleanup.doubtful:
        ledger_acts.settle_doubt(cleanup.pk, None, now=now)
        return
    listed = {one["gpu"]: {(p["pid"], p["started"]) for p in one["processes"]} for one in cleanup.doubtful}
    cards = queries.unbooked_watch(now - _span(policy, period), now, policy, only=listed)
    found = _found(cards, now, now, policy, period)
    unread = [gpu for gpu in cards if found[gpu].skip is not None]
    if unread and now < due + timedelta(seconds=cleanup.grace_s):
        return  # they may be readable soon
    there = [
        {**_process(one), "card": cards[gpu].label}
        for gpu, card in found.items() for one in card.doubtful if (one.pid, one.started) in listed[gpu]
    ]
    evidence = {
        "kind": "cleanup", "doubt": True, "cards": sorted({one["card"] for one in there}),
        "listed_at": cleanup.at.isoformat(), "last_look": now.isoformat(), "processes": there,
        "unread": sorted({*(one["card"] for one in cleanup.unlisted.values()), *(cards[gpu].label for gpu in unread)}),
        "simulated": any(card.simulated for card in cards.values()),
    }
    ledger_acts.settle_doubt(cleanup.pk, evidence if there else None, now=now)
