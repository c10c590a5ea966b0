"""Making room: whom a new reservation displaces, where the displaced go, and how an undo brings them back (D4-D6, H0)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from .. import queries
from ..models import Allocation, Member, Notification, Reservation
from ..queries import LabFacts
from ..rules import booking as rules
from ..rules import slots
from ..rules.lifecycle import Status
from ..rules.projects import pays
from ..rules.refusal import Code, refuse
from . import audit, extension, fees, former, freed, hours, outbox
from .held import Held, Reason, held_by, post_both
from .placing import allocate, cards_to_lock, facts_for


@dataclass(frozen=True)
class Reach:
    """Whom a request could displace at most: to lock their rows before it is known whether it does."""

    reservations: frozenset[int] = frozenset()
    members: frozenset[int] = frozenset()
    projects: frozenset[int] = frozenset()
    cards: frozenset[int] = frozenset()


def reach(ask: rules.Ask, now: datetime, *, by_ruling: bool = False) -> Reach:
    """The cards that the request rests on, and everything booked in the way on them, with its people, projects, cards and
    their pools. A walk-in displaces nobody, unless `by_ruling`."""
    start, mine = max(ask.start or now, now), frozenset(cards_to_lock(ask))
    if (start <= now and not by_ruling) or ask.end <= start:
        return Reach(cards=mine)
    rivals = queries.rivals(mine, start, ask.end)
    ids, beyond = frozenset(pk for pk, _, _, _ in rivals), {card for _, _, card, _ in rivals} - mine
    beside = queries.collaborator_ids(ids) if ids else {}
    members = frozenset(holder for _, holder, _, _ in rivals).union(*beside.values())
    projects = frozenset(project for _, _, _, project in rivals if project is not None)
    return Reach(ids, members, projects, mine.union(queries.pool_mates(beyond) if beyond else ()))


@dataclass(frozen=True)
class Displaced:
    """A reservation that made room, with its rows as they were, and as the audit keeps it."""

    held: Held
    old: Mapping[str, Any]


def take_out(reservation_ids: Iterable[int], now: datetime) -> list[Displaced]:
    """Ends the holding of these reservations, none of which has started, and returns their charges (D4, E3).

    They are `displaced` from here on, oldest booking first; `place_anew` may give them another time. Under the lock over
    their holders and cards.
    """
    ids, found = list(reservation_ids), list[Displaced]()
    rows = Reservation.objects.select_related("holder").filter(pk__in=ids).order_by("booked_at", "pk") if ids else []
    for reservation in rows:
        held = held_by(reservation)
        old = former.record(reservation, [row.gpu_id for row in held.allocations])
        post_both(held, None, Reason.DISPLACED, now, sign=-1)
        reservation.status, reservation.ended_at = Status.DISPLACED, now
        reservation.displaced_times += 1
        reservation.version += 1
        reservation.save(update_fields=["status", "ended_at", "displaced_times", "version"])
        Allocation.objects.filter(reservation=reservation).update(status=Status.DISPLACED)
        found.append(Displaced(held, old))
    return found


def place_anew(displaced: Sequence[Displaced], by: Reservation | None, *, cause: str, now: datetime) -> list[dict[str, Any]]:
    """Moves what may move to the earliest start that all rules allow (D5), and tells every holder; what displaced them is
    `by` (None: maintenance or a lost card), `cause` the audit's word for it.

    Returns what `bring_back` needs. What is moved here displaces nobody.
    """
    record = []
    for one in displaced:
        reservation = one.held.reservation
        place = _new_place(one, now)
        returned: list[dict[str, Any]] = []
        if place is None:
            reservation.displaced_by = by
            reservation.save(update_fields=["displaced_by"])
            if not reservation.is_elastic:
                hours.keep_valid(reservation, one.held.charge(), why=cause, lab=one.held.lab, now=now)
        else:
            returned = _move_to(one, *place, now)
        entry = audit.note(
            "displaced" if place is None else "placed", reservation, actor=None, origin="system", now=now, cause=cause,
            by=by.pk if by else None, old=dict(one.old),
        )
        kind = Notification.Kind.DISPLACED if place is None else Notification.Kind.PLACED
        # After the seconds in which it can be undone: who was never displaced need not hear of it.
        due = now + timedelta(seconds=one.held.lab.policy.booking_undo_s)
        outbox.write(
            kind, reservation.holder, key=f"{kind}:{entry.pk}", due_at=due, reservation=reservation,
        )
        freed.note(one.held.allocations, now)  # what the displacer does not take of it
        record.append(
            {"id": reservation.pk, "version": reservation.version, "old": dict(one.old), **fees.recorded(returned)}
        )
    return record


def _new_place(one: Displaced, now: datetime) -> tuple[rules.Plan, rules.Facts] | None:
    """The earliest time for the same cards or as many like them, at most at the old price (D5); None when there is none."""
    reservation, lab = one.held.reservation, one.held.lab
    latest = reservation.may_move_until
    if latest is None:
        return None
    ask = _as_asked(one, reservation.start, max(latest, reservation.end))
    facts = no_heavier(facts_for(reservation.holder, ask, lab, now), one.held)
    for plan in slots.in_turn(ask, facts, length=reservation.end - reservation.start, until=latest):
        if not extension.collaborators_over(one.held, plan.held, now):
            return plan, facts
    return None


def no_heavier(facts: rules.Facts, held: Held) -> rules.Facts:
    """The facts with no card of more weight than those of the reservation had: the other half of its old price (D5)."""
    weights = {row.gpu_id: row.weight for row in held.allocations}
    most = max(weights.values())
    cards = {pk: replace(card, weight=min(card.weight, weights.get(pk, most))) for pk, card in facts.cards.items()}
    return replace(facts, cards=cards)


def _as_asked(one: Displaced, start: datetime, end: datetime) -> rules.Ask:
    """What the reservation stands for: as many cards of its pool and model; or its very cards, where they are unlike."""
    reservation, rows = one.held.reservation, one.held.allocations
    cards = queries.cards([row.gpu_id for row in rows])
    kinds = {(card.pool_id, card.model) for card in cards.values()}
    at_most = one.held.prices[0][0]
    if len(kinds) > 1:
        return rules.Ask(
            tuple(cards), start, end, reservation.tier, elastic=reservation.is_elastic, at_most=at_most,
            project_id=reservation.project_id,
        )
    ((pool_id, model),) = kinds
    return rules.Ask(
        (), start, end, reservation.tier, len(rows), pool_id, model, elastic=reservation.is_elastic, at_most=at_most,
        several_hosts=len({card.host for card in cards.values()}) > 1, project_id=reservation.project_id,
    )


def _move_to(one: Displaced, plan: rules.Plan, facts: rules.Facts, now: datetime) -> list[dict[str, Any]]:
    """Gives it its new time; returns the fees of others that this returned."""
    reservation = one.held.reservation
    former.keep_rows(one.held, one.old["version"])
    Allocation.objects.filter(reservation=reservation).delete()
    reservation.start, reservation.end, reservation.kind = plan.held.start, plan.held.end, plan.kind
    reservation.status, reservation.ended_at, reservation.placed_at = Status.BOOKED, None, now
    reservation.is_elastic, reservation.confirmed_at = plan.is_elastic, None
    reservation.project_pays, reservation.grant_id = pays(reservation.project_id, one.held.lab.policy), plan.grant_id
    reservation.version += 1
    reservation.save()
    post_both(allocate(reservation, plan, facts, one.held.lab), None, Reason.MOVED, now)
    returned = fees.return_for(plan.card_ids, plan.held, one.held.lab, now)
    outbox.write_reminders(reservation, one.held.lab, now)
    return returned


def recorded(moved: list[dict[str, Any]]) -> dict[str, Any]:
    """What the audit of an act keeps of whom it displaced, if anybody."""
    return {"displaced": moved} if moved else {}


# --- undoing ----------------------------------------------------------------------------------------------------------


def bring_back(record: Iterable[Mapping[str, Any]], now: datetime) -> None:
    """Makes everything displaced by an act that is being undone what it was (H0).

    Raises `Refused` when an owner has acted since, or when what they held is no longer to be had.
    """
    for one in record:
        reservation = Reservation.objects.select_related("holder").get(pk=one["id"])
        if reservation.version != one["version"] or reservation.replacements.exists():
            raise refuse(Code.OWNER_ACTED)
        reservation.displaced_times -= 1
        if reservation.status == Status.DISPLACED:
            reservation.displaced_by = None
            hours.take_back(reservation, now)
            former.restore_displaced(reservation, now)
        else:
            held = held_by(reservation)
            post_both(held, None, Reason.UNDONE, now, sign=-1)
            fees.take_again(one.get("fees", ()), now)
            former.restore_moved(held, one["old"], now)
        entry = audit.note("brought_back", reservation, actor=None, origin="system", now=now)
        outbox.write_brought_back(reservation, entry, one["version"], now)


def undo_needs(record: Iterable[Mapping[str, Any]]) -> Reach:
    """The reservations that bringing these back touches, with their people, projects and cards: to lock them."""
    ids = frozenset(one["id"] for one in record)
    members, projects = queries.people_behind(ids) if ids else (frozenset(), frozenset())
    cards = {card for one in record for card in one["old"]["cards"]}
    cards |= set(Allocation.objects.filter(reservation__in=ids).values_list("gpu", flat=True))
    return Reach(ids, members, projects, frozenset(cards))


# --- what follows from having displaced somebody -----------------------------------------------------------------------


def cool_down(reservation: Reservation, lab: LabFacts, now: datetime) -> str | None:
    """Whoever cancels or moves away what displaced somebody may displace nobody for seven days (D6).

    Returns the former end of such a time, for the undo of a move, or "" when there was none; None when nothing follows.
    """
    if not Reservation.objects.filter(displaced_by=reservation, status=Status.DISPLACED).exists():
        return None
    holder = reservation.holder
    was = holder.no_displacing_until
    holder.no_displacing_until = now + timedelta(seconds=lab.policy.cool_down_s)
    holder.save(update_fields=["no_displacing_until"])
    return was.isoformat() if was else ""


def warm_up(holder: Member, was: str) -> None:
    """Takes `cool_down` back."""
    holder.no_displacing_until = datetime.fromisoformat(was) if was else None
    holder.save(update_fields=["no_displacing_until"])
