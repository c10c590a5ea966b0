"""K5 as pure rules: the order of turns, where a wish finds its place, how long an offer holds, what is kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reservations.rules.booking import Ask, Card, Facts, Holding, Plan, PoolFacts, decide
from reservations.rules.interval import Interval
from reservations.rules.policy import BALANCED
from reservations.rules.waitlist import Freed, Wish, earliest, in_order, is_quiet, kept_from, offer_until
from reservations.rules.week import round_to_raster
from reservations.rules.windows import Timetable

SHANGHAI = ZoneInfo("Asia/Shanghai")
NOW = datetime(2026, 11, 30, 14, tzinfo=SHANGHAI)
HOUR, MINUTE, QUARTER = timedelta(hours=1), timedelta(minutes=1), timedelta(minutes=15)
CARDS = {n: Card(n, f"a:{n}", 100, True, 1, "a" if n < 3 else "b", f"0{n}", "A100", 80 << 30) for n in (1, 2, 3)}
POLICY = replace(BALANCED, walk_in_cards=3, mode="person")


def known(*held: tuple[int, float, float], now: datetime = NOW, **changes: object) -> Facts:
    """The three cards, held by others from hour to hour after NOW."""
    holdings = [
        Holding(card, Interval(NOW + a * HOUR, NOW + b * HOUR), 100 + n, 9, "Li") for n, (card, a, b) in enumerate(held)
    ]
    pools = {1: PoolFacts(frozenset(CARDS), Timetable(POLICY.windows, SHANGHAI, {}))}
    plain = Facts(
        now=now, zone=SHANGHAI, policy=POLICY, member_id=1, member_approved=True, member_role="phd", cards=CARDS, pools=pools,
        holdings=holdings, own=[], own_future=0, used={},
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def wish(hours: float = 2, latest: float = 24, *, cards: tuple[int, ...] = (), count: int = 1, **changes: object) -> Wish:
    ask = Ask(cards, None, NOW + latest * HOUR, "regular", 0 if cards else count)
    plain = Wish(1, 1, ask, hours * HOUR, NOW, NOW + latest * HOUR, (0, 1), NOW)
    return replace(plain, **changes)  # type: ignore[arg-type]


def slot(plan: Plan | None) -> tuple[tuple[int, ...], float, float] | None:
    if plan is None:
        return None
    return plan.card_ids, (plan.held.start - NOW) / HOUR, (plan.held.end - NOW) / HOUR


def test_k5_in_order_of_rank_then_card_hours_then_waiting() -> None:
    rows = [
        wish(id=1, rank=(0, 2)), wish(id=2, held_lately=5 * HOUR), wish(id=3, since=NOW + HOUR), wish(id=4),
        wish(id=5, rank=(0, 0), held_lately=500 * HOUR, since=NOW + 9 * HOUR), wish(id=6, rank=(1, 0)),
    ]
    assert [one.id for one in in_order(rows)] == [5, 4, 3, 2, 1, 6]


@given(st.permutations([wish(id=n, rank=(0, n % 2), held_lately=(n % 3) * HOUR, since=NOW + n * HOUR) for n in range(6)]))
def test_k5_the_order_does_not_depend_on_how_they_came(rows: list[Wish]) -> None:
    assert [one.id for one in in_order(rows)] == [0, 4, 2, 3, 1, 5]


@pytest.mark.parametrize(
    ("held", "asked", "expected"),
    [
        ((), wish(), ((1,), 0, 2)),
        ((), wish(count=2), ((1, 2), 0, 2)),
        (((1, 0, 4), (2, 0, 6), (3, 0, 5)), wish(), ((1,), 4, 6)),
        (((1, 0, 4), (2, 0, 6), (3, 0, 5)), wish(count=2), ((1, 2), 6, 8)),
        (((1, 0, 4), (2, 0, 6), (3, 0, 5)), wish(cards=(2,)), ((2,), 6, 8)),
        (((1, 0, 4), (2, 0, 6), (3, 0, 5)), wish(count=3), None),  # on one host there are two at most
        (((1, 1, 4), (2, 1.5, 6), (3, 0, 5)), wish(2), ((1,), 4, 6)),  # the gaps before are too short
        (((1, 0, 23), (2, 0, 23), (3, 0, 23)), wish(2), None),  # after them it would end too late
        ((), wish(2, 24, earliest=NOW + 4.1 * HOUR), ((1,), 4.25, 6.25)),
        ((), wish(12, 24), ((1,), 0.25, 12.25)),  # too long to be a walk-in (D2)
    ],
)
def test_k5_the_earliest_place(
    held: tuple[tuple[int, float, float], ...], asked: Wish, expected: tuple[tuple[int, ...], float, float] | None
) -> None:
    assert slot(earliest(asked, known(*held))) == expected


def test_k5_a_walk_in_lasts_to_the_next_step_or_to_the_one_before_where_that_is_too_long() -> None:
    now = NOW + 7 * MINUTE
    assert slot(earliest(wish(2), known(now=now))) == ((1,), 7 / 60, 2.25)
    assert slot(earliest(wish(8), known(now=now))) == ((1,), 7 / 60, 8)


def test_d2_nobody_is_put_on_a_card_that_is_not_seen_free() -> None:
    cards = {n: replace(card, pickable=False) for n, card in CARDS.items()}
    for asked in (wish(cards=(1,)), wish()):
        found = earliest(asked, known(cards=cards))
        assert found is not None and found.held.start > NOW


def test_k5_an_offer_starts_now_or_not_before_it_can_have_run_out() -> None:
    asked = wish(asks_first=True)
    assert slot(earliest(asked, known())) == ((1,), 0, 2)
    held = ((1, 0, 0.1), (2, 0, 9), (3, 0, 9))
    assert slot(earliest(asked, known(*held))) == ((1,), 0.25, 2.25)
    later = known(*held, now=NOW + 5 * MINUTE)
    assert slot(earliest(asked, later)) == ((1,), 0.5, 2.5)


@pytest.mark.parametrize(
    ("start", "seconds"),
    [(0, 15 * 60), (0.1, 6 * 60), (1, 15 * 60), (23.9, 15 * 60), (24, 2 * 3600), (48, 2 * 3600)],
)
def test_k5_an_offer_holds_15_minutes_and_two_hours_a_day_ahead(start: float, seconds: int) -> None:
    held = Interval(NOW + start * HOUR, NOW + (start + 2) * HOUR)
    assert offer_until(held, NOW, POLICY) == NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("clock", "from_", "to", "quiet"),
    [
        ("23:00", "23:00", "08:00", True), ("07:59", "23:00", "08:00", True), ("08:00", "23:00", "08:00", False),
        ("22:59", "23:00", "08:00", False), ("13:00", "12:30", "14:00", True), ("14:00", "12:30", "14:00", False),
        ("12:00", "12:00", "12:00", False), ("00:00", "00:00", "00:00", False),
    ],
)
def test_k3_quiet_hours_by_the_clock(clock: str, from_: str, to: str, quiet: bool) -> None:
    now = datetime.combine(NOW.date(), time.fromisoformat(clock), SHANGHAI)
    assert is_quiet(now, time.fromisoformat(from_), time.fromisoformat(to), SHANGHAI) is quiet


def test_k5_kept_is_what_somebody_else_waits_for() -> None:
    span = Interval(NOW, NOW + 4 * HOUR)
    freed = [Freed(1, span, NOW + 2 * MINUTE), Freed(3, span, None)]
    asked = wish(member_id=7, cards=(1,))
    assert [one.card_id for one in kept_from(1, freed, [asked], CARDS)] == [1]
    assert kept_from(7, freed, [asked], CARDS) == []
    assert kept_from(1, freed, [replace(asked, asks_first=True, is_quiet=True)], CARDS) == []
    assert kept_from(1, freed, [replace(asked, earliest=NOW + 4 * HOUR)], CARDS) == []
    both = kept_from(1, freed, [wish(member_id=7, rank=(0, 2)), wish(member_id=8, rank=(0, 1))], CARDS)
    assert [(one.card_id, one.rank, one.until) for one in both] == [(1, (0, 1), NOW + 2 * MINUTE), (3, (0, 1), None)]


# --- against trying everything ------------------------------------------------------------------------------------------


@st.composite
def busy(draw: st.DrawFn) -> list[tuple[int, float, float]]:
    """Up to four stretches on each card, none over another."""
    found = []
    for card in CARDS:
        edges = sorted(draw(st.sets(st.integers(-4, 96), max_size=8)))
        found += [(card, a / 4, b / 4) for a, b in list(pairwise(edges))[::2] if b > 0]
    return found


@settings(max_examples=150, deadline=None)
@given(
    busy(), st.sampled_from([0.5, 1, 2, 4, 9]), st.sampled_from([1, 1, 2]), st.integers(0, 40), st.integers(8, 100),
    st.booleans(), st.integers(0, 14),
)
def test_k5_no_earlier_place_is_missed_and_every_place_is_allowed(
    held: list[tuple[int, float, float]], hours: float, count: int, first: int, last: int, asks: bool, minutes: int
) -> None:
    facts = known(*held, now=NOW + minutes * MINUTE)
    asked = wish(hours, last / 4, count=count, earliest=NOW + first / 4 * HOUR, asks_first=asks)
    found = earliest(asked, facts)
    lead = timedelta(seconds=POLICY.offer_s) if asks else timedelta(seconds=1)
    start = round_to_raster(max(facts.now + lead, asked.earliest), POLICY.raster_s, SHANGHAI, up=True)
    tried = []
    if asked.earliest <= facts.now and not asked.is_over(facts.now):
        ends = [round_to_raster(facts.now + asked.length, POLICY.raster_s, SHANGHAI, up=up) for up in (True, False)]
        tried += [replace(asked.ask, start=None, end=end) for end in ends if facts.now < end <= asked.latest]
    while start + asked.length <= asked.latest:
        tried.append(replace(asked.ask, start=start, end=start + asked.length))
        start += QUARTER
    by_trying = next((plan for ask in tried if (plan := decide(ask, facts).plan)), None)
    assert (found and found.held) == (by_trying and by_trying.held)
    if found:
        assert decide(Ask(found.card_ids, None if found.held.start == facts.now else found.held.start, found.held.end, "regular"),
                      facts).plan is not None
