"""My page: what I hold, what comes, what was, my quota, my record and my cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from .. import evidence, forms, labels, looks, queries, wishes
from ..models import Case, Demerit, Reservation, WaitlistEntry
from ..queries import WeekBalance
from ..rules.lifecycle import Status
from ..rules.rank import standing
from ..rules.week import rule_instant
from . import cardlook
from .access import member_required
from .reservation import Actions, actions, status_by_clock
from .rulesheet_words import day


@dataclass(frozen=True)
class Row:
    """One of the reader's reservations. `seen` says for past ones when its processes were seen; `singles`: the cards that can be
    given back alone; `start`, `end`: its time as the fields of a move show it; `again`: next week's same time is ahead."""

    reservation: Reservation
    cards: str
    period: str
    length: str
    tier_words: str
    letter: str
    purpose_words: str
    status: str
    status_words: str
    actions: Actions
    seen: str = ""
    singles: tuple[tuple[int, str], ...] = ()
    start: str = ""
    end: str = ""
    again: bool = False


@dataclass(frozen=True)
class Week:
    """One week of quota as a meter."""

    title: str
    used: str
    allowance: str
    left: str
    percent: int
    debt: str = ""  # what of it earlier overruns weigh


@dataclass(frozen=True)
class Record:
    """One demerit with its proof in words, and what can be done about it."""

    pk: int
    reservation_id: int
    reason: str
    points: int
    issued_at: datetime
    counts_until: datetime | None
    state: str
    state_words: str
    evidence: tuple[str, ...]
    case_id: int | None
    can_dispute: bool


@require_safe
@member_required
def mine(request: HttpRequest) -> HttpResponse:
    """The page. Its parts come from a constant number of queries, save the longest extension of each active one."""
    member, now = request.user, request.now
    found = queries.reservations_of(member, now)
    by_clock: dict[Status, list[Row]] = {Status.ACTIVE: [], Status.BOOKED: [], Status.FINISHED: []}
    for one in [*found["active"], *found["coming"]]:
        status = status_by_clock(one, now)
        by_clock[status if status in by_clock else Status.BOOKED].append(_row(request, one))
    past = [_row(request, one) for one in found["past"]]
    # What has just ended can still be extended (H0), so it stands with what is held.
    lately = [row for row in [*by_clock[Status.FINISHED], *past] if row.actions.longest]
    records = [_record(request, one) for one in queries.demerits_of(member)]
    points = queries.open_demerit_points(member, now)
    return render(request, "reservations/mine.html", {
        "active": [*lately, *by_clock[Status.ACTIVE]],
        "offers": [_offer(one) for one in queries.offers_of(member, now)],
        "waiting": [_waiting(one) for one in queries.waiting_of(member)],
        "coming": by_clock[Status.BOOKED],
        "undoable": [row for row in past if row.actions.undo_until],
        "past": [*by_clock[Status.FINISHED], *past],
        "weeks": [_week(one) for one in queries.balances(member, request.lab, now)],
        "records": records, "points": points, "restores": _restores(request, records, points),
        "cases": [_case(one) for one in queries.cases_of(member)],
        "key": forms.new_key(),
    })


def _row(request: HttpRequest, one: Reservation) -> Row:
    status = status_by_clock(one, request.now)
    allocations = looks.standing(one.allocations.all())
    can = actions(request, one, extend=_may_grow(request, one, status))
    return Row(
        reservation=one, cards=cardlook.cards_words(row.gpu for row in allocations),
        period=cardlook.period_words(one.start, one.end), length=cardlook.length_words(one.start, one.end),
        tier_words=str(labels.TIER.get(one.tier, one.tier)), letter=str(labels.TIER_LETTER.get(one.tier, "")),
        purpose_words=str(labels.PURPOSE.get(one.purpose, one.purpose)), status=str(status),
        status_words=str(labels.STATUS[status]), actions=can,
        seen=_seen(one) if status != Status.CANCELLED else "",
        singles=tuple((row.gpu_id, str(row.gpu)) for row in allocations)
        if (can.release or can.cancel) and len(allocations) > 1 else (),
        start=forms.local_text(one.start), end=forms.local_text(one.end),
        again=can.again and request.now < _next_week(one.start, request.lab.zone),
    )


def _next_week(start: datetime, zone: ZoneInfo) -> datetime:
    """The same hour of the lab's clock a week later (D8)."""
    return rule_instant(start.astimezone(zone).replace(tzinfo=None) + timedelta(days=7), zone)


def _may_grow(request: HttpRequest, one: Reservation, status: Status) -> bool:
    """Whether it is worth asking how far the reservation could be extended."""
    in_grace = status == Status.FINISHED and request.now < one.end + request.lab.policy.grace
    return status == Status.ACTIVE or in_grace


def _seen(one: Reservation) -> str:
    """When processes of the holder were seen on its cards, first and last."""
    rows = list(one.allocations.all())
    first = min((row.first_seen for row in rows if row.first_seen), default=None)
    last = max((row.last_seen for row in rows if row.last_seen), default=None)
    if first is None or last is None:
        return _("no process seen")
    return _("seen %(period)s") % {"period": cardlook.period_words(first, last)}


def _week(one: WeekBalance) -> Week:
    percent = min(one.used * 100 // one.allowance, 100) if one.allowance else 100 if one.used else 0
    return Week(
        _("Week of %(day)s") % {"day": labels.day(one.week)}, labels.hours(one.used), labels.hours(one.allowance),
        labels.hours(one.left), max(percent, 0), labels.hours(one.debt) if one.debt else "",
    )


def _record(request: HttpRequest, one: Demerit) -> Record:
    counted = one.state == Demerit.State.COUNTED
    gone = counted and one.expires_at <= request.now
    open_for = (request.now - one.issued_at).total_seconds() < request.lab.policy.dispute_s
    case = next(iter(one.cases.all()), None)
    return Record(
        pk=one.pk, reservation_id=one.reservation_id, reason=str(labels.DEMERIT_REASON.get(one.reason, one.reason)),
        points=one.points, issued_at=one.issued_at, counts_until=one.expires_at if counted and not gone else None,
        state=one.state, state_words=_("no longer counts") if gone else str(labels.DEMERIT_STATE[Demerit.State(one.state)]),
        evidence=tuple(evidence.in_words(one.evidence).sentences), case_id=case.pk if case else None,
        can_dispute=counted and case is None and open_for,
    )


def _restores(request: HttpRequest, records: Sequence[Record], points: int) -> tuple[str, ...]:
    """What points do to the reader now, and what takes them away (J2-J5)."""
    policy = request.lab.policy
    told = []
    if points:
        found = standing(points, policy)
        if not found.may_displace:
            told.append(_("Until they run out your next bookings count two tiers lower, and you may displace nobody."))
        elif found.steps:
            told.append(_("Until they run out your next bookings count one tier lower."))
    if until := max((one.counts_until for one in records if one.counts_until), default=None):
        told.append(_("Your record is clear again on %(time)s, if nothing is added to it.") % {"time": labels.instant(until)})
    told.append(_("A point counts for %(life)s. You can dispute it for %(days)s; until that is decided it does not count.") % {
        "life": day(policy.point_life_s), "days": day(policy.dispute_s)
    })
    return tuple(told)


def _offer(one: Reservation) -> dict[str, Any]:
    return {
        "pk": one.pk, "version": one.version, "cards": cardlook.cards_words(row.gpu for row in one.allocations.all()),
        "period": cardlook.period_words(one.start, one.end), "length": cardlook.length_words(one.start, one.end),
        "until": one.offer_until,
    }


def _waiting(one: WaitlistEntry) -> dict[str, Any]:
    return {
        "pk": one.pk, "what": wishes.what_words(one), "latest": one.latest, "since": one.created_at,
        "earliest": one.earliest if one.earliest > one.created_at else None,
        "asks": one.mode == WaitlistEntry.Mode.ASK, "tier_words": labels.TIER.get(one.tier, one.tier),
    }


def _case(one: Case) -> dict[str, Any]:
    return {
        "pk": one.pk, "kind": labels.CASE_KIND.get(one.kind, one.kind), "opened_at": one.opened_at,
        "state": one.state, "state_words": labels.CASE_STATE.get(one.state, one.state),
    }
