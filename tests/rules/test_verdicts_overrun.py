"""When staying on is an offence, and when the gate lets it count (domain.md I1, I4)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from monitoring.rules.gate import Case, Reason, ask, coverage
from monitoring.rules.overrun import Finding, Track, follow
from monitoring.rules.snapshot import MIB, Look, Owner, SeenProcess, Tenure
from reservations.rules.policy import Policy

END = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
PERIOD = timedelta(seconds=10)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
GRACE_OVER = END + 10 * MINUTE
ANN, BO = 1, 2
POLICY = Policy()
ANNS = Tenure(11, 21, ANN, END - 2 * HOUR, END)
BOS = Tenure(12, 22, BO, END, END + 4 * HOUR)


def job(pid: int = 100, member: int | None = ANN, owner: Owner = Owner.VERIFIED, kind: str = "C") -> SeenProcess:
    return SeenProcess(pid, 5, 2001, 4000 * MIB, kind, owner, member)


ROOT = job(member=None, owner=Owner.AMBIGUOUS)


def looks(first: datetime, *seen: SeenProcess | str | None) -> list[Look]:
    """One look each ten seconds: a process, None = read and empty, a text = could not be read."""
    return [
        Look(first + place * PERIOD, problem=what) if isinstance(what, str)
        else Look(first + place * PERIOD, processes=(what,) if what else ())
        for place, what in enumerate(seen)
    ]


def found(
    seen: list[Look], *others: Tenure, mine: Tenure = ANNS, track: Track | None = None, now: datetime | None = None
) -> Finding:
    return follow(
        mine, [mine, *others], seen, track or Track(), now=now or seen[-1].at, policy=POLICY, period=PERIOD
    )


THREE = looks(GRACE_OVER, job(), job(), job())


def test_three_in_a_row_after_the_grace_while_somebody_waits_count_at_once() -> None:
    one = found(THREE, BOS)
    assert (one.opens, one.counts, one.waited_for, one.first_sight) == (True, True, True, GRACE_OVER)
    assert [look.at for look in one.run] == [look.at for look in THREE]


@pytest.mark.parametrize(
    ("what", "seen"),
    [
        ("two in a row", looks(GRACE_OVER, job(), job())),
        ("three, the first of them in the grace", looks(GRACE_OVER - PERIOD, job(), job(), job())),
        ("all in the grace", looks(GRACE_OVER - 5 * PERIOD, job(), job(), job(), job(), job())),
        ("gone at the last", looks(GRACE_OVER, job(), job(), job(), None)),
        ("a look without between", looks(GRACE_OVER, job(), job(), None, job(), job())),
        ("a look that could not be read between", looks(GRACE_OVER, job(), job(), "unreadable", job(), job())),
        ("root", looks(GRACE_OVER, ROOT, ROOT, ROOT, ROOT)),
        ("an unknown uid", looks(GRACE_OVER, *[job(member=None, owner=Owner.UNKNOWN)] * 4)),
        ("another member", looks(GRACE_OVER, *[job(member=BO)] * 4)),
        ("a desktop", looks(GRACE_OVER, *[job(kind="G")] * 4)),
        ("card lost", looks(GRACE_OVER, *["lost"] * 4)),
        ("a hole of more than three periods", looks(GRACE_OVER, job(), job()) + looks(GRACE_OVER + 6 * PERIOD, job())),
        ("first sight over an hour after the end", looks(END + HOUR + MINUTE, job(), job(), job(), job())),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_this_is_no_offence(what: str, seen: list[Look]) -> None:
    one = found(seen, BOS)
    assert (one.opens, one.counts) == (False, False), what


def test_a_burst_of_looks_is_no_row() -> None:
    burst = [Look(GRACE_OVER + place * timedelta(seconds=2), processes=(job(),)) for place in range(8)]
    assert not found(burst, BOS).counts
    assert found([*burst, Look(GRACE_OVER + 2 * PERIOD, processes=(job(),))], BOS).counts


def test_stale_proof_is_no_proof() -> None:
    assert found(THREE, BOS, now=THREE[-1].at + 3 * PERIOD).counts
    assert not found(THREE, BOS, now=THREE[-1].at + 3 * PERIOD + timedelta(seconds=1)).counts


def test_relaunching_is_no_way_out() -> None:
    assert found(looks(GRACE_OVER, job(100), job(101), job(102)), BOS).counts


def test_a_container_that_resolves_to_a_member_counts() -> None:
    assert found(looks(GRACE_OVER, *[job(owner=Owner.RESOLVED)] * 3), BOS).counts


def test_the_last_first_sight_is_an_hour_after_the_end() -> None:
    assert found(looks(END + HOUR, job(), job(), job()), BOS).counts


def test_without_anybody_waiting_it_opens_and_warns_and_counts_an_hour_after_the_end() -> None:
    one = found(THREE)
    assert (one.opens, one.warns, one.counts) == (True, True, False)
    track = Track(is_open=True, first_sight=GRACE_OVER)
    assert not found(looks(END + HOUR - 3 * PERIOD, job(), job(), job()), track=track).counts
    late = found(looks(END + HOUR - 2 * PERIOD, job(), job(), job()), track=track)
    assert (late.counts, late.waited_for, late.first_sight) == (True, False, GRACE_OVER)


@pytest.mark.parametrize(
    ("what", "other", "counts"),
    [
        ("booked from now", BOS, True),
        ("booked later", replace(BOS, start=END + HOUR), False),
        ("booked and given back before", replace(BOS, end=END + 5 * MINUTE), False),
        ("booked at the newest look", replace(BOS, start=THREE[-1].at), True),
    ],
)
def test_who_waits_is_who_holds_the_card_now(what: str, other: Tenure, counts: bool) -> None:
    assert found(THREE, other).counts is counts, what


def test_what_runs_in_the_own_next_reservation_is_use() -> None:
    own = replace(ANNS, allocation_id=13, reservation_id=23, start=END, end=END + HOUR)
    one = found(THREE, own)
    assert (one.opens, one.counts, one.warns) == (False, False, False)


def test_after_two_own_reservations_only_the_last_is_overrun() -> None:
    own = replace(ANNS, allocation_id=13, start=END, end=END + 30 * MINUTE)
    seen = looks(END + 40 * MINUTE, job(), job(), job())
    assert not found(seen, own).opens
    assert found(seen, ANNS, mine=own).opens


def test_an_open_overrun_closes_when_the_own_next_reservation_begins() -> None:
    own = replace(ANNS, allocation_id=13, start=END + 30 * MINUTE, end=END + HOUR)
    seen = looks(own.start, job(), job(), job())
    assert found(seen, own, track=Track(is_open=True, first_sight=GRACE_OVER)).closes


def test_an_extension_takes_it_back() -> None:
    longer = replace(ANNS, end=END + HOUR)
    assert found(THREE, mine=longer, track=Track(is_open=True)).closes
    assert not found(THREE, mine=longer).opens


@pytest.mark.parametrize(
    ("what", "seen", "closes"),
    [
        ("two without", looks(GRACE_OVER, job(), job(), job(), None, None), False),
        ("three without", looks(GRACE_OVER, job(), job(), job(), None, None, None), True),
        ("three unread", looks(GRACE_OVER, job(), job(), job(), "lost", "lost", "lost"), False),
        ("three where somebody unknown is", looks(GRACE_OVER, job(), job(), job(), ROOT, ROOT, ROOT), False),
        ("three without, one unread between", looks(GRACE_OVER, job(), None, None, "lost", None), True),
        ("back at the third", looks(GRACE_OVER, job(), None, None, job()), False),
        ("another member instead", looks(GRACE_OVER, job(), *[job(member=BO)] * 3), True),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_it_closes_after_three_looks_that_leave_no_doubt(what: str, seen: list[Look], closes: bool) -> None:
    assert found(seen, BOS, track=Track(is_open=True, first_sight=GRACE_OVER)).closes is closes, what


def test_the_warning_comes_in_the_grace_after_three_looks_and_only_while_it_is_news() -> None:
    assert not found(looks(END, job(), job())).warns
    assert found(looks(END, job(), job(), job())).warns
    assert not found(looks(END, *[job()] * 20)).warns
    assert not found(looks(END - 2 * PERIOD, job(), job(), job())).warns


def test_what_is_counted_is_not_counted_again() -> None:
    one = found(THREE, BOS, track=Track(is_open=True, is_counted=True, first_sight=GRACE_OVER))
    assert (one.opens, one.counts, one.closes) == (False, False, False)


# --- the gate -------------------------------------------------------------------------------------------------------


def every(period: timedelta, start: datetime, end: datetime) -> list[datetime]:
    found, at = [], start
    while at <= end:
        found.append(at)
        at += period
    return found


NEWEST = END + 1000 * timedelta(seconds=1)
ALL = every(PERIOD, END, NEWEST)
GOOD = Case(END, NEWEST, ALL, clock_offset_s=0.2)


@pytest.mark.parametrize(
    ("what", "case", "reason"),
    [
        ("all there", GOOD, Reason.ALLOWED),
        ("90 %", replace(GOOD, samples=ALL[:40] + ALL[50:]), Reason.ALLOWED),
        ("89 %", replace(GOOD, samples=ALL[:40] + ALL[51:]), Reason.COVERAGE),
        ("nothing at the beginning", replace(GOOD, samples=ALL[11:]), Reason.COVERAGE),
        ("no sample", replace(GOOD, samples=[]), Reason.STALE),
        ("clocks 30 s apart", replace(GOOD, clock_offset_s=-30), Reason.ALLOWED),
        ("clocks 31 s apart", replace(GOOD, clock_offset_s=31), Reason.CLOCK),
        ("simulated beside real", replace(GOOD, is_mixed=True), Reason.MIXED),
        ("out of service", replace(GOOD, in_maintenance=True), Reason.MAINTENANCE),
        ("decided already", replace(GOOD, is_decided=True), Reason.DECIDED),
    ],
    ids=lambda value: value if isinstance(value, str) and not isinstance(value, Reason) else "",
)
def test_the_gate_answers(what: str, case: Case, reason: Reason) -> None:
    assert ask(case, now=NEWEST, policy=POLICY, period=PERIOD).reason == reason, what


def test_the_gate_wants_fresh_data_and_none_from_the_future() -> None:
    assert ask(GOOD, now=NEWEST + 3 * PERIOD, policy=POLICY, period=PERIOD).is_allowed
    for now in (NEWEST + timedelta(seconds=31), NEWEST - timedelta(seconds=1)):
        assert ask(GOOD, now=now, policy=POLICY, period=PERIOD).reason == Reason.STALE


def test_jitter_costs_no_coverage_and_double_samples_buy_none() -> None:
    jitter = [at + timedelta(seconds=(-1) ** place * 3) for place, at in enumerate(ALL)]
    assert coverage(jitter, END, jitter[-1], PERIOD) == 1
    half = every(PERIOD / 2, END, END + 500 * timedelta(seconds=1))
    assert coverage(half, END, NEWEST, PERIOD) == pytest.approx(0.5, abs=0.02)


def test_a_clock_set_forward_leaves_a_hole() -> None:
    jump = timedelta(seconds=262)
    jumped = [at for at in ALL if at <= END + 3 * MINUTE] + [at for at in ALL if at > END + 3 * MINUTE + jump]
    assert coverage(jumped, END, NEWEST, PERIOD) < 0.9


# --- collaborators (B4) -------------------------------------------------------------------------------------------------

CY = 3
SHARED = replace(ANNS, beside=frozenset({BO}))


def test_b4_i4_a_collaborator_who_stays_on_is_the_holders_overrun() -> None:
    seen = looks(GRACE_OVER, *(job(member=BO) for _ in range(3)))
    assert not found(seen, mine=ANNS).opens, "without having accepted Bo is a stranger"
    one = found(seen, Tenure(14, 24, CY, END, END + HOUR), mine=SHARED)
    assert (one.opens, one.counts, one.first_sight) == (True, True, GRACE_OVER)


def test_b4_i4_who_has_the_card_next_stays_with_a_right_of_their_own_and_the_others_do_not() -> None:
    seen_bo = looks(GRACE_OVER, *(job(member=BO) for _ in range(3)))
    seen_ann = looks(GRACE_OVER, *(job() for _ in range(3)))
    assert not found(seen_bo, BOS, mine=SHARED).opens
    assert found(seen_ann, BOS, mine=SHARED).counts
    both = replace(BOS, beside=frozenset({ANN}))
    assert not found(seen_ann, both, mine=SHARED).opens
