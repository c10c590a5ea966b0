"""Reads of the ledger: the only place where rows become the values that rules decide on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from django.db.models import Count, F, Max, Min, OuterRef, Prefetch, Q, QuerySet, Subquery, Sum, Window
from django.db.models.functions import RowNumber

from . import names
from .holidays import public_days
from .models import (
    Allocation,
    AuditEntry,
    CardState,
    Case,
    Collaborator,
    DeadlineGrant,
    Demerit,
    FreedSlot,
    Gpu,
    Host,
    HostAccount,
    HourGrant,
    Invite,
    KeptMail,
    Lab,
    LedgerEntry,
    Maintenance,
    MaintenanceCard,
    Member,
    Notification,
    Pool,
    Project,
    ProjectMember,
    Reservation,
    SpecialDay,
    WaitlistEntry,
)
from .rules.facts import Ask, Card, Claim, Closed, Holding, Kept, PoolFacts, ProjectFacts, TierGrant
from .rules.hours import Account, Hours, spare, weeks_met
from .rules.interval import Interval, whole_seconds
from .rules.kinds import Kind
from .rules.lifecycle import HOLDING, Status
from .rules.overruns import LOOK_BACK_WEEKS, carried
from .rules.policy import Policy
from .rules.presence import Asked, Quiet
from .rules.quota import allowance_units
from .rules.rank import MOST_LOWERED, lowered, rank_of, standing
from .rules.waitlist import Freed, Wish, is_quiet, kept_from
from .rules.week import day_start, week_of
from .rules.windows import Timetable

HOLDING_CODES = [str(status) for status in HOLDING]
LOST_AHEAD = timedelta(hours=24)  # for how long ahead a lost card counts as gone (G6)
# What has held its cards and has ended: any of these ends starts the same grace (I4).
HELD_ONCE = [str(status) for status in (Status.FINISHED, Status.RELEASED, Status.FORFEITED, Status.INTERRUPTED)]


@dataclass(frozen=True)
class LabFacts:
    """The lab as values: name, zone, language, policy, whether its data is simulated, whether it is set up."""

    name: str
    zone: ZoneInfo
    language: str
    policy: Policy
    simulated: bool
    is_set_up: bool
    holidays: str = "cn"
    rules_version: int = 0  # of the house rules that members must have accepted; 0: the lab has none
    show_names: str = names.FULL


def lab_facts() -> LabFacts:
    """The lab of this installation; before set-up, a lab with the defaults."""
    lab = Lab.objects.filter(pk=1).first() or Lab()
    return LabFacts(
        lab.name, ZoneInfo(lab.zone), lab.language, Policy.from_json(lab.policy), lab.simulated, lab.set_up_at is not None,
        lab.holidays, lab.rules_version if lab.house_rules.strip() else 0, lab.show_names,
    )


def pool_mates(card_ids: Iterable[int]) -> list[int]:
    """These cards, and all that serve in their pools: what sums over a pool rest on (G4, G7)."""
    return list(_mates(card_ids).order_by("pk").values_list("pk", flat=True))


def _mates(card_ids: Iterable[int]) -> QuerySet[Gpu]:
    wanted = list(card_ids)
    pools = Gpu.objects.filter(pk__in=wanted).values("pool")
    return Gpu.objects.filter(Q(pk__in=wanted) | Q(pool__in=pools, service=Gpu.Service.IN_SERVICE))


def serving_cards(pool_id: int | None) -> list[int]:
    """The cards in service, of one pool or of all."""
    return list(_serving(pool_id).order_by("pk").values_list("pk", flat=True))


def _serving(pool_id: int | None) -> QuerySet[Gpu]:
    rows = Gpu.objects.filter(service=Gpu.Service.IN_SERVICE)
    return rows if pool_id is None else rows.filter(pool=pool_id)


def named(found: Mapping[int, Card], card_ids: Iterable[int]) -> dict[int, Card]:
    """Of these cards those with the ids."""
    return {card_id: found[card_id] for card_id in card_ids if card_id in found}


LARGE_POOL = 4  # pools of as many cards have the policy's reserve and quick cards unless they say otherwise (N)


def pools(pool_ids: Sequence[int], lab: LabFacts) -> dict[int, PoolFacts]:
    """What decisions need of these pools: who serves, reserve and quick cards, and the windows that apply."""
    rows = Gpu.objects.filter(pool__in=pool_ids, service=Gpu.Service.IN_SERVICE).values_list("pool", "pk")
    return _pools(pool_ids, rows, lab)


def pools_of(found: Mapping[int, Card], lab: LabFacts) -> dict[int, PoolFacts]:
    """What decisions need of the pools of these cards, among which are all that serve in them."""
    return _pools(
        sorted({card.pool_id for card in found.values()}),
        [(card.pool_id, card.id) for card in found.values() if card.in_service], lab,
    )


def _pools(pool_ids: Sequence[int], in_service: Iterable[tuple[int, int]], lab: LabFacts) -> dict[int, PoolFacts]:
    serving: dict[int, set[int]] = {pool_id: set() for pool_id in pool_ids}
    for pool_id, card_id in in_service:
        serving[pool_id].add(card_id)
    special = {**public_days(lab.holidays), **dict(SpecialDay.objects.values_list("day", "is_working"))}
    facts = {}
    for row in Pool.objects.filter(pk__in=pool_ids):
        large = len(serving[row.pk]) >= LARGE_POOL
        windows = tuple(window for window in lab.policy.windows if window.pool_id in (None, row.pk))
        facts[row.pk] = PoolFacts(
            frozenset(serving[row.pk]), Timetable(windows, lab.zone, special),
            row.reserve if row.reserve is not None else lab.policy.emergency_reserve if large else 0,
            row.quick if row.quick is not None else lab.policy.quick_cards if large else 0,
        )
    return facts


def cards(ids: Iterable[int] | None = None) -> dict[int, Card]:
    """The cards with these ids (all, when None), by id."""
    return _cards(Gpu.objects.all() if ids is None else Gpu.objects.filter(pk__in=list(ids)))


def cards_and_mates(card_ids: Iterable[int]) -> dict[int, Card]:
    """These cards and all that serve in their pools, by id."""
    return _cards(_mates(card_ids))


def cards_serving(pool_id: int | None) -> dict[int, Card]:
    """The cards in service, of one pool or of all, by id."""
    return _cards(_serving(pool_id))


def _cards(rows: QuerySet[Gpu]) -> dict[int, Card]:
    found = rows.values_list(
        "pk", "index", "service", "pool_id", "bus_id", "model", "memory_total", "pool__weight", "host__name", "host__has_reader",
        "state__state",
    )
    return {
        pk: Card(
            pk, f"{host}:{index}", weight, service == Gpu.Service.IN_SERVICE, pool, host, bus_id, model, memory,
            # The system may pick for a walk-in what was seen free, or what nobody reads (D2).
            not has_reader or state == CardState.State.FREE,
        )
        for pk, index, service, pool, bus_id, model, memory, weight, host, has_reader, state in found
    }


# Values, not models: a decision reads hundreds of these, and uses a dozen of the seventy columns of the three tables.
_HOLDING = (
    "gpu_id", "start", "end", "reservation_id", "reservation__holder_id", "reservation__holder__name",
    "reservation__holder__email", "reservation__tier", "reservation__kind", "reservation__offer_until",
)
_CLAIM = (
    "reservation__status", "reservation__start", "reservation__end", "reservation__is_elastic", "reservation__rank_tier",
    "reservation__booked_at", "reservation__displaced_times", "cards_of_reservation",
)


def _holdings(rows: QuerySet[Allocation], *, claims: bool = False) -> list[Holding]:
    """The rows as values; with `claims` each must be annotated with `cards_of_reservation`."""
    found = rows.values_list(*_HOLDING, *(_CLAIM if claims else ()))
    return [
        Holding(
            card, Interval(start, end), pk, holder, name or email, tier, kind == Kind.WALK_IN,
            _claim(*claim) if claim else None, offer_until=offer_until,
        )
        for card, start, end, pk, holder, name, email, tier, kind, offer_until, *claim in found
    ]


def _claim(
    status: str, start: datetime, end: datetime, is_elastic: bool, rank_tier: int, booked_at: datetime, displaced_times: int,
    cards: int,
) -> Claim | None:
    """What a reservation weighs as a whole while it waits to start."""
    if status != Status.BOOKED:
        return None
    return Claim(start, rank_of(is_elastic, rank_tier), booked_at, (end - start) * cards, displaced_times)


def holdings_between(card_ids: Iterable[int], start: datetime, end: datetime, *, claims: bool = False) -> list[Holding]:
    """What holds these cards at any instant of `[start, end)`, maintenance too; with `claims`, what each reservation weighs
    against others (D4)."""
    rows = Allocation.objects.filter(gpu__in=list(card_ids), status__in=HOLDING_CODES, start__lt=end, end__gt=start)
    if claims:
        same = Allocation.objects.filter(reservation=OuterRef("reservation"), status=OuterRef("status"))
        rows = rows.annotate(
            cards_of_reservation=Subquery(same.order_by().values("reservation").annotate(n=Count("pk")).values("n"))
        )
    return _holdings(rows.order_by("start", "gpu_id"), claims=claims) + maintenance_between(card_ids, start, end)


def maintenance_between(card_ids: Iterable[int], start: datetime, end: datetime) -> list[Holding]:
    """When in `[start, end)` these cards are in maintenance (G5), in order."""
    rows = MaintenanceCard.objects.filter(gpu__in=list(card_ids), start__lt=end, end__gt=start)
    return [
        Holding(gpu_id, Interval(begins, ends), 0, 0, "", closed=Closed.MAINTENANCE)
        for gpu_id, begins, ends in rows.order_by("start", "gpu_id").values_list("gpu_id", "start", "end")
    ]


def lost_cards(card_ids: Iterable[int], now: datetime) -> list[Holding]:
    """Those of these cards whose loss is proved, each closed for the next day: what starts later may find it back (G6)."""
    rows = CardState.objects.filter(gpu__in=list(card_ids)).exclude(lost_since=None)
    return [
        Holding(gpu_id, Interval(now, now + LOST_AHEAD), 0, 0, "", closed=Closed.LOST)
        for gpu_id in rows.order_by("gpu_id").values_list("gpu_id", flat=True)
    ]


def rivals(card_ids: Iterable[int], start: datetime, end: datetime) -> list[tuple[int, int, int]]:
    """Everything booked that holds one of these cards in `[start, end)` and has not started: (reservation, holder, card)
    for each of its cards."""
    in_the_way = Allocation.objects.filter(
        gpu__in=list(card_ids), status=str(Status.BOOKED), start__lt=end, end__gt=start
    ).values("reservation")
    rows = Allocation.objects.filter(reservation__in=in_the_way, status=str(Status.BOOKED))
    return list(rows.order_by("pk").values_list("reservation", "reservation__holder", "gpu"))


def people_behind(reservation_ids: Iterable[int]) -> tuple[frozenset[int], frozenset[int]]:
    """The holders and collaborators of these reservations, and their projects."""
    ids = list(reservation_ids)
    rows = list(Reservation.objects.filter(pk__in=ids).values_list("holder", "project"))
    beside = Collaborator.objects.filter(reservation__in=ids, state=Collaborator.State.ACCEPTED)
    members = {holder for holder, _ in rows} | set(beside.values_list("member", flat=True))
    return frozenset(members), frozenset(project for _, project in rows if project is not None)


def holdings_of(member_id: int, from_: datetime) -> list[Holding]:
    """Everything the member holds or will hold from `from_` on, as a collaborator too (B4)."""
    beside = Collaborator.objects.filter(member=member_id, state=Collaborator.State.ACCEPTED).values("reservation")
    rows = Allocation.objects.filter(
        Q(reservation__holder=member_id) | Q(reservation__in=beside), status__in=HOLDING_CODES, end__gt=from_
    )
    # Walk-ins are counted to who booked them (D2); a collaborator's cards to the cap of B1 alone.
    return [one if one.holder_id == member_id else replace(one, is_walk_in=False) for one in _holdings(rows)]


def future_count(member_id: int, now: datetime) -> int:
    """How many of the member's reservations have not started (B1)."""
    return Reservation.objects.filter(holder=member_id, status__in=HOLDING_CODES, start__gt=now).count()


def units_used(member_id: int, weeks: Iterable[date], *, project: int | None = None) -> dict[date, int]:
    """Units charged to the member's own account in each of these weeks, or to the project's: always the sum of the ledger's
    rows (E1, B5)."""
    wanted = list(weeks)
    sums = _charged(member_id, project).filter(period__in=wanted).values("period").annotate(units=Sum("units")).order_by()
    found = {row["period"]: row["units"] for row in sums}
    return {week: found.get(week, 0) for week in wanted}


def _charged(member_id: int, project: int | None) -> QuerySet[LedgerEntry]:
    """The rows of the weeks of an account: the member's own, or the project's."""
    whose = {"member": member_id, "project": None} if project is None else {"project": project}
    return LedgerEntry.objects.filter(**whose, account=LedgerEntry.Account.QUOTA)


def hours_given(member_id: int, weeks: Collection[date], zone: ZoneInfo, *, project: int | None = None) -> list[Hours]:
    """The one-off hours of an account that bear on these weeks: those valid in one, and those that share a week with them
    directly or through others, for what one covers another need not (E5)."""
    whose = {"member": member_id} if project is None else {"project": project}
    rows = HourGrant.objects.filter(**whose, units__gt=0).values_list("units", "starts_at", "ends_at")
    others = [Hours(units, Interval(start, end)) for units, start, end in rows]
    near, found = set(weeks), list[Hours]()
    while met := [one for one in others if weeks_met([one], zone) & near]:
        found += met
        near |= weeks_met(met, zone)
        others = [one for one in others if one not in met]
    return found


def account(
    member: Member, project_id: int | None, weeks: Iterable[date], lab: LabFacts
) -> Account:
    """The account that pays, the project's or (None) the member's own, as far as charges in these weeks ask (B5, E5)."""
    wanted = set(weeks)
    if project_id is None:
        role = lab.policy.role(member.role)
        hours = role.weekly_hours if role else 0
    else:
        row = Project.objects.filter(pk=project_id).values_list("weekly_hours", flat=True).first()
        hours = lab.policy.project_weekly_hours if row is None else row
    grants = hours_given(member.pk, wanted, lab.zone, project=project_id)
    every = sorted(wanted | weeks_met(grants, lab.zone))
    used, owed = _used_and_owed(member.pk, every, allowance_units(hours), project=project_id)
    return Account(allowance_units(hours), {week: used[week] + owed[week] for week in every}, grants, owed)


def _used_and_owed(
    member_id: int, weeks: Sequence[date], allowance: int, *, project: int | None
) -> tuple[dict[date, int], dict[date, int]]:
    """Units charged to the account in each of these weeks, in order, and by how much overruns overdrew it before, so that
    it weighs on the week (E3). One statement."""
    if not weeks:
        return {}, {}
    first = weeks[0] - timedelta(days=7 * LOOK_BACK_WEEKS)
    every = [first + timedelta(days=7 * n) for n in range((weeks[-1] - first).days // 7 + 1)]
    rows = _charged(member_id, project).filter(period__gte=first, period__lte=weeks[-1]).values("period")
    overran = Sum("units", filter=Q(reason=LedgerEntry.Reason.OVERRUN), default=0)
    sums = {row["period"]: row for row in rows.annotate(sum=Sum("units"), overran=overran).order_by()}
    used = {week: sums[week]["sum"] if week in sums else 0 for week in every}
    owed = carried(every, used, {week: row["overran"] for week, row in sums.items()}, allowance)
    return {week: used[week] for week in weeks}, {week: owed[week] for week in weeks}


def projects_of(member_id: int) -> dict[int, str]:
    """The open projects for which the member may book, by name; an advisor belongs to those they lead."""
    rows = Project.objects.filter(Q(members__member=member_id) | Q(advisor=member_id), closed_at=None)
    return dict(rows.distinct().order_by("name").values_list("pk", "name"))


def projects_listed() -> list[Project]:
    """All projects, open ones first, with advisor and members."""
    members = Prefetch("members", ProjectMember.objects.select_related("member").order_by("member__name", "pk"))
    return sorted(
        Project.objects.select_related("advisor").prefetch_related(members), key=lambda one: one.closed_at is not None
    )


def project_detail(pk: int) -> Project | None:
    """One project with advisor and members, or None."""
    members = Prefetch("members", ProjectMember.objects.select_related("member").order_by("member__name", "pk"))
    return Project.objects.select_related("advisor").prefetch_related(members).filter(pk=pk).first()


def grants_of(project_id: int) -> list[DeadlineGrant]:
    """The project's deadline grants and requests, newest first, with who asked and who decided."""
    rows = DeadlineGrant.objects.filter(project=project_id)
    return list(rows.select_related("project__advisor", "requested_by", "decided_by"))


def grant_detail(pk: int) -> DeadlineGrant | None:
    """One deadline grant with its project, or None."""
    return DeadlineGrant.objects.select_related("project__advisor", "requested_by").filter(pk=pk).first()


def grants_in_force(lab: LabFacts, now: datetime) -> list[DeadlineGrant]:
    """The grants of all projects that can be booked under at `now` or later, and the requests that wait."""
    states = [DeadlineGrant.State.GRANTED, DeadlineGrant.State.REQUESTED]
    rows = DeadlineGrant.objects.filter(state__in=states).select_related("project__advisor", "requested_by")
    return [row for row in rows.order_by("last_day", "pk") if grant_interval(row, lab.zone).end > now]


def hour_grants(now: datetime, *, member: int | None = None, project: int | None = None) -> list[HourGrant]:
    """The one-off hours of an account that have not run out, soonest end first."""
    whose = {"member": member} if project is None else {"project": project}
    return list(HourGrant.objects.filter(**whose, units__gt=0, ends_at__gt=now).select_related("given_by"))


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


def project_facts(
    project_id: int, card_ids: Sequence[int], lab: LabFacts, now: datetime
) -> ProjectFacts | None:
    """A project as decisions need it; None when there is none. `card_ids`: the cards on which its cap is asked (B6)."""
    row = Project.objects.filter(pk=project_id).first()
    if row is None:
        return None
    held = Allocation.objects.filter(
        reservation__project=project_id, reservation__project_pays=True, gpu__in=card_ids, status__in=HOLDING_CODES, end__gt=now
    )
    return ProjectFacts(
        row.pk, row.name, row.closed_at is None,
        lab.policy.project_weekly_hours if row.weekly_hours is None else row.weekly_hours,
        _holdings(held), tier_grants(project_id, lab.zone, now),
    )


# What was really held counts against a grant's budget: neither what was cancelled nor what was displaced.
_CONSUMES = [*HOLDING_CODES, *(str(one) for one in (Status.FINISHED, Status.RELEASED, Status.FORFEITED, Status.INTERRUPTED))]


def grant_used(grant_ids: Iterable[int], *, of: int | None = None) -> dict[int, int]:
    """Card-seconds of each deadline grant that its reservations hold or held, as their cards stand (C2); `of` one alone."""
    used = dict.fromkeys(grant_ids, 0)
    rows = Allocation.objects.filter(reservation__grant__in=list(used), status__in=_CONSUMES)
    if of is not None:
        rows = rows.filter(reservation=of)
    for grant_id, start, end in rows.values_list("reservation__grant", "start", "end"):
        used[grant_id] += whole_seconds(start, end)
    return used


def grant_interval(grant: DeadlineGrant, zone: ZoneInfo) -> Interval:
    """From the begin of its first lab day to the end of its last (C2)."""
    return Interval(day_start(grant.first_day, zone), day_start(grant.last_day + timedelta(days=1), zone))


def is_granted(project_ids: Collection[int], lab: LabFacts, now: datetime) -> bool:
    """Whether one of these projects has a deadline grant that has not run out."""
    rows = DeadlineGrant.objects.filter(project__in=list(project_ids), state=DeadlineGrant.State.GRANTED)
    return bool(project_ids) and any(grant_interval(row, lab.zone).end > now for row in rows)


def tier_grants(project_id: int, zone: ZoneInfo, now: datetime) -> list[TierGrant]:
    """The project's deadline grants that have not run out."""
    rows = DeadlineGrant.objects.filter(project=project_id, state=DeadlineGrant.State.GRANTED)
    live = {row.pk: row for row in rows if grant_interval(row, zone).end > now}
    used = grant_used(live)
    return [TierGrant(pk, grant_interval(row, zone), row.budget - used[pk]) for pk, row in live.items()]


def free_seconds_used(
    member_id: int, days: Sequence[date], *, since: datetime | None = None, not_of: int | None = None
) -> dict[date, int]:
    """Free card-seconds of walk-ins that the member has taken on each of these lab days (D2).

    With `since`, only what was written at or after it; with `not_of`, only by other reservations.
    """
    rows = LedgerEntry.objects.filter(member=member_id, account=LedgerEntry.Account.FREE, period__in=days)
    if since is not None:
        rows = rows.filter(at__gte=since)
    if not_of is not None:
        rows = rows.exclude(reservation=not_of)
    found = {row["period"]: row["seconds"] for row in rows.values("period").annotate(seconds=Sum("units")).order_by()}
    return {day: found.get(day, 0) for day in days}


def card_used_last(member_id: int) -> int | None:
    """The card that the member's last reservation held (G2)."""
    rows = Allocation.objects.filter(reservation__holder=member_id).order_by("-start", "gpu")
    return rows.values_list("gpu", flat=True).first()


@dataclass(frozen=True)
class WeekBalance:
    """One week of an account, in units. `extra`: what one-off hours still cover beside the allowance (E5). `debt`: what of
    `used` overruns of earlier weeks overdrew (E3)."""

    week: date
    used: int
    allowance: int
    extra: int = 0
    debt: int = 0

    @property
    def left(self) -> int:
        return max(self.allowance - self.used, 0) + self.extra


def balances(member: Member, lab: LabFacts, now: datetime, *, project: int | None = None) -> list[WeekBalance]:
    """The member's own account, or that of a project, for this week and the next."""
    this = week_of(now, lab.zone)
    weeks = [this, this + timedelta(days=7)]
    found = account(member, project, weeks, lab)
    return [
        WeekBalance(week, found.used[week], found.allowance, spare(found, week, now, lab.zone), found.debts.get(week, 0))
        for week in weeks
    ]


def next_holding(gpu_id: int, after: datetime, *, not_of: int | None = None) -> Holding | None:
    """The first reservation that holds the card at or after `after`, other than `not_of`."""
    rows = Allocation.objects.filter(gpu=gpu_id, status__in=HOLDING_CODES, end__gt=after)
    if not_of is not None:
        rows = rows.exclude(reservation=not_of)
    found = _holdings(rows.order_by("start")[:1])
    return found[0] if found else None


def next_start(gpu_ids: Iterable[int], after: datetime, *, not_of: int) -> datetime | None:
    """When the next reservation or maintenance on any of these cards begins, other than `not_of`; earlier than `after` if it
    holds then."""
    wanted = list(gpu_ids)
    rows = Allocation.objects.filter(gpu__in=wanted, status__in=HOLDING_CODES, end__gt=after).exclude(reservation=not_of)
    closed = MaintenanceCard.objects.filter(gpu__in=wanted, end__gt=after)
    starts = (some.aggregate(start=Min("start"))["start"] for some in (rows, closed))
    return min((one for one in starts if one is not None), default=None)


def reservation_detail(pk: int) -> Reservation | None:
    """One reservation with its holder, project and what displaced it, or None."""
    return Reservation.objects.select_related("holder", "project", "displaced_by__holder").filter(pk=pk).first()


def displaced_count(reservation: Reservation) -> int:
    """How many reservations the last act on this one displaced or moved (D4)."""
    rows = AuditEntry.objects.filter(subject="reservation", subject_id=reservation.pk, verb__in=["reserve", "move"])
    entry = rows.order_by("-pk").first()
    return len(entry.change.get("displaced", ())) if entry else 0


def former_period(reservation: Reservation) -> tuple[datetime, datetime] | None:
    """When the reservation was before it was last moved, or None."""
    return reservation.former_allocations.order_by("-version").values_list("start", "end").first()


def reservations_of(member: Member, now: datetime) -> dict[str, list[Reservation]]:
    """The member's reservations: `active`, `coming` (soonest first) and the last 30 `past`."""
    rows = Reservation.objects.filter(holder=member).prefetch_related("allocations__gpu__host")
    return {
        "active": list(rows.filter(status=Status.ACTIVE).order_by("end")),
        "coming": list(rows.filter(status=Status.BOOKED).order_by("start")),
        "past": list(rows.exclude(status__in=HOLDING_CODES).order_by("-end")[:30]),
    }


def demerits_of(member: Member) -> list[Demerit]:
    """The member's whole record, newest first, with the dispute of each."""
    return list(member.demerits.select_related("reservation").prefetch_related("cases__rulings__arbiter"))


def open_cases() -> list[Case]:
    """Cases that wait for a decision, oldest first."""
    return list(Case.objects.filter(state=Case.State.OPEN).select_related("opened_by", "demerit__reservation"))


def cases_of(member: Member) -> list[Case]:
    """Cases the member opened, newest first."""
    return list(Case.objects.filter(opened_by=member).select_related("demerit__reservation").order_by("-opened_at"))


def fleet() -> list[Gpu]:
    """All cards with host, pool and what the sensor last said, in the order of pages."""
    return list(Gpu.objects.select_related("host", "pool", "state").order_by("host__name", "index", "pk"))


@dataclass(frozen=True)
class Block:
    """One holding as the schedule draws it."""

    reservation_id: int
    gpu_id: int
    start: datetime
    end: datetime
    status: str
    tier: str
    holder_id: int
    holder_name: str


_BLOCK = (
    "reservation_id", "gpu_id", "start", "end", "status", "reservation__tier", "reservation__holder_id",
    "reservation__holder__name",
)


def blocks_between(gpu_ids: Sequence[int], start: datetime, end: datetime) -> list[Block]:
    """What the schedule shows between two instants: everything held, and what ended early with the time it held."""
    shown = [*HOLDING_CODES, *HELD_ONCE]
    rows = (
        Allocation.objects.filter(gpu__in=gpu_ids, status__in=shown, start__lt=end, end__gt=start)
        .order_by("gpu_id", "start")
        .values_list(*_BLOCK)
    )
    return [Block(*row) for row in rows]


def maintenance_blocks(gpu_ids: Sequence[int], start: datetime, end: datetime) -> list[Block]:
    """The maintenance of these cards between two instants, as the schedule draws it: nobody's, without a reservation."""
    return [
        Block(0, one.card_id, one.interval.start, one.interval.end, str(Closed.MAINTENANCE), "", 0, "")
        for one in maintenance_between(gpu_ids, start, end)
    ]


def history_of(reservation: Reservation) -> list[AuditEntry]:
    """What happened to a reservation, oldest first, each with who did it."""
    rows = AuditEntry.objects.filter(subject="reservation", subject_id=reservation.pk)
    return list(rows.select_related("actor").order_by("pk"))


def member_names(ids: Iterable[int]) -> dict[int, str]:
    """The names of these members, by id."""
    return dict(Member.objects.filter(pk__in=list(ids)).values_list("pk", "name"))


def next_blocks(gpu_ids: Sequence[int], now: datetime, count: int) -> list[Block]:
    """For each card what holds it at `now` or in the 30 days after, the first `count` in order of time."""
    place = Window(RowNumber(), partition_by=F("gpu"), order_by=F("start").asc())
    rows = (
        Allocation.objects.filter(
            gpu__in=gpu_ids, status__in=HOLDING_CODES, end__gt=now, start__lt=now + timedelta(days=30)
        )
        .annotate(place=place).filter(place__lte=count).order_by("gpu_id", "start").values_list(*_BLOCK)
    )
    return [Block(*row) for row in rows]


@dataclass(frozen=True)
class EndedHolding:
    """An allocation the sensor must watch: held now, or ended less than a while ago.

    `beside`: the collaborators who accepted, whose processes count as the holder's (B4).
    """

    allocation_id: int
    reservation_id: int
    gpu_id: int
    member_id: int
    status: str
    start: datetime
    end: datetime
    beside: frozenset[int] = frozenset()


def watched_allocations(gpu_ids: Iterable[int], since: datetime, now: datetime) -> list[EndedHolding]:
    """Allocations that have started and that held their card at or after `since`: what monitoring judges.

    A card given back alone has ended with its own end, while its reservation goes on (I4).
    """
    shown = [*HOLDING_CODES, *HELD_ONCE]
    rows = Allocation.objects.filter(
        gpu__in=list(gpu_ids), status__in=shown, start__lte=now, end__gt=since
    ).values_list("pk", "reservation_id", "gpu_id", "reservation__holder_id", "status", "start", "end")
    found = list(rows.order_by("gpu_id", "start"))
    beside = collaborator_ids({row[1] for row in found})
    return [EndedHolding(*row, beside[row[1]]) for row in found]


def collaborator_ids(reservation_ids: Collection[int]) -> dict[int, frozenset[int]]:
    """Of each of these reservations the collaborators who accepted (B4)."""
    found: dict[int, frozenset[int]] = dict.fromkeys(reservation_ids, frozenset())
    rows = Collaborator.objects.filter(reservation__in=list(found), state=Collaborator.State.ACCEPTED) if found else []
    for row in rows:
        found[row.reservation_id] |= {row.member_id}
    return found


def held_on_host(host_id: int, span: Interval) -> list[Allocation]:
    """What was or is really held of the host's cards at some instant of `span`, in order."""
    had = [Status.ACTIVE, Status.FINISHED, Status.RELEASED, Status.FORFEITED, Status.INTERRUPTED]
    rows = Allocation.objects.filter(
        gpu__host=host_id, status__in=[*map(str, had), str(Status.BOOKED)], start__lt=span.end, end__gt=span.start
    )
    return list(rows.select_related("reservation").order_by("start", "pk"))


def in_maintenance(gpu_id: int, span: Interval) -> bool:
    """Whether the card is out of service, or in maintenance at some instant of `span`: then nothing is held against anybody."""
    if Gpu.objects.filter(pk=gpu_id, service=Gpu.Service.OUT_OF_SERVICE).exists():
        return True
    return MaintenanceCard.objects.filter(gpu=gpu_id, start__lt=span.end, end__gt=span.start).exists()


def maintenance_listed(now: datetime) -> list[Maintenance]:
    """What is in maintenance or will be, each with its cards, the next to begin first."""
    rows = Maintenance.objects.filter(end__gt=now, ended_at=None).select_related("announced_by")
    cards_of = Prefetch("cards", MaintenanceCard.objects.select_related("gpu__host").order_by("gpu__host__name", "gpu__index"))
    return list(rows.prefetch_related(cards_of))


def owners_of(reservation_ids: Iterable[int]) -> dict[int, frozenset[int]]:
    """Whose processes count as the holder's, by reservation (B4)."""
    rows = dict(Reservation.objects.filter(pk__in=list(reservation_ids)).values_list("pk", "holder_id"))
    beside = collaborator_ids(rows)
    return {pk: frozenset({holder}) | beside[pk] for pk, holder in rows.items()}


@dataclass(frozen=True)
class Place:
    """One card of a reservation that has started: where it is, and when the holder's processes were seen on it."""

    allocation_id: int
    gpu_id: int
    host_id: int
    label: str
    first_seen: datetime | None
    last_seen: datetime | None


@dataclass(frozen=True)
class Attendance:
    """A reservation whose time is now, as the sensor follows it: who may come, what was asked, what was seen (H2, H3, H7).

    `places` are the cards that it holds; `came` says whether a process was ever seen on any, one given back too.
    """

    reservation_id: int
    version: int
    holder_id: int
    owners: frozenset[int]
    start: datetime
    end: datetime
    booked_at: datetime
    is_confirmed: bool
    asked: Asked
    places: tuple[Place, ...]
    came: bool
    release_when_done: bool
    kept_at: datetime | None

    @property
    def last_seen(self) -> datetime | None:
        return max((place.last_seen for place in self.places if place.last_seen), default=None)


def attendances(now: datetime, only: Iterable[int] | None = None) -> list[Attendance]:
    """The reservations whose time is now, those of `only` or all, in a constant number of statements."""
    rows = Reservation.objects.filter(status__in=[Status.BOOKED, Status.ACTIVE], start__lte=now, end__gt=now)
    if only is not None:
        rows = rows.filter(pk__in=list(only))
    cards = Prefetch("allocations", Allocation.objects.select_related("gpu__host").order_by("gpu"))
    found = list(rows.select_related("holder").prefetch_related(cards).order_by("pk"))
    owners = owners_of(row.pk for row in found)
    said, zone = _said_of(found), lab_facts().zone
    return [_attendance(row, owners[row.pk], said, zone) for row in found]


# What tells a holder of a time or of cards that the system chose (D5, K5, G6).
_TOLD_BY = (Notification.Kind.PLACED, Notification.Kind.SERVED, Notification.Kind.SWAPPED)


def _said_of(found: Iterable[Reservation]) -> dict[str, Notification]:
    """The questions of these reservations, and the messages of what the system did, by their keys."""
    placed = Q(kind__in=_TOLD_BY, reservation__in=[row.pk for row in found if row.placed_at is not None])
    rows = Notification.objects.filter(placed | Q(key__in=[question_key(row) for row in found])).order_by("pk")
    # Of what the system did with a reservation the latest word counts.
    return {row.key if row.kind == Notification.Kind.CONFIRM else _placed_key(row.reservation_id): row for row in rows}


def _placed_key(reservation_id: int | None) -> str:
    return f"placed {reservation_id}"


def question_key(reservation: Reservation) -> str:
    """The key of the question whether they come: one for each start (K2)."""
    return f"confirm:{reservation.pk}:{int(reservation.start.timestamp())}"


def _attendance(
    row: Reservation, owners: frozenset[int], said: Mapping[str, Notification], zone: ZoneInfo
) -> Attendance:
    question, notice = said.get(question_key(row)), said.get(_placed_key(row.pk))
    allocations = list(row.allocations.all())
    places = tuple(
        Place(one.pk, one.gpu_id, one.gpu.host_id, str(one.gpu), one.first_seen, one.last_seen)
        for one in allocations if one.given_back_at is None and one.status != Status.INTERRUPTED
    )
    asked = Asked(
        waits=question is not None and question.state == Notification.State.DUE,
        sent_at=question.sent_at if question is not None else None, placed_by_system=row.placed_at is not None,
        told_at=notice.sent_at if notice is not None else None, quiet=quiet_hours(row.holder, zone),
    )
    return Attendance(
        row.pk, row.version, row.holder_id, owners, row.start, row.end, row.booked_at, row.confirmed_at is not None, asked,
        places, any(one.first_seen for one in allocations), row.release_when_done, row.kept_at,
    )


def quiet_hours(member: Member, zone: ZoneInfo) -> Quiet:
    """The member's quiet hours, on their own clock or this one, the lab's (K3)."""
    return Quiet(member.quiet_from, member.quiet_to, zone_of(member, zone))


def members_by_uid(host_id: int) -> dict[int, int]:
    """uid → member id for the accounts known on one host (I3: verified)."""
    return dict(HostAccount.objects.filter(host=host_id).values_list("uid", "member_id"))


def open_demerit_points(member: Member, now: datetime) -> int:
    """Points that count at `now`: not void, not disputed, not aged out (J2, J4)."""
    rows = member.demerits.filter(state=Demerit.State.COUNTED, expires_at__gt=now)
    return rows.aggregate(points=Sum("points"))["points"] or 0


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


def case_detail(pk: int) -> Case | None:
    """One case with all that its page shows, or None."""
    return (
        Case.objects.select_related("opened_by", "demerit__member", "demerit__reservation")
        .prefetch_related("rulings__arbiter")
        .filter(pk=pk)
        .first()
    )


def decided_cases(limit: int = 50) -> list[Case]:
    """The cases decided last, newest ruling first."""
    rows = Case.objects.filter(state=Case.State.DECIDED).annotate(decided_at=Max("rulings__at"))
    rows = rows.select_related("opened_by", "demerit").prefetch_related("rulings__arbiter")
    return list(rows.order_by("-decided_at", "-pk")[:limit])


def hosts_listed() -> list[Host]:
    """All hosts with their cards, each card with its pool."""
    return list(Host.objects.prefetch_related(Prefetch("gpus", Gpu.objects.select_related("pool").order_by("index", "pk"))))


def hosts_named() -> list[Host]:
    """All hosts by name, without their cards."""
    return list(Host.objects.all())


def gpus_named(ids: Iterable[int]) -> list[Gpu]:
    """These cards with their hosts."""
    return list(Gpu.objects.select_related("host").filter(pk__in=list(ids)))


def pool_names() -> list[str]:
    """The names of all pools."""
    return list(Pool.objects.values_list("name", flat=True))


def demerit_detail(pk: int) -> Demerit | None:
    """One demerit with its reservation and dispute, or None."""
    return Demerit.objects.select_related("member", "reservation").prefetch_related("cases").filter(pk=pk).first()


# --- the waitlist -----------------------------------------------------------------------------------------------------

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


def zone_of(member: Member, zone: ZoneInfo) -> ZoneInfo:
    """The member's own zone, else this one, the lab's."""
    try:
        return ZoneInfo(member.zone) if member.zone else zone
    except (ValueError, OSError, KeyError):  # a zone that this machine does not know
        return zone


def _waiting() -> QuerySet[WaitlistEntry]:
    """The rows that wait, of members who may take part."""
    return WaitlistEntry.objects.filter(
        state=WaitlistEntry.State.WAITING, member__is_active=True, member__approval=Member.Approval.APPROVED
    ).select_related("member")


def wishes(now: datetime, lab: LabFacts, *, besides: int | None = None) -> list[Wish]:
    """All that waits at `now`, save what `besides` waits for, without the order's card-hours."""
    rows = [row for row in _waiting().filter(latest__gt=now).order_by("created_at", "pk") if row.member_id != besides]
    steps = _steps({row.member_id for row in rows}, lab.policy, now) if rows else {}
    return [wish_of(row, lab.policy, now, lab.zone, steps=steps.get(row.member_id, 0)) for row in rows]


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


def held_since(member_ids: Iterable[int], since: datetime, now: datetime) -> dict[int, timedelta]:
    """The card time that each of these members has really had between the two instants: held, not booked ahead (K5)."""
    rows = Allocation.objects.filter(
        reservation__holder__in=list(member_ids), status__in=_HAD, end__gt=since, start__lt=now
    ).values_list("reservation__holder_id", "start", "end")
    found: dict[int, timedelta] = {}
    for member_id, start, end in rows:
        found[member_id] = found.get(member_id, timedelta()) + (min(end, now) - max(start, since))
    return found


# Statuses under which a card was really had.
_HAD = [str(one) for one in (Status.ACTIVE, Status.FINISHED, Status.RELEASED, Status.FORFEITED, Status.INTERRUPTED)]


def displaced_from(card_ids: Iterable[int], now: datetime) -> dict[int, list[Interval]]:
    """By card the slots ahead from which somebody was displaced who may have them back (D6)."""
    rows = Allocation.objects.filter(
        gpu__in=list(card_ids), status=str(Status.DISPLACED), reservation__status=Status.DISPLACED, start__gt=now,
        reservation__displaced_by__isnull=False,
    )
    found: dict[int, list[Interval]] = {}
    for card_id, start, end in rows.values_list("gpu_id", "start", "end"):
        found.setdefault(card_id, []).append(Interval(start, end))
    return found


def may_come_back(now: datetime) -> list[Reservation]:
    """What was displaced and could have its whole slot again, because what displaced it was cancelled or moved away, in the
    order of rank and seniority: not begun, nothing taken in its place, not offered yet (D6)."""
    gone = [str(Status.CANCELLED), str(Status.BOOKED), str(Status.ACTIVE)]
    rows = Reservation.objects.filter(
        status=Status.DISPLACED, start__gt=now, displaced_by__status__in=gone, holder__is_active=True,
        holder__approval=Member.Approval.APPROVED,
    ).exclude(replacements__status__in=[*HOLDING_CODES, str(Status.PASSED), *_HAD])
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


def unready(card_ids: Iterable[int], now: datetime) -> list[Kept]:
    """Freed time that the waitlist may not offer yet, since the card has not been seen free often enough (H4)."""
    rows = FreedSlot.objects.filter(gpu__in=list(card_ids), ready_at=None, end__gt=now)
    return [Kept(row.gpu_id, Interval(row.start, row.end), until=row.end) for row in rows]


def kept_for_others(
    member_id: int, found: Mapping[int, Card], span: Interval, now: datetime, lab: LabFacts
) -> list[Kept]:
    """What of these cards' time is kept from this member: freed time that goes to the waitlist first (K5, H4), and cards on
    which a walk-in of theirs runs, or ended less than a grace ago, while somebody waits (D2)."""
    waiting = wishes(now, lab, besides=member_id)
    first = [one for one in may_come_back(now) if one.holder_id != member_id] if _anything_freed(found, span, now) else []
    if not waiting and not first:
        return []
    rows = FreedSlot.objects.filter(gpu__in=list(found), start__lt=span.end, end__gt=max(span.start, now))
    rows = rows.filter(Q(ready_at=None) | Q(ready_at__gt=now - KEPT))
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


def _anything_freed(card_ids: Iterable[int], span: Interval, now: datetime) -> bool:
    """Whether time on these cards was given back that is still kept."""
    rows = FreedSlot.objects.filter(gpu__in=list(card_ids), start__lt=span.end, end__gt=max(span.start, now))
    return rows.filter(Q(ready_at=None) | Q(ready_at__gt=now - KEPT)).exists()


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
