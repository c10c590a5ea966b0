"""Proof becomes a demerit, once (J1)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from .. import permissions, queries
from ..models import Case, Demerit, Notification, Reservation
from ..rules.refusal import Code, refuse
from . import audit, locking, outbox


def issue_overrun(
    *, fact: str, reservation: Reservation, evidence: Mapping[str, Any], now: datetime
) -> Demerit | None:
    """Issues the demerit of a proved overrun to the reservation's holder and queues its message.

    `fact` names the fact for ever (for example `overrun:<reservation>:<end>`): the second call for the same fact writes
    nothing and returns None. The caller has passed the gate of I1; `evidence` must be complete and JSON-able.
    """
    return _issue(Demerit.Reason.OVERRUN, queries.lab_facts().policy.overrun_points, fact, reservation, evidence, now)


def issue_no_show(
    *, fact: str, reservation: Reservation, evidence: Mapping[str, Any], now: datetime
) -> Demerit | None:
    """As `issue_overrun`, for a proved no-show (H2)."""
    return _issue(Demerit.Reason.NO_SHOW, queries.lab_facts().policy.no_show_points, fact, reservation, evidence, now)


def _issue(
    reason: Demerit.Reason, points: int, fact: str, reservation: Reservation, evidence: Mapping[str, Any], now: datetime
) -> Demerit | None:
    policy = queries.lab_facts().policy
    with transaction.atomic():
        demerit, created = Demerit.objects.get_or_create(
            fact=fact,
            defaults={
                "member_id": reservation.holder_id, "reason": reason, "points": points,
                "reservation": reservation, "evidence": dict(evidence), "issued_at": now,
                "expires_at": now + timedelta(seconds=policy.point_life_s),
            },
        )
        if not created:
            return None
        outbox.write(
            Notification.Kind.DEMERIT, reservation.holder, key=f"demerit:{demerit.pk}", due_at=now,
            reservation=reservation, demerit=demerit,
        )
        audit.note("demerit", demerit, actor=None, origin="sweep", now=now, fact=fact, points=demerit.points)
        return demerit


def remind_overrun(*, fact: str, reservation: Reservation, now: datetime) -> None:
    """Queues the message at the end with processes running; once per fact (K1)."""
    outbox.write(Notification.Kind.OVERRUN, reservation.holder, key=f"over:{fact}", due_at=now, reservation=reservation)


def dispute(demerit_id: int, statement: str, *, by: Any, now: datetime, origin: str = "page") -> Case:
    """Opens a dispute: from now the demerit rests until it is decided (J4). Raises `Refused`."""
    text = statement.strip()
    if not text:
        raise refuse(Code.TEXT_MISSING)
    with locking.hold(members=[by.pk]):
        demerit = Demerit.objects.select_for_update(of=("self",)).filter(pk=demerit_id).first()
        if demerit is None or not permissions.may(by, permissions.Action.DISPUTE, demerit):
            raise refuse(Code.NOT_YOURS)
        if Case.objects.filter(demerit=demerit, kind=Case.Kind.DISPUTE).exists():
            raise refuse(Code.ALREADY_DISPUTED)
        days = queries.lab_facts().policy.dispute_s
        if now >= demerit.issued_at + timedelta(seconds=days):
            raise refuse(Code.DISPUTE_OVER, days=days / 86_400)
        case = Case.objects.create(
            kind=Case.Kind.DISPUTE, opened_by=by, opened_at=now, statement=text, demerit=demerit
        )
        demerit.state = Demerit.State.DISPUTED
        demerit.save(update_fields=["state"])
        audit.note("dispute", case, actor=by, origin=origin, now=now, demerit=demerit.pk)
        return case
