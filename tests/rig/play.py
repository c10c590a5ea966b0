"""Plays random acts to the product and to the plain model of `model`, and says where they differ."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.db import transaction
from django.db.models import QuerySet

from reservations import queries
from reservations.models import Allocation, FreedSlot, Gpu, LedgerEntry, Member, Pool, Reservation
from reservations.prepared import prepared
from reservations.rules.refusal import Refused
from reservations.rules.week import NoSuchLocalTime, typed_instant
from reservations.services import booking, changes, elastic, extension, moving
from tests.rig import world
from tests.rig.model import DAY, EXPLORATION, HOUR, MINUTE, REGULAR, SECOND, Booked, Cards, Model

STEPS = 30
CARDS_AT_ONCE, OPEN_FUTURE, HEAVY = 3, 4, 250
# Around these local days the weeks are laid: both clock changes where there are any, a turn of the year, a leap day.
DAYS = {
    "Asia/Shanghai": ("2026-01-01", "2028-02-29"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Europe/London": ("2026-03-29", "2026-10-25"),
    "Australia/Lord_Howe": ("2026-04-05", "2026-10-04"),
    "Asia/Kathmandu": ("2026-12-31", "2026-06-01"),
    "UTC": ("2026-12-31", "2028-02-28"),
}
TIERS = {"regular": REGULAR, "exploration": EXPLORATION}
JUMPS = (0 * MINUTE, 4 * SECOND, 2 * MINUTE, 7 * MINUTE, 30 * MINUTE, 3 * HOUR, 11 * HOUR)


@contextmanager
def forgotten() -> Iterator[None]:
    """Everything written inside is rolled back: each sequence finds an empty lab, and tables stay small."""
    whole: Any = transaction.atomic()
    whole._from_testcase = True  # as the test's own transaction, it does not count against `durable`
    with whole:
        yield
        transaction.set_rollback(True)


class Play:
    """One sequence: the same acts to both, compared after each."""

    def __init__(self, zone: str, seed: int) -> None:
        self.zone, self.seed = zone, seed
        self.chance = random.Random(f"{zone} {seed}")
        self.seen: Counter[str] = Counter()  # what happened, to see that everything does
        self.told: list[str] = []

    def run(self) -> list[str]:
        """Plays and returns the first difference with the acts that led to it, or nothing."""
        with forgotten():
            self._set_up()
            for number in range(STEPS):
                self.pass_time()
                FreedSlot.objects.all().delete()  # the waitlist's rounds, D6's offers among them, are not played
                difference = self.step() or (self.compare() if number % 10 == 9 else "")
                if difference:
                    return [*self.told, f"now {self.now}: {difference}"]
        return []

    def pass_time(self) -> None:
        fresh = self.model.booked and self.model.booked[-1].last is not None and self.chance.random() < 0.3
        self.now += 5 * SECOND if fresh else self.chance.choice(JUMPS)
        self.now += timedelta(seconds=self.chance.choice((0, 0, 0, 17.25)))

    def _set_up(self) -> None:
        full = self.seed % 4 != 0  # one lab in four neither displaces, nor is elastic, nor keeps fees
        hours = self.chance.choice((14, 26)) if full else 60
        self.members, weights, pools = self.lab(
            weekly_hours=hours, displacement=full, elastic=full, late_cancel_percent=25 if full else 0
        )
        zone = ZoneInfo(self.zone)
        self.model = Model(
            zone, weights, pools, hours, CARDS_AT_ONCE, OPEN_FUTURE, displacement=full, elastic=full,
            late_percent=25 if full else 0,
        )
        self.pool = min(pools.values())
        self.rows: dict[int, int] = {}  # the model's key → the product's
        day = datetime.fromisoformat(self.chance.choice(DAYS[self.zone])) - self.chance.choice((0, 1, 2, 7)) * DAY
        self.now = (day + timedelta(seconds=self.chance.randrange(86_400))).replace(tzinfo=zone).astimezone(UTC)

    def lab(self, **policy: Any) -> tuple[dict[int, Any], dict[int, int], dict[int, int]]:
        """Members, weights and pools: two cards that are alike, and a heavy one."""
        made = world.make(
            members=4, cards=2, zone=self.zone, cards_at_once=CARDS_AT_ONCE, open_future=OPEN_FUTURE, **policy
        )
        heavy, _ = Pool.objects.get_or_create(name="heavy", defaults={"weight": HEAVY})
        cards = Gpu.objects.filter(pk__in=[*made.cards, *world.more_cards(1, pool=heavy)]).select_related("pool")
        members = {pk: Member.objects.get(pk=pk) for pk in made.members}
        return members, {card.pk: card.pool.weight for card in cards}, {card.pk: card.pool_id for card in cards}

    # --- acts -------------------------------------------------------------------------------------------------------
    def step(self) -> str:
        ended = [one for one in self.model.booked if one.released or one.cancelled or one.displaced or self.now > one.end]
        alive = [one for one in self.model.booked if one not in ended]
        acts = {"reserve": 60, "advance": 6}
        if any(one.elastic for one in alive):
            acts |= {"settle": 60 if self.model.may_settle(self.now) else 8, "cancel": 20}
        if alive:
            acts |= {"extend": 12, "cancel": acts.get("cancel", 8), "move": 14, "again": 4, "unbook": 3}
            acts["release"] = 20 if any(one.start <= self.now for one in alive) else 2
            if any(one.last and one.last.kind != "undone" and self.now < one.last.at + 10 * SECOND for one in alive):
                acts["unbook"] = 60
        if released := [one for one in ended if one.released]:
            acts["undo"] = 40 if self.now < max(one.released for one in released if one.released) + 10 * MINUTE else 4
        if ended:
            acts["late"] = 6
        act = self.chance.choices(list(acts), list(acts.values()))[0]
        self.told.append(f"{self.now} {act}")
        if act == "reserve":
            return self.reserve()
        if act == "advance":
            return self.sweep()
        if act == "settle":
            return self.settle()
        active = [one for one in alive if one.start <= self.now]
        newest = sorted(alive, key=lambda one: one.last.at if one.last else one.booked_at)[-1:]
        choices = {"release": active or alive, "undo": released[-1:], "late": ended[-2:], "unbook": newest}
        if beyond := [one.member for one in alive if one.elastic]:  # who gives hours back lets them become in-quota
            choices["cancel"] = [one for one in alive if one.member in beyond and not one.elastic] or alive
        one = self.chance.choice(choices.get(act, alive))
        if act == "late":
            act = self.chance.choice(("extend", "release", "cancel", "move", "unbook", "again"))
        return self.change(act, one)

    def typed(self, near: datetime, most_steps: int) -> tuple[datetime, str]:
        """A reading of the lab's clock, given to both; where it is no instant or two, both must offer the same ones."""
        local = self.model.shown(near).replace(minute=0, second=0, microsecond=0)
        local += self.chance.randrange(most_steps) * 15 * MINUTE + self.chance.choice((0,) * 40 + (1,)) * MINUTE
        readings = self.model.readings(local)
        try:
            instant = typed_instant(local, self.model.zone)
        except NoSuchLocalTime as problem:
            if len(readings) == 1 or problem.twice != (len(readings) == 2):
                return near, f"{local} is no such time, says the product; the model has {readings}"
            if problem.twice and list(problem.readings) != readings:
                return near, f"{local} means {problem.readings} or {readings}"
            return problem.readings[0], ""
        if readings != [instant]:
            return near, f"{local} is {instant}, says the product; the model has {readings}"
        return instant, ""

    def period(self) -> tuple[datetime, datetime, str]:
        days = self.chance.choice((0, 0, 1, 2, 2, 2, 3, 13))
        start, difference = self.typed(self.now + days * DAY, 40)
        end, other = self.typed(start + 15 * MINUTE, self.chance.choice((8, 16, 30, 100)))
        return start, end, difference or other

    def beside_another(self) -> tuple[datetime, datetime, Cards] | None:
        """A time and cards where somebody is or was: what random requests seldom meet."""
        near = [one for one in self.model.booked if one.end > self.now]
        if not near or self.chance.random() > 0.6:
            return None
        weak = [one for one in near if one.start > self.now and one.rank >= (False, EXPLORATION) and not one.cancelled]
        kept = [(fee.card, piece) for fee in self.model.fees for piece in fee.pieces if piece[1] > self.now + HOUR]
        if kept and self.chance.random() < 0.4:
            card, (start, end) = self.chance.choice(kept)
            return start, max(end - self.chance.choice((0, 1)) * HOUR, start + HOUR), (card,)
        one = self.chance.choice(weak if weak and self.chance.random() < 0.7 else near)
        start = one.start + self.chance.choice((-2, 0, 0, 1)) * HOUR
        return start, one.end + self.chance.choice((-1, 0, 0, 3)) * HOUR, one.cards[: self.chance.choice((1, 2))]

    def reserve(self) -> str:
        start, end, difference = self.period()
        if difference:
            return difference
        asked: datetime | None = start
        there = self.beside_another()
        if there:
            asked, end = there[0] if there[0] > self.now else None, there[1]
        elif self.chance.random() < 0.15:
            asked = None
            end, difference = self.typed(self.now + 15 * MINUTE, 40)
            if difference:
                return difference
        pk = self.chance.choice(list(self.members))
        tier = "regular" if there and self.chance.random() < 0.7 else self.chance.choice(list(TIERS))
        may_move = self.chance.choice((None, True, False))
        count = self.chance.choice((0, 0, 1, 2)) if asked and asked > self.now else 0
        cards = there[2] if there else tuple(self.chance.sample(list(self.model.weights), self.chance.choice((1, 1, 2, 3))))
        cards = () if count else cards
        request = booking.BookingRequest(
            cards, asked, end, tier, may_move=may_move, count=count, pool_id=self.pool if count else None
        )
        self.told[-1] += f" {pk} {cards or count} {tier} {may_move} {asked}..{end}"
        return self.made(
            lambda: booking.reserve(self.members[pk], request, now=self.now),
            lambda: self.model.reserve(
                pk, cards, asked, end, self.now, tier=TIERS[tier], pool=self.pool, count=count, may_move=may_move,
                choose=self.choose,
            ),
        )

    def choose(self, key: int, options: list[Cards]) -> Cards:
        """What the product took of what is equally good; what it took besides is found when both are compared."""
        taken = Allocation.objects.filter(reservation=self.rows[key]).values_list("gpu", flat=True) if key in self.rows else ()
        actual = set(taken)
        return next((cards for cards in options if set(cards) == actual), options[0])

    def made(
        self, ask: Callable[[], Reservation], expect: Callable[[], tuple[set[str], Booked | None]], act: str = "reserve"
    ) -> str:
        """Something new, first of the product and then of the model."""
        row, found = self.answered(ask)
        if row is not None:
            self.rows[len(self.model.booked)] = row.pk
        expected, made = expect()
        self.told[-1] += f": {sorted(expected) or 'yes'}"
        if found or made is None:
            same = found == expected or ("in_past" in expected and "in_past" in found)
            return "" if same else f"refused {found or 'nothing'}, expected {expected or 'nothing'}"
        self.noted(act, made)
        return self.compare_rows()

    def answered(self, ask: Callable[[], Reservation]) -> tuple[Reservation | None, set[str]]:
        try:
            return ask(), set()
        except Refused as refusal:
            return None, {str(code) for code in refusal.codes}

    def sweep(self) -> str:
        for pk in [*booking.start_due(self.now), *booking.finish_due(self.now)]:
            booking.advance_one(pk, now=self.now)
        return ""

    def settle(self) -> str:
        done = {pk for pk in elastic.due(self.now) if elastic.settle(pk, now=self.now)}
        expected = {self.rows[key] for key in self.model.settle(self.now)}
        self.seen["settled"] += bool(done)
        self.told[-1] += f": {done}"
        return "" if done == expected else f"settled {done}, expected {expected}"

    def change(self, act: str, one: Booked) -> str:
        by, pk, now = self.members[one.member], self.rows[one.key], self.now
        common: dict[str, Any] = {"by": by, "version": None, "now": now}
        self.told[-1] += f" {act} of {one.key}: {one.member} {one.cards} {one.status(now)} {one.start}..{one.end}"
        if act == "again":
            key = f"again-{len(self.told)}"
            return self.made(
                lambda: booking.again(pk, by=by, now=now, key=key), lambda: self.model.again(one, now, choose=self.choose), act
            )
        expect: Callable[[], set[str]]
        if act == "extend":
            end, difference = self.typed(one.end, self.chance.choice((8, 24, 160)))
            if difference:
                return difference
            ask, expect = (lambda: extension.extend(pk, end, **common)), (lambda: self.model.extend(one, end, now))
            self.told[-1] += f" until {end}"
        elif act == "move":
            start, end, difference = self.period()
            if difference:
                return difference
            if self.chance.random() < 0.4:  # within the old time, or around it
                start = one.start + self.chance.choice((-1, 0, 0, 1)) * HOUR
                end = one.end + self.chance.choice((-1, 0, 1)) * HOUR
            cards = tuple(self.chance.sample(list(self.model.weights), len(one.cards))) if self.chance.random() < 0.5 else None
            self.told[-1] += f" to {cards} {start}..{end}"
            ask = lambda: moving.move(pk, card_ids=cards, start=start, end=end, **common)  # noqa: E731
            expect = lambda: self.model.move(one, cards, start, end, now, choose=self.choose)  # noqa: E731
        else:
            services = {
                "cancel": changes.cancel, "release": changes.release, "undo": changes.undo_release, "unbook": moving.undo,
            }
            ask, expect = (lambda: services[act](pk, **common)), (lambda: getattr(self.model, act)(one, now))
        _, found = self.answered(ask)
        expected = expect()
        self.told[-1] += f": {sorted(expected) or 'yes'}"
        if not expected:
            self.noted(act, one)
        if found != expected and not ("undo_over" in expected and found == {"stale"}):  # a sweep may have come between
            return f"{act} refused {found or 'nothing'}, expected {expected or 'nothing'}"
        return "" if expected else self.compare_rows()

    def noted(self, act: str, one: Booked) -> None:
        self.seen[act] += 1
        self.seen["elastic"] += one.elastic and act == "reserve"
        self.seen["fee"] += any(fee.pieces for fee in self.model.fees)
        if one.last and one.last.kind in {"reserve", "move"} and one.last.at == self.now:
            self.seen["displaced"] += any(other.displaced for other, _, _ in one.last.displaced)
            self.seen["placed"] += any(not other.displaced for other, _, _ in one.last.displaced)
            self.seen["fee returned"] += bool(one.last.returned)

    # --- comparing --------------------------------------------------------------------------------------------------
    def compare_rows(self) -> str:
        """Every reservation: its time, cards, account, and what became of it."""
        rows = {row.pk: row for row in _reservations(list(self.rows.values()))}
        cards: dict[int, set[int]] = {pk: set() for pk in rows}
        for pk, card in _cards_of(list(rows)):
            cards[pk].add(card)
        for one in self.model.booked:
            row = rows[self.rows[one.key]]
            found = (
                row.start, row.end, cards[row.pk], row.is_elastic, row.displaced_times,
                row.may_move_until, row.booked_at, row.ended_at if str(row.status) == "released" else None,
            )
            wanted = (
                one.start, one.end, set(one.cards), one.elastic, one.displaced_times, one.may_move_until, one.booked_at,
                one.released,
            )
            status = one.status(self.now)
            sweep = {"active": {"booked"}, "finished": {"active", "booked"}}.get(status, set())
            if found != wanted or str(row.status) not in {status, *sweep}:
                return f"{row} {row.status} {found}, expected {status} {wanted}"
        return ""

    def compare(self) -> str:
        """Ledger, holders at every edge from now on, and the balances that pages show."""
        booked: Counter[tuple[int, bool, Any]] = Counter()
        for member, account, week, units in LedgerEntry.objects.values_list("member", "account", "period", "units"):
            booked[member, account == "elastic", week] += units
        expected: Counter[tuple[int, bool, Any]] = Counter()
        for owner, beyond, week, units in self.model.ledger:
            expected[owner, beyond, week] += units
        if {k: v for k, v in booked.items() if v} != {k: v for k, v in expected.items() if v}:
            return f"ledger {booked}, expected {expected}"
        lab = queries.lab_facts()
        for pk, member in self.members.items():
            for balance in queries.balances(member, lab, self.now):
                if balance.used != self.model.used(pk, balance.week):
                    return f"balance {balance}"
        cards = list(self.model.weights)
        horizon = self.now + 30 * DAY
        holdings = queries.holdings_between(cards, self.now, horizon)
        edges = {edge for one in self.model.booked for edge in (one.start, one.end)} | {self.now}
        for at in sorted(edge for edge in edges if self.now <= edge < horizon):
            for card in cards:
                holders = [
                    one.holder_id for one in holdings if one.card_id == card and one.interval.start <= at < one.interval.end
                ]
                wanted = self.model.holder(card, at)
                if holders != ([] if wanted is None else [wanted]):
                    return f"card {card} at {at}: {holders}, expected {wanted}"
        return self.compare_rows()


@prepared
def _reservations(ids: list[int]) -> QuerySet[Reservation]:
    return Reservation.objects.filter(pk__in=ids)


@prepared
def _cards_of(reservation_ids: list[int]) -> QuerySet[Allocation, tuple[int, int]]:
    return Allocation.objects.filter(reservation__in=reservation_ids).values_list("reservation", "gpu")


class Rehearsal(Play):
    """The same without the product: what would be seen, in a moment."""

    def run(self) -> list[str]:
        self._set_up()
        for _ in range(STEPS):
            self.pass_time()
            self.step()
        return []

    def lab(self, **policy: Any) -> tuple[dict[int, Any], dict[int, int], dict[int, int]]:
        return {1: 1, 2: 2, 3: 3, 4: 4}, {1: 100, 2: 100, 3: HEAVY}, {1: 1, 2: 1, 3: 2}

    def made(self, ask: Any, expect: Callable[[], tuple[set[str], Booked | None]], act: str = "reserve") -> str:
        self.rows[len(self.model.booked)] = len(self.model.booked)
        _, made = expect()
        if made:
            self.noted(act, made)
        return ""

    def answered(self, ask: Any) -> tuple[None, set[str]]:
        return None, set()

    def choose(self, key: int, options: list[Cards]) -> Cards:
        return options[0]

    def sweep(self) -> str:
        return ""

    def settle(self) -> str:
        self.seen["settled"] += bool(self.model.settle(self.now))
        return ""

    def compare_rows(self) -> str:
        return ""
