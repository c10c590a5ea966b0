"""A small lab for the sensor's tests: hosts that are read every ten seconds, members with accounts, reservations."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction

from labgpu.agent.reading import Reading
from monitoring.models import HostReading, Sample
from monitoring.services import ingest as ingesting
from monitoring.services.ingest import Outcome, ingest
from reservations.models import Allocation, CardState, Gpu, Host, HostAccount, Member, Reservation
from reservations.rules.lifecycle import Status

PERIOD = timedelta(seconds=10)
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MIB = 1 << 20


def uuid(host: str, place: int) -> str:
    return f"GPU-{host}-{place}"


def process(pid: int, uid: int | None, **changes: Any) -> dict[str, Any]:
    """A process as an agent tells it."""
    return {
        "pid": pid, "started": 1000 + pid, "uid": uid, "kind": "C", "memory": 4000 * MIB, "problem": None, **changes,
    }


def card(host: str, place: int, running: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """A card as an agent tells it."""
    used = sum(one["memory"] or 0 for one in running) + 3 * MIB
    return {
        "uuid": uuid(host, place), "index": place, "name": "NVIDIA A100-SXM4-80GB", "bus_id": f"00000000:{place:02X}:00.0",
        "serial": None, "memory_total": 81920 * MIB, "memory_used": used, "utilization": 90 if running else 0,
        "encoder": 0, "decoder": 0, "temperature": 40, "power_mw": 60_000, "problem": None, "processes": running,
        **changes,
    }


@dataclass
class World:
    """Feeds readings of one host and keeps the count. Times are aware instants."""

    host: str = "a100"
    boot: str = "boot-1"
    sequence: int = 0
    cards: int = 1
    simulated: bool = False
    on: dict[int, list[dict[str, Any]]] = field(default_factory=dict)  # what runs on each card
    changes: dict[int, dict[str, Any]] = field(default_factory=dict)  # what else is different about a card

    def reading(self, at: datetime, **changes: Any) -> dict[str, Any]:
        self.sequence += 1
        return {
            "format": 1, "host": self.host, "boot_id": self.boot, "sequence": self.sequence, "taken_at": at.timestamp(),
            "took_ms": 20, "driver": "580.95.05", "problem": None, "simulated": self.simulated,
            "cards": [
                card(self.host, place, self.on.get(place, []), **self.changes.get(place, {})) for place in range(self.cards)
            ],
            **changes,
        }

    def look(self, at: datetime, *, received: datetime | None = None, **changes: Any) -> Outcome:
        return ingest(self.reading(at, **changes), now=received or at, period=PERIOD)

    def play(self, start: datetime, until: datetime, *, judged: int = 20) -> datetime:
        """A reading every ten seconds in `[start, until]`; returns the time of the last.

        In a long stretch those between the first five and the last `judged` (the first `judged`, if fewer) are stored and not
        judged, as when the judge is down: that must make no difference, and saves the tests nearly all their time.
        """
        last = (until - start) // PERIOD
        unjudged = range(min(5, judged), last - judged)
        for place in range(last + 1):
            if place not in unjudged:
                self.look(start + place * PERIOD)
            elif place == unjudged[0]:
                self.store([start + one * PERIOD for one in unjudged])
        return start + last * PERIOD

    def store(self, instants: list[datetime]) -> None:
        """Readings of these instants that differ in nothing else, stored and not judged. The first and the last go the way of
        all readings; those between leave nothing but the first one's samples at their own times (a test holds this)."""
        host = Host.objects.get(name=self.host)
        gpus = {gpu.uuid: gpu for gpu in host.gpus.all()}
        first, *between = instants[:-1] or instants
        with transaction.atomic():
            self._keep(host, gpus, first)
            rows = list(Sample.objects.filter(gpu__in=gpus.values(), at=first))
            copies = [copy.copy(row) for _ in between for row in rows]
            for row, at in zip(copies, [at for at in between for _ in rows], strict=True):
                row.pk, row.at, row.received_at = None, at, at
            Sample.objects.bulk_create(copies, ignore_conflicts=True)
            self.sequence += len(between)
            if len(instants) > 1:
                if between:  # the host was heard all the time
                    HostReading.objects.filter(host=host).update(received_at=between[-1], taken_at=between[-1])
                self._keep(host, gpus, instants[-1])

    def _keep(self, host: Host, gpus: dict[str, Gpu], at: datetime) -> None:
        ingesting._keep(Reading.from_dict(self.reading(at)), host, gpus, at, PERIOD)

    def gpu(self, place: int = 0) -> Gpu:
        return Gpu.objects.get(uuid=uuid(self.host, place))

    def state(self, place: int = 0) -> str | None:
        return CardState.objects.filter(gpu__uuid=uuid(self.host, place)).values_list("state", flat=True).first()

    def member(self, name: str, uid: int | None = None) -> Member:
        member = Member.objects.create_user(
            f"{name}@lab.example", name=name, approval=Member.Approval.APPROVED, role="phd"
        )
        if uid is not None:
            self.map(member, uid)
        return member

    def map(self, member: Member, uid: int) -> None:
        HostAccount.objects.create(
            member=member, host=Host.objects.get(name=self.host), unix_name=member.name, uid=uid
        )

    def book(
        self, member: Member, start: datetime, end: datetime, *, places: tuple[int, ...] = (0,),
        gpus: tuple[Gpu, ...] = (), status: Status = Status.ACTIVE,
    ) -> Allocation:
        """A reservation as the booking service would have left it; returns the allocation of its first card."""
        reservation = Reservation.objects.create(
            holder=member, status=status, tier="regular", rank_tier=1, start=start, end=end, booked_at=start
        )
        rows = [
            Allocation.objects.create(
                reservation=reservation, gpu=gpu, status=status, start=start, end=end, weight=100
            )
            for gpu in gpus or tuple(self.gpu(place) for place in places)
        ]
        return rows[0]
