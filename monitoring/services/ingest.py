"""Taking in a reading: once, whatever is sent again, late or shuffled."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from django.db import transaction

from labgpu.agent.reading import BadReading, Card, Process, Reading
from reservations import queries as ledger
from reservations.models import Gpu, Host
from reservations.rules.policy import Policy
from reservations.services import inventory
from reservations.services.inventory import SeenCard

from .. import queries
from ..models import Downtime, HostReading, ProcessInterval, Sample
from ..rules.snapshot import SeenProcess, is_fresh, owner_of
from . import judge

log = logging.getLogger(__name__)

_HOST_NAME = re.compile(r"[-a-zA-Z0-9_]{1,63}")
# `graphics_unread` still tells who computes.
_HARMLESS = frozenset({"graphics_unread", "processes_unread"})


class Outcome(StrEnum):
    """What became of a reading."""

    STORED = "stored"
    LATE = "late"
    REPEATED = "repeated"
    IGNORED = "ignored"
    REFUSED = "refused"


def ingest(data: object, *, now: datetime, period: timedelta) -> Outcome:
    """Stores a reading that came over the broker and judges its host's cards.

    What is no reading is logged and refused; nothing of it is kept. A host that names cards and is not known yet is
    entered. The same reading again stores nothing, an older one only samples that are missing; neither changes what was
    decided. Judging follows in transactions of its own: whoever is killed between finds it done by the next sweep.
    """
    try:
        reading = Reading.from_dict(data)
    except BadReading as problem:
        log.warning("A reading was refused: %s", problem)
        return Outcome.REFUSED
    host = _host(reading)
    if isinstance(host, Outcome):
        return host
    gpus = {gpu.uuid: gpu for gpu in inventory.discover(host, _seen(reading), now)}
    with transaction.atomic():
        outcome = _keep(reading, host, gpus, now, period)
    judge.judge_host(host.pk, now=now, period=period)
    return outcome


def _host(reading: Reading) -> Host | Outcome:
    """The host's row, made when new; or why nothing may be stored for it."""
    if not _HOST_NAME.fullmatch(reading.host):
        log.warning("A reading was refused: %r is no host name.", reading.host)
        return Outcome.REFUSED
    host = Host.objects.filter(name=reading.host).first()
    names_cards = any(card.uuid for card in reading.cards)
    if host is None and not names_cards:
        log.info("A reading of %s, which is not known, names no cards.", reading.host)
        return Outcome.IGNORED
    if (host is not None and host.simulated != reading.simulated) or queries.is_mixed(reading.simulated):
        log.warning("A reading of %s was refused: simulated data never stands beside real cards.", reading.host)
        return Outcome.REFUSED
    if host is None:
        host, _ = Host.objects.get_or_create(name=reading.host, defaults={"simulated": reading.simulated})
    return host


def _seen(reading: Reading) -> list[SeenCard]:
    return [
        SeenCard(card.uuid, card.index, card.name, card.bus_id, card.memory_total) for card in reading.cards if card.uuid
    ]


def _keep(reading: Reading, host: Host, gpus: Mapping[str, Gpu], now: datetime, period: timedelta) -> Outcome:
    taken = datetime.fromtimestamp(reading.taken_at, UTC)
    kept = HostReading.objects.select_for_update().filter(host=host).first()
    if kept and (kept.boot_id, kept.sequence) == (reading.boot_id, reading.sequence):
        return Outcome.REPEATED
    policy = ledger.lab_facts().policy
    tolerance = timedelta(seconds=policy.clock_tolerance_s)
    is_late = kept is not None and _is_older(reading, taken, kept, now + tolerance)
    members = ledger.members_by_uid(host.pk)
    found = [(card, gpus[card.uuid]) for card in reading.cards if card.uuid in gpus]
    lists = {gpu.pk: _processes(card, members) for card, gpu in found}
    Sample.objects.bulk_create(
        [_sample(card, gpu, lists[gpu.pk], reading, taken, now) for card, gpu in found], ignore_conflicts=True
    )
    _keep_intervals(reading, lists, taken, is_late)
    if is_late:
        return Outcome.LATE
    if kept is not None and _was_down(reading, kept, now, policy):
        Downtime.objects.create(host=host, start=kept.received_at, end=now)
    latest = HostReading(
        host=host, steady_since=_steady_since(reading, kept, now, period),
        boot_id=reading.boot_id, sequence=reading.sequence, taken_at=taken, received_at=now,
        clock_offset_s=(now - taken).total_seconds(), simulated=reading.simulated,
        problem_code=reading.problem.code if reading.problem else "",
        problem_detail=reading.problem.detail if reading.problem else "",
    )
    HostReading.objects.bulk_create(
        [latest], update_conflicts=True, unique_fields=["host"],
        update_fields=[field.name for field in HostReading._meta.concrete_fields if not field.primary_key],
    )
    return Outcome.STORED


def _was_down(reading: Reading, kept: HostReading, now: datetime, policy: Policy) -> bool:
    """Whether the host was silent long enough to count as failed, and has been restarted since."""
    restarted = bool(kept.boot_id and reading.boot_id) and kept.boot_id != reading.boot_id
    return restarted and now - kept.received_at >= timedelta(seconds=policy.lost_after_s)


def _steady_since(reading: Reading, kept: HostReading | None, now: datetime, period: timedelta) -> datetime | None:
    """Since when good readings have come without a gap; None while the host tells of trouble."""
    if reading.problem:
        return None
    if kept is None or kept.steady_since is None or not is_fresh(kept.received_at, now, period):
        return now
    return min(kept.steady_since, now)


def _is_older(reading: Reading, taken: datetime, kept: HostReading, latest: datetime) -> bool:
    """Whether the reading was made before the one that is kept, by the host's clock and by its count.

    By both, because either may be set back: the clock by its keeper, the count by a restart (it starts from the clock). A
    kept one from after `latest` was made before the server's own clock was set back, and gives way.
    """
    counted_before = reading.boot_id != kept.boot_id or reading.sequence < kept.sequence
    return counted_before and taken <= kept.taken_at <= latest


def _processes(card: Card, members: Mapping[int, int]) -> list[SeenProcess] | None:
    if card.processes is None:
        return None
    return [_process(one, members) for one in card.processes]


def _process(one: Process, members: Mapping[int, int]) -> SeenProcess:
    owner, member = owner_of(one.uid, members)
    return SeenProcess(one.pid, one.started, one.uid, one.memory, one.kind, owner, member)


def _sample(
    card: Card, gpu: Gpu, processes: list[SeenProcess] | None, reading: Reading, taken: datetime, now: datetime
) -> Sample:
    code = card.problem.code if card.problem else ""
    return Sample(
        gpu=gpu, at=taken, received_at=now, problem="" if code in _HARMLESS else code[:40],
        utilization=card.utilization, encoder=card.encoder, decoder=card.decoder, memory_used=card.memory_used,
        temperature=card.temperature, power_mw=card.power_mw,
        has_processes=None if processes is None else bool(processes),
        processes=None if processes is None else [one.packed() for one in processes], simulated=reading.simulated,
    )


def _keep_intervals(
    reading: Reading, lists: Mapping[int, list[SeenProcess] | None], taken: datetime, is_late: bool
) -> None:
    rows = [
        ProcessInterval(
            gpu_id=gpu_id, boot_id=reading.boot_id, pid=one.pid, started=one.started, uid=one.uid,
            member_id=one.member_id, owner=one.owner, first_seen=taken, last_seen=taken,
        )
        for gpu_id, processes in lists.items()
        for one in processes or ()
        if one.started is not None
    ]
    if is_late:  # what came later has said it already
        ProcessInterval.objects.bulk_create(rows, ignore_conflicts=True)
        return
    ProcessInterval.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["gpu", "boot_id", "pid", "started"],
        update_fields=["last_seen", "uid", "member", "owner"],
    )
