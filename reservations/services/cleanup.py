"""The weekly clean-up as it is written down: who was told, which cases there are (F3).

Monitoring says what was seen, having judged it; here everything is written once, however often and by however many it is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from .. import permissions
from ..models import Case, Cleanup, CleanupNotice, Member, Notification
from ..rules.refusal import Code, refuse
from . import audit, locking, outbox

Outcome = CleanupNotice.Outcome
Card = Mapping[str, Any]  # of a list: the card's number and name and its processes, as JSON


def begin(
    week: date, *, until: datetime, grace_s: int, cards: Mapping[int, str], now: datetime
) -> Cleanup:
    """The clean-up of this week; the first call makes it, with these cards (number and name) still to be listed."""
    with locking.hold():
        found, created = Cleanup.objects.get_or_create(
            week=week,
            defaults={
                "at": now, "until": until, "grace_s": grace_s,
                "unlisted": {str(gpu): {"card": name, "why": ""} for gpu, name in cards.items()},
            },
        )
        if created:
            audit.note("begin_cleanup", found, actor=None, origin="sweep", now=now, cards=len(cards))
    return found


def take_list(
    cleanup_id: int, read: Mapping[int, str], owners: Mapping[int, Sequence[Card]], doubtful: Sequence[Card], *, now: datetime
) -> None:
    """Lists what was seen on cards that were not listed yet, and tells each owner, once a week.

    `read`: of each card that was looked at why nothing can be said of it, or "". What somebody else has listed meanwhile is left
    as it is. Members who are told already are told nothing again: they know what to do.
    """
    with locking.hold():
        cleanup = Cleanup.objects.select_for_update().get(pk=cleanup_id)
        fresh = {gpu for gpu, why in read.items() if not why and str(gpu) in cleanup.unlisted}
        for member_id, cards in sorted(owners.items()):
            if mine := [dict(card) for card in cards if card["gpu"] in fresh]:
                _tell(cleanup, member_id, mine, now)
        cleanup.doubtful += [dict(card) for card in doubtful if card["gpu"] in fresh]
        cleanup.unlisted = {
            gpu: {**kept, "why": read.get(int(gpu), kept["why"])}
            for gpu, kept in cleanup.unlisted.items() if int(gpu) not in fresh
        }
        cleanup.save(update_fields=["doubtful", "unlisted"])


def _tell(cleanup: Cleanup, member_id: int, cards: list[dict[str, Any]], now: datetime) -> None:
    notice, created = CleanupNotice.objects.get_or_create(
        cleanup=cleanup, member_id=member_id, defaults={"listed_at": now, "found": cards}
    )
    if not created:
        return
    outbox.write(Notification.Kind.CLEANUP, notice.member, key=notice.message_key, due_at=now)
    names = [one["card"] for one in cards]
    audit.note("list_cleanup", notice, actor=None, origin="sweep", now=now, member=member_id, cards=names)


def settle(notice_id: int, outcome: CleanupNotice.Outcome) -> None:
    """Notes what came of it where no case did, unless it is noted already."""
    CleanupNotice.objects.filter(pk=notice_id, outcome=Outcome.OPEN).update(outcome=outcome)


def open_case(notice: CleanupNotice, evidence: Mapping[str, Any], *, now: datetime) -> Case | None:
    """Opens the case of who was told and is still there, and tells them; the second call writes nothing. Under the member's lock.

    One fact for a person and a week, for ever. No point comes of it: arbiters decide (J1).
    """
    case, created = Case.objects.get_or_create(
        fact=f"cleanup:{notice.cleanup.week}:{notice.member_id}",
        defaults={
            "kind": Case.Kind.CLEANUP, "concerns_id": notice.member_id, "opened_at": now, "evidence": dict(evidence),
        },
    )
    CleanupNotice.objects.filter(pk=notice.pk, outcome=Outcome.OPEN).update(outcome=Outcome.CASE, case=case)
    if not created:
        return None
    outbox.write(Notification.Kind.CASE, notice.member, key=f"case:{case.pk}", due_at=now)
    audit.note("open_cleanup_case", case, actor=None, origin="sweep", now=now, member=notice.member_id)
    return case


def settle_doubt(cleanup_id: int, evidence: Mapping[str, Any] | None, *, now: datetime) -> Case | None:
    """Notes that what nobody can be said to own was looked at again; with `evidence` opens the one case for arbiters that tells
    of it and names nobody."""
    with locking.hold():
        cleanup = Cleanup.objects.select_for_update().get(pk=cleanup_id)
        if cleanup.doubt_settled_at is not None:
            return None
        Cleanup.objects.filter(pk=cleanup.pk).update(doubt_settled_at=now)
        if evidence is None:
            return None
        case = Case.objects.create(
            kind=Case.Kind.CLEANUP, fact=f"cleanup:{cleanup.week}:doubt", opened_at=now, evidence=dict(evidence)
        )
        audit.note("open_cleanup_case", case, actor=None, origin="sweep", now=now)
        return case


def close(cleanup_id: int, *, now: datetime) -> None:
    """Ends a week's clean-up: nobody waits for anything of it any more."""
    Cleanup.objects.filter(pk=cleanup_id, settled_at=None).update(settled_at=now)


def state_side(case_id: int, statement: str, *, by: Member, now: datetime, origin: str = "page") -> Case:
    """What the person says whom a clean-up's case is about: once, while it is open. The arbiters' page is then out of date,
    so that nobody decides without having read it. Raises `Refused`."""
    text = statement.strip()
    if not text:
        raise refuse(Code.TEXT_MISSING)
    with locking.hold(members=[by.pk]):
        case = Case.objects.select_for_update(of=("self",)).filter(pk=case_id).first()
        if case is None or not permissions.may(by, permissions.Action.STATE_SIDE, case):
            raise refuse(Code.NOT_YOURS)
        if case.state != Case.State.OPEN:
            raise refuse(Code.CASE_DECIDED)
        if case.statement:
            raise refuse(Code.SIDE_STATED)
        case.statement = text
        case.version += 1
        case.save(update_fields=["statement", "version"])
        audit.note("state_side", case, actor=by, origin=origin, now=now)
        return case
