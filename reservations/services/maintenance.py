"""Planned and urgent maintenance: announced, ended early, and what becomes of what is booked in its time (G5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from .. import permissions, queries
from ..models import Allocation, Maintenance, MaintenanceCard, Member, Notification, Reservation
from ..queries import HOLDING_CODES, LabFacts
from ..rules.interval import Interval
from ..rules.kinds import is_frozen
from ..rules.lifecycle import Status
from ..rules.refusal import Code, Refusal, Refused, refuse
from . import audit, displacing, freed, interrupting, locking, offers, outbox
from .held import guarded, status_at


@dataclass(frozen=True)
class Effect:
    """What a maintenance means: each card's own time, what it displaces, and what has started and ends by it.

    What is `waited_for` is firm: a planned maintenance begins on its cards when it has ended. What is only offered (`offers`) is
    withdrawn.
    """

    times: Mapping[int, Interval]
    displaced: Sequence[Reservation] = ()
    interrupted: Sequence[Reservation] = ()
    waited_for: Sequence[Reservation] = ()
    offers: Sequence[Reservation] = ()

    @property
    def begins(self) -> datetime:
        """When it has begun on all its cards."""
        return max(one.start for one in self.times.values())

    @property
    def seen(self) -> str:
        """What an admin has been shown: another effect has another mark."""
        touched = ".".join(str(one.pk) for one in (*self.displaced, *self.interrupted, *self.offers))
        return f"{int(self.begins.timestamp())}-{touched}"


def effect(
    card_ids: Iterable[int], start: datetime | None, end: datetime, *, urgent: bool, now: datetime
) -> Effect:
    """What a maintenance of these cards from `start` (None or passed: from now) to `end` would mean. Writes nothing.

    Planned, it begins on each card after what is active or frozen there; urgent, as asked. Raises `Refused`: no cards,
    no time, or nothing left of it on some card after what is firm.
    """
    wanted, lab = sorted(set(card_ids)), queries.lab_facts()
    start = now if start is None else max(start, now)
    names = queries.cards(wanted)
    if not wanted or len(names) < len(wanted):
        raise refuse(Code.CARD_UNKNOWN if wanted else Code.NO_CARDS)
    if end <= start:
        raise refuse(Code.END_BEFORE_START)
    if twice := queries.maintenance_between(wanted, start, end):
        one = twice[0]
        raise refuse(
            Code.MAINTENANCE_TWICE, card=names[one.card_id].label, start=one.interval.start, end=one.interval.end
        )
    rows = Allocation.objects.filter(gpu__in=wanted, status__in=HOLDING_CODES, start__lt=end, end__gt=start)
    rows = rows.select_related("reservation__holder").order_by("start", "gpu")
    found = [row for row in rows if row.end > now]
    firm = [] if urgent else [row for row in found if _is_firm(row.reservation, lab, now)]
    begins = {card_id: max([start, *(row.end for row in firm if row.gpu_id == card_id)]) for card_id in wanted}
    late = [
        Refusal(Code.MAINTENANCE_WAITS, {"card": names[card_id].label, "until": begun})
        for card_id, begun in begins.items() if begun >= end
    ]
    if late:
        raise Refused(late)
    times = {card_id: Interval(begun, end) for card_id, begun in begins.items()}
    met = [row for row in found if Interval(row.start, row.end).overlaps(times[row.gpu_id])]
    offered = {row.reservation_id for row in met if row.reservation.status == Status.OFFERED}
    started = {row.reservation_id for row in met if status_at(row.reservation, now) == Status.ACTIVE}
    return Effect(
        times, _whole(row for row in met if row.reservation_id not in {*started, *offered}),
        _whole(row for row in met if row.reservation_id in started), _whole(firm),
        _whole(row for row in met if row.reservation_id in offered),
    )


def _is_firm(reservation: Reservation, lab: LabFacts, now: datetime) -> bool:
    """Whether a planned maintenance waits for it. What is elastic never freezes, it is firm once it has started (E4)."""
    if reservation.status == Status.OFFERED:
        return False
    if status_at(reservation, now) == Status.ACTIVE:
        return True
    return not reservation.is_elastic and is_frozen(reservation.start, now, lab.zone, lab.policy.freezing)


def _whole(rows: Iterable[Allocation]) -> list[Reservation]:
    return list({row.reservation_id: row.reservation for row in rows}.values())


def announce(
    card_ids: Iterable[int], start: datetime | None, end: datetime, *, reason: str, urgent: bool, by: Member, now: datetime,
    seen: str | None = None,
) -> Maintenance:
    """Takes these cards out of use from `start` to `end`, with all that follows (G5).

    What has not started in its time is displaced and may move (D5); urgent, which needs a reason, it goes to equal free cards
    at the same time first, and what is active then ends when the maintenance begins: at once, or by the sweep. All holders are
    told. `seen`: the mark of the effect that was shown; where it is another by now, nothing is written (`STALE`). The same
    announcement again returns the first. Raises `Refused`, or `locking.Busy`.
    """
    if not permissions.may(by, permissions.Action.ADMINISTER):
        raise refuse(Code.NOT_YOURS)
    text = " ".join(reason.split())
    if urgent and not text:
        raise refuse(Code.TEXT_MISSING)
    wanted = sorted(set(card_ids))
    while True:
        members, projects, cards = _reach(wanted, start, end, now)
        with guarded(), locking.hold(members=[by.pk, *members], projects=projects, cards=cards):
            if (done := _announced(wanted, end, text, urgent, by, now)) is not None:
                return done
            found = effect(wanted, start, end, urgent=urgent, now=now)
            if seen is not None and seen != found.seen:
                raise refuse(Code.STALE)
            if {one.holder_id for one in (*found.displaced, *found.interrupted, *found.offers)} <= members:
                made = _write(found, text, urgent, by, now)
                break  # else somebody has booked meanwhile: their rows must be locked too
    for reservation_id in interrupting.due(now, of=[one.pk for one in found.interrupted]):
        try:
            interrupting.interrupt(reservation_id, now=now)
        except locking.Busy:
            continue  # it is announced, and the sweep goes on with it
    return made


def _reach(
    card_ids: Sequence[int], start: datetime | None, end: datetime, now: datetime
) -> tuple[frozenset[int], frozenset[int], list[int]]:
    """The people, projects and cards that an announcement may touch."""
    rows = Allocation.objects.filter(
        reservation__in=Allocation.objects.filter(
            gpu__in=card_ids, status__in=HOLDING_CODES, start__lt=end, end__gt=start or now
        ).values("reservation")
    )
    found = list(rows.values_list("reservation", "gpu"))
    people, projects = queries.people_behind({pk for pk, _ in found})
    return people, projects, queries.pool_mates([*card_ids, *(card for _, card in found)])


def _announced(
    card_ids: Sequence[int], end: datetime, reason: str, urgent: bool, by: Member, now: datetime
) -> Maintenance | None:
    rows = Maintenance.objects.filter(
        end=end, reason=reason, is_urgent=urgent, announced_by=by, ended_at=None, announced_at__lte=now, end__gt=now
    ).prefetch_related("cards")
    return next((one for one in rows if sorted(card.gpu_id for card in one.cards.all()) == list(card_ids)), None)


def _write(found: Effect, reason: str, urgent: bool, by: Member, now: datetime) -> Maintenance:
    first = min(one.start for one in found.times.values())
    end = next(iter(found.times.values())).end
    made = Maintenance.objects.create(
        reason=reason, is_urgent=urgent, start=first, end=end, announced_by=by, announced_at=now
    )
    MaintenanceCard.objects.bulk_create(
        MaintenanceCard(maintenance=made, gpu_id=card_id, start=one.start, end=one.end)
        for card_id, one in found.times.items()
    )
    audit.note(
        "announce_maintenance", made, actor=by, origin="page", now=now, reason=reason, urgent=urgent, end=end.isoformat(),
        cards={str(card_id): one.start.isoformat() for card_id, one in found.times.items()},
        displaced=[one.pk for one in found.displaced], offers=[one.pk for one in found.offers],
        interrupted=[one.pk for one in found.interrupted],
    )
    for one in found.offers:
        offers.withdraw(one.pk, now=now, cause="maintenance")
    going = [one.pk for one in found.displaced]
    if urgent:
        going = [pk for pk in going if not interrupting.swap(pk, set(found.times), cause="maintenance", now=now)]
    displacing.place_anew(displacing.take_out(going, now), None, cause="maintenance", now=now)
    for reservation in found.interrupted:
        if min(one.start for one in found.times.values()) > now:  # else the interruption itself tells
            outbox.write(
                Notification.Kind.MAINTENANCE, reservation.holder, key=f"maintenance:{made.pk}:{reservation.pk}", due_at=now,
                reservation=reservation,
            )
    return made


def end_early(maintenance_id: int, *, by: Member, now: datetime) -> Maintenance:
    """Ends a maintenance now, or calls it off where it has not begun. Who made room for it keeps what they have now; what is
    freed goes to whoever waits first (K5)."""
    if not permissions.may(by, permissions.Action.ADMINISTER):
        raise refuse(Code.NOT_YOURS)
    card_ids = list(MaintenanceCard.objects.filter(maintenance=maintenance_id).values_list("gpu", flat=True))
    with locking.hold(members=[by.pk], cards=queries.pool_mates(card_ids)):
        row = Maintenance.objects.select_for_update(of=("self",)).get(pk=maintenance_id)
        if row.ended_at is not None:
            return row
        if row.end <= now:
            raise refuse(Code.MAINTENANCE_OVER)
        row.ended_at = now
        row.save(update_fields=["ended_at"])
        freed.note(list(MaintenanceCard.objects.filter(maintenance=row, end__gt=now)), now)
        MaintenanceCard.objects.filter(maintenance=row, start__gte=now).delete()
        MaintenanceCard.objects.filter(maintenance=row, end__gt=now).update(end=now)
        audit.note("end_maintenance", row, actor=by, origin="page", now=now)
        return row
