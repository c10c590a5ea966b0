"""Deciding cases: with a reason, by somebody who is no party, once (B3, L)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from .. import permissions, queries
from ..models import Case, Demerit, Member, Notification, Reservation, Ruling
from ..rules.refusal import Code, refuse
from . import audit, locking, outbox, overruns


def rule(
    case_id: int, outcome: Ruling.Outcome, reason: str, *, by: Member, version: int, now: datetime, origin: str = "page"
) -> Ruling:
    """Decides a case. A dispute accepted voids the demerit, and returns what the overrun was charged; declined, it counts again,
    its time of rest not ageing it. A case of the clean-up (F3) accepted is found against the rule; neither outcome makes a point.

    Raises `Refused` when the arbiter is a party, the reason is empty, or the case was changed or decided meanwhile.
    """
    about = Demerit.objects.filter(cases=case_id).values_list("reservation", flat=True)  # never changes
    members, projects = queries.people_behind(about)
    with locking.hold(members=[by.pk, *members], projects=projects):
        case = open_case(case_id, reason, by=by, version=version)
        if case.request is not None and outcome == Ruling.Outcome.ACCEPTED:
            raise refuse(Code.NOT_YOURS)  # what was asked for is granted by booking it: `exceptions.grant`
        return decide(case, outcome, reason.strip(), by=by, now=now, origin=origin)


def open_case(case_id: int, reason: str, *, by: Member, version: int) -> Case:
    """The case, locked, if this arbiter may decide it now with this reason. Under the lock. Raises `Refused`."""
    rows = Case.objects.select_for_update(of=("self",)).select_related("demerit", "opened_by", "concerns")
    case = rows.filter(pk=case_id).first()
    if case is None or not permissions.may(by, permissions.Action.SEE_CASE, case):
        raise refuse(Code.NOT_YOURS)
    if not by.is_arbiter:
        raise refuse(Code.NOT_ARBITER)
    if permissions.is_party(by, case):
        raise refuse(Code.PARTY)
    if case.state != Case.State.OPEN:
        raise refuse(Code.CASE_DECIDED)
    if case.version != version:
        raise refuse(Code.STALE)
    if not reason.strip():
        raise refuse(Code.TEXT_MISSING)
    return case


def decide(
    case: Case, outcome: Ruling.Outcome, reason: str, *, by: Member, now: datetime, origin: str,
    waives: Iterable[str] = (), reservation: Reservation | None = None,
) -> Ruling:
    """Writes the ruling on a case that `open_case` gave, in the same transaction."""
    ruling = Ruling.objects.create(
        case=case, arbiter=by, outcome=outcome, reason=reason, at=now, waives=sorted(waives), reservation=reservation
    )
    case.state = Case.State.DECIDED
    case.version += 1
    case.save(update_fields=["state", "version"])
    if case.demerit is not None:
        _settle(case.demerit, case, outcome, now)
    if (person := case.opened_by or case.concerns) is not None:  # nobody is told of a case about nobody known (F3)
        outbox.write(
            Notification.Kind.RULING, person, key=f"ruling:{ruling.pk}", due_at=now, demerit=case.demerit,
            reservation=reservation,
        )
    audit.note("rule", case, actor=by, origin=origin, now=now, reason=reason, outcome=str(outcome), waives=sorted(waives))
    return ruling


def _settle(demerit: Demerit, case: Case, outcome: Ruling.Outcome, now: datetime) -> None:
    if outcome == Ruling.Outcome.ACCEPTED:
        demerit.state = Demerit.State.VOID
        overruns.take_back(overruns.charges_of(demerit.fact), now, why="void")
    else:
        demerit.state = Demerit.State.COUNTED
        demerit.expires_at += max(now - case.opened_at, timedelta())  # while disputed it did not age (J4)
    demerit.save(update_fields=["state", "expires_at"])
