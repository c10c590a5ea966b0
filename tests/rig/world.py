"""A lab to fight over: members, cards, a policy with room for the fight."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from reservations.models import Gpu, Host, Lab, Member, Pool
from reservations.rules.policy import Policy

MORNING = datetime(2026, 3, 2, 0, 0, tzinfo=UTC)  # a Monday, 08:00 in Shanghai


@dataclass(frozen=True)
class World:
    """Keys of what was made, and the lab's zone."""

    members: list[int]
    cards: list[int]
    zone: ZoneInfo

    def member(self, index: int = 0) -> Member:
        return Member.objects.get(pk=self.members[index])


def make(
    *, members: int = 2, cards: int = 2, zone: str = "Asia/Shanghai", weekly_hours: int = 100_000, weight: int = 100,
    **policy: Any,
) -> World:
    """A lab whose only limits are those named (everything else is wide open)."""
    wide: dict[str, Any] = {
        "cards_at_once": 1000, "open_future": 1000, "roles": {"master": {"weekly_hours": weekly_hours}}, "windows": [],
        "walk_in_free_hours": 0, "walk_in_longest_s": 72 * 3600, "walk_in_cards": 1000, "late_cancel_percent": 0,
        "mode": "person", "displacement": False, "elastic": False, "returned_late_s": 0, **policy,
    }
    values = Policy.from_json(wide).to_json()
    Lab.objects.update_or_create(pk=1, defaults={"name": "Rig", "zone": zone, "policy": values, "set_up_at": MORNING})
    host, _ = Host.objects.get_or_create(name="rig")
    pool, _ = Pool.objects.get_or_create(name=f"weight {weight}", defaults={"weight": weight})
    return World(more_members(members), more_cards(cards, host, pool), ZoneInfo(zone))


def more_members(count: int) -> list[int]:
    """Approved members beside those there are."""
    first = Member.objects.count()
    rows = [
        Member(email=f"m{first + i}@lab.test", name=f"Member {first + i}", approval=Member.Approval.APPROVED, password="!")
        for i in range(count)
    ]
    return [row.pk for row in Member.objects.bulk_create(rows)]


def more_cards(count: int, host: Host | None = None, pool: Pool | None = None) -> list[int]:
    """Cards beside those there are."""
    host, pool = host or Host.objects.get(name="rig"), pool or Pool.objects.order_by("pk")[0]
    first = Gpu.objects.count()
    rows = [
        Gpu(uuid=f"GPU-{first + i}", host=host, pool=pool, model="Rig 1", index=first + i, memory_total=24 * 2**30)
        for i in range(count)
    ]
    return [row.pk for row in Gpu.objects.bulk_create(rows)]
