"""One reservation, those of one member, and who comes to theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Prefetch, Q, QuerySet

from ..models import Allocation, AuditEntry, Member, Notification, Reservation
from ..prepared import prepared
from ..rules.lifecycle import Status
from ..rules.presence import Asked
from .lab import HOLDING_CODES, lab_facts
from .people import owners_of, quiet_hours


def reservation_detail(pk: int) -> Reservation | None:
    """One reservation with its holder, project and what displaced it, or None."""
    return next(iter(_reservation(pk)), None)


@prepared
def _reservation(pk: int) -> QuerySet[Reservation]:
    return Reservation.objects.select_related("holder", "project", "displaced_by__holder").filter(pk=pk)


def reservations_named(ids: Iterable[int]) -> list[Reservation]:
    """These reservations with holders and cards, by their start."""
    rows = Reservation.objects.filter(pk__in=list(ids)).select_related("holder").prefetch_related("allocations__gpu__host")
    return list(rows.order_by("start", "pk"))


@dataclass(frozen=True)
class Habit:
    """How somebody books: how many cards, of which model where they were alike, for how long (seconds), and what for."""

    count: int
    model: str
    length_s: int
    tier: str
    project_id: int | None
    purpose: str


def habit_of(member: Member) -> Habit | None:
    """What the last of the member's reservations was, or None."""
    rows = _last_booking(member.pk)
    if not rows:
        return None
    models = {model for model, *_ in rows}
    _, start, end, tier, project_id, purpose = rows[0]
    return Habit(
        len(rows), models.pop() if len(models) == 1 else "", int((end - start).total_seconds()), tier, project_id, purpose
    )


@prepared
def _last_booking(member_id: int) -> QuerySet[Allocation, tuple[str, datetime, datetime, str, int | None, str]]:
    """The cards of the member's reservation that ends last, each with what was booked: by an index, however many there are."""
    last = Reservation.objects.filter(holder=member_id).order_by("-end", "-pk").values("pk")[:1]
    return Allocation.objects.filter(reservation__in=last).order_by("pk").values_list(
        "gpu__model", "reservation__start", "reservation__end", "reservation__tier", "reservation__project_id",
        "reservation__purpose",
    )


def displaced_count(reservation: Reservation) -> int:
    """How many reservations the last act on this one displaced or moved (D4)."""
    change = next(iter(_changes(reservation.pk)), {})
    return len(change.get("displaced", ()))


@prepared
def _changes(reservation_id: int) -> QuerySet[AuditEntry, dict[str, Any]]:
    rows = AuditEntry.objects.filter(subject="reservation", subject_id=reservation_id, verb__in=["reserve", "move"])
    return rows.order_by("-pk").values_list("change", flat=True)[:1]


def former_period(reservation: Reservation) -> tuple[datetime, datetime] | None:
    """When the reservation was before it was last moved, or None."""
    return reservation.former_allocations.order_by("-version").values_list("start", "end").first()


def reservations_of(member: Member, now: datetime) -> dict[str, list[Reservation]]:
    """The member's reservations: `active`, `coming` (soonest first) and the last 30 `past`."""
    rows = Reservation.objects.filter(holder=member).prefetch_related("allocations__gpu__host")
    return {
        "active": list(rows.filter(status=Status.ACTIVE).order_by("end")),
        "coming": list(rows.filter(status=Status.BOOKED).order_by("start")),
        "past": list(rows.exclude(status__in=HOLDING_CODES).order_by("-end")[:30]),
    }


def history_of(reservation: Reservation) -> list[AuditEntry]:
    """What happened to a reservation, oldest first, each with who did it."""
    rows = AuditEntry.objects.filter(subject="reservation", subject_id=reservation.pk)
    return list(rows.select_related("actor").order_by("pk"))


@dataclass(frozen=True)
class Place:
    """One card of a reservation that has started: where it is, and when the holder's processes were seen on it."""

    allocation_id: int
    gpu_id: int
    host_id: int
    label: str
    first_seen: datetime | None
    last_seen: datetime | None


@dataclass(frozen=True)
class Attendance:
    """A reservation whose time is now, as the sensor follows it: who may come, what was asked, what was seen (H2, H3, H7).

    `places` are the cards that it holds; `came` says whether a process was ever seen on any, one given back too.
    """

    reservation_id: int
    version: int
    holder_id: int
    owners: frozenset[int]
    start: datetime
    end: datetime
    booked_at: datetime
    is_confirmed: bool
    asked: Asked
    places: tuple[Place, ...]
    came: bool
    release_when_done: bool
    kept_at: datetime | None

    @property
    def last_seen(self) -> datetime | None:
        return max((place.last_seen for place in self.places if place.last_seen), default=None)


def attendances(now: datetime, only: Iterable[int] | None = None) -> list[Attendance]:
    """The reservations whose time is now, those of `only` or all, in a constant number of statements."""
    rows = Reservation.objects.filter(status__in=[Status.BOOKED, Status.ACTIVE], start__lte=now, end__gt=now)
    if only is not None:
        rows = rows.filter(pk__in=list(only))
    cards = Prefetch("allocations", Allocation.objects.select_related("gpu__host").order_by("gpu"))
    found = list(rows.select_related("holder").prefetch_related(cards).order_by("pk"))
    owners = owners_of(row.pk for row in found)
    said, zone = _said_of(found), lab_facts().zone
    return [_attendance(row, owners[row.pk], said, zone) for row in found]

# What tells a holder of a time or of cards that the system chose (D5, K5, G6).
_TOLD_BY = (Notification.Kind.PLACED, Notification.Kind.SERVED, Notification.Kind.SWAPPED)


def _said_of(found: Iterable[Reservation]) -> dict[str, Notification]:
    """The questions of these reservations, and the messages of what the system did, by their keys."""
    placed = Q(kind__in=_TOLD_BY, reservation__in=[row.pk for row in found if row.placed_at is not None])
    rows = Notification.objects.filter(placed | Q(key__in=[question_key(row) for row in found])).order_by("pk")
    # Of what the system did with a reservation the latest word counts.
    return {row.key if row.kind == Notification.Kind.CONFIRM else _placed_key(row.reservation_id): row for row in rows}


def _placed_key(reservation_id: int | None) -> str:
    return f"placed {reservation_id}"


def question_key(reservation: Reservation) -> str:
    """The key of the question whether they come: one for each start (K2)."""
    return f"confirm:{reservation.pk}:{int(reservation.start.timestamp())}"


def _attendance(
    row: Reservation, owners: frozenset[int], said: Mapping[str, Notification], zone: ZoneInfo
) -> Attendance:
    question, notice = said.get(question_key(row)), said.get(_placed_key(row.pk))
    allocations = list(row.allocations.all())
    places = tuple(
        Place(one.pk, one.gpu_id, one.gpu.host_id, str(one.gpu), one.first_seen, one.last_seen)
        for one in allocations if one.given_back_at is None and one.status != Status.INTERRUPTED
    )
    asked = Asked(
        waits=question is not None and question.state == Notification.State.DUE,
        sent_at=question.sent_at if question is not None else None, placed_by_system=row.placed_at is not None,
        told_at=notice.sent_at if notice is not None else None, quiet=quiet_hours(row.holder, zone),
    )
    return Attendance(
        row.pk, row.version, row.holder_id, owners, row.start, row.end, row.booked_at, row.confirmed_at is not None, asked,
        places, any(one.first_seen for one in allocations), row.release_when_done, row.kept_at,
    )
