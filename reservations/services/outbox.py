"""Messages as rows: written with the fact that causes them, sent after (K2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from ..models import AuditEntry, DeadlineGrant, Demerit, Member, Notification, Reservation, WaitlistEntry
from ..prepared import insert
from ..queries import LabFacts, question_key
from ..rules.policy import Policy
from ..rules.presence import is_asked, question_due


def write(
    kind: Notification.Kind, member: Member, *, key: str, due_at: datetime,
    reservation: Reservation | None = None, demerit: Demerit | None = None, grant: DeadlineGrant | None = None,
    entry: WaitlistEntry | None = None,
) -> None:
    """Queues one message in the caller's transaction; the same `key` a second time writes nothing."""
    _queue([_row(kind, member, key, due_at, reservation, demerit=demerit, grant=grant, waitlist_entry=entry)])


def _row(
    kind: Notification.Kind, member: Member, key: str, due_at: datetime, reservation: Reservation | None, **about: Any
) -> Notification:
    return Notification(
        key=key, kind=kind, member=member, reservation=reservation,
        reservation_version=reservation.version if reservation else None, due_at=due_at, **about,
    )


def _queue(rows: Sequence[Notification]) -> None:
    insert(rows, ignore_conflicts=True)


def write_changed(reservation: Reservation, entry: AuditEntry, now: datetime) -> None:
    """Tells the holder at once of a change that they did not make themselves: by an arbiter, or by somebody else's press
    on their link. What they did themselves needs no message."""
    presser = entry.change.get("pressed_by", entry.actor_id)
    if entry.actor_id == presser == reservation.holder_id:
        return
    write(Notification.Kind.CHANGED, reservation.holder, key=f"changed:{entry.pk}", due_at=now, reservation=reservation)


def write_brought_back(reservation: Reservation, entry: AuditEntry, told: int, now: datetime) -> None:
    """Tells the holder that what displaced them was undone; nothing, if they were not told of the displacement yet.

    `told`: the reservation's version that the message of the displacement was about.
    """
    about = [Notification.Kind.DISPLACED, Notification.Kind.PLACED]
    rows = Notification.objects.filter(reservation=reservation, reservation_version=told, kind__in=about)
    if rows.exclude(state=Notification.State.DUE).exists():
        write(
            Notification.Kind.BROUGHT_BACK, reservation.holder, key=f"brought_back:{entry.pk}", due_at=now,
            reservation=reservation,
        )


def write_reminders(reservation: Reservation, lab: LabFacts, now: datetime) -> None:
    """The messages that belong to the time as it is now booked: the question whether they come (H2), and before the end (K1).

    Written at each booking and each change of what is held; what no longer holds is dropped unsent.
    """
    _queue([*_question(reservation, lab, now), _ending(reservation, lab.policy, now)])


def _question(reservation: Reservation, lab: LabFacts, now: datetime) -> Iterator[Notification]:
    """One question for each start, however often the reservation changes; none for who books after the time to ask."""
    if reservation.confirmed_at is None and is_asked(reservation.start, now, lab.policy, lab.zone):
        due = question_due(reservation.start, lab.zone)
        yield _row(Notification.Kind.CONFIRM, reservation.holder, question_key(reservation), due, reservation)


def _ending(reservation: Reservation, policy: Policy, now: datetime) -> Notification:
    due = max(reservation.end - timedelta(seconds=policy.ending_notice_s), now)
    key = f"ending:{reservation.pk}:v{reservation.version}"
    return _row(Notification.Kind.ENDING, reservation.holder, key, due, reservation)

