"""Who displaces whom: ranks, kinds, hours, and what a named card stands for (C3, D3, D4, D7, E4, J3)."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reservations.rules.booking import Ask, Card, Decision, Facts, Holding, PoolFacts, decide
from reservations.rules.displacement import may_be_displaced
from reservations.rules.facts import Claim
from reservations.rules.interval import Interval
from reservations.rules.kinds import Kind
from reservations.rules.policy import Policy
from reservations.rules.quota import UNITS_PER_GPU_HOUR, Stretch, charge, no_dearer
from reservations.rules.rank import Rank, Standing, lowered, standing
from reservations.rules.refusal import Code
from reservations.rules.windows import Timetable

SHANGHAI = ZoneInfo("Asia/Shanghai")
NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)  # Monday 14:00 in the lab: Tuesday freezes at 20:00
POLICY = Policy(mode="person", windows=())
REGULAR, EXPLORATION = (0, 1), (0, 2)


def at(hours: float) -> datetime:
    return NOW + timedelta(hours=hours)


def holding(
    card: int, start: float, end: float, *, rank: Rank = EXPLORATION, times: int = 0, number: int = 70, cards: int = 1,
    booked: float = -24, started: bool = False,
) -> Holding:
    claim = Claim(at(start), rank, at(booked), timedelta(hours=end - start) * cards, times)
    return Holding(card, Interval(at(start), at(end)), number, 2, "Li", claim=None if started else claim)


def facts(*holdings: Holding, **changes: object) -> Facts:
    cards = {number: Card(number, f"a:{number}", 100, True, 1, "a", f"0{number}", "A100") for number in (1, 2)}
    plain = Facts(
        now=NOW, zone=SHANGHAI, policy=POLICY, member_id=1, member_approved=True, member_role="phd", cards=cards,
        pools={1: PoolFacts(frozenset(cards), Timetable((), SHANGHAI, {}))}, holdings=holdings, own=[], own_future=0,
        used={}, mates=cards,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def any_of(count: int = 1, start: float = 34, end: float = 42, tier: str = "regular") -> Ask:
    """Cards by count; from Wednesday 00:00 unless told otherwise."""
    return Ask((), at(start), at(end), tier, count)


def displaced(decision: Decision) -> set[int] | None:
    return set(decision.plan.displaced) if decision.plan else None


# --- ranks ---


@pytest.mark.parametrize(
    ("points", "expected"),
    [(0, Standing(0, True)), (1, Standing(1, True)), (2, Standing(1, True)), (3, Standing(2, False)), (9, Standing(2, False))],
)
def test_j3_points_lower_the_tier_and_take_the_right_to_displace(points: int, expected: Standing) -> None:
    assert standing(points, POLICY) == expected


@pytest.mark.parametrize(
    ("tier", "steps", "place"),
    [
        ("deadline", 0, 0), ("deadline", 2, 2), ("regular", 1, 2), ("exploration", 1, 3), ("exploration", 2, 4),
        ("exploration", 9, 4),
    ],
)
def test_c3_standing_lowers_a_tier_by_at_most_two_below_the_weakest(tier: str, steps: int, place: int) -> None:
    assert lowered(tier, steps, POLICY) == place


def test_c3_within_quota_goes_before_elastic_whatever_the_tier() -> None:
    in_quota, elastic = (0, lowered("exploration", 2, POLICY)), (1, lowered("deadline", 0, POLICY))
    assert in_quota < elastic


def test_c3_the_rank_is_fixed_with_the_plan() -> None:
    plan = decide(any_of(), facts(steps=1)).plan
    assert plan is not None
    assert plan.rank == (0, 2)


# --- whom ---

# Wednesday 00:00 is 34 hours from now, and freezes on Tuesday 20:00; its closing hour is Tuesday 18:00, 28 hours from now.
WHOM = [
    pytest.param(REGULAR, Kind.PLANNED, holding(1, 34, 42), NOW, True, id="D4: a weaker planned one makes room"),
    pytest.param(REGULAR, Kind.PLANNED, holding(1, 34, 42, rank=REGULAR), NOW, False, id="C3: an equal rank never"),
    pytest.param(EXPLORATION, Kind.PLANNED, holding(1, 34, 42, rank=REGULAR), NOW, False, id="C3: a stronger one never"),
    pytest.param(REGULAR, Kind.PLANNED, holding(1, 34, 42), at(27.9), True, id="D4: just before the closing hour"),
    pytest.param(REGULAR, Kind.PLANNED, holding(1, 34, 42), at(28), False, id="D4: not at the closing hour"),
    pytest.param(REGULAR, Kind.PLANNED, holding(1, 34, 42), at(30), False, id="D7: not once it is frozen"),
    pytest.param(REGULAR, Kind.PLANNED, holding(1, 34, 42, times=1), NOW, True, id="D4: once displaced is not safe"),
    pytest.param(REGULAR, Kind.PLANNED, holding(1, 34, 42, times=2), NOW, False, id="D4: twice displaced is safe"),
    pytest.param(REGULAR, Kind.LATE, holding(1, 34, 42), NOW, False, id="D3: a late request displaces nobody"),
    pytest.param(REGULAR, Kind.WALK_IN, holding(1, 34, 42), NOW, False, id="D2: nor a walk-in"),
    pytest.param(REGULAR, Kind.LATE, holding(1, 4, 8, rank=(1, 1)), NOW, True, id="D3: but an elastic one"),
    pytest.param((0, 4), Kind.LATE, holding(1, 4, 8, rank=(1, 0)), NOW, True, id="E4: whatever its tier"),
    pytest.param(REGULAR, Kind.PLANNED, holding(1, 34, 42, rank=(1, 1), times=5), at(31), True, id="E4: never frozen nor safe"),
    pytest.param(REGULAR, Kind.LATE, holding(1, 4, 8, rank=(1, 1)), at(1.99), True, id="E4: until two hours before its start"),
    pytest.param(REGULAR, Kind.LATE, holding(1, 4, 8, rank=(1, 1)), at(2), False, id="E4: not in its last two hours"),
    pytest.param(REGULAR, Kind.WALK_IN, holding(1, 4, 8, rank=(1, 1)), NOW, False, id="E4: not by a walk-in"),
    pytest.param((1, 1), Kind.PLANNED, holding(1, 34, 42, rank=(1, 2)), NOW, False, id="E4: an elastic one displaces nobody"),
    pytest.param(REGULAR, Kind.PLANNED, holding(1, 34, 42, started=True), NOW, False, id="D7: what has started never"),
]


@pytest.mark.parametrize(("rank", "kind", "other", "now", "expected"), WHOM)
def test_d4_who_may_be_displaced(rank: Rank, kind: Kind, other: Holding, now: datetime, expected: bool) -> None:
    assert may_be_displaced(other, rank, kind, facts(now=now)) is expected


def test_n_without_displacement_only_elastic_ones_make_room() -> None:
    off = facts(policy=replace(POLICY, displacement=False))
    assert not may_be_displaced(holding(1, 34, 42), REGULAR, Kind.PLANNED, off)
    assert may_be_displaced(holding(1, 34, 42, rank=(1, 2)), REGULAR, Kind.PLANNED, off)


# --- the whole answer ---


def test_d4_a_free_card_goes_before_displacing_anybody() -> None:
    decision = decide(any_of(), facts(holding(1, 34, 42)))
    assert decision.plan is not None
    assert (decision.plan.card_ids, decision.plan.displaced) == ((2,), frozenset())


def test_d4_with_no_free_card_the_weakest_is_displaced() -> None:
    decision = decide(any_of(tier="regular"), facts(holding(1, 34, 42, rank=(0, 3), number=71), holding(2, 34, 42, number=72)))
    assert displaced(decision) == {71}


def test_d4_a_reservation_is_displaced_whole_and_counted_whole() -> None:
    """Card-hours of whole reservations: sixteen on two cards are more than twelve on one."""
    wide = [holding(card, 34, 42, number=71, cards=2) for card in (1,)]
    decision = decide(any_of(), facts(*wide, holding(2, 34, 46, number=72)))
    assert displaced(decision) == {72}


def test_d4_the_one_booked_last_makes_room_among_equals() -> None:
    decision = decide(any_of(), facts(holding(1, 34, 42, number=71, booked=-3), holding(2, 34, 42, number=72, booked=-2)))
    assert displaced(decision) == {72}


def test_d4_a_named_card_is_never_swapped_silently() -> None:
    decision = decide(replace(any_of(), card_ids=(1,), count=0), facts(holding(1, 34, 42)))
    (refusal,) = decision.refusals
    assert refusal.code == Code.EQUAL_FREE
    assert refusal.facts == {"cards": ["a:2"]}
    assert refusal.alternative is not None
    assert refusal.alternative.values == {"cards": (2,)}


def test_d4_a_named_card_displaces_when_no_equal_one_is_free() -> None:
    others = facts(holding(1, 34, 42, number=71), holding(2, 34, 42, rank=REGULAR, number=72))
    assert displaced(decide(replace(any_of(), card_ids=(1,), count=0), others)) == {71}
    refused = decide(replace(any_of(), card_ids=(2,), count=0), others)
    assert [one.code for one in refused.refusals] == [Code.CARD_TAKEN]


def test_d4_another_model_is_no_equal_card() -> None:
    unlike = facts(holding(1, 34, 42, number=71))
    mates = {**unlike.cards, 2: replace(unlike.cards[2], model="V100")}
    assert displaced(decide(replace(any_of(), card_ids=(1,), count=0), replace(unlike, cards=mates, mates=mates))) == {71}


def test_d4_one_who_stays_on_a_named_card_refuses_it_whole() -> None:
    decision = decide(
        replace(any_of(), card_ids=(1, 2), count=0), facts(holding(1, 34, 42), holding(2, 38, 50, rank=REGULAR, number=72))
    )
    assert {one.code for one in decision.refusals} == {Code.CARD_TAKEN}


@pytest.mark.parametrize("named", [True, False], ids=["named", "by count"])
def test_j3_d6_who_may_not_displace_is_told_until_when(named: bool) -> None:
    wish = replace(any_of(), card_ids=(1,), count=0) if named else any_of()
    barred = facts(
        holding(1, 34, 42), holding(2, 34, 42, number=71), may_displace=False, no_displacing_until=at(100)
    )
    decision = decide(wish, barred)
    assert [one.code for one in decision.refusals] == [
        Code.CARD_TAKEN if named else Code.NOT_ENOUGH_CARDS, Code.NO_DISPLACING
    ]
    assert decision.refusals[1].facts == {"until": at(100)}


def test_g4_displacing_leaves_the_pool_its_reserve() -> None:
    """One of two cards is kept; the free one is it. A regular request takes the place of the weaker one instead."""
    kept = facts(holding(1, 34, 42, number=71))
    kept = replace(kept, pools={1: replace(kept.pools[1], reserve=1)})
    decision = decide(any_of(), kept)
    assert decision.plan is not None
    assert (decision.plan.card_ids, decision.plan.displaced) == ((1,), frozenset({71}))


# --- elastic ---

WEEK = date(2026, 11, 30)
SPENT = {WEEK: 100 * UNITS_PER_GPU_HOUR}


def test_e4_beyond_the_allowance_it_is_elastic_as_a_whole() -> None:
    plan = decide(any_of(), facts(used=SPENT)).plan
    assert plan is not None
    assert plan.is_elastic
    assert plan.rank == (1, 1)


def test_e4_only_with_a_start_within_48_hours() -> None:
    assert decide(any_of(start=48, end=56), facts(used=SPENT)).plan is not None
    later = decide(any_of(start=48.25, end=56), facts(used=SPENT))
    assert [one.code for one in later.refusals] == [Code.QUOTA]


def test_e4_only_on_free_cards() -> None:
    full = facts(holding(1, 34, 42), holding(2, 34, 42, number=71), used=SPENT)
    assert Code.QUOTA in [one.code for one in decide(any_of(), full).refusals]
    assert Code.QUOTA in [one.code for one in decide(replace(any_of(), card_ids=(1,), count=0), full).refusals]


def test_e4_not_where_the_lab_has_none() -> None:
    off = facts(used=SPENT, policy=replace(POLICY, elastic=False))
    assert [one.code for one in decide(any_of(), off).refusals] == [Code.QUOTA]


def test_e4_nobody_is_displaced_where_a_free_card_serves_beyond_the_allowance() -> None:
    plan = decide(any_of(), facts(holding(1, 34, 42), used=SPENT)).plan
    assert plan is not None
    assert (plan.card_ids, plan.displaced, plan.is_elastic) == ((2,), frozenset(), True)


# --- properties ---

WINDOWS = st.integers(0, 60).map(lambda quarters: 30 + quarters / 4)
OTHERS = st.lists(
    st.tuples(
        st.sampled_from([1, 2]), WINDOWS, st.integers(2, 40).map(lambda quarters: quarters / 4),
        st.tuples(st.integers(0, 1), st.integers(0, 4)), st.integers(0, 3), st.booleans(),
    ),
    max_size=6,
)


def laid_out(rows: list[tuple[int, float, float, Rank, int, bool]]) -> list[Holding]:
    """Those of the rows that do not overlap others on the same card."""
    found: list[Holding] = []
    for number, (card, start, length, rank, times, started) in enumerate(rows, 70):
        one = holding(card, start, start + length, rank=rank, times=times, number=number, started=started)
        if not any(other.card_id == card and other.interval.overlaps(one.interval) for other in found):
            found.append(one)
    return found


@settings(max_examples=300)
@given(OTHERS, WINDOWS, st.sampled_from(["deadline", "regular", "exploration"]), st.integers(1, 2), st.booleans())
def test_c3_d7_no_equal_or_stronger_rank_is_displaced_and_nothing_that_started(
    rows: list[tuple[int, float, float, Rank, int, bool]], start: float, tier: str, count: int, named: bool
) -> None:
    others = laid_out(rows)
    known = facts(*others, policy=replace(POLICY, granted_tiers=(), cards_at_once=2))
    wish = any_of(count, start, start + 4, tier)
    if named:
        wish = replace(wish, card_ids=tuple(range(1, count + 1)), count=0)
    plan = decide(wish, known).plan
    if plan is None:
        return
    by_number = {one.reservation_id: one for one in others}
    for number in plan.displaced:
        claim = by_number[number].claim
        assert claim is not None
        assert claim.rank > plan.rank
        assert claim.rank[0] or claim.displaced_times < 2
    # What stays does not overlap what was given, and nobody makes room who is not in the way.
    for one in others:
        in_the_way = one.card_id in plan.card_ids and one.interval.overlaps(plan.held)
        assert in_the_way == (one.reservation_id in plan.displaced)
    # Any order of what is known gives the same answer.
    assert decide(wish, replace(known, holdings=others[::-1])).plan == plan


RATES = st.lists(st.tuples(st.integers(1, 12), st.sampled_from([0, 50, 100, 150, 200])), min_size=1, max_size=5)


def price(start: float, parts: list[tuple[int, int]]) -> tuple[Stretch, ...]:
    edges = [start]
    for quarters, _ in parts:
        edges.append(edges[-1] + quarters / 4)
    return tuple(Stretch(Interval(at(a), at(b)), rate) for a, b, (_, rate) in zip(edges, edges[1:], parts, strict=False))


@given(RATES, RATES, st.integers(0, 200))
def test_d5_a_moved_price_is_nowhere_dearer_than_the_old_one(
    old: list[tuple[int, int]], new: list[tuple[int, int]], later: int
) -> None:
    before, asked = price(8, old), price(8 + later / 4, new)
    capped = no_dearer(asked, before)
    assert (capped[0].interval.start, capped[-1].interval.end) == (asked[0].interval.start, asked[-1].interval.end)
    assert sum(charge([(capped, 100)], SHANGHAI).values()) <= sum(charge([(asked, 100)], SHANGHAI).values())
    if sum(quarters for quarters, _ in old) >= sum(quarters for quarters, _ in new):
        assert sum(charge([(capped, 100)], SHANGHAI).values()) <= sum(charge([(before, 100)], SHANGHAI).values())
