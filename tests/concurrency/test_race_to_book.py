"""T1: fifty people at once, on a few cards: never two holders, one winner for one slot, nothing taken from losers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.rig import checkers, databases, world
from tests.rig.history import Event, tally
from tests.rig.runner import Crew, Plan

ROUNDS, CLIENTS, CARDS = 40, 50, 8
MOVES_ON = timedelta(minutes=5)
HALF_HOUR = timedelta(minutes=30)
LOSES = {"card_taken"}
# What a change may meet in a race: a neighbour, the clock, a reservation that somebody else moved on.
MAY_REFUSE = {"create": LOSES, "extend": LOSES, "cancel": set(), "release": set(), "undo": {"card_taken", "undo_over"}}


def same_slot(number: int) -> tuple[datetime, datetime]:
    """The slot that everybody wants in a round: far from where the other rounds play, each round its own."""
    start = world.MORNING + timedelta(days=7, hours=2 * number)
    return start, start + timedelta(hours=2)


def is_same_slot(number: int) -> bool:
    return number % 5 == 0


def plans(lab: world.World, rounds: int, seed: int, *, same_slot_only: bool = False) -> list[Plan]:
    """Fifty clients and one sweep. Every fifth round all want one slot; else half create, else extend, cancel, release, undo."""
    chance = random.Random(seed)
    clients = [Plan(f"c{i:02}", member) for i, member in enumerate(lab.members)]
    sweep = Plan("sweep", lab.members[0])
    for number in range(rounds):
        now = world.MORNING + number * MOVES_ON
        if same_slot_only or is_same_slot(number):
            start, end = same_slot(number)
            step = _create([lab.cards[number % CARDS]], start, end, now)
            for client in clients:
                client.steps.append(step)
        else:
            for client in clients:
                client.steps.append(_random_step(chance, lab, now))
        sweep.steps.append({"op": "advance", "now": now.isoformat()})
    return [*clients, sweep]


def _create(cards: Sequence[int], start: datetime | None, end: datetime, now: datetime) -> dict[str, Any]:
    return {
        "op": "create", "cards": list(cards), "start": start and start.isoformat(), "end": end.isoformat(),
        "now": now.isoformat(),
    }


def _random_step(chance: random.Random, lab: world.World, now: datetime) -> Any:
    first = now - (now - world.MORNING) % HALF_HOUR + HALF_HOUR
    start = first + chance.randrange(24) * HALF_HOUR
    end = start + chance.randint(1, 4) * HALF_HOUR
    cards = chance.sample(lab.cards, chance.choice((1, 1, 1, 2)))
    create = _create(cards, None if chance.random() < 0.25 else start, end, now)
    op = chance.choices(("create", "extend", "cancel", "release", "undo"), (50, 18, 10, 12, 10))[0]
    if op == "create":
        return create
    change = {"op": op, "now": now.isoformat(), "minutes": chance.choice((30, 60)), "otherwise": create}
    if op != "undo":
        return change
    return [{**change, "op": "release"}, {"op": "undo", "now": (now + timedelta(minutes=1)).isoformat()}]


def winners(events: Sequence[Event], lab: world.World, rounds: Sequence[int]) -> dict[int, int]:
    """Round → how many were told that the slot everybody wanted is theirs."""
    starts = {same_slot(number)[0].isoformat(): number for number in rounds}
    won = dict.fromkeys(rounds, 0)
    for event in events:
        if event.op == "create" and event.ok and event.asked["start"] in starts:
            won[starts[event.asked["start"]]] += 1
    return won


def exceptions(events: Sequence[Event]) -> list[str]:
    """Answers that are neither a yes nor a no of the law, and every deadlock, even one shown as "busy"."""
    found = [one.answer["error"] for one in events if "error" in one.answer]
    found += [f"deadlock: {one.asked}" for one in events if one.answer.get("busy") == "40P01"]
    found += [f"unanswered: {one.asked}" for one in events if one.ended is None]
    return found


@pytest.mark.django_db(transaction=True)
def test_bt_01_two_thousand_tries_never_give_one_card_to_two(crew: Crew, plain: Any) -> None:
    lab = world.make(members=CLIENTS, cards=CARDS)
    events = crew.race(plans(lab, ROUNDS, seed=1), ROUNDS)
    tries = [one for one in events if one.op != "advance"]
    print(tally(tries), Counter(one.op for one in tries if one.ok))
    assert len(tries) >= ROUNDS * CLIENTS
    assert exceptions(events) == []
    assert checkers.all_of(plain, lab.zone, events) == []
    assert set(winners(events, lab, [n for n in range(ROUNDS) if is_same_slot(n)]).values()) == {1}
    surprising = [
        (one.asked, one.answer) for one in tries if not set(one.answer.get("refused", ())) <= MAY_REFUSE[one.op]
    ]
    assert surprising == []
    assert {one.op for one in tries if one.ok} == {"create", "extend", "cancel", "release", "undo"}  # all were played


@pytest.mark.django_db(transaction=True)
def test_the_constraint_alone_forbids_double_bookings(crew: Crew, plain: Any) -> None:
    """Without lock and without check, the database says no by itself, and the service says it as the law does."""
    lab = world.make(members=CLIENTS, cards=CARDS)
    events = crew.race(
        plans(lab, 6, seed=2, same_slot_only=True), 6, without=["lock", "check of taken cards"]
    )
    assert checkers.overlaps(plain) == checkers.overlaps_told(events) == []
    assert set(winners(events, lab, range(6)).values()) == {1}
    assert {code for one in events for code in one.answer.get("refused", ())} == {"card_taken"}


@pytest.mark.django_db(transaction=True)
def test_control_without_constraint_and_lock_two_hold_one_card(crew: Crew, tmp_path: Path) -> None:
    lab = world.make(members=CLIENTS, cards=CARDS)
    with databases.own_copy(tmp_path) as copy:
        databases.drop_overlap_guard(copy)
        events = crew.race(plans(lab, 10, seed=3, same_slot_only=True), 10, database=copy, without=["lock"])
        with closing(databases.connect(copy)) as plain:
            assert checkers.overlaps(plain) != []
        assert checkers.overlaps_told(events) != []
        assert set(winners(events, lab, range(10)).values()) != {1}
