"""The lab's policy: one validated value. Its defaults are the *balanced* preset (domain.md N).

Durations are whole seconds, so that a test or a demonstration can press days into minutes by the policy alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import time, timedelta
from types import MappingProxyType
from typing import Any

MINUTE, HOUR, DAY = 60, 3600, 86_400


class BadPolicy(ValueError):
    """A policy that cannot be used; the message names the field and what it takes."""


@dataclass(frozen=True)
class Role:
    """What a role may do (B1): GPU-hours a week."""

    weekly_hours: int

    def __post_init__(self) -> None:
        if not isinstance(self.weekly_hours, int) or self.weekly_hours < 0:
            raise BadPolicy("weekly_hours takes a whole number, 0 or more")


def _balanced_roles() -> Mapping[str, Role]:
    return MappingProxyType({"undergraduate": Role(20), "master": Role(60), "phd": Role(100), "staff": Role(100)})


@dataclass(frozen=True)
class Policy:
    """The numbers that the law marks † and this version uses; letters are the law's sections."""

    # A. Time
    raster_s: int = 15 * MINUTE
    shortest_s: int = 30 * MINUTE
    longest_s: int = 72 * HOUR
    opens_days: int = 14
    opens_at: str = "12:00"
    form_age_s: int = 5 * MINUTE
    # B. People
    roles: Mapping[str, Role] = field(default_factory=_balanced_roles)
    cards_at_once: int = 4
    open_future: int = 6
    # C. Priority, strongest first
    tiers: tuple[str, ...] = ("deadline", "regular", "exploration")
    granted_tiers: tuple[str, ...] = ("deadline",)
    # H. Life of a reservation
    release_undo_s: int = 10 * MINUTE
    # I. What the cards say
    overrun_grace_s: int = 10 * MINUTE
    overrun_first_sight_s: int = 60 * MINUTE
    overrun_unwaited_s: int = 60 * MINUTE
    samples_in_a_row: int = 3
    clock_tolerance_s: int = 30
    # J. Conduct
    overrun_points: int = 1
    point_life_s: int = 30 * DAY
    dispute_s: int = 7 * DAY
    # K. Messages
    ending_notice_s: int = 10 * MINUTE
    link_life_s: int = 24 * HOUR

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.type == "int" and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
                raise BadPolicy(f"{one.name} takes a whole number, 0 or more")
        if not 1 <= self.raster_s <= HOUR or DAY % self.raster_s:
            raise BadPolicy("raster_s takes a divisor of a day, at most an hour")
        if not 1 <= self.shortest_s <= self.longest_s:
            raise BadPolicy("shortest_s must be at least 1 and at most longest_s")
        if self.samples_in_a_row < 1 or self.cards_at_once < 1 or self.open_future < 1:
            raise BadPolicy("samples_in_a_row, cards_at_once and open_future take 1 or more")
        if self.opens_days > 366:
            raise BadPolicy("opens_days takes at most 366")
        if not self.tiers or len(set(self.tiers)) != len(self.tiers):
            raise BadPolicy("tiers takes at least one code, each once")
        if not self.roles:
            raise BadPolicy("roles takes at least one role")
        try:
            time.fromisoformat(self.opens_at)
        except (TypeError, ValueError):
            raise BadPolicy("opens_at takes a time of day such as 12:00") from None

    @property
    def longest(self) -> timedelta:
        return timedelta(seconds=self.longest_s)

    @property
    def grace(self) -> timedelta:
        """The grace period after an end (I4)."""
        return timedelta(seconds=self.overrun_grace_s)

    @property
    def opens_time(self) -> time:
        return time.fromisoformat(self.opens_at)

    def role(self, code: str) -> Role | None:
        """What the role may do; `None` for a code that the policy does not know (which then may book nothing)."""
        return self.roles.get(code)

    def rank_tier(self, tier: str) -> int:
        """0 for the strongest tier. Raises ValueError for an unknown one."""
        return self.tiers.index(tier)

    def to_json(self) -> dict[str, Any]:
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        values["roles"] = {code: asdict(role) for code, role in self.roles.items()}
        values["tiers"], values["granted_tiers"] = list(self.tiers), list(self.granted_tiers)
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Policy:
        """The policy in force from its stored or typed form; what is not named keeps the balanced value.

        Raises `BadPolicy` naming the field.
        """
        known = {one.name for one in fields(cls)}
        if unknown := set(values) - known:
            raise BadPolicy(f"no such setting: {', '.join(sorted(unknown))}")
        kept = dict(values)
        try:
            if "roles" in kept:
                kept["roles"] = MappingProxyType({str(code): Role(**role) for code, role in kept["roles"].items()})
            for name in ("tiers", "granted_tiers"):
                if name in kept:
                    kept[name] = tuple(str(tier) for tier in kept[name])
            return cls(**kept)
        except (TypeError, AttributeError) as problem:
            raise BadPolicy(f"the policy cannot be read: {problem}") from None
