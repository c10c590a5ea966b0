"""The check finds what it is for: each guard taken away is told by the name of its cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.http import Http404, HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import clear_url_caches, include, path
from django.urls.resolvers import URLPattern
from django.views.decorators.http import require_safe

from labgpu import urls
from reservations import admin, permissions
from reservations import urls as ledger
from reservations.models import Gpu, Member
from reservations.views import board, hosts, language, members, mine, reservation
from reservations.views.access import member_required
from tests import factories as make

from . import world
from .checker import Check, unmatched
from .table import TABLE

pytestmark = pytest.mark.django_db
View = Callable[..., HttpResponse]
PEOPLE = ("anonymous", "unapproved", "member", "arbiter")


def _urls(patterns: list[Any]) -> Any:
    class Conf:
        urlpatterns = patterns
        handler400, handler403, handler404, handler500 = urls.handler400, urls.handler403, urls.handler404, urls.handler500

    return Conf


def _with(**views: View) -> Any:
    """The site's addresses with these views in place of theirs."""
    changed = [
        URLPattern(one.pattern, views[one.name.replace("-", "_")], one.default_args, one.name)
        if one.name and one.name.replace("-", "_") in views else one
        for one in ledger.urlpatterns
    ]
    return _urls([path("", include(changed)), *urls.urlpatterns[1:]])


def _wrong(routes: str, columns: tuple[str, ...] = PEOPLE, **views: View) -> list[str]:
    lab = world.lab()
    with override_settings(ROOT_URLCONF=_with(**views)):
        clear_url_caches()
        rows = [row for row in TABLE if set(routes.split()) & set(row.routes)]
        found = Check(lab).holds(rows, columns)
    clear_url_caches()
    return found


def _bare(view: View) -> View:
    """The view without any of its decorators."""
    while hasattr(view, "__wrapped__"):
        view = view.__wrapped__
    return view


def test_a_lab_put_back_is_the_lab_that_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests of this folder see rows that were kept: they are those of a fresh lab, and tell when they would not be."""
    monkeypatch.setattr(world, "_kept", [])
    with world.undone():
        made = world.lab()
        fresh, sessions, cards = world.dump(), sorted(Session.objects.values_list()), Gpu.objects.count()
    with world.undone():
        assert not Member.objects.exists()
        kept = world.lab()
        assert (world.dump(), sorted(Session.objects.values_list())) == (fresh, sessions)
        assert kept.rows == fresh == made.rows
        client = kept.client("member")
        assert client.get("/mine").status_code == 200
        make.cards(1)  # keys go on where they were
        assert Gpu.objects.count() == cards + 1


@pytest.mark.once
def test_nothing_is_wrong_with_the_site_as_it_is() -> None:
    assert _wrong("host-add set-language release") == []


def test_a_route_without_a_row_and_a_row_without_a_route_are_named() -> None:
    planted = path("planted", lambda request: HttpResponse(), name="planted")
    with override_settings(ROOT_URLCONF=_urls([*urls.urlpatterns, planted])):
        assert unmatched() == ["route without a row: planted"]
    with override_settings(ROOT_URLCONF=_urls([*urls.urlpatterns, planted, planted])):
        assert "two routes called planted" in unmatched()
    with override_settings(ROOT_URLCONF=_urls([one for one in urls.urlpatterns if one is not urls.urlpatterns[2]])):
        assert "row without a route: account_login" in unmatched()


@pytest.mark.once
def test_rights_that_let_everybody_do_everything_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (permissions, reservation, admin):
        monkeypatch.setattr(module, "may", lambda *_: True)
    wrong = _wrong("release dispute case cases members", ("member", "admin"))
    for piece in (
        "release POST other, member: 404, but was 303", "dispute POST other, member: 404, but was 303",
        "case GET other, member: 404, but was 200", "cases GET, member: 404, but was 200",
        "members GET, member: 403, but was 200",
    ):
        assert any(one.startswith(piece) for one in wrong), piece
    assert any("that may change nothing changed" in one for one in wrong)


def test_a_right_checked_in_the_view_alone_is_checked_again_where_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservation, "may", lambda *_: True)
    assert _wrong("release", ("member",)) == []


@pytest.mark.once
def test_a_page_without_its_door_is_found() -> None:
    wrong = _wrong("board", board=require_safe(_bare(board.board)))
    assert "board GET, unapproved: W, but was 200 " in wrong
    assert any(one.startswith("board GET, anonymous: L") for one in wrong)


@pytest.mark.once
def test_a_page_whose_door_lets_every_member_in_is_found() -> None:
    wrong = _wrong("hosts members", hosts=require_safe(member_required(_bare(hosts.hosts))),
                   members=require_safe(member_required(_bare(members.members))))
    assert "hosts GET, member: 403, but was 200 " in wrong and "members GET, arbiter: 403, but was 200 " in wrong


@pytest.mark.once
def test_a_method_that_is_let_through_is_found() -> None:
    wrong = _wrong("mine", mine=member_required(_bare(mine.mine)))
    assert "mine PUT, member: 405, but was 200 " in wrong


@pytest.mark.once
def test_a_page_that_writes_when_looked_at_is_found() -> None:
    @require_safe
    @member_required
    def writing(request: HttpRequest) -> HttpResponse:
        Member.objects.filter(pk=request.user.pk).update(zone="UTC")
        return HttpResponse()

    wrong = _wrong("mine", mine=writing)
    assert any(one.startswith("mine GET, member: wrote UPDATE") for one in wrong)
    assert any("mine, member: something that may change nothing changed reservations_member" in one for one in wrong)


def test_a_form_that_takes_a_field_too_many_is_found() -> None:
    def taking(request: HttpRequest) -> HttpResponse:
        response = language.set_language(request)
        if request.user.is_authenticated and "approval" in request.POST:
            Member.objects.filter(pk=request.user.pk).update(is_admin=request.POST["is_admin"] == "on")
        return response

    wrong = _wrong("set-language", set_language=taking)
    assert any(one.startswith("set-language POST, member: an extra field was applied: reservations_member") for one in wrong)


@pytest.mark.once
def test_a_refusal_that_tells_more_is_found() -> None:
    def telling(request: HttpRequest, pk: int) -> HttpResponse:
        if request.method == "POST" and pk != world.MISSING and not request.user.is_anonymous:
            return HttpResponse("It is somebody else's.", status=404)
        raise Http404

    wrong = _wrong("release", ("member",), release=telling)
    assert any(one.startswith("release POST other, member: told from one that is missing") for one in wrong)
