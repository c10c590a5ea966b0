"""T2 for the waitlist: serving, offers and who answers them meet each other and a new booking at every delicate moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from reservations.models import Host, Member, Pool, Reservation
from reservations.services import booking, changes, locking, offers, waitlist
from reservations.services.booking import BookingRequest
from reservations.services.waitlist import WishRequest
from tests.rig import checkers, world
from tests.rig.forced import PATIENCE_S, POINTS, answer, met
from tests.rig.sabotage import without

NOW = world.MORNING + timedelta(days=1)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
OFFER = 15 * MINUTE


@dataclass
class Stage:
    """One card in a pool of its own; somebody holds it or it is free, two wait for it, and a rival comes."""

    card: int
    pool: int
    holder: Member
    first: Member
    second_in_turn: Member
    rival: Member
    reservation: int = 0
    wish: int = 0
    offer: int = 0

    @classmethod
    def build(cls, scene: str) -> Stage:
        pool = Pool.objects.create(name=f"waitlist {Pool.objects.count()}")
        (card,) = world.more_cards(1, pool=pool)
        stage = cls(card, pool.pk, *(Member.objects.get(pk=pk) for pk in world.more_members(4)))
        if scene in {"held", "freed"}:
            stage.reservation = booking.reserve(
                stage.holder, BookingRequest((card,), NOW + HOUR, NOW + 9 * HOUR), now=NOW - HOUR
            ).pk
        mode = "ask" if scene == "offered" else "book"
        stage.wish = stage._join(stage.first, mode).pk
        stage._join(stage.second_in_turn, "book")
        if scene == "freed":
            changes.cancel(stage.reservation, by=stage.holder, version=None, now=NOW - MINUTE)
        if scene == "offered":
            waitlist.serve(NOW)
            stage.offer = Reservation.objects.get(holder=stage.first).pk
        return stage

    def _join(self, member: Member, mode: str) -> Any:
        wanted = BookingRequest((), None, NOW + 6 * HOUR, count=1, pool_id=self.pool)
        wish = WishRequest(wanted, 4 * HOUR, NOW + 6 * HOUR, NOW + HOUR, mode)
        return waitlist.join(member, wish, now=NOW - 2 * MINUTE)

    def serve(self, second: bool, partner: str) -> Any:
        waitlist.serve(NOW)

    def create(self, second: bool, partner: str) -> Any:
        return booking.reserve(self.rival, BookingRequest((self.card,), NOW + 2 * HOUR, NOW + 3 * HOUR), now=NOW)

    def cancel(self, second: bool, partner: str) -> Any:
        return changes.cancel(self.reservation, by=self.holder, version=None, now=NOW)

    def leave(self, second: bool, partner: str) -> Any:
        waitlist.leave(self.wish, by=self.first, now=NOW)

    def take(self, second: bool, partner: str) -> Any:
        return offers.take(self.offer, by=self.first, version=None, now=NOW + MINUTE)

    def decline(self, second: bool, partner: str) -> Any:
        return offers.pass_on(self.offer, by=self.first, version=None, now=NOW + MINUTE)

    def expire(self, second: bool, partner: str) -> Any:
        offers.expire_one(self.offer, now=NOW + OFFER)

    def outcome(self, plain: Any) -> list[Any]:
        """Everything there is about these people's reservations, wishes and hours, without keys of rows."""
        people = {self.holder.pk: "holder", self.first.pk: "first", self.second_in_turn.pk: "second", self.rival.pk: "rival"}
        whose = f"IN ({', '.join(map(str, people))})"
        tables = (
            'SELECT r.holder_id, r.status, r.start, r."end", r.version, a.status, a.start, a."end" FROM '
            f"reservations_reservation r JOIN reservations_allocation a ON a.reservation_id = r.id WHERE r.holder_id {whose}",
            f"SELECT member_id, state, version FROM reservations_waitlistentry WHERE member_id {whose}",
            f"SELECT member_id, period, account, units, reason FROM reservations_ledgerentry WHERE member_id {whose}",
            f"SELECT member_id, kind, due_at FROM reservations_notification WHERE member_id {whose}",
        )
        return [sorted(str([people[row[0]], *row[1:]]) for row in checkers.rows(plain, sql)) for sql in tables]


ACTS: dict[str, Callable[[Stage, bool, str], Any]] = {
    "serve": Stage.serve, "create": Stage.create, "cancel": Stage.cancel, "leave": Stage.leave, "take": Stage.take,
    "decline": Stage.decline, "expire": Stage.expire,
}
PAIRS = {
    "free": [
        ("serve", "create"), ("create", "serve"), ("serve", "serve"), ("leave", "serve"), ("serve", "leave"), ("leave", "leave"),
    ],
    "freed": [("serve", "create"), ("create", "serve"), ("serve", "serve"), ("leave", "serve"), ("serve", "leave")],
    "held": [("cancel", "serve"), ("serve", "cancel"), ("cancel", "create"), ("leave", "cancel")],
    "offered": [
        ("take", "take"), ("take", "decline"), ("decline", "take"), ("take", "expire"), ("expire", "take"), ("decline", "expire"),
        ("expire", "decline"), ("expire", "expire"), ("decline", "serve"), ("serve", "decline"), ("expire", "serve"),
        ("take", "create"), ("create", "decline"), ("expire", "create"),
    ],
}


def meet(stage: Stage, first: str, second: str, point: str) -> tuple[str, str]:
    return met(partial(ACTS[first], stage, False, second), partial(ACTS[second], stage, True, first), point)


def in_turn(scene: str, first: str, second: str, plain: Any) -> list[Any]:
    """Both possible outcomes: answers of first and second, and tables."""
    outcomes = []
    for order in ((False, True), (True, False)):
        stage = Stage.build(scene)
        said = ["", ""]
        for is_second in order:
            name, partner = (second, first) if is_second else (first, second)
            said[is_second] = answer(partial(ACTS[name], stage, is_second, partner))
        outcomes.append((tuple(said), stage.outcome(plain)))
    return outcomes


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> world.World:
    # A sweep that is told "busy" leaves the row for its next round, which this race does not have: let it wait.
    monkeypatch.setattr(locking, "LOCK_WAIT_S", 25)
    made = world.make(members=0, cards=0)
    Host.objects.update(has_reader=False)
    return made


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("scene", "first", "second"), [(scene, *pair) for scene, pairs in PAIRS.items() for pair in pairs])
def test_k5_what_meets_on_the_waitlist_ends_as_if_in_turn(
    scene: str, first: str, second: str, lab: world.World, plain: Any
) -> None:
    strange = []
    allowed = in_turn(scene, first, second, plain)
    for point in POINTS:
        stage = Stage.build(scene)
        said = meet(stage, first, second, point)
        result = (said, stage.outcome(plain))
        if result not in allowed:
            strange.append(f"{first} {point}, then {second}: {said}\n  {result[1]}\n  allowed: {allowed}")
    assert not strange, "\n".join(strange)
    assert checkers.overlaps(plain) == []


@pytest.mark.django_db(transaction=True)
def test_control_without_the_lock_one_offer_is_both_taken_and_passed(lab: world.World, plain: Any) -> None:
    """What the test above must be able to see: without the lock, the same race ends in no order."""
    allowed = in_turn("offered", "take", "decline", plain)
    stage = Stage.build("offered")
    with without("lock"):
        said = meet(stage, "take", "decline", "after the check")
    assert (said, stage.outcome(plain)) not in allowed


@pytest.mark.django_db(transaction=True)
def test_k5_many_sweeps_at_once_serve_everybody_once(lab: world.World, plain: Any) -> None:
    pool = Pool.objects.create(name="many")
    cards = world.more_cards(3, pool=pool)
    waiting = [Member.objects.get(pk=pk) for pk in world.more_members(12)]
    for place, member in enumerate(waiting):
        wanted = BookingRequest((), None, NOW + 8 * HOUR, count=1, pool_id=pool.pk)
        mode = "ask" if place % 3 == 0 else "book"
        waitlist.join(member, WishRequest(wanted, 2 * HOUR, NOW + 8 * HOUR, NOW + HOUR, mode), now=NOW - MINUTE)

    def sweep() -> None:
        waitlist.serve(NOW)

    sweeps = [threading.Thread(target=lambda: answer(sweep)) for _ in range(4)]
    for one in sweeps:
        one.start()
    for one in sweeps:
        one.join(PATIENCE_S)
    waitlist.serve(NOW)  # whoever a busy sweep left out
    assert checkers.overlaps(plain) == []
    rows = checkers.rows(
        plain,
        "SELECT holder_id, count(*) FROM reservations_reservation "
        "WHERE placed_at IS NOT NULL OR offer_until IS NOT NULL GROUP BY holder_id",
    )
    assert {count for _, count in rows} == {1}
    held = checkers.rows(
        plain, f"SELECT gpu_id, start FROM reservations_allocation WHERE gpu_id IN ({', '.join(map(str, cards))})"
    )
    assert len(held) == len(rows) >= 9  # three cards, six hours and a half, two hours each
