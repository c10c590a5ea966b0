"""What the sensor tells the ledger. Called by monitoring only; never written means unknown (I1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from .. import queries
from ..models import Allocation, CardState, FreedSlot


@dataclass(frozen=True)
class Sighting:
    """One judged look at one card. `sampled_at` is when the host looked, by the server's clock.

    `owner_ids`: members whose processes were seen, verified or resolved. `None` stands for what could not be read.
    """

    gpu_id: int
    state: CardState.State
    sampled_at: datetime
    utilization: int | None = None
    memory_used: int | None = None
    temperature: int | None = None
    process_count: int | None = None
    owner_ids: tuple[int, ...] = ()
    simulated: bool = False


def record(sightings: Iterable[Sighting], *, now: datetime | None = None) -> None:
    """Keeps the latest sighting of each card; an older one than what is kept changes nothing.

    One that is kept from after `now` was made before a clock was set back: it gives way, or the card would stand still.
    `since` stays while the state stays; `free_streak` counts sightings in a row that showed the card free (H4).
    """
    wanted = {one.gpu_id: one for one in sightings}
    kept = {row.gpu_id: row for row in CardState.objects.filter(gpu__in=wanted)}
    rows = []
    for gpu_id, one in wanted.items():
        old = kept.get(gpu_id)
        is_from_future = old is not None and now is not None and old.sampled_at > now
        if old is not None and old.sampled_at >= one.sampled_at and not is_from_future:
            continue
        same = old is not None and old.state == one.state
        free = one.state == CardState.State.FREE
        rows.append(
            CardState(
                gpu_id=gpu_id, state=one.state, since=old.since if old and same else one.sampled_at,
                sampled_at=one.sampled_at, utilization=one.utilization, memory_used=one.memory_used,
                temperature=one.temperature, process_count=one.process_count, owner_ids=list(one.owner_ids),
                free_streak=(old.free_streak if old else 0) + 1 if free else 0, simulated=one.simulated,
            )
        )
    _tell_waitlist({row.gpu_id: (row.sampled_at, row.state == CardState.State.FREE) for row in rows})
    CardState.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["gpu"],
        update_fields=[
            "state", "since", "sampled_at", "utilization", "memory_used", "temperature", "process_count", "owner_ids",
            "free_streak", "simulated",
        ],
    )


def lose(lost: Mapping[int, tuple[datetime, CardState.Lost]]) -> None:
    """Notes which cards are proved to be gone, since when and how (G6); every other one is there, or nobody knows.

    Writes only what has changed. A card that was never sampled has no state and is not lost.
    """
    for row in CardState.objects.exclude(lost_since=None).exclude(gpu__in=lost):
        CardState.objects.filter(pk=row.pk).update(lost_since=None, lost_how="")
    for gpu_id, (since, how) in lost.items():
        rows = CardState.objects.filter(gpu=gpu_id)
        rows.exclude(lost_since__isnull=False, lost_how=how).update(lost_since=since, lost_how=how)


def _tell_waitlist(looks: Mapping[int, tuple[datetime, bool]]) -> None:
    """Counts samples in a row that showed a given-back card free: after enough of them the waitlist may offer it (H4)."""
    slots = list(FreedSlot.objects.filter(gpu__in=looks, ready_at=None))
    if not slots:
        return
    enough = queries.lab_facts().policy.samples_in_a_row
    for slot in slots:
        sampled_at, is_free = looks[slot.gpu_id]
        if sampled_at <= slot.at:
            continue  # it shows the card as it was before
        slot.looks = slot.looks + 1 if is_free else 0
        slot.ready_at = sampled_at if slot.looks >= enough else None
    FreedSlot.objects.bulk_update(slots, ["looks", "ready_at"])


def saw_processes(seen: Mapping[int, datetime]) -> None:
    """Notes that processes of the holder or a collaborator were seen under these allocations (id → when).

    The first sighting is kept for ever; the last only moves forward. Two statements for each instant, however many cards.
    """
    together: defaultdict[datetime, list[int]] = defaultdict(list)
    for allocation_id, at in seen.items():
        together[at].append(allocation_id)
    for at, ids in together.items():
        Allocation.objects.filter(pk__in=ids, first_seen=None).update(first_seen=at)
        Allocation.objects.filter(pk__in=ids).filter(Q(last_seen=None) | Q(last_seen__lt=at)).update(last_seen=at)
