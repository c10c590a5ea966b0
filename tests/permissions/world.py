"""A lab with something of everybody's in it, the rows of its tables, and a good form for every route."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

from allauth.account.forms import default_token_generator
from allauth.account.internal.flows.manage_email import sync_user_email_address
from allauth.account.utils import user_pk_to_url_str
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.core.management.color import no_style
from django.db import connection, transaction
from django.http import HttpResponse
from django.test import Client

from reservations import links, models
from reservations.models import (
    CardState,
    Case,
    DeadlineGrant,
    Demerit,
    Gpu,
    Host,
    HostAccount,
    Invite,
    Maintenance,
    Member,
    Pool,
    Project,
    Reservation,
    Ruling,
    WaitlistEntry,
)
from reservations.services import (
    arbitration,
    booking,
    changes,
    collaborators,
    conduct,
    giveback,
    grants,
    interrupting,
    maintenance,
    people,
    projects,
    setup,
    waitlist,
)
from tests import factories as make
from tests.factories import NOW, at

from .table import NO_OBJECT

MISSING = 987_654_321
HOUR = timedelta(hours=1)
PASSWORD = "a long enough password"
NEW_PASSWORD = "another long enough one"
EVIDENCE: dict[str, Any] = {
    "kind": "overrun", "card": "gpu01:2", "gpu": "GPU-abc", "end": "2026-11-30T06:00:00+00:00",
    "grace_until": "2026-11-30T06:10:00+00:00", "counted_at": "2026-11-30T06:10:30+00:00",
    "first_sight": "2026-11-30T06:10:10+00:00",
    "samples": [{"at": "2026-11-30T06:10:10+00:00", "pids": [20417], "utilization": 97, "memory": 64 << 30}],
    "processes": [{"pid": 20417, "started": 884211, "uid": 2003, "owner": "verified"}],
    "waiting": True, "coverage": 1.0, "simulated": False,
}
# What no form of the product may set by itself. Names that a form does have are left out for that form.
EXTRAS = {
    "id": "1", "pk": "1", "status": "released", "state": "void", "tier": "deadline", "rank_tier": "0", "rank": "0",
    "approval": "approved", "is_admin": "on", "is_arbiter": "on", "is_superuser": "on", "is_staff": "on", "is_active": "on",
    "role": "staff", "points": "0", "version": "99", "policy": "{}", "policy_version": "9", "price": "0", "cost": "0",
    "weight": "1", "units": "0", "booked_at": "2020-01-01T00:00", "ended_at": "2020-01-01T00:00", "start": "2026-12-02T09:00",
    "end": "2026-12-09T09:00", "origin": "sweep", "now": "2030-01-01T00:00", "at": "2020-01-01T00:00", "simulated": "on",
    "issued_at": "2020-01-01T00:00", "expires_at": "2036-01-01T00:00", "set_up_at": "2020-01-01T00:00", "uses_left": "200",
    "token_hash": "0" * 64, "zone": "UTC", "note": "set by an extra field", "purpose": "test", "statement": "extra",
    "outcome": "accepted", "reason": "extra", "email": "extra@lab.example", "name": "Extra", "uid": "4711", "unix_name": "extra",
    "joined_at": "2020-01-01T00:00", "last_login": "2020-01-01T00:00", "date_joined": "2020-01-01T00:00", "knowing_it_runs": "1",
    "fact": "overrun:1", "key": "another-key-of-somebody",
}
_SOMEBODY = (
    "holder", "holder_id", "user", "user_id", "member", "member_id", "owner", "owner_id", "by", "actor", "actor_id", "opened_by",
    "opened_by_id", "arbiter", "arbiter_id", "decided_by", "pressed_by", "created_by", "created_by_id", "on_behalf",
)
# Fields of the forms beyond those that the good form below fills in.
_OPTIONAL = {
    "book": {"start", "note", "use", "length", "project", "memory", "may_move", "ask", "statement"},
    "extend": {"use", "until", "key"}, "release": {"knowing", "back"},
    "undo-release": {"back"}, "confirm": {"back"},
    "wishes": {"release_when_done", "extend_while_free", "back"}, "give-back": {"knowing", "back", "card"},
    "undo-give-back": {"back", "card"}, "offer-take": {"back"},
    "offer-pass": {"back"}, "waitlist": {"pool", "model", "min_memory", "card", "several_hosts", "start", "project"},
    "cancel": {"back"}, "move": {"use", "key", "back"}, "again": {"key"}, "instead": {"use", "key"}, "undo-booking": {"back"},
    "member": {"is_arbiter", "is_admin", "is_active", "ends_on"}, "projects": {"weekly_hours"},
    "project-change": {"weekly_hours", "is_open"}, "maintenance": {"start", "urgent", "reason"},
    "host-add": {"has_reader"}, "card-service": {"reason"}, "link": {"end"}, "set-language": {"next"},
    "account_login": {"next", "remember"}, "admin:reservations_gpu_change": {"memory_total", "bus_id"},
    "admin:reservations_host_change": {"has_reader"}, "admin:reservations_member_change": {"language", "zone"},
}


def extras(route: str, body: dict[str, Any], somebody: int) -> dict[str, Any]:
    """Fields that this form does not have, each with a value that would do harm."""
    own = set(body) | _OPTIONAL.get(route, set())
    return {name: value for name, value in ({**EXTRAS, **dict.fromkeys(_SOMEBODY, str(somebody))}).items() if name not in own}


# --- the rows ---------------------------------------------------------------------------------------------------------
_BOOKKEEPING = {"django_session", "django_migrations", "django_cache", "sqlite_sequence"}
_UNLIKE = {  # made anew each time: compared by being there, not by their value
    "reservations_member": {"password"}, "reservations_invite": {"token_hash"}, "reservations_keptmail": {"body"},
    "usersessions_usersession": {"session_key"},
}
Rows = dict[str, list[tuple[Any, ...]]]


def dump(*, alike: bool = False) -> Rows:
    """Every row of every table, save sessions and when somebody signed in last. `alike` masks what is random."""
    found: Rows = {}
    with connection.cursor() as cursor:
        for table, columns in _columns().items():
            masked = _UNLIKE.get(table, set()) if alike else set()
            wanted = ", ".join(f'"{name}"' for name in columns if name not in masked)
            cursor.execute(f'SELECT {wanted} FROM "{table}"')
            found[table] = sorted(cursor.fetchall(), key=repr)
    return found


_known_columns: dict[str, list[str]] = {}


def _columns() -> dict[str, list[str]]:
    if not _known_columns:
        with connection.cursor() as cursor:
            for table in connection.introspection.table_names(cursor):
                if table not in _BOOKKEEPING:
                    described = connection.introspection.get_table_description(cursor, table)
                    _known_columns[table] = [column.name for column in described if column.name != "last_login"]
    return _known_columns


def changed(before: Rows, after: Rows) -> list[str]:
    """The tables that differ, with what went and what came."""
    found = []
    for table, rows in after.items():
        old = before[table]
        if rows != old:
            went, came = [row for row in old if row not in rows], [row for row in rows if row not in old]
            found.append(f"{table}: -{went[:2]} +{came[:2]}")
    return found


@contextmanager
def writes() -> Iterator[list[str]]:
    """The statements that change rows, as they are sent; those of the session's own table are left out."""
    found: list[str] = []

    def watched(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        start = sql.lstrip()[:6].upper()
        if start in ("INSERT", "UPDATE", "DELETE", "TRUNCA") and not any(f'"{name}"' in sql for name in _BOOKKEEPING):
            found.append(sql[:120])
        return execute(sql, params, many, context)

    with connection.execute_wrapper(watched):
        yield found


@contextmanager
def undone() -> Iterator[None]:
    """Takes back whatever happens inside: rows, keys to come, the cache of limits."""
    sid = transaction.savepoint()
    try:
        yield
    finally:
        connection.needs_rollback = False
        transaction.savepoint_rollback(sid)
        cache.clear()


def reset_keys() -> None:
    """The next new row gets the key it would have had before the last one was taken back."""
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [*_models(), UserSession, LogEntry]):
            cursor.execute(statement)


def _models() -> list[Any]:
    return [getattr(models, name) for name in models.__all__]


# --- the lab ----------------------------------------------------------------------------------------------------------
WHO = ("deactivated", "unapproved", "member", "arbiter", "admin", "superuser")
# What a person wrote for few eyes: each text says whose it is.
SECRETS = tuple(f"{kind} of {name}" for kind in ("note", "statement") for name in (*WHO, "other", "gone"))


@dataclass
class World:
    """A lab in which everybody has something of their own, and Wang has the same as `other`."""

    people: dict[str, Member] = field(default_factory=dict)
    active: dict[str, Reservation] = field(default_factory=dict)
    coming: dict[str, Reservation] = field(default_factory=dict)
    displaced: dict[str, Reservation] = field(default_factory=dict)
    released: dict[str, Reservation] = field(default_factory=dict)
    interrupted: dict[str, Reservation] = field(default_factory=dict)
    split: dict[str, Reservation] = field(default_factory=dict)  # of three cards, the last given back
    offered: dict[str, Reservation] = field(default_factory=dict)
    wishes: dict[str, WaitlistEntry] = field(default_factory=dict)
    demerits: dict[str, Demerit] = field(default_factory=dict)
    cases: dict[str, Case] = field(default_factory=dict)
    sides: dict[str, Case] = field(default_factory=dict)  # cases that nobody opened, about them
    clients: dict[tuple[str, bool], Client] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    rows: Rows = field(default_factory=dict)
    alike: Rows = field(default_factory=dict)
    shared: dict[str, Reservation] = field(default_factory=dict)  # of somebody else's, to which this person is invited
    joined: dict[str, Project] = field(default_factory=dict)  # of which this person is a member
    led: dict[str, Project] = field(default_factory=dict)  # which this person leads
    asked: dict[str, DeadlineGrant] = field(default_factory=dict)  # by this person, for a project led by somebody else
    waits: dict[str, DeadlineGrant] = field(default_factory=dict)  # for this person to decide
    free: list[Gpu] = field(default_factory=list)
    link_file: tuple[Path, str] | None = None
    # by their name in the table: rows and tokens that nobody owns
    waiting: Member | None = None
    helper: int = 0  # invited to everybody's coming reservation, a member of every project that they lead
    accounts: list[HostAccount] = field(default_factory=list)
    invite: str = ""
    over: str = ""
    token: str = ""
    past: Reservation | None = None
    reset: dict[str, str] = field(default_factory=dict)

    def client(self, column: str, *, csrf: bool = False) -> Client:
        """A browser of this column, as new. One each is kept: making one sets up the whole chain of middleware."""
        client = self.clients.setdefault(
            (column, csrf), Client(raise_request_exception=False, enforce_csrf_checks=csrf)
        )
        client.cookies = SimpleCookie()
        if session := self.sessions.get(column):
            client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key
        return client

    def reopen(self, column: str) -> None:
        """Signs in again whom the last press signed out, and puts the one-time link back that it used up."""
        if session := self.sessions.get(column):
            session.save()
        if self.link_file:
            path, text = self.link_file
            path.write_text(text)

    def freeze(self) -> None:
        """Keeps the rows as they are now, to compare with."""
        reset_keys()
        self.rows, self.alike = dump(), dump(alike=True)


def empty() -> World:
    """An installation that nobody has set up; its one-time link is out."""
    world = World()
    link = setup.link(NOW)
    assert link is not None
    world.token = link.rsplit("/", 1)[1]
    file = Path(settings.DATA_DIR) / "setup_token"
    world.link_file = file, file.read_text()
    world.freeze()
    return world


_kept: list[tuple[World, Rows]] = []


def lab() -> World:
    """The lab at NOW, for a database in which nothing is yet. The services make it once in a process; after that its rows are
    put there as they were left, with their keys."""
    if not _kept:
        before = _raw()
        made = _make()
        _kept.append((copy.deepcopy(made), {table: _new(rows, before[table]) for table, rows in _raw().items()}))
        return made
    world, kept = _kept[0]
    with connection.cursor() as cursor:
        for table, rows in kept.items():
            if rows:
                values = ", ".join(["%s"] * len(rows[0]))
                cursor.executemany(f'INSERT INTO "{table}" VALUES ({values})', [[_sent(one) for one in row] for row in rows])
    world = copy.deepcopy(world)
    world.freeze()  # anew: what was there before may have other keys now
    return world


def _sent(value: Any) -> Any:
    """A value as a database takes it: SQLite gives times of day and takes none."""
    return value.isoformat() if isinstance(value, time) else value


def _raw() -> Rows:
    """Every row, sessions too, with all its columns in the order of the table."""
    found: Rows = {}
    with connection.cursor() as cursor:
        for table in (*_columns(), Session._meta.db_table):
            cursor.execute(f'SELECT * FROM "{table}"')
            found[table] = cursor.fetchall()
    return found


def _new(rows: list[tuple[Any, ...]], before: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows that came; of those that were there before, none may have changed."""
    assert all(row in rows for row in before)
    return [row for row in rows if row not in before]


def _make() -> World:
    reset_keys()  # the same keys however many rows other tests have made and taken back
    make.lab()
    world = World()
    admin = {"is_admin": True, "role": "staff"}
    fields: dict[str, dict[str, Any]] = {
        "deactivated": {}, "unapproved": {}, "member": {}, "arbiter": {"is_arbiter": True}, "admin": admin,
        "superuser": {"is_superuser": True}, "other": {}, "gone": {},
    }
    for name, values in fields.items():
        world.people[name] = make.member(name.title(), password=PASSWORD, email=f"{name}@lab.example", **values)
    host = make.host("gpu-a")
    cards = iter(make.cards(64, host))
    for name, one in world.people.items():
        world.active[name] = make.reservation(one, [next(cards)], None, 2, note=f"note of {name}")
        world.coming[name] = make.reservation(one, [coming := next(cards)], 24, 26)
        world.displaced[name] = _displaced(make.reservation(one, [coming], 28, 30))
        released = make.reservation(one, [next(cards)], None, 4)
        world.released[name] = changes.release(released.pk, by=one, version=released.version, now=NOW)
        three = [next(cards) for _ in range(3)]
        split = make.reservation(one, three, 48, 50)
        world.split[name] = giveback.give_back(split.pk, [three[2].pk], by=one, version=split.version, now=NOW)
        for kind in ("demerit", "case"):
            issued = conduct.issue_overrun(fact=f"{kind}:{name}", reservation=released, evidence=EVIDENCE, now=NOW)
            assert issued is not None
            if kind == "case":
                world.cases[name] = conduct.dispute(issued.pk, f"statement of {name}", by=one, now=NOW)
            else:
                world.demerits[name] = issued
        world.sides[name] = Case.objects.create(
            kind=Case.Kind.CLEANUP, fact=f"cleanup:{name}", concerns=one, opened_at=NOW, evidence={"kind": "cleanup"}
        )
        lost = next(cards)
        world.interrupted[name] = make.reservation(one, [lost], None, 6)
        CardState.objects.create(
            gpu=lost, state=CardState.State.OFFLINE, since=NOW, sampled_at=NOW, lost_since=at(-1), lost_how="gone"
        )
        interrupting.interrupt(world.interrupted[name].pk, now=NOW)
    world.free = [next(cards) for _ in range(4)]
    _waiting(world, make.cards(len(world.people), host))
    _further(world, host)
    _shared(world)
    for name in WHO:
        for where in ("elsewhere", "here"):
            client = Client()
            client.force_login(world.people[name])
            key = str(client.session.session_key)
            UserSession.objects.create(user=world.people[name], session_key=key, ip="192.0.2.7", user_agent=where)
            world.sessions[name] = Session.objects.get(pk=key)
    Member.objects.filter(pk__in=[world.people[name].pk for name in ("deactivated", "gone")]).update(is_active=False)
    Member.objects.filter(pk=world.people["unapproved"].pk).update(approval=Member.Approval.PENDING)
    for one in world.people.values():
        one.refresh_from_db()
        sync_user_email_address(one)  # each has asked for a new password before
    world.freeze()
    return world


def _shared(world: World) -> None:
    """Projects, grants and collaborations: each person is a member of one project, leads another, and is invited once."""
    admin, chief, helper = world.people["admin"], make.member("Chief", role="staff"), make.member("Helper")
    spare = iter(make.cards(len(world.people)))
    for name, one in world.people.items():
        world.joined[name] = make.project(f"joined by {name}", one, advisor=chief)
        world.led[name] = make.project(f"led by {name}", helper, advisor=one)
        days = {"deadline": date(2026, 12, 20), "first_day": date(2026, 12, 1), "last_day": date(2026, 12, 20)}
        world.asked[name] = grants.request(
            world.joined[name].pk, reason="a paper", card_hours=10, by=one, now=NOW, **days
        )
        world.waits[name] = grants.request(world.led[name].pk, reason="a paper", card_hours=10, by=helper, now=NOW, **days)
        world.shared[name] = make.reservation(make.member(f"Host of {name}"), [next(spare)], 26, 27)
        collaborators.invite(world.shared[name].pk, one.pk, by=world.shared[name].holder, now=NOW)
        collaborators.invite(world.coming[name].pk, helper.pk, by=one, now=NOW)
    projects.give_hours(member_id=helper.pk, hours=5, last_day=date(2026, 12, 20), reason="a course", by=admin, now=NOW)
    world.helper = helper.pk


def _waiting(world: World, cards: list[Gpu]) -> None:
    """To everybody a card is offered, and everybody waits for the one that they have."""
    asks = {}
    for (name, one), card in zip(world.people.items(), cards, strict=True):
        CardState.objects.create(gpu=card, state=CardState.State.FREE, since=NOW, sampled_at=NOW)
        wanted = booking.BookingRequest((card.pk,), None, at(4))
        asks[name] = waitlist.join(one, waitlist.WishRequest(wanted, HOUR, at(4), mode="ask"), now=NOW)
    waitlist.serve(NOW)
    for name, one in world.people.items():
        asks[name].refresh_from_db()
        offered = asks[name].reservation
        assert offered is not None and offered.status == "offered"
        world.offered[name] = offered
        mine = world.active[name].allocations.get()
        wanted = booking.BookingRequest((mine.gpu_id,), None, at(2))
        world.wishes[name] = waitlist.join(one, waitlist.WishRequest(wanted, HOUR, at(2)), now=NOW)


def _further(world: World, host: Host) -> None:
    """Rows that nobody owns, and one of each kind that the admin shows."""
    judge, other = make.arbiter("Judge"), world.people["other"]
    world.waiting = make.member("Waiting", approval=Member.Approval.PENDING)
    admin = world.people["admin"]
    issued = conduct.issue_overrun(fact="decided", reservation=world.released["other"], evidence=EVIDENCE, now=NOW)
    assert issued is not None
    decided = conduct.dispute(issued.pk, "the host was down", by=other, now=NOW)
    arbitration.rule(decided.pk, Ruling.Outcome.DECLINED, "the log shows it", by=judge, version=1, now=NOW)
    CardState.objects.bulk_create(
        CardState(gpu=gpu, state=CardState.State.FREE, since=NOW, sampled_at=NOW) for gpu in (world.free[0], world.free[2])
    )
    maintenance.announce(
        [gpu.pk for gpu in make.cards(1, host)], at(1), at(4), reason="new fan", urgent=False, by=admin, now=NOW
    )
    world.accounts = [
        people.add_account(one.pk, host_id=host.pk, unix_name=name, uid=uid, by=admin, now=NOW)
        for one, name, uid in ((other, "wang", 2001), (judge, "judge", 2002))
    ]
    world.invite = people.invite(by=admin, role="master", uses=5, days=7, now=NOW)
    world.over = people.invite(by=admin, role="master", uses=1, days=7, now=NOW)
    Invite.objects.filter(token_hash=people.hash_token(world.over)).update(uses_left=0)
    world.reset = {
        "uidb36": user_pk_to_url_str(other), "key": default_token_generator.make_token(other)
    }
    past = make.reservation(other, [world.free[3]], 1, 2, now=at(0))
    Reservation.objects.filter(pk=past.pk).update(start=at(-60), end=at(-48), status="finished")
    past.allocations.update(start=at(-60), end=at(-48), status="finished")
    past.refresh_from_db()
    world.past = past


def _displaced(row: Reservation) -> Reservation:
    """The reservation as one that had to make room."""
    Reservation.objects.filter(pk=row.pk).update(status="displaced", ended_at=at(0), version=2)
    row.allocations.update(status="displaced")
    row.refresh_from_db()
    return row


# --- addresses and forms ----------------------------------------------------------------------------------------------
_STATE = {
    "release": "active", "confirm": "active", "wishes": "active",
    "extend": "active", "reservation": "active", "cancel": "coming", "undo-release": "released",
    "move": "coming", "again": "coming", "undo-booking": "active", "instead": "displaced", "take-equal": "interrupted",
    "give-back": "split", "undo-give-back": "split",
    "offer-take": "offered", "offer-pass": "offered", "waitlist-leave": "wishes",
}


def kwargs(world: World, route: str, column: str, found: str) -> dict[str, Any]:
    """What stands in the address of this object."""
    name = column if found == "own" else "other"
    if route in _STATE:
        return {"pk": MISSING if found == "missing" else getattr(world, _STATE[route])[name].pk}
    if route in ("case", "case-rule"):
        return {"pk": MISSING if found == "missing" else world.cases[name].pk}
    if route == "case-state":
        return {"pk": MISSING if found == "missing" else world.sides[name].pk}
    if route == "dispute":
        return {"pk": MISSING if found == "missing" else world.demerits[name].pk}
    if route in ("collaborator-invite", "collaborator-remove"):
        wanted = {"pk": MISSING if found == "missing" else world.coming[name].pk}
        return wanted | ({"member_pk": world.helper} if route == "collaborator-remove" else {})
    if route == "collaboration":
        return {"pk": MISSING if found == "missing" else (world.shared if found == "own" else world.active)[name].pk}
    if route.startswith(("project-", "grant-")) or route == "project":
        return _project_kwargs(world, route, column, found)
    if route in ("member", "account-add", "member-hours", "member-leave"):
        return {"pk": MISSING if found == "missing" else world.people[name].pk}
    if route == "member-approve":
        there = world.people.get(column) if found == "own" else world.waiting
        return {"pk": MISSING if found == "missing" or there is None else there.pk}
    if route == "account-remove":
        if found == "missing":
            return {"pk": MISSING, "account_pk": MISSING}
        mine, foreign = world.accounts
        return {"pk": mine.member_id, "account_pk": (mine if found == "there" else foreign).pk}
    if route in ("invite-end", "host-reader", "card-add", "card-service", "card-replace", "maintenance-end"):
        kinds: dict[str, Any] = {
            "invite-end": Invite, "card-service": Gpu, "card-replace": Gpu, "maintenance-end": Maintenance,
        }
        model = kinds.get(route, Host)
        return {"pk": MISSING if found == "missing" else model.objects.order_by("pk").first().pk}
    if route == "join":
        return {"token": {"open": world.invite, "over": world.over}.get(found) or "no-such-token"}
    if route == "setup":
        return {"token": world.token if found == "good" else "no-such-token"}
    if route == "link":
        return {"token": _token(world, found)}
    if route == "account_reset_password_from_key":
        if found == "missing":
            return {"uidb36": "1", "key": "no-such-key"}
        return world.reset
    return _admin_kwargs(route, found)


def _project_kwargs(world: World, route: str, column: str, found: str) -> dict[str, Any]:
    if found == "missing":
        return {"pk": MISSING} | ({"member_pk": MISSING} if route == "project-member-remove" else {})
    name = "other" if found == "other" else column
    if route in ("grant-decide", "grant-revoke"):
        return {"pk": (world.waits if found == "led" else world.asked)[name].pk}
    project = (world.led if found == "led" else world.joined)[name]
    if route == "project-member-remove":
        return {"pk": project.pk, "member_pk": project.members.order_by("pk")[0].member_id}
    return {"pk": project.pk}


def _token(world: World, found: str) -> str:
    action = links.LinkAction
    if found == "forged":
        return "1.1.release.1:0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"
    reservation = {"lost": world.active.get("gone"), "expired": world.past}.get(found, world.active.get("other"))
    assert reservation is not None
    if found in ("take", "pass"):
        return links.link_for(world.offered["other"], action(found)).token
    meant = action(found) if found in ("extend", "confirm", "keep") else action.RELEASE
    return links.link_for(reservation, meant).token


def _admin_kwargs(route: str, found: str) -> dict[str, Any]:
    if route == "admin:app_list":
        return {"app_label": "reservations"}
    if route == "admin:view_on_site":
        kind = ContentType.objects.get_for_model(Gpu)
        first = Gpu.objects.order_by("pk").first()
        return {"content_type_id": kind.pk, "object_id": first.pk if first and found == "there" else MISSING}
    if found == NO_OBJECT or not route.startswith(("admin:", "admin/")):
        return {}
    [model] = [one for one in _models() if f"_{one._meta.model_name}_" in route or f"/{one._meta.model_name}/" in route]
    first = model._default_manager.order_by("pk").first()
    return {"object_id": MISSING if found == "missing" else first.pk}


def body(world: World, route: str, column: str, found: str) -> dict[str, Any]:
    """A form that the route accepts, for whoever may send it."""
    name = column if found == "own" else "other"
    if route in _STATE:
        one = getattr(world, _STATE[route]).get(name)
        form: dict[str, Any] = {"version": one.version if one else 1}
        if route == "extend":
            form |= {"end": at(3).isoformat(), "key": "onekeyofthisform"}
        if route == "move":
            form |= {"start": at(26).isoformat(), "end": at(28).isoformat(), "key": "onekeyofthisform"}
        if route == "instead":
            free = world.free[1].pk if world.free else 1
            form = {"card": free, "start": at(30).isoformat(), "end": at(31).isoformat(), "key": "onekeyofthisform"}
        if route == "wishes":
            form["release_when_done"] = "on"
        if one and route == "give-back":
            form["card"] = one.allocations.order_by("pk").first().gpu_id
        if one and route == "undo-give-back":
            form["card"] = one.former_allocations.order_by("pk").first().gpu_id
        if route in ("again", "take-equal"):
            form = {"key": "onekeyofthisform"}
        return form
    if route == "link":
        named = ("extend", "confirm", "keep", "take", "pass")
        done = {"crossed": "extend"}.get(found, found if found in named else "release")
        return {"do": done, **({"end": at(3).isoformat()} if done == "extend" else {})}
    plain: dict[str, Callable[[], dict[str, Any]]] = {
        "book": lambda: {
            "card": world.free[1].pk if world.free else 1, "end": "2026-11-30T16:00", "tier": "regular",
            "purpose": "training", "key": "a-key-of-this-form",
        },
        "waitlist": lambda: {
            "count": "1", "hours": "1", "end": "2026-11-30T20:00", "tier": "regular", "purpose": "training", "mode": "book",
        },
        "dispute": lambda: {"statement": "The host was down."},
        "case-state": lambda: {"statement": "A class ran on."},
        "case-rule": lambda: {"outcome": "accepted", "reason": "The log shows it.", "version": 1},
        "join": lambda: {
            "name": "Newcomer", "email": "newcomer@lab.example", "password": PASSWORD, "language": "en",
        },
        "setup": lambda: {
            "lab_name": "Vision", "zone": "Asia/Shanghai", "language": "en", "name": "Chen", "email": "chen@lab.example",
            "password": PASSWORD,
        },
        "demo-load": lambda: {"token": world.token if found == "good" else "no-such-token"},
        "set-language": lambda: {"language": "zh-hans"},
        "member-invite": lambda: {"role": "master", "uses": 1, "days": 7},
        "host-add": lambda: {"name": "gpu-new", "has_reader": "on"},
        "host-reader": lambda: {"has_reader": "no"},
        "card-replace": lambda: {"new": world.free[2].pk if world.free else 1},
        "maintenance": lambda: {
            "card": world.free[2].pk if world.free else 1, "end": "2026-12-02T16:00", "do": "announce",
            "seen": f"{int(NOW.timestamp())}-",
        },
        "card-service": lambda: {"service": "out_of_service", "reason": "fan"},
        "collaborator-invite": lambda: {"member": _person(world, "superuser" if column != "superuser" else "member")},
        "collaborator-remove": dict, "collaboration": lambda: {"answer": "yes"},
        "projects": lambda: {"name": "New", "advisor": _person(world, "other")},
        "project-change": lambda: {"name": "Renamed", "advisor": _person(world, "other"), "is_open": "on"},
        "project-member-add": lambda: {"member": _person(world, "superuser" if column != "superuser" else "member")},
        "project-hours": _hours, "member-hours": _hours, "member-leave": lambda: {"successor": world.helper},
        "grant-request": lambda: {
            "deadline": "2026-12-20", "first_day": "2026-12-01", "last_day": "2026-12-10", "card_hours": "40",
            "reason": "a paper",
        },
        "grant-decide": lambda: {"outcome": "granted", "reason": "It is due."},
        "grant-revoke": lambda: {"reason": "It is over."},
        "house-rules": lambda: {"version": 0}, "house-rules-text": lambda: {"text": "Be fairer."},
        "member": lambda: {
            "role": "undergraduate", "is_active": "on", **({"is_admin": "on"} if found == "own" else {}),
        },
        "account-add": lambda: {"host": _first_host(), "unix_name": "newone", "uid": 3001},
        "card-add": lambda: _card(),
        "account_login": lambda: {"login": _email(column), "password": PASSWORD},
        "account_request_login_code": lambda: {"email": _email(column)},
        "account_change_password": lambda: {
            "oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD,
        },
        "account_set_password": lambda: {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD},
        "account_reset_password": lambda: {"email": _email(column)},
        "account_signup": lambda: {"email": "new@lab.example", "password1": PASSWORD},
        "account_reset_password_from_key": lambda: {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD},
        "admin:password_change": lambda: {
            "old_password": PASSWORD, "new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD,
        },
    }
    if route in plain:
        return plain[route]()
    return _admin_body(world, route)


def _person(world: World, name: str) -> int:
    """Who a form names; before set-up there is nobody."""
    return world.people[name].pk if world.people else 1


def _hours() -> dict[str, Any]:
    return {"hours": "10", "last_day": "2026-12-20", "reason": "a course"}


def _email(column: str) -> str:
    return {"anonymous": "other@lab.example", "before": "nobody@lab.example"}.get(column, f"{column}@lab.example")


def _first_host() -> int:
    first = Host.objects.order_by("pk").first()
    return first.pk if first else 1


def _card() -> dict[str, Any]:
    prefix = f"host{_first_host()}"
    return {f"{prefix}-uuid": "GPU-new", f"{prefix}-model": "A100", f"{prefix}-memory": "80", f"{prefix}-index": "9"}


def _admin_body(world: World, route: str) -> dict[str, Any]:
    if route.endswith("_changelist"):
        return {"action": "delete_selected", "_selected_action": "1", "index": "0"}
    if route.endswith("_delete"):
        return {"post": "yes"}
    if not route.startswith("admin:") or not route.endswith(("_change", "_add")) or not world.people:
        return {}
    first: dict[str, Callable[[], dict[str, Any]]] = {
        "member": lambda: {
            "email": "deactivated@lab.example", "name": "Renamed", "role": "phd", "language": "en", "zone": "",
            "quiet_from": "23:00", "quiet_to": "08:00",
        },
        "host": lambda: {"name": "gpu-renamed", "has_reader": "on"},
        "pool": lambda: {"name": "Renamed", "weight": "50"},
        "gpu": lambda: {
            "host": _first_host(), "pool": Pool.objects.order_by("pk")[0].pk, "model": "Renamed", "memory_total": "1",
            "bus_id": "x", "index": "0", "service": "in_service",
        },
    }
    model = route.removeprefix("admin:reservations_").rsplit("_", 1)[0]
    return {**first[model](), "_save": "Save"} if model in first else {"_save": "Save"}


def send(client: Client, method: str, path: str, form: dict[str, Any], **headers: str) -> HttpResponse:
    """One request as a browser sends it; what is streamed is read to its end."""
    extra = {"headers": headers} if headers else {}
    if method == "POST":
        response = client.post(path, form, **extra)
    elif method in ("PUT", "PATCH"):
        response = client.generic(method, path, "a=b", "application/x-www-form-urlencoded", **extra)
    else:
        response = client.generic(method, path, **extra)
    if not response.streaming:
        return response  # type: ignore[return-value]
    return HttpResponse(response.getvalue(), status=response.status_code, headers=response.headers)

