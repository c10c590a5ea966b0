"""Booked against used (M1): what looks add up to, and what the sums say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitoring.rules.snapshot import MIB, Look, Owner, SeenProcess, Tenure
from monitoring.rules.use import Account, Mark, Use, is_off_by_more_than_half, mark, reach, use_between

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
PERIOD = timedelta(seconds=10)
HOUR = timedelta(hours=1)
ANN, BO, COLLABORATOR = 1, 2, 3
TENURE = Tenure(1, 1, ANN, NOON, NOON + HOUR, frozenset({COLLABORATOR}))
GIB = 1024 * MIB


def process(member: int | None, *, memory: int | None = GIB, kind: str = "C") -> SeenProcess:
    owner = Owner.UNKNOWN if member is None else Owner.VERIFIED
    return SeenProcess(100, 1, 2000, memory, kind, owner, member)


def look(seconds: float, *running: SeenProcess, util: int | None = 0, used: int | None = -1, **changes) -> Look:
    known = sum(one.memory or 0 for one in running) + 3 * MIB
    return Look(
        NOON + timedelta(seconds=seconds), utilization=util, memory_used=known if used == -1 else used,
        processes=changes.pop("processes", running), **changes,
    )


def sums(*looks: Look) -> tuple[float, ...]:
    """Seconds observed, present, busy, measured."""
    found = use_between(TENURE, looks, NOON, NOON + 2 * HOUR, period=PERIOD)
    return tuple(one / timedelta(seconds=1) for one in (found.observed, found.present, found.busy, found.measured))


ANNS, BOS, SOMEBODYS = process(ANN), process(BO), process(None)


@pytest.mark.parametrize(("looks", "expected"), [
    pytest.param([look(0), look(10)], (10, 0, 0, 10), id="nobody there: observed, not used"),
    pytest.param([look(0, ANNS, util=90), look(10, ANNS, util=90)], (10, 10, 10, 10), id="at work"),
    pytest.param([look(0, ANNS, util=4), look(10, ANNS, util=0)], (10, 10, 0, 10), id="there and idle"),
    pytest.param([look(0, ANNS, util=5), look(10, ANNS, util=0)], (10, 10, 10, 10), id="5 % is work, and the better look counts"),
    pytest.param([look(0, ANNS), look(10)], (10, 10, 0, 10), id="the better of two looks counts for presence too"),
    pytest.param([look(0, process(COLLABORATOR), util=50), look(10)], (10, 10, 10, 10), id="a collaborator counts as the holder"),
    pytest.param([look(0, ANNS, encoder=40), look(10, ANNS)], (10, 10, 10, 10), id="the encoder is work"),
    pytest.param([look(0, ANNS, decoder=40), look(10, ANNS)], (10, 10, 10, 10), id="the decoder is work"),
    pytest.param([look(0, util=100), look(10, util=100)], (10, 0, 0, 10), id="utilisation without a process is never use"),
    pytest.param([look(0, ANNS, util=None), look(10, ANNS, util=None)], (10, 10, 0, 0), id="no utilisation: not measured"),
    pytest.param([look(0, BOS, util=90), look(10, BOS, util=90)], (10, 0, 0, 10), id="somebody else's work is not the holder's"),
    pytest.param([look(0, SOMEBODYS), look(10, SOMEBODYS)], (0, 0, 0, 0), id="an owner in doubt: unknown"),
    pytest.param([look(0, ANNS, SOMEBODYS), look(10, ANNS)], (10, 10, 0, 10), id="the holder beside one in doubt is there"),
    pytest.param([look(0, used=4 * GIB), look(10, used=4 * GIB)], (0, 0, 0, 0), id="memory of nobody: unknown"),
    pytest.param([look(0, used=None), look(10)], (0, 0, 0, 0), id="memory unread: unknown"),
    pytest.param([look(0, process(ANN, memory=MIB, kind="G")), look(10)], (10, 0, 0, 10), id="a desktop is not use"),
    pytest.param([look(0), look(10, processes=None)], (0, 0, 0, 0), id="a list unread: unknown"),
    pytest.param([look(0), look(10, problem="lost")], (0, 0, 0, 0), id="a card unread: unknown"),
    pytest.param([look(0), look(30)], (30, 0, 0, 30), id="three periods apart still count"),
    pytest.param([look(0), look(31)], (0, 0, 0, 0), id="further apart: unobserved"),
    pytest.param([look(-4), look(6)], (6, 0, 0, 6), id="cut at the start"),
    pytest.param([look(3596), look(3606)], (4, 0, 0, 4), id="cut at the end"),
    pytest.param([look(3601, ANNS), look(3611, ANNS)], (0, 0, 0, 0), id="after the end: nothing"),
    pytest.param([look(5)], (0, 0, 0, 0), id="one look spans no time"),
    pytest.param([], (0, 0, 0, 0), id="nobody looked"),
])
def test_m1_time_between_two_looks_counts_as_they_say(looks: list[Look], expected: tuple[int, ...]) -> None:
    assert sums(*looks) == expected


RUNNING = st.sampled_from([(), (ANNS,), (BOS,), (SOMEBODYS,), (ANNS, SOMEBODYS)])
# A busy machine is no finding.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
LOOKS = st.lists(
    st.tuples(st.integers(-60, 3700), RUNNING, st.sampled_from([None, 0, 50]), st.sampled_from(["", "lost"])), max_size=40,
    unique_by=lambda one: one[0],
).map(
    lambda rows: [
        look(at, *running, util=util, problem=problem)
        for at, running, util, problem in sorted(rows, key=lambda row: row[0])
    ]
)


@UNHURRIED
@given(looks=LOOKS, cuts=st.lists(st.integers(0, 3700), max_size=6))
def test_m1_splitting_the_time_into_sweeps_changes_nothing(looks: list[Look], cuts: list[int]) -> None:
    until = NOON + timedelta(seconds=3700)
    edges = [NOON, *(NOON + timedelta(seconds=cut) for cut in sorted(cuts)), until]
    total = Use()
    for since, upto in pairwise(edges):
        seen = [one for one in looks if since - reach(PERIOD) <= one.at <= upto]  # what a sweep reads
        total += use_between(TENURE, seen, since, upto, period=PERIOD)
    assert total == use_between(TENURE, looks, NOON, until, period=PERIOD)


@UNHURRIED
@given(looks=LOOKS)
def test_m1_no_time_counts_twice_and_what_is_used_was_observed(looks: list[Look]) -> None:
    found = use_between(TENURE, looks, NOON, NOON + 2 * HOUR, period=PERIOD)
    assert timedelta(0) <= found.busy <= found.present <= found.observed <= TENURE.end - TENURE.start
    assert found.busy <= found.measured <= found.observed


def account(
    booked: float, held: float, seen: tuple[float, float, float, float] = (0, 0, 0, 0), *, overrun: float = 0, **changes: bool
) -> Account:
    """Hours; `seen`: observed, present, busy, measured."""
    return Account(booked * HOUR, held * HOUR, Use(*(one * HOUR for one in seen)), overrun * HOUR, **changes)


@pytest.mark.parametrize(("one", "expected", "off"), [
    pytest.param(account(4, 4, (4, 4, 3, 4)), Mark.OK, False, id="used"),
    pytest.param(account(4, 4, (4, 2, 1, 4)), Mark.OK, False, id="exactly half unused is not more than half"),
    pytest.param(account(4, 4, (4, 1.9, 1, 4)), Mark.OK, True, id="more than half unused"),
    pytest.param(account(4, 4, (4, 0, 0, 4)), Mark.UNUSED, True, id="never used"),
    pytest.param(account(4, 4, (4, 4, 0, 4)), Mark.IDLE, False, id="held and idle from end to end"),
    pytest.param(account(4, 4, (4, 4, 0, 0)), Mark.UNKNOWN, False, id="no utilisation: whether it was idle is unknown"),
    pytest.param(account(4, 4, (3.2, 0, 0, 3.2)), Mark.UNUSED, True, id="80 % observed suffices"),
    pytest.param(account(4, 4, (3.1, 0, 0, 3.1)), Mark.UNKNOWN, None, id="less than 80 % observed: unknown, not unused"),
    pytest.param(account(4, 4), Mark.UNKNOWN, None, id="nobody looked: unknown, not idle"),
    pytest.param(account(4, 4, (3.2, 1.4, 1, 3.2)), Mark.OK, None, id="what was not observed may have been use"),
    pytest.param(account(4, 4, (2, 2, 1, 2)), Mark.OK, False, id="what was seen used suffices for no"),
    pytest.param(account(4, 4, (4, 4, 4, 4), overrun=0.5), Mark.OVERRUN, False, id="stayed on"),
    pytest.param(account(4, 4, overrun=2.5), Mark.OVERRUN, True, id="stayed on for more than half"),
    pytest.param(account(8, 3, (3, 3, 3, 3), is_released=True), Mark.EARLY_RELEASE, False, id="used and released early: good"),
    pytest.param(account(8, 1, (1, 0, 0, 1), is_released=True), Mark.EARLY_RELEASE, False, id="released soon without use: good"),
    pytest.param(account(8, 1, is_released=True), Mark.EARLY_RELEASE, False, id="early release needs no look"),
    pytest.param(account(8, 7, (7, 0, 0, 7), is_released=True), Mark.UNUSED, True, id="nearly all held in vain, then released"),
    pytest.param(account(4, 4, (4, 4, 4, 4), is_released=True), Mark.OK, False, id="released at the end is not early"),
    pytest.param(account(4, 4, (1, 0, 0, 1), is_over=False), Mark.UNKNOWN, None, id="not over yet"),
])
def test_m1_what_an_account_is_marked(one: Account, expected: Mark, off: bool | None) -> None:
    assert (mark(one), is_off_by_more_than_half(one)) == (expected, off)
