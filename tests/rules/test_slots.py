"""Where a request fits: by hand-computed tables, against every step of the raster tried by `decide`, and in few questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reservations.rules import slots
from reservations.rules.booking import Ask, Card, Facts, Holding, Plan, PoolFacts, decide
from reservations.rules.interval import Interval
from reservations.rules.kinds import Kind
from reservations.rules.policy import BALANCED, Policy, Role
from reservations.rules.quota import allowance_units
from reservations.rules.refusal import Code
from reservations.rules.slots import earliest, open_until, units_of
from reservations.rules.supply import choices, room_in_pool
from reservations.rules.week import on_raster, round_to_raster
from reservations.rules.windows import Days, Mode, Timetable, Window

SHANGHAI, NEW_YORK = ZoneInfo("Asia/Shanghai"), ZoneInfo("America/New_York")
NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)  # Monday 14:00 in the lab
WEEK, NEXT_WEEK = date(2026, 11, 30), date(2026, 12, 7)
QUARTER = timedelta(minutes=15)
BY_PERSON = replace(BALANCED, mode="person")
PLAIN = Policy(mode="person", windows=(), walk_in_free_hours=0, elastic=False)
DAYTIME: dict[str, Any] = {"opens": time(9), "shuts": time(18)}


def at(hours: float) -> datetime:
    return NOW + timedelta(hours=hours)


def hours(number: float) -> timedelta:
    return timedelta(hours=number)


def facts(policy: Policy = PLAIN, **changes: Any) -> Facts:
    """A PhD student with nothing booked; cards 1 and 2 on host a, 3 and 4 on host b, one pool, all free."""
    cards = {
        number: Card(number, f"{host}:{number}", 100, True, 1, host, f"{number:02}", "A100", 80 << 30)
        for number, host in enumerate("aabb", 1)
    }
    plain = Facts(
        now=NOW, zone=SHANGHAI, policy=policy, member_id=1, member_approved=True, member_role="phd", cards=cards,
        pools={1: PoolFacts(frozenset(cards), Timetable(policy.windows, SHANGHAI, {}))}, holdings=[], own=[], own_future=0,
        used={},
    )
    return replace(plain, **changes)


def any_cards(count: int = 1, start: float | None = None, **changes: Any) -> Ask:
    return replace(Ask((), None if start is None else at(start), at(1), "regular", count), **changes)


def held(card: int, start: float, end: float, number: int = 77) -> Holding:
    return Holding(card, Interval(at(start), at(end)), number, 2, "Li", "regular")


def last_day_of(facts: Facts) -> datetime:
    return open_until(facts.now, facts.zone, facts.policy)


def times(plans: list[Plan]) -> list[tuple[float, float]]:
    return [((plan.held.start - NOW) / hours(1), (plan.held.end - NOW) / hours(1)) for plan in plans]


def first(ask: Ask, known: Facts, length: float, until: float = 24 * 20) -> tuple[float, tuple[int, ...]] | None:
    found = earliest(ask, known, length=hours(length), until=at(until))
    return (times(found)[0][0], found[0].card_ids) if found else None


# --- by hand --------------------------------------------------------------------------------------------------------

def test_a_free_lab_gives_a_walk_in_at_once() -> None:
    (plan,) = earliest(any_cards(2), facts(), length=hours(2), until=at(100))
    assert (plan.kind, plan.held, plan.card_ids) == ("walk_in", Interval(at(0), at(2)), (1, 2))


def test_a1_a_walk_in_between_two_steps_ends_on_one_and_lasts_at_least_as_long_as_asked() -> None:
    now = NOW + timedelta(minutes=7)
    (plan,) = earliest(any_cards(), facts(now=now), length=hours(2), until=at(100))
    assert plan.held == Interval(now, at(2.25))


@pytest.mark.parametrize(
    ("ask", "known", "length", "answer"),
    [
        pytest.param(any_cards(), facts(holdings=[held(n, -1, 5) for n in (1, 2, 3, 4)]), 2, (5, (1,)), id="once one is free"),
        pytest.param(
            any_cards(2), facts(holdings=[held(1, -1, 5), held(3, -1, 6), held(4, 7, 9)]), 4, (5, (1, 2)),
            id="G2: two on one host: b has only one card free long enough",
        ),
        pytest.param(
            any_cards(2, several_hosts=True), facts(holdings=[held(1, -1, 5), held(3, -1, 6)]), 4, (0, (2, 4)),
            id="G2: two on two hosts where that is allowed",
        ),
        pytest.param(
            any_cards(), facts(holdings=[held(n, 1, 5) for n in (1, 2, 3, 4)]), 1, (0, (1,)), id="the gap before, exactly",
        ),
        pytest.param(
            any_cards(), facts(holdings=[held(n, 1, 5) for n in (1, 2, 3, 4)]), 1.25, (5, (1,)), id="a quarter too long for it",
        ),
        pytest.param(any_cards(start=3), facts(), 2, (3, (1,)), id="not before the asked start"),
        pytest.param(any_cards(start=3.1), facts(), 2, (3.25, (1,)), id="A1: an asked start between two steps"),
        pytest.param(
            Ask((1, 3), None, at(1), "regular"), facts(holdings=[held(1, 4, 8), held(3, 9, 11)]), 5, (11, (1, 3)),
            id="named cards: when both are free",
        ),
        pytest.param(any_cards(), facts(used={WEEK: allowance_units(100)}), 2, (24 * 6 + 10, (1,)), id="E2: when the week turns"),
        pytest.param(
            any_cards(), facts(used={WEEK: allowance_units(99)}), 3, (24 * 6 + 9, (1,)), id="E2: an hour before the week turns",
        ),
        pytest.param(any_cards(), facts(own=[held(n, 1, 7) for n in (7, 8, 9, 10)]), 2, (7, (1,)), id="B1: four held at once"),
        pytest.param(any_cards(), facts(own_future=6), 2, (0, (1,)), id="B1: six ahead: only now"),
        pytest.param(
            any_cards(), facts(own_future=6, holdings=[held(n, -1, 1) for n in (1, 2, 3, 4)]), 2, None, id="B1: six ahead"
        ),
        pytest.param(any_cards(), facts(member_approved=False), 2, None, id="B2: not approved"),
        pytest.param(any_cards(), facts(), 80, None, id="A1: too long"),
        pytest.param(any_cards(3), facts(), 2, None, id="G2: more than a host has"),
        pytest.param(any_cards(model="H100"), facts(), 2, None, id="G2: no such model"),
        pytest.param(any_cards(), facts(holdings=[held(n, -1, 24 * 30) for n in (1, 2, 3, 4)]), 2, None, id="all held"),
        pytest.param(
            any_cards(), facts(replace(PLAIN, walk_in_longest_s=3600)), 2, (0.25, (1,)), id="D2: too long for a walk-in: late",
        ),
    ],
)
def test_the_earliest_start(ask: Ask, known: Facts, length: float, answer: tuple[float, tuple[int, ...]] | None) -> None:
    assert first(ask, known, length) == answer


@pytest.mark.parametrize(
    ("windows", "length", "start"),
    [
        # Monday 14:00 is hour 0; 18:00 is 4, Tuesday 09:00 is 19.
        pytest.param([Window(1, Mode.CLOSED, **DAYTIME)], 2, 4,
                     id="F1: closed by day"),
        pytest.param([Window(1, Mode.CLOSED, opens=time(18), shuts=time(9))], 6, 19,
                     id="F1: closed at night: the next morning"),
        pytest.param([Window(1, Mode.LONG)], 3, None, id="F1: too short for a long window on any day"),
        pytest.param([Window(1, Mode.LONG)], 4, 1, id="F1: four hours in a long window"),
        pytest.param([Window(1, Mode.WALK_IN, **DAYTIME)], 2, 4,
                     id="F1: only walk-ins by day"),
        pytest.param([Window(1, Mode.OPEN, **DAYTIME,
                             most_inside=timedelta(hours=2))], 6, 2, id="F2: at most two hours of it by day"),
    ],
)
def test_f1_f2_the_earliest_start_under_windows(windows: list[Window], length: float, start: float | None) -> None:
    """From an hour ahead: no walk-in."""
    policy = replace(PLAIN, windows=tuple(windows))
    found = first(any_cards(start=1), facts(policy), length)
    assert (found and found[0]) == start


def test_g4_g7_reserve_and_quick_cards_are_left_alone() -> None:
    known = facts(holdings=[held(1, -1, 30), held(2, -1, 10)])
    (pool,) = known.pools.values()

    def when(length: float, **kept: int) -> float | None:
        found = first(any_cards(start=1), replace(known, pools={1: replace(pool, **kept)}), length)
        return found and found[0]

    assert when(3) == 1
    assert when(3, reserve=2) == 10
    assert when(3, quick=2) == 10 and when(2, quick=2) == 1
    assert when(3, reserve=2, quick=1) == 30 and when(2, reserve=2, quick=1) == 10


def test_g4_the_deadline_tier_sits_on_the_reserve_at_each_instant_by_itself() -> None:
    """Two of the deadline tier in one hour and two others in the next are never three beside the reserve of one."""
    deadline = [replace(held(n, 1, 2, n), tier="deadline") for n in (1, 2)]
    known = facts(holdings=[*deadline, *(held(n, 2, 3, n) for n in (3, 4))])
    known = replace(known, pools={1: replace(known.pools[1], reserve=1)})
    (pool,) = known.pools.values()
    spans = [Interval(at(1), at(2)), Interval(at(2), at(3)), Interval(at(1), at(3))]
    assert [room_in_pool(pool, known, span, Kind.LATE, "regular") for span in spans] == [2, 1, 1]


def test_g7_long_ones_of_a_rest_day_take_nothing_from_a_working_day() -> None:
    """Three of four cards are held until Sunday 22:00; a long one from then into Monday leaves the quick card on Monday."""
    sunday = 24 * 6 + 4  # 18:00
    known = facts(holdings=[held(n, sunday, sunday + 4, n) for n in (1, 2, 3)])
    known = replace(known, pools={1: replace(known.pools[1], quick=1)})
    ask = Ask((4,), at(sunday), at(sunday + 12), "regular")
    assert decide(ask, known).plan
    longer = replace(known, holdings=[held(n, sunday, sunday + 6.25, n) for n in (1, 2, 3)])
    assert {one.code for one in decide(ask, longer).refusals} == {Code.RESERVE_KEPT}


def test_d5_at_one_start_the_lower_charge_comes_first_then_the_choice_of_cards() -> None:
    known = facts()
    dear = {5: Card(5, "c:5", 200, True, 2, "c", "01"), 6: Card(6, "d:6", 100, True, 3, "d", "00")}
    table = known.pools[1].timetable
    known = replace(
        known, cards={**known.cards, **dear},
        pools={**known.pools, 2: PoolFacts(frozenset({5}), table), 3: PoolFacts(frozenset({6}), table)},
    )
    found = earliest(any_cards(start=1), known, length=hours(2), until=at(48), several=4)
    assert [(plan.held.start, plan.card_ids) for plan in found] == [
        (at(1), (6,)), (at(1), (1,)), (at(1), (5,)), (at(1.25), (6,))
    ]
    assert [units_of(plan, known) for plan in found[:3]] == [allowance_units(2)] * 2 + [allowance_units(4)]


def test_several_plans_may_be_asked_for_that_lie_apart() -> None:
    found = earliest(any_cards(), facts(holdings=[held(n, 2, 3) for n in (1, 2, 3, 4)]), length=hours(2), until=at(9),
                     several=5, apart=hours(2))
    assert times(found) == [(0, 2), (3, 5), (5, 7), (7, 9)]


def test_a4_no_plan_ends_after_the_last_open_day() -> None:
    known = facts(holdings=[held(n, -1, 24 * 14 + 8) for n in (1, 2, 3, 4)])
    assert last_day_of(known) == at(24 * 14 + 10)
    assert first(any_cards(), known, 2) == (24 * 14 + 8, (1,))
    assert first(any_cards(), known, 2.25) is None


# --- against trying everything --------------------------------------------------------------------------------------


def every_step(span: Interval, raster_s: int, zone: ZoneInfo) -> Iterator[datetime]:
    instant = span.start.replace(second=0, microsecond=0) + timedelta(minutes=1)
    while instant < span.end:
        if on_raster(instant, raster_s, zone):
            yield instant
        instant += timedelta(minutes=1)


def tried(ask: Ask, known: Facts, length: timedelta, until: datetime, several: int, apart: timedelta) -> list[Plan]:
    """The same by asking the law about every start there is."""
    step = timedelta(seconds=known.policy.raster_s)
    length = -(-length // step) * step
    from_ = known.now if ask.start is None else max(ask.start, known.now)
    starts = [known.now] if from_ == known.now else []
    starts += [one for one in every_step(Interval(known.now, until), known.policy.raster_s, known.zone) if one >= from_]
    lanes = [ask] if ask.is_named else [replace(ask, pool_id=n) for n in sorted(known.pools) if ask.pool_id in (None, n)]
    ready = dict.fromkeys(range(len(lanes)), from_)
    found: list[Plan] = []
    for start in starts:
        end = round_to_raster(start + length, known.policy.raster_s, known.zone, up=True)
        here: list[Plan] = []
        for n, lane in enumerate(lanes):
            if end <= until and start >= ready[n]:
                plan = decide(replace(lane, start=None if start == known.now else start, end=end), known).plan
                if plan:
                    here.append(plan)
                    ready[n] = start + apart
        if len(here) > 1:
            order = [set(one) for one in choices(replace(ask, start=start, end=end), known, here[0].held, here[0].kind)]
            here.sort(key=lambda plan: (units_of(plan, known), order.index(set(plan.card_ids))))
        found += here
    return found[:several]


CARDS = {
    number: Card(
        number, f"a:{number}", 250 if number > 4 else 100, True, 1 + (number > 4), "a" if number % 3 else "b", f"{number:02}",
        "A100" if number % 4 else "H100", memory=(24 if number % 2 else 80) << 30, pickable=number != 2,
    )
    for number in range(1, 9)
}
WINDOWS = [
    (), BY_PERSON.windows, (Window(1, Mode.CLOSED, days=Days.WORKING, **DAYTIME),), (Window(1, Mode.LONG),),
    (Window(1, Mode.LONG), Window(2, Mode.WALK_IN, days=Days.WORKING, **DAYTIME)),
    (Window(1, Mode.OPEN, 200, Days.WORKING, **DAYTIME, most_inside=timedelta(hours=2)), Window(2, Mode.CLOSED, pool_id=2)),
    (Window(1, Mode.OPEN, 0, Days.REST), Window(2, Mode.OPEN, 300, Days.WORKING, **DAYTIME)),
]


@st.composite
def known(draw: st.DrawFn) -> Facts:
    """Two pools of four cards over four days, crowded; a tight policy of every sort; two zones, one with a clock change."""
    zone, now = draw(st.sampled_from([
        (SHANGHAI, NOW), (SHANGHAI, NOW + timedelta(minutes=7, seconds=3)),
        (NEW_YORK, datetime(2026, 10, 31, 20, tzinfo=UTC)), (NEW_YORK, datetime(2027, 3, 12, 20, 10, tzinfo=UTC)),
    ]))
    windows = draw(st.sampled_from(WINDOWS))
    policy = replace(
        BY_PERSON, windows=windows, opens_days=draw(st.sampled_from([1, 3, 14])), cards_at_once=draw(st.sampled_from([2, 3, 9])),
        walk_in_longest_s=draw(st.sampled_from([3600, 8 * 3600])), raster_s=draw(st.sampled_from([900, 1800, 3600])),
        walk_in_free_hours=draw(st.sampled_from([0, 4])), roles={"phd": Role(draw(st.sampled_from([4, 20, 100])))},
        walk_in_cards=draw(st.sampled_from([1, 4])), shortest_s=1800,
    )

    def some(who: int, most: int) -> list[Holding]:
        taken = []
        for number, (card, start, length, tier) in enumerate(draw(st.lists(
            st.tuples(st.integers(1, 8), st.integers(-16, 300), st.integers(2, 60), st.sampled_from(["regular", "deadline"])),
            max_size=most,
        ))):
            interval = Interval(now + start * QUARTER, now + (start + length) * QUARTER)
            if not any(one.card_id == card and one.interval.overlaps(interval) for one in taken):
                taken.append(Holding(card, interval, 100 + number, who, "Li", tier, start <= 0))
        return taken

    pools = {}
    for number in (1, 2):
        of_pool = tuple(one for one in windows if one.pool_id in (None, number))
        reserve, quick = draw(st.sampled_from([(0, 0), (0, 0), (1, 0), (0, 2), (1, 1)]))
        ids = frozenset(card.id for card in CARDS.values() if card.pool_id == number)
        pools[number] = PoolFacts(ids, Timetable(of_pool, zone, {}), reserve, quick)
    monday = now.astimezone(zone).date() - timedelta(days=now.astimezone(zone).weekday())
    used = {monday + timedelta(days=7 * n): allowance_units(1) * draw(st.sampled_from([0, 0, 3, 18, 99, 101])) for n in range(3)}
    return Facts(
        now=now, zone=zone, policy=policy, member_id=1, member_approved=draw(st.integers(0, 20)) > 0, member_role="phd",
        cards=CARDS, pools=pools, holdings=some(2, draw(st.sampled_from([3, 12, 30]))), own=some(1, 3),
        own_future=draw(st.sampled_from([0, 0, 0, 6])), used=used, used_last=draw(st.none() | st.integers(1, 8)),
    )


@st.composite
def asks(draw: st.DrawFn, now: datetime) -> Ask:
    start = draw(st.none() | st.integers(-1, 90).map(lambda n: now + n * QUARTER))
    tier = draw(st.sampled_from(["regular", "exploration"]))
    if draw(st.integers(0, 2)) == 0:
        named = tuple(sorted(draw(st.sets(st.integers(1, 8), min_size=1, max_size=3))))
        return Ask(named, start, now + QUARTER, tier)
    return Ask(
        (), start, now + QUARTER, tier, draw(st.sampled_from([1, 1, 2, 3])), draw(st.sampled_from([None, None, 1, 2])),
        draw(st.sampled_from([None, None, "A100"])), draw(st.sampled_from([None, None, 80 << 30])), draw(st.booleans()),
    )


@st.composite
def searches(draw: st.DrawFn) -> tuple[Ask, Facts, timedelta, datetime, int, timedelta]:
    facts = draw(known())
    length = timedelta(minutes=draw(st.sampled_from([15, 30, 50, 60, 120, 240, 480, 1440])))
    until = min(facts.now + hours(draw(st.integers(1, 50))), last_day_of(facts))
    several, apart = draw(st.sampled_from([1, 3, 40])), draw(st.sampled_from([hours(0), length]))
    return draw(asks(facts.now)), facts, length, until, several, apart


@settings(max_examples=100, deadline=None)
@given(searches())
def test_it_finds_what_trying_every_step_finds(search: tuple[Ask, Facts, timedelta, datetime, int, timedelta]) -> None:
    ask, facts, length, until, several, apart = search
    found = earliest(ask, facts, length=length, until=until, several=several, apart=apart)
    assert found == tried(ask, facts, length, until, several, apart)


@settings(max_examples=60, deadline=None)
@given(searches(), st.sampled_from([
    {"cards_at_once": 99}, {"walk_in_longest_s": 400 * 3600}, {"walk_in_cards": 99}, {"roles": {"phd": Role(10_000)}},
    {"open_future": 99}, {"opens_days": 30}, {"longest_s": 400 * 3600}, {"walk_in_free_hours": 99}, {"windows": ()},
]))
def test_relaxing_a_limit_never_makes_the_earliest_later(
    search: tuple[Ask, Facts, timedelta, datetime, int, timedelta], limit: dict[str, Any]
) -> None:
    ask, facts, length, until, *_ = search
    relaxed = replace(facts, policy=replace(facts.policy, **limit))
    if "windows" in limit:
        relaxed = replace(relaxed, pools={
            n: replace(pool, timetable=replace(pool.timetable, windows=()), reserve=0, quick=0) for n, pool in facts.pools.items()
        })
    before = earliest(ask, facts, length=length, until=until)
    after = earliest(ask, relaxed, length=length, until=until)
    assert not before or (after and after[0].held.start <= before[0].held.start)


@settings(max_examples=40, deadline=None)
@given(searches(), st.randoms(use_true_random=False))
def test_the_answer_does_not_depend_on_the_order_of_what_is_known(
    search: tuple[Ask, Facts, timedelta, datetime, int, timedelta], dice: Any
) -> None:
    ask, facts, length, until, several, apart = search

    def shuffled(values: Any) -> Any:
        rows = list(values)
        dice.shuffle(rows)
        return rows

    other = replace(
        facts, cards=dict(shuffled(facts.cards.items())), pools=dict(shuffled(facts.pools.items())),
        holdings=shuffled(facts.holdings), own=shuffled(facts.own),
    )
    wanted = {"length": length, "until": until, "several": several, "apart": apart}
    assert earliest(ask, facts, **wanted) == earliest(ask, other, **wanted)


# --- in few questions -----------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Ask]:
    """Every question put to the law by a search."""
    questions: list[Ask] = []

    def counting(ask: Ask, facts: Facts) -> Any:
        questions.append(ask)
        return decide(ask, facts)

    monkeypatch.setattr(slots, "decide", counting)
    return questions


def large(policy: Policy = BY_PERSON, free: range = range(0), kept: tuple[int, int] = (0, 0), **changes: Any) -> Facts:
    """64 cards of two pools on eight hosts, held to the last for 14 days but for those in `free`."""
    cards = {n: Card(n, f"h{n // 8}:{n % 8}", 100 + n // 32 * 150, True, 1 + n // 32, f"h{n // 8}", f"{n:02}") for n in range(64)}
    table = Timetable(policy.windows, SHANGHAI, {})
    holdings = [
        held(n, 6 * part - 1 - n / 64, 6 * part + 5 - n / 64, 1000 * part + n)
        for n in cards if n not in free for part in range(60)
    ]
    plain = Facts(
        now=NOW, zone=SHANGHAI, policy=policy, member_id=1, member_approved=True, member_role="phd", cards=cards,
        pools={p: PoolFacts(frozenset(n for n in cards if cards[n].pool_id == p), table, *kept) for p in (1, 2)},
        holdings=holdings,
        own=[], own_future=0, used={},
    )
    return replace(plain, **changes)


FULL = {WEEK: allowance_units(100), NEXT_WEEK: allowance_units(98), date(2026, 12, 14): allowance_units(100)}
ONLY_SHORT_WALK_INS = replace(BY_PERSON, windows=(Window(1, Mode.WALK_IN),), walk_in_longest_s=3600)
WITHOUT_ELASTIC = replace(BY_PERSON, elastic=False)
THREE_HOURS_A_DAY = replace(BY_PERSON, windows=(Window(1, Mode.OPEN, most_inside=timedelta(hours=3)),))


@pytest.mark.parametrize(
    ("known", "ask", "found", "most"),
    [
        pytest.param(large(), any_cards(2), 0, 0, id="everything is held"),
        pytest.param(large(free=range(64)), any_cards(2), 1, 2, id="everything is free"),
        pytest.param(large(free=range(64)), any_cards(2), 10, 12, id="everything is free, ten plans"),
        pytest.param(large(free=range(3, 5)), any_cards(2), 1, 1, id="two cards are free on one host"),
        pytest.param(large(free=range(64)), Ask((3, 4, 60), at(30), at(31), "regular"), 1, 1, id="named cards"),
        pytest.param(
            large(WITHOUT_ELASTIC, range(64), used=FULL), any_cards(2, 1), 0, 3, id="the quota of three weeks is used up"
        ),
        pytest.param(large(free=range(64), used=FULL), any_cards(2, 1), 1, 2, id="but two days ahead there is elastic time"),
        pytest.param(large(free=range(64), used=FULL), any_cards(2), 1, 2, id="but what starts now is free of charge"),
        pytest.param(large(replace(BY_PERSON, windows=(Window(1, Mode.CLOSED),)), range(64)), any_cards(2), 0, 0, id="closed"),
        pytest.param(large(ONLY_SHORT_WALK_INS, range(64)), any_cards(2), 0, 0, id="walk-ins only, too long for one"),
        pytest.param(
            large(free=range(64), own=[held(n, -1, 360) for n in range(100, 103)]), any_cards(2), 0, 0, id="the cap is reached"
        ),
        pytest.param(large(free=range(64), own_future=6), any_cards(2, 1), 0, 1, id="six lie ahead"),
        pytest.param(large(free=range(64), member_approved=False), any_cards(2), 0, 1, id="not approved"),
        pytest.param(large(THREE_HOURS_A_DAY, range(64)), any_cards(2, 1), 0, 0, id="more hours than the window allows"),
        pytest.param(large(kept=(8, 24)), any_cards(2, 1), 0, 0, id="what is free is kept back"),
    ],
)
def test_two_weeks_of_64_cards_are_searched_with_few_questions(
    asked: list[Ask], known: Facts, ask: Ask, found: int, most: int
) -> None:
    plans = earliest(ask, known, length=hours(4), until=at(24 * 14), several=found or 1)
    assert (len(plans), len(asked) <= most) == (found, True), len(asked)
