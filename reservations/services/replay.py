"""Books a job log again, job by job in order of time, through the same services as everybody (docs/replay.md).

A clock of its own stands at the moment of each event; nothing here writes a reservation, an allocation or the ledger itself.
"""

from __future__ import annotations

import csv
import heapq
import itertools
import re
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum
from pathlib import Path
from statistics import fmean, median
from typing import Any
from zoneinfo import ZoneInfo

from django.contrib.auth.hashers import make_password
from django.db.models import Count, Sum

from .. import queries
from ..models import Allocation, Gpu, Host, LedgerEntry, Member, Notification, Pool, Reservation
from ..rules.kinds import freezes_at
from ..rules.lifecycle import Status
from ..rules.policy import PRESETS, REPLAY, Policy, Scheduling
from ..rules.refusal import Refused
from ..rules.week import round_to_raster
from . import booking, changes, people

POLICIES: Mapping[str, Policy] = {"replay": REPLAY, **PRESETS}
_HOUR = timedelta(hours=1)


class HoldsALab(Exception):
    """The installation is not empty: a log is never mixed with what people did."""


class BadLog(ValueError):
    """A file that cannot be replayed; the message names the line and what is wrong with it."""


class Asked(StrEnum):
    """When a job is asked for. A log knows when a job started, seldom when somebody decided to run it."""

    START = "start"  # at its start, from now on: a walk-in
    EVENING = "evening"  # an hour before its day freezes, on the evening before: planned


# --- what a log says ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A card as a log names it."""

    host: str
    bus_id: str
    model: str

    @property
    def uuid(self) -> str:
        """A stable identity of the form NVML gives; the log has none."""
        return f"GPU-{uuid.uuid5(uuid.NAMESPACE_URL, f'{self.host}/{self.bus_id}')}"


@dataclass(frozen=True)
class Job:
    """One job: `booked` is what was asked for, `used` how long it really ran, on `places` or on any `count` cards."""

    name: str
    person: str
    start: datetime
    booked: timedelta
    used: timedelta
    count: int
    places: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Log:
    """A log, read: its jobs in order of time, all its cards, the zone of its lab, and the rows that ask for no card."""

    jobs: tuple[Job, ...]
    places: tuple[Place, ...]
    zone: str
    skipped: int = 0

    @property
    def hosts(self) -> list[str]:
        return sorted({place.host for place in self.places})

    @property
    def people(self) -> list[str]:
        return sorted({job.person for job in self.jobs})


def read_alex(lines: Iterable[str]) -> Log:
    """A log with one row per job that names person, start, time asked for, time used and its cards (`host/PCI-bus-id`).

    The model of a card is the `subcluster` of the first job on it. Raises `BadLog`.
    """
    jobs: list[Job] = []
    known: dict[tuple[str, str], Place] = {}
    for line, row in _rows(lines, ("job_id", "user", "subcluster", "start_time", "duration_s", "booked_s", "cards")):
        names = row["cards"].split()
        halves = [tuple(name.partition("/")[::2]) for name in names]
        if not names or len(set(names)) < len(names) or not all(host for host, _ in halves):
            raise BadLog(f"line {line}: cards takes one host/PCI-bus-id per card, each once")
        places = tuple(known.setdefault((host, bus), Place(host, bus, row["subcluster"])) for host, bus in halves)
        jobs.append(
            Job(
                row["job_id"], row["user"], _instant(line, row["start_time"]), _length(line, row, "booked_s"),
                _length(line, row, "duration_s"), len(places), places,
            )
        )
    return Log(_in_order(jobs), tuple(known.values()), "Europe/Berlin")


# Stated in docs/replay.md: what the other log leaves open.
CARDS_PER_HOST, PEOPLE = 8, 40
STRETCH, SHORTEST, LONGEST = 20, timedelta(minutes=30), timedelta(hours=72)
FIRST_SECOND = datetime(2026, 1, 4, 16, tzinfo=UTC)  # Monday 5 January 2026, 00:00 in Shanghai


def read_openb(lines: Iterable[str], pool: Sequence[Place]) -> Log:
    """A log of tasks in seconds from its first, without people and without cards: they are asked of `pool`.

    A task without a card is skipped, a part of a card asks for a whole one. The time it lived is stretched, and what it
    asks for is that, rounded up to whole hours. Raises `BadLog`.
    """
    jobs: list[Job] = []
    skipped = 0
    for line, row in _rows(lines, ("name", "num_gpu", "creation_time", "deletion_time")):
        count = int(_number(line, row, "num_gpu"))
        if not count:
            skipped += 1
            continue
        created, deleted = _number(line, row, "creation_time"), _number(line, row, "deletion_time")
        used = min(max((deleted - created) * STRETCH * timedelta(seconds=1), SHORTEST), LONGEST)
        person = f"person {len(jobs) % PEOPLE + 1:02}"
        start = FIRST_SECOND + timedelta(seconds=created)
        jobs.append(Job(row["name"], person, start, -(-used // _HOUR) * _HOUR, used, count))
    return Log(_in_order(jobs), tuple(pool), "Asia/Shanghai", skipped)


def pool(spec: str) -> tuple[Place, ...]:
    """The cards of `MODEL×COUNT[,MODEL×COUNT…]`, on hosts of eight. Raises ValueError."""
    places: list[Place] = []
    for part in spec.split(","):
        found = re.fullmatch(r"\s*([A-Za-z][\w-]*?)\s*[×x*]\s*([1-9]\d{0,4})\s*", part)
        if not found:
            raise ValueError(f"{part.strip()!r} is no MODEL×COUNT such as A100×64")
        model = found[1]
        for number in range(int(found[2])):
            host, index = divmod(number, CARDS_PER_HOST)
            places.append(Place(f"{model.lower()}-{host + 1:03}", f"00000000:{index + 1:02X}:00.0", model))
    if len(set(places)) < len(places):
        raise ValueError("each model takes one count")
    return tuple(places)


def read(path: Path, form: str, cards: str = "") -> Log:
    """The log in a file of the given form, `alex` or `openb`. Raises `BadLog`, ValueError for the cards, OSError."""
    with path.open(encoding="utf-8", newline="") as lines:
        return read_alex(lines) if form == "alex" else read_openb(lines, pool(cards))


def _rows(lines: Iterable[str], columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(lines)
    if missing := [name for name in columns if name not in (reader.fieldnames or ())]:
        raise BadLog(f"line 1: no column {', '.join(missing)}")
    for row in reader:
        if any(row[name] is None for name in columns):
            raise BadLog(f"line {reader.line_num}: too few columns")
        yield reader.line_num, row


def _number(line: int, row: Mapping[str, str], name: str) -> int:
    if not row[name].isdecimal():
        raise BadLog(f"line {line}: {name} takes a whole number, not {row[name]!r}")
    return int(row[name])


def _length(line: int, row: Mapping[str, str], name: str) -> timedelta:
    seconds = _number(line, row, name)
    if not seconds:
        raise BadLog(f"line {line}: {name} takes 1 second or more")
    return timedelta(seconds=seconds)


def _instant(line: int, text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise BadLog(f"line {line}: start_time takes a time such as 2023-02-07T13:39:27Z, not {text!r}") from None
    if instant.tzinfo is None:
        raise BadLog(f"line {line}: start_time needs its zone, such as a Z at the end")
    return instant.astimezone(UTC)


def _in_order(jobs: Iterable[Job]) -> tuple[Job, ...]:
    return tuple(sorted(jobs, key=lambda job: job.start))  # stable: within one second the order of the file


# --- what came of it ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seconds:
    """How long calls took: `first` and `last` are the means of the first and the last tenth of them."""

    calls: int
    total: float
    mean: float
    median: float
    p95: float
    most: float
    first: float
    last: float

    @classmethod
    def of(cls, taken: Sequence[float]) -> Seconds:
        if not taken:
            return cls(0, *(0.0,) * 7)
        tenth = max(len(taken) // 10, 1)
        ordered = sorted(taken)
        return cls(
            len(taken), sum(taken), fmean(taken), median(taken), ordered[(len(taken) * 95 - 1) // 100], ordered[-1],
            fmean(taken[:tenth]), fmean(taken[-tenth:]),
        )


@dataclass(frozen=True)
class Result:
    """What came of a log. `…_s` are seconds × cards; `ledger` is the quota accounts in units, by reason and in all, and
    `free` the free walk-in time in seconds × cards.

    `reasons` counts each refused job under every reason it was given, `alone` those that had this one only.
    """

    policy: str
    asked: str
    jobs: int
    skipped: int
    people: int
    hosts: int
    cards: int
    accepted: int
    refused: int
    reasons: Mapping[str, int]
    alone: Mapping[str, int]
    booked_s: int
    held_s: int
    overran: int
    overrun_s: int
    ledger: Mapping[str, int]
    ledger_total: int
    free: Mapping[str, int]
    overlaps: int
    not_released: Mapping[str, int]  # releases that the law refused, by reason
    requests: Seconds
    changes: Seconds  # starts, releases, ends

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


# --- the clock ------------------------------------------------------------------------------------------------------


class _Turn(IntEnum):
    """What goes first at the same instant: a card must be free before the next one takes it."""

    END = 0
    RELEASE = 1
    START = 2
    ASK = 3


_Act = Callable[[datetime], None]


class _Agenda:
    """Events in order of time, then turn, then the order in which they were put down."""

    def __init__(self) -> None:
        self._events: list[tuple[datetime, int, int, _Act]] = []
        self._numbers = itertools.count()
        self._now: datetime | None = None

    def add(self, at: datetime, turn: _Turn, act: _Act) -> None:
        if self._now is not None and at < self._now:
            raise ValueError("an event lies before the clock")
        heapq.heappush(self._events, (at, turn, next(self._numbers), act))

    def run(self) -> None:
        while self._events:
            at, _, _, act = heapq.heappop(self._events)
            self._now = at
            act(at)


# --- replaying ------------------------------------------------------------------------------------------------------


def replay(log: Log, policy_name: str, asked: Asked) -> Result:
    """Makes the lab of the log in an empty installation and lives through it. Raises `HoldsALab` when it is not empty."""
    if queries.lab_facts().is_set_up or Host.objects.exists() or Member.objects.exists():
        raise HoldsALab
    return _Replay(log, policy_name, asked).run()


def moment(job: Job, asked: Asked, policy: Policy, zone: ZoneInfo) -> datetime:
    """When the job is asked for: at its start, or an hour before its day freezes (D1)."""
    if asked == Asked.START:
        return job.start
    return freezes_at(job.start, zone, policy.freezing) - _HOUR


class _Replay:
    def __init__(self, log: Log, policy_name: str, asked: Asked) -> None:
        self.log, self.policy_name, self.asked = log, policy_name, asked
        # A log knows people and no projects: each job draws on its person's hours (B5).
        self.policy, self.zone = replace(POLICIES[policy_name], mode=Scheduling.PERSON), ZoneInfo(log.zone)
        self.agenda = _Agenda()
        self.made = 0
        self.overran = self.overrun_s = 0
        self.reasons: Counter[str] = Counter()
        self.alone: Counter[str] = Counter()
        self.not_released: Counter[str] = Counter()
        self.requests: list[float] = []
        self.changes: list[float] = []

    def run(self) -> Result:
        moments = [moment(job, self.asked, self.policy, self.zone) for job in self.log.jobs]
        begin = min(moments, default=FIRST_SECOND)
        people.set_up(
            lab_name="Replay of a job log", zone=self.log.zone, language="en", admin=None, now=begin,
            policy=self.policy.to_json(), simulated=True,
        )
        self.cards = _make_cards(self.log.places)
        self.members = _make_members(self.log.people, begin)
        for at, job in zip(moments, self.log.jobs, strict=True):
            self.agenda.add(at, _Turn.ASK, self._asking(job))
        self.agenda.run()
        # The lab is past: nobody is to be told of any of it.
        Notification.objects.filter(state=Notification.State.DUE).update(state=Notification.State.DROPPED)
        return self._result()

    def _asking(self, job: Job) -> _Act:
        def ask(now: datetime) -> None:
            start, end = self._period(job, now)
            named = tuple(self.cards[place].pk for place in job.places)
            request = booking.BookingRequest(named, start, end, note=job.name[:200], count=0 if named else job.count)
            member = self.members[job.person]
            began = time.perf_counter()
            try:
                made = booking.reserve(member, request, now=now, origin="command")
            except Refused as refused:
                codes = {str(code) for code in refused.codes}
                self.reasons.update(codes)
                if len(codes) == 1:
                    self.alone.update(codes)
                return
            finally:
                self.requests.append(time.perf_counter() - began)
            self._live(job, made)

        return ask

    def _period(self, job: Job, now: datetime) -> tuple[datetime | None, datetime]:
        """From now, or from the step of the lab's clock before, for the length asked for, to the step after."""
        raster = self.policy.raster_s
        start = None if job.start <= now else round_to_raster(job.start, raster, self.zone, up=False)
        return start, round_to_raster((start or now) + job.booked, raster, self.zone, up=True)

    def _live(self, job: Job, made: Reservation) -> None:
        """Puts down what follows: its start unless it is now, its end, and its release where the job is done before.

        The job begins when its reservation does and runs as long as it did.
        """
        self.made += 1
        done = made.start + job.used
        over = done - made.end
        if over > timedelta():
            self.overran += 1
            self.overrun_s += job.count * (over // timedelta(seconds=1))
        if made.status == Status.BOOKED:
            self.agenda.add(made.start, _Turn.START, self._changing(lambda now: booking.advance_one(made.pk, now=now)))
        if over < timedelta():
            self.agenda.add(done, _Turn.RELEASE, self._changing(lambda now: self._release(made, now)))
        else:
            self.agenda.add(made.end, _Turn.END, self._changing(lambda now: booking.advance_one(made.pk, now=now)))

    def _release(self, made: Reservation, now: datetime) -> None:
        try:
            changes.release(made.pk, by=made.holder, version=None, now=now, origin="command")
        except Refused as refused:
            self.not_released.update({str(code) for code in refused.codes})

    def _changing(self, act: _Act) -> _Act:
        def timed(now: datetime) -> None:
            began = time.perf_counter()
            act(now)
            self.changes.append(time.perf_counter() - began)

        return timed

    def _result(self) -> Result:
        log = self.log
        ledger, free = _ledger(LedgerEntry.Account.QUOTA), _ledger(LedgerEntry.Account.FREE)
        booked = Reservation.objects.annotate(cards=Count("allocations")).values_list("start", "end", "cards")
        held, overlaps = _held()
        return Result(
            self.policy_name, str(self.asked), len(log.jobs), log.skipped, len(log.people), len(log.hosts), len(log.places),
            self.made, len(log.jobs) - self.made, _most_first(self.reasons), _most_first(self.alone),
            sum((end - start) // timedelta(seconds=1) * cards for start, end, cards in booked), held, self.overran,
            self.overrun_s, ledger, sum(ledger.values()), free, overlaps, dict(self.not_released),
            Seconds.of(self.requests), Seconds.of(self.changes),
        )


def _most_first(counter: Counter[str]) -> dict[str, int]:
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))


def _ledger(account: str) -> dict[str, int]:
    rows = LedgerEntry.objects.filter(account=account).values("reason").annotate(sum=Sum("units")).order_by("reason")
    return {row["reason"]: row["sum"] for row in rows}


def _held() -> tuple[int, int]:
    """Seconds × cards that were really held, and how often a card was held twice at one instant (never, or P1 is broken)."""
    seconds = overlaps = 0
    card, until = 0, FIRST_SECOND
    kept = [Status.BOOKED, Status.ACTIVE, Status.FINISHED, Status.RELEASED]
    rows = Allocation.objects.filter(status__in=kept).order_by("gpu", "start", "end").values_list("gpu", "start", "end")
    for gpu, start, end in rows.iterator():
        seconds += (end - start) // timedelta(seconds=1)
        if gpu == card and start < until:
            overlaps += 1
        until = max(until, end) if gpu == card else end
        card = gpu
    return seconds, overlaps


def _make_cards(places: Iterable[Place]) -> dict[Place, Gpu]:
    ordered = sorted(places, key=lambda place: (place.host, place.bus_id))
    # Nobody reads these cards: the choice of a card must not wait for a reading.
    hosts = {
        name: Host.objects.create(name=name, has_reader=False, simulated=True)
        for name in sorted({place.host for place in ordered})
    }
    pools = {name: Pool.objects.create(name=name) for name in sorted({place.model for place in ordered})}
    numbers: defaultdict[str, itertools.count[int]] = defaultdict(itertools.count)
    return {
        place: Gpu.objects.create(
            uuid=place.uuid, host=hosts[place.host], pool=pools[place.model], model=place.model, bus_id=place.bus_id,
            index=next(numbers[place.host]),
        )
        for place in ordered
    }


def _make_members(names: Sequence[str], now: datetime) -> dict[str, Member]:
    """One approved member per person of the log, whom nobody can sign in as."""
    return {
        name: Member.objects.create(
            email=f"person{number}@replay.invalid", name=name[:60], role="phd", approval=Member.Approval.APPROVED,
            language="en", joined_at=now, password=make_password(None),
        )
        for number, name in enumerate(names, 1)
    }
