"""Deadline grants: asked for by a project, decided by its advisor or an arbiter, ended early when need be (C2, B3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta

from .. import permissions, queries
from ..models import Allocation, DeadlineGrant, Member, Notification, Project, Reservation
from ..permissions import Action
from ..queries import LabFacts
from ..rules import grants as rules
from ..rules.kinds import is_frozen
from ..rules.lifecycle import Status
from ..rules.rank import lowered
from ..rules.refusal import Code, Refused, refuse
from ..rules.week import local_date
from . import audit, locking, outbox

State = DeadlineGrant.State


def request(
    project_id: int, *, deadline: date, reason: str, card_hours: int, first_day: date, last_day: date, by: Member,
    now: datetime, origin: str = "page",
) -> DeadlineGrant:
    """Asks for a grant of `card_hours` (elapsed hours x cards) over these lab days; who decides is told.

    The same request by the same member, while it waits, is the same press again. Raises `Refused`: not of the project, no
    reason, days that are over, too many or after the deadline.
    """
    with locking.hold(members=[by.pk], projects=[project_id]):
        lab = queries.lab_facts()
        project = Project.objects.filter(pk=project_id).first()
        if project is None or not permissions.may(by, Action.REQUEST, project):
            raise refuse(Code.NOT_IN_PROJECT, project=project.name if project else "")
        if project.closed_at is not None:
            raise refuse(Code.PROJECT_CLOSED, project=project.name)
        if not reason.strip():
            raise refuse(Code.TEXT_MISSING)
        days = rules.Days(first_day, last_day)
        if refusals := list(rules.day_refusals(days, deadline, local_date(now, lab.zone), lab.policy)):
            raise Refused(refusals)
        if card_hours < 1:
            raise ValueError("a grant has a budget of 1 hour x card or more")
        asked = {
            "project": project, "deadline": deadline, "reason": reason.strip(), "budget": card_hours * 3600,
            "first_day": first_day, "last_day": last_day, "requested_by": by,
        }
        if waiting := DeadlineGrant.objects.filter(**asked, state=State.REQUESTED).first():
            return waiting
        grant = DeadlineGrant.objects.create(**asked, requested_at=now)
        audit.note(
            "request_grant", grant, actor=by, origin=origin, now=now, reason=reason.strip(), project=project.pk,
            deadline=deadline.isoformat(), first_day=first_day.isoformat(), last_day=last_day.isoformat(),
            card_hours=card_hours,
        )
        for one in deciders(grant, lab, now):
            _tell(grant, one, now)
        return grant


def deciders(grant: DeadlineGrant, lab: LabFacts, now: datetime) -> list[Member]:
    """Who may decide a request: see `deciders_of`."""
    return deciders_of([grant], lab, now)[grant.pk]


def deciders_of(requests: Sequence[DeadlineGrant], lab: LabFacts, now: datetime) -> dict[int, list[Member]]:
    """Who may decide each of these requests, by its id: the project's advisor; an arbiter where the project had another grant
    within the policy's days (C2), or where the advisor asked or has left.

    Nobody who asked for it. With no such arbiter for 24 hours an admin who is not involved (B3). Needs `project.advisor`. As
    many reads for many as for one.
    """
    former = _former(requests, lab)
    judges = None
    found: dict[int, list[Member]] = {}
    for one in requests:
        advisor = one.project.advisor
        second = rules.is_second(
            rules.Days(one.first_day, one.last_day), [days for pk, days in former[one.project_id] if pk != one.pk], lab.policy
        )
        if not second and advisor.is_approved and advisor.pk != one.requested_by_id:
            found[one.pk] = [advisor]
            continue
        judges = judges if judges is not None else [row for row in queries.members_in() if row.is_arbiter or row.is_admin]
        able = [row for row in judges if row.pk != one.requested_by_id]
        waited = now >= one.requested_at + timedelta(seconds=lab.policy.no_arbiter_s)
        admins = [row for row in able if row.is_admin and row.pk != advisor.pk] if waited else []
        found[one.pk] = [row for row in able if row.is_arbiter] or admins
    return found


def _former(requests: Sequence[DeadlineGrant], lab: LabFacts) -> defaultdict[int, list[tuple[int, rules.Days]]]:
    """The grants that the projects of these requests were given, by project; one that was ended early to that day."""
    found: defaultdict[int, list[tuple[int, rules.Days]]] = defaultdict(list)
    rows = DeadlineGrant.objects.filter(project__in={one.project_id for one in requests}).exclude(decided_by=None)
    for row in rows.filter(state__in=[State.GRANTED, State.REVOKED]):
        last = min(row.last_day, local_date(row.ended_at, lab.zone)) if row.ended_at else row.last_day
        found[row.project_id].append((row.pk, rules.Days(row.first_day, last)))
    return found


def decide(
    grant_id: int, is_granted: bool, reason: str, *, by: Member, now: datetime, origin: str = "page"
) -> DeadlineGrant:
    """Grants or declines a request, with a reason that the requester is sent (C2, L2). Repeating the decision changes nothing.

    Raises `Refused`: a party, somebody who is not the one to decide, no reason, decided otherwise or over meanwhile.
    """
    with _locked(grant_id, by) as grant:
        lab = queries.lab_facts()
        wanted = State.GRANTED if is_granted else State.DECLINED
        if grant.state == wanted and grant.decided_by_id == by.pk:
            return grant
        if by.pk == grant.requested_by_id:
            raise refuse(Code.GRANT_PARTY)
        who = deciders(grant, lab, now)
        if by.pk not in [one.pk for one in who]:
            advisor = grant.project.advisor
            raise refuse(Code.GRANT_ADVISOR, advisor=str(advisor)) if advisor in who else refuse(Code.GRANT_ARBITER)
        if grant.state != State.REQUESTED or is_over(grant, lab, now):
            raise refuse(Code.GRANT_DECIDED)
        if not reason.strip():
            raise refuse(Code.TEXT_MISSING)
        grant.state, grant.decided_by, grant.decided_at, grant.decision = wanted, by, now, reason.strip()
        grant.by_admin = not by.is_arbiter and by.pk != grant.project.advisor_id
        grant.save()
        audit.note(
            "decide_grant", grant, actor=by, origin=origin, now=now, reason=reason.strip(), state=str(wanted),
            by_admin=grant.by_admin,
        )
        _tell(grant, grant.requested_by, now)
        return grant


def is_over(grant: DeadlineGrant, lab: LabFacts, now: datetime) -> bool:
    """Whether a request can no longer be decided: its last day is past."""
    return queries.grant_interval(grant, lab.zone).end <= now


def lapse_due(now: datetime) -> int:
    """Lets requests lapse whose last day is past, or that nobody could decide for 48 hours (B3); says how many."""
    lab = queries.lab_facts()
    lapsed = 0
    for grant_id in DeadlineGrant.objects.filter(state=State.REQUESTED).values_list("pk", flat=True):
        with _locked(grant_id, None) as grant:
            waited = now >= grant.requested_at + 2 * timedelta(seconds=lab.policy.no_arbiter_s)
            if grant.state != State.REQUESTED or not (is_over(grant, lab, now) or (waited and not deciders(grant, lab, now))):
                continue
            grant.state, grant.decided_at = State.LAPSED, now
            grant.save(update_fields=["state", "decided_at"])
            audit.note("lapse_grant", grant, actor=None, origin="sweep", now=now)
            _tell(grant, grant.requested_by, now)
            lapsed += 1
    return lapsed


def revoke(grant_id: int, reason: str, *, by: Member, now: datetime, origin: str = "page") -> DeadlineGrant:
    """Ends a grant, or takes a request back. What is booked under it and not frozen becomes regular; its holders are told (C2).

    Repeating it changes nothing. Raises `Refused`.
    """
    with _locked(grant_id, by, revoking=True) as grant:
        if grant.state == State.REVOKED:
            return grant
        lab = queries.lab_facts()
        if grant.state not in (State.REQUESTED, State.GRANTED) or is_over(grant, lab, now):
            raise refuse(Code.GRANT_DECIDED)
        if not reason.strip():
            raise refuse(Code.TEXT_MISSING)
        grant.state, grant.ended_at = State.REVOKED, now
        grant.decision = reason.strip()
        grant.save(update_fields=["state", "ended_at", "decision"])
        changed = [_make_plain(row, lab, by, now, origin) for row in _unfrozen(grant, lab, now)]
        audit.note(
            "revoke_grant", grant, actor=by, origin=origin, now=now, reason=reason.strip(),
            reservations=[row.pk for row in changed],
        )
        if grant.requested_by_id != by.pk:
            _tell(grant, grant.requested_by, now)
        return grant


def _unfrozen(grant: DeadlineGrant, lab: LabFacts, now: datetime) -> list[Reservation]:
    rows = Reservation.objects.filter(grant=grant, status__in=[Status.BOOKED, Status.OFFERED]).select_related("holder", "project")
    return [row for row in rows.order_by("pk") if not is_frozen(row.start, now, lab.zone, lab.policy.freezing)]


def _make_plain(row: Reservation, lab: LabFacts, by: Member, now: datetime, origin: str) -> Reservation:
    """The reservation in the strongest tier without a grant, its rank anew (C3)."""
    old = row.tier
    steps = max(row.rank_tier - lab.policy.rank_tier(old), 0) if old in lab.policy.tiers else 0  # its standing when booked
    row.tier, row.grant = lab.policy.plain_tier, None
    row.rank_tier = lowered(row.tier, steps, lab.policy)
    row.version += 1
    row.save(update_fields=["tier", "grant", "rank_tier", "version"])
    entry = audit.note("retier", row, actor=by, origin=origin, now=now, old=old, new=row.tier)
    outbox.write_changed(row, entry, now)
    outbox.write_reminders(row, lab, now)
    return row


@contextmanager
def _locked(grant_id: int, by: Member | None, *, revoking: bool = False) -> Iterator[DeadlineGrant]:
    """The grant under the lock of its project; for revoking also of the cards booked under it, on which ranks are compared."""
    project_id = DeadlineGrant.objects.filter(pk=grant_id).values_list("project", flat=True).first()
    if project_id is None:
        raise refuse(Code.NOT_YOURS)
    while True:
        cards = _cards(grant_id) if revoking else []
        members = [] if by is None else [by.pk]
        with locking.hold(members=members, projects=[project_id], cards=queries.pool_mates(cards) if cards else []):
            if revoking and _cards(grant_id) != cards:
                continue
            grant = DeadlineGrant.objects.select_related("project__advisor", "requested_by").get(pk=grant_id)
            if revoking and by is not None and not permissions.may(by, Action.REVOKE, grant):
                raise refuse(Code.NOT_YOURS)
            yield grant
            return


def _cards(grant_id: int) -> list[int]:
    rows = Allocation.objects.filter(reservation__grant=grant_id, status__in=queries.HOLDING_CODES)
    return sorted(set(rows.values_list("gpu", flat=True)))


def _tell(grant: DeadlineGrant, member: Member, now: datetime) -> None:
    outbox.write(
        Notification.Kind.GRANT, member, key=f"grant:{grant.pk}:{grant.state}:{member.pk}", due_at=now, grant=grant
    )
