"""The lab's policy: one validated value, and the presets it can start from (domain.md N).

Durations are whole seconds, so that a test or a demonstration can press days into minutes by the policy alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date, time, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from .windows import Days, Mode, Window

MINUTE, HOUR, DAY = 60, 3600, 86_400
WITHOUT_LIMIT = 10**9  # hours, cards or reservations: more than any lab has


class BadPolicy(ValueError):
    """A policy that cannot be used; the message names the field and what it takes."""


class Scheduling(StrEnum):
    """Whose allowance reservations draw on (B5)."""

    PERSON = "person"
    PROJECT = "project"
    MIXED = "mixed"


@dataclass(frozen=True)
class Role:
    """What a role may do (B1): GPU-hours a week; caps of its own where they differ from the lab's."""

    weekly_hours: int
    cards_at_once: int | None = None
    open_future: int | None = None

    def __post_init__(self) -> None:
        if not _is_whole(self.weekly_hours):
            raise BadPolicy("weekly_hours takes a whole number, 0 or more")
        for cap in (self.cards_at_once, self.open_future):
            if cap is not None and (not _is_whole(cap) or cap < 1):
                raise BadPolicy("a role's cards_at_once and open_future take 1 or more, or nothing for the lab's")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _roles(undergraduate: int, master: int, phd: int, staff: int) -> Mapping[str, Role]:
    hours = {"undergraduate": undergraduate, "master": master, "phd": phd, "staff": staff}
    return MappingProxyType({code: Role(weekly) for code, weekly in hours.items()})


def _daytime(place: int, mode: Mode, rate: int = 100, most_hours: int | None = None) -> Window:
    """Working days from 09:00 to 18:00."""
    most = None if most_hours is None else timedelta(hours=most_hours)
    return Window(place, mode, rate, Days.WORKING, opens=time(9), shuts=time(18), most_inside=most)


BALANCED_WINDOWS = (_daytime(1, Mode.OPEN, 150, 9),)


@dataclass(frozen=True)
class Policy:
    """The numbers that the law marks †; letters are the law's sections. The defaults are the *balanced* preset."""

    # A. Time
    raster_s: int = 15 * MINUTE
    shortest_s: int = 30 * MINUTE
    longest_s: int = 72 * HOUR
    opens_days: int = 14
    opens_at: str = "12:00"
    form_age_s: int = 5 * MINUTE
    # B. People
    roles: Mapping[str, Role] = field(default_factory=lambda: _roles(20, 60, 100, 100))
    cards_at_once: int = 4
    open_future: int = 6
    mode: str = Scheduling.MIXED
    free_tiers: tuple[str, ...] = ("exploration",)  # those without a project in `mixed`
    project_weekly_hours: int = 240
    project_share: int = 50  # percent of a pool's cards that a project may hold at once
    # C. Priority, strongest first
    tiers: tuple[str, ...] = ("deadline", "regular", "exploration")
    granted_tiers: tuple[str, ...] = ("deadline",)
    grant_days: int = 28
    grant_again_days: int = 90
    no_arbiter_s: int = 24 * HOUR  # without somebody to decide: then an admin, and as long after it lapses (B3)
    # D. Three kinds by start
    freezes_at: str = "20:00"
    walk_in_longest_s: int = 8 * HOUR
    walk_in_cards: int = 2
    walk_in_free_hours: int = 16
    displacement: bool = True
    closes_at: str = "18:00"
    safe_after: int = 2  # displacements, after which a reservation is safe
    moving_tiers: tuple[str, ...] = ("exploration",)  # where *may move* is on unless somebody says otherwise
    may_move_s: int = 48 * HOUR  # how much later than booked it may then end
    cool_down_s: int = 7 * DAY
    # E. Quota
    elastic: bool = True
    elastic_within_s: int = 48 * HOUR
    elastic_safe_s: int = 2 * HOUR
    late_cancel_s: int = 2 * HOUR
    late_cancel_percent: int = 25
    late_cancel_first_s: int = 8 * HOUR
    returned_late_s: int = 48 * HOUR  # before a week's end: what comes back then stays valid
    returned_valid_s: int = 7 * DAY
    # F. Windows; what none covers is open at the plain rate
    windows: tuple[Window, ...] = BALANCED_WINDOWS
    long_s: int = 4 * HOUR  # the least length in a `long` window
    cleanup: bool = True
    cleanup_weekday: int = 4  # 0 = Monday
    cleanup_at: str = "17:00"
    cleanup_grace_s: int = HOUR  # between being told and a case
    # G. Cards and pools
    emergency_reserve: int = 0  # per pool of 4 or more
    quick_cards: int = 0
    reserve_walk_in_s: int = 2 * HOUR
    quick_s: int = 2 * HOUR
    lost_after_s: int = 15 * MINUTE  # how long a card is offline before it counts as lost
    # H. Life of a reservation
    confirmation: bool = True
    no_show_s: int = 30 * MINUTE  # 0: nobody is a no-show
    confirmed_no_show_s: int = 60 * MINUTE
    no_show_kept_s: int = 2 * HOUR
    answer_s: int = 60 * MINUTE  # after a question, or a message of what the system did
    give_back_s: int = 60 * MINUTE  # 0: no card is given back by itself
    extend_ahead_s: int = 8 * HOUR
    extend_free_s: int = 8 * HOUR
    done_release_s: int = 10 * MINUTE
    release_undo_s: int = 10 * MINUTE
    booking_undo_s: int = 10
    # I. What the cards say
    overrun_grace_s: int = 10 * MINUTE
    overrun_first_sight_s: int = 60 * MINUTE
    overrun_unwaited_s: int = 60 * MINUTE
    samples_in_a_row: int = 3
    clock_tolerance_s: int = 30
    # J. Conduct
    overrun_points: int = 1
    one_step_points: int = 1
    two_steps_points: int = 3
    no_show_points: int = 1
    point_life_s: int = 30 * DAY
    dispute_s: int = 7 * DAY
    # K. Messages and the waitlist
    ending_notice_s: int = 10 * MINUTE
    link_life_s: int = 24 * HOUR
    offer_s: int = 15 * MINUTE
    offer_ahead_s: int = 2 * HOUR  # of a start a day or more ahead
    fair_share_s: int = 14 * DAY

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.type == "int" and not _is_whole(value):
                raise BadPolicy(f"{one.name} takes a whole number, 0 or more")
            if one.type == "bool" and not isinstance(value, bool):
                raise BadPolicy(f"{one.name} takes true or false")
        if not 1 <= self.raster_s <= HOUR or DAY % self.raster_s:
            raise BadPolicy("raster_s takes a divisor of a day, at most an hour")
        if not 1 <= self.shortest_s <= self.longest_s:
            raise BadPolicy("shortest_s must be at least 1 and at most longest_s")
        if min(self.samples_in_a_row, self.cards_at_once, self.open_future, self.walk_in_cards) < 1:
            raise BadPolicy("samples_in_a_row, cards_at_once, open_future and walk_in_cards take 1 or more")
        if self.opens_days > 3660:
            raise BadPolicy("opens_days takes at most 3660")
        if self.late_cancel_percent > 100:
            raise BadPolicy("late_cancel_percent takes a percentage, 0 to 100")
        if not self.tiers or len(set(self.tiers)) != len(self.tiers):
            raise BadPolicy("tiers takes at least one code, each once")
        for name in ("granted_tiers", "moving_tiers"):
            if not set(getattr(self, name)) <= set(self.tiers):
                raise BadPolicy(f"{name} takes codes of tiers")
        if not set(self.free_tiers) <= set(self.tiers) - set(self.granted_tiers):
            raise BadPolicy("free_tiers takes codes of tiers that need no grant")
        if self.mode not in list(Scheduling):
            raise BadPolicy("mode takes person, project or mixed")
        if not 1 <= self.project_share <= 100:
            raise BadPolicy("project_share takes a percentage, 1 to 100")
        if self.grant_days < 1:
            raise BadPolicy("grant_days takes 1 or more")
        if not 1 <= self.one_step_points <= self.two_steps_points:
            raise BadPolicy("one_step_points must be at least 1 and at most two_steps_points")
        if not self.roles:
            raise BadPolicy("roles takes at least one role")
        if self.cleanup_weekday > 6:
            raise BadPolicy("cleanup_weekday takes a number from 0 (Monday) to 6 (Sunday)")
        if not 1 <= self.cleanup_grace_s <= DAY:
            raise BadPolicy("cleanup_grace_s takes 1 second to a day")
        for name in ("opens_at", "freezes_at", "closes_at", "cleanup_at"):
            try:
                time.fromisoformat(getattr(self, name))
            except (TypeError, ValueError):
                raise BadPolicy(f"{name} takes a time of day such as 12:00") from None

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

    @property
    def freezing(self) -> time:
        """When each evening the next day becomes firm (D1)."""
        return time.fromisoformat(self.freezes_at)

    @property
    def closing(self) -> time:
        """Until when each evening what freezes then may be displaced (D4)."""
        return time.fromisoformat(self.closes_at)

    @property
    def cleaning(self) -> time:
        """When on its day processes without a reservation are listed (F3)."""
        return time.fromisoformat(self.cleanup_at)

    @property
    def cleanup_grace(self) -> timedelta:
        """How long who was told has until there is a case (F3)."""
        return timedelta(seconds=self.cleanup_grace_s)

    def role(self, code: str) -> Role | None:
        """What the role may do; `None` for a code that the policy does not know (which then may book nothing)."""
        return self.roles.get(code)

    def most_cards(self, role: str) -> int:
        """The cap on cards held at once for a role (B1)."""
        found = self.role(role)
        return found.cards_at_once if found and found.cards_at_once is not None else self.cards_at_once

    def most_ahead(self, role: str) -> int:
        """The cap on reservations that lie ahead for a role (B1)."""
        found = self.role(role)
        return found.open_future if found and found.open_future is not None else self.open_future

    @property
    def plain_tier(self) -> str:
        """The strongest tier that needs no grant: what a deadline reservation becomes when its grant is revoked (C2)."""
        return next((tier for tier in self.tiers if tier not in self.granted_tiers), self.tiers[-1])

    def rank_tier(self, tier: str) -> int:
        """0 for the strongest tier. Raises ValueError for an unknown one."""
        return self.tiers.index(tier)

    def to_json(self) -> dict[str, Any]:
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        values["roles"] = {code: asdict(role) for code, role in self.roles.items()}
        values["mode"] = str(self.mode)
        for name in _TUPLES:
            values[name] = list(values[name])
        values["windows"] = [_window_to_json(window) for window in self.windows]
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
            for name in _TUPLES:
                if name in kept:
                    kept[name] = tuple(str(tier) for tier in kept[name])
            if "windows" in kept:
                kept["windows"] = tuple(_window_from_json(place, one) for place, one in enumerate(kept["windows"], 1))
            return cls(**kept)
        except (TypeError, AttributeError) as problem:
            raise BadPolicy(f"the policy cannot be read: {problem}") from None


_TUPLES = ("tiers", "granted_tiers", "moving_tiers", "free_tiers")


def _window_to_json(window: Window) -> dict[str, Any]:
    return {
        "mode": str(window.mode), "rate": window.rate, "days": str(window.days), "weekdays": sorted(window.weekdays),
        "dates": sorted(day.isoformat() for day in window.dates), "opens": f"{window.opens:%H:%M}",
        "shuts": f"{window.shuts:%H:%M}", "pool": window.pool_id,
        "most_inside_s": int(window.most_inside.total_seconds()) if window.most_inside is not None else None,
    }


def _window_from_json(place: int, values: Mapping[str, Any]) -> Window:
    """A window; its place in the list is its age: later ones are newer."""
    if not isinstance(values, Mapping):
        raise BadPolicy("windows takes a list of windows, each with its settings by name")
    if unknown := set(values) - _WINDOW_FIELDS:
        raise BadPolicy(f"windows: no such setting: {', '.join(sorted(map(str, unknown)))}")
    rate = values.get("rate", 100)
    if not _is_whole(rate) or rate > 10_000:
        raise BadPolicy("windows: rate takes hundredths, 0 to 10000")
    weekdays = frozenset(values.get("weekdays", ()))
    if not all(_is_whole(day) and day < 7 for day in weekdays):
        raise BadPolicy("windows: weekdays takes numbers from 0 (Monday) to 6 (Sunday)")
    most_inside_s, pool = values.get("most_inside_s"), values.get("pool")
    if most_inside_s is not None and (not _is_whole(most_inside_s) or most_inside_s > WITHOUT_LIMIT):
        raise BadPolicy("windows: most_inside_s takes a whole number of seconds, or nothing for no limit")
    if pool is not None and not _is_whole(pool):
        raise BadPolicy("windows: pool takes the number of a pool, or nothing for every pool")
    opens, shuts = (_window_time(values, name) for name in ("opens", "shuts"))
    try:
        return Window(
            place, Mode(values.get("mode", Mode.OPEN)), rate, Days(values.get("days", Days.EVERY)), weekdays,
            frozenset(date.fromisoformat(day) for day in values.get("dates", ())), opens, shuts,
            None if most_inside_s is None else timedelta(seconds=most_inside_s), pool,
        )
    except (TypeError, ValueError) as problem:
        raise BadPolicy(f"windows: {problem}") from None


def _window_time(values: Mapping[str, Any], name: str) -> time:
    """A time of day in whole minutes, as `_window_to_json` writes it."""
    try:
        at = time.fromisoformat(values.get(name, "00:00"))
    except (TypeError, ValueError):
        at = None
    if at is None or at.tzinfo is not None or at.second or at.microsecond:
        raise BadPolicy(f"windows: {name} takes a time of day such as 09:00")
    return at


_WINDOW_FIELDS = {"mode", "rate", "days", "weekdays", "dates", "opens", "shuts", "pool", "most_inside_s"}

BALANCED = Policy()
STRICT = Policy(
    opens_days=7, longest_s=24 * HOUR, roles=_roles(12, 40, 60, 60), cards_at_once=2, open_future=3,
    project_weekly_hours=120, walk_in_longest_s=4 * HOUR, walk_in_cards=1, walk_in_free_hours=8,
    windows=(_daytime(1, Mode.OPEN, 200, 4),), overrun_grace_s=5 * MINUTE, point_life_s=60 * DAY, emergency_reserve=1,
    quick_cards=1, elastic=False, two_steps_points=2, no_show_s=20 * MINUTE,
)
FRIENDLY = Policy(
    opens_days=28, longest_s=168 * HOUR, roles=_roles(40, 120, 168, 168), cards_at_once=8, open_future=12,
    project_weekly_hours=480, walk_in_longest_s=12 * HOUR, walk_in_cards=4, walk_in_free_hours=48,
    windows=(Window(1, Mode.LONG), _daytime(2, Mode.WALK_IN)), overrun_grace_s=20 * MINUTE, point_life_s=14 * DAY,
    displacement=False, one_step_points=2, two_steps_points=4, confirmation=False, no_show_s=60 * MINUTE,
)
PRESETS: Mapping[str, Policy] = MappingProxyType({"strict": STRICT, "balanced": BALANCED, "friendly": FRIENDLY})
# For job logs, never offered in the interface: nothing is refused but what cannot be (P1, A1's order of time, G1).
REPLAY = replace(
    BALANCED, raster_s=1, shortest_s=1, longest_s=366 * DAY, opens_days=3650, cards_at_once=WITHOUT_LIMIT,
    open_future=WITHOUT_LIMIT, roles=_roles(*(WITHOUT_LIMIT,) * 4), mode=Scheduling.PERSON,
    project_weekly_hours=WITHOUT_LIMIT, project_share=100, walk_in_longest_s=366 * DAY,
    walk_in_cards=WITHOUT_LIMIT, walk_in_free_hours=0, late_cancel_percent=0, windows=(),
    displacement=False, elastic=False, cleanup=False, confirmation=False, no_show_s=0, give_back_s=0, extend_ahead_s=366 * DAY,
)
