"""The schedule in a browser: booking, being told no, acting beside the grid, with and without script."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Browser, BrowserContext, Page, expect

from reservations.models import CardState, Gpu, Member, Reservation
from reservations.rules.week import round_to_raster
from reservations.services import booking
from tests.factories import admin, cards, host, lab, member

pytestmark = pytest.mark.django_db(transaction=True)
ZONE = ZoneInfo("Asia/Shanghai")
GRAVE = {"serious", "critical"}


@pytest.fixture
def gpus(transactional_db: None) -> list[Gpu]:
    lab()
    return cards(3, host("gpu-a"))


def sign_in(context: BrowserContext, live_server: Any, who: Member) -> Page:
    """A page of somebody who is signed in, and that fails the test on anything that the browser complains of."""
    client = Client()
    client.force_login(who)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": live_server.url}])
    opened.append(context)
    page = context.new_page()
    page.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
    page.on("response", lambda given: complaints.append(f"{given.status} {given.url}") if given.status >= 500 else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith(live_server.url) else complaints.append(asked.url))
    return page


opened: list[BrowserContext] = []
complaints: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_to_complain_of():
    complaints.clear()
    yield
    while opened:  # a page left open would go on asking, into the next test
        opened.pop().close()
    # An answer 4xx is what some tests ask for; chromium says each in its console.
    assert not [one for one in complaints if "status of 4" not in one]


def tomorrow_night() -> str:
    day = timezone.now().astimezone(ZONE).date() + timedelta(days=1)
    return f"{day.isoformat()}T22:00"


def book_tomorrow_night(page: Page, live_server: Any, *names: str) -> None:
    page.goto(live_server.url + "/book")
    for name in names:
        page.get_by_role("checkbox", name=name).check()
    page.get_by_label("Start", exact=True).fill(tomorrow_night())
    page.get_by_role("button", name="8 h", exact=True).click()
    expect(page.get_by_label("End", exact=True)).to_have_value(ending_of_tomorrow_night())
    page.get_by_role("button", name="Book", exact=True).click()


def ending_of_tomorrow_night() -> str:
    return (datetime.fromisoformat(tomorrow_night()) + timedelta(hours=8)).strftime("%Y-%m-%dT%H:%M")


def running(who: Member, some: list[Gpu], hours: int = 3) -> Reservation:
    now = timezone.now()
    end = round_to_raster(now + timedelta(hours=hours), 900, ZONE, up=True)
    return booking.reserve(who, booking.BookingRequest(tuple(gpu.pk for gpu in some), None, end), now=now)


def test_two_cards_for_tomorrow_night_and_the_next_person_is_told_no(
    browser: Browser, live_server: Any, gpus: list[Gpu]
) -> None:
    ada, lin = member("Ada"), member("Lin")
    first = sign_in(browser.new_context(), live_server, ada)
    book_tomorrow_night(first, live_server, "0 RTX 4090", "1 RTX 4090")
    expect(first.get_by_role("status").get_by_text("Booked: 2 cards")).to_be_visible()
    expect(first.locator(".block.new")).to_have_count(2)
    expect(first.locator(".block.new").first).to_be_in_viewport()
    made = Reservation.objects.get()
    assert made.end - made.start == timedelta(hours=8)

    second = sign_in(browser.new_context(), live_server, lin)
    book_tomorrow_night(second, live_server, "1 RTX 4090", "2 RTX 4090")
    told = second.get_by_role("alert")
    expect(told).to_contain_text("gpu-a:1 is held by Ada")
    expect(told).to_contain_text("rule C3")
    expect(told).to_be_focused()
    expect(second.get_by_role("checkbox", name="2 RTX 4090")).to_be_checked()  # what was chosen is kept
    assert Reservation.objects.count() == 1
    second.get_by_role("checkbox", name="1 RTX 4090").uncheck()
    second.get_by_role("button", name="Book", exact=True).click()
    expect(second.get_by_role("status").get_by_text("Booked: 1 card")).to_be_visible()
    assert Reservation.objects.count() == 2


def test_all_of_it_without_script(browser: Browser, live_server: Any, gpus: list[Gpu]) -> None:
    page = sign_in(browser.new_context(java_script_enabled=False), live_server, member("Ada"))
    page.goto(live_server.url)
    expect(page.locator("#quick")).to_be_hidden()  # the bar could not say what it would book
    page.get_by_role("link", name="Book cards").click()
    expect(page).to_have_url(live_server.url + "/book")
    book_tomorrow_night(page, live_server, "0 RTX 4090")
    expect(page.get_by_text("Booked: 1 card")).to_be_visible()
    page.get_by_role("button", name="Ada, regular, booked").click()
    expect(page.get_by_role("heading", level=1, name="Ada")).to_be_visible()
    page.get_by_role("button", name="Cancel the reservation").click()
    expect(page.get_by_text("Cancelled. Its hours are back in the quota.")).to_be_visible()
    assert Reservation.objects.get().status == "cancelled"


def test_a_press_on_a_free_place_fills_the_bar_in_for_it(browser: Browser, live_server: Any, gpus: list[Gpu]) -> None:
    page = sign_in(browser.new_context(viewport={"width": 1440, "height": 900}), live_server, member("Ada"))
    page.goto(f"{live_server.url}/?view=36h&from={tomorrow_night()[:10]}")
    lane = page.locator(f'.lane[data-card="{gpus[1].pk}"]')
    box = lane.bounding_box()
    assert box is not None
    lane.click(position={"x": box["width"] * (22.1 / 36), "y": box["height"] / 2})
    expect(page.get_by_label("Start", exact=True)).to_have_value(tomorrow_night())
    expect(page.get_by_role("checkbox", name="gpu-a:1")).to_be_checked()
    expect(page.get_by_role("checkbox", name="gpu-a:0")).to_have_count(0)


def test_a_block_opens_beside_the_grid_where_it_is_released_and_taken_back(
    browser: Browser, live_server: Any, gpus: list[Gpu]
) -> None:
    ada = member("Ada")
    made = running(ada, gpus[:1])
    page = sign_in(browser.new_context(), live_server, ada)
    page.goto(f"{live_server.url}/?view=36h")
    page.get_by_role("button", name="Ada, regular, active").focus()
    page.keyboard.press("Enter")
    beside = page.get_by_role("dialog")
    expect(beside.get_by_role("heading", name="Ada")).to_be_focused()
    beside.get_by_role("button", name="Release now").click()
    expect(beside.get_by_role("button", name="Undo the release")).to_be_visible()
    expect(page.locator("#toasts")).to_contain_text("Released.")
    beside.get_by_role("button", name="Undo the release").click()
    expect(beside.get_by_role("button", name="Release now")).to_be_visible()
    beside.get_by_role("button", name="+1 h").click()
    expect(page.locator("#toasts")).to_contain_text("Extended.")
    end = made.end
    made.refresh_from_db()
    assert (made.status, made.end) == ("active", end + timedelta(hours=1))
    page.keyboard.press("Escape")
    expect(beside).to_be_hidden()
    expect(page.get_by_role("button", name="Ada, regular, active")).to_be_focused()


def test_a_release_with_processes_running_takes_a_second_press(browser: Browser, live_server: Any, gpus: list[Gpu]) -> None:
    ada = member("Ada")
    made = running(ada, gpus[:1])
    now = timezone.now()
    CardState.objects.create(gpu=gpus[0], state="in_use", since=now, sampled_at=now, owner_ids=[ada.pk])
    page = sign_in(browser.new_context(), live_server, ada)
    page.goto(f"{live_server.url}/mine")
    page.get_by_role("button", name="Release now").click()
    expect(page.get_by_role("alert")).to_contain_text("LabGPU ends no process")
    page.get_by_role("button", name="Release now, processes go on").click()
    expect(page.get_by_role("button", name="Undo the release")).to_be_visible()
    made.refresh_from_db()
    assert made.status == "released"


def refresh(page: Page) -> None:
    """What the clock does every 20 s."""
    page.evaluate("htmx.trigger(document.getElementById('schedule'), 'refresh')")


def test_the_grid_shows_what_others_do_and_keeps_the_readers_place(
    browser: Browser, live_server: Any, gpus: list[Gpu]
) -> None:
    ada = member("Ada")
    running(ada, gpus[:1])
    page = sign_in(browser.new_context(), live_server, ada)
    page.goto(f"{live_server.url}/?view=36h")
    mine = page.get_by_role("button", name="Ada, regular, active")
    mine.focus()
    running(member("Lin"), gpus[1:])
    refresh(page)
    expect(page.get_by_role("button", name="Lin, regular, active")).to_have_count(2)
    expect(mine).to_be_focused()


def test_a_session_that_has_ended_leads_the_whole_page_to_sign_in(
    browser: Browser, live_server: Any, gpus: list[Gpu]
) -> None:
    context = browser.new_context()
    page = sign_in(context, live_server, member("Ada"))
    page.goto(f"{live_server.url}/?view=week")
    context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    refresh(page)
    page.wait_for_url("**/accounts/login/?next=*")
    assert "next=%2F%3Fview%3Dweek" in page.url
    expect(page.locator("#schedule")).to_have_count(0)


def test_a_failing_server_is_said_and_the_page_stays(browser: Browser, live_server: Any, gpus: list[Gpu]) -> None:
    page = sign_in(browser.new_context(), live_server, member("Ada"))
    page.goto(f"{live_server.url}/?view=36h")
    page.route("**/schedule/grid*", lambda route: route.fulfill(status=500, body="<h1>broken</h1>"))
    refresh(page)
    expect(page.locator("#toasts")).to_contain_text("the server could not answer")
    expect(page.get_by_text("broken")).to_have_count(0)
    expect(page.locator(".calendar")).to_be_visible()
    complaints[:] = [one for one in complaints if "500" not in one]


def test_a_phone_gets_the_list_and_may_ask_for_the_grid(browser: Browser, live_server: Any, gpus: list[Gpu]) -> None:
    ada = member("Ada")
    running(ada, gpus[:2])
    page = sign_in(browser.new_context(viewport={"width": 390, "height": 844}), live_server, ada)
    page.goto(live_server.url)
    expect(page.locator(".calendar")).to_be_hidden()
    expect(page.get_by_role("table")).to_contain_text("gpu-a: 0, 1")
    page.get_by_role("link", name="36 h").click()
    expect(page.locator(".calendar")).to_be_visible()


@pytest.mark.parametrize(
    ("width", "theme", "language"),
    [(1440, "light", "zh-hans"), (1440, "dark", "en"), (390, "dark", "zh-hans"), (390, "light", "en")],
)
def test_no_page_keeps_anybody_out(
    browser: Browser, live_server: Any, gpus: list[Gpu], width: int, theme: Any, language: str
) -> None:
    boss = admin("Wei", language=language)
    made = running(boss, gpus[:1])
    running(member("Lin"), gpus[1:2], hours=1)
    now = timezone.now()
    CardState.objects.create(gpu=gpus[0], state="overrun", since=now, sampled_at=now, utilization=7)
    context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": 900})
    page = sign_in(context, live_server, boss)
    for path in ("/", "/?view=36h", "/?view=week", "/?view=list", "/book", f"/reservations/{made.pk}/", "/mine", "/board"):
        page.goto(live_server.url + path)
        grave = [one for one in Axe().run(page).response["violations"] if one["impact"] in GRAVE]
        assert not [(one["id"], [node["html"] for node in one["nodes"]]) for one in grave], path
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
    page.goto(live_server.url + "/book")
    page.locator("form.book button.primary").click()
    assert page.evaluate("document.activeElement.id") == "end"  # the browser itself asks for what is missing


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_h6_a_reservation_is_moved_and_the_move_undone_by_the_toast(
    browser: Browser, live_server: Any, gpus: list[Gpu], language: str
) -> None:
    ada = member("Ada", language=language)
    now = timezone.now()
    start = round_to_raster(now + timedelta(days=2), 900, ZONE, up=True)
    made = booking.reserve(ada, booking.BookingRequest((gpus[0].pk,), start, start + timedelta(hours=2)), now=now)
    page = sign_in(browser.new_context(), live_server, ada)
    page.goto(f"{live_server.url}/reservations/{made.pk}/")
    later = (start + timedelta(hours=3)).astimezone(ZONE).strftime("%Y-%m-%dT%H:%M")
    form = page.locator(f'form[action="/reservations/{made.pk}/move"]')
    form.locator("input[name=end]").fill(later)
    form.locator("button").click()
    toast = page.locator("#toasts .toast.success form")
    expect(toast.locator("button")).to_be_visible()
    grave = [one for one in Axe().run(page).response["violations"] if one["impact"] in GRAVE]
    assert not [(one["id"], [node["html"] for node in one["nodes"]]) for one in grave]
    toast.locator("button").click()
    expect(page.locator("#toasts")).to_contain_text("Undone" if language == "en" else "已撤销")
    made.refresh_from_db()
    assert (made.end, made.version) == (start + timedelta(hours=2), 3)


def test_h0_the_button_to_undo_goes_when_its_time_is_over(browser: Browser, live_server: Any, gpus: list[Gpu]) -> None:
    lab(booking_undo_s=3)
    ada = member("Ada")
    page = sign_in(browser.new_context(), live_server, ada)
    end = (timezone.now() + timedelta(hours=4)).strftime("%Y-%m-%dT%H:00%%2B00:00")
    page.goto(f"{live_server.url}/book?card={gpus[0].pk}&end={end}")
    page.locator("form.book button.primary").click()
    toast = page.locator("#toasts .toast.success")
    expect(toast.get_by_role("button", name="Undo")).to_be_visible()
    expect(toast.get_by_role("button", name="Undo")).to_be_hidden(timeout=6000)
    expect(toast.get_by_role("button", name="Close")).to_be_visible()
