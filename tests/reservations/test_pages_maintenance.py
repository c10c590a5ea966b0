"""Maintenance on pages: shown before it is announced, on the schedule, and equal cards with one press (G5, G6, K1)."""

from typing import Any

import pytest
import time_machine
from django.test import Client

from reservations import queries
from reservations.messages import compose
from reservations.models import CardState, Gpu, Maintenance, Member, Notification, Reservation
from reservations.obsolete import cause
from reservations.services import interrupting, maintenance
from tests import factories
from tests.factories import NOW, at

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _now() -> Any:
    factories.lab()
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def gpus() -> list[Gpu]:
    found = factories.cards(2, factories.host("gpu-a"))
    CardState.objects.bulk_create(
        CardState(gpu=gpu, state=CardState.State.FREE, since=NOW, sampled_at=NOW) for gpu in found
    )
    return found


@pytest.fixture
def boss(client: Client) -> Member:
    boss = factories.admin("Boss")
    client.force_login(boss)
    return boss


@pytest.fixture
def lin() -> Member:
    return factories.member("Lin")


def announce(boss: Member, gpus: list[Gpu], start: float | None, end: float, *, urgent: bool = False) -> Maintenance:
    return maintenance.announce(
        [gpu.pk for gpu in gpus], None if start is None else at(start), at(end), reason="new fan", urgent=urgent, by=boss,
        now=NOW,
    )


FORM = {"start": "2026-12-01T12:00", "end": "2026-12-01T20:00", "reason": "new fan"}


def test_bt_15_the_admin_sees_who_is_affected_before_anything_is_written(
    client: Client, gpus: list[Gpu], boss: Member, lin: Member
) -> None:
    factories.reservation(lin, [gpus[0]], 23, 25, may_move=False)
    page = client.post("/maintenance/", {**FORM, "card": gpus[0].pk, "do": "look"}).content.decode()
    assert "These make room, and are told:" in page and "Lin" in page and "It can begin on all these cards at" in page
    assert not Maintenance.objects.exists()
    seen = page.split('name="seen" value="')[1].split('"')[0]
    answer = client.post("/maintenance/", {**FORM, "card": gpus[0].pk, "do": "announce", "seen": seen})
    assert (answer.status_code, answer["Location"]) == (303, "/maintenance/")
    assert Reservation.objects.get().status == "displaced"
    assert "new fan" in client.get("/maintenance/").content.decode()


def test_what_was_not_shown_is_not_announced(client: Client, gpus: list[Gpu], boss: Member, lin: Member) -> None:
    factories.reservation(lin, [gpus[0]], 23, 25, may_move=False)
    answer = client.post("/maintenance/", {**FORM, "card": gpus[0].pk, "do": "announce", "seen": "nothing"})
    assert answer.status_code == 409
    assert "These make room, and are told:" in answer.content.decode()
    assert Reservation.objects.get().status == "booked"


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({"end": ""}, 422, "Choose when it ends."),
        ({"end": "soon"}, 422, "This is not a date and time."),
        ({"end": "2030-01-01T00:00"}, 422, "A maintenance ends within a year."),
        ({"end": "2026-12-01T11:00"}, 422, "The end must lie after the start."),
        ({"card": "987654"}, 422, "One of the cards does not exist here."),
        ({"card": "x"}, 422, "One of the cards does not exist here."),
        ({"card": []}, 422, "Choose at least one card."),
        ({"urgent": "on", "reason": " ", "do": "announce"}, 422, "Write a reason"),
    ],
)
def test_what_cannot_be_announced_is_said_and_nothing_is_written(
    client: Client, gpus: list[Gpu], boss: Member, changes: dict[str, Any], status: int, says: str
) -> None:
    answer = client.post("/maintenance/", {**FORM, "card": gpus[0].pk, "do": "look", **changes})
    assert (answer.status_code, says in answer.content.decode()) == (status, True)
    assert not Maintenance.objects.exists()


def test_a_maintenance_is_ended_from_the_list(client: Client, gpus: list[Gpu], boss: Member) -> None:
    made = announce(boss, gpus, None, 4)
    assert "End it now" in client.get("/maintenance/").content.decode()
    assert client.post(f"/maintenance/{made.pk}/end").status_code == 303
    assert "Nothing is announced." in client.get("/maintenance/").content.decode()


@pytest.mark.parametrize("view", ["", "?view=week", "?view=list"])
def test_g5_the_schedule_shows_maintenance(client: Client, gpus: list[Gpu], boss: Member, view: str) -> None:
    announce(boss, [gpus[0]], None, 4)
    page = client.get("/" + view).content.decode()
    assert "maintenance" in page and "in maintenance until" in page
    assert "reservations/0/" not in page


def test_g5_a_card_before_its_maintenance_is_free_until_then(client: Client, gpus: list[Gpu], boss: Member) -> None:
    announce(boss, [gpus[0]], 2, 4)
    assert "free until Mon 16:00" in client.get("/").content.decode()


def test_g5_the_page_of_an_interrupted_reservation_has_the_one_press(
    client: Client, gpus: list[Gpu], boss: Member, lin: Member
) -> None:
    row = factories.reservation(lin, [gpus[0]], None, 8)
    announce(boss, [gpus[0]], None, 10, urgent=True)
    client.force_login(lin)
    page = client.get(f"/reservations/{row.pk}/").content.decode()
    assert "Take an equal card" in page and "gpu-a:1" in page and "interrupted" in page
    key = page.split("/equal")[-1].split('name="key" value="')[1].split('"')[0]
    answer = client.post(f"/reservations/{row.pk}/equal", {"key": key})
    assert answer.status_code == 303
    made = Reservation.objects.get(instead_of=row)
    assert (made.allocations.get().gpu, made.end) == (gpus[1], at(8))
    assert "Take an equal card" not in client.get(f"/reservations/{row.pk}/").content.decode()
    assert client.post(f"/reservations/{row.pk}/equal", {"key": "another"}).status_code == 422
    assert client.post(f"/reservations/{row.pk}/equal").status_code == 422


def test_where_no_equal_card_is_free_the_page_says_so(client: Client, gpus: list[Gpu], boss: Member, lin: Member) -> None:
    row = factories.reservation(lin, [gpus[0]], None, 8)
    announce(boss, gpus, None, 10, urgent=True)
    client.force_login(lin)
    assert "No equal card is free for the rest of the time now." in client.get(f"/reservations/{row.pk}/").content.decode()


def test_a_card_is_replaced_from_the_hosts_page(client: Client, gpus: list[Gpu], boss: Member, lin: Member) -> None:
    factories.reservation(lin, [gpus[0]], 3, 5)
    where = f"/cards/{gpus[0].pk}/replace"
    assert f'href="{where}"' in client.get("/hosts/").content.decode()
    choice = client.get(where).content.decode()
    assert f'<option value="{gpus[1].pk}">' in choice and f'<option value="{gpus[0].pk}">' not in choice
    assert client.post(where, {"new": gpus[1].pk}).status_code == 303
    assert Reservation.objects.get().allocations.get().gpu == gpus[1]
    for wrong in (gpus[1].pk, "x"):
        again = client.post(f"/cards/{gpus[1].pk}/replace", {"new": wrong})
        assert again.status_code == 422 and "A replacement is another card that is in service." in again.content.decode()
    assert client.get("/cards/987654/replace").status_code == 404
    assert client.post("/cards/987654/replace", {"new": gpus[1].pk}).status_code == 404


def test_a_card_that_is_booked_meanwhile_takes_nothing_over(client: Client, gpus: list[Gpu], boss: Member, lin: Member) -> None:
    factories.reservation(lin, [gpus[0]], 3, 5)
    factories.reservation(lin, [gpus[1]], 4, 6)
    refused = client.post(f"/cards/{gpus[0].pk}/replace", {"new": gpus[1].pk})
    assert refused.status_code == 409 and f'<option value="{gpus[1].pk}" selected>' in refused.content.decode()
    assert Reservation.objects.filter(allocations__gpu=gpus[0]).count() == 1


def test_the_hosts_page_grows_with_the_cards_and_not_with_their_square(client: Client, boss: Member) -> None:
    host = factories.host()
    sizes = []
    for _ in range(3):
        factories.cards(16, host)
        sizes.append(len(client.get("/hosts/").content))
    assert abs((sizes[2] - sizes[1]) - (sizes[1] - sizes[0])) < 500


def said(kind: str) -> str:
    row = Notification.objects.get(kind=kind)
    assert cause(row, NOW) == ""
    message = compose(row, queries.lab_facts(), NOW)
    return f"{message.subject}\n{message.text}"


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_k1_each_message_says_why_and_what_to_do(gpus: list[Gpu], boss: Member, language: str) -> None:
    lin = factories.member("Lin", language=language)
    wang = factories.member("Wang", language=language)
    factories.reservation(lin, [gpus[0]], None, 8)
    factories.reservation(wang, [gpus[0]], 9, 10)
    announce(boss, [gpus[0]], 2, 12, urgent=True)
    warning, swapped = said("maintenance"), said("swapped")
    CardState.objects.filter(gpu=gpus[0]).update(lost_since=at(-1), lost_how="gone")
    interrupting.interrupt(Reservation.objects.get(holder=lin).pk, now=NOW)
    interrupted = said("interrupted")
    if language == "en":
        assert "Urgent maintenance from 16:00" in warning and "Save your work by" in warning and "new fan" in warning
        assert "Other cards, same time: 1 × RTX 4090 (gpu-a:1)" in swapped and "You need do nothing." in swapped
        assert "Interrupted: 1 × RTX 4090 (gpu-a:0)" in interrupted and "A card is offline." in interrupted
        assert "no point is given" in interrupted
    else:
        assert "维护" in warning and "同一时间" in swapped and "中断" in interrupted


def test_k2_the_warning_of_a_maintenance_that_was_called_off_is_dropped(gpus: list[Gpu], boss: Member, lin: Member) -> None:
    factories.reservation(lin, [gpus[0]], None, 8)
    made = announce(boss, [gpus[0]], 2, 12, urgent=True)
    row = Notification.objects.get(kind="maintenance")
    assert cause(row, NOW) == ""
    maintenance.end_early(made.pk, by=boss, now=NOW)
    assert cause(row, NOW) == "the maintenance was called off"


def test_k1_who_is_displaced_by_maintenance_reads_that(gpus: list[Gpu], boss: Member, lin: Member) -> None:
    factories.reservation(lin, [gpus[0]], 20, 24, may_move=False)
    announce(boss, [gpus[0]], 19, 30)
    assert "The cards are in maintenance then. Choose another time or other cards now." in said("displaced")
