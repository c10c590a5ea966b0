"""Requests that the law refuses and an arbiter may grant: asked as a case, decided now, by the same check-and-write (L3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from .. import permissions, queries
from ..models import Case, Member, Reservation, Ruling
from ..rules import booking as rules
from ..rules.refusal import Code, Refused, refuse
from ..rules.waivers import Waiver, waiving
from . import arbitration, audit, booking, displacing, locking
from .booking import BookingRequest
from .held import guarded
from .placing import cards_to_lock, facts_for

KINDS = (Case.Kind.QUEUE_JUMP, Case.Kind.EXCEPTION)
_INSTANTS = ("start", "end", "may_move_until")


def ask(
    member: Member, request: BookingRequest, statement: str, *, kind: Case.Kind, now: datetime, origin: str = "page"
) -> Case:
    """Opens a case for a request that the law refuses. Raises `Refused` without a statement, or when it is not refused at all
    (then it is simply booked)."""
    text = statement.strip()
    if not text:
        raise refuse(Code.TEXT_MISSING)
    if not permissions.may(member, permissions.Action.BOOK):
        raise refuse(Code.NOT_APPROVED)
    if not booking.check(member, request, now=now):
        raise refuse(Code.NEEDS_NO_RULING)
    with locking.hold(members=[member.pk]):
        case = Case.objects.create(
            kind=kind, opened_by=member, opened_at=now, statement=text, request=_to_json(request)
        )
        audit.note("ask", case, actor=member, origin=origin, now=now, request=case.request)
        return case


def grant(
    case_id: int, waives: Iterable[Waiver], reason: str, *, by: Member, version: int, now: datetime,
    changed: BookingRequest | None = None, origin: str = "page",
) -> Reservation:
    """Books what the case asks for, or `changed`, for who asked, with these rules set aside: the same check and the same write as
    booking, now (L3). What counts is the time of the decision.

    Raises `Refused`: to a party (who asked, and whoever holds or works on what would be displaced), without a reason, when the
    case was decided or changed, and with `CASE_OVERTAKEN` and every reason when even so the law does not allow it.
    """
    waived, reason = frozenset(waives), reason.strip()
    while True:
        case = Case.objects.select_related("opened_by").filter(pk=case_id, kind__in=KINDS).first()
        if case is None:
            raise refuse(Code.NOT_YOURS)
        request = replace(changed or request_of(case), key="")
        asked = request.ask()
        reach = displacing.reach(asked, now, by_ruling=Waiver.ORDER in waived)
        projects = {*reach.projects, *([] if asked.project_id is None else [asked.project_id])}
        with guarded(), locking.hold(
            members=[by.pk, case.asker.pk, *reach.members], projects=projects,
            cards=[*cards_to_lock(asked), *reach.cards],
        ):
            case = arbitration.open_case(case_id, reason, by=by, version=version)
            holder, lab = Member.objects.get(pk=case.asker.pk), queries.lab_facts()
            facts = waiving(facts_for(holder, asked, lab, now), waived)
            decision = rules.decide(asked, facts)
            if decision.plan is None:
                raise Refused([rules.Refusal(Code.CASE_OVERTAKEN), *decision.refusals])
            if not decision.plan.displaced <= reach.reservations:
                continue
            if by.pk in queries.people_behind(decision.plan.displaced)[0]:
                raise refuse(Code.PARTY)
            made = booking.write(
                holder, request, decision.plan, facts, lab, now=now, origin=origin, by=by, ruling=case.pk,
                waives=sorted(waived),
            )
            arbitration.decide(
                case, Ruling.Outcome.ACCEPTED, reason, by=by, now=now, origin=origin, waives=waived, reservation=made
            )
            return made


def _to_json(request: BookingRequest) -> dict[str, Any]:
    values = asdict(replace(request, key=""))
    for name in _INSTANTS:
        values[name] = values[name].isoformat() if values[name] else None
    return values


def request_of(case: Case) -> BookingRequest:
    """What the case asks for."""
    kept = dict(case.request or {})
    for name in _INSTANTS:
        kept[name] = datetime.fromisoformat(kept[name]) if kept[name] else None
    return BookingRequest(**{**kept, "card_ids": tuple(kept["card_ids"])})
