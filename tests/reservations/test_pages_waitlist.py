"""The pages of the waitlist: joining by a plain form or from a refused booking, leaving, taking and passing; what is mailed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client

from reservations import labels, links, messages, obsolete, queries
from reservations.models import AuditEntry, CardState, Gpu, Member, Notification, Reservation, WaitlistEntry
from reservations.services import offers, waitlist
from reservations.services.booking import BookingRequest
from reservations.services.waitlist import WishRequest
from tests.factories import NOW, arbiter, at, cards, host, lab, member, reservation

pytestmark = pytest.mark.django_db
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


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


def wished(**changes: Any) -> dict[str, Any]:
    """What the form sends: any one card for four hours until this evening unless changed."""
    values = {"count": "1", "hours": "4", "end": "2026-11-30T22:00", "tier": "regular", "purpose": "training", "mode": "book"}
    return values | changes


def offered(to: Member, hours: float = 4, **fields: Any) -> Reservation:
    wanted = BookingRequest((), None, at(8), count=1)
    entry = waitlist.join(to, WishRequest(wanted, hours * HOUR, at(8), mode="ask"), now=NOW)
    waitlist.serve(NOW)
    entry.refresh_from_db()
    assert entry.reservation is not None
    return entry.reservation


def test_a_plain_form_puts_a_wish_on_the_list_and_the_own_page_shows_it(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    response = client.post("/waitlist", wished(count="2", mode="ask", min_memory="20", model=gpus[0].model))
    assert (response.status_code, response.url) == (303, "/mine#waiting")
    entry = WaitlistEntry.objects.get()
    assert (entry.member, entry.count, entry.length_s, entry.latest, entry.mode) == (reader, 2, 4 * 3600, at(8), "ask")
    assert (entry.min_memory, entry.model, entry.card_ids) == (20 << 30, gpus[0].model, [])
    page = text(client.get("/mine"))
    assert "2 × RTX 4090, at least 20 GiB, 4 h" in page and "to end by Mon 30 Nov 22:00" in page and "ask me" in page


def test_the_form_pressed_twice_waits_once(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    for _ in range(2):
        assert client.post("/waitlist", wished()).status_code == 303
    assert WaitlistEntry.objects.count() == 1


def test_a_length_is_rounded_up_to_the_calendars_steps(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    client.post("/waitlist", wished(hours="1.1"))
    assert WaitlistEntry.objects.get().length_s == 75 * 60


def test_a_refused_booking_leads_to_the_wish_with_everything_kept(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    reservation(member("Li"), [gpus[0]], 2, 10)
    response = client.post("/book", {
        "card": [gpus[0].pk], "start": "2026-11-30T18:00", "end": "2026-11-30T20:30", "tier": "exploration",
        "purpose": "inference", "note": "", "key": "a" * 32,
    })
    assert response.status_code == 409
    address = text(response).split('class="button" href="/waitlist?', 1)[1].split('"', 1)[0].replace("&amp;", "&")
    page = text(client.get("/waitlist?" + address))
    assert f'value="{gpus[0].pk}" id="id_card_0" checked' in page or f'value="{gpus[0].pk}" checked' in page.replace(
        ' id="id_card_0"', ""
    )
    assert 'value="2026-11-30T18:00"' in page and 'value="2026-11-30T20:30"' in page
    assert 'value="2.5"' in page and '<option value="exploration" selected>' in page
    assert '<option value="inference" selected>' in page


def test_a_booking_refused_for_what_waiting_does_not_mend_offers_no_wait(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    response = client.post("/book", {
        "card": [gpus[0].pk], "start": "2026-11-30T18:00", "end": "2026-11-30T18:15", "tier": "regular",
        "purpose": "training", "note": "", "key": "a" * 32,
    })
    assert response.status_code == 422
    assert 'href="/waitlist' not in text(response)


@pytest.mark.parametrize("changes", [
    {"count": "0"}, {"count": "x"}, {"hours": "-1"}, {"hours": "nan"}, {"hours": ""}, {"hours": "1e9"}, {"end": ""},
    {"end": "tomorrow"}, {"end": "2026-13-01T00:00"}, {"start": "x"}, {"tier": "deadline"}, {"tier": ""}, {"mode": "both"},
    {"purpose": "mining"}, {"pool": "999"}, {"model": "nothing"}, {"card": ["999999"]}, {"card": ["x"]}, {"min_memory": "0"},
    {"end": "2026-11-30T15:00"}, {"count": "5"}, {"start": "2026-11-29T10:00"}, {"hours": "999", "end": "2027-11-30T15:00"},
])
def test_nonsense_is_refused_with_a_sentence_and_writes_nothing(
    client: Client, reader: Member, gpus: list[Gpu], changes: dict[str, Any]
) -> None:
    response = client.post("/waitlist", wished(**changes))
    assert response.status_code == 422
    assert 'role="alert"' in text(response) or "errorlist" in text(response)
    assert not WaitlistEntry.objects.exists() and not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    "query", ["card=x&hours=nan", "hours=1e999", "hours=-4&start=x&end=%00", "tier=nothing&card=99999999999999999999"]
)
def test_a_nonsense_address_shows_an_empty_form(client: Client, reader: Member, gpus: list[Gpu], query: str) -> None:
    assert client.get("/waitlist?" + query).status_code == 200


def test_leaving_by_the_own_page(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    client.post("/waitlist", wished())
    entry = WaitlistEntry.objects.get()
    assert f"/waitlist/{entry.pk}/leave" in text(client.get("/mine"))
    for _ in range(2):
        assert client.post(f"/waitlist/{entry.pk}/leave").status_code == 303
    entry.refresh_from_db()
    assert entry.state == "left"
    assert f"/waitlist/{entry.pk}/leave" not in text(client.get("/mine"))


def test_an_offer_stands_first_on_the_own_page_and_is_taken_or_passed_there(
    client: Client, reader: Member, gpus: list[Gpu]
) -> None:
    first, second = offered(reader), offered(reader, 2)
    page = text(client.get("/mine"))
    assert page.index("Offered to you") < page.index(">Now<")
    assert "held for you until Mon 30 Nov 14:15" in page
    assert client.post(f"/reservations/{first.pk}/take", {"version": 1, "back": "mine"}).status_code == 303
    assert client.post(f"/reservations/{second.pk}/pass", {"version": 1, "back": "mine"}).status_code == 303
    assert sorted(Reservation.objects.values_list("status", flat=True)) == ["active", "passed"]
    assert "Offered to you" not in text(client.get("/mine"))


def test_the_panel_says_until_when_and_what_can_be_done(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    made = offered(reader)
    page = text(client.get(f"/reservations/{made.pk}/"))
    assert "Take it" in page and "Let it pass" in page and "held for you until" in page
    assert "Cancel the reservation" not in page and "offered until Mon 30 Nov 14:15" in page
    client.force_login(member("Li"))
    assert "Take it" not in text(client.get(f"/reservations/{made.pk}/"))


def test_an_offer_that_ended_is_refused_on_its_page(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    made = offered(reader)
    with time_machine.travel(NOW + 15 * MINUTE, tick=False):
        response = client.post(f"/reservations/{made.pk}/take", {"version": 1})
        assert response.status_code == 422 and "This offer has ended" in text(response)


def test_queries_of_the_own_page_do_not_grow_with_offers(
    client: Client, reader: Member, gpus: list[Gpu], django_assert_max_num_queries: Any
) -> None:
    offered(reader)
    offered(reader, 2)
    client.get("/mine")
    with django_assert_max_num_queries(30):
        client.get("/mine")


# --- links ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("action", "do", "status", "said"), [
    ("take", "take", "active", "Done: it is yours"), ("pass", "pass", "passed", "Done: it goes to whoever waits next"),
])
def test_k4_a_link_of_an_offer_acts_once_at_a_press(
    client: Client, gpus: list[Gpu], action: str, do: str, status: str, said: str
) -> None:
    lab()
    made = offered(member("Wei"))
    address = links.link_for(made, links.LinkAction(action)).url.removeprefix("http://127.0.0.1:8000")
    address = "/r/" + address.rsplit("/r/", 1)[1]
    page = text(client.get(address))
    made.refresh_from_db()
    assert made.status == "offered" and "It is held for you until" in page
    for _ in range(3):
        response = client.post(address, {"do": do})
        assert response.status_code == 200 and said in text(response)
    made.refresh_from_db()
    assert made.status == status
    assert AuditEntry.objects.filter(verb=f"{do}_offer", origin="link").count() == 1
    assert client.post(address, {"do": "release"}).status_code == 404


@pytest.mark.parametrize("action", ["take", "pass"])
def test_k4_a_link_of_an_offer_that_has_ended_says_so(client: Client, gpus: list[Gpu], action: str) -> None:
    lab()
    made = offered(member("Wei"))
    address = "/r/" + links.link_for(made, links.LinkAction(action)).token
    with time_machine.travel(NOW + 15 * MINUTE, tick=False):
        assert "This offer has ended" in text(client.get(address))
        response = client.post(address, {"do": action})
        assert response.status_code == 409 and "This offer has ended" in text(response)
        offers.expire_one(made.pk, now=NOW + 15 * MINUTE)
        response = client.post(address, {"do": action})
        assert response.status_code == 409 and "This offer has ended" in text(response)


def test_k4_what_was_passed_by_one_link_is_not_taken_by_the_other(client: Client, gpus: list[Gpu]) -> None:
    lab()
    made = offered(member("Wei"))
    take, decline = ("/r/" + links.link_for(made, links.LinkAction(one)).token for one in ("take", "pass"))
    assert client.post(decline, {"do": "pass"}).status_code == 200
    assert client.post(take, {"do": "take"}).status_code == 409
    made.refresh_from_db()
    assert made.status == "passed"


# --- what is mailed ---------------------------------------------------------------------------------------------------


def composed(kind: str, now: Any = NOW) -> messages.Message:
    row = Notification.objects.select_related("member", "reservation__holder", "waitlist_entry__pool").get(kind=kind)
    assert obsolete.cause(row, now) == ""
    return messages.compose(row, queries.lab_facts(), now)


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_k1_an_offer_is_mailed_with_links_to_take_it_or_let_it_pass(gpus: list[Gpu], language: str) -> None:
    lab()
    offered(member("Wei", language=language))
    message = composed("offer")
    assert len(message.actions) == 2 and "14:15" in message.subject
    assert all(action.url in message.text and action.url in message.html for action in message.actions)
    assert ("Take it by 14:15?" in message.subject) is (language == "en")


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_k1_what_was_booked_is_mailed(gpus: list[Gpu], language: str) -> None:
    lab()
    wanted = BookingRequest((), None, at(8), count=1)
    waitlist.join(member("Wei", language=language), WishRequest(wanted, 4 * HOUR, at(8)), now=NOW)
    waitlist.serve(NOW)
    message = composed("served")
    assert "gpu-a:0" in message.subject and message.actions == ()
    assert ("Booked for you" in message.subject) is (language == "en")


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_k1_that_an_offer_or_a_wait_is_over_is_mailed(gpus: list[Gpu], language: str) -> None:
    lab()
    li = member("Li", language=language)
    made = offered(li)
    offers.expire_one(made.pk, now=NOW + 15 * MINUTE)
    assert "gpu-a:0" in composed("offer_over").subject
    wanted = BookingRequest((gpus[0].pk, gpus[1].pk), None, at(4))
    reservation(member(), [gpus[1]], None, 8)
    waitlist.join(li, WishRequest(wanted, 4 * HOUR, at(4)), now=NOW)
    waitlist.serve(at(1))
    assert "gpu-a:0" in composed("wait_over", at(1)).subject


def test_k2_an_answered_or_ended_offer_is_not_mailed(gpus: list[Gpu]) -> None:
    lab()
    li = member("Li")
    made = offered(li)
    row = Notification.objects.select_related("member", "reservation__holder").get(kind="offer")
    assert obsolete.cause(row, NOW + 15 * MINUTE) == "the offer has ended"
    offers.take(made.pk, by=li, version=None, now=NOW)
    row = Notification.objects.select_related("member", "reservation__holder").get(kind="offer")
    assert obsolete.cause(row, NOW) == "the offer was answered"


def test_somebody_elses_press_on_the_link_is_told_to_the_holder(client: Client, gpus: list[Gpu]) -> None:
    lab()
    made = offered(member("Wei"))
    client.force_login(arbiter())
    client.post("/r/" + links.link_for(made, links.LinkAction.DECLINE).token, {"do": "pass"})
    assert "let pass what was offered to you" in composed("changed").subject


def test_every_verb_has_its_words_in_the_history(client: Client, reader: Member, gpus: list[Gpu]) -> None:
    made = offered(reader)
    offers.take(made.pk, by=reader, version=None, now=NOW)
    page = text(client.get(f"/reservations/{made.pk}/"))
    assert "offer taken" in page and "offered until" in page
    assert str(labels.STATUS["active"]) in page
