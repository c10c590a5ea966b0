"""Staying on after the end (domain.md I4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reservations.rules.interval import Interval
from reservations.rules.policy import Policy

from .gate import ACT_COVERAGE, coverage
from .snapshot import FRESH_PERIODS, Look, Tenure, is_fresh

CLOSES_AFTER = 3  # samples that show them gone (I8)
CHARGED_IN = timedelta(minutes=15)  # an overrun that goes on is charged in steps of this length, not at every look


@dataclass(frozen=True)
class Track:
    """What is on record of this tenure's overrun."""

    is_open: bool = False
    is_counted: bool = False
    first_sight: datetime | None = None


@dataclass(frozen=True)
class Finding:
    """What is to be done about one ended tenure now.

    `warns`: seen running after the end, the grace not over. `opens`: the verdict has lasted its time. `counts`: it is
    an offence, if the gate of I1 agrees. `closes`: gone, or holding again. `run`: the samples in a row that prove it.
    """

    warns: bool = False
    opens: bool = False
    counts: bool = False
    closes: bool = False
    waited_for: bool = False
    first_sight: datetime | None = None
    run: tuple[Look, ...] = ()


def follow(
    tenure: Tenure, tenures: Sequence[Tenure], looks: Sequence[Look], track: Track, *,
    now: datetime, policy: Policy, period: timedelta, on_waitlist: bool = False,
) -> Finding:
    """Judges one tenure by the card's recent looks (in order of time, each instant once).

    `on_waitlist`: somebody else waits for such a card, which counts like somebody who has it next (I4).

    What counts are looks of the grace's end or later, by their own time: a sample repeated or sent late proves nothing.
    Which process it is does not matter, so relaunching is no way out; whose it is must be sure.
    """
    if tenure.end > now:
        return Finding(closes=track.is_open)  # extended, or its release undone
    after = [look for look in looks if look.at >= tenure.end]
    if track.is_open and _is_gone(tenure, tenures, after):
        return Finding(closes=True, first_sight=track.first_sight)
    run = _run(tenure, tenures, after, now, period)
    lasting = lasts(run, policy, period)
    counting = tuple(look for look in run if look.at >= tenure.end + policy.grace)
    proved = lasts(counting, policy, period)
    # Only while it is news: later the incident's opening says it again, and the message is written once.
    news = lasting and len(run) < policy.samples_in_a_row + FRESH_PERIODS
    if not proved:
        return Finding(warns=news and not track.is_open, run=run)
    newest = counting[-1].at
    in_time = counting[0].at <= tenure.end + timedelta(seconds=policy.overrun_first_sight_s)
    if not track.is_open and not in_time:
        return Finding()
    waited_for = on_waitlist or any(one.member_id != tenure.member_id and one.holds_at(newest) for one in tenures)
    long_enough = newest >= tenure.end + timedelta(seconds=policy.overrun_unwaited_s)
    return Finding(
        warns=not track.is_open, opens=not track.is_open, counts=not track.is_counted and (waited_for or long_enough),
        waited_for=waited_for, first_sight=track.first_sight or counting[0].at, run=counting,
    )


def proved(
    tenure: Tenure, tenures: Sequence[Tenure], looks: Sequence[Look], since: datetime, period: timedelta
) -> list[Interval]:
    """The stretches from `since` on for which the looks prove the former holder there, in order (E3).

    None spans a look that shows something else, that could not be read or that is missing for three periods; each has nine of
    ten of the looks expected in it. Until a first look near the end they were there by right: it reaches back to the end.
    """
    stretches: list[Interval] = []
    run: list[Look] = []
    after = [look for look in looks if look.at >= max(since, tenure.end)]
    for look in [*after, None]:
        is_next = look is not None and _is_proof(tenure, tenures, look)
        if run and (look is None or not is_next or not is_fresh(run[-1].at, look.at, period)):
            if (found := _stretch(run, tenure, period)) is not None:
                stretches.append(found)
            run = []
        if look is not None and is_next:
            run.append(look)
    return stretches


def _stretch(run: Sequence[Look], tenure: Tenure, period: timedelta) -> Interval | None:
    start, end = run[0].at, run[-1].at
    if start == end or coverage([look.at for look in run], start, end, period) < ACT_COVERAGE:
        return None
    return Interval(tenure.end if is_fresh(tenure.end, start, period) else start, end)


def lasts(run: Sequence[Look], policy: Policy, period: timedelta) -> bool:
    """Whether the row is long enough: in looks, and in time but for half a period, so that a burst of looks is no row."""
    wanted = policy.samples_in_a_row
    return len(run) >= wanted and run[-1].at - run[0].at >= (wanted - 1) * period - period / 2


def _is_proof(tenure: Tenure, tenures: Sequence[Tenure], look: Look) -> bool:
    """Whether this look shows the former holder or a collaborator there without a right of their own to be (I4)."""
    return look.is_readable and bool(look.proof_against(tenure.staying(tenures, look.at)))


def _run(
    tenure: Tenure, tenures: Sequence[Tenure], looks: Sequence[Look], now: datetime, period: timedelta
) -> tuple[Look, ...]:
    """The unbroken row of proofs up to the newest look, which must be fresh. A look that could not be read breaks it."""
    run: list[Look] = []
    later = now
    for look in reversed(looks):
        if not is_fresh(look.at, later, period) or not _is_proof(tenure, tenures, look):
            break
        run.append(look)
        later = look.at
    return tuple(reversed(run))


def _is_gone(tenure: Tenure, tenures: Sequence[Tenure], looks: Sequence[Look]) -> bool:
    """Whether the newest looks that leave no doubt all show them gone. Doubtful ones say nothing either way."""
    telling = [look for look in looks if _is_proof(tenure, tenures, look) or not _in_doubt(tenure, tenures, look)]
    last = telling[-CLOSES_AFTER:]
    return len(last) == CLOSES_AFTER and not any(_is_proof(tenure, tenures, look) for look in last)


def _in_doubt(tenure: Tenure, tenures: Sequence[Tenure], look: Look) -> bool:
    return look.is_doubtful and bool(tenure.staying(tenures, look.at))
