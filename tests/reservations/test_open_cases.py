"""Cases that hurt other systems: those of booking, time and quota that no other test bears. NOW is Monday 14:00."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.test import Client

from reservations import queries
from reservations.models import Allocation, CardState, Gpu, LedgerEntry, Member, Notification, Reservation
from reservations.rules.policy import BadPolicy, Policy
from reservations.rules.refusal import Code, Refused
from reservations.rules.week import typed_instant
from reservations.services import booking, changes, extension, moving
from reservations.services.sightings import Sighting, record
from tests.factories import NOW, at, cards, lab, member, reservation
from tests.reservations.accounts import charged, charged_by_week

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[2]
MINUTE, WEEK = timedelta(minutes=1), timedelta(days=7)


@pytest.fixture(autouse=True)
def _lab() -> None:
    lab()


def refused(who: Member, gpus: list[Gpu], start: datetime | None, end: datetime, now: datetime = NOW, **asked: Any) -> list[Code]:
    """Why not; empty when it was booked."""
    try:
        booking.reserve(who, booking.BookingRequest(tuple(gpu.pk for gpu in gpus), start, end, **asked), now=now)
    except Refused as refusal:
        return refusal.codes
    return []


def book(who: Member, gpus: list[Gpu], start: datetime, end: datetime, now: datetime = NOW, **asked: Any) -> Reservation:
    return booking.reserve(who, booking.BookingRequest(tuple(gpu.pk for gpu in gpus), start, end, **asked), now=now)


# --- time -----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["UTC", "America/New_York"])
def server_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The zone that the server's clock shows, which must not matter."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("zone", "hour"), [("Europe/London", 19), ("Asia/Shanghai", 19)])
def test_bt_02_again_over_six_weeks_shows_one_clock_time_whatever_the_servers_zone(
    server_zone: str, zone: str, hour: int
) -> None:
    """Tuesdays 19:00 to 21:00, three before and three after London's last Sunday of October."""
    lab(zone=zone, roles={"phd": {"weekly_hours": 100}})
    lin, gpus, local = member(zone="America/New_York"), cards(1), ZoneInfo(zone)
    first = datetime(2026, 10, 6, hour)  # noqa: DTZ001  (what the lab's clock shows)
    made = book(
        lin, gpus, typed_instant(first, local), typed_instant(first + timedelta(hours=2), local),
        typed_instant(first, local) - timedelta(days=5),
    )
    shown = [made]
    for number in range(5):
        made = booking.again(made.pk, by=lin, now=made.booked_at + WEEK, key=f"again-{number}-{made.pk}")
        shown.append(made)
    assert [row.start.astimezone(local).replace(tzinfo=None) for row in shown] == [first + n * WEEK for n in range(6)]
    assert {row.end - row.start for row in shown} == {timedelta(hours=2)}
    offsets = {row.start.astimezone(local).utcoffset() for row in shown}
    assert len(offsets) == (2 if zone == "Europe/London" else 1)


@pytest.mark.parametrize(
    ("typed", "now", "codes"),
    [
        pytest.param((-4.5, -2), NOW, [Code.IN_PAST], id="wholly past"),
        pytest.param((-4.5, 2), NOW, [Code.IN_PAST], id="begun hours ago"),
        pytest.param((0, 2), NOW + timedelta(seconds=10), [], id="ten seconds old"),
        pytest.param((0, 2), NOW + 5 * MINUTE, [], id="exactly five minutes old"),
        pytest.param((0, 2), NOW + 5 * MINUTE + timedelta(seconds=1), [Code.IN_PAST], id="a second too old"),
    ],
)
def test_bt_06_a_form_up_to_five_minutes_old_means_now_and_costs_from_now(
    typed: tuple[float, float], now: datetime, codes: list[Code]
) -> None:
    lin = member()
    assert refused(lin, cards(1), at(typed[0]), at(typed[1]), now) == codes
    if not codes:
        assert Allocation.objects.get().start == now
        assert charged(lin) == (at(typed[1]) - now) / timedelta(hours=1)


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/Sao_Paulo", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC"])
@pytest.mark.parametrize("own", ["", "America/New_York"])
def test_bt_09_what_overlaps_is_refused_in_every_zone_of_lab_and_reader(client: Client, zone: str, own: str) -> None:
    lab(zone=zone)
    first, second = member(zone=own), member(zone=own)
    (gpu,) = cards(1)
    start = datetime(2026, 12, 2, 10, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    hour = timedelta(hours=1)
    assert refused(first, [gpu], start, start + 2 * hour) == []
    tries = {
        (-2, 0): [], (2, 4): [],  # touching
        (-1, 1): [Code.CARD_TAKEN], (1, 3): [Code.CARD_TAKEN], (0, 2): [Code.CARD_TAKEN], (0.5, 1.5): [Code.CARD_TAKEN],
    }
    for (begin, end), codes in tries.items():
        assert refused(second, [gpu], start + begin * hour, start + end * hour) == codes, (begin, end)
    client.force_login(second)
    with time_machine.travel(NOW, tick=False):
        response = client.post(
            "/book",
            {"card": gpu.pk, "start": "2026-12-02T11:00", "end": "2026-12-02T13:00", "tier": "regular", "purpose": "training",
             "key": "a" * 32},
        )
    assert response.status_code == 409


def what_concerns(who: Member) -> tuple[list[Any], int]:
    ledger = LedgerEntry.objects.filter(member=who).order_by("pk").values_list("pk", "units")
    return list(ledger), Notification.objects.filter(member=who).count()


def test_bt_14_what_is_booked_again_touches_no_other_occurrence() -> None:
    """There are no series: each week is a reservation of its own, and what somebody else had meanwhile stays theirs."""
    lin, wu, gpus = member("Lin"), member("Wu"), cards(1)
    first = reservation(lin, gpus, 24, 26)
    second = booking.again(first.pk, by=lin, now=at(2), key="second-week")
    changes.cancel(first.pk, by=lin, version=None, now=at(3))
    theirs = reservation(wu, gpus, 24, 26, now=at(4))
    booking.advance_one(theirs.pk, now=at(26))
    before = what_concerns(wu)
    third = booking.again(second.pk, by=lin, now=at(8 * 24), key="third-week")
    moving.move(second.pk, start=second.start + timedelta(hours=1), end=second.end, by=lin, version=None, now=at(100))
    changes.cancel(third.pk, by=lin, version=None, now=at(200))
    theirs.refresh_from_db()
    assert (theirs.status, theirs.start, theirs.end, theirs.ended_at) == ("finished", at(24), at(26), None)
    assert what_concerns(wu) == before
    assert {row.status for row in Reservation.objects.filter(holder=lin)} == {"cancelled", "booked"}


@pytest.mark.parametrize("whose", ["own", "another's"])
def test_bt_16_a_card_in_unbooked_use_may_be_booked_by_whoever_uses_it_and_by_others_by_name(whose: str) -> None:
    lin, wu, gpus = member("Lin"), member("Wu"), cards(2)
    record([Sighting(gpus[0].pk, CardState.State.UNBOOKED, NOW, owner_ids=(lin.pk,)),
            Sighting(gpus[1].pk, CardState.State.UNBOOKED, NOW, owner_ids=(lin.pk,))])
    who = lin if whose == "own" else wu
    assert refused(who, gpus[:1], None, at(4)) == []
    by_count = booking.BookingRequest((), None, at(4), count=1, pool_id=gpus[1].pool_id)
    with pytest.raises(Refused) as caught:  # what is in use without a booking is never picked by the system (D2)
        booking.reserve(who, by_count, now=NOW)
    assert caught.value.codes == [Code.NOT_ENOUGH_CARDS]


def test_bt_16_others_see_in_words_that_the_card_is_in_unbooked_use(client: Client) -> None:
    lin, wu, (gpu,) = member("Lin"), member("Wu"), cards(1)
    record([Sighting(gpu.pk, CardState.State.UNBOOKED, NOW, owner_ids=(lin.pk,))])
    client.force_login(wu)
    with time_machine.travel(NOW, tick=False):
        page = client.get("/book").content.decode()
    assert "unbooked use" in page


# --- quota ----------------------------------------------------------------------------------------------------------


def test_qt_02_parts_of_one_request_are_counted_together_and_refused_together() -> None:
    lab(roles={"phd": {"weekly_hours": 10}})
    lin, four = member(), cards(4)
    assert refused(lin, four, at(24), at(28)) == [Code.QUOTA]  # 16 hours
    assert refused(lin, [], at(24), at(28), count=4, pool_id=four[0].pool_id) == [Code.QUOTA]
    assert charged(lin) == Reservation.objects.count() == 0
    assert refused(lin, four, at(24), at(26.5)) == []  # ten


def test_qt_02_the_same_two_hours_every_day_stop_at_the_allowance() -> None:
    lab(roles={"phd": {"weekly_hours": 10}}, open_future=100)
    lin, gpus = member(), cards(1)
    said = [refused(lin, gpus, at(2 + 24 * day), at(4 + 24 * day)) for day in range(7)]
    assert said == [[]] * 5 + [[Code.QUOTA]] * 2
    assert charged_by_week(lin) == {date(2026, 11, 30): 10}


def test_qt_07_no_path_leads_beyond_the_longest_length() -> None:
    lab(longest_s=48 * 3600, walk_in_longest_s=48 * 3600, roles={"phd": {"weekly_hours": 1000}})
    lin, gpus = member(), cards(3)
    assert refused(lin, gpus[:1], at(24), at(96)) == [Code.TOO_LONG]
    assert refused(lin, [], at(24), at(96), count=1, pool_id=gpus[0].pool_id) == [Code.TOO_LONG]
    assert set(refused(lin, gpus[:1], None, at(72))) == {Code.TOO_LONG, Code.WALK_IN_LONG}
    made = reservation(lin, gpus[:1], 24, 44)
    with pytest.raises(Refused) as caught:
        moving.move(made.pk, start=at(24), end=at(96), by=lin, version=None, now=NOW)
    assert caught.value.codes == [Code.TOO_LONG]
    reached = []
    for number in range(1, 11):  # ten extensions by half an hour each
        try:
            end = extension.extend(made.pk, at(44 + 3 * number), by=lin, version=None, now=at(25)).end
        except Refused as refusal:
            assert refusal.codes == [Code.TOO_LONG]
        else:
            reached.append((end - made.start) / timedelta(hours=1))
    assert max(reached) == 47 and len(reached) == 9
    made = Reservation.objects.get(pk=made.pk)
    assert extension.longest_end(made, now=at(25)) == at(72)
    lab(longest_s=24 * 3600, roles={"phd": {"weekly_hours": 1000}})
    with pytest.raises(Refused) as caught:  # what was allowed when it was booked is not booked again
        booking.again(made.pk, by=lin, now=at(25), key="again-too-long")
    assert Code.TOO_LONG in caught.value.codes


def test_qt_07_every_number_of_the_policy_is_used_and_an_unknown_one_is_refused() -> None:
    sources = [
        path.read_text(encoding="utf-8")
        for app in ("reservations", "monitoring", "labgpu") for path in (ROOT / app).rglob("*.py")
        if path.name != "policy.py" or path.parent.name != "rules"
    ]
    through = {"opens_at": "opens_time", "freezes_at": "freezing", "closes_at": "closing", "longest_s": "longest"}
    of_roles = {"cards_at_once": "most_cards", "open_future": "most_ahead", "roles": "role"}
    names = [one.name for one in fields(Policy)]
    unused = [
        name for name in names
        if not any(re.search(rf"\.({name}|{(through | of_roles).get(name, name)})\b", text) for text in sources)
    ]
    assert not unused, f"numbers that the policy has and nothing reads: {unused}"
    with pytest.raises(BadPolicy, match="most_hours"):
        Policy.from_json({"most_hours": 48})


def test_qt_09_two_hours_cost_the_same_by_whichever_path_they_were_had(client: Client) -> None:
    people = [member() for _ in range(6)]
    form, count, longer, moved, repeated, undone = people
    client.force_login(form)
    with time_machine.travel(NOW, tick=False):
        client.post(
            "/book",
            {"card": cards(1)[0].pk, "start": "2026-12-02T10:00", "end": "2026-12-02T12:00", "tier": "regular",
             "purpose": "training", "key": "a" * 32},
        )
    gpus = cards(6)
    book(count, [], at(24), at(26), count=1, pool_id=gpus[0].pool_id)
    made = reservation(longer, gpus[1:2], 24, 25)
    extension.extend(made.pk, at(26), by=longer, version=None, now=NOW)
    made = reservation(moved, gpus[2:3], 24, 30)
    moving.move(made.pk, card_ids=[gpus[3].pk], start=at(40), end=at(42), by=moved, version=None, now=NOW)
    made = reservation(repeated, gpus[4:5], 24, 26)
    booking.again(made.pk, by=repeated, now=at(1), key="the-next-week")
    changes.cancel(made.pk, by=repeated, version=None, now=at(1))
    made = reservation(undone, gpus[5:6], None, 2)
    changes.release(made.pk, by=undone, version=None, now=at(1))
    changes.undo_release(made.pk, by=undone, version=None, now=at(1) + MINUTE)
    assert [charged(who) for who in people] == [2] * 6
    facts = queries.lab_facts()
    for who in people:
        weeks = [balance.used for balance in queries.balances(who, facts, NOW)]
        assert sum(weeks) == sum(row.units for row in LedgerEntry.objects.filter(member=who))


# --- which case is shown where ----------------------------------------------------------------------------------------

CASES = {"bt": (1, 2, 4, 6, 7, 9, 11, 12, 14, 15, 16), "qt": (1, 2, 5, 6, 7, 9, 11)}


def test_every_case_of_booking_and_quota_is_borne_by_a_test() -> None:
    names: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for name in re.findall(r"^ *def test_(\w+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            names |= set(re.findall(r"[bq]t_\d\d", name))
    wanted = {f"{kind}_{number:02}" for kind, numbers in CASES.items() for number in numbers}
    assert not wanted - names, sorted(wanted - names)
