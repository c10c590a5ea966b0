"""T4: random weeks of booking, played to the product and to a plain second reading of the law; they never differ.

`TORTURE=10000` plays that many sequences instead of the few of a commit.
"""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch
from zoneinfo import ZoneInfo

import pytest
from django.db import connection

from reservations import queries
from reservations.models import Gpu, LedgerEntry, Member, Pool
from reservations.rules.lifecycle import Status
from reservations.rules.refusal import Refused
from reservations.rules.week import NoSuchLocalTime, typed_instant
from reservations.services import booking, changes, extension
from tests.rig import world
from tests.rig.model import DAY, HOUR, MINUTE, Booked, Model

STEPS = 30
WEEKLY_HOURS, CARDS_AT_ONCE, OPEN_FUTURE = 60, 2, 4
# Around these local days the weeks are laid: both clock changes where there are any, a turn of the year, a leap day.
DAYS = {
    "Asia/Shanghai": ("2026-01-01", "2028-02-29"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Europe/London": ("2026-03-29", "2026-10-25"),
    "Australia/Lord_Howe": ("2026-04-05", "2026-10-04"),
    "Asia/Kathmandu": ("2026-12-31", "2026-06-01"),
    "UTC": ("2026-12-31", "2028-02-28"),
}


def sequences() -> int:
    """For each zone. The rules are the same on both databases: the second time a few suffice."""
    return int(os.environ.get("TORTURE", "24" if connection.vendor == "postgresql" else "96")) // len(DAYS)


class Play:
    """One sequence: the same acts to the product and to the model, compared after each."""

    def __init__(self, zone: str, seed: int) -> None:
        self.chance = random.Random(f"{zone} {seed}")
        self.zone = ZoneInfo(zone)
        lab = world.make(
            members=2, cards=3, zone=zone, weekly_hours=WEEKLY_HOURS, cards_at_once=CARDS_AT_ONCE, open_future=OPEN_FUTURE
        )
        heavy, _ = Pool.objects.get_or_create(name="heavy", defaults={"weight": 250})
        cards = [*lab.cards, *world.more_cards(1, pool=heavy)]
        self.members = {pk: Member.objects.get(pk=pk) for pk in lab.members}
        self.model = Model(
            self.zone, {gpu.pk: gpu.pool.weight for gpu in Gpu.objects.filter(pk__in=cards).select_related("pool")},
            WEEKLY_HOURS, CARDS_AT_ONCE, OPEN_FUTURE,
        )
        self.rows: dict[int, int] = {}  # the model's key → the product's
        day = datetime.fromisoformat(self.chance.choice(DAYS[zone])) - self.chance.choice((0, 1, 2, 7)) * DAY
        self.now = (day + timedelta(seconds=self.chance.randrange(86_400))).replace(tzinfo=self.zone).astimezone(UTC)
        self.told: list[str] = []

    def run(self) -> list[str]:
        """Plays and returns the first difference with the acts that led to it, or nothing."""
        for number in range(STEPS):
            jump = self.chance.choice((0 * MINUTE, 2 * MINUTE, 7 * MINUTE, 30 * MINUTE, 3 * HOUR, 11 * HOUR))
            self.now += jump + timedelta(seconds=self.chance.choice((0, 0, 17.25)))
            difference = self.step() or (self.compare() if number % 10 == 9 else "")
            if difference:
                return [*self.told, f"now {self.now}: {difference}"]
        return []

    # --- acts -------------------------------------------------------------------------------------------------------
    def step(self) -> str:
        ended = [one for one in self.model.booked if one.released or self.now > one.end]
        alive = [one for one in self.model.booked if one not in ended and not one.cancelled]
        acts = {"reserve": 50, "advance": 8}
        if alive:
            acts |= {"extend": 18, "release": 12, "cancel": 8}
        if ended:
            acts |= {"late": 6, "undo": 6}
            if ended[-1].released and self.now < ended[-1].released + 10 * MINUTE:
                acts["undo"] = 40
        act = self.chance.choices(list(acts), list(acts.values()))[0]
        self.told.append(f"{self.now} {act}")
        if act == "reserve":
            return self.reserve()
        if act == "advance":
            for pk in [*booking.start_due(self.now), *booking.finish_due(self.now)]:
                booking.advance_one(pk, now=self.now)
            return ""
        released = [one for one in ended if one.released]
        active = [one for one in alive if one.start <= self.now]
        choices = {"release": active or alive, "undo": released[-1:] or ended, "late": ended[-2:]}
        one = self.chance.choice(choices.get(act, alive))
        if act == "late":
            act = self.chance.choice(("extend", "release", "cancel"))
        return self.change(act, one)

    def typed(self, near: datetime, most_steps: int) -> tuple[datetime, str]:
        """A reading of the lab's clock, given to both; where it is no instant or two, both must offer the same ones."""
        local = self.model.shown(near).replace(minute=0, second=0, microsecond=0)
        local += self.chance.randrange(most_steps) * 15 * MINUTE + self.chance.choice((0,) * 12 + (1,)) * MINUTE
        readings = self.model.readings(local)
        try:
            instant = typed_instant(local, self.zone)
        except NoSuchLocalTime as problem:
            if len(readings) == 1 or problem.twice != (len(readings) == 2):
                return near, f"{local} is no such time, says the product; the model has {readings}"
            if problem.twice and list(problem.readings) != readings:
                return near, f"{local} means {problem.readings} or {readings}"
            return problem.readings[0], ""
        if readings != [instant]:
            return near, f"{local} is {instant}, says the product; the model has {readings}"
        return instant, ""

    def reserve(self) -> str:
        start: datetime | None = None
        difference = ""
        if self.chance.random() < 0.7:
            start, difference = self.typed(self.now + self.chance.choice((0, 0, 0, 0, 1, 2, 6, 13)) * DAY, 40)
        end, other = self.typed((start or self.now) + 15 * MINUTE, self.chance.choice((12, 40, 120)))
        if difference or other:
            return difference or other
        pk = self.chance.choice(list(self.members))
        cards = tuple(self.chance.sample(list(self.model.weights), self.chance.choice((1, 1, 1, 1, 2, 3))))
        expected, made = self.model.reserve(pk, cards, start, end, self.now)
        self.told[-1] += f" {pk} {cards} {start}..{end}: {expected or 'yes'}"
        try:
            row = booking.reserve(self.members[pk], booking.BookingRequest(cards, start, end), now=self.now)
        except Refused as refusal:
            found = {str(code) for code in refusal.codes}
            same = found == expected or ("in_past" in expected and "in_past" in found)
            return "" if same else f"refused {found}, expected {expected}"
        if made is None:
            return f"granted, expected {expected}"
        self.rows[made.key] = row.pk
        if (row.start, row.end, str(row.status)) != (made.start, made.end, made.status(self.now)):
            return f"granted {row.status} {row.start}..{row.end}, expected {made}"
        shown = row.start.astimezone(queries.lab_facts().zone).replace(tzinfo=None)
        return "" if shown == self.model.shown(made.start) else f"shown {shown}"

    def change(self, act: str, one: Booked) -> str:
        by, pk = self.members[one.member], self.rows[one.key]
        common: dict[str, Any] = {"by": by, "version": None, "now": self.now}
        self.told[-1] += f" {act} of {one}"
        if act == "extend":
            end, difference = self.typed(one.end, self.chance.choice((8, 24, 160)))
            if difference:
                return difference
            expected = self.model.extend(one, end, self.now)
            call = lambda: extension.extend(pk, end, **common)  # noqa: E731
        else:
            expected = getattr(self.model, act)(one, self.now)
            service = {"cancel": changes.cancel, "release": changes.release, "undo": changes.undo_release}[act]
            call = lambda: service(pk, **common)  # noqa: E731
        self.told[-1] += f": {expected or 'yes'}"
        try:
            row = call()
        except Refused as refusal:
            found = {str(code) for code in refusal.codes}
            return "" if found == expected else f"{act} refused {found}, expected {expected}"
        if expected:
            return f"{act} done, expected {expected}"
        same = (row.start, row.end, row.ended_at if one.released else None) == (one.start, one.end, one.released)
        return "" if same else f"{act}: {row.start}..{row.end} {row.ended_at}, expected {one}"

    # --- comparing --------------------------------------------------------------------------------------------------
    def compare(self) -> str:
        """Ledger, holders at every edge from now on, and the balances that pages show."""
        booked: dict[tuple[int, Any], int] = {}
        for member, week, units in LedgerEntry.objects.filter(member__in=self.members).values_list("member", "period", "units"):
            booked[member, week] = booked.get((member, week), 0) + units
        expected: dict[tuple[int, Any], int] = {}
        for member, week, units in self.model.ledger:
            expected[member, week] = expected.get((member, week), 0) + units
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
                here = [one for one in holdings if one.card_id == card]
                holders = [one.holder_id for one in here if one.interval.start <= at < one.interval.end]
                wanted = self.model.holder(card, at)
                if holders != ([] if wanted is None else [wanted]):
                    return f"card {card} at {at}: {holders}, expected {wanted}"
        return ""


@pytest.mark.django_db
@pytest.mark.parametrize("zone", DAYS)
def test_product_and_plain_model_never_differ(zone: str) -> None:
    for number in range(sequences()):
        difference = Play(zone, number).run()
        assert not difference, f"sequence {number} in {zone}:\n" + "\n".join(difference)


def wall_clock_seconds(start: datetime, end: datetime) -> int:
    """The lengths that a lab would charge which subtracts what its clock shows."""
    zone = ZoneInfo("America/New_York")
    return int((end.astimezone(zone).replace(tzinfo=None) - start.astimezone(zone).replace(tzinfo=None)).total_seconds())


@pytest.mark.django_db
@pytest.mark.parametrize(
    "broken",
    [
        patch("reservations.rules.week.week_of", lambda at, zone: (at.date() - at.weekday() * DAY)),
        patch("reservations.rules.quota.whole_seconds", wall_clock_seconds),
        patch("reservations.services.held.scaled", lambda units, sign: units if sign > 0 else {}),
        patch("reservations.services.extension.status_at", lambda reservation, now: Status(reservation.status)),
    ],
    ids=["week in UTC", "hours of the wall clock", "nothing returned", "status of the last sweep"],
)
def test_control_the_model_notices_a_broken_rule(broken: Any) -> None:
    with broken:
        assert any(Play("America/New_York", number).run() for number in range(40))
