"""Who is on which card without a reservation, for the weekly clean-up (domain.md F3).

Only looks that leave no doubt say anything: a card that is silent, unread, in maintenance or read by a clock that differs is
passed over and named, and nobody is accused because of it (I1).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from reservations.rules.interval import Interval
from reservations.rules.policy import Policy

from .overrun import lasts
from .snapshot import FIRST_PERSON_UID, MEMORY_FLOOR, NOBODY_UID, Look, SeenProcess, is_fresh
from .verdicts import CardFacts, Heartbeat, overstaying


class Skip(StrEnum):
    """Why nothing can be said of a card."""

    SILENT = "silent"
    CLOCK = "clock"
    UNREAD = "unread"
    MIXED = "mixed"
    MAINTENANCE = "maintenance"


@dataclass(frozen=True)
class Watched:
    """One card with what its clean-up needs. `closed`: when it is in maintenance. `is_mixed`: cards of the other kind are
    known."""

    gpu_id: int
    label: str
    uuid: str
    host_id: int
    facts: CardFacts
    heartbeat: Heartbeat
    simulated: bool = False
    is_mixed: bool = False
    closed: Sequence[Interval] = ()


@dataclass(frozen=True)
class Found:
    """What a card says at one instant. `owners`: the processes of each member there without a right, as last seen. `doubtful`:
    those that no member can be said to own. `run`: the looks in a row that prove it. With `skip` nothing is said."""

    skip: Skip | None = None
    owners: Mapping[int, tuple[SeenProcess, ...]] = field(default_factory=dict)
    doubtful: tuple[SeenProcess, ...] = ()
    run: tuple[Look, ...] = ()


def unbooked(card: Watched, at: datetime, people: Collection[int], *, now: datetime, policy: Policy, period: timedelta) -> Found:
    """Who is on the card without a reservation at `at`, now or a little before.

    What counts is seen in so many looks in a row as an overrun needs (I4): who is just leaving or just coming is not listed.
    Which process of theirs it is does not matter. Not listed: holders and collaborators (B4); who has stayed on after a
    reservation, as long as that is a matter of I4; desktops and small processes of the system. `people`: the members who can be
    told anything; the processes of others are in doubt.
    """
    run = tuple(look for look in card.facts.looks if look.at <= at)[-policy.samples_in_a_row:]
    if (skip := _in_the_way(card, run, at, now, policy, period)) is not None:
        return Found(skip)
    strangers = frozenset.intersection(*(_strangers(card, look, policy) & frozenset(people) for look in run))
    newest = run[-1]
    owners = {member: newest.proof_against({member}) for member in sorted(strangers)}
    in_doubt = frozenset.intersection(*(_in_doubt(card, look, people, policy) for look in run))
    doubtful = tuple(one for one in newest.users if (one.pid, one.started) in in_doubt)
    return Found(None, owners, doubtful, run)


def _in_the_way(
    card: Watched, run: Sequence[Look], at: datetime, now: datetime, policy: Policy, period: timedelta
) -> Skip | None:
    if card.is_mixed or any(look.simulated != card.simulated for look in run):
        return Skip.MIXED
    if any(one.start <= at < one.end for one in card.closed):
        return Skip.MAINTENANCE
    # The heartbeat tells of the present alone; samples of another time bear their own clocks, and those that differ are not here.
    if is_fresh(at, now, period):
        if not card.heartbeat.clock_agrees(policy):
            return Skip.CLOCK
        if card.heartbeat.problem:
            return Skip.SILENT
    if not run or not is_fresh(run[-1].at, at, period):
        return Skip.SILENT
    if not all(look.is_readable for look in run):
        return Skip.UNREAD
    if not lasts(run, policy, period) or not all(is_fresh(a.at, b.at, period) for a, b in pairwise(run)):
        return Skip.UNREAD
    return None


def _strangers(card: Watched, look: Look, policy: Policy) -> frozenset[int]:
    """Members who compute there without a right to, and of whom I4 has nothing to say."""
    computing = {one.member_id for one in look.users if one.may_prove and one.member_id is not None}
    by_right = {member for one in card.facts.tenures if one.holds_at(look.at) for member in one.people}
    staying = {member for one in card.facts.tenures for member in overstaying(one, card.facts, look, policy)}
    return frozenset(computing - by_right - staying)


def _in_doubt(card: Watched, look: Look, people: Collection[int], policy: Policy) -> frozenset[tuple[int, int | None]]:
    """Processes that nobody is known to own, on a card that nobody has or has just had: there they may be the holder's own."""
    graced = any(one.start <= look.at < one.end + policy.grace for one in card.facts.tenures)
    if graced or card.facts.open_overruns:
        return frozenset()
    return frozenset(
        (one.pid, one.started) for one in look.users
        if not is_of_the_system(one) and not (one.is_sure and one.member_id in people)
    )


def is_of_the_system(process: SeenProcess) -> bool:
    """Whether a process of a system's account takes no more than a desktop does: a daemon that measures, not use (AT-06).

    Root is none of them: people work as root, in containers above all.
    """
    uid, memory = process.uid, process.memory
    is_daemon = not process.is_sure and uid is not None and (0 < uid < FIRST_PERSON_UID or uid == NOBODY_UID)
    return is_daemon and memory is not None and memory <= MEMORY_FLOOR
