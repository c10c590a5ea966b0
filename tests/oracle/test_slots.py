"""Slots: what the product finds is, to the last card and unit, what trying every start finds."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from reservations.rules import slots as product
from reservations.rules import sources, supply
from reservations.rules.booking import Ask, Card, Facts, Holding, Plan, PoolFacts
from reservations.rules.interval import Interval, crowded
from reservations.rules.policy import Policy, Role, Scheduling
from reservations.rules.slots import units_of
from reservations.rules.windows import Days, Mode, Timetable, Window

from . import brute_slots as brute
from .slot_cases import case

CASES = 2000
PARTS = 4  # so that parallel runs share them
ZONE = ZoneInfo("Asia/Shanghai")
MIDNIGHT = datetime(2026, 11, 29, 16, tzinfo=UTC)  # Monday 30 November in Shanghai
MONDAY = date(2026, 11, 30)
QUARTER = timedelta(minutes=15)
SEVERAL = 3
ALLOWANCE = 1000
FREE_HOURS = 100


def at(quarter: int) -> datetime:
    return MIDNIGHT + quarter * QUARTER


def window_of(place: int, one: brute.Window) -> Window:
    return Window(
        place, Mode(one.mode), one.rate, Days(one.days), opens=time(one.from_), shuts=time(one.until),
        most_inside=None if one.most is None else one.most * QUARTER, pool_id=one.pool,
    )


def asked(lab: brute.Lab, request: brute.Request) -> tuple[Ask, Facts]:
    """A small lab as the product knows it."""
    policy = Policy(
        raster_s=lab.raster * 900, shortest_s=lab.shortest * 900, longest_s=lab.longest * 900, opens_days=lab.opens_days,
        cards_at_once=lab.most_cards, open_future=lab.most_ahead, walk_in_longest_s=lab.walk_in_longest * 900,
        walk_in_cards=lab.walk_in_cards, walk_in_free_hours=FREE_HOURS, roles={"phd": Role(ALLOWANCE)}, windows=(),
        elastic=lab.elastic, mode=Scheduling.PERSON,
    )
    weight = {pool.number: pool.weight for pool in lab.pools}
    special = {MONDAY + timedelta(days=day): day not in lab.rest for day in range(-1, 21)}
    windows = [window_of(place, one) for place, one in enumerate(lab.windows, 1)]
    cards = {
        card.number: Card(
            card.number, str(card.number), weight[card.pool], True, card.pool, card.host, card.bus, card.model,
            pickable=card.pickable,
        )
        for card in lab.cards
    }
    holdings = [
        Holding(one.card, Interval(at(one.start), at(one.end)), 1000 + number, 2, "Li", "deadline" if one.deadline else "regular")
        for number, one in enumerate(lab.held)
    ]
    own = [
        Holding(900 + number, Interval(at(start), at(end)), 900 + number, 1, "Wei", "regular", walk_in)
        for number, (start, end, walk_in) in enumerate(lab.own)
    ]
    facts = Facts(
        now=at(lab.now), zone=ZONE, policy=policy, member_id=1, member_approved=True, member_role="phd", cards=cards,
        pools={
            pool.number: PoolFacts(
                frozenset(card.number for card in lab.cards if card.pool == pool.number),
                Timetable(tuple(one for one in windows if one.pool_id in (None, pool.number)), ZONE, special),
                pool.reserve, pool.quick,
            )
            for pool in lab.pools
        },
        holdings=holdings, own=own, own_future=lab.ahead,
        used={MONDAY + timedelta(days=7 * week): ALLOWANCE * 36_000_000 - room for week, room in lab.room.items()},
        free_used={MONDAY + timedelta(days=day): FREE_HOURS * 3600 - left for day, left in lab.free_seconds.items()},
        used_last=next((card.number for card in lab.cards if card.used_last), None),
    )
    start = None if request.from_ is None else at(request.from_)
    return Ask(
        request.named, start, at(request.until), "regular", request.count, request.pool, request.model,
        several_hosts=request.several_hosts,
    ), facts


def one_used_last(lab: brute.Lab) -> brute.Lab:
    """The product knows one card that the member used last: the first of those that the lab marks."""
    first = next((card.number for card in lab.cards if card.used_last), None)
    return replace(lab, cards=tuple(replace(card, used_last=card.number == first) for card in lab.cards))


def difference(seed: int, seen: Counter[str] | None = None) -> str | None:
    """How the product's answer differs from one of the right ones."""
    lab, request = case(seed)
    lab = one_used_last(lab)
    ask, facts = asked(lab, request)
    found = product.earliest(ask, facts, length=request.length * QUARTER, until=at(request.until), several=SEVERAL)
    right = list(islice(brute.slots(lab, request), SEVERAL + 3))
    if seen is not None:
        seen["none" if not right else right[0].kind] += 1
        seen["waits"] += bool(right) and right[0].start > max(lab.now, request.from_ or 0) + lab.raster
        seen["elastic"] += any(one.beyond for one in right)
        seen["two pools"] += len(right) > 1 and right[0].start == right[1].start
    if len(found) != min(len(right), SEVERAL):
        return f"{len(found)} slots, not {min(len(right), SEVERAL)}"
    left = list(right)
    for plan in found:
        like = [one for one in left if (one.start, one.units, one.worth) == (left[0].start, left[0].units, left[0].worth)]
        match = next((one for one in like if agrees(plan, one, facts)), None)
        if match is None:
            return f"{plan.kind} {plan.held} on {plan.card_ids} for {units_of(plan, facts)}, not one of {like}"
        left.remove(match)
    return None


def agrees(plan: Plan, one: brute.Slot, facts: Facts) -> bool:
    return (
        plan.held == Interval(at(one.start), at(one.end)) and plan.kind == one.kind
        and (units_of(plan, facts), plan.is_elastic) == (one.units, one.beyond) and frozenset(plan.card_ids) in one.cards
    )


@pytest.mark.parametrize("part", range(PARTS))
def test_the_product_finds_the_slots_that_trying_everything_finds(part: int) -> None:
    seen: Counter[str] = Counter()
    found = {seed: text for seed in range(part, CASES, PARTS) if (text := difference(seed, seen))}
    assert not found, f"{len(found)} of {CASES // PARTS}, the first: {next(iter(found.items()))}"
    # The cases are worth something: many of each sort.
    assert min(seen[sort] for sort in ("none", "walk_in", "late", "planned", "waits", "two pools")) >= CASES // PARTS // 25, seen
    assert seen["elastic"] >= CASES // PARTS // 100, seen


def _nothing_kept(*_: Any, **__: Any) -> int:
    return 0


def _every_day(span: Interval, pool: PoolFacts) -> list[Interval]:
    return [span]


def _twice(self: sources.Source, held: Interval) -> int:
    return 2 * _UNITS(self, held)


_UNITS = sources.Source.units
CARELESS: list[tuple[Any, str, Callable[..., Any]]] = [
    (product, "in_order", lambda plans, ask, facts: list(plans)),
    (supply, "reserve_kept", _nothing_kept),
    (supply, "working_days", _every_day),
    (sources.Source, "units", _twice),
    (sources, "crowded", lambda intervals, most: crowded(intervals, max(most - 1, 0))),
]


@pytest.mark.parametrize(("place", "name", "careless"), CARELESS)
def test_a_search_that_is_careless_in_one_thing_is_found_out(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, careless: Callable[..., Any]
) -> None:
    """Control: the comparison above would see it."""
    monkeypatch.setattr(place, name, careless)
    assert any(difference(seed) for seed in range(CASES // 4))
