"""Pages of projects, grants, collaborators, house rules and leaving: what they show, and what a press does."""

from __future__ import annotations

from datetime import date

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from reservations.models import (
    Collaborator,
    DeadlineGrant,
    HourGrant,
    Member,
    Project,
    Reservation,
)
from reservations.services import collaborators, demo, grants, houserules
from tests.factories import NOW, admin, arbiter, cards, lab, member, project, reservation

pytestmark = pytest.mark.django_db
FORM = "a" * 32


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def lin(client: Client) -> Member:
    lab(mode="mixed", project_share=100)
    one = member("Lin")
    client.force_login(one)
    return one


def text(response) -> str:
    return response.content.decode()


def browser(one: Member) -> Client:
    client = Client()
    client.force_login(one)
    return client


def asked(gpus, **values):
    return {
        "card": [gpu.pk for gpu in gpus], "start": "2026-12-01T22:00", "end": "2026-12-02T06:00", "tier": "regular",
        "purpose": "training", "key": FORM, **values,
    }


# --- booking -----------------------------------------------------------------------------------------------------------


def test_b5_who_has_no_project_is_told_what_that_means_and_offered_what_they_may(client: Client, lin: Member) -> None:
    page = text(client.get("/book"))
    assert "You belong to no project yet, so you book as exploration." in page
    assert 'value="exploration" checked' in page and 'value="regular"' not in page
    assert "Make a project" not in page and "Make a project" in text(browser(admin()).get("/book"))


def test_b5_the_form_books_for_the_chosen_project_and_shows_its_hours(client: Client, lin: Member) -> None:
    vision, gpus = project("Vision", lin, weekly_hours=30), cards(2)
    page = text(client.get("/book"))
    assert f'<option value="{vision.pk}" selected>Vision</option>' in page and "30 of 30 GPU-hours left" in page
    assert client.post("/book", asked(gpus, project=vision.pk, memory="40")).status_code == 303
    made = Reservation.objects.get()
    assert (made.project, made.expected_memory) == (vision, 40 << 30)
    page = text(client.get(f"/reservations/{made.pk}/"))
    assert "Vision" in page and "40 GiB" in page


def test_b5_the_ways_out_of_a_refusal_are_buttons_that_book(client: Client, lin: Member) -> None:
    vision, gpus = project("Vision", lin, weekly_hours=1), cards(1)
    project("Robots", lin)
    page = text(client.post("/book", asked(gpus, project="")))
    assert "For the project Robots" in page and "As exploration" in page
    sent = asked(gpus, project=vision.pk)
    page = text(client.post("/book", sent))
    assert "On your own hours, as exploration" in page
    assert client.post("/book", sent | {"use": "project=&tier=exploration"}).status_code == 303
    made = Reservation.objects.get()
    assert (made.project, made.tier) == (None, "exploration")


def test_b2_the_house_rules_are_one_press_away(client: Client, lin: Member) -> None:
    houserules.write("Be fair.\n\nClean up.", by=admin(), now=NOW)
    page = text(client.post("/book", asked(cards(1), tier="exploration")))
    assert 'href="/house-rules"' in page and "rule B2" in page
    page = text(client.get("/house-rules"))
    assert "Be fair." in page and "I accept these rules" in page
    assert client.post("/house-rules", {"version": "0"}).status_code == 409
    assert client.post("/house-rules", {"version": "1"})["Location"] == "/book"
    assert "You have accepted these rules." in text(client.get("/house-rules"))


# --- projects and grants -----------------------------------------------------------------------------------------------


def test_an_admin_makes_a_project_its_advisor_adds_members_and_hours_are_given() -> None:
    lab(mode="mixed")
    boss, lead, lin = browser(admin()), member("Lead", role="staff"), member("Lin")
    response = boss.post("/projects/", {"name": "Vision", "advisor": lead.pk, "weekly_hours": ""})
    vision = Project.objects.get()
    assert response["Location"] == f"/projects/{vision.pk}/"
    assert boss.post("/projects/", {"name": "Vision", "advisor": lead.pk}).status_code == 422
    assert browser(lead).post(f"/projects/{vision.pk}/members", {"member": lin.pk}).status_code == 303
    assert [row.member for row in vision.members.all()] == [lin]
    given = {"hours": "10", "last_day": "2026-12-06", "reason": "a course"}
    assert boss.post(f"/projects/{vision.pk}/hours", given | {"reason": ""}).status_code == 422
    assert boss.post(f"/projects/{vision.pk}/hours", given | {"last_day": "9999-12-31"}).status_code == 422
    assert boss.post(f"/projects/{vision.pk}/hours", given).status_code == 303
    assert boss.post(f"/members/{lin.pk}/hours", given).status_code == 303
    assert HourGrant.objects.count() == 2
    page = text(browser(lin).get(f"/projects/{vision.pk}/"))
    assert "10 GPU-hours" in page and "a course" in page and "250 of 240 GPU-hours left" in page


def test_c2_a_grant_is_asked_for_decided_and_ended_on_the_projects_page(client: Client, lin: Member) -> None:
    vision = project("Vision", lin)
    lead, wanted = browser(vision.advisor), {
        "deadline": "2026-12-10", "first_day": "2026-11-30", "last_day": "2026-12-10", "card_hours": "40", "reason": "a paper",
    }
    refused = client.post(f"/projects/{vision.pk}/grants", wanted | {"last_day": "2026-12-11"})
    assert refused.status_code == 422 and "ends on the day of its deadline" in text(refused)
    assert client.post(f"/projects/{vision.pk}/grants", wanted).status_code == 303
    grant = DeadlineGrant.objects.get()
    assert "waits for Advisor" in text(browser(member()).get("/projects/")), "everybody sees it"
    assert "Grant it" not in text(client.get(f"/projects/{vision.pk}/"))
    assert "Grant it" in text(lead.get(f"/projects/{vision.pk}/"))
    assert lead.post(f"/grants/{grant.pk}/decide", {"outcome": "granted", "reason": ""}).status_code == 422
    assert lead.post(f"/grants/{grant.pk}/decide", {"outcome": "granted", "reason": "go"}).status_code == 303
    assert 'value="deadline"' in text(client.get("/book"))
    assert client.post("/book", asked(cards(1), project=vision.pk, tier="deadline")).status_code == 303
    assert "32 of 40 hours × cards left" in text(client.get(f"/projects/{vision.pk}/"))
    assert browser(arbiter()).post(f"/grants/{grant.pk}/revoke", {"reason": "moved"}).status_code == 303
    assert Reservation.objects.get().tier == "regular"
    assert "deadline grant revoked" in text(client.get(f"/reservations/{Reservation.objects.get().pk}/"))


def test_the_list_of_projects_asks_for_as_little_with_many_as_with_few(client: Client, lin: Member) -> None:
    counts = []
    arbiter()
    for number in (2, 6):
        for _ in range(number):
            one = project("", lin)
            grants.request(
                one.pk, deadline=date(2026, 12, 9), reason="x", card_hours=1, first_day=date(2026, 12, 1),
                last_day=date(2026, 12, 9), by=one.advisor, now=NOW,
            )
        DeadlineGrant.objects.filter(pk=DeadlineGrant.objects.order_by("pk")[0].pk).update(state="granted")
        with CaptureQueriesContext(connection) as found:
            for page in ("/projects/", "/book"):
                assert client.get(page).status_code == 200
        counts.append(len(found))
    assert counts[0] == counts[1] <= 24


@pytest.mark.parametrize("address", ["/projects/999999999999999999999999/", "/projects/0/"])
def test_a_project_that_is_not_there_is_404(client: Client, lin: Member, address: str) -> None:
    assert client.get(address).status_code == 404


# --- collaborators -----------------------------------------------------------------------------------------------------


def test_b4_asked_accepted_left_and_taken_away_on_the_page_of_the_reservation(client: Client, lin: Member) -> None:
    wu = member("Wu")
    made = reservation(lin, cards(1), None, 4, tier="exploration")
    page = text(client.get(f"/reservations/{made.pk}/"))
    assert "Ask somebody to work on these cards" in page and f'<option value="{wu.pk}">Wu</option>' in page
    assert client.post(f"/reservations/{made.pk}/collaborators", {"member": wu.pk}).status_code == 303
    other = browser(wu)
    page = text(other.get(f"/reservations/{made.pk}/"))
    assert "You are asked to work on these cards." in page and "Release now" not in page
    assert other.post(f"/reservations/{made.pk}/collaboration", {"answer": "yes"}).status_code == 303
    page = text(other.get(f"/reservations/{made.pk}/"))
    assert "Release now" in page and "Leave these cards" in page and "Cancel the reservation" not in page
    assert client.post(f"/reservations/{made.pk}/collaborators/{wu.pk}/remove").status_code == 303
    assert Collaborator.objects.get().state == "removed"
    assert other.post(f"/reservations/{made.pk}/collaboration", {"answer": "yes"}).status_code == 404


@pytest.mark.parametrize("sent", [{}, {"member": "x"}, {"member": "9" * 30}, {"member": "-1"}])
def test_b4_nonsense_asks_nobody(client: Client, lin: Member, sent: dict[str, str]) -> None:
    made = reservation(lin, cards(1), None, 4, tier="exploration")
    response = client.post(f"/reservations/{made.pk}/collaborators", sent)
    assert response.status_code == 422 and "no such member" in text(response)
    assert not Collaborator.objects.exists()


def test_b4_the_panel_answers_htmx_with_itself(client: Client, lin: Member) -> None:
    wu = member("Wu")
    made = reservation(lin, cards(1), None, 4, tier="exploration")
    response = client.post(
        f"/reservations/{made.pk}/collaborators", {"member": wu.pk}, headers={"HX-Request": "true"}
    )
    assert response.status_code == 200 and text(response).lstrip().startswith("<article")
    collaborators.accept(made.pk, by=wu, now=NOW)


# --- leaving -----------------------------------------------------------------------------------------------------------


def test_b2_an_admin_sets_a_last_day_and_lets_somebody_leave() -> None:
    lab()
    boss, lin, wu = browser(admin()), member("Lin"), member("Wu")
    project("Vision", advisor=lin)
    form = {"role": "phd", "is_active": "on", "ends_on": "2026-12-24"}
    assert boss.post(f"/members/{lin.pk}/", form).status_code == 303
    lin.refresh_from_db()
    assert lin.ends_on == date(2026, 12, 24)
    assert 'value="2026-12-24"' in text(boss.get(f"/members/{lin.pk}/"))
    assert boss.post(f"/members/{lin.pk}/", form | {"ends_on": "soon"}).status_code == 422
    response = boss.post(f"/members/{lin.pk}/leave", {})
    assert response.status_code == 422 and "They lead projects: Vision." in text(response)
    assert boss.post(f"/members/{lin.pk}/leave", {"successor": wu.pk}).status_code == 303
    assert "has left" in text(boss.get("/members/"))


# --- the demonstration -------------------------------------------------------------------------------------------------


def test_n_people_of_the_demonstration_have_projects_and_book_in_the_regular_tier(
    tmp_path, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DATA_DIR, settings.SCENARIO_DIR = tmp_path, tmp_path / "scenarios"
    monkeypatch.setattr(demo, "DAYS_BACK", 1)
    monkeypatch.setattr(demo, "DAYS_AHEAD", 2)
    demo.load(now=NOW)
    assert Project.objects.count() == 3
    assert not Member.objects.filter(led_projects=None, project_memberships=None).exists()
    assert Reservation.objects.filter(tier="regular", project_pays=True).exists()
    assert not Reservation.objects.filter(tier="regular", project=None).exists()
