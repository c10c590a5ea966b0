"""T3: a form sent many times at once (double click, Back, a proxy's retry) has the effect of one."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import timedelta
from typing import Any

import pytest

from reservations.models import Member
from reservations.services import booking
from tests.concurrency.test_race_to_book import exceptions
from tests.rig import checkers, world
from tests.rig.history import Event
from tests.rig.runner import Crew, Plan

CLIENTS, FORMS = 50, 200
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def form(lab: world.World, number: int) -> dict[str, Any]:
    """A form that would succeed alone: each has a card and an hour of its own."""
    start = world.MORNING + DAY + number // len(lab.cards) * HOUR
    return {
        "op": "create", "member": lab.members[number % len(lab.members)], "cards": [lab.cards[number % len(lab.cards)]],
        "start": start.isoformat(), "end": (start + HOUR).isoformat(), "now": world.MORNING.isoformat(),
        "key": f"form-{number}", "insist": True,
    }


def rounds_of_copies(forms: list[dict[str, Any]], chance: random.Random, fewest: int, most: int) -> list[list[dict[str, Any]]]:
    """The forms' copies in shuffled rounds of at most fifty, all copies of a form in one round."""
    rounds: list[list[dict[str, Any]]] = [[]]
    for one in forms:
        copies = chance.randint(fewest, most)
        if len(rounds[-1]) + copies > CLIENTS:
            rounds.append([])
        rounds[-1] += [one] * copies
    for one_round in rounds:
        chance.shuffle(one_round)
    return rounds


def dealt(lab: world.World, rounds: list[list[dict[str, Any]]]) -> list[Plan]:
    return [
        Plan(f"c{i:02}", lab.members[0], [one_round[i] if i < len(one_round) else None for one_round in rounds])
        for i in range(CLIENTS)
    ]


def answers(events: list[Event]) -> dict[str, list[Event]]:
    """Key → its answers, those that were told to try again left out."""
    by_key: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if "busy" not in event.answer:
            by_key[event.asked["key"]].append(event)
    return by_key


@pytest.mark.django_db(transaction=True)
def test_each_form_books_once_however_often_it_is_sent(crew: Crew, plain: Any) -> None:
    lab = world.make(members=20, cards=20)
    forms = [form(lab, number) for number in range(FORMS)]
    sent = rounds_of_copies(forms, random.Random(4), 2, 10)
    # Afterwards each key comes once more, with another content: an hour later.
    later = [{**one, "start": one["end"], "end": (world.MORNING + 3 * DAY).isoformat()} for one in forms]
    again = [later[i : i + CLIENTS] for i in range(0, FORMS, CLIENTS)]
    events = crew.race(dealt(lab, [*sent, *again]), len(sent) + len(again))
    assert exceptions(events) == []
    for key, mine in answers(events).items():
        number = int(key.removeprefix("form-"))
        same = [one for one in mine if one.asked["end"] == forms[number]["end"]]
        other = [one for one in mine if one.asked["end"] != forms[number]["end"]]
        assert len({one.answer.get("reservation") for one in same}) == 1 and all(one.ok for one in same)
        assert [one.answer for one in other] == [{"refused": ["key_reused"]}]
    assert checkers.rows(plain, "SELECT COUNT(*) FROM reservations_reservation") == [(FORMS,)]
    assert checkers.all_of(plain, lab.zone, events) == []


def retries_after_cancelling(lab: world.World) -> list[Plan]:
    """Book, cancel, and then the proxy sends the booking's form again, twenty times over, four copies each."""
    forms = [form(lab, number) for number in range(20)]
    plans = [Plan(f"c{i:02}", lab.members[0], [one]) for i, one in enumerate(forms)]
    for plan, one in zip(plans, forms, strict=True):
        plan.steps += [{"op": "cancel", "member": one["member"], "now": one["now"], "key": one["key"]}, one]
    helpers = [Plan(f"h{i:02}", lab.members[0], [None, None, forms[i % 20]]) for i in range(60)]
    return [*plans, *helpers]


@pytest.mark.django_db(transaction=True)
def test_a_late_retry_does_not_book_again_what_was_cancelled(crew: Crew, plain: Any) -> None:
    lab = world.make(members=20, cards=20)
    events = crew.race(retries_after_cancelling(lab), 3)
    assert exceptions(events) == []
    assert checkers.rows(plain, "SELECT status, COUNT(*) FROM reservations_reservation GROUP BY status") == [("cancelled", 20)]
    assert {one.answer.get("status") for one in events if one.op == "create"} == {"booked", "cancelled"}
    assert checkers.ledger(plain, lab.zone) == checkers.audit(plain) == []


@pytest.mark.django_db(transaction=True)
def test_control_without_the_look_up_a_late_retry_books_again(crew: Crew, plain: Any) -> None:
    lab = world.make(members=20, cards=20)
    crew.race(retries_after_cancelling(lab), 3, without=["look-up of keys", "memory of keys"])
    assert checkers.rows(plain, "SELECT COUNT(*) FROM reservations_reservation") == [(40,)]


@pytest.mark.django_db(transaction=True)
def test_control_without_the_look_up_a_double_click_is_told_no(crew: Crew, plain: Any) -> None:
    lab = world.make(members=20, cards=20)
    forms = [form(lab, number) for number in range(20)]
    sent = rounds_of_copies(forms, random.Random(5), 2, 4)
    events = crew.race(dealt(lab, sent), len(sent), without=["look-up of keys", "memory of keys"])
    assert any(not one.ok for one in events)


@pytest.mark.django_db(transaction=True)
def test_one_arbiter_sends_one_key_for_two_holders_at_once(crew: Crew, plain: Any) -> None:
    """A key is its sender's, the locks are the holders': the second effect under one key is refused, not an error."""
    lab = world.make(members=11, cards=10)
    arbiter = lab.members[10]
    Member.objects.filter(pk=arbiter).update(is_arbiter=True)
    end = world.MORNING + HOUR
    for number in range(10):
        booking.reserve(lab.member(number), booking.BookingRequest((lab.cards[number],), None, end), now=world.MORNING)
    pks = [pk for (pk,) in checkers.rows(plain, "SELECT id FROM reservations_reservation ORDER BY id")]
    plans = [
        Plan(f"c{i:02}", arbiter, [{
            "op": "extend", "reservation": pk, "end": (end + HOUR).isoformat(), "now": world.MORNING.isoformat(), "key": "one",
            "insist": True,
        }])
        for i, pk in enumerate(pks)
    ]
    events = crew.race(plans, 1)
    assert exceptions(events) == []
    assert sum(one.ok for one in events) == 1
    assert {code for one in events for code in one.answer.get("refused", ())} == {"key_reused"}
    assert checkers.ledger(plain, lab.zone) == []
