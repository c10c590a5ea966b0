"""Reads of the sensor: the only place where rows become the values that rules decide on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Case, DateTimeField, F, FilteredRelation, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.functions import Coalesce

from reservations import queries as ledger
from reservations.models import Allocation, Collaborator, Gpu, Host
from reservations.rules.lifecycle import Status
from reservations.rules.policy import Policy

from .models import HostReading, Incident, ProcessInterval, Sample
from .rules.cleanup import Watched
from .rules.lost import Answers, Seen
from .rules.overrun import Track
from .rules.snapshot import Look, SeenProcess, Tenure
from .rules.use import Account, Use
from .rules.verdicts import CardFacts, Heartbeat

# How many periods of samples one judgement looks back on: two runs and what closes an incident, with room for gaps.
_PERIODS_SEEN = 6
_SLACK = timedelta(hours=1)
# Rows of an account read at a time.
_CHUNK = 500


@dataclass(frozen=True)
class CardWatch:
    """One card with all that its judgement needs. `tracks`: what is on record, by allocation."""

    gpu_id: int
    label: str
    uuid: str
    facts: CardFacts
    tracks: Mapping[int, Track]


@dataclass(frozen=True)
class HostWatch:
    """One host as the judge sees it."""

    host_id: int
    simulated: bool
    policy: Policy
    heartbeat: Heartbeat
    cards: Sequence[CardWatch]


def is_mixed(simulated: bool) -> bool:
    """Whether cards of the other kind are known: simulated data never stands beside real cards."""
    return Gpu.objects.exclude(host__simulated=simulated).exists()


def watched_host_ids() -> list[int]:
    """Hosts that have ever been read."""
    return list(HostReading.objects.order_by("host").values_list("host", flat=True))


def host_watch(host_id: int, *, now: datetime, period: timedelta) -> HostWatch | None:
    """Everything about the host's cards that a judgement needs, in a constant number of statements."""
    reading = HostReading.objects.select_related("host").filter(host=host_id).first()
    if reading is None:
        return None
    policy = ledger.lab_facts().policy
    tolerance = timedelta(seconds=policy.clock_tolerance_s)
    last = Sample.objects.filter(gpu=OuterRef("pk"), at__lte=now + tolerance).order_by("-at").values("at")[:1]
    gpus = list(Gpu.objects.filter(host=host_id).annotate(last_at=Subquery(last)).order_by("index", "pk"))
    ids = [gpu.pk for gpu in gpus]
    span = (2 * policy.samples_in_a_row + _PERIODS_SEEN) * period
    looks = looks_between(ids, now - span, now, tolerance)
    ended_since = now - timedelta(seconds=max(policy.overrun_first_sight_s, policy.overrun_unwaited_s)) - _SLACK
    tenures = tenures_on(ids, ended_since, now)
    tracks = overruns_on(ids, tenures)
    host = reading.host
    cards = [
        CardWatch(
            gpu.pk, f"{host.name}:{gpu.index}", gpu.uuid,
            CardFacts(
                looks[gpu.pk], tenures[gpu.pk], None if gpu.last_at is None else min(gpu.last_at, now),
                frozenset(pk for pk, track in tracks[gpu.pk].items() if track.is_open),
            ),
            tracks[gpu.pk],
        )
        for gpu in gpus
    ]
    return HostWatch(
        host.pk, host.simulated, policy,
        Heartbeat(reading.received_at, reading.problem_code, reading.clock_offset_s), cards,
    )


def overruns_on(gpu_ids: Iterable[int], tenures: defaultdict[int, list[Tenure]]) -> defaultdict[int, dict[int, Track]]:
    """What is on record of overruns on these cards: of these tenures, and whatever is open. The tenure of what ended long ago and
    is still open is put first among the card's."""
    incidents = Incident.objects.filter(kind=Incident.Kind.OVERRUN, gpu__in=list(gpu_ids)).filter(
        Q(closed_at=None) | Q(allocation__in=[one.allocation_id for some in tenures.values() for one in some])
    )
    tracks: defaultdict[int, dict[int, Track]] = defaultdict(dict)
    known = {one.allocation_id for some in tenures.values() for one in some}
    rows = list(incidents.select_related("allocation__reservation"))
    old = {row.allocation.reservation_id for row in rows if row.allocation_id not in known}
    beside = ledger.collaborator_ids(old) if old else {}
    for incident in rows:
        held = incident.allocation
        tracks[incident.gpu_id][held.pk] = Track(
            incident.closed_at is None, incident.counted_at is not None, incident.first_sight
        )
        if held.pk not in known:
            tenures[incident.gpu_id].insert(
                0, Tenure(held.pk, held.reservation_id, incident.member_id, held.start, held.end, beside[held.reservation_id])
            )
    return tracks


def unbooked_watch(
    since: datetime, now: datetime, policy: Policy, *, only: Iterable[int] | None = None
) -> dict[int, Watched]:
    """Every card in service that somebody reads, or `only` these of them, with what was seen in `[since, now]` and whose time it
    was (F3): in a constant number of statements."""
    rows = Gpu.objects.filter(service=Gpu.Service.IN_SERVICE, host__has_reader=True).select_related("host__reading")
    gpus = list(rows.order_by("host__name", "index", "pk") if only is None else rows.filter(pk__in=list(only)).order_by("pk"))
    ids = [gpu.pk for gpu in gpus]
    looks = looks_between(ids, since, now, timedelta(seconds=policy.clock_tolerance_s))
    tenures = tenures_on(ids, since - timedelta(seconds=policy.overrun_first_sight_s), now)
    tracks = overruns_on(ids, tenures)
    closed = ledger.maintenance_between(ids, since, now + timedelta(microseconds=1))
    kinds = set(Host.objects.filter(gpus__isnull=False).order_by().values_list("simulated", flat=True).distinct())
    found = {}
    for gpu in gpus:
        reading: HostReading | None = getattr(gpu.host, "reading", None)
        if reading is None:  # never read: nobody expects anything of it
            continue
        some = looks[gpu.pk]
        found[gpu.pk] = Watched(
            gpu.pk, f"{gpu.host.name}:{gpu.index}", gpu.uuid, gpu.host_id,
            CardFacts(
                some, tenures[gpu.pk], some[-1].at if some else None,
                frozenset(pk for pk, track in tracks[gpu.pk].items() if track.is_open),
            ),
            Heartbeat(reading.received_at, reading.problem_code, reading.clock_offset_s), gpu.host.simulated, len(kinds) > 1,
            [one.interval for one in closed if one.card_id == gpu.pk],
        )
    return found


def first_sights(processes: Collection[tuple[int, int]]) -> dict[tuple[int, int], datetime]:
    """Since when each of these processes, named by card and number, has been seen there; the later one where a number was given
    away again."""
    rows = ProcessInterval.objects.filter(gpu__in={gpu for gpu, _ in processes}, pid__in={pid for _, pid in processes})
    return {(gpu, pid): at for gpu, pid, at in rows.order_by("first_seen").values_list("gpu", "pid", "first_seen")}


def looks_between(
    gpu_ids: Iterable[int], start: datetime, end: datetime, tolerance: timedelta
) -> defaultdict[int, list[Look]]:
    """The cards' samples as looks, in order of time. Samples whose clocks or way differ by more than `tolerance` are not
    among them: nothing may rest on those (NV-17)."""
    rows = Sample.objects.filter(
        gpu__in=list(gpu_ids), at__gte=start - tolerance, at__lte=end + tolerance
    ).values_list(
        "gpu", "at", "received_at", "problem", "utilization", "memory_used", "temperature", "processes", "simulated", "encoder",
        "decoder",
    )
    found: defaultdict[int, list[Look]] = defaultdict(list)
    for gpu_id, at, received_at, problem, utilization, memory, temperature, processes, simulated, encoder, decoder in rows:
        instant = min(at, received_at)
        if abs(received_at - at) > tolerance or not start <= instant <= end:
            continue
        try:
            packed = None if processes is None else tuple(SeenProcess.unpacked(one) for one in processes)
        except (TypeError, ValueError, KeyError):  # a row that cannot be read is a look that could not be had
            packed, problem = None, "damaged"
        found[gpu_id].append(Look(instant, problem, utilization, memory, temperature, packed, simulated, encoder, decoder))
    for some in found.values():
        some.sort(key=lambda look: look.at)
    return found


def sample_instants(gpu_id: int, start: datetime, end: datetime, tolerance: timedelta) -> list[datetime]:
    """When the card was readably sampled in `[start, end]`, in order: what coverage is counted by."""
    rows = Sample.objects.filter(
        gpu=gpu_id, at__gte=start - tolerance, at__lte=end + tolerance, problem="", has_processes__isnull=False
    ).values_list("at", "received_at")
    instants = [min(at, received) for at, received in rows if abs(received - at) <= tolerance]
    return sorted(at for at in instants if start <= at <= end)


@dataclass(frozen=True)
class Clock:
    """How far a host's clock is from the server's, and whether its readings are simulated."""

    offset_s: float
    simulated: bool


def clock_offsets(host_ids: Iterable[int]) -> dict[int, Clock]:
    """The clocks of these hosts as last read; none of one that was never read, or whose last reading failed."""
    rows = HostReading.objects.filter(host__in=list(host_ids), problem_code="")
    return {pk: Clock(offset, simulated) for pk, offset, simulated in rows.values_list("host", "clock_offset_s", "simulated")}


def tenures_on(gpu_ids: Iterable[int], since: datetime, now: datetime) -> defaultdict[int, list[Tenure]]:
    """Whose time the cards have been since `since`, by card, in order."""
    found: defaultdict[int, list[Tenure]] = defaultdict(list)
    for one in ledger.watched_allocations(gpu_ids, since, now):
        found[one.gpu_id].append(
            Tenure(one.allocation_id, one.reservation_id, one.member_id, one.start, one.end, one.beside)
        )
    return found


def answers(policy: Policy) -> list[Answers]:
    """How each host that has ever been read answers (G6)."""
    tolerance = policy.clock_tolerance_s
    return [
        Answers(
            row.host_id, row.received_at, row.steady_since or row.received_at,
            not row.problem_code and abs(row.clock_offset_s) <= tolerance,
        )
        for row in HostReading.objects.filter(host__has_reader=True)
    ]


def last_seen() -> list[Seen]:
    """When each card that serves was last there: its newest sample that did not say that it is gone, by the server's clock."""
    newest = Sample.objects.filter(gpu=OuterRef("pk")).exclude(problem="lost").order_by("-at").values("received_at")[:1]
    # Samples are put away after two days: what was lost by then stays lost.
    rows = Gpu.objects.filter(host__has_reader=True, service=Gpu.Service.IN_SERVICE).annotate(
        last_at=Coalesce(Subquery(newest), F("state__lost_since"))
    )
    return [Seen(gpu.pk, gpu.host_id, gpu.last_at) for gpu in rows.order_by("pk")]


def read_card_ids() -> list[int]:
    """The cards of hosts that somebody reads."""
    return list(Gpu.objects.filter(host__has_reader=True).order_by("pk").values_list("pk", flat=True))


# What holds or has held a card once its start has come, however it ended.
_HELD = [str(Status.BOOKED), str(Status.ACTIVE), *ledger.HELD_ONCE]


@dataclass(frozen=True)
class Accounted:
    """One card of a reservation with what was seen of it. `ended` None = it still holds."""

    reservation_id: int
    holder: str
    host: str
    index: int
    uuid: str
    tier: str
    booked_start: datetime
    booked_end: datetime
    start: datetime
    ended: datetime | None
    first_seen: datetime | None
    last_seen: datetime | None
    account: Account


def accounts(start: datetime, end: datetime, now: datetime) -> Iterator[Accounted]:
    """Every card of every reservation that began by `now` and held it at some instant of `[start, end)`, in order of time.

    One statement, read bit by bit.
    """
    return _accounts(Allocation.objects.filter(start__lt=min(end, now), end__gt=start), now)


def accounts_of(reservation_ids: Iterable[int], now: datetime) -> Iterator[Accounted]:
    """The same for these reservations."""
    return _accounts(Allocation.objects.filter(reservation__in=list(reservation_ids), start__lt=now), now)


def _accounts(rows: QuerySet[Allocation], now: datetime) -> Iterator[Accounted]:
    # Staying on is proved as long as a process was seen, not until its incident was closed: a silent host proves nothing.
    stayed = ProcessInterval.objects.filter(
        Q(member=OuterRef("reservation__holder"))
        | Q(
            member__collaborations__reservation=OuterRef("reservation"),
            member__collaborations__state=Collaborator.State.ACCEPTED,
        ),
        gpu=OuterRef("gpu"), first_seen__lt=Coalesce(OuterRef("overrun__closed_at"), now),
        last_seen__gt=OuterRef("end"),
    ).order_by("-last_seen")
    found = (
        rows.filter(status__in=_HELD)
        .annotate(overrun=FilteredRelation("incidents", condition=Q(incidents__kind=Incident.Kind.OVERRUN)))
        .annotate(
            stayed_until=Case(
                When(overrun__isnull=False, then=Subquery(stayed.values("last_seen")[:1])), output_field=DateTimeField()
            )
        )
        .order_by("start", "reservation_id", "gpu__host__name", "gpu__index", "pk")
        .values_list(
            "reservation_id", "reservation__holder__name", "gpu__host__name", "gpu__index", "gpu__uuid", "reservation__tier",
            "reservation__start", "reservation__end", "start", "end", "status", "first_seen", "last_seen", "use__observed",
            "use__present", "use__busy", "use__measured", "stayed_until", "overrun__closed_at",
        )
    )
    for (
        reservation_id, holder, host, index, uuid, tier, booked_start, booked_end, begun, ended, status, first_seen, last_seen,
        observed, present, busy, measured, stayed_until, closed_at,
    ) in found.iterator(chunk_size=_CHUNK):
        seen = Use() if observed is None else Use(observed, present, busy, measured)
        last = min(stayed_until, closed_at or now) if stayed_until else ended
        is_over = ended <= now
        account = Account(
            booked_end - booked_start, ended - begun, seen, max(last - ended, timedelta(0)), is_over,
            is_over and status == Status.RELEASED,
        )
        yield Accounted(
            reservation_id, holder, host, index, uuid, tier, booked_start, booked_end, begun, ended if is_over else None,
            first_seen, last_seen, account,
        )


def hosts_to_ask(this_host: str, scenarios: Iterable[str]) -> list[str]:
    """The names of the hosts to read. A host that nobody has entered appears by itself: this machine, or the simulated
    hosts that a scenario plays; never both, and nothing is simulated beside real cards."""
    known = {host.name: host for host in Host.objects.all()}
    unread = {host.name for host in known.values() if not host.has_reader}
    real = {host.name for host in known.values() if not host.simulated}
    played = set(scenarios)
    if (played or len(real) < len(known)) and not Gpu.objects.filter(host__simulated=False).exists():
        return sorted(played - unread - real)
    return sorted((real | {this_host}) - unread - (set(known) - real))
