"""T4b and QT-01: many requests at once never get together what each alone was checked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from reservations.models import Project, ProjectMember
from reservations.services import booking
from tests.concurrency.test_race_to_book import exceptions
from tests.rig import checkers, databases, world
from tests.rig.history import Event
from tests.rig.runner import Crew, Plan

HOUR = timedelta(hours=1)
TUESDAY, WEDNESDAY = world.MORNING + timedelta(days=1), world.MORNING + timedelta(days=2)


@dataclass(frozen=True)
class Rush:
    """In each round one member, who has used some hours, sends many requests at once, each for another free card."""

    rounds: int
    requests: int
    used: int
    hours: int
    fit: int
    refusal: str
    policy: dict[str, Any] = field(default_factory=dict)

    def lab(self) -> world.World:
        """The lab, with the hours used before already booked, on a card for each member."""
        lab = world.make(members=self.rounds, cards=self.requests + self.rounds, **self.policy)
        for number in range(self.rounds if self.used else 0):
            request = booking.BookingRequest((lab.cards[-1 - number],), TUESDAY, TUESDAY + self.used * HOUR)
            booking.reserve(lab.member(number), request, now=world.MORNING)
        return lab

    def plans(self, lab: world.World) -> list[Plan]:
        plans = [Plan(f"c{i:02}", lab.members[0]) for i in range(self.requests)]
        for number in range(self.rounds):
            start = WEDNESDAY + number * self.hours * HOUR
            for card, plan in zip(lab.cards, plans, strict=False):
                plan.steps.append(self._request(lab.members[number], card, start))
        return plans

    def _request(self, member: int, card: int, start: datetime) -> dict[str, Any]:
        return {
            "op": "create", "member": member, "cards": [card], "start": start.isoformat(), "insist": True,
            "end": (start + self.hours * HOUR).isoformat(), "now": world.MORNING.isoformat(),
        }


def granted(events: list[Event]) -> Counter[int]:
    """Member → how many of its requests were granted."""
    return Counter(event.asked["member"] for event in events if event.ok)


RUSHES = {
    "T4b room for ten hours": Rush(20, 50, used=10, hours=1, fit=10, refusal="quota", policy={"weekly_hours": 20}),
    "QT-01 room for one of ten": Rush(10, 10, used=8, hours=2, fit=1, refusal="quota", policy={"weekly_hours": 10}),
    "B1 four cards at once": Rush(8, 10, used=0, hours=1, fit=4, refusal="cards_at_once", policy={"cards_at_once": 4}),
    "B1 three in the future": Rush(8, 10, used=0, hours=1, fit=3, refusal="open_future", policy={"open_future": 3}),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("rush", RUSHES.values(), ids=RUSHES.keys())
def test_qt_01_exactly_what_fits_is_granted(rush: Rush, crew: Crew, plain: Any) -> None:
    lab = rush.lab()
    events = crew.race(rush.plans(lab), rush.rounds)
    assert exceptions(events) == []
    assert granted(events) == dict.fromkeys(lab.members, rush.fit)
    # Busy is asked again by the client, so each request ends with a yes or with the law's no.
    assert {code for one in events for code in one.answer.get("refused", ())} == {rush.refusal}
    assert checkers.ledger(plain, lab.zone) == checkers.audit(plain) == checkers.reminders(plain) == []
    assert checkers.overdrawn(plain, rush.policy.get("weekly_hours", 100_000)) == []
    used = checkers.rows(plain, "SELECT member_id, SUM(units) FROM reservations_ledgerentry GROUP BY member_id")
    hours = rush.used + rush.fit * rush.hours
    assert dict(used) == dict.fromkeys(lab.members, hours * 36_000_000)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("rush", [RUSHES["T4b room for ten hours"], RUSHES["B1 four cards at once"]], ids=["quota", "cap"])
def test_control_without_the_lock_more_is_granted(rush: Rush, crew: Crew, plain: Any) -> None:
    lab = rush.lab()
    events = crew.race(rush.plans(lab), 6, without=["lock"])
    assert max(granted(events).values()) > rush.fit
    if "weekly_hours" in rush.policy:
        assert checkers.overdrawn(plain, rush.policy["weekly_hours"]) != []


def _for_a_project(without: list[str], crew: Crew, plain: Any) -> list[Event]:
    """Ten members of one project with room for ten hours ask at once for two hours each, each on a card of their own."""
    lab = world.make(members=10, cards=10, mode="mixed", project_share=100)
    vision = Project.objects.create(name="Vision", advisor=lab.member(0), weekly_hours=10)
    ProjectMember.objects.bulk_create(ProjectMember(project=vision, member_id=pk) for pk in lab.members)
    plans = []
    for number, (member, card) in enumerate(zip(lab.members, lab.cards, strict=True)):
        plan = Plan(f"c{number:02}", member)
        plan.steps += [
            {
                "op": "create", "member": member, "cards": [card], "project": vision.pk, "insist": True,
                "start": (WEDNESDAY + step * 2 * HOUR).isoformat(), "end": (WEDNESDAY + (step + 1) * 2 * HOUR).isoformat(),
                "now": world.MORNING.isoformat(),
            }
            for step in range(3)
        ]
        plans.append(plan)
    return crew.race(plans, 3, without=without)


@pytest.mark.django_db(transaction=True)
def test_b5_e2_members_of_one_project_never_overdraw_it_together(crew: Crew, plain: Any) -> None:
    events = _for_a_project([], crew, plain)
    assert exceptions(events) == []
    assert sum(event.ok for event in events) == 5
    assert {code for one in events for code in one.answer.get("refused", ())} == {"quota"}
    sums = checkers.rows(plain, "SELECT SUM(units) FROM reservations_ledgerentry WHERE project_id IS NOT NULL")
    assert sums == [(10 * 36_000_000,)]


@pytest.mark.django_db(transaction=True)
def test_control_without_the_lock_a_project_is_overdrawn(crew: Crew, plain: Any) -> None:
    assert sum(event.ok for event in _for_a_project(["lock"], crew, plain)) > 5


if not databases.is_postgres():

    @pytest.mark.django_db(transaction=True)
    def test_control_a_deferred_transaction_is_no_lock(crew: Crew, plain: Any) -> None:
        """DEFERRED overdraws nothing on SQLite, but it turns people away at once who had only to wait."""
        rush = RUSHES["T4b room for ten hours"]
        lab = rush.lab()
        events = crew.race(rush.plans(lab), 2, without=["immediate"])
        assert any("busy" in one.answer for one in events)
        assert checkers.overdrawn(plain, 20) == []
