"""Cards, hosts, pools and their windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from django.db.models import Prefetch, Q, QuerySet

from ..holidays import public_days
from ..models import CardState, Gpu, Host, HostAccount, Pool, SpecialDay
from ..prepared import prepared
from ..rules.facts import Card, PoolFacts
from ..rules.windows import Timetable
from .lab import LabFacts


def pool_mates(card_ids: Iterable[int]) -> list[int]:
    """These cards, and all that serve in their pools: what sums over a pool rest on (G4, G7)."""
    return _mate_ids(list(card_ids))


@prepared
def _mate_ids(card_ids: list[int]) -> QuerySet[Gpu, int]:
    return _mates(card_ids).order_by("pk").values_list("pk", flat=True)


def _mates(card_ids: Iterable[int]) -> QuerySet[Gpu]:
    wanted = list(card_ids)
    pools = Gpu.objects.filter(pk__in=wanted).values("pool")
    return Gpu.objects.filter(Q(pk__in=wanted) | Q(pool__in=pools, service=Gpu.Service.IN_SERVICE))


def serving_cards(pool_id: int | None) -> list[int]:
    """The cards in service, of one pool or of all."""
    return _serving_ids(pool_id)


@prepared
def _serving_ids(pool_id: int | None) -> QuerySet[Gpu, int]:
    return _serving(pool_id).order_by("pk").values_list("pk", flat=True)


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
    special = {**public_days(lab.holidays), **dict(_special_days())}
    facts = {}
    for row in _pool_rows(pool_ids):
        large = len(serving[row.pk]) >= LARGE_POOL
        windows = tuple(window for window in lab.policy.windows if window.pool_id in (None, row.pk))
        facts[row.pk] = PoolFacts(
            frozenset(serving[row.pk]), Timetable(windows, lab.zone, special),
            row.reserve if row.reserve is not None else lab.policy.emergency_reserve if large else 0,
            row.quick if row.quick is not None else lab.policy.quick_cards if large else 0,
        )
    return facts


def timetable_of_all(lab: LabFacts) -> Timetable | None:
    """The windows that hold for every card alike; None where some hold for one pool only, or there are none."""
    windows = lab.policy.windows
    if not windows or any(window.pool_id is not None for window in windows):
        return None
    return Timetable(tuple(windows), lab.zone, {**public_days(lab.holidays), **dict(_special_days())})


@prepared
def _special_days() -> QuerySet[SpecialDay, tuple[date, bool]]:
    return SpecialDay.objects.values_list("day", "is_working")


@prepared
def _pool_rows(pool_ids: Sequence[int]) -> QuerySet[Pool]:
    return Pool.objects.filter(pk__in=pool_ids)


def cards(ids: Iterable[int] | None = None) -> dict[int, Card]:
    """The cards with these ids (all, when None), by id."""
    return _as_cards(_all_cards() if ids is None else _cards_named(list(ids)))


def cards_and_mates(card_ids: Iterable[int]) -> dict[int, Card]:
    """These cards and all that serve in their pools, by id."""
    return _as_cards(_cards_and_mates(list(card_ids)))


def cards_serving(pool_id: int | None) -> dict[int, Card]:
    """The cards in service, of one pool or of all, by id."""
    return _as_cards(_cards_serving(pool_id))

_CARD = (
    "pk", "index", "service", "pool_id", "bus_id", "model", "memory_total", "pool__weight", "host__name", "host__has_reader",
    "state__state",
)


@prepared
def _all_cards() -> QuerySet[Gpu, tuple[Any, ...]]:
    return Gpu.objects.values_list(*_CARD)


@prepared
def _cards_named(ids: list[int]) -> QuerySet[Gpu, tuple[Any, ...]]:
    return Gpu.objects.filter(pk__in=ids).values_list(*_CARD)


@prepared
def _cards_and_mates(card_ids: list[int]) -> QuerySet[Gpu, tuple[Any, ...]]:
    return _mates(card_ids).values_list(*_CARD)


@prepared
def _cards_serving(pool_id: int | None) -> QuerySet[Gpu, tuple[Any, ...]]:
    return _serving(pool_id).values_list(*_CARD)


def _as_cards(rows: Iterable[tuple[Any, ...]]) -> dict[int, Card]:
    return {
        pk: Card(
            pk, f"{host}:{index}", weight, service == Gpu.Service.IN_SERVICE, pool, host, bus_id, model, memory,
            # The system may pick for a walk-in what was seen free, or what nobody reads (D2).
            not has_reader or state == CardState.State.FREE,
        )
        for pk, index, service, pool, bus_id, model, memory, weight, host, has_reader, state in rows
    }


def fleet() -> list[Gpu]:
    """All cards with host, pool and what the sensor last said, in the order of pages."""
    return list(Gpu.objects.select_related("host", "pool", "state").order_by("host__name", "index", "pk"))


def members_by_uid(host_id: int) -> dict[int, int]:
    """uid → member id for the accounts known on one host (I3: verified)."""
    return dict(HostAccount.objects.filter(host=host_id).values_list("uid", "member_id"))


def hosts_listed() -> list[Host]:
    """All hosts with their cards, each card with its pool."""
    return list(Host.objects.prefetch_related(Prefetch("gpus", Gpu.objects.select_related("pool").order_by("index", "pk"))))


def hosts_named() -> list[Host]:
    """All hosts by name, without their cards."""
    return list(Host.objects.all())


def gpus_named(ids: Iterable[int]) -> list[Gpu]:
    """These cards with their hosts."""
    return list(Gpu.objects.select_related("host").filter(pk__in=list(ids)))


def pools_by_name() -> dict[int, str]:
    """All pools by their ids, in the order of their names."""
    return dict(Pool.objects.values_list("pk", "name"))


def pool_names() -> list[str]:
    """The names of all pools."""
    return list(Pool.objects.values_list("name", flat=True))
