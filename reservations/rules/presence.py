"""Whether somebody comes: when to ask, from when the time to come runs, and how long it is (H2, H3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from .policy import Policy
from .week import local_date, rule_instant

MORNING, EVENING = time(8, 5), time(20, 5)
EARLY = time(10)  # what starts before is asked about the evening before


def question_due(start: datetime, zone: ZoneInfo) -> datetime:
    """When somebody is asked whether they come: 08:05 of the day of the start, or 20:05 before it for an early one (H2)."""
    day = local_date(start, zone)
    if start.astimezone(zone).time() < EARLY:
        return rule_instant(datetime.combine(day - timedelta(days=1), EVENING), zone)
    return rule_instant(datetime.combine(day, MORNING), zone)


def is_asked(start: datetime, booked_at: datetime, policy: Policy, zone: ZoneInfo) -> bool:
    """Whether who books at `booked_at` for this start is asked at all (H2)."""
    return policy.confirmation and booked_at < question_due(start, zone)


@dataclass(frozen=True)
class Quiet:
    """A person's quiet hours on the clock of their zone; they may cross midnight (K3)."""

    begins: time
    ends: time
    zone: ZoneInfo

    def holds(self, instant: datetime) -> bool:
        local = instant.astimezone(self.zone).time()
        if self.begins <= self.ends:
            return self.begins <= local < self.ends
        return local >= self.begins or local < self.ends

    def next_turn(self, instant: datetime) -> datetime:
        """The first instant after this one at which quiet hours begin or end."""
        day = local_date(instant, self.zone)
        turns = (
            rule_instant(datetime.combine(day + timedelta(days=ahead), at), self.zone)
            for ahead in (0, 1, 2) for at in (self.begins, self.ends)
        )
        return min(turn for turn in turns if turn > instant)


def outside_quiet(begun: datetime, length: timedelta, quiet: Quiet | None) -> datetime:
    """The instant at which `length` has passed since `begun`, not counting quiet hours."""
    if quiet is None or quiet.begins == quiet.ends:
        return begun + length
    at, left = begun.astimezone(UTC), length
    while True:
        turn = quiet.next_turn(at)
        if not quiet.holds(at):
            if at + left <= turn:
                return at + left
            left -= turn - at
        at = turn


@dataclass(frozen=True)
class Asked:
    """What has been asked and told of one reservation.

    `waits`: the question is written and has not left yet. `placed_by_system`: the system booked or moved it (K5, D5), and
    `told_at` is when its message of that was delivered.
    """

    waits: bool = False
    sent_at: datetime | None = None
    placed_by_system: bool = False
    told_at: datetime | None = None
    quiet: Quiet | None = None


def comes_from(start: datetime, booked_at: datetime, asked: Asked, policy: Policy) -> datetime | None:
    """From when the time to come runs (H2): the later of start, booking, and the time to answer after the question was
    really sent. None while it cannot run: the question, or the message of what the system did, has not left."""
    room = timedelta(seconds=policy.answer_s)
    if asked.waits or (asked.placed_by_system and asked.told_at is None):
        return None
    turns = [start, booked_at]
    if asked.sent_at is not None:
        turns.append(asked.sent_at + room)
    if asked.told_at is not None:
        turns.append(outside_quiet(asked.told_at, room, asked.quiet))
    return max(turns)


def time_to_come(policy: Policy, *, is_confirmed: bool) -> timedelta | None:
    """How much counted time without a process makes a no-show (H2); None where the lab knows none (`no_show_s` 0)."""
    if not policy.no_show_s:
        return None
    most = max(policy.no_show_s, policy.confirmed_no_show_s) if is_confirmed else policy.no_show_s
    return timedelta(seconds=most)
