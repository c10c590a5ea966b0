"""Who may do what: one function, asked by services, views, links and fragments alike (H8, B2, B3)."""

from __future__ import annotations

from enum import StrEnum

from .models import Case, DeadlineGrant, Demerit, Member, Project, Reservation, WaitlistEntry


class Action(StrEnum):
    """What somebody may want to do with a row, or with the lab (`None`)."""

    SEE_SCHEDULE = "see_schedule"
    BOOK = "book"
    RELEASE = "release"
    EXTEND = "extend"
    CONFIRM = "confirm"
    CANCEL = "cancel"
    MOVE = "move"
    UNDO = "undo"
    AGAIN = "again"
    REPLACE = "replace"
    TAKE_EQUAL = "take_equal"
    TAKE = "take"
    DECLINE = "decline"
    LEAVE = "leave"
    SEE_NOTE = "see_note"
    SEE_DEMERIT = "see_demerit"
    DISPUTE = "dispute"
    SEE_CASE = "see_case"
    STATE_SIDE = "state_side"  # what who is concerned says in a case that nobody opened
    RULE = "rule"
    SEE_CASES = "see_cases"
    COLLABORATE = "collaborate"  # to name or take away collaborators
    LEAD = "lead"  # to say who belongs to a project
    REQUEST = "request"  # a deadline grant for a project
    REVOKE = "revoke"
    ADMINISTER = "administer"


_LAB = {
    Action.SEE_SCHEDULE: lambda member: member.is_approved,
    Action.BOOK: lambda member: member.is_approved,
    Action.SEE_CASES: lambda member: member.is_approved and member.is_arbiter,
    Action.ADMINISTER: lambda member: member.is_approved and member.is_admin,
}


Subject = Reservation | Demerit | Case | Project | DeadlineGrant | WaitlistEntry


def may(member: Member, action: Action, subject: Subject | None = None) -> bool:
    """Whether the member may do this. An inactive or unapproved member may do nothing."""
    if not member.is_approved:
        return False
    if subject is None:
        return bool(_LAB[action](member))
    if isinstance(subject, Reservation):
        return _with_reservation(member, action, subject)
    if isinstance(subject, WaitlistEntry):
        return action == Action.LEAVE and subject.member_id == member.pk
    if isinstance(subject, Demerit):
        return _with_demerit(member, action, subject)
    if isinstance(subject, Project):
        return _with_project(member, action, subject)
    if isinstance(subject, DeadlineGrant):
        return _with_grant(member, action, subject)
    return _with_case(member, action, subject)


def _with_reservation(member: Member, action: Action, reservation: Reservation) -> bool:
    holder = reservation.holder_id == member.pk
    match action:
        case Action.SEE_SCHEDULE:
            return True
        case Action.AGAIN | Action.REPLACE | Action.COLLABORATE | Action.TAKE | Action.DECLINE:
            return holder
        case Action.SEE_NOTE:
            return holder or member.is_arbiter
        case Action.RELEASE | Action.EXTEND | Action.CONFIRM:
            return holder or member.is_arbiter or _advises(member, reservation) or member.pk in reservation.collaborator_ids
        case Action.CANCEL | Action.MOVE | Action.UNDO | Action.TAKE_EQUAL:
            return holder or member.is_arbiter or _advises(member, reservation)
        case _:
            return False


def _advises(member: Member, reservation: Reservation) -> bool:
    """Whether the member leads the project of the reservation (H8)."""
    return reservation.project is not None and reservation.project.advisor_id == member.pk


def _with_project(member: Member, action: Action, project: Project) -> bool:
    leads = project.advisor_id == member.pk
    match action:
        case Action.LEAD:
            return leads or member.is_admin
        case Action.REQUEST:
            return leads or project.members.filter(member=member).exists()
        case _:
            return False


def _with_grant(member: Member, action: Action, grant: DeadlineGrant) -> bool:
    """Who may end a grant: those who could have decided it, and who asked for it (C2). Who decides: `services.grants`."""
    if action != Action.REVOKE:
        return False
    return member.is_arbiter or member.pk in (grant.requested_by_id, grant.project.advisor_id)


def _with_demerit(member: Member, action: Action, demerit: Demerit) -> bool:
    own = demerit.member_id == member.pk
    match action:
        case Action.SEE_DEMERIT:
            return own or member.is_arbiter
        case Action.DISPUTE:
            return own
        case _:
            return False


def is_party(member: Member, case: Case) -> bool:
    """Whether the case is about something of the member's: a party decides nothing of it (B3)."""
    if member.pk in (case.opened_by_id, case.concerns_id):
        return True
    return case.demerit is not None and case.demerit.member_id == member.pk


def _with_case(member: Member, action: Action, case: Case) -> bool:
    match action:
        case Action.SEE_CASE:
            return member.is_arbiter or is_party(member, case)
        case Action.RULE:
            return member.is_arbiter and not is_party(member, case)
        case Action.STATE_SIDE:
            return case.concerns_id == member.pk
        case _:
            return False
