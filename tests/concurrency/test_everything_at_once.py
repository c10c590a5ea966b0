"""T2, truly at once: every act there is, displacement and the elastic account included, leaves tables that add up."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from tests.concurrency.test_race_to_book import exceptions
from tests.rig import checkers, databases, world
from tests.rig.history import tally
from tests.rig.runner import Crew, Plan

ROUNDS, CLIENTS, CARDS = 20, 16, 8
HOUR = timedelta(hours=1)
# Wednesday 06:00 in the lab, seen from Monday 08:00: unfrozen, and within the 48 hours of the elastic account.
AHEAD = world.MORNING + timedelta(hours=46)


def make(**policy: Any) -> world.World:
    return world.make(members=CLIENTS, cards=CARDS, displacement=True, elastic=True, **policy)


def everybody(lab: world.World) -> list[Plan]:
    chance = random.Random(5)
    plans = [Plan(f"c{i:02}", member) for i, member in enumerate(lab.members)]
    sweep = Plan("sweep", lab.members[0])
    for number in range(ROUNDS):
        now = world.MORNING + number * timedelta(seconds=4)
        for i, plan in enumerate(plans):
            plan.steps.append(step(chance, lab, now.isoformat(), f"{number}-{i}", number))
        sweep.steps.append({"op": ("advance", "settle")[number % 2], "now": now.isoformat()})
    return [*plans, sweep]


def step(chance: random.Random, lab: world.World, now: str, key: str, number: int) -> dict[str, Any]:
    soon = chance.random() < 0.2
    start = None if soon else AHEAD + chance.randrange(12) * HOUR
    end = (start or world.MORNING) + chance.randint(1, 5) * HOUR
    create = {
        "op": "create", "cards": chance.sample(lab.cards, chance.choice((1, 1, 2, 3))), "start": start and start.isoformat(),
        "end": end.isoformat(), "now": now, "tier": "exploration" if number < 5 else chance.choice(("regular", "exploration")),
        "may_move": chance.choice((True, False)),
    }
    if start and chance.random() < 0.25:
        create["count"] = chance.choice((1, 2))
    op = chance.choices(
        ("create", "extend", "cancel", "release", "undo", "move", "again", "unbook"), (55, 10, 10, 5, 5, 12, 4, 10)
    )[0]
    if op == "create" or number < 3:
        return create
    return {"op": op, "now": now, "minutes": chance.choice((60, 120)), "key": key, "otherwise": create}


@pytest.mark.django_db(transaction=True)
def test_every_act_at_once_leaves_tables_that_add_up(crew: Crew, plain: Any) -> None:
    lab = make(weekly_hours=12)
    events = crew.race(everybody(lab), ROUNDS)
    print(tally(events))
    assert exceptions(events) == []
    assert checkers.all_of(plain, lab.zone) == []
    assert checkers.acknowledged(plain, events) == checkers.unasked(plain, events) == checkers.overdrawn(plain, 12) == []
    did = {verb for (verb,) in checkers.rows(plain, "SELECT DISTINCT verb FROM reservations_auditentry")}
    assert {"displaced", "placed", "move", "extend", "cancel", "undo_booking"} <= did
    assert checkers.rows(plain, "SELECT 1 FROM reservations_ledgerentry WHERE account = 'elastic' LIMIT 1") == [(1,)]


def eight_by_displacing(lab: world.World, rounds: int) -> list[Plan]:
    """In each round half of the clients take all eight cards in the weakest tier, and then all want to displace them, each
    naming the cards in an order of their own."""
    chance = random.Random(8)
    plans = [Plan(f"c{i:02}", member) for i, member in enumerate(lab.members)]
    for number in range(rounds):
        slot = AHEAD + timedelta(days=number)
        for i, plan in enumerate(plans):
            weak, strong = (slot + chance.choice((0, 0.5, 1)) * HOUR for _ in range(2))
            common = {"op": "create", "cards": chance.sample(lab.cards, 8), "now": world.MORNING.isoformat(), "insist": True}
            times = [{"start": start.isoformat(), "end": (start + HOUR).isoformat()} for start in (weak, strong)]
            plan.steps.append({**common, **times[0], "tier": "exploration", "may_move": True} if i % 2 else None)
            plan.steps.append({**common, **times[1], "cards": chance.sample(lab.cards, 8)})
    return plans


@pytest.mark.django_db(transaction=True)
def test_displacing_on_eight_cards_in_any_order_never_deadlocks(crew: Crew, plain: Any) -> None:
    lab = make()
    events = crew.race(eight_by_displacing(lab, 4), 8)
    assert exceptions(events) == []
    assert checkers.all_of(plain, lab.zone) == []
    assert {code for one in events for code in one.answer.get("refused", ())} <= {"card_taken"}
    did = dict(checkers.rows(plain, "SELECT verb, COUNT(*) FROM reservations_auditentry GROUP BY verb"))
    assert did["placed"] + did.get("displaced", 0) >= 4


if databases.is_postgres():  # SQLite has one lock, which has no order

    @pytest.mark.django_db(transaction=True)
    def test_control_displacing_with_cards_locked_as_asked_deadlocks(crew: Crew) -> None:
        lab = make()
        events = crew.race(eight_by_displacing(lab, 2), 4, without=["lock order"])
        assert any("deadlock" in line for line in exceptions(events))
