"""Demerits and cases."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Max, Q, QuerySet

from ..models import Case, Demerit, Member
from ..prepared import prepared


def demerits_of(member: Member) -> list[Demerit]:
    """The member's whole record, newest first, with the dispute of each."""
    return list(member.demerits.select_related("reservation").prefetch_related("cases__rulings__arbiter"))


def open_cases() -> list[Case]:
    """Cases that wait for a decision, oldest first."""
    return list(Case.objects.filter(state=Case.State.OPEN).select_related("opened_by", "concerns", "demerit__reservation"))


def cases_of(member: Member) -> list[Case]:
    """Cases the member opened, or that are about them, newest first."""
    rows = Case.objects.filter(Q(opened_by=member) | Q(concerns=member))
    return list(rows.select_related("demerit__reservation").order_by("-opened_at"))


def open_demerit_points(member: Member, now: datetime) -> int:
    """Points that count at `now`: not void, not disputed, not aged out (J2, J4)."""
    return sum(_points(member.pk, now))


@prepared
def _points(member_id: int, now: datetime) -> QuerySet[Demerit, int]:
    rows = Demerit.objects.filter(member=member_id, state=Demerit.State.COUNTED, expires_at__gt=now)
    return rows.values_list("points", flat=True)


def case_detail(pk: int) -> Case | None:
    """One case with all that its page shows, or None."""
    return (
        Case.objects.select_related("opened_by", "concerns", "demerit__member", "demerit__reservation")
        .prefetch_related("rulings__arbiter")
        .filter(pk=pk)
        .first()
    )


def decided_cases(limit: int = 50) -> list[Case]:
    """The cases decided last, newest ruling first."""
    rows = Case.objects.filter(state=Case.State.DECIDED).annotate(decided_at=Max("rulings__at"))
    rows = rows.select_related("opened_by", "concerns", "demerit").prefetch_related("rulings__arbiter")
    return list(rows.order_by("-decided_at", "-pk")[:limit])


def demerit_detail(pk: int) -> Demerit | None:
    """One demerit with its reservation and dispute, or None."""
    return Demerit.objects.select_related("member", "reservation").prefetch_related("cases").filter(pk=pk).first()
