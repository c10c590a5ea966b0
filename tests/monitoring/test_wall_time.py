"""Booked against used (M1): keeping what was observed, `wall_time.csv`, and the line beside one's own past reservations."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from monitoring.models import CardUse, Incident, ProcessInterval, Sample
from monitoring.rows import BOM, harmless
from monitoring.services.accounting import account_use
from monitoring.services.retention import forget_samples
from monitoring.views.walltime import COLUMNS
from reservations.models import Allocation, Gpu, Host, Lab, Member, Reservation
from reservations.rules.lifecycle import Status
from tests.monitoring.world import NOON, PERIOD, World, process

pytestmark = pytest.mark.django_db

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
START = NOON - HOUR
LATER = NOON + HOUR


@pytest.fixture(autouse=True)
def _later() -> Iterator[None]:
    with time_machine.travel(LATER, tick=False):
        yield


@pytest.fixture
def ann(world: World) -> Member:
    return world.member("ann", 2001)


@pytest.fixture
def reader(client: Client, world: World) -> Client:
    client.force_login(world.member("reader"))
    return client


def hold(world: World, member: Member, *, hours: float = 1, status: Status = Status.FINISHED) -> Allocation:
    return world.book(member, START, START + hours * HOUR, status=status)


def stored(world: World, start: datetime, end: datetime) -> None:
    """A reading every ten seconds in `[start, end]`, stored and not judged."""
    world.store([start + place * PERIOD for place in range((end - start) // PERIOD + 1)])


def kept(one: Allocation) -> tuple[float, float, float]:
    """Minutes observed, present, busy."""
    row = CardUse.objects.get(pk=one.pk)
    return tuple(length / MINUTE for length in (row.observed, row.present, row.busy))  # type: ignore[return-value]


def table(client: Client, **asked: str) -> list[dict[str, str]]:
    response = client.get("/wall_time.csv", asked)
    assert response.status_code == 200
    text = response.getvalue().decode()
    assert text.startswith(BOM)
    return list(csv.DictReader(text.removeprefix(BOM).splitlines()))


# --- keeping what was observed --------------------------------------------------------------------------------------


def test_m1_what_was_observed_is_kept_after_the_samples_are_gone(world: World, ann: Member) -> None:
    one = hold(world, ann)
    stored(world, START, START + 20 * MINUTE)
    world.on[0] = [process(100, 2001)]
    stored(world, START + 20 * MINUTE + PERIOD, START + 40 * MINUTE)
    world.changes[0] = {"utilization": 2}
    stored(world, START + 40 * MINUTE + PERIOD, NOON + MINUTE)
    account_use(now=LATER, period=PERIOD)
    assert kept(one) == (60, 40, 20 + 1 / 6)  # of two looks that differ the better one counts
    forget_samples(now=LATER + timedelta(days=3), batches=100)
    assert not Sample.objects.exists()
    account_use(now=LATER + timedelta(days=3), period=PERIOD)
    assert kept(one)[0] == 60


def test_m1_sweeps_of_any_length_and_number_count_each_sample_once(world: World, ann: Member) -> None:
    one = hold(world, ann)
    world.on[0] = [process(100, 2001)]
    stored(world, START, NOON + MINUTE)
    for minutes in (1, 1, 7, 7.05, 7.05, 30, 61, 61, 90):
        account_use(now=START + minutes * MINUTE, period=PERIOD)
        account_use(now=START + minutes * MINUTE, period=PERIOD)
    assert kept(one) == (60, 60, 60)


def test_m1_a_sweep_beside_another_counts_nothing_twice(
    world: World, ann: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = hold(world, ann)
    stored(world, START, NOON + MINUTE)
    from monitoring import queries

    read, inside = queries.looks_between, []

    def racing(*asked: object) -> object:
        found = read(*asked)  # type: ignore[arg-type]
        if not inside:
            inside.append(True)
            account_use(now=LATER, period=PERIOD)
        return found

    monkeypatch.setattr(queries, "looks_between", racing)
    account_use(now=LATER, period=PERIOD)
    assert kept(one)[0] == 60
    CardUse.objects.update(until=NOON - MINUTE, observed=59 * MINUTE)
    inside.clear()
    account_use(now=LATER, period=PERIOD)
    assert kept(one)[0] == 60


def test_m1_an_extension_is_carried_on(world: World, ann: Member) -> None:
    one = hold(world, ann, hours=0.5)
    stored(world, START, NOON + MINUTE)
    account_use(now=NOON, period=PERIOD)
    assert kept(one)[0] == 30
    Allocation.objects.update(end=NOON)
    account_use(now=LATER, period=PERIOD)
    # The sweep had gone on to see who came last before the old end: at most three periods of the rest are unobserved.
    assert 59.5 <= kept(one)[0] <= 60


def test_m1_what_nobody_read_has_no_account(world: World, ann: Member) -> None:
    one = hold(world, ann)
    stored(world, START, NOON + MINUTE)
    Host.objects.update(has_reader=False)
    account_use(now=LATER, period=PERIOD)
    assert not CardUse.objects.filter(pk=one.pk).exists()


# --- the table ------------------------------------------------------------------------------------------------------


def test_m1_wall_time_puts_booked_against_used_for_everybody(world: World, ann: Member, reader: Client) -> None:
    one = hold(world, ann)
    world.on[0] = [process(100, 2001)]
    stored(world, START, START + 30 * MINUTE)
    world.on[0] = []
    stored(world, START + 30 * MINUTE + PERIOD, NOON + MINUTE)
    account_use(now=LATER, period=PERIOD)
    (row,) = table(reader)
    assert tuple(row) == COLUMNS
    assert row == {
        "reservation": str(one.reservation_id), "holder": "ann", "host": "a100", "card": "0", "tier": "regular",
        "booked_start": "2026-11-30T19:00:00+08:00", "booked_end": "2026-11-30T20:00:00+08:00", "booked_hours": "1.00",
        "ended": "2026-11-30T20:00:00+08:00", "first_seen": "", "last_seen": "", "observed_hours": "1.00",
        "used_hours": "0.50", "busy_hours": "0.50", "overrun_hours": "0.00", "mark": "ok", "off_by_more_than_half": "no",
        "gpu": "GPU-a100-0",
    }


def test_m1_a_card_idle_from_end_to_end_is_marked_and_an_unread_one_is_unknown_not_idle(
    world: World, ann: Member, reader: Client
) -> None:
    hold(world, ann)
    unread = Gpu.objects.create(
        uuid="GPU-unread", host=Host.objects.create(name="unread", has_reader=False), pool=world.gpu().pool, model="x", index=0,
        bus_id="0", memory_total=1,
    )
    world.book(ann, START, NOON, gpus=(unread,), status=Status.FINISHED)
    stored(world, START, NOON + MINUTE)
    account_use(now=LATER, period=PERIOD)
    read, not_read = table(reader)
    assert (read["mark"], read["off_by_more_than_half"], read["used_hours"]) == ("unused", "yes", "0.00")
    assert (not_read["host"], not_read["mark"], not_read["off_by_more_than_half"]) == ("unread", "unknown", "unknown")
    assert (not_read["observed_hours"], not_read["used_hours"], not_read["busy_hours"]) == ("0.00", "", "")


def test_m1_a_card_held_and_idle_from_end_to_end_is_marked(world: World, ann: Member, reader: Client) -> None:
    hold(world, ann)
    world.on[0], world.changes[0] = [process(100, 2001)], {"utilization": 0}
    stored(world, START, NOON + MINUTE)
    account_use(now=LATER, period=PERIOD)
    assert [(row["mark"], row["used_hours"], row["busy_hours"]) for row in table(reader)] == [("idle", "1.00", "0.00")]


@pytest.mark.parametrize(("closed", "said"), [(NOON + 30 * MINUTE, "0.50"), (None, "0.75")])
def test_m1_an_overrun_is_marked_with_the_time_that_was_proved(
    world: World, ann: Member, reader: Client, closed: datetime | None, said: str
) -> None:
    one = hold(world, ann)
    Incident.objects.create(
        kind="overrun", allocation=one, gpu=one.gpu, member=ann, first_sight=NOON + 10 * MINUTE, opened_at=NOON + 11 * MINUTE,
        closed_at=closed,
    )
    ProcessInterval.objects.create(
        gpu=one.gpu, boot_id="b", pid=1, started=1, member=ann, owner="verified", first_seen=START, last_seen=NOON + 45 * MINUTE,
    )
    (row,) = table(reader)
    assert (row["mark"], row["overrun_hours"]) == ("overrun", said)
    assert row["off_by_more_than_half"] == ("yes" if closed is None else "unknown")


def test_m1_early_release_is_shown_as_good(world: World, ann: Member, reader: Client) -> None:
    one = hold(world, ann, hours=0.5, status=Status.RELEASED)
    Reservation.objects.update(end=START + 4 * HOUR, ended_at=one.end)
    (row,) = table(reader)
    assert (row["mark"], row["booked_hours"], row["ended"]) == ("early_release", "4.00", "2026-11-30T19:30:00+08:00")
    assert row["off_by_more_than_half"] == "no"


def test_m1_what_still_holds_is_not_judged_yet(world: World, ann: Member, reader: Client) -> None:
    hold(world, ann, hours=4, status=Status.ACTIVE)
    hold_later = world.book(ann, LATER + 4 * HOUR, LATER + 5 * HOUR, status=Status.BOOKED)
    (row,) = table(reader)
    assert row["reservation"] != str(hold_later.reservation_id)  # what has not begun has nothing to compare
    assert (row["mark"], row["off_by_more_than_half"], row["ended"]) == ("unknown", "unknown", "")


@pytest.mark.parametrize("name", ["=1+1", "+cmd", "-2", "@SUM(A1)", "  =1", "\t=1", "＝1", "\r\n=1"])
def test_m1_no_cell_is_run_as_a_formula(world: World, reader: Client, name: str) -> None:
    member = world.member("x", 2009)
    Member.objects.filter(pk=member.pk).update(name=name)
    hold(world, member)
    (row,) = table(reader)
    assert row["holder"].startswith("'") and row["holder"] == harmless(name)
    assert harmless("ann = bo") == "ann = bo"


def test_m1_names_are_shown_in_full_or_by_initials_in_table_and_schedule_alike(
    world: World, ann: Member, reader: Client
) -> None:
    Member.objects.filter(pk=ann.pk).update(name="Ann Lee")
    other = world.member("王小明")
    hold(world, ann, hours=1.5)
    world.book(other, NOON + HOUR, NOON + 2 * HOUR)

    def pages() -> list[str]:
        paths = ("/", "/?view=list", "/schedule/grid?view=week", f"/reservations/{pk}/")
        return [reader.get(path).content.decode() for path in paths]

    pk = Reservation.objects.get(holder=ann).pk
    assert all("Ann Lee" in page for page in pages())
    Lab.objects.update(show_names="initials")
    assert [row["holder"] for row in table(reader)] == ["A. L."]
    assert all("A. L." in page and "Ann Lee" not in page for page in pages())
    assert all("王**" in page and "王小明" not in page for page in pages()[:3])


def test_m1_the_days_asked_for_are_the_labs_and_both_included(world: World, ann: Member, reader: Client) -> None:
    hold(world, ann)  # 19:00 to 20:00 in Shanghai
    night = world.book(ann, NOON - 30 * HOUR, NOON - 29 * HOUR, status=Status.FINISHED)  # 29 November, 14:00
    both = [str(night.reservation_id), str(Reservation.objects.exclude(pk=night.reservation_id).get().pk)]
    assert [row["reservation"] for row in table(reader)] == both
    assert [row["reservation"] for row in table(reader, **{"from": "2026-11-30"})] == both[1:]
    assert [row["reservation"] for row in table(reader, to="2026-11-29")] == both[:1]
    assert table(reader, **{"from": "2026-10-01", "to": "2026-11-28"}) == []


@pytest.mark.parametrize("asked", [
    {"from": "2026-13-01"}, {"to": "yesterday"}, {"from": "2026-11-30", "to": "2026-11-29"},
    {"from": "2025-11-29", "to": "2026-11-30"},
    {"from": "0001-01-01", "to": "0001-01-01"}, {"to": "9999-12-31"}, {"from": "20261130"},
    {"to": "a\x00b"}, {"to": "٢٠٢٦-١١-٣٠"},
])
def test_m1_days_that_cannot_be_shown_are_422_with_a_sentence(reader: Client, asked: dict[str, str]) -> None:
    response = reader.get("/wall_time.csv", asked)
    assert response.status_code == 422
    assert response.content.decode().endswith("。")


def test_m1_a_year_can_be_asked_for_at_once(reader: Client) -> None:
    assert table(reader, **{"from": "2025-11-30", "to": "2026-11-30"}) == []


def test_m1_the_number_of_statements_does_not_grow_with_the_rows(world: World, ann: Member, reader: Client) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as caught:
            table(reader)
        return len(caught)

    hold(world, ann)
    few = statements()
    for place in range(2, 12):
        world.book(ann, START - place * HOUR, START - (place - 1) * HOUR, status=Status.FINISHED)
    assert statements() == few
    assert len(table(reader)) == 11


# --- the line beside one's own --------------------------------------------------------------------------------------


def mine(client: Client, member: Member) -> str:
    client.force_login(member)
    return client.get("/mine", headers={"accept-language": "en"}).content.decode()


def test_m1_off_by_more_than_half_is_flagged_to_its_holder(world: World, ann: Member, client: Client) -> None:
    Member.objects.update(language="en")
    hold(world, ann)
    world.on[0] = [process(100, 2001)]
    stored(world, START, START + 12 * MINUTE)
    world.on[0] = []
    stored(world, START + 12 * MINUTE + PERIOD, NOON + MINUTE)
    assert "Off by more than half" not in mine(client, ann)  # nobody has reckoned yet: unknown
    account_use(now=LATER, period=PERIOD)
    page = mine(client, ann)
    assert "Off by more than half" in page
    assert "Used 0.2 h of 1.0 h booked. Book less next time, or release when you are done." in page
    assert "Off by more than half" not in mine(client, world.member("bo"))


def test_m1_a_long_overrun_is_flagged_to_its_holder(world: World, ann: Member, client: Client) -> None:
    Member.objects.update(language="en")
    one = hold(world, ann)
    Incident.objects.create(kind="overrun", allocation=one, gpu=one.gpu, member=ann, first_sight=NOON, opened_at=NOON)
    ProcessInterval.objects.create(
        gpu=one.gpu, boot_id="b", pid=1, started=1, member=ann, owner="verified", first_seen=START, last_seen=LATER,
    )
    assert "Your processes stayed 1.0 h after the end; booked were 1.0 h." in mine(client, ann)


def test_m1_early_release_is_praised_to_its_holder(world: World, ann: Member, client: Client) -> None:
    Member.objects.update(language="en")
    one = hold(world, ann, hours=0.5, status=Status.RELEASED)
    Reservation.objects.update(end=START + 4 * HOUR, ended_at=one.end)
    page = mine(client, ann)
    assert "Released early: good." in page and "Off by more than half" not in page


def test_m1_the_schedule_and_my_page_lead_to_the_table(world: World, ann: Member, client: Client) -> None:
    client.force_login(ann)
    assert all('href="/wall_time.csv"' in client.get(path).content.decode() for path in ("/", "/mine"))
