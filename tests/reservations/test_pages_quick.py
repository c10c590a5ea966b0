"""The quick bar and its preview: what a booking would be is said before it is pressed, and nothing is written by asking."""

import re
from datetime import timedelta

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from reservations.models import Demerit, Gpu, Reservation
from reservations.rules.lifecycle import Status
from tests.factories import NOW, at, cards, host, lab, member, project, reservation

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def reader(client):
    lab()
    someone = member()
    client.force_login(someone)
    return someone


def asked(**changed):
    """The bar as it submits itself: one card for tomorrow night (Asia/Shanghai)."""
    return {
        "count": "1", "model": "", "when": "2026-12-01T22:00", "start": "", "hours": "8", "end": "", "tier": "regular",
        "purpose": "training", "key": "a" * 32, **changed,
    }


def text(response):
    return " ".join(re.sub(r"<[^>]+>", " ", response.content.decode()).split())


def preview(client, **changed):
    return client.get("/book/preview", asked(**changed))


def test_a_preview_says_cards_period_charge_and_the_quota_before_and_after(client, reader):
    cards(2, host("gpu-a"))
    reservation(reader, list(Gpu.objects.all()[:1]), None, 2)
    said = text(preview(client, count="2"))
    assert "2 cards" in said and "gpu-a:0" in said and "gpu-a:1" in said
    assert "Tue 1 Dec 22:00 – Wed 2 Dec 06:00" in said and "16 GPU-hours" in said
    assert "Week of Mon 30 Nov: 2 → 18 of 100 GPU-hours" in said


def test_a_preview_across_the_end_of_a_week_says_each_week(client, reader):
    cards(1)
    said = text(preview(client, when="2026-12-06T22:00"))
    assert "Week of Mon 30 Nov: 0 → 2 of 100" in said and "Week of Mon 7 Dec: 0 → 6 of 100" in said


def test_asking_writes_nothing(client, reader):
    cards(2)
    with CaptureQueriesContext(connection) as asked_:
        preview(client, count="2")
        client.get("/book/bar", {"say": "2 8h tomorrow 22:00"})
    assert Reservation.objects.count() == 0
    assert not [one for one in asked_ if not one["sql"].lstrip('( ').upper().startswith(("SELECT", "SAVEPOINT", "RELEASE"))]


def test_a_taken_time_is_refused_with_others_as_buttons_and_the_waitlist(client, reader):
    gpus = cards(1, host("gpu-a"))
    reservation(member("Ada"), gpus, 32, 40)
    page = preview(client, count="", card=str(gpus[0].pk)).content.decode()
    assert "This cannot be booked as it stands" in page and "gpu-a:0 is held by Ada" in page
    ways = re.findall(r'name="use" value="([^"]+)"', page)
    assert 1 <= len(ways) <= 3 and "/waitlist?" in page


def test_each_way_out_of_a_preview_is_booked_by_its_press(client, reader):
    gpus = cards(2)
    reservation(member("Ada"), gpus[:1], 32, 40)
    page = preview(client, count="", card=str(gpus[0].pk)).content.decode()
    for place, way in enumerate(re.findall(r'name="use" value="([^"]+)"', page)):
        sent = asked(count="", card=str(gpus[0].pk), use=way.replace("&amp;", "&"), key=f"{place}" * 32)
        assert client.post("/book", sent).status_code == 303
        made = Reservation.objects.order_by("-pk").first()
        Reservation.objects.filter(pk=made.pk).update(status=Status.CANCELLED)
        made.allocations.update(status=Status.CANCELLED)


def test_whom_it_would_displace_is_said_with_slots_for_which_nobody_makes_room(client):
    lab(displacement=True)
    ada, grace = member("Ada"), member("Grace")
    [gpu] = cards(1)
    weak = reservation(ada, [gpu], 80, 88, tier="exploration")
    client.force_login(grace)
    page = client.get("/book/preview", asked(count="", card=str(gpu.pk), when="", start=weak.start.isoformat()))
    said = text(page)
    assert "One reservation would make room for it" in said and "Ada" in said
    assert "Without displacing anybody" in said
    assert Reservation.objects.get(pk=weak.pk).status == Status.BOOKED


def test_demerits_that_lower_the_rank_are_said(client, reader):
    gpus = cards(1)
    done = reservation(reader, gpus, None, 1, now=NOW - timedelta(days=1))
    Demerit.objects.create(
        member=reader, reason="overrun", points=1, fact="test", reservation=done, evidence={}, issued_at=NOW,
        expires_at=NOW + timedelta(days=30),
    )
    assert "Because of your demerits it counts 1 tier lower: as exploration." in text(preview(client))


@pytest.mark.parametrize("name", ["count", "model", "when", "start", "hours", "end", "tier", "purpose", "project", "card"])
@pytest.mark.parametrize(
    "value",
    ["", "   ", "NaN", "-1", "0", "1" + "0" * 30, "9999-12-31T23:59", "0001-01-01T00:00", "x" * 5000, "<b>", "a\x00b", "٣"],
)
def test_nonsense_in_the_bar_is_answered_by_a_sentence(client, reader, name, value):
    cards(1)
    for address in ("/book/preview", "/book/bar"):
        response = client.get(address, asked(**{name: value}))
        assert response.status_code == 200
        assert len(text(response)) > 20
    assert Reservation.objects.count() == 0


def test_a_text_fills_the_bar_in_and_says_what_it_would_be(client, reader):
    cards(2)
    page = client.get("/book/bar", {"say": "2 8h tomorrow 22:00"}).content.decode()
    assert 'name="start" value="2026-12-01T22:00"' in page
    assert re.search(r'name="count" value="2" checked', page) and re.search(r'name="hours" value="8" checked', page)
    assert "16 GPU-hours" in page


def test_an_unclear_text_is_asked_about_and_fills_nothing_in(client, reader):
    cards(2)
    page = client.get("/book/bar", {"say": "2 8 tomorrow"}).content.decode()
    assert "cards, hours, or an hour of the day?" in page and "GPU-hours" not in page


def test_the_bar_remembers_how_its_reader_books(client, reader):
    vision = project("Vision", reader)
    reservation(reader, cards(3)[:2], 20, 24, tier="exploration", purpose="test", project_id=vision.pk)
    page = client.get("/").content.decode()
    assert re.search(r'name="count" value="2" checked', page) and re.search(r'name="hours" value="4" checked', page)
    assert re.search(r'name="tier" value="exploration" checked', page) and 'value="test" selected' in page
    assert f'value="{vision.pk}" selected' in page


def test_cards_and_a_time_from_the_calendar_fill_the_bar_in(client, reader):
    gpus = cards(2)
    page = client.get("/book/bar", {"card": [gpus[0].pk, gpus[1].pk], "start": at(32).isoformat(), "end": at(40).isoformat()})
    said = page.content.decode()
    assert said.count('name="card"') == 2 and 'name="start" value="2026-12-01T22:00"' in said and "16 GPU-hours" in said


def test_a_refusal_comes_back_in_the_bar_where_it_was_asked(client, reader):
    gpus = cards(1)
    reservation(member("Ada"), gpus, 32, 40)
    answer = client.post("/book", asked(bar="yes"), headers={"HX-Request": "true"})
    page = answer.content.decode()
    assert answer.status_code in (409, 422) and "<html" not in page and 'role="alert"' in page and 'name="use"' in page


def test_a_booking_from_the_bar_leads_to_the_schedule_where_it_is_seen(client, reader):
    cards(1)
    answer = client.post("/book", asked(bar="yes"), headers={"HX-Request": "true"})
    made = Reservation.objects.get()
    assert answer.status_code == 204 and f"new={made.pk}" in answer.headers["HX-Redirect"]
    assert made.end - made.start == timedelta(hours=8)


def test_a_time_chosen_by_hand_must_be_typed(client, reader):
    cards(1)
    assert "Choose when it starts." in text(preview(client, when="field", start=""))
    assert client.post("/book", asked(when="field", start="")).status_code == 422


@pytest.mark.parametrize("path", ["/book/preview", "/book/bar"])
def test_asking_costs_as_many_queries_for_three_cards_as_for_one(client, reader, path):
    counts = []
    for _ in range(2):
        cards(1 if not counts else 2)
        with CaptureQueriesContext(connection) as asked_:
            assert client.get(path, asked()).status_code == 200
        counts.append(len(asked_))
    assert counts[0] == counts[1]
