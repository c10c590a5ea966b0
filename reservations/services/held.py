"""A reservation under the lock, and the rows that every change of it writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.db import IntegrityError, OperationalError
from django.db.models import QuerySet

from .. import permissions, queries
from ..models import Allocation, CardState, IdempotencyKey, LedgerEntry, Member, Reservation
from ..prepared import insert, prepared
from ..queries import LabFacts
from ..rules import booking as rules
from ..rules import supply
from ..rules.interval import Interval
from ..rules.kinds import Kind
from ..rules.lifecycle import HOLDING, Status, can_become
from ..rules.quota import Price, Stretch, charge, free_again, free_seconds, price_from_json, price_to_json
from ..rules.refusal import Alternative, Code, refuse
from . import freed, locking

TINY = timedelta(microseconds=1)
Account, Reason = LedgerEntry.Account, LedgerEntry.Reason


@dataclass(frozen=True)
class Held:
    """A reservation with the rows of its cards, read under the lock (or, for a page, without).

    Cards given back alone (G3), or taken from it alone (G5, G6), are not among them.
    """

    reservation: Reservation
    allocations: list[Allocation]
    lab: LabFacts

    @property
    def interval(self) -> Interval:
        """The booked time."""
        return Interval(self.reservation.start, self.reservation.end)

    @property
    def prices(self) -> list[tuple[Price, int]]:
        """Each card's price and weight as booked; a row of 0.1.0 has the plain rate."""
        return [(self._price(row), row.weight) for row in self.allocations]

    def _price(self, row: Allocation) -> Price:
        return price_from_json(row.price) if row.price else (Stretch(self.interval),)

    def charge(self, within: Interval | None = None) -> dict[date, int]:
        """Units of the quota account for the part inside `within`."""
        return charge(self.prices, self.lab.zone, within)

    def free_time(self, within: Interval | None = None) -> dict[date, int]:
        """Free card-seconds per lab day for the part inside `within` (a walk-in's; D2)."""
        return _sum(free_seconds(price, 1, self.lab.zone, within) for price, _ in self.prices)


def _sum(parts: Iterator[dict[date, int]]) -> dict[date, int]:
    total: dict[date, int] = {}
    for part in parts:
        for day, seconds in part.items():
            total[day] = total.get(day, 0) + seconds
    return total


@contextmanager
def guarded() -> Iterator[None]:
    """Turns the database's last word on an overlap into a refusal (the law's check speaks first, and better)."""
    try:
        yield
    except (IntegrityError, OperationalError) as problem:
        if "no_double_booking" in str(problem):
            raise refuse(Code.CARD_TAKEN, card="", holder="", start=None, end=None, reservation=None) from problem
        raise


@contextmanager
def locked(
    reservation_id: int, by: Member, action: permissions.Action, version: int | None, now: datetime,
    also: Iterable[int] = (), with_members: Iterable[int] = (), with_projects: Iterable[int] = (),
) -> Iterator[Held]:
    """The door to every change: lock, re-read, right to act, version. `also` names cards beside the reservation's,
    `with_members` and `with_projects` whose rows are locked beside those of its holder, collaborators and project.

    Raises `Refused`.
    """
    # The actor too: a key is the actor's, and an arbiter may act for two holders at once.
    with guarded(), on_its_cards(reservation_id, members=[by.pk, *with_members], people=True, projects=with_projects, also=also):
        reservation = queries.reservation_detail(reservation_id)
        if reservation is None or not permissions.may(by, action, reservation):
            raise refuse(Code.NOT_YOURS)
        if version is not None and version != reservation.version:
            raise refuse(Code.STALE)
        yield held_by(reservation)


@contextmanager
def on_its_cards(
    reservation_id: int, *, members: Iterable[int] = (), people: bool = False, projects: Iterable[int] = (),
    also: Iterable[int] = (),
) -> Iterator[None]:
    """The lock over the cards of a reservation and of their pools. A move may give it others while we wait: then anew.

    With `people` also over its project, its holder and its collaborators, whose sums a change rests on.
    """
    members, also, projects = list(members), list(also), list(projects)
    while True:
        card_ids = cards_of(reservation_id)
        theirs, project = _people_of(reservation_id) if people else ([], None)
        whose = [*projects, *([] if project is None else [project])]
        with locking.hold(members=[*members, *theirs], projects=whose, cards=queries.pool_mates([*card_ids, *also])):
            if cards_of(reservation_id) != card_ids or (people and _people_of(reservation_id)[0] != theirs):
                continue
            yield
            return


def _people_of(reservation_id: int) -> tuple[list[int], int | None]:
    """The holder with the collaborators who accepted, and the project, which never changes."""
    members, projects = queries.people_behind([reservation_id])
    return sorted(members), next(iter(projects), None)


def cards_of(reservation_id: int) -> list[int]:
    """The cards of a reservation, by id."""
    return _cards_of(reservation_id)


@prepared
def _cards_of(reservation_id: int) -> QuerySet[Allocation, int]:
    return Allocation.objects.filter(reservation=reservation_id).order_by("gpu").values_list("gpu", flat=True)


def held_by(reservation: Reservation) -> Held:
    """The reservation with its rows as they stand."""
    rows = _rows_of(reservation.pk, reservation.status == Status.INTERRUPTED)
    for row in rows:
        row.reservation = reservation
    return Held(reservation, rows, queries.lab_facts())


@prepared
def _rows_of(reservation_id: int, interrupted: bool) -> QuerySet[Allocation]:
    rows = Allocation.objects.filter(reservation=reservation_id, given_back_at=None)
    return (rows if interrupted else rows.exclude(status=Status.INTERRUPTED)).order_by("gpu")


def status_at(reservation: Reservation, now: datetime) -> Status:
    """The status by the clock: the sweep that writes it down may be late."""
    status = Status(reservation.status)
    if status == Status.BOOKED and reservation.start <= now:
        status = Status.ACTIVE
    if status == Status.ACTIVE and reservation.end <= now:
        status = Status.FINISHED
    return status


def require(reservation: Reservation, new: Status, now: datetime) -> None:
    """Refuses a change the life of a reservation does not know."""
    status = status_at(reservation, now)
    if status == Status.FINISHED or not can_become(status, new):
        raise refuse(Code.WRONG_STATUS, status=str(status))


def own_processes_seen(held: Held) -> bool:
    """Whether the sensor last saw processes of the holder or a collaborator on a card of the reservation (B4)."""
    states = CardState.objects.filter(gpu__in=[row.gpu_id for row in held.allocations])
    people = {held.reservation.holder_id, *held.reservation.collaborator_ids}
    return any(people & set(state.owner_ids) for state in states)


# --- rows -----------------------------------------------------------------------------------------------------------


def set_status(held: Held, status: Status, *, ended_at: datetime | None) -> None:
    """Writes the status to the reservation and its cards; what that frees is noted for those who wait (K5)."""
    reservation, was = held.reservation, Status(held.reservation.status)
    reservation.status, reservation.ended_at = status, ended_at
    reservation.version += 1
    reservation.save(update_fields=["status", "ended_at", "version"])
    rows = Allocation.objects.filter(reservation=reservation, given_back_at=None).exclude(status=Status.INTERRUPTED)
    rows.update(status=status)
    if status not in HOLDING and ended_at is not None:
        freed.note(held.allocations, ended_at, was_offered=was == Status.OFFERED)


def end_now(held: Held, status: Status, now: datetime) -> None:
    """Ends the holding of every card at `now`."""
    set_status(held, status, ended_at=now)
    for row in held.allocations:
        if row.end > now:
            Allocation.objects.filter(pk=row.pk).update(end=max(now, row.start + TINY))


def reopen(held: Held, end: datetime) -> None:
    """Makes an ended reservation hold again until `end` (H0)."""
    reservation = held.reservation
    reservation.status, reservation.ended_at, reservation.end = Status.ACTIVE, None, end
    reservation.version += 1
    reservation.save(update_fields=["status", "ended_at", "end", "version"])
    rows = Allocation.objects.filter(reservation=reservation, given_back_at=None).exclude(status=Status.INTERRUPTED)
    rows.update(status=Status.ACTIVE, end=end)


def keep_from(reservation: Reservation, now: datetime) -> None:
    """Notes that somebody wants to keep what the system, or they, gave back: it must not go again at once (H3, H7)."""
    reservation.kept_at = now
    reservation.save(update_fields=["kept_at"])


def add_price(held: Held, added: Mapping[int, Price]) -> None:
    """Keeps the price of added time with each card (by card id)."""
    for row in held.allocations:
        whole = (*held._price(row), *added[row.gpu_id])
        Allocation.objects.filter(pk=row.pk).update(price=price_to_json(whole))


def charge_what_is_no_longer_free(held: Held, span: Interval, since: datetime) -> None:
    """Before a release is undone: the free time that the holder's other walk-ins took since then stays theirs (D2).

    What is short of it in `span` gets its ordinary price. Done to the rows in memory and, where it changes, stored.
    """
    zone, free = held.lab.zone, held.free_time(span)
    if not free:
        return
    holder, days = held.reservation.holder_id, list(free)
    used = queries.free_seconds_used(holder, days)
    taken = queries.free_seconds_used(holder, days, since=since, not_of=held.reservation.pk)
    budget = held.lab.policy.walk_in_free_hours * 3600
    left = {day: min(free[day], max(budget - used[day], free[day] - taken[day], 0)) for day in days}
    if left == free:
        return
    for row in held.allocations:
        price = held._price(row)
        row.price = price_to_json(free_again(price, span, len(held.allocations), left, zone))
        row.save(update_fields=["price"])


def post(
    reservation: Reservation, units: Mapping[date, int], reason: str, now: datetime, *, account: str | None = None
) -> None:
    """Writes the ledger's rows, one per period that moves; on the account of its quota unless another is named."""
    account = account or (Account.ELASTIC if reservation.is_elastic else Account.QUOTA)
    insert(
        [
            LedgerEntry(
                member_id=reservation.holder_id, account=account, period=period, units=amount, reason=reason,
                reservation=reservation, at=now, project_id=reservation.payer_id if account != Account.FREE else None,
            )
            for period, amount in sorted(units.items())
            if amount
        ]
    )


def post_both(
    held: Held, within: Interval | None, reason: str, now: datetime, *, sign: int = 1
) -> None:
    """Charges (or, with `sign` -1, returns) the part inside `within`: its units and its free time."""
    post(held.reservation, scaled(held.charge(within), sign), reason, now)
    if held.reservation.kind == Kind.WALK_IN:
        post(held.reservation, scaled(held.free_time(within), sign), reason, now, account=Account.FREE)


def scaled(units: Mapping[date, int], sign: int) -> dict[date, int]:
    return {period: sign * amount for period, amount in units.items()}


def taken(held: Held, span: Interval, instead: Alternative | None) -> list[rules.Refusal]:
    """A refusal for each card of the reservation that somebody else holds in `span`, or that is in maintenance then."""
    card_ids = [row.gpu_id for row in held.allocations]
    names = queries.cards(card_ids)
    return [
        supply.taken(one, names[one.card_id].label, instead)
        for one in queries.holdings_between(card_ids, span.start, span.end)
        if one.reservation_id != held.reservation.pk
    ]


def own_others(held: Held, now: datetime) -> list[rules.Holding]:
    """What the holder has beside this reservation, from now on."""
    mine = queries.holdings_of(held.reservation.holder_id, now)
    return [one for one in mine if one.reservation_id != held.reservation.pk]


# --- one effect per key (P3) ----------------------------------------------------------------------------------------


def repeated(actor: Member, key: str, fingerprint: str) -> Reservation | None:
    """The answer given the first time this key was used; refuses another request under the same key."""
    if not key:
        return None
    kept = next(iter(_used_before(actor.pk, key)), None)
    if kept is None:
        return None
    if kept.fingerprint != fingerprint:
        raise refuse(Code.KEY_REUSED)
    return kept.reservation


@prepared
def _used_before(actor: int, key: str) -> QuerySet[IdempotencyKey]:
    return IdempotencyKey.objects.filter(actor=actor, key=key).select_related("reservation__holder")


def remember(actor: Member, key: str, fingerprint: str, reservation: Reservation, now: datetime) -> None:
    """Writes the key with its effect."""
    if key:
        insert([IdempotencyKey(actor=actor, key=key, fingerprint=fingerprint, reservation=reservation, at=now)])


def pressed(by: int | None) -> dict[str, Any]:
    """Who was signed in when somebody else's link was pressed; only the audit keeps it."""
    return {} if by is None else {"pressed_by": by}
