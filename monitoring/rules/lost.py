"""When a card is really gone (domain.md G6). Unknown is not lost: only what was looked for all the time and not found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from reservations.rules.policy import Policy

from .snapshot import is_fresh


class How(StrEnum):
    """Gone from a host that answers, or with a host that has fallen silent. The codes are those of `CardState.Lost`."""

    GONE = "gone"
    SILENT = "silent"


@dataclass(frozen=True)
class Answers:
    """How a host answers: its last good reading, and since when such readings came without a gap.

    `in_order`: that reading told of no trouble with the host, and its clock agrees.
    """

    host_id: int
    heard_at: datetime
    steady_since: datetime
    in_order: bool

    def stands(self, now: datetime, period: timedelta) -> bool:
        """Whether it answers now."""
        return self.in_order and is_fresh(self.heard_at, now, period)


@dataclass(frozen=True)
class Seen:
    """When a card was last there: its newest look that did not say that it is gone. None = never."""

    gpu_id: int
    host_id: int
    last_at: datetime | None


@dataclass(frozen=True)
class Loss:
    """A proved loss: since when, and how."""

    gpu_id: int
    since: datetime
    how: How


def losses(
    cards: Iterable[Seen], hosts: Iterable[Answers], *, now: datetime, policy: Policy, period: timedelta
) -> list[Loss]:
    """The cards that have been gone for the policy's time.

    From a host that answers: its readings came all that time without a gap, and the card was in none. With a silent host: only
    while another host has been heard all that time, for else the silence may be LabGPU's own. A host that tells of trouble, or
    whose clock differs, says nothing of its cards.
    """
    by_host = {one.host_id: one for one in hosts}
    wait = timedelta(seconds=policy.lost_after_s)
    found = []
    for card in cards:
        host = by_host.get(card.host_id)
        if host is None or card.last_at is None:
            continue
        if host.stands(now, period):
            since = max(card.last_at, host.steady_since)
            if not is_fresh(card.last_at, now, period) and now - since >= wait:
                found.append(Loss(card.gpu_id, since, How.GONE))
        elif host.in_order and now - host.heard_at >= wait and _another_is_heard(host, by_host.values(), now, wait, period):
            found.append(Loss(card.gpu_id, host.heard_at, How.SILENT))
    return found


def _another_is_heard(
    host: Answers, hosts: Iterable[Answers], now: datetime, wait: timedelta, period: timedelta
) -> bool:
    return any(
        one.host_id != host.host_id and one.stands(now, period) and now - one.steady_since >= wait for one in hosts
    )
