"""Small makers of rows for tests; every one takes only what its test is about."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

from reservations.models import Gpu, Host, Lab, Member, Pool, Project, ProjectMember, Reservation
from reservations.rules.policy import Policy
from reservations.services import booking

# Monday 30 November 2026, 14:00 in the lab (Asia/Shanghai): on the raster, in the middle of a day.
NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)
_numbers = itertools.count(1)


def at(hours: float) -> datetime:
    """`hours` after NOW."""
    return NOW + timedelta(hours=hours)


# What tests of other things need not think of: one rate at all hours, no projects, walk-ins like any reservation, nobody
# displaced, nobody who must come.
PLAIN = {
    "mode": "person", "windows": [], "walk_in_free_hours": 0, "walk_in_longest_s": 72 * 3600, "walk_in_cards": 4,
    "late_cancel_percent": 0, "displacement": False, "elastic": False, "confirmation": False, "no_show_s": 0, "give_back_s": 0,
    "extend_ahead_s": 366 * 86_400,
}


def lab(*, zone: str = "Asia/Shanghai", language: str = "en", simulated: bool = False, **policy: Any) -> Lab:
    """The lab, set up, with the plain policy or what is named; `balanced=True` starts from that preset, by person unless a
    `mode` is named."""
    base = {"mode": "person"} if policy.pop("balanced", False) else PLAIN
    values = Policy.from_json(base | policy).to_json()
    row, _ = Lab.objects.update_or_create(
        pk=1,
        defaults={
            "name": "Test lab", "zone": zone, "language": language, "policy": values, "set_up_at": NOW,
            "simulated": simulated,
        },
    )
    return row


def member(name: str = "", **fields: Any) -> Member:
    """An approved PhD student unless told otherwise; the password is unusable unless given."""
    number = next(_numbers)
    values = {"role": "phd", "approval": Member.Approval.APPROVED, "language": "en"} | fields
    password = values.pop("password", None)
    return Member.objects.create_user(
        values.pop("email", f"member{number}@lab.example"), password, name=name or f"Member {number}", **values
    )


def arbiter(name: str = "Arbiter", **fields: Any) -> Member:
    return member(name, **({"role": "staff", "is_arbiter": True} | fields))


def admin(name: str = "Admin", **fields: Any) -> Member:
    return member(name, **({"role": "staff", "is_admin": True, "is_arbiter": True, "is_superuser": True} | fields))


def project(name: str = "", *members: Member, advisor: Member | None = None, **fields: Any) -> Project:
    """A project of these members, led by a member of the staff unless told otherwise."""
    row = Project.objects.create(
        name=name or f"Project {next(_numbers)}", advisor=advisor or member("Advisor", role="staff"), **fields
    )
    ProjectMember.objects.bulk_create([ProjectMember(project=row, member=one) for one in members])
    return row


def host(name: str = "") -> Host:
    return Host.objects.create(name=name or f"host-{next(_numbers)}")


def cards(count: int, on: Host | None = None, *, weight: int = 100, model: str = "NVIDIA RTX 4090") -> list[Gpu]:
    """`count` cards of one host, in service, in a pool of this weight."""
    on = on or host()
    pool, _ = Pool.objects.get_or_create(name=f"{model} {weight}", defaults={"weight": weight})
    return [
        Gpu.objects.create(
            uuid=f"GPU-{next(_numbers):08x}-0000-4000-8000-000000000000", host=on, pool=pool, model=model, index=index,
            bus_id=f"00000000:{index + 1:02X}:00.0", memory_total=24 << 30,
        )
        for index in range(count)
    ]


def request(gpus: list[Gpu], start: float | None, end: float, **fields: Any) -> booking.BookingRequest:
    """A request for these cards, hours counted from NOW (`None` = from now)."""
    return booking.BookingRequest(
        tuple(gpu.pk for gpu in gpus), None if start is None else at(start), at(end), **fields
    )


def reservation(
    holder: Member, gpus: list[Gpu], start: float | None, end: float, *, now: datetime = NOW, **fields: Any
) -> Reservation:
    """A reservation made by the real service at `now`."""
    return booking.reserve(holder, request(gpus, start, end, **fields), now=now)
