"""The yardstick: two cards for tomorrow night in three clicks, twenty keystrokes, a drag and a click, or with a thumb.

Clicks and keys are counted from the browser's own trusted events, not from what the test believes to have done.
"""

from datetime import datetime, timedelta
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect

from reservations.models import Gpu, Reservation
from reservations.services import booking
from tests.e2e.test_schedule import (  # noqa: F401
    GRAVE,
    ZONE,
    _nothing_to_complain_of,
    gpus,
    sign_in,
    tomorrow_night,
)
from tests.factories import member

pytestmark = pytest.mark.django_db(transaction=True)

COUNT = """() => {
  window.counted = {clicks: 0, keys: 0};
  addEventListener("pointerdown", (e) => { if (e.isTrusted) window.counted.clicks++; }, true);
  addEventListener("keydown", (e) => { if (e.isTrusted && e.key !== "Shift") window.counted.keys++; }, true);
}"""


def counted(page: Page) -> dict[str, int]:
    return page.evaluate("window.counted")


def open_schedule(browser: Browser, live_server: Any, who: Any, path: str = "/", **context: Any) -> Page:
    page = sign_in(browser.new_context(**{"viewport": {"width": 1440, "height": 1000}, **context}), live_server, who)
    page.goto(live_server.url + path)
    page.evaluate(COUNT)
    return page


def expect_booked(page: Page, cards: int) -> Reservation:
    """The reservation for tomorrow night, 22:00 to 06:00, on so many cards; the page says so."""
    noun = "card" if cards == 1 else "cards"
    expect(page.locator("#toasts")).to_contain_text(f"Booked: {cards} {noun}")
    made = Reservation.objects.get()
    assert made.start.astimezone(ZONE).strftime("%Y-%m-%dT%H:%M") == tomorrow_night()
    assert made.end - made.start == timedelta(hours=8)
    assert made.allocations.count() == cards
    return made


def press_book(page: Page) -> dict[str, int]:
    """Presses the bar's button; what had been counted by then, with that press."""
    expect(page.locator("#preview .good-edge")).to_be_visible()
    before = counted(page)
    page.locator(".bar-press button").click()
    return {**before, "clicks": before["clicks"] + 1}


def lane_point(page: Page, gpu: Gpu, hours: float) -> tuple[float, float]:
    """The middle of a lane, so many hours after the 36 h of the picture begin."""
    box = page.locator(f'.lane[data-card="{gpu.pk}"]').bounding_box()
    assert box is not None
    return box["x"] + box["width"] * hours / 36, box["y"] + box["height"] / 2


def test_two_cards_for_tomorrow_night_take_three_clicks(browser: Browser, live_server: Any, gpus: list[Gpu]) -> None:  # noqa: F811
    page = open_schedule(browser, live_server, member("Ada"))
    bar = page.locator("#quick")
    bar.locator(".chip", has_text="2").first.click()
    bar.get_by_text("Tomorrow night").click()
    assert press_book(page) == {"clicks": 3, "keys": 0}
    expect_booked(page, 2)


def test_two_cards_for_tomorrow_night_take_twenty_keystrokes(browser: Browser, live_server: Any, gpus: list[Gpu]) -> None:  # noqa: F811
    page = open_schedule(browser, live_server, member("Ada"))
    page.keyboard.press("/")
    page.keyboard.type("2 8h tmr 22:00")
    page.keyboard.press("Enter")
    expect(page.locator(".bar-press button")).to_be_focused()
    expect(page.locator("#preview")).to_contain_text("16 GPU-hours")
    before = counted(page)
    page.keyboard.press("Enter")
    expect_booked(page, 2)
    assert before["keys"] + 1 <= 20
    assert before["clicks"] == 0


def test_two_cards_for_tomorrow_night_take_a_drag_and_a_click(browser: Browser, live_server: Any, gpus: list[Gpu]) -> None:  # noqa: F811
    page = open_schedule(browser, live_server, member("Ada"), f"/?view=36h&from={tomorrow_night()[:10]}")
    page.mouse.move(*lane_point(page, gpus[0], 22.1))
    page.mouse.down()
    page.mouse.move(*lane_point(page, gpus[0], 25))
    page.mouse.move(*lane_point(page, gpus[1], 29.9), steps=5)
    expect(page.locator(".ghost")).to_have_count(2)
    page.mouse.up()
    expect(page.locator("#quick input[name=card]:checked")).to_have_count(2)
    assert press_book(page)["clicks"] == 2  # the drag's own press, and the button
    expect_booked(page, 2)


def test_a_thumb_books_on_a_phone(browser: Browser, live_server: Any, gpus: list[Gpu]) -> None:  # noqa: F811
    page = open_schedule(
        browser, live_server, member("Ada"), viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    page.locator(".bar-fold > summary").tap()
    page.locator("#quick .chip", has_text="2").first.tap()
    page.get_by_text("Tomorrow night").tap()
    expect(page.locator("#preview .good-edge")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    small = page.evaluate(
        "[...document.querySelectorAll('#quick .chip, .bar-press button')].filter((e) => e.offsetHeight < 36).length"
    )
    assert small == 0
    page.locator(".bar-press button").tap()
    expect_booked(page, 2)


def test_a_night_across_the_end_of_a_week_is_one_sentence(browser: Browser, live_server: Any, gpus: list[Gpu]) -> None:  # noqa: F811
    page = open_schedule(browser, live_server, member("Ada"))
    page.fill("#bar-say", "1 card 8h sunday 22:00")
    page.press("#bar-say", "Enter")
    expect(page.locator("#preview .outcome-facts li", has_text="Week of")).to_have_count(2)
    page.locator(".bar-press button").click()
    expect(page.locator("#toasts")).to_contain_text("Booked: 1 card")
    made = Reservation.objects.get()
    assert (made.start.astimezone(ZONE).weekday(), made.end.astimezone(ZONE).weekday()) == (6, 0)


def test_of_two_who_press_for_the_same_cards_one_is_offered_others_in_place(
    browser: Browser, live_server: Any, gpus: list[Gpu]  # noqa: F811
) -> None:
    pages = [
        open_schedule(browser, live_server, member(name), f"/?view=36h&from={tomorrow_night()[:10]}") for name in ("Ada", "Lin")
    ]
    for page in pages:
        page.mouse.click(*lane_point(page, gpus[0], 22.1))
        expect(page.locator("#preview .good-edge")).to_be_visible()
    pages[0].locator(".bar-press button").click()
    expect(pages[0].locator("#toasts")).to_contain_text("Booked: 1 card")
    pages[1].locator(".bar-press button").click()
    told = pages[1].locator("#preview [role=alert]")
    expect(told).to_be_focused()
    expect(told).to_contain_text("gpu-a:0 is held by Ada")
    assert pages[1].url.endswith(tomorrow_night()[:10])  # still where it was asked
    told.locator("button[name=use]").first.click()
    expect(pages[1].locator("#toasts")).to_contain_text("Booked: 1 card")
    assert Reservation.objects.count() == 2


def test_the_keyboard_alone_chooses_time_in_the_calendar_and_books_it(
    browser: Browser, live_server: Any, gpus: list[Gpu]  # noqa: F811
) -> None:
    page = open_schedule(browser, live_server, member("Ada"), f"/?view=36h&from={tomorrow_night()[:10]}")
    stops = page.locator(".calendar [tabindex='0'], .calendar a:not([tabindex]), .calendar button:not([tabindex])")
    expect(stops).to_have_count(0)  # the calendar itself is the only stop
    page.keyboard.press("c")
    expect(page.locator(".calendar")).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Home")
    for _ in range(22 * 4):
        page.keyboard.press("ArrowRight")
    cursor = page.locator(".cursor")
    expect(cursor).to_be_focused()
    assert cursor.get_attribute("aria-label").startswith("gpu-a:0, ") and "22:00" in cursor.get_attribute("aria-label")
    for _ in range(8 * 4 - 1):
        page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".bar-press button")).to_be_focused()
    page.keyboard.press("Enter")
    expect_booked(page, 2)
    assert counted(page) if page.evaluate("'counted' in window") else True


def booked(who: Any, gpu: Gpu, hours: int = 2) -> Reservation:
    start = datetime.fromisoformat(tomorrow_night()).replace(tzinfo=ZONE) - timedelta(hours=12)
    return booking.reserve(who, booking.BookingRequest((gpu.pk,), start, start + timedelta(hours=hours)), now=timezone.now())


def test_dragging_ones_own_block_moves_it_in_time_and_to_another_card_and_can_be_undone(
    browser: Browser, live_server: Any, gpus: list[Gpu]  # noqa: F811
) -> None:
    ada = member("Ada")
    made = booked(ada, gpus[0])
    page = open_schedule(browser, live_server, ada, f"/?view=36h&from={tomorrow_night()[:10]}")
    page.mouse.move(*lane_point(page, gpus[0], 11.1))
    page.mouse.down()
    page.mouse.move(*lane_point(page, gpus[1], 14.1), steps=6)
    page.mouse.up()
    expect(page.locator("#toasts")).to_contain_text("Moved.")
    expect(page.get_by_role("dialog")).to_be_hidden()
    before = made.start
    made.refresh_from_db()
    assert made.start == before + timedelta(hours=3)
    assert [row.gpu_id for row in made.allocations.filter(status="booked")] == [gpus[1].pk]
    page.locator("#toasts").get_by_role("button", name="Undo").click()
    expect(page.locator("#toasts")).to_contain_text("Undone")
    made.refresh_from_db()
    assert made.start == before


def test_a_drag_onto_somebody_elses_time_shows_the_conflict_and_is_refused_with_its_reason(
    browser: Browser, live_server: Any, gpus: list[Gpu]  # noqa: F811
) -> None:
    ada = member("Ada")
    made = booked(ada, gpus[0])
    booked(member("Lin"), gpus[1], hours=8)
    page = open_schedule(browser, live_server, ada, f"/?view=36h&from={tomorrow_night()[:10]}")
    page.mouse.move(*lane_point(page, gpus[0], 11.1))
    page.mouse.down()
    page.mouse.move(*lane_point(page, gpus[1], 12.1), steps=6)
    expect(page.locator(".ghost.taken")).to_have_count(1)
    page.mouse.up()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("gpu-a:1 is held by Lin")
    made.refresh_from_db()
    assert made.version == 1


def test_keys_of_one_letter_can_be_switched_off(browser: Browser, live_server: Any, gpus: list[Gpu]) -> None:  # noqa: F811
    page = open_schedule(browser, live_server, member("Ada"))
    page.keyboard.press("?")
    keys = page.locator("#keys")
    expect(keys).to_be_visible()
    keys.get_by_role("checkbox").uncheck()
    keys.get_by_role("button", name="Close").click()
    page.keyboard.press("/")
    expect(page.locator("#bar-say")).not_to_be_focused()
    page.reload()
    page.keyboard.press("?")
    expect(keys).to_be_hidden()


def test_a_session_that_has_ended_leads_from_the_preview_to_sign_in(
    browser: Browser, live_server: Any, gpus: list[Gpu]  # noqa: F811
) -> None:
    page = open_schedule(browser, live_server, member("Ada"))
    page.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    page.get_by_text("Tomorrow night").click()
    page.wait_for_url("**/accounts/login/*")


@pytest.mark.parametrize(
    ("width", "theme", "language"),
    [(1440, "light", "zh-hans"), (1440, "dark", "en"), (390, "dark", "zh-hans"), (390, "light", "en")],
)
def test_the_filled_bar_its_refusal_and_its_dialogs_keep_nobody_out(
    browser: Browser, live_server: Any, gpus: list[Gpu], width: int, theme: Any, language: str  # noqa: F811
) -> None:
    ada = member("Ada", language=language)
    booked(member("Lin"), gpus[0])
    mine = booked(ada, gpus[1])
    page = open_schedule(
        browser, live_server, ada, f"/?view=36h&from={tomorrow_night()[:10]}", viewport={"width": width, "height": 900},
        color_scheme=theme,
    )

    def grave() -> list[Any]:
        found = [one for one in Axe().run(page).response["violations"] if one["impact"] in GRAVE]
        return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]

    page.evaluate("document.querySelector('.bar-fold').open = true")
    for text in ("1 8h tmr 22:00", "1 card 2h tmr 10:00 gibberish", "3 2h tmr 10:00"):
        page.fill("#bar-say", text)
        with page.expect_response("**/book/bar?*"):
            page.press("#bar-say", "Enter")
        expect(page.locator("#preview .outcome, #bar-asks").first).to_be_visible()
        assert grave() == [], text
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, text
    page.locator("[data-opens=keys]").click()
    assert grave() == []
    page.locator("#keys button").click()
    page.locator(f'[id^="b{mine.pk}-"]').click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert grave() == []
