"""What has become of a message before it was sent: the facts are read again, and what is out of date is dropped (K2)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Q

from . import queries
from .looks import all_cards_of, cards_of, looks, people_of
from .models import (
    Allocation,
    AuditEntry,
    CardState,
    Case,
    CleanupNotice,
    Collaborator,
    Demerit,
    Maintenance,
    Notification,
    Reservation,
    Ruling,
)
from .rules.lifecycle import Status

Kind = Notification.Kind
_HOLDS = (Status.BOOKED, Status.ACTIVE)


def cause(row: Notification, now: datetime) -> str:
    """Why this message has nothing to say any more, or "" (K2). Reads the facts as they are now."""
    if not row.member.is_active:
        return "the member is not active"
    match Kind(row.kind):
        case Kind.CONFIRM:
            return _question_obsolete(row, now)
        case Kind.ENDING:
            return _ending_obsolete(row, now)
        case Kind.EXTENDED:
            return _extended_obsolete(row, now)
        case Kind.DONE:
            return _done_obsolete(row, now)
        case Kind.GIVEN_BACK:
            return "" if given_back_of(row) else "the cards were taken again"
        case Kind.NO_SHOW:
            forfeited = row.reservation is not None and row.reservation.status == Status.FORFEITED
            return "" if forfeited else "the reservation is not forfeited"
        case Kind.CHANGED:
            return "" if changed_by(row) is not None else "the change is not on record"
        case Kind.OVERRUN:
            return _overrun_obsolete(row, now)
        case Kind.DISPLACED | Kind.PLACED | Kind.BROUGHT_BACK | Kind.SWAPPED:
            if row.reservation is None:
                return "the reservation is gone"
            return "" if row.reservation.version == row.reservation_version else "the reservation was changed"
        case Kind.INTERRUPTED:
            return "" if row.reservation is not None else "the reservation is gone"
        case Kind.MAINTENANCE:
            return _maintenance_obsolete(row, now)
        case Kind.SERVED:
            return _served_obsolete(row, now)
        case Kind.OFFER:
            return _offer_obsolete(row, now)
        case Kind.OFFER_OVER:
            return "" if row.reservation is not None else "the reservation is gone"
        case Kind.WAIT_OVER:
            return "" if row.waitlist_entry is not None else "the wish is gone"
        case Kind.DEMERIT:
            if row.demerit is None:
                return "the demerit is gone"
            if row.demerit.state != Demerit.State.COUNTED:
                return f"the demerit is {row.demerit.state}"
            return ""
        case Kind.RULING:
            ruling = ruling_of(row)
            return "" if ruling is not None and row.key == f"ruling:{ruling.pk}" else "there is a newer ruling"
        case Kind.CLEANUP:
            return _cleanup_obsolete(row, now)
        case Kind.CASE:
            case = case_of(row)
            return "" if case is not None and case.state == Case.State.OPEN else "the case is decided"
        case Kind.INVITED:
            return _invited_obsolete(row)
        case Kind.GRANT:
            if row.grant is None:
                return "the grant is gone"
            return "" if row.key.split(":")[2] == row.grant.state else f"the grant is {row.grant.state}"


def _invited_obsolete(row: Notification) -> str:
    if row.reservation is None or row.reservation.status not in _HOLDS:
        return "the reservation is over"
    invited = Collaborator.objects.filter(
        reservation=row.reservation_id, member=row.member_id, state=Collaborator.State.INVITED
    )
    return "" if invited.exists() else "the invitation is answered"


def _question_obsolete(row: Notification, now: datetime) -> str:
    reservation = row.reservation
    if reservation is None or reservation.status not in _HOLDS or now >= reservation.end:
        return "the reservation is over"
    if row.key != queries.question_key(reservation):
        return "the start was moved"
    if reservation.confirmed_at is not None or reservation.allocations.exclude(first_seen=None).exists():
        return "somebody has come or said so"
    if not queries.lab_facts().policy.confirmation:
        return "the lab no longer asks"
    return ""


def _extended_obsolete(row: Notification, now: datetime) -> str:
    reservation = row.reservation
    if reservation is None or reservation.status not in _HOLDS or now >= reservation.end:
        return "the reservation is over"
    return "the reservation was changed" if reservation.version != row.reservation_version else ""


def _done_obsolete(row: Notification, now: datetime) -> str:
    reservation, ended = row.reservation, ended_of(row)
    if reservation is None or reservation.status != Status.ACTIVE or now >= reservation.end or ended is None:
        return "the reservation is over"
    if not reservation.release_when_done or (reservation.kept_at is not None and reservation.kept_at >= ended):
        return "the holder keeps the cards"
    later = reservation.allocations.filter(given_back_at=None, last_seen__gte=ended + timedelta(seconds=1))
    return "a process is seen again" if later.exists() else ""


def ended_of(row: Notification) -> datetime | None:
    """When the last process ended that a notice of release tells of, to the second."""
    end = row.key.rsplit(":", 1)[-1]
    return datetime.fromtimestamp(int(end), UTC) if end.isdecimal() and len(end) < 12 else None


def given_back_of(row: Notification) -> list[Allocation]:
    """The cards that were given back, of which a message tells, as far as they were not taken again."""
    number = row.key.removeprefix("given_back:")
    if row.reservation is None or not number.isdecimal():
        return []
    entry = AuditEntry.objects.filter(pk=int(number)).first()
    cards = set(entry.change.get("cards", ())) if entry is not None else set()
    return [one for one in all_cards_of(row.reservation.pk) if one.given_back_at is not None and one.gpu_id in cards]


def changed_by(row: Notification) -> AuditEntry | None:
    """The change that a message tells of, with who made it."""
    number = row.key.removeprefix("changed:")
    if row.reservation is None or not number.isdecimal():
        return None
    return AuditEntry.objects.select_related("actor").filter(pk=int(number)).first()


def _ending_obsolete(row: Notification, now: datetime) -> str:
    reservation = row.reservation
    if reservation is None:
        return "the reservation is gone"
    if reservation.status not in _HOLDS:
        return f"the reservation is {reservation.status}"
    if reservation.version != row.reservation_version:
        return "the reservation was changed"
    if now >= reservation.end:
        return "the end has passed"
    if _continues(reservation):
        return "the holder continues on the same cards"
    return ""


def _continues(reservation: Reservation) -> bool:
    """Whether the same holder has all the same cards from the very end on (RN-02)."""
    mine = {row.gpu_id for row in cards_of(reservation.pk)}
    following = Allocation.objects.filter(
        gpu__in=mine, start=reservation.end, status__in=queries.HOLDING_CODES, reservation__holder=reservation.holder_id
    )
    return set(following.values_list("gpu", flat=True)) == mine


def maintenance_of(row: Notification) -> Maintenance | None:
    """The maintenance that a message tells of."""
    number = row.key.split(":")[1] if row.key.startswith("maintenance:") else ""
    return Maintenance.objects.filter(pk=int(number)).first() if number.isdecimal() else None


def _maintenance_obsolete(row: Notification, now: datetime) -> str:
    found = maintenance_of(row)
    if row.reservation is None or found is None or found.ended_at is not None:
        return "the maintenance was called off"
    if row.reservation.status not in _HOLDS or row.reservation.end <= found.start:
        return "the reservation ends before it"
    return ""


def cause_of(row: Notification) -> str:
    """Why a reservation was displaced, moved, interrupted or given another card, in the audit's word."""
    number = row.key.rpartition(":")[2]
    entry = AuditEntry.objects.filter(pk=int(number)).first() if number.isdecimal() else None
    return str(entry.change.get("cause", "")) if entry is not None else ""


def _overrun_obsolete(row: Notification, now: datetime) -> str:
    reservation = row.reservation
    if reservation is None:
        return "the reservation is gone"
    alone = ended_alone(row)
    if not alone and (reservation.status in _HOLDS or reservation.version != row.reservation_version):
        return "the reservation was changed"
    seen = [look.own for look in looks(alone or cards_of(reservation.pk), people_of(reservation), now)]
    if seen and all(own is False for own in seen):
        return "no process is seen any more"
    return ""


def ended_alone(row: Notification) -> list[Allocation]:
    """The cards given back alone whose end a message tells of; none when it is about the end of a whole reservation."""
    end = row.key.rsplit(":", 1)[-1]
    if row.reservation is None:
        return []
    given_back = [one for one in all_cards_of(row.reservation.pk) if one.given_back_at is not None]
    return [one for one in given_back if str(int(one.end.timestamp())) == end]


def _served_obsolete(row: Notification, now: datetime) -> str:
    reservation = row.reservation
    if reservation is None:
        return "the reservation is gone"
    if reservation.status not in _HOLDS:
        return f"the reservation is {reservation.status}"
    return "the end has passed" if now >= reservation.end else ""


def _offer_obsolete(row: Notification, now: datetime) -> str:
    reservation = row.reservation
    if reservation is None or reservation.status != Status.OFFERED or reservation.offer_until is None:
        return "the offer was answered"
    return "the offer has ended" if now >= reservation.offer_until else ""


def ruling_of(row: Notification) -> Ruling | None:
    """The latest ruling on the case that the message is about."""
    number = row.key.removeprefix("ruling:")
    if not number.isdecimal():
        return None
    party = Q(case__opened_by=row.member_id) | Q(case__concerns=row.member_id)
    rulings = Ruling.objects.filter(party, case__rulings=int(number))
    return rulings.select_related("case", "arbiter", "reservation").order_by("-at", "-pk").first()


def case_of(row: Notification) -> Case | None:
    """The case that a message tells of, if it is about its reader."""
    number = row.key.removeprefix("case:")
    return Case.objects.filter(pk=int(number), concerns=row.member_id).first() if number.isdecimal() else None


# What the sensor says of a card when it does not know who is there: nobody is gone because of that.
_SAYS_NOTHING = (CardState.State.UNKNOWN, CardState.State.OFFLINE, CardState.State.NOT_VISIBLE)


def cleanup_left(row: Notification, now: datetime) -> tuple[CleanupNotice | None, list[dict[str, Any]]]:
    """The part in a clean-up that a message tells of, with what is left of its list: cards that their reader has not surely left
    and does not hold by now."""
    number = row.key.removeprefix("cleanup:")
    notices = CleanupNotice.objects.select_related("cleanup")
    notice = notices.filter(pk=int(number), member=row.member_id).first() if number.isdecimal() else None
    if notice is None:
        return None, []
    cards = {one["gpu"]: one for one in notice.found}
    gone = {
        state.gpu_id for state in CardState.objects.filter(gpu__in=cards).exclude(state__in=_SAYS_NOTHING)
        if row.member_id not in state.owner_ids
    }
    held = {one.card_id for one in queries.holdings_of(row.member_id, now) if one.interval.start <= now}
    return notice, [one for gpu, one in cards.items() if gpu not in gone | held]


def _cleanup_obsolete(row: Notification, now: datetime) -> str:
    notice, left = cleanup_left(row, now)
    if notice is None or notice.outcome != CleanupNotice.Outcome.OPEN or now >= notice.cleanup.until:
        return "the clean-up is over"
    return "" if left else "nothing of theirs is left"
