"""The booking form: booking without script, every refusal at once, ways out as buttons, nothing written on nonsense."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.html import escape

from reservations import forms
from reservations.models import Allocation, IdempotencyKey, LedgerEntry, Reservation
from reservations.rules.policy import Policy
from reservations.rules.refusal import Alternative
from reservations.services import booking, locking
from tests.factories import NOW, cards, host, lab, member, reservation

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


def asked(gpus, **changes):
    """What the form sends: tomorrow night 22:00 to 06:00 (lab time) unless changed."""
    values = {
        "card": [gpu.pk for gpu in gpus], "start": "2026-12-01T22:00", "end": "2026-12-02T06:00", "tier": "regular",
        "purpose": "training", "note": "", "key": "a" * 32,
    }
    return values | changes


def text(response) -> str:
    return response.content.decode()


def ways_out(response) -> list[str]:
    """The values of the buttons beside the reasons, which submit what would be allowed (other slots come with their cards)."""
    values = [part.split('"', 1)[0].replace("&amp;", "&") for part in text(response).split('name="use" value="')[1:]]
    return [value for value in values if "&cards=" not in value]


def test_two_cards_for_tomorrow_night_by_a_plain_form(client, reader):
    two = cards(2)
    response = client.post("/book", asked(two))
    made = Reservation.objects.get()
    assert response.status_code == 303
    assert response["Location"] == f"/?new={made.pk}"
    assert (made.holder, made.start, made.end) == (
        reader, datetime(2026, 12, 1, 14, tzinfo=UTC), datetime(2026, 12, 1, 22, tzinfo=UTC)
    )
    assert {row.gpu_id for row in made.allocations.all()} == {gpu.pk for gpu in two}
    assert "Booked: 2 cards, Tue 1 Dec 22:00 – Wed 2 Dec 06:00." in text(client.get(response["Location"]))


def test_a_booking_far_ahead_leads_to_its_own_day(client, reader):
    response = client.post("/book", asked(cards(1), start="2026-12-10T22:00", end="2026-12-11T06:00"))
    assert response["Location"] == f"/?from=2026-12-10&new={Reservation.objects.get().pk}"


def test_htmx_is_led_to_the_schedule_as_a_whole_page(client, reader):
    response = client.post("/book", asked(cards(1)), headers={"HX-Request": "true"})
    assert response.status_code == 204
    assert response["HX-Redirect"] == f"/?new={Reservation.objects.get().pk}"


def test_an_empty_start_is_now(client, reader):
    client.post("/book", asked(cards(1), start="", end="2026-11-30T18:00"))
    made = Reservation.objects.get()
    assert (made.start, made.status) == (NOW, "active")


def test_the_form_pressed_twice_books_once(client, reader):
    gpus = cards(1)
    first, second = client.post("/book", asked(gpus)), client.post("/book", asked(gpus))
    assert first["Location"] == second["Location"]
    assert Reservation.objects.count() == 1


def test_a_form_used_for_another_request_gets_a_fresh_key(client, reader):
    gpus = cards(2)
    client.post("/book", asked(gpus[:1]))
    response = client.post("/book", asked(gpus[1:]))
    assert response.status_code == 409 and "used for another request" in text(response)
    assert f'name="key" value="{"a" * 32}"' not in text(response)


def test_each_rendered_form_has_its_own_key(client, reader):
    keys = {text(client.get("/book")).split('name="key" value="')[1].split('"')[0] for _ in range(2)}
    assert len(keys) == 2


def test_the_address_fills_the_form_in(client, reader):
    first, second = cards(2)
    page = text(client.get("/book", {"card": [second.pk], "start": "2026-12-01T14:00:00Z", "end": "2026-12-02T06:00"}))
    assert f'value="{second.pk}" checked' in page and f'value="{first.pk}" checked' not in page
    assert 'name="start" value="2026-12-01T22:00"' in page and 'name="end" value="2026-12-02T06:00"' in page


@pytest.mark.parametrize("query", ["card=x&start=NaN&end=9999-99-99", "card=-1&start=&end=%00", "card=" + "9" * 50])
def test_a_nonsense_address_shows_an_empty_form(client, reader, query):
    cards(1)
    page = client.get("/book?" + query)
    assert page.status_code == 200 and "checked" not in text(page).split("What for")[0]


def test_a_taken_card_is_409_and_names_holder_and_time(client, reader):
    gpus = cards(2, host("gpu-a"))
    reservation(member("Ada"), gpus[:1], 32, 34)
    response = client.post("/book", asked(gpus))
    assert response.status_code == 409
    assert "gpu-a:0 is held by Ada from Tue 1 Dec 22:00 to Wed 2 Dec 00:00." in text(response)
    assert "rule C3" in text(response)
    assert Reservation.objects.count() == 1


def test_all_refusals_stand_together_each_with_its_rule(client, reader):
    response = client.post("/book", asked(cards(5), tier="deadline", start="2026-12-01T22:07"))
    page = text(response)
    assert response.status_code == 422
    for rule in ("A1", "C2", "B1"):
        assert f"rule {rule}" in page
    assert Reservation.objects.count() == 0


def test_what_was_typed_stands_there_again(client, reader):
    gpus = cards(5)
    page = text(client.post("/book", asked(gpus, note="<i>mine</i>", purpose="test", tier="exploration")))
    assert page.count(" checked") == 7  # five cards, tier, purpose
    assert escape("<i>mine</i>") in page and "<i>mine</i>" not in page
    assert 'name="start" value="2026-12-01T22:00"' in page


def test_a_way_out_is_a_button_that_books(client, reader):
    gpus = cards(1)
    sent = asked(gpus, end="2026-12-02T06:10")
    response = client.post("/book", sent)
    (way,) = ways_out(response)
    assert "Book Tue 1 Dec 22:00 – Wed 2 Dec 06:15" in text(response)
    assert client.post("/book", sent | {"use": way}).status_code == 303
    assert Reservation.objects.get().end == datetime(2026, 12, 1, 22, 15, tzinfo=UTC)


def test_what_the_quota_still_allows_is_a_button(client, reader):
    lab(roles={"phd": {"weekly_hours": 4}})
    gpus = cards(1)
    response = client.post("/book", asked(gpus))
    assert response.status_code == 422 and "rule E2" in text(response)
    (way,) = ways_out(response)
    assert client.post("/book", asked(gpus) | {"use": way}).status_code == 303
    made = Reservation.objects.get()
    assert made.end - made.start == timedelta(hours=4)


def test_a_way_out_that_meets_another_refusal_is_followed_to_what_is_allowed(client, reader):
    lab(roles={"phd": {"weekly_hours": 4}})
    sent = asked(cards(1), start="2026-12-01T22:07", end="2026-12-06T06:00")
    response = client.post("/book", sent)
    assert "rule A1" in text(response) and "rule E2" in text(response)
    for way in ways_out(response):
        assert booking.check(reader, _request_of(sent | {"use": way}), now=NOW) == []
    assert 1 <= len(ways_out(response)) == len(set(ways_out(response)))


def test_a_way_out_that_leads_nowhere_is_not_offered(client, reader):
    gpus = cards(1)
    reservation(member("Ada"), gpus, 24, 48)
    assert ways_out(client.post("/book", asked(gpus, end="2026-12-02T06:10"))) == []


def _request_of(sent):
    data = QueryDict(mutable=True)
    for name, value in sent.items():
        data.setlist(name, [str(one) for one in value] if isinstance(value, list) else [value])
    form = forms.BookingForm(data, policy=Policy(), zone=ZoneInfo("Asia/Shanghai"), now=NOW)
    assert form.is_valid()
    return form.request


def test_an_alternative_changes_only_start_and_end(client, reader):
    data = forms.with_override(_query(use="start=&end=2026-12-01T00%3A00&card=7&key=z", card="1", key="k"))
    assert (data["card"], data["key"], data["start"]) == ("1", "k", "")


def _query(**values):
    data = QueryDict(mutable=True)
    data.update(values)
    return data


def test_an_alternative_packs_exact_instants_and_now():
    packed = parse_qs(forms.pack(Alternative({"start": None, "end": NOW})), keep_blank_values=True)
    assert packed == {"start": [""], "end": ["2026-11-30T06:00:00+00:00"]}


@pytest.mark.parametrize(
    ("typed", "said", "buttons"),
    [
        ("2026-03-29T02:30", "The clocks skip this time", ["Sun 29 Mar 01:30", "Sun 29 Mar 03:30"]),
        ("2026-10-25T02:30", "The clocks show this time twice", ["02:30 (UTC+02:00)", "02:30 (UTC+01:00)"]),
    ],
)
def test_a_skipped_or_double_time_is_refused_with_both_readings_as_buttons(client, typed, said, buttons):
    day = datetime.fromisoformat(typed + "+00:00")
    with time_machine.travel(day - timedelta(days=2), tick=False):
        lab(zone="Europe/Berlin")
        client.force_login(member())
        gpus = cards(1)
        sent = asked(gpus, start=typed, end=f"{typed[:10]}T09:00")
        response = client.post("/book", sent)
        page = text(response)
        assert response.status_code == 422 and said in page and "rule A3" in page
        assert all(button in page for button in buttons)
        first, second = ways_out(response)
        assert first != second
        assert client.post("/book", sent | {"use": second}).status_code == 303
    start = Reservation.objects.get().start
    assert start.isoformat() in second.replace("%3A", ":").replace("%2B", "+")


def test_a_length_fills_in_the_end_and_books_nothing(client, reader):
    gpus = cards(1)
    response = client.post("/book", asked(gpus, end="", length="8"))
    page = text(response)
    assert response.status_code == 200 and 'name="end" value="2026-12-02T06:00"' in page
    # By the keyboard one goes on from the length, not from the top of the page.
    assert page.count("autofocus") == 1 and 'value="8" formnovalidate autofocus data-take-focus>' in page
    assert f'value="{gpus[0].pk}" checked' in page
    assert Reservation.objects.count() == 0


def test_a_length_means_elapsed_hours_on_a_night_with_a_clock_change(client):
    with time_machine.travel(datetime(2026, 10, 24, 8, tzinfo=UTC), tick=False):
        lab(zone="Europe/Berlin")
        client.force_login(member())
        page = text(client.post("/book", asked(cards(1), start="2026-10-24T22:00", end="", length="8")))
    assert 'name="end" value="2026-10-25T05:00"' in page


@pytest.mark.parametrize("length", ["0", "-4", "NaN", "1e9", "9999", "😀", "x" * 10_000])
def test_a_nonsense_length_is_422(client, reader, length):
    response = client.post("/book", asked(cards(1), length=length))
    assert response.status_code == 422 and "There is no such length" in text(response)


@pytest.mark.parametrize("field", ["start", "end"])
@pytest.mark.parametrize(
    "value",
    ["NaN", "-1", "9999-12-31T23:59", "0001-01-01T00:00", "2026-02-30T00:00", "😀", "<script>", "x" * 10_000,
     "2026-12-01T22:00+99:00", "2026-W01", "1e400", "\x00", "2101-01-01T00:00Z"],
)
def test_a_time_that_is_none_is_422_with_a_sentence(client, reader, field, value):
    response = client.post("/book", asked(cards(1), **{field: value}))
    assert response.status_code == 422
    assert 'role="alert"' in text(response) and 'aria-invalid="true"' in text(response)
    assert "<script>alert" not in text(response)
    assert Reservation.objects.count() == LedgerEntry.objects.count() == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"card": []}, {"card": ["0"]}, {"card": ["-1"]}, {"card": ["NaN"]}, {"card": ["9" * 30]},
        {"card": ["9223372036854775807"]},
        {"card": ["1.5"]}, {"card": ["😀"]}, {"card": [str(n) for n in range(1, 290)]},
        {"tier": "imperial"}, {"tier": ""}, {"tier": "x" * 10_000}, {"tier": "<b>"},
        {"purpose": "world domination"}, {"purpose": ""},
        {"note": "n" * 201}, {"note": "n" * 10_000}, {"note": "\x00"},
        {"key": ""}, {"key": "short"}, {"key": "k" * 81}, {"key": "ключ-ключ-ключ"},
        {"end": ""}, {"end": "2026-12-01T21:00"}, {"end": "2027-12-01T21:00"}, {"start": "2026-11-29T21:00"},
        {"start": "2090-01-01T00:00", "end": "2090-01-01T08:00"}, {"start": "2000-01-01T00:00", "end": "2099-01-01T08:00"},
        {"use": "end=NaN"}, {"use": "start=\x00"}, {"use": "%"},
    ],
)
def test_nonsense_is_refused_with_a_sentence_and_writes_nothing(client, reader, changes):
    gpus = cards(1)
    response = client.post("/book", asked(gpus, **changes))
    if changes.get("use") == "%":  # says nothing, so what was typed counts
        assert response.status_code == 303
        return
    assert response.status_code == 422
    assert 'role="alert"' in text(response)
    assert Reservation.objects.count() == Allocation.objects.count() == IdempotencyKey.objects.count() == 0


def test_a_note_with_emoji_and_markup_is_kept_as_text(client, reader):
    client.post("/book", asked(cards(1), note="💥<b>run</b>"))
    made = Reservation.objects.get()
    assert made.note == "💥<b>run</b>"
    assert escape(made.note) in text(client.get(f"/reservations/{made.pk}/"))


def test_fields_of_another_are_ignored(client, reader):
    client.post("/book", asked(cards(1), holder=member("Ada").pk, status="active", rank_tier=0))
    assert Reservation.objects.get().holder == reader


def test_busy_is_409_with_a_time_to_try_again(client, reader, monkeypatch):
    def busy(*args, **kwargs):
        raise locking.Busy

    monkeypatch.setattr(booking, "reserve", busy)
    response = client.post("/book", asked(cards(1)))
    assert (response.status_code, response["Retry-After"]) == (409, "2")
    assert "busy" in text(response) and "nothing was changed" in text(response)


def test_only_tiers_without_grant_are_offered(client, reader):
    page = text(client.get("/book"))
    assert 'value="regular"' in page and 'value="exploration"' in page and 'value="deadline"' not in page


def test_a_card_out_of_service_cannot_be_ticked(client, reader):
    (gpu,) = cards(1)
    gpu.service = "out_of_service"
    gpu.save()
    assert f'value="{gpu.pk}" disabled' in text(client.get("/book"))
    assert "Out of service" in text(client.post("/book", asked([gpu])))


def test_refused_to_htmx_only_the_form_is_drawn_anew(client, reader):
    response = client.post("/book", asked([]), headers={"HX-Request": "true"})
    assert response.status_code == 422
    assert text(response).lstrip().startswith('<form id="book"')


def test_showing_the_form_writes_nothing(client, reader):
    with CaptureQueriesContext(connection) as queries:
        client.get("/book")
        client.head("/book")
    assert not [one for one in queries if one["sql"].lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE"))]


def test_queries_of_the_form_do_not_grow_with_cards(client, reader):
    counts = []
    for _ in range(2):
        for gpu in cards(1 if not counts else 2, host()):
            reservation(member(), [gpu], 1, 9)
        with CaptureQueriesContext(connection) as queries:
            client.get("/book")
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 10


def test_a_form_without_its_token_is_refused(reader):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(reader)
    assert strict.post("/book", asked(cards(1))).status_code == 403
    assert Reservation.objects.count() == 0


def test_signed_out_nothing_is_booked(client):
    lab()
    response = client.post("/book", asked(cards(1)))
    assert (response.status_code, response["Location"]) == (303, "/accounts/login/")
    assert Reservation.objects.count() == 0


def test_without_a_start_in_the_address_the_form_means_now(client, reader):
    assert 'name="start" value=""' in text(client.get("/book", {"card": 1}))
