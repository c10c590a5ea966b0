"""Finding a slot and reading the rules in a browser: by keyboard alone, without script, and for every eye."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect

from reservations.models import CardState, Gpu, Member, Reservation
from tests.factories import cards, host, lab, member

from .test_schedule import GRAVE, _nothing_to_complain_of, running, sign_in  # noqa: F401  (the fixture watches here too)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def gpus(transactional_db: None) -> Iterator[list[Gpu]]:
    lab()
    found = cards(2, host("gpu-a"))
    for gpu in found:
        CardState.objects.create(gpu=gpu, state="free", since=timezone.now(), sampled_at=timezone.now() + timedelta(minutes=5))
    yield found


def grave(page: Page) -> list[str]:
    return [f"{one['id']}: {one['help']}" for one in Axe().run(page).response["violations"] if one["impact"] in GRAVE]


def test_a_slot_is_found_and_booked_by_keyboard(browser: Browser, live_server: Any, gpus: list[Gpu]) -> None:
    page = sign_in(browser.new_context(), live_server, member("Ada"))
    page.goto(live_server.url)
    page.get_by_role("navigation", name="Main menu").get_by_role("link", name="Find").press("Enter")
    page.get_by_role("radio", name="Cards: 1").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_label("How long, hours").fill("3")
    page.keyboard.press("Enter")  # in a field: it finds, and presses no length
    slots = page.get_by_role("listitem").filter(has=page.get_by_role("button", name="Book"))
    expect(slots).to_have_count(8)
    expect(slots.nth(1)).to_contain_text("gpu-a:0, gpu-a:1 3 h")
    slots.nth(1).get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").get_by_text("Booked: 2 cards")).to_be_visible()
    made = Reservation.objects.get()
    assert made.end - made.start == timedelta(hours=3)


def test_it_finds_and_books_without_script(browser: Browser, live_server: Any, gpus: list[Gpu]) -> None:
    page = sign_in(browser.new_context(java_script_enabled=False), live_server, member("Ada"))
    page.goto(f"{live_server.url}/find")
    page.get_by_role("button", name="2 h", exact=True).click()
    expect(page.get_by_label("How long, hours")).to_have_value("2")
    page.locator(".slot button").nth(1).click()
    expect(page.get_by_text("Booked: 1 card")).to_be_visible()


def test_a_refusal_jumps_to_its_rule(browser: Browser, live_server: Any, gpus: list[Gpu]) -> None:
    running(member("Lin"), gpus)
    page = sign_in(browser.new_context(), live_server, member("Ada"))
    end = (timezone.now() + timedelta(hours=10)).strftime("%Y-%m-%dT%H:%M+00:00").replace("+", "%2B")
    page.goto(f"{live_server.url}/find?count=2&hours=9.5&end={end}")
    page.get_by_role("link", name="rule G2").click()
    expect(page.locator("#G2")).to_be_in_viewport()
    expect(page).to_have_url(f"{live_server.url}/house-rules#G2")


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_grave_for_those_who_see_otherwise(
    browser: Browser, live_server: Any, gpus: list[Gpu], language: str, scheme: Any
) -> None:
    ada = member("Ada")
    Member.objects.filter(pk=ada.pk).update(language=language)
    running(ada, gpus)
    page = sign_in(browser.new_context(color_scheme=scheme), live_server, ada)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        for path in ("/find", "/find?count=2&hours=100", "/find?hours=x", "/house-rules", "/mine"):
            page.goto(live_server.url + path)
            assert not grave(page), (width, path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (width, path)
