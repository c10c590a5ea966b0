"""Members, who stands behind a reservation, and who may come in."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.db.models import Count, Prefetch, Q, QuerySet

from ..models import Collaborator, HostAccount, Invite, KeptMail, Member, Reservation
from ..prepared import prepared
from ..rules.presence import Quiet
from ..rules.week import day_start
from .lab import HOLDING_CODES, LabFacts


def member_now(pk: int) -> Member:
    """The member's row as it is now."""
    (row,) = _member(pk)
    return row


def member_or_none(pk: int) -> Member | None:
    """The member with this number, if there is one."""
    return next(iter(_member(pk)), None)


@prepared
def _member(pk: int) -> QuerySet[Member]:
    return Member.objects.filter(pk=pk)


def people_behind(reservation_ids: Iterable[int]) -> tuple[frozenset[int], frozenset[int]]:
    """The holders and collaborators of these reservations, and their projects."""
    ids = list(reservation_ids)
    rows = _holders_and_projects(ids)
    members = {holder for holder, _ in rows} | {member for _, member in _collaborators(ids)}
    return frozenset(members), frozenset(project for _, project in rows if project is not None)


@prepared
def _holders_and_projects(ids: list[int]) -> QuerySet[Reservation, tuple[int, int | None]]:
    return Reservation.objects.filter(pk__in=ids).values_list("holder", "project")


@prepared
def _collaborators(reservation_ids: list[int]) -> QuerySet[Collaborator, tuple[int, int]]:
    rows = Collaborator.objects.filter(reservation__in=reservation_ids, state=Collaborator.State.ACCEPTED)
    return rows.values_list("reservation", "member")


def members_in() -> list[Member]:
    """Approved, active members by name: whom one can choose from."""
    return list(Member.objects.filter(is_active=True, approval=Member.Approval.APPROVED))


def collaborators_of(reservation_id: int) -> list[Collaborator]:
    """Who was invited to a reservation or accepted, in that order."""
    live = [Collaborator.State.INVITED, Collaborator.State.ACCEPTED]
    rows = Collaborator.objects.filter(reservation=reservation_id, state__in=live)
    return list(rows.select_related("member").order_by("pk"))


def last_instant(member: Member, lab: LabFacts) -> datetime | None:
    """The midnight that ends the member's last day; None where there is none (B2)."""
    return None if member.ends_on is None else day_start(member.ends_on + timedelta(days=1), lab.zone)


def member_names(ids: Iterable[int]) -> dict[int, str]:
    """The names of these members, by id."""
    return dict(Member.objects.filter(pk__in=list(ids)).values_list("pk", "name"))


def collaborator_ids(reservation_ids: Collection[int]) -> dict[int, frozenset[int]]:
    """Of each of these reservations the collaborators who accepted (B4)."""
    found: dict[int, frozenset[int]] = dict.fromkeys(reservation_ids, frozenset())
    for reservation_id, member_id in _collaborators(list(found)):
        found[reservation_id] |= {member_id}
    return found


def owners_of(reservation_ids: Iterable[int]) -> dict[int, frozenset[int]]:
    """Whose processes count as the holder's, by reservation (B4)."""
    rows = dict(Reservation.objects.filter(pk__in=list(reservation_ids)).values_list("pk", "holder_id"))
    beside = collaborator_ids(rows)
    return {pk: frozenset({holder}) | beside[pk] for pk, holder in rows.items()}


def quiet_hours(member: Member, zone: ZoneInfo) -> Quiet:
    """The member's quiet hours, on their own clock or this one, the lab's (K3)."""
    return Quiet(member.quiet_from, member.quiet_to, zone_of(member, zone))


def pending_members() -> list[Member]:
    """People who wait for an admin's approval."""
    return list(Member.objects.filter(approval=Member.Approval.PENDING, is_active=True).order_by("joined_at"))


@dataclass(frozen=True)
class ListedMember:
    """A member as admins see them: with their Unix accounts, and how many reservations lie before them."""

    member: Member
    accounts: list[HostAccount]
    ahead: int


def members_listed() -> list[ListedMember]:
    """All members, those who wait for approval first, those deactivated last."""
    rows = Member.objects.prefetch_related(
        Prefetch("host_accounts", HostAccount.objects.select_related("host").order_by("host__name", "unix_name"))
    ).annotate(ahead=Count("reservations", filter=Q(reservations__status__in=HOLDING_CODES)))
    listed = [ListedMember(row, list(row.host_accounts.all()), row.ahead) for row in rows]
    pending = Member.Approval.PENDING
    return sorted(listed, key=lambda one: (not one.member.is_active, one.member.approval != pending))


def member_listed(pk: int) -> ListedMember | None:
    """One member as admins see them."""
    member = Member.objects.filter(pk=pk).first()
    if member is None:
        return None
    accounts = list(member.host_accounts.select_related("host").order_by("host__name", "unix_name"))
    return ListedMember(member, accounts, member.reservations.filter(status__in=HOLDING_CODES).count())


def open_invites(now: datetime) -> list[Invite]:
    """Invites that still let people in, newest first."""
    rows = Invite.objects.filter(uses_left__gt=0, expires_at__gt=now)
    return list(rows.select_related("created_by").order_by("-created_at", "-pk"))


def kept_mails() -> list[KeptMail]:
    """The newest mails that wait to be passed on, to members only: what strangers asked for concerns nobody."""
    return list(KeptMail.objects.filter(to__in=Member.objects.values("email"))[:50])


def zone_of(member: Member, zone: ZoneInfo) -> ZoneInfo:
    """The member's own zone, else this one, the lab's."""
    try:
        return ZoneInfo(member.zone) if member.zone else zone
    except (ValueError, OSError, KeyError):  # a zone that this machine does not know
        return zone
