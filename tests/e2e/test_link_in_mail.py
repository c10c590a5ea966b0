"""From a mail to a press, in a browser that nobody has signed in to (K4, LK-01, LK-12)."""

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone
from playwright.sync_api import Page, Request

from reservations.links import LinkAction, link_for
from reservations.models import Reservation
from reservations.rules.week import round_to_raster
from reservations.services import booking
from tests.factories import cards, lab, member

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def made(transactional_db: None) -> Reservation:
    row, now = lab(), timezone.now()
    end = round_to_raster(now + timedelta(hours=2), 900, ZoneInfo(row.zone), up=True)
    gpus = tuple(gpu.pk for gpu in cards(2))
    return booking.reserve(member("Lin"), booking.BookingRequest(gpus, None, end), now=now)


def test_one_press_releases_and_undo_takes_it_back(page: Page, live_server: Any, made: Reservation) -> None:
    token = link_for(made, LinkAction.RELEASE).token
    said: list[tuple[str, str]] = []

    def keep(request: Request) -> None:
        said.append((request.url, request.headers.get("referer", "")))

    page.on("request", keep)
    page.goto(f"{live_server.url}/r/{token}")
    page.get_by_role("button", name="Release now").click()
    page.get_by_role("heading", name="Done: released at").wait_for()
    made.refresh_from_db()
    assert made.status == "released"
    assert page.url == f"{live_server.url}/"  # the token is no longer in the address bar
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("heading", name="The release was taken back").wait_for()
    made.refresh_from_db()
    assert made.status == "active"
    assert all(url.startswith(live_server.url) for url, _ in said)  # nothing is loaded from outside
    assert not [referer for _, referer in said if token in referer]
    assert len(said) > 5


def test_back_after_a_press_shows_how_things_stand(page: Page, live_server: Any, made: Reservation) -> None:
    page.goto("about:blank")
    page.goto(f"{live_server.url}/r/{link_for(made, LinkAction.EXTEND).token}")
    page.get_by_role("button", name="1 h more").click()
    page.get_by_role("heading", name="Done: it ends").wait_for()
    page.go_back()
    page.get_by_role("heading", name="Done: it ends").wait_for()
    before = made.end
    made.refresh_from_db()
    assert (made.end - before, made.version) == (timedelta(hours=1), 2)
