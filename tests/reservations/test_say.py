"""One line of text fills the booking form in: cards, start and end; what is unclear is asked and fills nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape

import pytest
import time_machine
from django.test import Client

from reservations.models import AuditEntry, Gpu, Host, Member, Reservation
from tests import factories
from tests.factories import NOW

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _now() -> Iterator[None]:
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def gpus() -> list[Gpu]:
    factories.lab()
    return factories.cards(3, factories.host("gpu-a"))


@pytest.fixture
def lin(client: Client, gpus: list[Gpu]) -> Member:
    lin = factories.member("Lin")
    client.force_login(lin)
    return lin


def filled(client: Client, text: str) -> tuple[str, dict[str, str], set[int]]:
    """The page for the text, with what stands in start and end, and the cards that are ticked."""
    html = client.get("/book", {"say": text}).content.decode()
    fields = {name: re.search(rf'name="{name}" value="([^"]*)"', html) for name in ("start", "end")}
    ticked = {int(pk) for pk in re.findall(r'name="card" value="(\d+)" checked', html)}
    return html, {name: found[1] if found else "?" for name, found in fields.items()}, ticked


def test_a_sentence_fills_in_what_would_be_booked_and_books_nothing(client: Client, lin: Member, gpus: list[Gpu]) -> None:
    factories.reservation(factories.member("Wu"), [gpus[0]], 6, 20)
    for text in ("2 8h tomorrow 22:00", "2卡 8小时 明晚22点"):
        _, fields, ticked = filled(client, text)
        assert fields == {"start": "2026-12-01T22:00", "end": "2026-12-02T06:00"}
        assert len(ticked) == 2 and ticked <= {gpu.pk for gpu in gpus}
    _, _, ticked = filled(client, "2 cards 8h tonight")
    assert ticked == {gpus[1].pk, gpus[2].pk}  # the first is somebody's
    assert Reservation.objects.count() == 1 and AuditEntry.objects.filter(actor=lin).count() == 0


def test_from_now_the_end_is_on_the_raster(client: Client, lin: Member) -> None:
    Host.objects.update(has_reader=False)  # else only what was seen free is chosen for now (D2)
    with time_machine.travel(NOW.replace(minute=7), tick=False):
        _, fields, ticked = filled(client, "1 2h now")
    assert (fields, len(ticked)) == ({"start": "", "end": "2026-11-30T16:15"}, 1)


def test_what_is_unclear_is_asked_in_the_readers_language(client: Client, lin: Member) -> None:
    html, fields, ticked = filled(client, "2卡 3点")
    assert "“3点”: in the morning or in the afternoon?" in html and 'aria-invalid="true"' in html
    assert (fields, ticked) == ({"start": "", "end": ""}, set())
    Member.objects.filter(pk=lin.pk).update(language="zh-hans")
    assert "“3点”：上午还是下午？" in filled(client, "2卡 3点")[0]


def test_what_cannot_be_had_says_why_and_what_else_could_be(client: Client, lin: Member, gpus: list[Gpu]) -> None:
    factories.reservation(factories.member("Wu"), gpus, 6, 20)
    html, fields, ticked = filled(client, "2 8h tonight")
    assert fields == {"start": "2026-11-30T22:00", "end": "2026-12-01T06:00"} and not ticked
    assert "This cannot be booked as it stands:" in html
    key, use = (re.findall(rf'name="{name}" value="([^"]*)"', html)[0] for name in ("key", "use"))
    way = {"key": key, "use": unescape(use), "tier": "regular", "purpose": "training", **fields}
    assert client.post("/book", way).status_code == 303
    made = Reservation.objects.get(holder=lin)
    assert made.allocations.count() == 2 and made.end - made.start == timedelta(hours=8)


@pytest.mark.parametrize("text", [
    "<script>alert(1)</script>", "2" * 5000, "\x00", "明天" * 400, "25:99 99h -1 cards", "9" * 190 + "h", "2卡 十十小时",
    "9999-12-31 24:00 2卡 8h",
])
def test_nonsense_is_asked_about_and_shown_as_text(client: Client, lin: Member, text: str) -> None:
    response = client.get("/book", {"say": text})
    assert response.status_code == 200 and b"<script>alert(1)" not in response.content
    assert 'id="say-asks"' in response.content.decode()


def test_what_is_far_too_much_is_refused_in_place(client: Client, lin: Member) -> None:
    html, _, ticked = filled(client, "999 cards 400 days tomorrow 9:00")
    assert "This cannot be booked as it stands:" in html and not ticked
