"""Hosts, cards and pools: added by an admin, or found by the sensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction

from .. import permissions, queries
from ..models import Allocation, AuditEntry, CardState, Gpu, Host, Member, Pool
from ..rules.lifecycle import Status
from ..rules.refusal import Code, Refused, refuse
from ..rules.supply import taken
from . import audit, interrupting, locking
from .held import guarded


@dataclass(frozen=True)
class SeenCard:
    """A card as a host's reader names it. `memory_total` in bytes; what could not be read is None or empty."""

    uuid: str
    index: int
    model: str | None = None
    bus_id: str | None = None
    memory_total: int | None = None


def add_host(*, by: Member, name: str, has_reader: bool, now: datetime) -> Host:
    """Adds a host. Raises `Refused` when the name is taken."""
    _admin(by)
    try:
        with transaction.atomic():
            host = Host.objects.create(name=name, has_reader=has_reader)
            audit.note("add_host", host, actor=by, origin="page", now=now, name=name, has_reader=has_reader)
    except IntegrityError as problem:
        raise refuse(Code.HOST_KNOWN, name=name) from problem
    return host


def set_reader(host_id: int, has_reader: bool, *, by: Member, now: datetime) -> Host:
    """Declares whether a host's cards are read. Without a reader they are never judged."""
    _admin(by)
    with transaction.atomic():
        host = Host.objects.select_for_update().get(pk=host_id)
        if host.has_reader != has_reader:
            host.has_reader = has_reader
            host.save(update_fields=["has_reader"])
            audit.note("set_reader", host, actor=by, origin="page", now=now, has_reader=has_reader)
    return host


def add_card(
    *, by: Member, host_id: int, uuid: str, model: str, memory_total: int | None, index: int, pool: str, now: datetime
) -> Gpu:
    """Adds one card by hand, in the pool of this name (made when new). Raises `Refused` when the UUID is known."""
    _admin(by)
    try:
        with transaction.atomic():
            home, _ = Pool.objects.get_or_create(name=pool)
            gpu = Gpu.objects.create(
                uuid=uuid, host_id=host_id, pool=home, model=model, memory_total=memory_total, index=index
            )
            audit.note(
                "add_card", gpu, actor=by, origin="page", now=now, uuid=uuid, host=host_id, pool=pool, model=model,
                index=index,
            )
    except IntegrityError as problem:
        known = Gpu.objects.select_related("host").filter(uuid=uuid).first()
        if known is None:
            raise
        raise refuse(Code.CARD_KNOWN, uuid=uuid, card=str(known)) from problem
    return gpu


def set_service(gpu_id: int, service: Gpu.Service, *, by: Member, now: datetime, reason: str = "") -> Gpu:
    """Takes a card out of service or puts it back (G5). What is booked on it stays; new requests are refused."""
    _admin(by)
    with transaction.atomic():
        gpu = Gpu.objects.select_for_update(of=("self",)).select_related("host").get(pk=gpu_id)
        if gpu.service != service:
            gpu.service = service
            gpu.save(update_fields=["service"])
            audit.note("set_service", gpu, actor=by, origin="page", now=now, reason=reason, service=str(service))
    return gpu


def replace(old_id: int, new_id: int, *, by: Member, now: datetime) -> list[int]:
    """Gives what is to come on the old card to the new one, and takes the old one out of service (G6).

    What is active stays where it is. Holders are told; returns their reservations. Raises `Refused`: not another card in
    service, or one that is not free for all of it; then nothing is moved. Done already, it does nothing.
    """
    _admin(by)
    while True:
        rows = Allocation.objects.filter(gpu=old_id, status=str(Status.BOOKED), start__gt=now)
        members = set(rows.values_list("reservation__holder", flat=True))
        with guarded(), locking.hold(members=[by.pk, *members], cards=queries.pool_mates([old_id, new_id])):
            old = Gpu.objects.select_related("host").get(pk=old_id)
            new = Gpu.objects.select_related("host").filter(pk=new_id, service=Gpu.Service.IN_SERVICE).first()
            if new is None or new.pk == old.pk:
                raise refuse(Code.NOT_A_REPLACEMENT)
            coming = list(rows.select_related("reservation"))
            if not {row.reservation.holder_id for row in coming} <= members:
                continue  # somebody has booked meanwhile
            against = [
                taken(one, str(new)) for row in coming for one in queries.holdings_between([new.pk], row.start, row.end)
            ]
            if against:
                raise Refused(against)
            if old.service == Gpu.Service.OUT_OF_SERVICE and not coming:
                return []
            moved = interrupting.replace_card(old, new, now=now)
            Gpu.objects.filter(pk=old.pk).update(service=Gpu.Service.OUT_OF_SERVICE)
            audit.note("replace", old, actor=by, origin="page", now=now, new=new.pk, reservations=moved)
            return moved


def discover(host: Host, cards: Iterable[SeenCard], now: datetime) -> list[Gpu]:
    """Makes the ledger know the cards that a host's reader named; returns the cards of the host that were named.

    A UUID never seen becomes a card in the pool named after its model. A known one gets the index, bus id and memory it
    has now, and moves to the host that names it once the host it was on has stopped reading it: of two hosts that name one
    card at once, the first keeps it. Its pool and service stay as the admins set them. A simulated host never takes a real
    card, nor the reverse. Nothing that could not be read overwrites what is known. The same call again
    writes nothing; the number of queries does not grow with the cards.
    """
    seen = {card.uuid: card for card in cards if card.uuid}
    if not seen:
        return []
    known = _known(seen)
    if len(known) == len(seen) and not _changed(host, seen, known.values(), now):
        return _of(host, known.values())
    with transaction.atomic():
        known = _known(seen)
        entries = [
            _entry("change_card", gpu, now, **before) for gpu, before in _changed(host, seen, known.values(), now)
        ]
        changed = [gpu for gpu, _ in _changed(host, seen, known.values(), now, apply=True)]
        Gpu.objects.bulk_update(changed, ["host", "index", "bus_id", "memory_total"])
        new = [card for card in seen.values() if card.uuid not in known]
        if new:
            _add(host, new)
            known = _known(seen)
            fresh = {card.uuid for card in new}
            entries += [
                _entry("find_card", gpu, now, uuid=gpu.uuid, host=gpu.host_id, model=gpu.model, index=gpu.index)
                for gpu in known.values()
                if gpu.uuid in fresh
            ]
        AuditEntry.objects.bulk_create(entries)
    return _of(host, known.values())


def _admin(by: Member) -> None:
    if not permissions.may(by, permissions.Action.ADMINISTER):
        raise refuse(Code.NOT_YOURS)


def _known(uuids: Iterable[str]) -> dict[str, Gpu]:
    return {gpu.uuid: gpu for gpu in Gpu.objects.select_related("host", "state").filter(uuid__in=list(uuids))}


def _of(host: Host, gpus: Iterable[Gpu]) -> list[Gpu]:
    return sorted((gpu for gpu in gpus if gpu.host_id == host.pk), key=lambda gpu: (gpu.index, gpu.pk))


def _changed(
    host: Host, seen: dict[str, SeenCard], known: Iterable[Gpu], now: datetime, *, apply: bool = False
) -> list[tuple[Gpu, dict[str, object]]]:
    """The known cards whose place or memory is not what was seen, with what it was → is; applied when asked."""
    found = []
    for gpu in known:
        if gpu.host.simulated != host.simulated or (gpu.host_id != host.pk and _is_read(gpu, now)):
            continue
        card = seen[gpu.uuid]
        wanted: dict[str, object] = {"host_id": host.pk, "index": card.index}
        if card.bus_id:
            wanted["bus_id"] = card.bus_id
        if card.memory_total is not None:
            wanted["memory_total"] = card.memory_total
        change: dict[str, object] = {
            name: [getattr(gpu, name), value] for name, value in wanted.items() if getattr(gpu, name) != value
        }
        if change:
            found.append((gpu, change))
            if apply:
                for name, value in wanted.items():
                    setattr(gpu, name, value)
    return found


def _is_read(gpu: Gpu, now: datetime) -> bool:
    """Whether the host it is on still reads the card: then another that names it too is mistaken, or lies."""
    state: CardState | None = getattr(gpu, "state", None)
    return state is not None and timedelta(0) <= now - state.sampled_at <= timedelta(seconds=3 * settings.SAMPLE_SECONDS)


def _add(host: Host, cards: Sequence[SeenCard]) -> None:
    """Inserts new cards; a card that another ingest inserted meanwhile stays as that one made it."""
    models = {card.uuid: (card.model or "GPU")[:60] for card in cards}
    names = sorted(set(models.values()))
    Pool.objects.bulk_create([Pool(name=name) for name in names], ignore_conflicts=True)
    pools = {pool.name: pool for pool in Pool.objects.filter(name__in=names)}
    Gpu.objects.bulk_create(
        [
            Gpu(
                uuid=card.uuid, host=host, pool=pools[models[card.uuid]], model=(card.model or "GPU")[:80],
                memory_total=card.memory_total, bus_id=card.bus_id or "", index=card.index,
            )
            for card in cards
        ],
        ignore_conflicts=True,
    )


def _entry(verb: str, gpu: Gpu, now: datetime, **change: object) -> AuditEntry:
    return AuditEntry(
        at=now, actor=None, origin="sensor", verb=verb, subject="gpu", subject_id=gpu.pk, change=change
    )
