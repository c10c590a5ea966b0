"""F3: who is on a card without a reservation, by hand-written tables and by properties."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring.rules.cleanup import Found, Skip, Watched, unbooked
from monitoring.rules.snapshot import MIB, NOBODY_UID, Look, Owner, SeenProcess, Tenure
from monitoring.rules.verdicts import CardFacts, Heartbeat
from reservations.rules.interval import Interval
from reservations.rules.policy import Policy

FIVE = datetime(2026, 12, 4, 9, 0, tzinfo=UTC)  # Friday 17:00 in Shanghai
PERIOD, MINUTE, HOUR = timedelta(seconds=10), timedelta(minutes=1), timedelta(hours=1)
ANN, BO, EVE = 1, 2, 3
PEOPLE = frozenset({ANN, BO})
POLICY = Policy()

HELD = Tenure(11, 21, ANN, FIVE - HOUR, FIVE + HOUR)
WITH_BO = replace(HELD, beside=frozenset({BO}))
IN_GRACE = Tenure(11, 21, ANN, FIVE - 3 * HOUR, FIVE - 5 * MINUTE)
IN_THE_HOUR = Tenure(11, 21, ANN, FIVE - 3 * HOUR, FIVE - 40 * MINUTE)
LONG_AGO = Tenure(11, 21, ANN, FIVE - 5 * HOUR, FIVE - 2 * HOUR)
NEXT = Tenure(12, 22, BO, FIVE - 3 * MINUTE, FIVE + HOUR)


def of(member: int | None, pid: int = 100, **changes: Any) -> SeenProcess:
    values: dict[str, Any] = {
        "pid": pid, "started": 5, "uid": 2000 + (member or 0), "memory": 4000 * MIB, "kind": "C",
        "owner": Owner.VERIFIED if member else Owner.UNKNOWN, "member_id": member,
    }
    return SeenProcess(**{**values, **changes})


ROOT = of(None, 200, uid=0, owner=Owner.AMBIGUOUS)
STRANGER = of(None, 201)
SERVICE = of(None, 202, uid=998, owner=Owner.AMBIGUOUS)
EXPORTER = replace(SERVICE, memory=10 * MIB)
NOBODYS = replace(EXPORTER, uid=NOBODY_UID)
SMALL_ROOT = replace(ROOT, memory=10 * MIB)
XORG = of(None, 203, uid=0, kind="G", memory=120 * MIB, owner=Owner.AMBIGUOUS)
ANNS_DESKTOP = of(ANN, 204, kind="G", memory=120 * MIB)


def looks(*processes: SeenProcess, count: int = 3, until: datetime = FIVE, **changes: Any) -> list[Look]:
    """So many looks up to `until`, each showing these."""
    return [
        Look(until - place * PERIOD, processes=processes, memory_used=5000 * MIB, **changes) for place in reversed(range(count))
    ]


def card(seen: list[Look], *tenures: Tenure, heartbeat: Heartbeat | None = None, open_: frozenset[int] = frozenset(),
         **changes: Any) -> Watched:
    facts = CardFacts(seen, tenures, FIVE, open_)
    return Watched(7, "gpu-a:0", "GPU-7", 1, facts, heartbeat or Heartbeat(FIVE), **changes)


def ask(one: Watched, *, at: datetime = FIVE, now: datetime = FIVE, people: frozenset[int] = PEOPLE) -> Found:
    return unbooked(one, at, people, now=now, policy=POLICY, period=PERIOD)


@pytest.mark.parametrize(
    ("what", "processes", "tenures", "listed"),
    [
        ("nobody there", [], [], []),
        ("somebody without a reservation", [of(ANN)], [], [ANN]),
        ("two of them", [of(ANN), of(BO, 101)], [], [ANN, BO]),
        ("the holder", [of(ANN)], [HELD], []),
        ("the holder, and somebody else", [of(ANN), of(BO, 101)], [HELD], [BO]),
        ("a collaborator who accepted (B4)", [of(ANN), of(BO, 101)], [WITH_BO], []),
        ("who stays on in the grace is a matter of I4", [of(ANN)], [IN_GRACE], []),
        ("and for the hour in which an overrun may be seen first", [of(ANN)], [IN_THE_HOUR], []),
        ("who came back hours after their end", [of(ANN)], [LONG_AGO], [ANN]),
        ("who stays on into another's time", [of(ANN)], [IN_GRACE, NEXT], []),
        ("somebody else beside who stays on", [of(ANN), of(BO, 101)], [IN_GRACE], [BO]),
        ("a desktop is no use (AT-06)", [ANNS_DESKTOP], [], []),
        ("a compute process beside the desktop", [ANNS_DESKTOP, of(ANN)], [], [ANN]),
        ("somebody who has left the lab", [of(EVE)], [], []),
    ],
)
def test_f3_who_is_listed_by_name(
    what: str, processes: list[SeenProcess], tenures: list[Tenure], listed: list[int]
) -> None:
    found = ask(card(looks(*processes), *tenures))
    assert (found.skip, sorted(found.owners)) == (None, listed), what


def test_f3_an_overrun_that_is_on_record_is_not_listed_however_long_it_lasts() -> None:
    assert not ask(card(looks(of(ANN)), LONG_AGO, open_=frozenset({11}))).owners
    assert set(ask(card(looks(of(ANN)), LONG_AGO)).owners) == {ANN}


@pytest.mark.parametrize(
    ("what", "processes", "tenures", "doubtful"),
    [
        ("root", [ROOT], [], [200]),
        ("root with little memory: people work as root", [SMALL_ROOT], [], [200]),
        ("an account that nobody has named", [STRANGER], [], [201]),
        ("a service that holds much memory", [SERVICE], [], [202]),
        ("one whose memory could not be read", [replace(SERVICE, memory=None)], [], [202]),
        ("one whose owner could not be read", [replace(STRANGER, uid=None)], [], [201]),
        ("somebody who has left the lab and can be told nothing", [of(EVE)], [], [100]),
        ("a service that measures", [EXPORTER], [], []),
        ("the same as nobody", [NOBODYS], [], []),
        ("a desktop", [XORG], [], []),
        ("a member", [of(ANN)], [], []),
        ("root on a card that somebody holds: it may be theirs (I3)", [ROOT], [HELD], []),
        ("root on a card whose grace has not ended", [ROOT], [IN_GRACE], []),
        ("root on a card that was held long ago", [ROOT], [LONG_AGO], [200]),
    ],
)
def test_f3_what_goes_to_arbiters_only(
    what: str, processes: list[SeenProcess], tenures: list[Tenure], doubtful: list[int]
) -> None:
    assert [one.pid for one in ask(card(looks(*processes), *tenures)).doubtful] == doubtful, what


READABLE = looks(of(ANN), ROOT)
UNREAD = [*looks(of(ANN))[:2], Look(FIVE, processes=None)]
LOST = [*looks(of(ANN))[:2], Look(FIVE, problem="lost", processes=(of(ANN),))]
GAPPED = [looks(of(ANN), count=6)[0], *looks(of(ANN))[1:]]


@pytest.mark.parametrize(
    ("what", "one", "skip"),
    [
        ("never read", card([]), Skip.SILENT),
        ("last read more than three periods ago", card(looks(of(ANN), until=FIVE - 31 * timedelta(seconds=1))), Skip.SILENT),
        ("last read three periods ago", card(looks(of(ANN), until=FIVE - 3 * PERIOD)), None),
        ("two looks only", card(looks(of(ANN), count=2)), Skip.UNREAD),
        ("three looks in a moment", card([replace(one, at=FIVE) for one in looks(of(ANN))]), Skip.UNREAD),
        ("a hole between them", card(GAPPED), Skip.UNREAD),
        ("a list of processes that could not be read", card(UNREAD), Skip.UNREAD),
        ("a card that could not be read", card(LOST), Skip.UNREAD),
        ("a host in trouble", card(READABLE, heartbeat=Heartbeat(FIVE, "timeout")), Skip.SILENT),
        ("clocks that differ", card(READABLE, heartbeat=Heartbeat(FIVE, "", 31.0)), Skip.CLOCK),
        ("clocks that differ the other way", card(READABLE, heartbeat=Heartbeat(FIVE, "", -31.0)), Skip.CLOCK),
        ("clocks that differ a little", card(READABLE, heartbeat=Heartbeat(FIVE, "", 30.0)), None),
        ("a look of a simulated host", card([*READABLE[:2], replace(READABLE[2], simulated=True)]), Skip.MIXED),
        ("simulated cards beside real ones", card(READABLE, is_mixed=True), Skip.MIXED),
        ("a simulated lab", card(looks(of(ANN), simulated=True), simulated=True), None),
        ("in maintenance", card(READABLE, closed=[Interval(FIVE - MINUTE, FIVE + MINUTE)]), Skip.MAINTENANCE),
        ("maintenance that is over", card(READABLE, closed=[Interval(FIVE - HOUR, FIVE)]), None),
    ],
)
def test_f3_unknown_is_not_idle_and_accuses_nobody(what: str, one: Watched, skip: Skip | None) -> None:
    found = ask(one)
    assert found.skip == skip, what
    assert bool(found.owners) == (skip is None), what
    assert not (skip and found.doubtful), what


def test_f3_who_is_just_leaving_or_just_coming_is_not_listed() -> None:
    """AT-08: one look that still shows the one who went and already the one who comes."""
    seen = [
        Look(FIVE - 2 * PERIOD, processes=(of(ANN),)), Look(FIVE - PERIOD, processes=(of(ANN), of(BO, 101))),
        Look(FIVE, processes=(of(BO, 101),)),
    ]
    assert not ask(card(seen)).owners


def test_f3_a_process_started_anew_is_the_same_use() -> None:
    seen = [Look(FIVE - place * PERIOD, processes=(of(ANN, 100 + place),)) for place in (2, 1, 0)]
    assert {one.pid for one in ask(card(seen)).owners[ANN]} == {100}


def test_f3_a_process_of_nobody_known_that_is_started_anew_is_another() -> None:
    seen = [Look(FIVE - place * PERIOD, processes=(replace(ROOT, pid=100 + place),)) for place in (2, 1, 0)]
    assert not ask(card(seen)).doubtful


def test_f3_another_time_is_judged_by_its_own_looks() -> None:
    """Looking back an hour: what came after is not asked, and the host's present troubles are not either."""
    one = card([*looks(of(ANN)), *looks(of(BO), until=FIVE + HOUR)], heartbeat=Heartbeat(FIVE + HOUR, "timeout"))
    assert set(ask(one, now=FIVE + HOUR).owners) == {ANN}
    assert ask(one, at=FIVE + HOUR, now=FIVE + HOUR).skip == Skip.SILENT


PROCESSES = st.lists(
    st.builds(
        lambda pid, who, kind, memory: of(who[1], pid, kind=kind, memory=memory, owner=who[0], uid=who[2]),
        st.integers(1, 4),
        st.sampled_from([
            (Owner.VERIFIED, ANN, 2001), (Owner.RESOLVED, BO, 2002), (Owner.AMBIGUOUS, None, 0), (Owner.UNKNOWN, None, 3000),
            (Owner.AMBIGUOUS, None, 998), (Owner.VERIFIED, EVE, 2003),
        ]),
        st.sampled_from(["C", "G", "C+G"]), st.sampled_from([None, 10 * MIB, 4000 * MIB]),
    ),
    max_size=4,
)
LOOKS = st.lists(
    st.one_of(PROCESSES.map(tuple), st.none()), min_size=0, max_size=5
).map(lambda some: [Look(FIVE - place * PERIOD, processes=one) for place, one in enumerate(some)][::-1])
TENURES = st.lists(
    st.builds(
        lambda pk, who, beside, start, length: Tenure(
            pk, pk, who, FIVE + start * MINUTE, FIVE + (start + length) * MINUTE, frozenset(beside)
        ),
        st.integers(1, 3), st.sampled_from([ANN, BO, EVE]), st.sets(st.sampled_from([ANN, BO]), max_size=1),
        st.integers(-300, 10), st.integers(1, 400),
    ),
    max_size=3, unique_by=lambda one: one.allocation_id,
)


@given(seen=LOOKS, tenures=TENURES)
def test_f3_nobody_is_listed_but_who_is_surely_there_in_every_look_and_has_no_right(
    seen: list[Look], tenures: list[Tenure]
) -> None:
    found = ask(card(seen, *tenures))
    last = seen[-3:]
    for member, processes in found.owners.items():
        assert member in PEOPLE
        assert len(last) == 3
        assert processes and all(one in seen[-1].users and one.member_id == member for one in processes)
        assert all(look.proof_against({member}) for look in last)
        assert not any(one.holds_at(look.at) and member in one.people for one in tenures for look in last)
    for one in found.doubtful:
        assert one.member_id not in PEOPLE
        assert not any(tenure.holds_at(look.at) for tenure in tenures for look in last)


@given(seen=LOOKS, tenures=TENURES, skew=st.floats(30.5, 10**6), at=st.integers(0, 4))
def test_f3_whatever_is_missing_accuses_fewer_never_more(
    seen: list[Look], tenures: list[Tenure], skew: float, at: int
) -> None:
    whole = ask(card(seen, *tenures))
    holed = [replace(one, processes=None) if place == at else one for place, one in enumerate(seen)]
    for less in (
        ask(card(holed, *tenures)), ask(card(seen[:-1], *tenures)) if len(seen) < 4 else Found(),
        ask(card(seen, *tenures, heartbeat=Heartbeat(FIVE, "", skew))), ask(card(seen, *tenures, is_mixed=True)),
        ask(card(seen, *tenures), people=frozenset({ANN})),
    ):
        assert set(less.owners) <= set(whole.owners)
