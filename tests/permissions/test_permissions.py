"""T11: the table holds, at every address, for everybody, by every method."""

from __future__ import annotations

from typing import Any

import pytest

from reservations.models import Member
from reservations.services import demo
from tests.conftest import AGAIN

from . import world
from .checker import ALSO_SAFE, Cell, Check, cells, columns_of, path, unmatched
from .table import GROUPS, METHODS, TABLE, Row

pytestmark = pytest.mark.django_db


def rows(group: str) -> list[Row]:
    return [row for row in TABLE if row.group == group]


def rests_on_the_database(cell: Cell) -> bool:
    """What the second database is asked again: whatever changes rows, by whomever; and each page and refused form, by one
    column, for its statements. That a door, a method or a right refuses is decided before, and has been asked of everybody."""
    return cell.changes or (cell.method in ("GET", "POST") and cell.column == ("admin" if "admin" in cell.route else "arbiter"))


def test_every_route_has_one_row_and_every_row_a_route() -> None:
    assert unmatched() == []


@pytest.mark.parametrize("group", GROUPS)
def test_the_table_holds(group: str) -> None:
    check = Check(world.lab())
    wrong = check.holds(rows(group), columns_of(check.world), wanted=rests_on_the_database if AGAIN else None)
    assert not wrong, "\n".join(["", *wrong])
    if group == "reservations":
        assert {"note of other", "note of arbiter"} <= check.shown  # there was something to leak


def test_the_table_holds_before_set_up(tmp_path: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DATA_DIR, settings.SCENARIO_DIR = tmp_path, tmp_path / "scenarios"
    # Who may load a demonstration is asked here, not what is in it: without its three weeks.
    monkeypatch.setattr(demo, "_weeks", lambda *_: None)
    monkeypatch.setattr(demo, "_record", lambda *_: None)
    check = Check(world.empty())
    wrong = check.holds(TABLE, columns_of(check.world), wanted=rests_on_the_database if AGAIN else None)
    assert not wrong, "\n".join(["", *wrong])


@pytest.mark.once
def test_no_form_is_taken_without_its_token() -> None:
    """A page elsewhere cannot press for whoever is signed in here: no address is left out of the protection."""
    lab, wrong = world.lab(), []
    unsafe = [method for method in METHODS if method not in ALSO_SAFE]
    with world.undone():
        for row in TABLE:
            for cell in cells(row, ("admin",), unsafe):
                where = path(cell.route, world.kwargs(lab, cell.route, cell.column, cell.found))
                form = world.body(lab, cell.route, cell.column, cell.found)
                response = world.send(lab.client(cell.column, csrf=True), cell.method, where, form)
                if response.status_code != 403:
                    wrong.append(f"{cell}: {response.status_code}")
        wrong += world.changed(lab.rows, world.dump())
    assert not wrong, "\n".join(["", *wrong])


def test_the_admin_signs_nobody_in_and_changes_no_password_past_the_limits() -> None:
    """AU-13: Django's own forms count no failures; an admin's session must not be a place to try passwords."""
    lab = world.lab()
    client = lab.client("admin")
    for password in ("wrong", world.PASSWORD):
        response = client.post("/admin/login/", {"username": "arbiter@lab.example", "password": password, "next": "/admin/"})
        assert (response.status_code, response["Location"]) == (302, "/admin/")
    assert client.session["_auth_user_id"] == str(lab.people["admin"].pk)
    form = {"old_password": world.PASSWORD, "new_password1": world.NEW_PASSWORD, "new_password2": world.NEW_PASSWORD}
    assert client.post("/admin/password_change/", form)["Location"] == "/accounts/password/change/"
    assert Member.objects.get(pk=lab.people["admin"].pk).check_password(world.PASSWORD)


def test_rights_end_at_once() -> None:
    """A right taken away is gone at the next request of a session that is still open (ASVS 8.3.2)."""
    lab = world.lab()
    admin, arbiter, member = (lab.client(name) for name in ("admin", "arbiter", "member"))
    for client, where in ((admin, "/members/"), (arbiter, "/cases/"), (member, "/mine")):
        assert client.get(where).status_code == 200
    Member.objects.filter(pk=lab.people["admin"].pk).update(is_admin=False)
    Member.objects.filter(pk=lab.people["arbiter"].pk).update(is_arbiter=False)
    Member.objects.filter(pk=lab.people["member"].pk).update(is_active=False)
    assert admin.get("/members/").status_code == 403
    assert admin.get("/admin/")["Location"].startswith("/admin/login/")
    assert arbiter.get("/cases/").status_code == 404
    assert member.get("/mine")["Location"].startswith("/accounts/login/")
