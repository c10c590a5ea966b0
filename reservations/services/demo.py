"""The demonstration lab: two simulated hosts, eight cards, twelve people, three weeks of reservations around now.

Its past is made by the real services with the clock of then, so that ledger, audit and allocations are as they would be.
Its present is played by the simulator from the scenario files written here. It is never loaded over a real lab.
"""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.utils.translation import gettext as _

from .. import queries
from ..models import Allocation, Gpu, Host, HostAccount, Member, Notification, Pool, Project, ProjectMember, Reservation, Ruling
from ..rules.lifecycle import Status
from ..rules.refusal import Refused
from ..rules.week import day_start, local_date, round_to_raster, rule_instant
from . import arbitration, booking, changes, conduct, people
from .demo_people import FIRST_UID, HOSTS, PEOPLE, PROJECTS, DemoHost, Person

DAYS_BACK, DAYS_AHEAD = 14, 7
_HOUR = timedelta(hours=1)


class NotDemo(Exception):
    """The installation holds a real lab: the demonstration neither enters it nor wipes it."""


@dataclass(frozen=True)
class Access:
    """How to get in: the admin, and the password that all twelve share (kept in the data folder, for this lab only)."""

    admin: Member
    password: str


def load(*, now: datetime) -> Access:
    """Fills an empty installation with the demonstration lab. Raises `NotDemo` when a lab is already here."""
    if queries.lab_facts().is_set_up or Host.objects.exists():
        raise NotDemo
    people.set_up(lab_name=_("Demonstration lab"), zone="Asia/Shanghai", language="zh-hans", admin=None, now=now, simulated=True)
    password = secrets.token_urlsafe(9)
    members = _members(password, now)
    _projects(members)
    cards = _cards(members)
    _weeks(members, cards, now)
    _record(members, now)
    # What fell due before the lab existed was never owed to anybody.
    Notification.objects.filter(due_at__lte=now, state=Notification.State.DUE).update(state=Notification.State.DROPPED)
    _password_file().write_text(password + "\n", encoding="ascii")
    _password_file().chmod(0o600)
    write_scenarios(now)
    return Access(next(member for member in members if member.is_admin), password)


def wipe() -> None:
    """Empties a demonstration installation altogether, the simulated hosts with it. Raises `NotDemo` otherwise."""
    if not queries.lab_facts().simulated:
        raise NotDemo
    for path in Path(settings.SCENARIO_DIR).glob("*.json"):
        path.unlink()
    call_command("flush", interactive=False, verbosity=0)
    _password_file().unlink(missing_ok=True)


def access() -> Access | None:
    """How to get into the demonstration lab that is here, if one is."""
    if not queries.lab_facts().simulated or not _password_file().exists():
        return None
    admin = Member.objects.filter(is_admin=True).first()
    return Access(admin, _password_file().read_text(encoding="ascii").strip()) if admin else None


def _password_file() -> Path:
    return Path(settings.DATA_DIR) / "demo_password"


def _members(password: str, now: datetime) -> list[Member]:
    made: list[Member] = []
    for person in PEOPLE:
        member = Member(
            email=person.email, name=person.name, role=person.role,
            is_arbiter=person.is_arbiter, is_admin=person.is_admin, is_superuser=person.is_admin,
            approval=Member.Approval.APPROVED, joined_at=now - timedelta(days=60),
        )
        if made:
            member.password = made[0].password  # one slow hash serves all twelve
        else:
            member.set_password(password)
        member.save()
        made.append(member)
    return made


def _projects(members: list[Member]) -> None:
    by_account = {person.account: member for member, person in zip(members, PEOPLE, strict=True)}
    for demo in PROJECTS:
        made = Project.objects.create(name=demo.name, advisor=by_account[demo.advisor])
        ProjectMember.objects.bulk_create(ProjectMember(project=made, member=by_account[one]) for one in demo.members)


def _cards(members: list[Member]) -> list[Gpu]:
    cards = []
    for demo in HOSTS:
        host = Host.objects.create(name=demo.name, simulated=True)
        pool = Pool.objects.create(name=demo.pool)
        HostAccount.objects.bulk_create(
            HostAccount(member=member, host=host, unix_name=person.account, uid=FIRST_UID + number)
            for number, (member, person) in enumerate(zip(members, PEOPLE, strict=True))
        )
        cards += [
            Gpu.objects.create(
                uuid=demo.uuid(index), host=host, pool=pool, model=demo.model, memory_total=demo.memory_total,
                bus_id=demo.bus_id(index), index=index,
            )
            for index in range(demo.cards)
        ]
    return cards


# --- three weeks ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Wish:
    """Somebody's wish for a day, with the moment it was pressed."""

    at: datetime
    member: Member
    count: int
    start: datetime
    end: datetime
    tier: str
    purpose: str


def _wishes(members: list[Member], now: datetime, dice: random.Random) -> Iterator[_Wish]:
    zone = queries.lab_facts().zone
    today = local_date(now, zone)
    for offset in range(-DAYS_BACK, DAYS_AHEAD + 1):
        day = today + timedelta(days=offset)
        for member, person in zip(members, PEOPLE, strict=True):
            for _try in range(2):
                if dice.randrange(14) >= person.eagerness or (offset > 2 and dice.random() < 0.12 * offset):
                    continue
                yield _wish(member, person, day, now, dice)


def _wish(member: Member, person: Person, day: date, now: datetime, dice: random.Random) -> _Wish:
    zone = queries.lab_facts().zone
    night = dice.random() < 0.55
    hour = dice.choice((20, 21, 22, 22)) if night else dice.choice((8, 9, 10, 13, 14, 15))
    start = rule_instant(datetime.combine(day, time(hour, dice.choice((0, 0, 30)))), zone)
    length = dice.choice((8, 9, 10, 11)) if night else dice.choice((2, 3, 4, 4, 6))
    pressed = day_start(day, zone) - dice.randrange(3, 40) * _HOUR
    return _Wish(
        at=min(pressed, now - timedelta(minutes=dice.randrange(1, 600))),
        member=member, count=dice.choice((1, 1, 1, 2) if person.role != "undergraduate" else (1,)), start=start,
        end=start + length * _HOUR, tier=dice.choice(("regular", "regular", "exploration")),
        purpose=dice.choice(("training",) * 5 + ("inference", "interactive", "test")),
    )


def _weeks(members: list[Member], cards: list[Gpu], now: datetime) -> None:
    dice = random.Random(20)  # noqa: S311  (the same lab every time; nothing secret)
    projects = {member.pk: next(iter(queries.projects_of(member.pk)), None) for member in members}
    for wish in sorted(_wishes(members, now, dice), key=lambda wish: wish.at):
        host = dice.choice(HOSTS).name
        held = {one.card_id for one in queries.holdings_between([card.pk for card in cards], wish.start, wish.end)}
        free = [card.pk for card in cards if card.host.name == host and card.pk not in held][: wish.count]
        project = projects[wish.member.pk] if wish.tier == "regular" else None
        request = booking.BookingRequest(tuple(free), wish.start, wish.end, wish.tier, wish.purpose, project_id=project)
        try:
            made = booking.reserve(wish.member, request, now=wish.at)
        except Refused:
            continue  # as in life: no free card, or no hours left
        _live(made, now, dice)


def _live(made: Reservation, now: datetime, dice: random.Random) -> None:
    """Lets a reservation's time pass up to now: start, processes seen, an early release now and then, the end."""
    if made.start > now:
        return
    booking.advance_one(made.pk, now=made.start)
    until = made.end
    if dice.random() < 0.35:
        share = dice.uniform(0.5, 0.95)
        left = round_to_raster(made.start + (made.end - made.start) * share, 60, queries.lab_facts().zone, up=False)
        if left <= now:
            changes.release(made.pk, by=made.holder, version=None, now=left)
            until = left
    if until <= now:
        booking.advance_one(made.pk, now=until)
    seen = Allocation.objects.filter(reservation=made)
    seen.update(
        first_seen=min(made.start + timedelta(minutes=dice.randrange(1, 9)), now),
        last_seen=min(until - timedelta(minutes=dice.randrange(1, 20)), now),
    )


def _record(members: list[Member], now: datetime) -> None:
    """One demerit that a ruling voided, and one in dispute, so that the case pages have something to show."""
    arbiter = next(member for member in members if member.is_arbiter and not member.is_admin)
    over = Reservation.objects.filter(status=Status.FINISHED, end__lt=now - timedelta(days=1), end__gt=now - timedelta(days=6))
    chosen: list[Reservation] = []
    for row in over.select_related("holder").order_by("-end"):
        if row.holder_id not in {one.holder_id for one in chosen} and not row.holder.is_arbiter:
            chosen.append(row)
    statements = (
        _("The job had written its last checkpoint and hung while closing. I was on a train and pressed release late."),
        _("The message came while the mail server was down for everybody."),
    )
    for number, (row, statement) in enumerate(zip(chosen[:2], statements, strict=False)):
        counted = row.end + _HOUR
        demerit = conduct.issue_overrun(fact=f"demo:{row.pk}", reservation=row, evidence=_evidence(row, counted), now=counted)
        if demerit is None:
            continue
        case = conduct.dispute(demerit.pk, statement, by=row.holder, now=counted + 3 * _HOUR)
        if number == 1:
            arbitration.rule(
                case.pk, Ruling.Outcome.ACCEPTED, _("The mail log shows the outage. The point is void."), by=arbiter,
                version=case.version, now=counted + 8 * _HOUR,
            )


def _evidence(row: Reservation, counted: datetime) -> dict[str, Any]:
    card = row.allocations.select_related("gpu__host").order_by("gpu").first()
    assert card is not None
    grace = row.end + timedelta(minutes=10)
    samples = [
        {
            "at": (grace + timedelta(seconds=10 * n)).isoformat(), "pids": [20_417], "utilization": 97,
            "memory": (card.gpu.memory_total or 0) // 4 * 3,
        }
        for n in range(1, 4)
    ]
    # What the page of the reservation says of it agrees with the evidence: seen until past the end, by the holder's account.
    Allocation.objects.filter(pk=card.pk).update(last_seen=grace + timedelta(seconds=30))
    uid = HostAccount.objects.get(member=row.holder_id, host=card.gpu.host_id).uid
    return {
        "kind": "overrun", "card": str(card.gpu), "gpu": card.gpu.uuid, "end": row.end.isoformat(),
        "grace_until": grace.isoformat(), "first_sight": samples[0]["at"], "counted_at": counted.isoformat(),
        "samples": samples, "processes": [{"pid": 20_417, "started": 884_211, "uid": uid, "owner": "verified"}],
        "waiting": False, "coverage": 1.0, "simulated": True,
    }


# --- what the cards do ----------------------------------------------------------------------------------------------


def write_scenarios(now: datetime) -> None:
    """Writes one scenario file per simulated host: processes under the reservations of the days ahead."""
    folder = Path(settings.SCENARIO_DIR)
    folder.mkdir(parents=True, exist_ok=True)
    for demo in HOSTS:
        path = folder / f"{demo.name}.json"
        beside = path.with_suffix(".tmp")
        beside.write_text(json.dumps(_scenario(demo, now), indent=1), encoding="utf-8")
        beside.replace(path)


def _scenario(demo: DemoHost, now: datetime) -> dict[str, Any]:
    rows = (
        Allocation.objects.filter(gpu__host__name=demo.name, end__gt=now, status__in=queries.HOLDING_CODES)
        .select_related("gpu", "reservation")
        .order_by("start", "gpu__index")
    )
    uids = dict(HostAccount.objects.filter(host__name=demo.name).values_list("member", "uid"))
    processes = []
    for number, row in enumerate(rows):
        overruns = number == 1  # the second to end on each host runs on: what the loop is for can be watched
        processes.append(
            {
                "pid": 18_000 + 37 * number, "uid": uids[row.reservation.holder_id], "card": row.gpu.uuid,
                "from": (row.start + timedelta(minutes=2)).timestamp(),
                "until": (row.end + timedelta(minutes=90 if overruns else -6)).timestamp(),
                "memory": int(demo.memory_total * (0.35 + 0.1 * (number % 5))), "started_ticks": 500_000 + 911 * number,
                "utilization": {"low": 72, "high": 99, "period_s": 240 + 30 * (number % 4)},
            }
        )
    return {
        "boot_id": "5113e3a5-0000-4000-8000-00000000000" + str(1 + HOSTS.index(demo)),
        "cards": [
            {
                "uuid": demo.uuid(index), "name": demo.model, "bus_id": demo.bus_id(index), "serial": None,
                "memory_total": demo.memory_total, "baseline": demo.baseline, "temperature": 31 + index,
                "power_idle_mw": demo.power_idle_mw, "power_limit_mw": demo.power_limit_mw,
            }
            for index in range(demo.cards)
        ],
        "processes": processes,
    }


