"""Who waits, what is offered to them, and what is kept for them (K5, D2, D6)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.db.models import Q, QuerySet, Sum

from ..models import Allocation, Demerit, FreedSlot, Member, Reservation, WaitlistEntry
from ..prepared import prepared
from ..rules.facts import Ask, Card, Kept
from ..rules.interval import Interval
from ..rules.kinds import Kind
from ..rules.lifecycle import Status
from ..rules.policy import Policy
from ..rules.rank import MOST_LOWERED, lowered, standing
from ..rules.waitlist import Freed, Wish, is_quiet, kept_from
from .fleet import cards
from .holdings import held_since
from .lab import HOLDING_CODES, REALLY_HELD, LabFacts, lab_facts
from .people import zone_of

KEPT = timedelta(minutes=2)  # how long freed time is kept when nobody comes to serve it: longer than a round takes to come


def wish_of(
    row: WaitlistEntry, policy: Policy, now: datetime, zone: ZoneInfo, *, steps: int = 0, held: timedelta = timedelta()
) -> Wish:
    """A waiting row as the rules see it. `row.member` must be loaded; `steps`: what standing lowers the member by (J3)."""
    ask = Ask(
        tuple(row.card_ids), None, row.latest, row.tier, row.count, row.pool_id, row.model or None, row.min_memory,
        row.several_hosts, project_id=row.project_id,
    )
    # A tier that the policy has dropped since is refused when it is served; until then it stands behind all others.
    tier = lowered(row.tier, steps, policy) if row.tier in policy.tiers else len(policy.tiers) + MOST_LOWERED
    return Wish(
        row.pk, row.member_id, ask, timedelta(seconds=row.length_s), row.earliest, row.latest, (0, tier), row.created_at,
        row.mode == WaitlistEntry.Mode.ASK, held,
        is_quiet(now, row.member.quiet_from, row.member.quiet_to, zone_of(row.member, zone)),
    )


def _waiting() -> QuerySet[WaitlistEntry]:
    """The rows that wait, of members who may take part."""
    return WaitlistEntry.objects.filter(
        state=WaitlistEntry.State.WAITING, member__is_active=True, member__approval=Member.Approval.APPROVED
    ).select_related("member")


def wishes(now: datetime, lab: LabFacts, *, besides: int | None = None) -> list[Wish]:
    """All that waits at `now`, save what `besides` waits for, without the order's card-hours."""
    rows = [row for row in _waiting_at(now) if row.member_id != besides] if _waits(now) else []
    steps = _steps({row.member_id for row in rows}, lab.policy, now) if rows else {}
    return [wish_of(row, lab.policy, now, lab.zone, steps=steps.get(row.member_id, 0)) for row in rows]


def anybody_waits(now: datetime) -> bool:
    """Whether there is any wish that can still be served."""
    return bool(_waits(now))


@prepared
def _waits(now: datetime) -> QuerySet[WaitlistEntry, int]:
    """One of those below, if there is any: nearly always there is none, and then nothing else is read."""
    return _waiting().select_related(None).filter(latest__gt=now).order_by().values_list("pk", flat=True)[:1]


@prepared
def _waiting_at(now: datetime) -> QuerySet[WaitlistEntry]:
    return _waiting().filter(latest__gt=now).order_by("created_at", "pk")


def _steps(member_ids: Iterable[int], policy: Policy, now: datetime) -> dict[int, int]:
    """By how many tiers the points of each of these members lower what they ask for (J3)."""
    rows = Demerit.objects.filter(member__in=list(member_ids), state=Demerit.State.COUNTED, expires_at__gt=now)
    sums = rows.values("member_id").annotate(points=Sum("points")).order_by()
    return {row["member_id"]: standing(row["points"], policy).steps for row in sums}


def wishes_in_turn(now: datetime, lab: LabFacts) -> list[Wish]:
    """All that waits at `now` with its members' card-hours of the last days, for the waitlist's order (K5)."""
    rows = list(_waiting().order_by("created_at", "pk"))
    since = now - timedelta(seconds=lab.policy.fair_share_s)
    members = {row.member_id for row in rows}
    held, steps = held_since(members, since, now), _steps(members, lab.policy, now)
    return [
        wish_of(
            row, lab.policy, now, lab.zone, steps=steps.get(row.member_id, 0), held=held.get(row.member_id, timedelta())
        )
        for row in rows
    ]


def displaced_from(card_ids: Iterable[int], now: datetime) -> dict[int, list[Interval]]:
    """By card the slots ahead from which somebody was displaced who may have them back (D6)."""
    found: dict[int, list[Interval]] = {}
    for card_id, start, end in _displaced_from(list(card_ids), now):
        found.setdefault(card_id, []).append(Interval(start, end))
    return found


@prepared
def _displaced_from(card_ids: list[int], now: datetime) -> QuerySet[Allocation, tuple[int, datetime, datetime]]:
    return Allocation.objects.filter(
        gpu__in=card_ids, status=str(Status.DISPLACED), reservation__status=Status.DISPLACED, start__gt=now,
        reservation__displaced_by__isnull=False,
    ).values_list("gpu_id", "start", "end")


def may_come_back(now: datetime) -> list[Reservation]:
    """What was displaced and could have its whole slot again, because what displaced it was cancelled or moved away, in the
    order of rank and seniority: not begun, nothing taken in its place, not offered yet (D6)."""
    gone = [str(Status.CANCELLED), str(Status.BOOKED), str(Status.ACTIVE)]
    rows = Reservation.objects.filter(
        status=Status.DISPLACED, start__gt=now, displaced_by__status__in=gone, holder__is_active=True,
        holder__approval=Member.Approval.APPROVED,
    ).exclude(replacements__status__in=[*HOLDING_CODES, str(Status.PASSED), *REALLY_HELD])
    rows = rows.select_related("holder").prefetch_related("allocations", "displaced_by__allocations")
    found = [one for one in rows if not _is_in_the_way(one)]
    return sorted(found, key=lambda one: (one.rank, one.booked_at, one.pk))


def _is_in_the_way(displaced: Reservation) -> bool:
    """Whether what displaced the reservation still holds a part of its slot."""
    by = displaced.displaced_by
    if by is None or by.status == Status.CANCELLED:
        return by is None
    cards_of_it = {row.gpu_id for row in displaced.allocations.all()}
    return any(
        row.gpu_id in cards_of_it and row.start < displaced.end and displaced.start < row.end for row in by.allocations.all()
    )


def waited_from(card_ids: Iterable[int], span: Interval, now: datetime, *, besides: int | None = None) -> datetime | None:
    """From when in `span` somebody other than `besides` waits for such a card; None where nobody does (D2, H5, I5)."""
    waiting = wishes(now, lab_facts(), besides=besides)
    if not waiting:
        return None
    found = cards(card_ids).values()
    starts = [max(one.earliest, span.start) for one in waiting if any(one.wants(card, span) for card in found)]
    return min(starts, default=None)


def somebody_waits(card_ids: Iterable[int], span: Interval, now: datetime, *, besides: int | None = None) -> bool:
    """Whether somebody other than `besides` waits for time in `span` on such a card (D2, H5, I4, I5, I7)."""
    return waited_from(card_ids, span, now, besides=besides) is not None


def unready(card_ids: Iterable[int], ready: Collection[int], now: datetime) -> list[Kept]:
    """Freed time that this round of the waitlist may not offer: all but the slots that were `ready` when it began, since the
    card has not been seen free often enough (H4), or since it was freed after some were passed over (K5)."""
    rows = FreedSlot.objects.filter(gpu__in=list(card_ids), end__gt=now).exclude(pk__in=list(ready))
    return [Kept(row.gpu_id, Interval(row.start, row.end), until=row.end) for row in rows]


def kept_for_others(
    member_id: int, found: Mapping[int, Card], span: Interval, now: datetime, lab: LabFacts
) -> list[Kept]:
    """What of these cards' time is kept from this member: freed time that goes to the waitlist first (K5, H4), and cards on
    which a walk-in of theirs runs, or ended less than a grace ago, while somebody waits (D2)."""
    waiting = wishes(now, lab, besides=member_id)
    rows = _freed_between(list(found), max(span.start, now), span.end, now - KEPT)
    first = [one for one in may_come_back(now) if one.holder_id != member_id] if rows else []
    if not waiting and not first:
        return []
    freed = [
        Freed(row.gpu_id, Interval(row.start, row.end), row.ready_at + KEPT if row.ready_at else None) for row in rows
    ]
    # What was displaced goes before everybody, whatever the rank: it was there first (D6).
    before_all = [
        Kept(slot.card_id, slot.interval, until=slot.kept_until)
        for slot in freed
        if any(
            slot.card_id == row.gpu_id and slot.interval.overlaps(Interval(row.start, row.end))
            for one in first for row in one.allocations.all()
        )
    ]
    return [
        *before_all, *kept_from(member_id, freed, waiting, found),
        *_renewals(member_id, found, waiting, now, lab.policy.grace),
    ]


@prepared
def _freed_between(
    card_ids: list[int], start: datetime, end: datetime, since: datetime
) -> QuerySet[FreedSlot]:
    """Freed time that is not ready yet, or has been since then."""
    rows = FreedSlot.objects.filter(gpu__in=card_ids, start__lt=end, end__gt=start)
    return rows.filter(Q(ready_at=None) | Q(ready_at__gt=since))


def _renewals(
    member_id: int, found: Mapping[int, Card], waiting: Sequence[Wish], now: datetime, grace: timedelta
) -> list[Kept]:
    mine = Allocation.objects.filter(
        reservation__holder=member_id, reservation__kind=Kind.WALK_IN, gpu__in=list(found), end__gt=now - grace,
        status__in=[str(Status.ACTIVE), str(Status.FINISHED), str(Status.RELEASED)],
    ).values_list("gpu_id", "end")
    after = [(card_id, Interval(end, end + grace)) for card_id, end in mine]
    return [
        Kept(card_id, span, is_renewal=True) for card_id, span in after
        if any(one.wants(found[card_id], span) for one in waiting)
    ]


def waiting_of(member: Member) -> list[WaitlistEntry]:
    """What the member waits for, longest waiting first."""
    rows = WaitlistEntry.objects.filter(member=member, state=WaitlistEntry.State.WAITING)
    return list(rows.select_related("pool").order_by("created_at", "pk"))


def offers_of(member: Member, now: datetime) -> list[Reservation]:
    """What is offered to the member and can still be taken, what ends first first."""
    rows = Reservation.objects.filter(holder=member, status=Status.OFFERED, offer_until__gt=now)
    return list(rows.prefetch_related("allocations__gpu__host").order_by("offer_until", "pk"))
