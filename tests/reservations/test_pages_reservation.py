"""One reservation: what others see, what its holder may do, and that every press is refused in words or done once."""

import html
import re
from datetime import timedelta

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from reservations.models import AuditEntry, CardState, Reservation
from reservations.services import changes, extension, locking
from tests.factories import NOW, arbiter, at, cards, host, lab, member, reservation

pytestmark = pytest.mark.django_db
ACTIONS = ["release", "undo-release", "cancel", "extend", "move", "undo-booking"]


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


def press(client, one, action, **values):
    headers = values.pop("headers", None)
    return client.post(f"/reservations/{one.pk}/{action}", {"version": one.version, **values}, headers=headers)


def again(one):
    one.refresh_from_db()
    return one


# --- seeing ---------------------------------------------------------------------------------------------------------
def test_the_panel_says_who_what_when_and_what_happened(client, reader):
    one = reservation(member("Ada"), cards(2, host("gpu-a")), None, 4)
    page = text(client.get(f"/reservations/{one.pk}/"))
    for piece in ("Ada", "gpu-a: 0, 1", "Mon 30 Nov 14:00 – 18:00", "4 h", "regular", "training", "active", "booked · Ada"):
        assert piece in page
    assert page.count("<h1") == 1


def test_others_see_neither_note_nor_actions(client, reader):
    one = reservation(member("Ada"), cards(1), None, 4, note="secret plan")
    page = text(client.get(f"/reservations/{one.pk}/"))
    assert "secret plan" not in page and "/release" not in page and "/extend" not in page


def test_holder_and_arbiter_see_note_and_actions(client, reader):
    one = reservation(reader, cards(1), None, 4, note="secret plan")
    judge = Client()
    judge.force_login(arbiter())
    for seen in (client, judge):
        page = text(seen.get(f"/reservations/{one.pk}/"))
        assert "secret plan" in page and f'action="/reservations/{one.pk}/release"' in page


def test_htmx_gets_the_panel_alone_and_its_own_page_keeps_its_heading(client, reader):
    one = reservation(reader, cards(1), None, 4)
    beside = text(client.get(f"/reservations/{one.pk}/", headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/"}))
    assert beside.lstrip().startswith("<article") and "<h1" not in beside
    own = text(
        client.get(
            f"/reservations/{one.pk}/",
            headers={"HX-Request": "true", "HX-Current-URL": f"http://testserver/reservations/{one.pk}/"},
        )
    )
    assert "<h1" in own


@pytest.mark.parametrize("pk", ["0", "987654", "9" * 30])
def test_what_is_not_there_is_404(client, reader, pk):
    assert client.get(f"/reservations/{pk}/").status_code == 404


@pytest.mark.parametrize("action", ACTIONS)
def test_foreign_and_missing_look_alike(client, reader, action):
    foreign = reservation(member("Ada"), cards(1), None, 4)
    answers = [client.post(f"/reservations/{pk}/{action}", {"version": 1}) for pk in (foreign.pk, 987654, "9" * 30)]
    assert [answer.status_code for answer in answers] == [404, 404, 404]
    bodies = {text(answer).replace(str(foreign.pk), "").replace("987654", "").replace("9" * 30, "") for answer in answers}
    assert len({body.split("<main", 1)[1] for body in bodies}) == 1
    assert again(foreign).status == "active" and foreign.version == 1


@pytest.mark.parametrize("action", ACTIONS)
def test_looking_at_an_action_does_nothing(client, reader, action):
    one = reservation(reader, cards(1), None, 4)
    for method in (client.get, client.head):
        assert method(f"/reservations/{one.pk}/{action}").status_code == 405
    assert again(one).version == 1


# --- releasing ------------------------------------------------------------------------------------------------------
def test_release_then_undo(client, reader):
    one = reservation(reader, cards(1), None, 4)
    with time_machine.travel(at(1), tick=False):
        released = press(client, one, "release")
        assert (released.status_code, released["Location"]) == (303, f"/reservations/{one.pk}/")
        page = text(client.get(released["Location"]))
        assert again(one).status == "released"
        assert "Released. What was left is back in the quota." in page and "possible until Mon 30 Nov 15:10" in page
        assert press(client, one, "undo-release").status_code == 303
    assert again(one).status == "active"


def test_undo_is_offered_for_its_time_only(client, reader):
    one = reservation(reader, cards(1), None, 4)
    press(client, one, "release")
    with time_machine.travel(NOW + timedelta(minutes=10), tick=False):
        assert "undo-release" not in text(client.get(f"/reservations/{one.pk}/"))
        late = press(client, again(one), "undo-release")
    assert late.status_code == 422 and "The time to undo has passed" in text(late) and "rule H0" in text(late)


def test_with_own_processes_running_it_takes_a_second_press(client, reader):
    (gpu,) = cards(1)
    one = reservation(reader, [gpu], None, 4)
    CardState.objects.create(gpu=gpu, state="in_use", since=NOW, sampled_at=NOW, owner_ids=[reader.pk])
    first = press(client, one, "release")
    assert first.status_code == 422 and again(one).status == "active"
    assert "LabGPU ends no process" in text(first) and 'name="knowing" value="yes"' in text(first)
    assert press(client, one, "release", knowing="yes").status_code == 303
    assert again(one).status == "released"


def test_an_overtaken_form_is_409_and_the_page_shows_it_as_it_is(client, reader):
    one = reservation(reader, cards(1), None, 4)
    extension.extend(one.pk, at(6), by=reader, version=None, now=NOW)
    response = press(client, one, "release")
    assert response.status_code == 409 and "It was changed meanwhile" in text(response)
    assert 'name="version" value="2"' in text(response) and "20:00" in text(response)


@pytest.mark.parametrize("version", ["", "NaN", "-1", "1.0", "9" * 40, "😀", "<b>"])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_form_with_a_nonsense_version_changes_nothing(client, reader, action, version):
    one = reservation(reader, cards(1), None, 4)
    response = client.post(f"/reservations/{one.pk}/{action}", {"version": version, "end": at(6).isoformat()})
    assert response.status_code == 409
    assert (again(one).status, one.version, one.end) == ("active", 1, at(4))


def test_releasing_twice_is_as_once(client, reader):
    one = reservation(reader, cards(1), None, 4)
    assert [press(client, one, "release").status_code for _ in range(2)] == [303, 303]
    assert AuditEntry.objects.filter(verb="release").count() == 1


# --- cancelling -----------------------------------------------------------------------------------------------------
def test_what_has_not_started_is_cancelled(client, reader):
    one = reservation(reader, cards(1), 1, 4)
    assert "/cancel" in text(client.get(f"/reservations/{one.pk}/"))
    assert press(client, one, "cancel", back="mine")["Location"] == "/mine"
    assert again(one).status == "cancelled"


def test_what_has_started_by_the_clock_is_released_not_cancelled(client, reader):
    one = reservation(reader, cards(1), 1, 4)
    with time_machine.travel(at(2), tick=False):
        page = text(client.get(f"/reservations/{one.pk}/"))
        assert "/cancel" not in page and f'action="/reservations/{one.pk}/release"' in page
        assert press(client, one, "cancel").status_code == 422


# --- extending ------------------------------------------------------------------------------------------------------
def ends(page: str) -> list[str]:
    return [part.split('"', 1)[0] for part in page.split('name="end" value="')[1:]]


def test_extending_offers_an_hour_two_and_the_longest(client, reader):
    gpus = cards(1)
    one = reservation(reader, gpus, None, 4)
    reservation(member("Ada"), gpus, 9, 10)
    page = text(client.get(f"/reservations/{one.pk}/"))
    assert ends(page) == [at(5).isoformat(), at(6).isoformat(), at(9).isoformat()]
    assert "Longest possible: until Mon 30 Nov 23:00" in page


def test_extending_by_button_and_by_typed_time(client, reader):
    one = reservation(reader, cards(1), None, 4)
    press(client, one, "extend", end=at(5).isoformat(), key="a" * 32)
    assert again(one).end == at(5)
    press(client, one, "extend", until="2026-11-30T20:00", key="b" * 32)
    assert again(one).end == at(6)


def test_the_same_extension_pressed_twice_counts_once(client, reader):
    one = reservation(reader, cards(1), None, 4)
    for _ in range(2):
        assert press(client, one, "extend", end=at(5).isoformat(), key="a" * 32).status_code == 303
    assert (again(one).end, one.version) == (at(5), 2)


def test_too_far_an_extension_offers_the_longest_as_a_button(client, reader):
    gpus = cards(1)
    one = reservation(reader, gpus, None, 4)
    reservation(member("Ada"), gpus, 9, 10)
    response = press(client, one, "extend", end=at(12).isoformat())
    assert response.status_code == 409 and "is held by Ada" in text(response)
    way = text(response).split('name="use" value="')[1].split('"')[0].replace("&amp;", "&")
    assert press(client, one, "extend", use=way, key="c" * 32).status_code == 303
    assert again(one).end == at(9)


def test_what_cannot_be_extended_offers_nothing(client, reader):
    gpus = cards(1)
    one = reservation(reader, gpus, None, 4)
    reservation(member("Ada"), gpus, 4, 5)
    page = text(client.get(f"/reservations/{one.pk}/"))
    assert "/extend" not in page
    response = press(client, one, "extend", until="")
    assert response.status_code == 422 and "It cannot be extended" in text(response)


@pytest.mark.parametrize("field", ["end", "until"])
@pytest.mark.parametrize(
    "value", ["", "NaN", "-1", "9999-12-31T23:59", "0001-01-01T00:00", "😀", "x" * 10_000, "<script>", "\x00"]
)
def test_extending_to_nonsense_is_refused_with_a_sentence(client, reader, field, value):
    one = reservation(reader, cards(1), None, 4)
    response = press(client, one, "extend", **{field: value}, key="😀" * 3000)
    assert response.status_code == 422 and "Choose a later end" in text(response)
    assert (again(one).end, one.version) == (at(4), 1)


def test_busy_is_409_with_a_time_to_try_again(client, reader, monkeypatch):
    one = reservation(reader, cards(1), None, 4)

    def busy(*args, **kwargs):
        raise locking.Busy

    monkeypatch.setattr(changes, "release", busy)
    response = press(client, one, "release")
    assert (response.status_code, response["Retry-After"]) == (409, "2")
    assert "nothing was changed" in text(response)


# --- beside the schedule --------------------------------------------------------------------------------------------
def test_beside_the_schedule_an_action_redraws_the_panel_and_tells_the_grid(client, reader):
    one = reservation(reader, cards(1), None, 4)
    response = press(client, one, "release", headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/"})
    assert response.status_code == 200
    assert response["HX-Trigger"] == "reservation-changed"
    assert "undo-release" in text(response) and 'hx-swap-oob="beforeend"' in text(response)
    assert "Released. What was left" in text(response)


def test_a_refusal_beside_the_schedule_stays_in_the_panel(client, reader):
    one = reservation(reader, cards(1), None, 4)
    response = client.post(f"/reservations/{one.pk}/release", {"version": 7}, headers={"HX-Request": "true"})
    assert response.status_code == 409 and text(response).lstrip().startswith("<article")


def test_queries_do_not_grow_with_cards_and_history(client, reader):
    counts = []
    for number in (1, 3):
        one = reservation(reader, cards(number), None, 4)
        for step in range(number - 1):
            one = extension.extend(one.pk, at(5 + step), by=reader, version=None, now=NOW)
        seen = Client()
        seen.force_login(member())
        with CaptureQueriesContext(connection) as queries:
            seen.get(f"/reservations/{one.pk}/")
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 8


# --- moving, again, undoing -----------------------------------------------------------------------------------------
LOCAL = "%Y-%m-%dT%H:%M"
FORM = "f" * 32


def local(hours: float) -> str:
    return (at(hours) + timedelta(hours=8)).strftime(LOCAL)


def in_chinese(client):
    reader = member("魏", language="zh-hans")
    client.force_login(reader)
    return reader


def test_h6_what_has_not_started_is_moved_by_its_form(client, reader):
    one = reservation(reader, cards(1), 24, 26)
    page = text(client.get(f"/reservations/{one.pk}/"))
    assert f'action="/reservations/{one.pk}/move"' in page and f'name="start" value="{local(24)}"' in page
    moved = press(client, one, "move", start=local(26), end=local(29), key=FORM)
    assert (moved.status_code, moved["Location"]) == (303, f"/reservations/{one.pk}/")
    assert (again(one).start, one.end, one.version) == (at(26), at(29), 2)
    after = text(client.get(moved["Location"]))
    assert "Moved." in after
    assert "moved from Tue 1 Dec 14:00 – 16:00 to Tue 1 Dec 16:00 – 19:00 · Wei" in after


def test_h6_what_has_started_has_no_form_to_move_it(client, reader):
    one = reservation(reader, cards(1), None, 2)
    assert "/move" not in text(client.get(f"/reservations/{one.pk}/"))
    response = press(client, one, "move", start=local(26), end=local(29), key=FORM)
    assert response.status_code == 422 and "It is active" in text(response)


def test_h6_a_refused_move_keeps_what_was_typed_and_offers_the_way_out(client, reader):
    one = reservation(reader, cards(1), 24, 26)
    response = press(client, one, "move", start=local(30.1), end=local(31), key=FORM)
    assert response.status_code == 422 and "rule A1" in text(response) and f'value="{local(30.1)}"' in text(response)
    way = text(response).split('name="use" value="')[1].split('"')[0].replace("&amp;", "&")
    assert press(client, one, "move", start=local(30.1), end=local(31), use=way, key=FORM).status_code == 303
    assert (again(one).start, one.end) == (at(30), at(31))


@pytest.mark.parametrize("field", ["start", "end"])
@pytest.mark.parametrize("value", ["", "NaN", "9999-12-31T23:59", "😀", "<script>", "\x00"])
def test_h6_moving_to_nonsense_is_refused_with_a_sentence(client, reader, field, value):
    one = reservation(reader, cards(1), 24, 26)
    response = press(client, one, "move", **{"start": local(30), "end": local(31), "key": FORM, field: value})
    assert response.status_code == 422 and "This is not a date and time" in text(response)
    assert again(one).version == 1


@pytest.mark.parametrize(("action", "sent"), [("move", {"start": local(30), "end": local(31)}), ("again", {})])
def test_p3_a_form_without_its_key_does_nothing(client, reader, action, sent):
    one = reservation(reader, cards(1), 24, 26)
    response = press(client, one, action, **sent)
    assert response.status_code == 422 and "This form is damaged" in text(response)
    assert Reservation.objects.get().version == 1


def test_d8_again_is_one_press(client, reader):
    one = reservation(reader, cards(1), 24, 26)
    for _ in range(2):
        response = client.post(f"/reservations/{one.pk}/again", {"key": FORM})
        assert response.status_code == 303 and response["Location"].startswith("/?from=2026-12-08&new=")
    copy = Reservation.objects.exclude(pk=one.pk).get()
    assert (copy.start, copy.end) == (at(24 + 168), at(26 + 168))
    assert "Booked: 1 card, Tue 8 Dec 14:00 – 16:00." in text(client.get(response["Location"]))


def test_d8_a_refused_again_leads_on_to_the_booking_form(client, reader):
    gpus = cards(1)
    lab(windows=[], roles={"phd": {"weekly_hours": 4}})
    one = reservation(reader, gpus, 24, 28)
    reservation(reader, cards(1), 7 * 24, 7 * 24 + 2)
    response = client.post(f"/reservations/{one.pk}/again", {"key": FORM})
    page = text(response)
    assert response.status_code == 422 and "Quota" in page and 'action="/book"' in page
    way = page.split('name="use" value="')[1].split('"')[0].replace("&amp;", "&")
    sent = {"card": gpus[0].pk, "start": local(192), "end": local(196), "tier": "regular", "purpose": "training", "key": FORM}
    assert client.post("/book", sent | {"use": way}).status_code == 303
    assert Reservation.objects.get(start=at(192)).end == at(194)


def undo_form(page: str) -> str:
    return page.split('class="toast ')[1].split("</div>")[0]


def test_h0_the_toast_after_booking_undoes_it_while_it_lasts(client, reader):
    sent = {"card": cards(1)[0].pk, "start": local(24), "end": local(26), "tier": "regular", "purpose": "training", "key": FORM}
    shown = client.get(client.post("/book", sent)["Location"])
    one = Reservation.objects.get()
    toast = undo_form(text(shown))
    assert f'<form method="post" action="/reservations/{one.pk}/undo-booking"' in toast and 'data-lasts-ms="10000"' in toast
    assert "csrfmiddlewaretoken" in toast and ">Undo</button>" in toast
    done = press(client, one, "undo-booking")
    assert (done.status_code, done["Location"]) == (303, f"/reservations/{one.pk}/")
    page = text(client.get(done["Location"]))
    assert again(one).status == "cancelled"
    assert "Undone: all is as it was before." in page and "booking undone · Wei" in page and "undo-booking" not in page


def test_h0_the_toast_has_no_button_when_the_time_is_over(client, reader):
    sent = {"card": cards(1)[0].pk, "start": local(24), "end": local(26), "tier": "regular", "purpose": "training", "key": FORM}
    leads = client.post("/book", sent)["Location"]
    with time_machine.travel(NOW + timedelta(seconds=10), tick=False):
        assert "<form" not in undo_form(text(client.get(leads)))
        late = press(client, Reservation.objects.get(), "undo-booking")
    assert late.status_code == 422 and "The time to undo has passed" in text(late)


def test_h0_the_toast_after_a_move_undoes_it_also_beside_the_schedule(client, reader):
    one = reservation(reader, cards(1), 24, 26)
    beside = {"HX-Request": "true", "HX-Current-URL": "http://testserver/"}
    moved = press(client, one, "move", start=local(30), end=local(31), key=FORM, headers=beside)
    assert moved.status_code == 200 and f'action="/reservations/{one.pk}/undo-booking"' in undo_form(text(moved))
    assert press(client, again(one), "undo-booking").status_code == 303
    assert (again(one).start, one.end, one.version) == (at(24), at(26), 3)


def test_an_arbiter_moves_for_others_but_books_nothing_again_for_them(client, reader):
    one = reservation(member("Ada"), cards(1), 24, 26)
    judge = Client()
    judge.force_login(arbiter())
    page = text(judge.get(f"/reservations/{one.pk}/"))
    assert "/move" in page and "/again" not in page
    assert judge.post(f"/reservations/{one.pk}/again", {"key": FORM}).status_code == 404
    assert press(judge, one, "move", start=local(30), end=local(31), key=FORM).status_code == 303


def test_the_new_forms_speak_chinese(client):
    lab()
    reader = in_chinese(client)
    one = reservation(reader, cards(1), 24, 26)
    page = text(client.get(f"/reservations/{one.pk}/"))
    for words in ("改期", "改到这个时间", "下周同一时间"):
        assert words in page
    moved = press(client, one, "move", start=local(30), end=local(31), key=FORM)
    page = text(client.get(moved["Location"]))
    assert "已改期。" in page and ">撤销</button>" in page and "改到" in page
    done = press(client, again(one), "undo-booking")
    page = text(client.get(done["Location"]))
    assert "已撤销，一切恢复原状。" in page and "已撤销改期" in page


def test_d5_who_was_displaced_takes_one_of_three_other_times_with_one_press(client: Client, reader) -> None:
    lab(displacement=True)
    [card] = cards(1)
    old = reservation(reader, [card], 34, 42, tier="exploration", may_move=False)
    strong = member("Strong")
    reservation(strong, [card], 34, 42)
    page = text(client.get(f"/reservations/{old.pk}/"))
    assert "Strong" in page
    form = page.split('/instead"')[1].split("</form>")[0]
    offered = [html.unescape(one) for one in re.findall(r'name="use" value="([^"]+)"', form)]
    assert 1 <= len(offered) <= 3
    [key] = re.findall(r'name="key" value="([^"]+)"', form)
    client.post(f"/reservations/{old.pk}/instead", {"use": offered[0], "key": key})
    made = Reservation.objects.get(instead_of=old)
    assert (made.status, made.displaced_times, made.tier) == ("booked", 1, "exploration")
    # Once taken, nothing more is offered; and to a stranger nothing ever.
    assert "/instead" not in text(client.get(f"/reservations/{old.pk}/"))
    client.force_login(strong)
    assert "/instead" not in text(client.get(f"/reservations/{old.pk}/"))


def test_e4_c3_the_page_says_that_it_is_elastic_and_that_it_may_be_moved(client: Client, reader) -> None:
    lab(displacement=True, elastic=True, roles={"phd": {"weekly_hours": 1}})
    one = reservation(reader, cards(1), 34, 42, tier="exploration")
    page = text(client.get(f"/reservations/{one.pk}/"))
    assert "elastic" in page
    assert "May be moved" in page


def test_d5_the_booking_form_asks_what_to_do_if_it_must_make_room(client: Client, reader) -> None:
    lab(displacement=True)
    [card] = cards(1)
    for number, (answer, moves) in enumerate([("", False), ("yes", True), ("no", False)]):
        form = {
            "card": card.pk, "start": at(24 + 2 * number).isoformat(), "end": at(26 + 2 * number).isoformat(),
            "tier": "regular", "purpose": "test", "key": f"a-key-of-form-{number}", "may_move": answer,
        }
        assert client.post("/book", form).status_code == 303
        assert (Reservation.objects.latest("pk").may_move_until is not None) is moves
    form |= {"may_move": "perhaps", "key": "a-key-of-form-9"}
    assert client.post("/book", form).status_code == 422
