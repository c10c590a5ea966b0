"""Looking for slots on the ledger: what is found is really booked, by reads alone, in as many queries for any lab."""

import re
from datetime import timedelta
from urllib.parse import parse_qs

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from reservations import queries
from reservations.models import Allocation, Gpu, Host, LedgerEntry, Reservation
from reservations.rules.booking import decide
from reservations.rules.instead import How
from reservations.services import booking, slots
from reservations.services.slots import Wanted
from tests.factories import NOW, at, cards, host, lab, member, request, reservation

pytestmark = pytest.mark.django_db
H = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOW, tick=False):
        yield


def when(found):
    return [((one.plan.held.start - NOW) / H, (one.plan.held.end - NOW) / H) for one in found]


def book(who, one):
    plan = one.plan
    return booking.reserve(who, booking.BookingRequest(plan.card_ids, one.start, plan.held.end), now=NOW)


def crowd(gpus, until):
    """Holds every card in turns of five hours."""
    for gpu in gpus:
        for hour in range(0, until, 5):
            reservation(member(), [gpu], hour or None, hour + 4.75)


def test_a_slot_is_found_behind_what_is_held_and_books_at_its_price():
    lab(balanced=True)
    wei = member("Wei")
    two = cards(2, host("gpu-a"))
    reservation(member(), two[:1], None, 5)
    reservation(member(), two[1:], 2, 8)
    (slot,) = slots.find(wei, Wanted(3 * H, count=2), None, NOW, several=1)
    assert (when([slot]), slot.labels) == ([(8, 11)], ("gpu-a:0", "gpu-a:1"))
    made = book(wei, slot)
    assert sum(LedgerEntry.objects.filter(reservation=made).values_list("units", flat=True)) == slot.units


def test_of_one_pool_slots_lie_apart_and_end_by_the_asked_time():
    lab()
    wei, gpus = member("Wei"), cards(2)
    Host.objects.update(has_reader=False)
    reservation(member(), gpus, 4, 6)
    assert when(slots.find(wei, Wanted(2 * H, count=1), at(10), NOW)) == [(0, 2), (2, 4), (6, 8), (8, 10)]
    assert when(slots.find(wei, Wanted(2 * H, count=1, after=at(5)), at(10), NOW)) == [(6, 8), (8, 10)]
    assert when(slots.find(wei, Wanted(2 * H, card_ids=(gpus[0].pk,), after=at(3)), at(10), NOW)) == [(6, 8), (8, 10)]
    assert slots.find(wei, Wanted(2 * H, card_ids=(gpus[0].pk, 10**6)), at(10), NOW) == []
    assert slots.find(wei, Wanted(2 * H), at(10), NOW) == []
    assert slots.find(wei, Wanted(2 * H, count=1), at(-1), NOW) == []


def test_the_last_open_day_is_found_and_no_later_one():
    lab()
    wei, gpus = member("Wei"), cards(1)
    for start in range(0, 24 * 14, 48):
        reservation(member(), gpus, start or None, start + 48)
    assert when(slots.find(wei, Wanted(3 * H, count=1), None, NOW, several=9)) == [(336, 339), (339, 342), (342, 345)]


def test_b1_what_the_member_holds_elsewhere_and_the_hours_of_all_weeks_count():
    lab(roles={"phd": {"weekly_hours": 10}}, cards_at_once=1)
    wei = member("Wei")
    here, there = cards(1, model="A"), cards(1, model="B")
    reservation(wei, there, 2, 5)
    assert when(slots.find(wei, Wanted(3 * H, count=1, model="A"), None, NOW, several=3)) == [(5, 8), (8, 11), (11, 14)]
    reservation(wei, here, 24, 31)
    assert when(slots.find(wei, Wanted(3 * H, count=1, model="A"), None, NOW, several=1)) == [(24 * 6 + 10, 24 * 6 + 13)]


@pytest.mark.parametrize("named", [True, False])
def test_the_wide_facts_decide_as_those_of_a_booking_do(named):
    lab(balanced=True)
    wei, gpus = member("Wei"), cards(4, host("gpu-a"))
    Gpu.objects.filter(pk=gpus[3].pk).update(service=Gpu.Service.OUT_OF_SERVICE)
    reservation(wei, gpus[:1], 20, 30)
    reservation(member(), gpus[1:3], 32, 40)
    for start, end in ((None, 3), (None, 21), (10, 22), (14, 20), (22, 33), (40, 80), (40, 130), (150, 152), (330, 340)):
        if named:
            chosen = [gpus[:1], gpus[:2], gpus[2:]]
            asks = [request(some, start, end).ask() for some in chosen]
        else:
            asks = [request([], start, end, count=n).ask() for n in (1, 2, 4)]
        for ask in asks:
            wide = slots.wide_facts(wei, ask, queries.lab_facts(), NOW)
            narrow = booking.facts_for(wei, ask, queries.lab_facts(), NOW)
            assert decide(ask, wide) == decide(ask, narrow)


def test_d5_three_alternatives_to_a_taken_card_and_each_can_be_booked():
    lab()
    gpus = cards(4, host("gpu-a"))
    reservation(member(), gpus[:1], 8, 20)
    reservation(member(), gpus[2:], 7, 24)
    asked = request(gpus[:2], 8, 14)
    people = [member() for _ in range(3)]
    found = slots.alternatives_for(people[0], asked, NOW)
    assert [(str(one.how), one.labels, *when([one])[0]) for one in found] == [
        ("other_time", ("gpu-a:0", "gpu-a:1"), 20, 26), ("fewer", ("gpu-a:1",), 8, 14),
        ("other_time", ("gpu-a:0", "gpu-a:1"), 26, 32),
    ]
    for one, who in zip(found, people, strict=True):
        book(who, one)


def test_g5_a_card_out_of_service_is_replaced_also_where_its_pool_has_no_other():
    lab()
    gpus = cards(2, host("gpu-a"))
    Gpu.objects.filter(pk=gpus[0].pk).update(service=Gpu.Service.OUT_OF_SERVICE)
    (first, *_) = slots.alternatives_for(member(), request(gpus[:1], 8, 10), NOW)
    assert (first.how, first.labels, when([first])) == (How.OTHER_TIME, ("gpu-a:1",), [(8, 10)])
    Gpu.objects.filter(pk=gpus[1].pk).update(service=Gpu.Service.OUT_OF_SERVICE)
    assert slots.alternatives_for(member(), request(gpus[:1], 8, 10), NOW) == []


def test_a_search_reads_only_and_in_as_many_queries_for_a_large_lab():
    lab()
    wei = member("Wei")

    def asked():
        with CaptureQueriesContext(connection) as counted:
            slots.find(wei, Wanted(6 * H, count=1), None, NOW)
            slots.find(wei, Wanted(6 * H, card_ids=tuple(Gpu.objects.values_list("pk", flat=True)[:2])), None, NOW)
            slots.alternatives_for(wei, request(list(Gpu.objects.all()[:2]), 8, 14), NOW)
        assert all(one["sql"].startswith("SELECT") for one in counted), [one["sql"][:60] for one in counted]
        return len(counted)

    crowd(cards(2), 20)
    few = asked()
    for model in ("B", "C"):
        crowd(cards(4, model=model), 60)
    reservation(wei, cards(1, model="D"), 100, 110)
    assert asked() == few
    assert Reservation.objects.filter(holder=wei).count() == 1


# --- on the booking page --------------------------------------------------------------------------------------------


@pytest.fixture
def reader(client: Client):
    lab()
    reader = member("Wei")
    client.force_login(reader)
    return reader


def sent(gpus, **changes):
    values = {
        "card": [gpu.pk for gpu in gpus], "start": "2026-11-30T22:00", "end": "2026-12-01T06:00", "tier": "regular",
        "purpose": "training", "note": "", "key": "a" * 32,
    }
    return values | changes


def buttons(response):
    page = response.content.decode().replace("&amp;", "&")
    return re.findall(r'name="use" value="([^"]*)">([^<]*)</button>', page)


def test_a_refused_booking_offers_other_slots_as_buttons_that_book_them(client, reader):
    gpus = cards(2, host("gpu-a"))
    reservation(member("Ada"), gpus[:1], 8, 10)
    response = client.post("/book", sent(gpus))
    assert response.status_code == 409
    assert [words for _, words in buttons(response)] == [
        "At another time: gpu-a:0, gpu-a:1, Tue 1 Dec 00:00 – 08:00, 16 GPU-hours",
        "One card fewer: gpu-a:1, Mon 30 Nov 22:00 – Tue 1 Dec 06:00, 8 GPU-hours",
        "At another time: gpu-a:0, gpu-a:1, Tue 1 Dec 08:00 – 16:00, 16 GPU-hours",
    ]
    assert "You can book instead:" in response.content.decode()
    for value, _ in buttons(response)[:1]:
        assert client.post("/book", sent(gpus, use=value)).status_code == 303
    made = Reservation.objects.get(holder=reader)
    assert (made.start, made.end) == (at(10), at(18))


def test_another_card_can_be_pressed_and_only_it_is_booked(client, reader):
    gpus = cards(2, host("gpu-a"))
    reservation(member("Ada"), gpus[:1], 8, 10)
    (value, words), *_ = buttons(client.post("/book", sent(gpus[:1])))
    assert words == "Other cards: gpu-a:1, Mon 30 Nov 22:00 – Tue 1 Dec 06:00, 8 GPU-hours"
    assert parse_qs(value)["cards"] == [str(gpus[1].pk)]
    assert client.post("/book", sent(gpus[:1], use=value)).status_code == 303
    assert list(Allocation.objects.filter(reservation__holder=reader).values_list("gpu", flat=True)) == [gpus[1].pk]


def test_what_was_pressed_and_is_taken_meanwhile_stands_in_the_form(client, reader):
    gpus = cards(3, host("gpu-a"))
    reservation(member("Ada"), gpus[:1], 8, 10)
    (value, _), *_ = buttons(client.post("/book", sent(gpus[:1])))
    reservation(member("Bo"), gpus[1:2], 8, 10)
    page = client.post("/book", sent(gpus[:1], use=value))
    assert page.status_code == 409
    assert f'value="{gpus[1].pk}" checked' in page.content.decode()
    assert f'value="{gpus[0].pk}" checked' not in page.content.decode()


def test_d2_a_slot_that_starts_now_says_that_it_is_free_of_charge(client, reader):
    lab(balanced=True)
    gpus = cards(2, host("gpu-a"))
    Host.objects.update(has_reader=False)
    reservation(member("Ada"), gpus[:1], None, 2)
    (value, words), *_ = buttons(client.post("/book", sent(gpus[:1], start="", end="2026-11-30T16:00")))
    assert words == "Other cards: gpu-a:1, Mon 30 Nov 14:00 – 16:00, free of charge"
    assert parse_qs(value, keep_blank_values=True)["start"] == [""]


def test_a_slot_that_another_button_offers_is_not_offered_twice(client, reader):
    lab(roles={"phd": {"weekly_hours": 4}})
    response = client.post("/book", sent(cards(1)))
    found = buttons(response)
    assert len({value.split("&cards")[0] for value, _ in found}) == len(found)
    assert sum("2026-11-30T18" in value for value, _ in found) == 1


@pytest.mark.parametrize(
    "changes", [{"tier": "deadline"}, {"card": []}, {"end": "2026-11-30T22:00"}, {"start": "2026-11-30T22:07"}]
)
def test_nothing_is_looked_for_where_neither_time_nor_cards_are_in_the_way(client, reader, changes, monkeypatch):
    monkeypatch.setattr(slots, "alternatives_for", lambda *_: pytest.fail("looked for"))
    assert client.post("/book", sent(cards(1), **changes)).status_code == 422


def test_the_buttons_speak_chinese(client, reader):
    reader.language = "zh-hans"
    reader.save(update_fields=["language"])
    gpus = cards(2, host("gpu-a"))
    reservation(member("Ada"), gpus[:1], 8, 10)
    words = [words for _, words in buttons(client.post("/book", sent(gpus), headers={"Accept-Language": "zh-CN"}))]
    assert words[0].startswith("换个时间：gpu-a:0、gpu-a:1，") and words[0].endswith("16 卡时")
    assert words[1].startswith("少用一张卡：gpu-a:1，")


@pytest.mark.parametrize("cards_", ["", "x", "1,,2", "9" * 400, ",".join(["1"] * 500)])
def test_nonsense_in_the_value_of_a_button_is_refused(client, reader, cards_):
    gpus = cards(1)
    response = client.post("/book", sent(gpus, use=f"start=&end=2026-11-30T18:00&cards={cards_}"))
    assert response.status_code in (303, 422)
    assert Reservation.objects.count() == (response.status_code == 303)
