"""What holds which card when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, Min, OuterRef, Prefetch, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from ..models import Allocation, CardState, Collaborator, Gpu, Maintenance, MaintenanceCard, Reservation
from ..prepared import prepared
from ..rules.facts import Claim, Closed, Holding
from ..rules.interval import Interval
from ..rules.kinds import Kind
from ..rules.lifecycle import Status
from ..rules.rank import rank_of
from .lab import HELD_ONCE, HOLDING_CODES, REALLY_HELD
from .people import collaborator_ids

LOST_AHEAD = timedelta(hours=24)  # for how long ahead a lost card counts as gone (G6)

# Values, not models: a decision reads hundreds of these, and uses a dozen of the seventy columns of the three tables.
HOLDING_COLUMNS = (
    "gpu_id", "start", "end", "reservation_id", "reservation__holder_id", "reservation__holder__name",
    "reservation__holder__email", "reservation__tier", "reservation__kind", "reservation__offer_until",
)
_CLAIM = (
    "reservation__status", "reservation__start", "reservation__end", "reservation__is_elastic", "reservation__rank_tier",
    "reservation__booked_at", "reservation__displaced_times",
)


def as_holdings(rows: Iterable[tuple[Any, ...]]) -> list[Holding]:
    return [
        Holding(
            card, Interval(start, end), pk, holder, name or email, tier, kind == Kind.WALK_IN,
            _claim(*claim) if claim else None, offer_until=offer_until,
        )
        for card, start, end, pk, holder, name, email, tier, kind, offer_until, *claim in rows
    ]


def _claim(
    status: str, start: datetime, end: datetime, is_elastic: bool, rank_tier: int, booked_at: datetime, displaced_times: int,
    cards: int,
) -> Claim | None:
    """What a reservation weighs as a whole while it waits to start."""
    if status != Status.BOOKED:
        return None
    return Claim(start, rank_of(is_elastic, rank_tier), booked_at, (end - start) * cards, displaced_times)


def holdings_between(card_ids: Iterable[int], start: datetime, end: datetime, *, claims: bool = False) -> list[Holding]:
    """What holds these cards at any instant of `[start, end)`, maintenance too; with `claims`, what each reservation weighs
    against others (D4)."""
    ids = list(card_ids)
    return as_holdings(_held_between(ids, start, end, claims)) + maintenance_between(ids, start, end)


@prepared
def _held_between(card_ids: list[int], start: datetime, end: datetime, claims: bool) -> QuerySet[Gpu, tuple[Any, ...]]:
    rows = on_cards(card_ids, start, end, HOLDING_CODES).order_by("allocations__start", "pk")
    columns = tuple("pk" if name == "gpu_id" else f"allocations__{name}" for name in HOLDING_COLUMNS)
    if not claims:
        return rows.values_list(*columns)
    same = Allocation.objects.filter(
        reservation=OuterRef("allocations__reservation"), status=OuterRef("allocations__status")
    )
    counted = Subquery(same.order_by().values("reservation").annotate(n=Count("pk")).values("n"))
    return rows.values_list(*columns, *(f"allocations__{name}" for name in _CLAIM), counted)


# After all that any card will hold.
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)


def on_cards(card_ids: Sequence[int], start: datetime, end: datetime, statuses: Sequence[str]) -> QuerySet[Gpu]:
    """The cards joined to their allocations of these statuses that touch `[start, end)`, however much lies after it.

    Of what a card holds or held nothing overlaps (P1), so that the first to end after the window is the last that can begin
    in it. That bound keeps the statement from reading everything that is booked for later. The second to end, to be safe:
    a release in the instant of the start leaves a microsecond behind.
    """
    after = Allocation.objects.filter(gpu=OuterRef("pk"), status__in=statuses, end__gt=end).order_by("end")
    return Gpu.objects.filter(
        pk__in=card_ids, allocations__status__in=statuses, allocations__start__lt=end, allocations__end__gt=start,
        allocations__end__lte=Coalesce(Subquery(after.values("end")[1:2]), Value(_NEVER)),
    )


def maintenance_between(card_ids: Iterable[int], start: datetime, end: datetime) -> list[Holding]:
    """When in `[start, end)` these cards are in maintenance (G5), in order."""
    return [
        Holding(gpu_id, Interval(begins, ends), 0, 0, "", closed=Closed.MAINTENANCE)
        for gpu_id, begins, ends in _maintenance_between(list(card_ids), start, end)
    ]


@prepared
def _maintenance_between(
    card_ids: list[int], start: datetime, end: datetime
) -> QuerySet[MaintenanceCard, tuple[int, datetime, datetime]]:
    rows = MaintenanceCard.objects.filter(gpu__in=card_ids, start__lt=end, end__gt=start)
    return rows.order_by("start", "gpu_id").values_list("gpu_id", "start", "end")


def lost_cards(card_ids: Iterable[int], now: datetime) -> list[Holding]:
    """Those of these cards whose loss is proved, each closed for the next day: what starts later may find it back (G6)."""
    return [
        Holding(gpu_id, Interval(now, now + LOST_AHEAD), 0, 0, "", closed=Closed.LOST) for gpu_id in _lost(list(card_ids))
    ]


@prepared
def _lost(card_ids: list[int]) -> QuerySet[CardState, int]:
    rows = CardState.objects.filter(gpu__in=card_ids).exclude(lost_since=None)
    return rows.order_by("gpu_id").values_list("gpu_id", flat=True)


def rivals(card_ids: Iterable[int], start: datetime, end: datetime) -> list[tuple[int, int, int, int | None]]:
    """Everything booked that holds one of these cards in `[start, end)` and has not started: (reservation, holder, card,
    project) for each of its cards."""
    return _rivals(list(card_ids), start, end)


@prepared
def _rivals(
    card_ids: list[int], start: datetime, end: datetime
) -> QuerySet[Allocation, tuple[int, int, int, int | None]]:
    # Bounded among all that holds: what is booked does not overlap with it either.
    in_the_way = on_cards(card_ids, start, end, HOLDING_CODES).order_by().values("allocations__reservation")
    rows = Allocation.objects.filter(reservation__in=in_the_way, status=str(Status.BOOKED))
    return rows.order_by("pk").values_list("reservation", "reservation__holder", "gpu", "reservation__project")


def holdings_of(member_id: int, from_: datetime, until: datetime | None = None) -> list[Holding]:
    """Everything the member holds or will hold from `from_` on, or between the two, as a collaborator too (B4)."""
    found = as_holdings(_held_by(member_id, from_, until))
    # Walk-ins are counted to who booked them (D2); a collaborator's cards to the cap of B1 alone.
    return [one if one.holder_id == member_id else replace(one, is_walk_in=False) for one in found]


@prepared
def _held_by(member_id: int, from_: datetime, until: datetime | None) -> QuerySet[Allocation, tuple[Any, ...]]:
    beside = Collaborator.objects.filter(member=member_id, state=Collaborator.State.ACCEPTED).values("reservation")
    # By reservation, none of whose cards is held beyond its end: both ways are led by an index.
    own = Reservation.objects.filter(holder=member_id, end__gt=from_).values("pk")
    rows = Allocation.objects.filter(
        Q(reservation__in=own) | Q(reservation__in=beside), status__in=HOLDING_CODES, end__gt=from_
    )
    return (rows if until is None else rows.filter(start__lt=until)).values_list(*HOLDING_COLUMNS)


def future_count(member_id: int, now: datetime) -> int:
    """How many of the member's reservations have not started (B1)."""
    return next(iter(_future_count(member_id, now)), 0)


@prepared
def _future_count(member_id: int, now: datetime) -> QuerySet[Allocation, int]:
    rows = Allocation.objects.filter(reservation__holder=member_id, status__in=HOLDING_CODES, start__gt=now)
    counted = rows.values("reservation__holder").annotate(n=Count("reservation", distinct=True))
    return counted.order_by().values_list("n", flat=True)


def card_used_last(member_id: int) -> int | None:
    """The card that the member's last reservation held (G2)."""
    return next(iter(_used_last(member_id)), None)


@prepared
def _used_last(member_id: int) -> QuerySet[Allocation, int]:
    rows = Allocation.objects.filter(reservation__holder=member_id).order_by("-start", "gpu")
    return rows.values_list("gpu", flat=True)[:1]


def next_holding(gpu_id: int, after: datetime, *, not_of: int | None = None) -> Holding | None:
    """The first reservation that holds the card at or after `after`, other than `not_of`."""
    rows = Allocation.objects.filter(gpu=gpu_id, status__in=HOLDING_CODES, end__gt=after)
    if not_of is not None:
        rows = rows.exclude(reservation=not_of)
    found = as_holdings(rows.order_by("start").values_list(*HOLDING_COLUMNS)[:1])
    return found[0] if found else None


def next_start(gpu_ids: Iterable[int], after: datetime, *, not_of: int) -> datetime | None:
    """When the next reservation or maintenance on any of these cards begins, other than `not_of`; earlier than `after` if it
    holds then."""
    wanted = list(gpu_ids)
    rows = Allocation.objects.filter(gpu__in=wanted, status__in=HOLDING_CODES, end__gt=after).exclude(reservation=not_of)
    closed = MaintenanceCard.objects.filter(gpu__in=wanted, end__gt=after)
    starts = (some.aggregate(start=Min("start"))["start"] for some in (rows, closed))
    return min((one for one in starts if one is not None), default=None)


@dataclass(frozen=True)
class EndedHolding:
    """An allocation the sensor must watch: held now, or ended less than a while ago.

    `beside`: the collaborators who accepted, whose processes count as the holder's (B4).
    """

    allocation_id: int
    reservation_id: int
    gpu_id: int
    member_id: int
    status: str
    start: datetime
    end: datetime
    beside: frozenset[int] = frozenset()


def watched_allocations(gpu_ids: Iterable[int], since: datetime, now: datetime) -> list[EndedHolding]:
    """Allocations that have started and that held their card at or after `since`: what monitoring judges.

    A card given back alone has ended with its own end, while its reservation goes on (I4).
    """
    shown = [*HOLDING_CODES, *HELD_ONCE]
    rows = Allocation.objects.filter(
        gpu__in=list(gpu_ids), status__in=shown, start__lte=now, end__gt=since
    ).values_list("pk", "reservation_id", "gpu_id", "reservation__holder_id", "status", "start", "end")
    found = list(rows.order_by("gpu_id", "start"))
    beside = collaborator_ids({row[1] for row in found})
    return [EndedHolding(*row, beside[row[1]]) for row in found]


def held_on_host(host_id: int, span: Interval) -> list[Allocation]:
    """What was or is really held of the host's cards at some instant of `span`, in order."""
    had = [Status.ACTIVE, Status.FINISHED, Status.RELEASED, Status.FORFEITED, Status.INTERRUPTED]
    rows = Allocation.objects.filter(
        gpu__host=host_id, status__in=[*map(str, had), str(Status.BOOKED)], start__lt=span.end, end__gt=span.start
    )
    return list(rows.select_related("reservation").order_by("start", "pk"))


def in_maintenance(gpu_id: int, span: Interval) -> bool:
    """Whether the card is out of service, or in maintenance at some instant of `span`: then nothing is held against anybody."""
    if Gpu.objects.filter(pk=gpu_id, service=Gpu.Service.OUT_OF_SERVICE).exists():
        return True
    return MaintenanceCard.objects.filter(gpu=gpu_id, start__lt=span.end, end__gt=span.start).exists()


def maintenance_listed(now: datetime) -> list[Maintenance]:
    """What is in maintenance or will be, each with its cards, the next to begin first."""
    rows = Maintenance.objects.filter(end__gt=now, ended_at=None).select_related("announced_by")
    cards_of = Prefetch("cards", MaintenanceCard.objects.select_related("gpu__host").order_by("gpu__host__name", "gpu__index"))
    return list(rows.prefetch_related(cards_of))


def held_since(member_ids: Iterable[int], since: datetime, now: datetime) -> dict[int, timedelta]:
    """The card time that each of these members has really had between the two instants: held, not booked ahead (K5)."""
    rows = Allocation.objects.filter(
        reservation__holder__in=list(member_ids), status__in=REALLY_HELD, end__gt=since, start__lt=now
    ).values_list("reservation__holder_id", "start", "end")
    found: dict[int, timedelta] = {}
    for member_id, start, end in rows:
        found[member_id] = found.get(member_id, timedelta()) + (min(end, now) - max(start, since))
    return found
