"""My page and the board."""

import re
from datetime import timedelta

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from reservations.models import Allocation, CardState, Demerit, Reservation
from reservations.services import changes, conduct
from tests.factories import NOW, at, cards, host, lab, member, reservation

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def reader(client: Client):
    lab()
    reader = member("Wei")
    client.force_login(reader)
    return reader


def text(response) -> str:
    return response.content.decode()


def overrun(one: Reservation, fact: str = "overrun:1") -> Demerit:
    made = conduct.issue_overrun(fact=fact, reservation=one, evidence={"card": "gpu-a:0"}, now=NOW)
    assert made is not None
    return made


def section(page: str, name: str) -> str:
    return page.split(f'aria-labelledby="{name}-title"', 1)[1].split("</section>", 1)[0]


def test_now_coming_and_past_each_have_their_place(client, reader):
    gpus = cards(3, host("gpu-a"))
    reservation(reader, gpus[:1], None, 4)
    reservation(reader, gpus[1:2], 5, 8)
    gone = reservation(reader, gpus[2:], 1, 2)
    changes.cancel(gone.pk, by=reader, version=None, now=NOW)
    page = text(client.get("/mine"))
    assert "gpu-a: 0" in section(page, "active") and "/release" in section(page, "active")
    assert "gpu-a: 1" in section(page, "coming") and "/cancel" in section(page, "coming")
    assert "gpu-a: 2" in section(page, "past") and "cancelled" in section(page, "past")


def test_what_began_by_the_clock_counts_as_now_before_the_sweep_has_been(client, reader):
    reservation(reader, cards(1), 1, 4)
    with time_machine.travel(at(2), tick=False):
        page = text(client.get("/mine"))
    assert "/release" in section(page, "active") and "/cancel" not in page


def test_the_longest_extension_stands_on_its_button(client, reader):
    gpus = cards(1)
    reservation(reader, gpus, None, 4)
    reservation(member("Ada"), gpus, 9, 10)
    assert "Longest possible: until Mon 30 Nov 23:00" in text(client.get("/mine"))


def test_what_has_just_ended_can_still_be_extended_for_its_grace(client, reader):
    one = reservation(reader, cards(1), None, 4)
    with time_machine.travel(at(4) + timedelta(minutes=9), tick=False):
        now = section(text(client.get("/mine")), "active")
        assert "It has just ended." in now and f'action="/reservations/{one.pk}/extend"' in now and "/release" not in now
    with time_machine.travel(at(4) + timedelta(minutes=11), tick=False):
        page = text(client.get("/mine"))
        assert "It has just ended." not in page and "14:00 – 18:00" in section(page, "past")


def test_releasing_from_here_comes_back_here_with_undo(client, reader):
    one = reservation(reader, cards(1), None, 4)
    response = client.post(f"/reservations/{one.pk}/release", {"version": 1, "back": "mine"})
    assert (response.status_code, response["Location"]) == (303, "/mine")
    assert f'action="/reservations/{one.pk}/undo-release"' in section(text(client.get("/mine")), "active")


def test_quota_stands_in_numbers_beside_its_meter(client, reader):
    reservation(reader, cards(2), 1, 11)
    quota = section(text(client.get("/mine")), "quota")
    assert "20 of 100 GPU-hours" in quota and "80 left" in quota and 'value="20"' in quota
    assert "0 of 100 GPU-hours" in quota


def test_past_shows_booked_against_seen(client, reader):
    one = reservation(reader, cards(1), None, 4)
    Allocation.objects.filter(reservation=one).update(first_seen=NOW + timedelta(minutes=5), last_seen=at(3))
    changes.release(one.pk, by=reader, version=None, now=at(3))
    with time_machine.travel(at(5), tick=False):
        past = section(text(client.get("/mine")), "past")
    assert "14:00 – 18:00" in past and "seen Mon 30 Nov 14:05 – 17:00" in past and "released" in past


def test_the_record_says_what_when_how_much_and_until_when_it_counts(client, reader):
    demerit = overrun(reservation(reader, cards(1), None, 4))
    record = section(text(client.get("/mine")), "record")
    assert "overrun" in record and "1 point" in record and "counts until Wed 30 Dec 14:00" in record
    assert f'href="/demerits/{demerit.pk}/dispute"' in record


def test_a_disputed_demerit_leads_to_its_case_and_rests(client, reader):
    demerit = overrun(reservation(reader, cards(1), None, 4))
    case = conduct.dispute(demerit.pk, "It was not mine", by=reader, now=NOW)
    page = text(client.get("/mine"))
    record = section(page, "record")
    assert "disputed, resting" in record and "counts until" not in record and "/dispute" not in record
    assert f'href="/cases/{case.pk}/"' in record and f'href="/cases/{case.pk}/"' in section(page, "cases")


def test_after_its_time_a_demerit_neither_counts_nor_can_be_disputed(client, reader):
    overrun(reservation(reader, cards(1), None, 4))
    with time_machine.travel(NOW + timedelta(days=31), tick=False):
        client.force_login(reader)
        record = section(text(client.get("/mine")), "record")
    assert "no longer counts" in record and "/dispute" not in record


def test_the_record_says_what_points_do_now_and_what_takes_them_away(client, reader):
    lab(point_life_s=20 * 86_400, dispute_s=5 * 86_400)
    record = section(text(client.get("/mine")), "record")
    assert "A point counts for 20 days. You can dispute it for 5 days" in record and 'href="/house-rules#J2"' in record
    assert "tier lower" not in record and "clear again" not in record
    overrun(reservation(reader, cards(1), None, 4))
    record = section(text(client.get("/mine")), "record")
    assert "one tier lower" in record and "clear again on Sun 20 Dec 14:00" in record
    for number in (2, 3):
        overrun(reservation(reader, cards(1), 24, 25), f"overrun:{number}")
    assert "two tiers lower, and you may displace nobody" in section(text(client.get("/mine")), "record")


def test_what_is_coming_is_moved_from_here(client, reader):
    one = reservation(reader, cards(1), 5, 8)
    page = section(text(client.get("/mine")), "coming")
    assert 'name="start" value="2026-11-30T19:00"' in page and 'name="end" value="2026-11-30T22:00"' in page
    [key] = re.findall(r'name="key" value="(\w+)"', page)
    sent = {"version": 1, "key": key, "back": "mine", "start": "2026-12-01T09:00", "end": "2026-12-01T11:00"}
    response = client.post(f"/reservations/{one.pk}/move", sent)
    assert (response.status_code, response["Location"]) == (303, "/mine")
    one.refresh_from_db()
    assert (one.start, one.end) == (at(19), at(21))


@pytest.mark.parametrize(("start", "part"), [(None, "active"), (5, "coming")])
def test_of_several_cards_one_is_given_back_by_one_press_and_of_one_none(client, reader, start, part):
    gpus = cards(3, host("gpu-a"))
    one = reservation(reader, gpus[:2], start, 8)
    reservation(reader, gpus[2:], start, 8)
    page = section(text(client.get("/mine")), part)
    assert page.count("/give-back") == 1 and f'name="card" value="{gpus[0].pk}"' in page
    response = client.post(f"/reservations/{one.pk}/give-back", {"version": 1, "back": "mine", "card": gpus[0].pk})
    assert (response.status_code, response["Location"]) == (303, "/mine")
    page = section(text(client.get("/mine")), part)
    assert "gpu-a: 1" in page and "/give-back" not in page


def test_what_is_past_is_booked_again_while_next_weeks_time_is_ahead(client, reader):
    one = reservation(reader, cards(1, host("gpu-a")), None, 4)
    changes.release(one.pk, by=reader, version=None, now=at(2))
    with time_machine.travel(at(3), tick=False):
        past = section(text(client.get("/mine")), "past")
        [key] = re.findall(r'name="key" value="(\w+)"', past)
        assert client.post(f"/reservations/{one.pk}/again", {"key": key}).status_code == 303
    assert [row.start for row in Reservation.objects.order_by("pk")] == [NOW, at(7 * 24)]
    with time_machine.travel(at(7 * 24 + 1), tick=False):
        client.force_login(reader)
        assert "/again" not in section(text(client.get("/mine")), "past")


def test_nobody_sees_the_reservations_and_record_of_another(client, reader):
    other = member("Ada")
    one = reservation(other, cards(1), None, 4, note="secret plan")
    overrun(one)
    theirs = Client()
    theirs.force_login(other)
    assert "overrun" in text(theirs.get("/mine"))  # there is something to leak
    page = text(client.get("/mine"))
    assert "overrun" not in page and f"/reservations/{one.pk}/" not in page


def test_an_empty_page_says_what_comes_next(client, reader):
    page = text(client.get("/mine"))
    for sentence in ("You hold no card now.", "Nothing is booked ahead.", "No demerits."):
        assert sentence in page


def test_queries_of_my_page_do_not_grow_with_what_is_ahead_behind_and_recorded(client, reader):
    counts = []
    for number in (1, 2):
        for _ in range(number):
            (gpu,) = cards(1)
            reservation(reader, [gpu], 1, 2)
            gone = reservation(reader, [gpu], 3, 4)
            changes.cancel(gone.pk, by=reader, version=None, now=NOW)
            demerit = overrun(gone, f"overrun:{gone.pk}")
            conduct.dispute(demerit.pk, "no", by=reader, now=NOW)
        with CaptureQueriesContext(connection) as queries:
            client.get("/mine")
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 24


def test_the_way_to_ones_password_and_devices_is_on_the_page(client, reader):
    page = text(client.get("/mine"))
    assert page.count('href="/accounts/password/change/"') == 2 and 'href="/accounts/sessions/"' in page


# --- the board ------------------------------------------------------------------------------------------------------
def test_the_board_says_state_holder_until_and_figures(client, reader):
    (gpu,) = cards(1, host("gpu-a"))
    ada = member("Ada")
    reservation(ada, [gpu], None, 4)
    CardState.objects.create(
        gpu=gpu, state="in_use", since=at(-1), sampled_at=NOW, utilization=87, memory_used=12 << 30, temperature=64,
        owner_ids=[ada.pk],
    )
    page = text(client.get("/board"))
    for piece in ("in use", "Ada", "Mon 30 Nov 13:00", "held until Mon 18:00", "87 %", "12.0 / 24 GiB", "64 °C", "fresh"):
        assert piece in page
    assert "seen:" not in page


def test_the_board_names_whose_processes_run_where_another_holds(client, reader):
    (gpu,) = cards(1)
    reservation(member("Ada"), [gpu], None, 4)
    CardState.objects.create(gpu=gpu, state="contested", since=NOW, sampled_at=NOW, owner_ids=[reader.pk])
    assert "Ada; seen: Wei" in text(client.get("/board"))


def test_figures_of_old_sight_are_not_shown_but_their_age_is(client, reader):
    (gpu,) = cards(1)
    CardState.objects.create(gpu=gpu, state="in_use", since=at(-9), sampled_at=at(-8), utilization=87, temperature=64)
    page = text(client.get("/board"))
    assert "8 hours ago" in page and "unknown" in page and "87 %" not in page and "64 °C" not in page


def test_what_could_not_be_read_is_a_dash_never_a_zero(client, reader):
    (gpu,) = cards(1)
    CardState.objects.create(gpu=gpu, state="in_use", since=NOW, sampled_at=NOW)
    page = text(client.get("/board"))
    assert "0 %" not in page and "0 °C" not in page and page.count(">–</td>") >= 3


def test_the_board_is_answered_304_while_nothing_changes(client, reader):
    cards(1)
    first = client.get("/board/table")
    assert client.get("/board/table", headers={"If-None-Match": first["ETag"]}).status_code == 304


@pytest.mark.parametrize("path", ["/board", "/board/table"])
def test_queries_of_the_board_do_not_grow_with_cards(client, reader, path):
    counts = []
    for number in (1, 2):
        for gpu in cards(number, host()):
            ada = member()
            reservation(ada, [gpu], None, 4)
            CardState.objects.create(gpu=gpu, state="in_use", since=NOW, sampled_at=NOW, owner_ids=[ada.pk])
        with CaptureQueriesContext(connection) as queries:
            client.get(path)
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 7


@pytest.mark.parametrize("path", ["/mine", "/board", "/board/table", "/book"])
def test_signed_out_nothing_is_shown(client, path):
    lab()
    assert client.get(path)["Location"] == f"/accounts/login/?next=%2F{path[1:].replace('/', '%2F')}"


@pytest.mark.parametrize("path", ["/", "/book", "/mine", "/board"])
def test_each_page_has_its_language_title_one_heading_and_a_skip_link(client, reader, path):
    cards(1)
    for code, lang in (("en", "en"), ("zh-hans", "zh-hans")):
        reader.language = code
        reader.save()
        page = text(client.get(path))
        assert f'<html lang="{lang}">' in page
        assert page.count("<h1") == 1 and page.count("<main") == 1 and 'class="skip" href="#main"' in page
        assert " style=" not in page and " onclick=" not in page


def test_titles_differ(client, reader):
    titles = {text(client.get(path)).split("<title>")[1].split("</title>")[0] for path in ("/", "/book", "/mine", "/board")}
    assert len(titles) == 4
