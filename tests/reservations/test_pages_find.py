"""Finding a slot: what is found and how it is booked, why nothing is, and where to wait."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from reservations.models import CardState, Gpu, Member, Reservation
from tests.factories import NOW, at, cards, host, lab, member, project, reservation

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def reader(client: Client) -> Member:
    lab()
    reader = member("Wei")
    client.force_login(reader)
    return reader


@pytest.fixture
def gpus() -> list[Gpu]:
    found = cards(2, host("gpu-a"))
    for gpu in found:
        CardState.objects.create(gpu=gpu, state=CardState.State.FREE, since=NOW, sampled_at=NOW)
    return found


def text(response: Any) -> str:
    return response.content.decode()


def found(page: str) -> list[str]:
    """The slots of the page, each as its words."""
    return [" ".join(re.sub(r"<[^>]+>", " ", one).split()) for one in re.findall(r'(?s)<li class="slot">.*?</li>', page)]


def forms_in(page: str) -> list[dict[str, Any]]:
    """What each form that books a found slot would send."""
    sent = []
    for one in re.findall(r'(?s)<li class="slot">.*?</form>', page):
        values: dict[str, Any] = {}
        for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', one):
            values.setdefault(name, []).append(value)
        values.pop("csrfmiddlewaretoken", None)
        sent.append(values)
    return sent


def test_the_earliest_come_first_with_cards_charge_and_what_is_left(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    reservation(member("Ada"), gpus, 3, 5)
    slots = found(text(client.get("/find", {"count": "2", "hours": "3"})))
    assert len(slots) == 8
    assert slots[0].startswith("Mon 30 Nov 14:00 – 17:00 Now gpu-a:0, gpu-a:1 3 h 6 GPU-hours")
    assert "Week of Mon 30 Nov: 0 → 6 of 100 GPU-hours · 94 left" in slots[0]
    assert [slot[:24] for slot in slots[1:3]] == ["Mon 30 Nov 19:00 – 22:00", "Mon 30 Nov 22:00 – Tue 1"]


def test_one_press_books_what_is_shown_and_a_walk_in_begins_when_it_is_pressed(
    client: Client, reader: Member, gpus: list[Gpu]
) -> None:
    page = text(client.get("/find", {"count": "2", "hours": "3"}))
    now, later = forms_in(page)[:2]
    assert now["start"] == [""] and later["start"] == [at(3).isoformat()]
    with time_machine.travel(at(0.05), tick=False):
        assert client.post("/book", now).status_code == 303
    made = Reservation.objects.get()
    assert (made.start, made.end, made.allocations.count()) == (at(0.05), at(3), 2)
    assert client.post("/book", later).status_code == 303
    assert list(Reservation.objects.values_list("start", "end").order_by("start"))[1] == (at(3), at(6))


def test_it_ends_by_the_asked_time_and_begins_not_before_it(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    slots = found(text(client.get("/find", {
        "count": "1", "hours": "4", "start": "2026-12-01T10:00", "end": "2026-12-01T18:00",
    })))
    assert [slot[:23] for slot in slots] == ["Tue 1 Dec 10:00 – 14:00", "Tue 1 Dec 14:00 – 18:00"]


def test_it_opens_with_what_the_reader_booked_last_and_has_looked_already(
    client: Client, reader: Member, gpus: list[Gpu]
) -> None:
    reservation(reader, gpus, 24, 28, purpose="inference")
    page = text(client.get("/find"))
    assert 'name="count" value="2" checked' in page and 'value="4" formnovalidate aria-pressed="true"' in page
    assert '<option value="inference" selected>' in page and len(found(page)) == 8


def test_a_length_button_stands_above_what_was_typed(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    page = text(client.get("/find", {"count": "1", "hours": "3", "length": "8"}))
    assert found(page)[0].startswith("Mon 30 Nov 14:00 – 22:00")
    assert 'name="hours" min="0.25" max="1000" step="0.25" value="8"' in page


def test_pool_model_and_memory_narrow_what_is_found(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    (large,) = cards(1, host("gpu-b"), model="NVIDIA A100")
    Gpu.objects.filter(pk=large.pk).update(memory_total=80 << 30)
    CardState.objects.create(gpu=large, state=CardState.State.FREE, since=NOW, sampled_at=NOW)
    for asked in ({"min_memory": "40"}, {"model": large.model}, {"pool": str(large.pool_id)}):
        slots = found(text(client.get("/find", {"count": "1", "hours": "1", **asked})))
        assert slots and all("gpu-b:0" in slot for slot in slots), asked


def test_the_project_pays_where_the_lab_has_it_so(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    lab(mode="mixed")
    vision = project("Vision", reader, weekly_hours=50)
    asked = {"count": "1", "hours": "2", "start": "2026-12-01T10:00"}
    page = text(client.get("/find", {**asked, "project": vision.pk, "tier": "regular"}))
    assert "Charged to the hours of Vision." in page and "0 → 2 of 50 GPU-hours · 48 left" in found(page)[0]
    own = text(client.get("/find", {**asked, "project": "", "tier": "exploration"}))
    assert "Charged to your own hours." in own


def test_a_cheaper_later_one_says_so(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    lab(windows=[{"mode": "open", "rate": 200, "opens": "09:00", "shuts": "20:00"}])
    slots = found(text(client.get("/find", {"count": "1", "hours": "3"})))
    assert ["costs least" in slot for slot in slots[:4]] == [False, False, True, False] and "6 GPU-hours" in slots[0]
    assert slots[2].startswith("Mon 30 Nov 20:00") and "3 GPU-hours" in slots[2]


def test_what_is_beyond_the_hours_says_so(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    lab(roles={"phd": {"weekly_hours": 2}}, elastic=True)
    slots = found(text(client.get("/find", {"count": "2", "hours": "3"})))
    assert "Beyond your hours (elastic)" in slots[0] and "Week of" not in slots[0]


def test_nothing_found_says_why_in_the_words_of_the_refusal_with_its_rule_and_a_way_out(
    client: Client, reader: Member, gpus: list[Gpu]
) -> None:
    reservation(member("Ada"), gpus, None, 8)
    page = text(client.get("/find", {"count": "2", "hours": "3", "end": "2026-11-30T20:00"}))
    assert not found(page) and "Nothing is free for that" in page
    assert "rule G2" in page and "You can book instead:" in page
    use = re.findall(r'name="use" value="([^"]*)"', page)[0].replace("&amp;", "&")
    [form] = re.findall(r'(?s)<form class="find-why".*?</form>', page)
    sent = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form))
    assert client.post("/book", {**sent, "use": use}).status_code == 303
    assert Reservation.objects.filter(holder=reader).count() == 1


def test_one_that_would_displace_is_offered_as_such_when_nothing_is_free(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    lab(displacement=True)
    reservation(member("Ada"), gpus, 24, 40, tier="exploration")
    page = text(client.get("/find", {
        "count": "2", "hours": "16", "start": "2026-12-01T14:00", "end": "2026-12-02T06:00", "tier": "regular",
    }))
    assert not found(page) and "only if others make room" in page and "Ada" in page


def test_more_than_the_longest_is_refused_with_its_rule(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    page = text(client.get("/find", {"count": "1", "hours": "100"}))
    assert not found(page) and "rule A1" in page


@pytest.mark.parametrize("is_free", [True, False])
def test_waiting_takes_everything_along(client: Client, reader: Member, gpus: list[Gpu], is_free: bool) -> None:
    if not is_free:
        reservation(member("Ada"), gpus, None, 8)
    asked = {
        "count": "2", "hours": "3", "end": "2026-11-30T21:00", "model": gpus[0].model, "pool": str(gpus[0].pool_id),
        "min_memory": "20", "purpose": "test",
    }
    page = text(client.get("/find", asked))
    assert bool(found(page)) is is_free
    [address] = re.findall(r'<a class="button" href="(/waitlist[^"]*)"', page)
    given = parse_qs(urlsplit(address.replace("&amp;", "&")).query)
    assert (given["count"], given["min_memory"], given["hours"]) == (["2"], ["20"], ["3.00"])
    form = text(client.get(address.replace("&amp;", "&")))
    assert 'name="count" value="2"' in form and 'name="min_memory" value="20"' in form and 'value="2026-11-30T21:00"' in form
    assert f'<option value="{gpus[0].pool_id}" selected>' in form and '<option value="test" selected>' in form


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("count", "0", "greater than or equal to 1"), ("count", "two", "whole number"), ("hours", "", "required"),
        ("hours", "NaN", "number"), ("min_memory", "-1", "greater than or equal to 1"), ("model", "H100", "not one of"),
        ("pool", "99", "not one of"), ("start", "soon", "not a date and time"), ("end", "2026-11-30T15:00", "less time than 4 h"),
        ("end", "2026-11-01T15:00", "less time than 4 h"), ("tier", "royal", "not one of"), ("project", "7", "not one of"),
    ],
)
def test_what_cannot_be_looked_for_is_said_in_the_form(
    client: Client, reader: Member, gpus: list[Gpu], field: str, value: str, told: str
) -> None:
    response = client.get("/find", {"count": "1", "hours": "4", "tier": "regular", field: value})
    assert response.status_code == 422 and told in text(response) and not found(text(response))


def test_an_exact_time_is_shown_by_the_labs_clock(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    page = text(client.get("/find", {"count": "1", "hours": "1", "end": "2026-11-30T09:00+00:00"}))
    assert 'name="end" value="2026-11-30T17:00"' in page and len(found(page)) == 3
    assert 'name="hours" min="0.25" max="1000" step="0.25" value=""' in text(client.get("/find", {"hours": "x"}))


def test_a_time_that_comes_twice_is_asked_back(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    lab(zone="Europe/Berlin", opens_days=366)
    page = text(client.get("/find", {"count": "1", "hours": "1", "start": "2027-10-31T02:30"}))
    assert "rule A3" in page and page.count('name="use"') == 2
    use = re.findall(r'name="use" value="([^"]*)"', page)[1].replace("&amp;", "&")
    page = text(client.get("/find", {"count": "1", "hours": "1", "start": "2027-10-31T02:30", "use": use}))
    assert found(page)[0].startswith("Sun 31 Oct 02:30")


def test_it_is_in_the_menu_and_in_chinese(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    assert '<a href="/find" aria-current="page">Find</a>' in text(client.get("/find"))
    Member.objects.filter(pk=reader.pk).update(language="zh-hans")
    page = text(client.get("/find"))
    assert "查找空闲时段" in page and ">找时段</a>" in page and "Find a slot" not in page and "the earliest first" not in page


def test_the_same_number_of_queries_for_one_result_and_for_three(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    counts = []
    for end in ("2026-11-30T18:00", "2026-12-01T02:00"):
        client.get("/find", {"count": "1", "hours": "4", "end": end})
        with CaptureQueriesContext(connection) as asked:
            page = text(client.get("/find", {"count": "1", "hours": "4", "end": end}))
        counts.append((len(found(page)), len(asked)))
    assert [number for number, _ in counts] == [1, 3]
    assert counts[0][1] == counts[1][1]
