"""Links in messages (K4): looking changes nothing, forging is hopeless, a press acts once (LK, T10)."""

from __future__ import annotations

import logging
import random
import re
import string
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
import time_machine
from django.apps import apps
from django.core.signing import Signer
from django.db import connection
from django.http import HttpResponse
from django.test import Client

from labgpu.logs import MaskTokens
from reservations import links
from reservations.links import Link, LinkAction, link_for
from reservations.models import AuditEntry, CardState, LedgerEntry, Member, Notification, Reservation
from reservations.services import booking, changes, extension
from reservations.services.locking import Busy
from reservations.views import links as view
from tests.factories import arbiter, at, cards, lab, member, reservation

pytestmark = pytest.mark.django_db
END = at(4)  # 18:00 in Shanghai
PRESS = END - timedelta(minutes=8)  # 17:52


@pytest.fixture(autouse=True)
def _lab(db: None) -> None:
    lab()


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(PRESS, tick=False) as traveller:
        yield traveller


@pytest.fixture
def made() -> Reservation:
    return reservation(member("Lin"), cards(1), None, 4)


def path(made: Reservation, action: LinkAction = LinkAction.RELEASE) -> str:
    made.refresh_from_db()
    return f"/r/{link_for(made, action).token}"


def release(client: Client, address: str, **rest: Any) -> HttpResponse:
    return client.post(address, {"do": "release"}, **rest)


def extend(client: Client, address: str, end: datetime) -> HttpResponse:
    return client.post(address, {"do": "extend", "end": end.isoformat()})


def undo(client: Client, address: str) -> HttpResponse:
    return client.post(address, {"do": "undo"})


def text(response: HttpResponse) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode().split("<main")[1].split("</main>")[0]))


def dump() -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table."""
    found = {}
    for model in apps.get_models(include_auto_created=True):
        found[model._meta.label] = list(model._default_manager.order_by("pk").values_list())
    return found


# --- looking ----------------------------------------------------------------------------------------------------------


SCANNERS = [
    {}, {"HTTP_USER_AGENT": "Mozilla/5.0 (compatible; SafeLinks)"}, {"HTTP_USER_AGENT": "Barracuda/5.0"},
    {"HTTP_PURPOSE": "prefetch"}, {"HTTP_SEC_PURPOSE": "prefetch;prerender"}, {"HTTP_X_PURPOSE": "preview"},
    {"HTTP_USER_AGENT": "facebookexternalhit/1.1"}, {"HTTP_USER_AGENT": "Lark-Url-Preview"},
    {"HTTP_ACCEPT": "*/*", "HTTP_ACCEPT_LANGUAGE": "*"}, {"HTTP_REFERER": "https://mail.example.edu/"},
    {"HTTP_X_MOZ": "prefetch"}, {"HTTP_USER_AGENT": "curl/8.5", "HTTP_RANGE": "bytes=0-0"},
]


@pytest.mark.parametrize("action", [LinkAction.RELEASE, LinkAction.EXTEND])  # offers: test_pages_waitlist
def test_lk_01_lk_02_scanners_change_no_row_and_the_persons_press_still_works(
    made: Reservation, action: LinkAction, clock: Any
) -> None:
    address, before = path(made, action), dump()
    assert before["reservations.Notification"]  # a dump of nothing would prove nothing
    signed_in = Client()
    signed_in.force_login(made.holder)
    before = dump()
    for headers in SCANNERS:
        for client in (Client(), Client(enforce_csrf_checks=True), signed_in):
            assert client.get(address, follow=True, **headers).status_code == 200
            assert client.head(address, **headers).status_code == 200
            assert client.options(address, **headers).status_code == 200
    assert dump() == before
    clock.shift(timedelta(minutes=5))
    assert Client().post(address, {"do": str(action), "end": at(5).isoformat()}).status_code == 200
    assert dump() != before


@pytest.mark.parametrize("method", ["put", "patch", "delete", "trace"])
def test_no_other_method_does_anything(made: Reservation, method: str, clock: Any) -> None:
    address, before = path(made), dump()
    assert getattr(Client(), method)(address).status_code == 405
    assert dump() == before


def test_the_page_says_what_it_is_about_and_nothing_else(made: Reservation, clock: Any) -> None:
    Reservation.objects.update(note="secret plan")
    page = text(Client().get(path(made)))
    for piece in ("Release these cards now?", "1 × RTX 4090", "Mon 30 Nov 14:00", "Mon 30 Nov 18:00", "active", "Release now"):
        assert piece in page
    for private in ("secret plan", "Lin", made.holder.email, "regular", "training"):
        assert private not in page


def test_before_the_press_the_page_says_what_still_runs_and_that_nothing_is_ended(made: Reservation, clock: Any) -> None:
    gpu = made.allocations.get().gpu
    CardState.objects.create(
        gpu=gpu, state="in_use", since=PRESS, sampled_at=PRESS, process_count=1, owner_ids=[made.holder_id], utilization=50
    )
    page = text(Client().get(path(made)))
    assert f"Processes of yours are still seen on {gpu}." in page
    assert "LabGPU ends no process" in page
    assert release(Client(), path(made)).status_code == 200  # one press is enough
    made.refresh_from_db()
    assert made.status == "released"


@pytest.mark.parametrize(
    ("state", "age_s", "said"),
    [
        ("free", 0, "No processes of the holder are seen"),
        ("in_use", 0, "It is not known whether the holder's processes still run"),
        ("free", 31, "It is not known whether the holder's processes still run"),
    ],
)
def test_unknown_is_not_said_to_be_free(made: Reservation, state: str, age_s: int, said: str, clock: Any) -> None:
    when = PRESS - timedelta(seconds=age_s)
    count = 0 if state == "free" else 1
    gpu = made.allocations.get().gpu
    CardState.objects.create(gpu=gpu, state=state, since=when, sampled_at=when, process_count=count)
    assert said in text(Client().get(path(made)))


def test_lk_12_the_token_goes_nowhere_and_the_page_loads_nothing_from_outside(made: Reservation, clock: Any) -> None:
    for response in (Client().get(path(made)), release(Client(), path(made))):
        assert response["Referrer-Policy"] == "strict-origin"
        assert response["Cache-Control"] == "no-store, private"
        assert response["X-Robots-Tag"] == "noindex, nofollow"
        body = response.content.decode()
        assert not re.findall(r'(?:src|href)="(?:https?:)?//(?!127\.0\.0\.1:8000/)', body)
        assert re.findall(r'<script src="/static/js/link', body)


def test_lk_12_a_used_link_is_taken_out_of_the_address(made: Reservation, clock: Any) -> None:
    assert b"data-used" not in Client().get(path(made)).content
    assert b"data-used" in release(Client(), path(made)).content


def test_lk_12_a_log_line_with_a_link_is_no_key(made: Reservation) -> None:
    link = link_for(made, LinkAction.RELEASE)
    record = logging.LogRecord("x", 20, "f", 1, 'GET %s HTTP/1.1" 200', (f"/r/{link.token}",), None)
    MaskTokens().filter(record)
    assert record.getMessage() == 'GET /r/… HTTP/1.1" 200'


def test_lk_12_a_link_that_leads_nowhere_is_masked_too(caplog: pytest.LogCaptureFixture, made: Reservation, clock: Any) -> None:
    token = link_for(made, LinkAction.RELEASE).token
    caplog.handler.addFilter(MaskTokens())
    Client().get(f"/r/{token}x")
    assert "Not Found: /r/…" in caplog.text
    assert token not in caplog.text


@pytest.mark.parametrize(("language", "word"), [("en", "Release now"), ("zh-hans", None)])
def test_the_page_speaks_the_language_of_the_mail(made: Reservation, language: str, word: str | None, clock: Any) -> None:
    Member.objects.update(language=language)
    response = Client().get(path(made), HTTP_ACCEPT_LANGUAGE="de")
    assert response["Content-Language"] == language
    assert f'<html lang="{language}"' in response.content.decode()
    if word:
        assert word in response.content.decode()


# --- forging ----------------------------------------------------------------------------------------------------------


def _changes(token: str, other: Reservation, chance: random.Random) -> Iterator[str]:
    said, _, signature = token.rpartition(":")
    reservation_id, member_id, action, version = said.split(".")
    alphabet = string.ascii_letters + string.digits + "-_.:~=%+ é一"
    for place in range(len(token)):  # every character: changed, dropped, doubled
        yield token[:place] + chance.choice([one for one in alphabet if one != token[place]]) + token[place + 1 :]
        yield token[:place] + token[place + 1 :]
        yield token[:place] + token[place] + token[place:]
    for parts in (
        [str(other.pk), member_id, action, version], [reservation_id, str(other.holder_id), action, version],
        [reservation_id, member_id, "extend" if action == "release" else "release", version],
        [reservation_id, member_id, action, str(int(version) + 1)], ["0" + reservation_id, member_id, action, version],
        [reservation_id, member_id, action.upper(), version], [reservation_id, member_id, "undo", version],
        [f"+{reservation_id}", member_id, action, version], [reservation_id, member_id, action, version, ""],
    ):
        yield ".".join(parts) + ":" + signature
    for salt in ("", "reservations.link", "django.core.signing.Signer", "reservations.linkssigner"):
        yield Signer(salt=salt).sign(said)
    yield Signer(key="another installation", salt="reservations.links").sign(said)
    yield said + ":"
    yield said
    yield signature
    yield token.upper()
    yield token.swapcase()
    yield token + "="
    yield token + "\x00"
    yield " " + token
    yield token[::-1]
    yield f"{token}:{signature}"


@pytest.mark.once
def test_t10_two_thousand_forgeries_and_none_is_accepted(clock: Any) -> None:
    lab(cards_at_once=100)
    chance = random.Random(20261130)
    tried, before = 0, None
    rows = [reservation(member(), cards(1), None, 4) for _ in range(6)]
    client = Client()
    client.raise_request_exception = True
    for number, made in enumerate(rows):
        other = rows[(number + 1) % len(rows)]
        for action in LinkAction:
            token = link_for(made, action).token
            assert client.get(f"/r/{token}").status_code == 200  # the real one works
            before = before or dump()
            for forged in _changes(token, other, chance):
                if forged == token:
                    continue
                with pytest.raises(links.Forged):
                    links.read(forged)
                tried += 1
                if tried % 10 == 0:  # and as real requests
                    address = f"/r/{quote(forged, safe='')}"
                    assert client.get(address).status_code == 404
                    assert release(client, address).status_code == 404
    assert tried >= 2000
    assert dump() == before


def test_all_forgeries_get_the_same_answer(made: Reservation, clock: Any) -> None:
    other = reservation(member("Wei"), cards(1), None, 4)
    token = link_for(made, LinkAction.RELEASE).token
    signature = token.rpartition(":")[2]
    gone = Link(10**9, made.holder_id, LinkAction.RELEASE, 1).token
    foreign = Link(other.pk, made.holder_id, LinkAction.RELEASE, 1).token
    forged = [token[:-1] + ("A" if token[-1] != "A" else "B"), f"{other.pk}.1.release.1:{signature}", "x", gone, foreign]

    def said(one: str) -> tuple[int, str]:
        response = Client().get(f"/r/{one}")
        return response.status_code, text(response)

    answers = {said(one) for one in forged}
    assert len(answers) == 1
    status, page = answers.pop()
    assert (status, "This link is not valid" in page) == (404, True)


@pytest.mark.parametrize("body", [{"do": "extend", "end": at(5).isoformat()}, {"do": "move"}, {"do": ""}, {}])
def test_lk_10_a_release_link_does_nothing_but_release(made: Reservation, body: dict[str, str], clock: Any) -> None:
    other = reservation(member("Wei"), cards(1), None, 4)
    address, before = path(made), dump()
    for extra in ({}, {"reservation": other.pk, "id": other.pk, "member": other.holder_id, "action": "release"}):
        assert Client().post(f"{address}?reservation={other.pk}", {**body, **extra}).status_code == 404
    assert dump() == before


@pytest.mark.parametrize("do", ["release", "undo", "cancel"])
def test_lk_10_an_extend_link_does_nothing_but_extend(made: Reservation, do: str, clock: Any) -> None:
    address, before = path(made, LinkAction.EXTEND), dump()
    assert Client().post(address, {"do": do}).status_code == 404
    assert dump() == before


def test_lk_10_another_id_in_the_body_changes_nothing_of_whom_it_acts_for(made: Reservation, clock: Any) -> None:
    other = reservation(member("Wei"), cards(1), None, 4)
    Client().post(path(made), {"do": "release", "reservation": other.pk, "id": other.pk, "version": 99})
    other.refresh_from_db()
    made.refresh_from_db()
    assert (made.status, other.status) == ("released", "active")


def test_lk_10_a_forwarded_link_acts_for_its_member_and_the_audit_says_who_was_signed_in(
    made: Reservation, clock: Any
) -> None:
    wei, client = member("Wei"), Client()
    client.force_login(wei)
    assert "You are signed in as somebody else" in text(client.get(path(made)))
    assert release(client, path(made)).status_code == 200
    entry = AuditEntry.objects.get(verb="release")
    assert (entry.actor, entry.origin, entry.change["pressed_by"]) == (made.holder, "link", wei.pk)


def test_nobody_signed_in_leaves_nobody_in_the_audit(made: Reservation, clock: Any) -> None:
    release(Client(), path(made))
    entry = AuditEntry.objects.get(verb="release")
    assert (entry.actor, entry.origin, "pressed_by" in entry.change) == (made.holder, "link", False)


@pytest.mark.parametrize("change", [{"is_active": False}, {"approval": "pending"}])
def test_links_of_somebody_who_left_are_dead(made: Reservation, change: dict[str, Any], clock: Any) -> None:
    address = path(made)
    Member.objects.filter(pk=made.holder_id).update(**change)
    assert Client().get(address).status_code == 404
    assert release(Client(), address).status_code == 404
    made.refresh_from_db()
    assert made.status == "active"


def test_links_of_another_installation_are_forgeries(made: Reservation, settings: Any, clock: Any) -> None:
    address = path(made)
    settings.SECRET_KEY = "restored elsewhere"
    assert Client().get(address).status_code == 404


# --- age ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after_end_s", "status"),
    [(1, 200), (86_399, 200), (86_400, 410), (86_401, 410), (86_400 * 2, 410), (86_400 * 366, 410)],
)
@pytest.mark.parametrize("action", list(LinkAction))
def test_lk_06_a_link_lives_until_a_day_after_the_end(
    made: Reservation, action: LinkAction, after_end_s: int, status: int, clock: Any
) -> None:
    address = path(made, action)
    clock.move_to(END + timedelta(seconds=after_end_s), tick=False)
    response = Client().get(address)
    assert response.status_code == status
    if status == 410:
        assert "This link has expired" in text(response)
        assert "My reservations" in text(response)
        before = dump()
        assert Client().post(address, {"do": str(action), "end": at(400).isoformat()}).status_code == 410
        assert dump() == before


def test_the_signature_is_checked_before_the_age(made: Reservation, clock: Any) -> None:
    address = path(made)
    clock.move_to(END + timedelta(days=30), tick=False)
    assert Client().get(address).status_code == 410
    assert Client().get(address[:-1] + "!").status_code == 404


# --- pressing once --------------------------------------------------------------------------------------------------------


def test_lk_04_a_press_releases_and_every_repeat_says_the_same(made: Reservation, clock: Any) -> None:
    address = path(made)
    first = release(Client(), address)
    assert "Done: released at 17:52" in text(first)
    after = dump()
    for minutes in (0, 2, 9):
        clock.move_to(PRESS + timedelta(minutes=minutes), tick=False)
        for again in (release(Client(), address), Client().get(address)):
            assert again.status_code == 200
            assert "Done: released at 17:52" in text(again)
    assert dump() == after
    made.refresh_from_db()
    assert (made.status, made.ended_at) == ("released", PRESS)


def test_lk_04_an_extension_pressed_again_is_done_already(made: Reservation, clock: Any) -> None:
    address = path(made, LinkAction.EXTEND)
    assert "Done: it ends Mon 30 Nov 19:00" in text(extend(Client(), address, at(5)))
    after = dump()
    for later in (at(5), at(6), at(5.5)):
        again = extend(Client(), address, later)
        assert (again.status_code, "Done: it ends Mon 30 Nov 19:00" in text(again)) == (200, True)
    assert "Done: it ends Mon 30 Nov 19:00" in text(Client().get(address))
    assert dump() == after


def test_the_extend_page_offers_an_hour_two_hours_and_the_longest(made: Reservation, clock: Any) -> None:
    reservation(member("Wei"), [made.allocations.get().gpu], 7, 8)
    page = Client().get(path(made, LinkAction.EXTEND))
    for label in ("1 h more, until 19:00", "2 h more, until 20:00", "As long as possible, until 21:00"):
        assert label in text(page)
    assert f'value="{at(5).isoformat()}"' in page.content.decode()


@pytest.mark.parametrize(
    "end", ["", "soon", "2026-11-30T19:00", "9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+14:00", "0", "١"]
)
def test_an_end_that_is_no_instant_extends_nothing(made: Reservation, end: str, clock: Any) -> None:
    address, before = path(made, LinkAction.EXTEND), dump()
    assert Client().post(address, {"do": "extend", "end": end}).status_code == 409
    assert dump() == before


def test_an_extension_is_checked_anew_at_the_press(made: Reservation, clock: Any) -> None:
    address = path(made, LinkAction.EXTEND)
    Client().get(address)
    reservation(member("Wei"), [made.allocations.get().gpu], 4.5, 6, now=PRESS)
    response = extend(Client(), address, at(5))
    assert response.status_code == 409
    assert "is held by Wei" in text(response)
    assert "As long as possible, until 18:30" in text(response)
    assert extend(Client(), address, at(4.5)).status_code == 200


def test_in_the_grace_after_the_end_the_link_still_extends(made: Reservation, clock: Any) -> None:
    address = path(made, LinkAction.EXTEND)
    clock.move_to(END + timedelta(minutes=3), tick=False)
    booking.advance_one(made.pk, now=END)
    assert extend(Client(), address, at(5)).status_code == 200
    made.refresh_from_db()
    assert (made.status, made.end) == ("active", at(5))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("action", [one for one in LinkAction if one not in (LinkAction.TAKE, LinkAction.DECLINE)])
def test_lk_03_fifty_presses_at_once_have_one_effect_and_say_the_same(action: LinkAction, clock: Any) -> None:
    made = reservation(member("Lin"), cards(1), None, 4)
    address = path(made, action)
    body = {"do": str(action), "end": at(5).isoformat()}
    start, answers = threading.Barrier(50), []

    def press() -> None:
        try:
            client = Client()
            start.wait()
            response = client.post(address, body)
            answers.append((response.status_code, text(response)))
        finally:
            connection.close()

    threads = [threading.Thread(target=press) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 50
    assert len(Counter(answers)) == 1, Counter(status for status, _ in answers)
    assert answers[0][0] == 200
    assert AuditEntry.objects.filter(verb=str(action)).count() == 1
    assert LedgerEntry.objects.exclude(reason="booked").count() == (action in (LinkAction.RELEASE, LinkAction.EXTEND))
    made.refresh_from_db()
    assert (made.version, made.end, made.status) == {
        LinkAction.RELEASE: (2, END, "released"), LinkAction.EXTEND: (2, at(5), "active"),
    }.get(action, (1, END, "active"))


# --- overtaken ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", list(LinkAction))
def test_after_another_change_the_page_says_how_things_stand_and_does_nothing(
    made: Reservation, action: LinkAction, clock: Any
) -> None:
    address = path(made, action)
    extension.extend(made.pk, at(6), by=made.holder, version=1, now=PRESS)
    before = dump()
    for response, status in (
        (Client().get(address), 200), (Client().post(address, {"do": str(action), "end": at(7).isoformat()}), 409),
    ):
        assert response.status_code == status
        assert "This message has been overtaken" in text(response)
        assert "Mon 30 Nov 20:00" in text(response)
        assert "My reservations" in text(response)
    assert dump() == before


def test_a_release_link_of_what_somebody_else_released_says_so(made: Reservation, clock: Any) -> None:
    address = path(made)
    changes.release(made.pk, by=arbiter(), version=1, now=PRESS - timedelta(minutes=2))
    response = release(Client(), address)
    assert (response.status_code, "released at 17:50" in text(response)) == (200, True)


def test_a_release_link_pressed_after_the_end_says_that_it_is_over(made: Reservation, clock: Any) -> None:
    address, before = path(made), dump()
    clock.move_to(END + timedelta(minutes=1), tick=False)
    response = release(Client(), address)
    assert (response.status_code, "It is over" in text(response)) == (409, True)
    assert dump() == before


def test_a_release_link_of_what_has_not_begun_cancels_at_a_press_on_that(clock: Any) -> None:
    made = reservation(member("Lin"), cards(1), 5, 6)
    address, before = path(made), dump()
    response = release(Client(), address)
    assert (response.status_code, "It has not begun yet" in text(response)) == (409, True)
    assert dump() == before
    for _press in range(3):
        response = Client().post(address, {"do": "cancel"})
        assert (response.status_code, "Done: cancelled" in text(response)) == (200, True)
    made.refresh_from_db()
    assert (made.status, AuditEntry.objects.filter(verb="cancel", origin="link").count()) == ("cancelled", 1)


def test_a_release_link_of_what_has_begun_cancels_nothing(made: Reservation, clock: Any) -> None:
    address, before = path(made), dump()
    assert Client().post(address, {"do": "cancel"}).status_code == 409
    assert dump() == before


def test_g3_a_release_link_gives_single_cards_back_once_and_takes_them_again(clock: Any) -> None:
    gpus = cards(3)
    made = reservation(member("Lin"), gpus, None, 4)
    address = path(made)
    assert "Or give single cards back" in text(Client().get(address))
    body = {"do": "give_back", "card": [gpus[0].pk, gpus[2].pk]}
    for _press in range(3):
        response = Client().post(address, body)
        assert (response.status_code, f"Done: given back {gpus[0]}, {gpus[2]}" in text(response)) == (200, True)
    assert list(made.allocations.filter(given_back_at=None).values_list("gpu", flat=True)) == [gpus[1].pk]
    assert AuditEntry.objects.filter(verb="give_back", origin="link").count() == 1
    for _press in range(2):
        assert "it runs until" in text(Client().post(address, {"do": "take_again"}))
    assert made.allocations.filter(given_back_at=None, status="active", end=made.end).count() == 3
    assert AuditEntry.objects.filter(verb="undo_give_back", origin="link").count() == 1


@pytest.mark.parametrize("card", [[], ["x"], [2**63], [987_654_321]])
def test_g3_a_release_link_gives_back_only_what_it_holds(card: list[Any], clock: Any) -> None:
    made = reservation(member("Lin"), cards(2), None, 4)
    foreign = reservation(member("Wei"), cards(2), None, 4).allocations.first()
    assert foreign is not None
    address, before = path(made), dump()
    for sent in (card, [*card, foreign.gpu_id]):
        assert Client().post(address, {"do": "give_back", "card": sent}).status_code == 409
    assert dump() == before


def test_where_it_cannot_be_extended_the_page_offers_no_button(made: Reservation, clock: Any) -> None:
    reservation(member("Wei"), [made.allocations.get().gpu], 4, 6)
    response = Client().get(path(made, LinkAction.EXTEND))
    assert response.status_code == 200
    assert "It cannot be extended now" in text(response)
    assert b'name="end"' not in response.content


# --- undo -----------------------------------------------------------------------------------------------------------------


def test_a_release_is_undone_by_the_same_link_within_its_time(made: Reservation, clock: Any) -> None:
    address = path(made)
    assert "possible until 18:00" in text(release(Client(), address))
    clock.shift(timedelta(minutes=3))
    first = undo(Client(), address)
    assert (first.status_code, "The release was taken back" in text(first)) == (200, True)
    after = dump()
    for again in (undo(Client(), address), Client().get(address)):
        assert (again.status_code, "The release was taken back" in text(again)) == (200, True)
    # A release press that comes late, from another device, does not undo the undo.
    assert release(Client(), address).status_code == 409
    assert dump() == after
    made.refresh_from_db()
    assert (made.status, made.end, made.version) == ("active", END, 3)
    assert Notification.objects.filter(key=f"ending:{made.pk}:v3").exists()


def test_after_the_time_the_undo_is_refused_with_its_reason(clock: Any) -> None:
    made = reservation(member("Lin"), cards(1), None, 8)
    address = path(made)
    release(Client(), address)
    clock.shift(timedelta(minutes=10))
    assert b'value="undo"' not in Client().get(address).content
    response = undo(Client(), address)
    assert (response.status_code, "The time to undo has passed" in text(response)) == (409, True)


def test_what_somebody_took_meanwhile_is_not_undone(clock: Any) -> None:
    made = reservation(member("Lin"), cards(1), None, 8)
    address = path(made)
    release(Client(), address)
    reservation(member("Wei"), [made.allocations.get().gpu], None, 6, now=PRESS)
    response = undo(Client(), address)
    assert (response.status_code, "is held by Wei" in text(response)) == (409, True)


def test_undo_without_a_release_does_nothing(made: Reservation, clock: Any) -> None:
    address, before = path(made), dump()
    assert undo(Client(), address).status_code == 409
    assert dump() == before


# --- the form -------------------------------------------------------------------------------------------------------------


def test_the_forms_protection_holds_and_works_without_being_signed_in(made: Reservation, clock: Any) -> None:
    client, address = Client(enforce_csrf_checks=True), path(made)
    assert release(client, address).status_code == 403
    page = client.get(address).content.decode()
    token = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.split("<main")[1])[0]
    assert client.post(address, {"do": "release", "csrfmiddlewaretoken": token}).status_code == 200


@pytest.mark.once
def test_presses_without_effect_are_limited_but_repeats_of_what_was_done_are_not(made: Reservation, clock: Any) -> None:
    address = path(made, LinkAction.EXTEND)
    answers = [extend(Client(), address, END).status_code for _ in range(view.PRESSES + 1)]
    assert answers == [409] * view.PRESSES + [429]
    assert extend(Client(), address, at(5))["Retry-After"] == "60"
    clock.shift(timedelta(seconds=61))
    done = [extend(Client(), address, at(5)).status_code for _ in range(view.PRESSES + 20)]
    assert set(done) == {200}


def test_busy_is_tried_again_and_then_said(made: Reservation, monkeypatch: pytest.MonkeyPatch, clock: Any) -> None:
    address, real, calls = path(made), changes.release, []

    def release_or_busy(*args: Any, **rest: Any) -> Reservation:
        calls.append(1)
        if len(calls) != 12:
            raise Busy
        return real(*args, **rest)

    monkeypatch.setattr(changes, "release", release_or_busy)
    response = release(Client(), address)
    assert (response.status_code, response["Retry-After"], len(calls)) == (409, "2", 6)
    assert release(Client(), address).status_code == 200
