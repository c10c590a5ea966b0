"""What one look at a card means (domain.md I), by hand-written tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from monitoring.rules.snapshot import MIB, Look, Owner, SeenProcess, Tenure, owner_of
from monitoring.rules.verdicts import CardFacts, Heartbeat, State, Verdict, judge
from reservations.rules.policy import Policy

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
PERIOD = timedelta(seconds=10)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
ANN, BO, EVE = 1, 2, 3
POLICY = Policy()

ANNS = Tenure(11, 21, ANN, NOON - 2 * HOUR, NOON + 2 * HOUR)
ANNS_ENDED = Tenure(11, 21, ANN, NOON - 3 * HOUR, NOON - 20 * MINUTE)
ANNS_IN_GRACE = Tenure(11, 21, ANN, NOON - 3 * HOUR, NOON - MINUTE)
ANNS_LONG_AGO = Tenure(11, 21, ANN, NOON - 5 * HOUR, NOON - 2 * HOUR)
ANNS_NEXT = Tenure(13, 23, ANN, NOON - 20 * MINUTE, NOON + HOUR)
BOS = Tenure(12, 22, BO, NOON - 20 * MINUTE, NOON + 2 * HOUR)


def of(member: int | None, *, kind: str = "C", memory: int | None = 4000 * MIB, owner: Owner | None = None) -> SeenProcess:
    sure = Owner.VERIFIED if member else Owner.UNKNOWN
    return SeenProcess(100 + (member or 0), 5, 2000 + (member or 0), memory, kind, owner or sure, member)


ROOT = of(None, owner=Owner.AMBIGUOUS)
NOBODY_KNOWN = of(None)
XORG = of(None, kind="G", memory=120 * MIB, owner=Owner.AMBIGUOUS)


def look(*processes: SeenProcess, **changes: Any) -> Look:
    used = sum(one.memory or 0 for one in processes) + 7 * MIB
    return Look(**{"at": NOON, "utilization": 0, "memory_used": used, "processes": processes, **changes})


def verdict(
    seen: Look | None, *tenures: Tenure, now: datetime = NOON, heartbeat: Heartbeat | None = None,
    last_at: datetime | None = NOON, still_open: frozenset[int] = frozenset(),
) -> Verdict | None:
    facts = CardFacts([seen] if seen else [], tenures, last_at, still_open)
    return judge(facts, heartbeat or Heartbeat(now), now=now, policy=POLICY, period=PERIOD)


@pytest.mark.parametrize(
    ("what", "seen", "tenures", "state"),
    [
        ("nothing on it", look(), [], State.FREE),
        ("held, but nothing on it", look(), [ANNS], State.FREE),
        ("100 % without a process is no use (I2)", look(utilization=100), [], State.FREE),
        ("100 % without a process is no use of the holder", look(utilization=100), [ANNS], State.FREE),
        ("the holder computes", look(of(ANN)), [ANNS], State.IN_USE),
        ("the holder computes, memory per process not told (NV-03)", look(of(ANN, memory=None)), [ANNS], State.IN_USE),
        ("the holder and root", look(of(ANN), ROOT), [ANNS], State.IN_USE),
        ("a desktop is no use (AT-06)", look(XORG, of(None, kind="G", memory=34 * MIB)), [], State.FREE),
        ("a desktop of the holder is no use", look(of(ANN, kind="G", memory=34 * MIB)), [ANNS], State.FREE),
        ("a desktop beside a stranger's job", look(XORG, of(EVE)), [], State.UNBOOKED),
        ("graphics that fill the card are somebody's use", look(of(None, kind="G")), [], State.UNKNOWN),
        ("a member without a reservation", look(of(EVE)), [], State.UNBOOKED),
        ("a member without a reservation, and root", look(of(EVE), ROOT), [], State.UNBOOKED),
        ("a member on another's card", look(of(EVE)), [ANNS], State.CONTESTED),
        ("a member beside the holder", look(of(ANN), of(EVE)), [ANNS], State.CONTESTED),
        ("root on a free card: never free, never a name (AT-07)", look(ROOT), [], State.UNKNOWN),
        ("root on a held card", look(ROOT), [ANNS], State.UNKNOWN),
        ("a uid nobody has mapped", look(NOBODY_KNOWN), [], State.UNKNOWN),
        ("memory without a process (AT-04)", look(memory_used=9000 * MIB), [], State.NOT_VISIBLE),
        ("memory without a process on a held card", look(memory_used=9000 * MIB, utilization=97), [ANNS], State.NOT_VISIBLE),
        ("memory at the threshold", look(memory_used=300 * MIB), [], State.FREE),
        ("memory above the threshold", look(memory_used=301 * MIB), [], State.NOT_VISIBLE),
        ("memory that the desktop explains", look(XORG, memory_used=400 * MIB), [], State.FREE),
        ("memory unread", look(memory_used=None), [], State.UNKNOWN),
        ("process list unread (NV-01)", look(processes=None), [], State.UNKNOWN),
        ("process list unread on a held card", look(processes=None, utilization=0), [ANNS], State.UNKNOWN),
        ("the card fell off the bus (NV-04)", Look(NOON, problem="lost"), [ANNS], State.OFFLINE),
        ("the card needs a reset", Look(NOON, problem="reset_required"), [], State.UNKNOWN),
        ("the card answers nonsense", Look(NOON, problem="unreadable"), [], State.UNKNOWN),
        ("the former holder in the grace", look(of(ANN)), [ANNS_IN_GRACE], State.OVERRUN),
        ("the former holder after the grace", look(of(ANN)), [ANNS_ENDED], State.OVERRUN),
        ("overrun goes before contested", look(of(ANN), of(EVE)), [ANNS_ENDED, BOS], State.OVERRUN),
        ("overrun beside the holder's own job (AT-10)", look(of(ANN), of(BO)), [ANNS_ENDED, BOS], State.OVERRUN),
        ("the former holder gone, the holder there", look(of(BO)), [ANNS_ENDED, BOS], State.IN_USE),
        ("the former holder's desktop only", look(of(ANN, kind="G", memory=99 * MIB)), [ANNS_ENDED], State.FREE),
        ("the former holder's own next reservation", look(of(ANN)), [ANNS_ENDED, ANNS_NEXT], State.IN_USE),
        ("back hours later is unbooked use", look(of(ANN)), [ANNS_LONG_AGO], State.UNBOOKED),
        ("root after the end", look(ROOT), [ANNS_ENDED], State.UNKNOWN),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_a_look_at_a_card_means(what: str, seen: Look, tenures: list[Tenure], state: State) -> None:
    found = verdict(seen, *tenures)
    assert found is not None
    assert found.state == state, what


def test_an_overrun_that_is_open_stays_one_however_late_it_is() -> None:
    found = verdict(look(of(ANN)), ANNS_LONG_AGO, still_open=frozenset({ANNS_LONG_AGO.allocation_id}))
    assert found is not None and found.state == State.OVERRUN


def test_only_a_holder_of_the_moment_is_seen_under_their_reservation() -> None:
    found = verdict(look(of(ANN), of(BO)), ANNS_ENDED, BOS)
    assert found is not None
    assert (found.under, found.member_ids) == ((BOS.allocation_id,), (ANN, BO))


@pytest.mark.parametrize(
    ("silent_for", "state", "since"),
    [
        (timedelta(seconds=30), State.FREE, NOON),
        (timedelta(seconds=31), State.UNKNOWN, NOON + 3 * PERIOD),
        (timedelta(minutes=15), State.UNKNOWN, NOON + 3 * PERIOD),
        (timedelta(minutes=15, seconds=1), State.OFFLINE, NOON + timedelta(minutes=15)),
        (timedelta(days=3), State.OFFLINE, NOON + timedelta(minutes=15)),
    ],
)
def test_silence_is_unknown_then_offline_from_the_instant_it_became_too_long(
    silent_for: timedelta, state: State, since: datetime
) -> None:
    found = verdict(look(), ANNS, now=NOON + silent_for, heartbeat=Heartbeat(NOON))
    assert found is not None
    assert (found.state, found.at) == (state, since)


def test_a_card_that_was_never_sampled_stays_unsaid() -> None:
    assert verdict(None, last_at=None) is None


@pytest.mark.parametrize(("offset", "state"), [(30, State.FREE), (-30, State.FREE), (31, State.UNKNOWN), (-31, State.UNKNOWN)])
def test_clocks_that_differ_make_every_card_unknown(offset: float, state: State) -> None:
    found = verdict(look(), heartbeat=Heartbeat(NOON, clock_offset_s=offset))
    assert found is not None and found.state == state


def test_a_host_that_answers_with_a_problem_is_unknown_and_stays_so(  # NV-07
) -> None:
    mismatch = Heartbeat(NOON + 2 * HOUR, problem="mismatch")
    found = verdict(None, ANNS, now=NOON + 2 * HOUR, heartbeat=mismatch)
    assert found is not None and found.state == State.UNKNOWN


@pytest.mark.parametrize(
    ("uid", "owner", "member"),
    [
        (2001, Owner.VERIFIED, ANN), (2009, Owner.UNKNOWN, None), (None, Owner.UNKNOWN, None),
        (0, Owner.AMBIGUOUS, None), (65_534, Owner.AMBIGUOUS, None), (33, Owner.AMBIGUOUS, None), (501, Owner.VERIFIED, BO),
    ],
)
def test_i3_an_owner_is_only_who_is_mapped_and_never_root(uid: int | None, owner: Owner, member: int | None) -> None:
    assert owner_of(uid, {2001: ANN, 501: BO, 0: EVE, 65_534: EVE}) == (owner, member)


def test_a_process_survives_packing_to_the_mebibyte() -> None:
    one = of(ANN, memory=4000 * MIB + 5)
    assert SeenProcess.unpacked(one.packed()) == of(ANN)
    assert SeenProcess.unpacked(NOBODY_KNOWN.packed()) == NOBODY_KNOWN


def test_the_states_are_those_of_the_ledger() -> None:
    from reservations.models import CardState

    assert {str(one) for one in State} <= {str(one) for one in CardState.State}


def test_b4_a_collaborators_process_is_at_home_and_no_strangers() -> None:
    alone, together = (
        verdict(look(of(BO)), tenure) for tenure in (ANNS, replace(ANNS, beside=frozenset({BO})))
    )
    assert alone is not None and (alone.state, alone.under) == (State.CONTESTED, ())
    assert together is not None and (together.state, together.under) == (State.IN_USE, (ANNS.allocation_id,))
