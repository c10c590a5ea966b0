"""T2: two changes made to meet at every delicate moment end as if one had come after the other.

The first is stopped at a point of its way; the second is started and runs until it is done or waits; then the first goes
on. Tables and answers must be those of one of the two orders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import product
from typing import Any

import pytest

from reservations.models import Gpu, Member, Pool, Reservation
from reservations.services import booking, changes, elastic, extension, moving
from tests.rig import checkers, world
from tests.rig.forced import POINTS, answer, met
from tests.rig.sabotage import without

NOW = world.MORNING + timedelta(days=1)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
AHEAD = 40 * HOUR  # Thursday 00:00 in the lab: still unfrozen on Tuesday, and within the elastic 48 hours
WEEKLY = 10


@dataclass
class Stage:
    """A card in a pool of its own, its holder's reservation in the state that the acts need, and rivals."""

    card: int
    holder: Member
    rivals: list[Member]
    start: datetime
    end: datetime
    reservation: int = 0
    displacing: int = 0  # what displaced it

    @classmethod
    def build(cls, scene: str) -> Stage:
        pool = Pool.objects.create(name=f"stage {Pool.objects.count()}")
        (card,) = world.more_cards(1, pool=pool)
        holder, *rivals = (Member.objects.get(pk=pk) for pk in world.more_members(4))
        start = NOW + {"booked": 30 * MINUTE, "weak": AHEAD, "displaced": AHEAD, "elastic": 4 * HOUR}.get(scene, -HOUR)
        stage = cls(card, holder, rivals, start, start + 2 * HOUR)
        tier = "exploration" if scene in {"weak", "displaced"} else "regular"
        if scene == "elastic":  # all hours are taken, and given back once it is booked
            (other,) = world.more_cards(1, pool=pool)
            before = booking.reserve(holder, booking.BookingRequest((other,), start, start + WEEKLY * HOUR), now=NOW)
            Gpu.objects.filter(pk=other).update(service=Gpu.Service.OUT_OF_SERVICE)
        request = booking.BookingRequest((card,), start, stage.end, tier)
        stage.reservation = booking.reserve(holder, request, now=min(start, NOW)).pk
        if scene == "elastic":
            changes.cancel(before.pk, by=holder, version=None, now=NOW)
        if scene == "released":
            changes.release(stage.reservation, by=holder, version=None, now=NOW - 2 * MINUTE)
        if scene == "displaced":
            stage.displacing = stage.displace(True, "").pk
            stage.start, stage.end = Reservation.objects.values_list("start", "end").get(pk=stage.reservation)
        return stage

    # Each act has its own clock: what is due for a sweep need not be due for the person beside it.
    def create(self, second: bool, partner: str) -> Any:
        in_the_way = partner in {"release", "undo", "cancel", "move", "unbook", "settle"}
        start = max(self.start, NOW + 30 * MINUTE) if in_the_way else self.end
        request = booking.BookingRequest((self.card,), start, start + 2 * HOUR)
        return booking.reserve(self.rivals[second], request, now=NOW)

    def count(self, second: bool, partner: str) -> Any:
        pool = Gpu.objects.values_list("pool", flat=True).get(pk=self.card)
        start = max(self.start, NOW + 30 * MINUTE)
        request = booking.BookingRequest((), start, start + 2 * HOUR, count=1, pool_id=pool)
        return booking.reserve(self.rivals[second], request, now=NOW)

    def displace(self, second: bool, partner: str) -> Any:
        request = booking.BookingRequest((self.card,), self.start, self.start + HOUR)
        return booking.reserve(self.rivals[1 + second], request, now=NOW)

    def bring_back(self, second: bool, partner: str) -> Any:
        by = Member.objects.get(reservations=self.displacing)
        return moving.undo(self.displacing, by=by, version=None, now=NOW)

    def again(self, second: bool, partner: str) -> Any:
        return booking.again(self.reservation, by=self.holder, now=NOW, key=f"again {self.reservation} {second}")

    def settle(self, second: bool, partner: str) -> Any:
        elastic.settle(self.reservation, now=NOW)

    def extend(self, second: bool, partner: str) -> Any:
        now = self.end + 5 * MINUTE if partner == "finish" else NOW
        return extension.extend(self.reservation, self.end + (2 if second else 1) * HOUR, by=self.holder, version=None, now=now)

    def release(self, second: bool, partner: str) -> Any:
        return changes.release(self.reservation, by=self.holder, version=None, now=NOW + second * MINUTE)

    def undo(self, second: bool, partner: str) -> Any:
        return changes.undo_release(self.reservation, by=self.holder, version=None, now=NOW)

    def cancel(self, second: bool, partner: str) -> Any:
        return changes.cancel(self.reservation, by=self.holder, version=None, now=NOW)

    def move(self, second: bool, partner: str) -> Any:
        start = max(self.start, NOW) + (6 if second else 5) * HOUR
        start -= (start - NOW) % HOUR
        return moving.move(self.reservation, start=start, end=start + HOUR, by=self.holder, version=None, now=NOW)

    def unbook(self, second: bool, partner: str) -> Any:
        return moving.undo(self.reservation, by=self.holder, version=None, now=NOW)

    def start_due(self, second: bool, partner: str) -> Any:
        return booking.advance_one(self.reservation, now=self.start)

    def finish(self, second: bool, partner: str) -> Any:
        return booking.advance_one(self.reservation, now=self.end + 5 * MINUTE)

    def outcome(self, plain: Any) -> list[Any]:
        """Everything there is about the reservations of these people, without keys of rows."""
        people = {self.holder.pk: "holder", **{rival.pk: f"rival {i}" for i, rival in enumerate(self.rivals)}}
        found = checkers.rows(
            plain,
            "SELECT r.id, r.holder_id, r.status, r.start, r.\"end\", r.ended_at, r.version, r.is_elastic, r.displaced_times, "
            "a.status, a.start, a.\"end\" FROM reservations_reservation r JOIN reservations_allocation a "
            f"ON a.reservation_id = r.id WHERE r.holder_id IN ({', '.join(map(str, people))}) "
            "ORDER BY r.holder_id, r.start, r.status, r.id",
        )
        whole = []
        for pk, holder, *values in found:
            related = [
                sorted(map(str, checkers.rows(plain, sql.format(pk=pk))))
                for sql in (
                    "SELECT period, account, units, reason FROM reservations_ledgerentry WHERE reservation_id = {pk}",
                    "SELECT kind, due_at, reservation_version FROM reservations_notification WHERE reservation_id = {pk}",
                    "SELECT verb, at FROM reservations_auditentry WHERE subject = 'reservation' AND subject_id = {pk}",
                )
            ]
            whole.append((people[holder], values, related))
        return whole


ACTS: dict[str, Callable[[Stage, bool, str], Any]] = {
    "create": Stage.create, "extend": Stage.extend, "release": Stage.release, "undo": Stage.undo, "cancel": Stage.cancel,
    "move": Stage.move, "unbook": Stage.unbook, "start": Stage.start_due, "finish": Stage.finish,
    "count": Stage.count, "displace": Stage.displace, "bring back": Stage.bring_back, "again": Stage.again,
    "settle": Stage.settle,
}
SCENES = {"undo": "released", "cancel": "booked", "move": "booked", "unbook": "booked", "start": "booked", "count": "booked"}
# An act that needs a scene of its own has it with whichever partner.
OWN_SCENES = {"bring back": "displaced", "displace": "weak", "settle": "elastic"}
FEWER_POINTS = ("before the lock", "after the check")  # for the acts that came later: the lock is the same
LATER = {"count", "displace", "bring back", "again", "settle"}


def scene(first: str, second: str) -> str:
    return next((OWN_SCENES[one] for one in OWN_SCENES if one in (first, second)), SCENES.get(first, "active"))


def in_turn(first: str, second: str, plain: Any) -> list[Any]:
    """Both possible outcomes: answers of first and second, and tables."""
    outcomes = []
    for order in ((False, True), (True, False)):
        stage = Stage.build(scene(first, second))
        said = ["", ""]
        for is_second in order:
            name, partner = (second, first) if is_second else (first, second)
            said[is_second] = answer(partial(ACTS[name], stage, is_second, partner))
        outcomes.append((tuple(said), stage.outcome(plain)))
    return outcomes


def unlike_any_order(
    plain: Any, pairs: list[tuple[str, str]], points: tuple[str, ...] = (), guards: tuple[str, ...] = ()
) -> list[str]:
    """Scripts that end otherwise than in turn."""
    strange = []
    for first, second in pairs:
        allowed = in_turn(first, second, plain)
        for point in points or (FEWER_POINTS if LATER & {first, second} else POINTS):
            stage = Stage.build(scene(first, second))
            with without(*guards):
                said = met(partial(ACTS[first], stage, False, second), partial(ACTS[second], stage, True, first), point)
            # Somebody who is told "busy" has changed nothing: as if he had not come.
            result = (said, stage.outcome(plain))
            if result not in allowed:
                strange.append(f"{first} {point}, then {second}: {said}\n  {result[1]}\n  allowed: {allowed}")
    return strange


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("first", ACTS)
def test_two_changes_that_meet_end_as_if_in_turn(first: str, plain: Any) -> None:
    lab = world.make(members=0, cards=0, weekly_hours=WEEKLY, displacement=True, elastic=True)
    strange = unlike_any_order(plain, list(product([first], ACTS)))
    assert not strange, "\n".join(strange)
    assert checkers.all_of(plain, lab.zone) == []


@pytest.mark.django_db(transaction=True)
def test_control_without_the_lock_changes_that_meet_end_in_no_order(plain: Any) -> None:
    lab = world.make(members=0, cards=0)
    pairs = [("release", "release"), ("cancel", "cancel"), ("extend", "extend")]
    strange = unlike_any_order(plain, pairs, ("after the check",), ("lock",))
    assert len(strange) == len(pairs)
    assert checkers.ledger(plain, lab.zone) != []
