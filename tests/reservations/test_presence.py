"""Being asked and confirming, what holders wish for the end, and how far extensions reach (H2, H5, H7, K1, K4).

NOW is Monday 14:00 of the lab.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.utils import translation

from reservations import labels, links, messages, obsolete, queries, tasks
from reservations.links import LinkAction
from reservations.models import Allocation, AuditEntry, Gpu, Member, Notification, Reservation
from reservations.rules.lifecycle import Status
from reservations.rules.refusal import Code, Refusal, Refused
from reservations.services import booking, changes, extension, giveback, moving, presence
from reservations.services.delivery import Sender, due
from tests.factories import NOW, arbiter, at, cards, host, lab, member, request, reservation
from tests.reservations.accounts import charged, preset

pytestmark = pytest.mark.django_db
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
# Tuesday: 14:00 is at(24); 08:05 is at(18 h 5 min); 09:00 is at(19). Monday 20:05 is 6 h 5 min from NOW.
MORNING, EVENING = NOW + 18 * HOUR + 5 * MINUTE, NOW + 6 * HOUR + 5 * MINUTE


@pytest.fixture(autouse=True)
def _lab() -> None:
    lab(confirmation=True, no_show_s=1800)


class Kept:
    def __init__(self) -> None:
        self.messages: list[Any] = []

    def send(self, message: Any) -> None:
        self.messages.append(message)

    def close(self) -> None:
        pass


def sent(now: datetime) -> list[Any]:
    kept = Kept()
    with Sender({"kept": kept}) as sender:
        for pk in due(now):
            sender.deliver(pk, now=now)
    return kept.messages


def questions() -> list[tuple[int, datetime]]:
    rows = Notification.objects.filter(kind="confirm").order_by("due_at")
    return [(row.reservation_id or 0, row.due_at) for row in rows]


def refusals(act: Callable[[], Any]) -> tuple[Refusal, ...]:
    with pytest.raises(Refused) as caught:
        act()
    return caught.value.refusals


def refused(act: Callable[[], Any]) -> list[Code]:
    return [one.code for one in refusals(act)]


def confirm(made: Reservation, now: datetime, **fields: Any) -> Reservation:
    values: dict[str, Any] = {"by": made.holder, "version": None} | fields
    return presence.confirm(made.pk, now=now, **values)


# --- the question -------------------------------------------------------------------------------------------------------


def test_h2_the_question_is_written_with_the_booking_for_the_morning_or_the_evening_before() -> None:
    lin = member("Lin")
    late = reservation(lin, cards(1), 24, 26)
    early = reservation(lin, cards(1), 19, 21)
    assert questions() == [(early.pk, EVENING), (late.pk, MORNING)]


def test_h2_who_books_after_the_time_of_asking_is_not_asked() -> None:
    gpus = cards(3)
    reservation(member(), gpus[:1], None, 2)
    reservation(member(), gpus[:1], 5, 6)
    reservation(member(), gpus[1:2], 24, 26, now=MORNING)
    reservation(member(), gpus[2:], 19, 21, now=EVENING)
    assert questions() == []


def test_h2_the_lab_may_not_ask() -> None:
    lab(confirmation=False)
    reservation(member(), cards(1), 24, 26)
    assert questions() == []


def test_k2_one_question_for_each_start_however_often_the_reservation_changes() -> None:
    lin, gpus = member("Lin"), cards(2)
    made = reservation(lin, gpus, 24, 26)
    extension.extend(made.pk, at(27), by=lin, version=None, now=NOW)
    giveback.give_back(made.pk, [gpus[1].pk], by=lin, version=None, now=NOW)
    assert questions() == [(made.pk, MORNING)]
    moving.move(made.pk, start=at(48), end=at(50), by=lin, version=None, now=NOW)
    assert questions() == [(made.pk, MORNING), (made.pk, MORNING + 24 * HOUR)]
    assert [message.subject[:15] for message in sent(MORNING)] == []  # that start is no more
    assert [message.subject[:15] for message in sent(MORNING + 24 * HOUR)] == ["Are you coming?"]
    for _late in range(2):
        assert sent(MORNING + 25 * HOUR) == []


def test_k1_the_question_says_what_and_by_when_and_offers_two_presses() -> None:
    made = reservation(member("Lin"), cards(2, host("gpu-a")), 24, 26)
    (message,) = sent(MORNING)
    assert message.subject == "Are you coming? 2 × RTX 4090 (gpu-a:0, gpu-a:1), from 14:00"
    assert "by 30 min after the start the cards go to others; if you confirm, by 60 min." in message.text
    made.refresh_from_db()
    assert [(one.label, one.url) for one in message.actions] == [
        ("I am coming", links.link_for(made, LinkAction.CONFIRM).url),
        ("I do not need them", links.link_for(made, LinkAction.RELEASE).url),
    ]


def _cancelled(made: Reservation) -> None:
    changes.cancel(made.pk, by=made.holder, version=None, now=NOW)


def _confirmed(made: Reservation) -> None:
    Reservation.objects.filter(pk=made.pk).update(confirmed_at=NOW)


def _come(made: Reservation) -> None:
    Allocation.objects.filter(reservation=made).update(first_seen=NOW)


def _lab_asks_no_more(made: Reservation) -> None:
    lab(confirmation=False)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_cancelled, "the reservation is over"), (_confirmed, "somebody has come or said so"),
        (_come, "somebody has come or said so"), (_lab_asks_no_more, "the lab no longer asks"),
    ],
)
def test_k2_a_question_that_has_become_idle_is_dropped(change: Callable[[Reservation], None], why: str) -> None:
    made = reservation(member(), cards(1), 24, 26)
    change(made)
    row = Notification.objects.select_related("reservation", "member").get(kind="confirm")
    assert obsolete.cause(row, MORNING) == why


# --- confirming ---------------------------------------------------------------------------------------------------------


def test_h2_a_press_confirms_once_and_changes_nothing_that_is_held() -> None:
    made = reservation(member("Lin"), cards(1), 24, 26)
    once = confirm(made, MORNING)
    assert (once.confirmed_at, once.version, once.status) == (MORNING, 1, Status.BOOKED)
    again = confirm(made, MORNING + HOUR)
    assert (again.confirmed_at, AuditEntry.objects.filter(verb="confirm").count()) == (MORNING, 1)


def test_h2_not_before_the_time_of_asking_and_not_when_it_is_over() -> None:
    made = reservation(member(), cards(1), 24, 26)
    (refusal,) = refusals(lambda: confirm(made, MORNING - SECOND))
    assert (refusal.code, refusal.rule, refusal.facts) == (Code.CONFIRM_EARLY, "H2", {"begins": MORNING})
    assert refused(lambda: confirm(made, at(26))) == [Code.WRONG_STATUS]
    assert refused(lambda: confirm(made, MORNING, version=7)) == [Code.STALE]


def test_h8_others_may_not_confirm_and_an_arbiter_s_press_is_told() -> None:
    made = reservation(member("Lin"), cards(1, host("gpu-a")), 24, 26)
    assert refused(lambda: confirm(made, MORNING, by=member())) == [Code.NOT_YOURS]
    confirm(made, MORNING, by=arbiter("Judge"))
    row = Notification.objects.get(kind="changed")
    said = messages.compose(row, queries.lab_facts(), MORNING).subject
    assert said == "Judge confirmed that you come: 1 × RTX 4090 (gpu-a:0)"


def test_h6_a_move_to_another_start_must_be_confirmed_again_and_its_undo_remembers() -> None:
    lin = member("Lin")
    made = reservation(lin, cards(1), 24, 28)
    confirm(made, MORNING)
    moving.move(made.pk, start=at(25), end=at(28), by=lin, version=None, now=MORNING + MINUTE)
    assert Reservation.objects.get().confirmed_at is None
    moving.undo(made.pk, by=lin, version=None, now=MORNING + MINUTE + 5 * SECOND)
    assert Reservation.objects.get().confirmed_at == MORNING


def test_h0_a_booking_can_be_undone_though_a_wish_was_set() -> None:
    made = reservation(member("Lin"), cards(1), 24, 26)
    presence.wish(made.pk, release_when_done=True, extend_while_free=False, by=made.holder, now=NOW + SECOND)
    undone = moving.undo(made.pk, by=made.holder, version=None, now=NOW + 5 * SECOND)
    assert undone.status == Status.CANCELLED


@pytest.mark.django_db(transaction=True)
def test_p3_a_hundred_presses_at_once_confirm_once() -> None:
    made = reservation(member(), cards(1), 24, 26)

    def press() -> None:
        try:
            confirm(made, MORNING)
        finally:
            connection.close()

    threads = [threading.Thread(target=press) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert AuditEntry.objects.filter(verb="confirm").count() == 1


# --- links --------------------------------------------------------------------------------------------------------------


def path(made: Reservation, action: LinkAction) -> str:
    made.refresh_from_db()
    return f"/r/{links.link_for(made, action).token}"


def test_k4_the_confirm_link_shows_a_page_and_a_press_confirms_without_sign_in() -> None:
    made = reservation(member("Lin"), cards(1), 24, 26)
    with time_machine.travel(MORNING, tick=False):
        address = path(made, LinkAction.CONFIRM)
        assert "Are you coming?" in Client().get(address).content.decode()
        assert Reservation.objects.get().confirmed_at is None
        for _press in range(10):
            response = Client().post(address, {"do": "confirm"})
            assert (response.status_code, "Done: confirmed" in response.content.decode()) == (200, True)
        for other in ("release", "keep", "extend", "cancel"):
            assert Client().post(address, {"do": other}).status_code == 404
    assert AuditEntry.objects.filter(verb="confirm", origin="link").count() == 1


def test_k4_a_confirm_link_pressed_early_or_late_says_so() -> None:
    made = reservation(member("Lin"), cards(1), 24, 26)
    address = path(made, LinkAction.CONFIRM)
    with time_machine.travel(MORNING - MINUTE, tick=False):
        response = Client().post(address, {"do": "confirm"})
        assert (response.status_code, "You can confirm from" in response.content.decode()) == (409, True)
    with time_machine.travel(at(26), tick=False):
        response = Client().post(address, {"do": "confirm"})
        assert (response.status_code, "It is over" in response.content.decode()) == (409, True)
    moving.move(made.pk, start=at(48), end=at(50), by=made.holder, version=None, now=MORNING - MINUTE)
    with time_machine.travel(MORNING, tick=False):
        response = Client().post(address, {"do": "confirm"})
        assert (response.status_code, "overtaken" in response.content.decode()) == (409, True)


def test_k4_who_is_there_already_need_not_confirm() -> None:
    made = reservation(member("Lin"), cards(1), None, 4)
    Allocation.objects.update(first_seen=NOW)
    with time_machine.travel(NOW + MINUTE, tick=False):
        page = Client().get(path(made, LinkAction.CONFIRM)).content.decode()
    assert "You are there already" in page


def test_h7_the_keep_link_keeps_the_cards_until_another_process_has_ended() -> None:
    made = reservation(member("Lin"), cards(1), None, 4)
    Allocation.objects.update(first_seen=NOW, last_seen=at(1))
    with time_machine.travel(at(1) + MINUTE, tick=False):
        address = path(made, LinkAction.KEEP)
        assert "Keep these cards?" in Client().get(address).content.decode()
        for _press in range(3):
            response = Client().post(address, {"do": "keep"})
            assert (response.status_code, "the cards stay yours" in response.content.decode()) == (200, True)
    assert Reservation.objects.get().kept_at == at(1) + MINUTE
    assert AuditEntry.objects.filter(verb="keep").count() == 1
    Allocation.objects.update(last_seen=at(2))
    with time_machine.travel(at(2) + MINUTE, tick=False):
        assert Client().post(address, {"do": "keep"}).status_code == 200
    assert Reservation.objects.get().kept_at == at(2) + MINUTE


def test_h7_after_the_release_the_keep_link_takes_it_back() -> None:
    made = reservation(member("Lin"), cards(1), None, 4)
    with time_machine.travel(at(1), tick=False):
        address = path(made, LinkAction.KEEP)
        changes.release(made.pk, by=made.holder, version=None, now=at(1))
        assert "Done: released at" in Client().get(address).content.decode()
        assert Client().post(address, {"do": "undo"}).status_code == 200
    assert Reservation.objects.get().status == Status.ACTIVE


# --- the page -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def lin() -> tuple[Client, Member]:
    who, client = member("Lin"), Client()
    client.force_login(who)
    return client, who


def test_h2_the_pages_offer_to_confirm_when_there_is_something_to_confirm(lin: tuple[Client, Member]) -> None:
    client, who = lin
    made = reservation(who, cards(1), 24, 26)
    address = f"/reservations/{made.pk}/"
    for now, offered in ((MORNING - MINUTE, False), (MORNING, True)):
        with time_machine.travel(now, tick=False):
            for page in (address, "/mine"):
                assert ("I am coming" in client.get(page).content.decode()) is offered
    with time_machine.travel(MORNING, tick=False):
        page = client.post(f"{address}confirm", {"version": 1, "back": "mine"}, follow=True).content.decode()
        assert "Confirmed." in page and "I am coming" not in page
        assert "confirmed" in client.get(address).content.decode()


def test_h5_h7_the_wishes_are_ticked_when_booking_and_later(lin: tuple[Client, Member]) -> None:
    client, (gpu,) = lin[0], cards(1)
    with time_machine.travel(NOW, tick=False):
        form = {
            "card": gpu.pk, "start": "2026-12-01T14:00", "end": "2026-12-01T16:00", "tier": "regular", "purpose": "training",
            "key": "onekeyofthisform", "extend_while_free": "on",
        }
        assert client.post("/book", form).status_code == 303
        made = Reservation.objects.get()
        assert (made.release_when_done, made.extend_while_free) == (False, True)
        address = f"/reservations/{made.pk}/"
        page = client.get(address).content.decode()
        assert 'name="extend_while_free" checked' in page and 'name="release_when_done" checked' not in page
        for _press in range(2):
            client.post(f"{address}wishes", {"version": 1, "release_when_done": "on"})
        made.refresh_from_db()
        assert (made.release_when_done, made.extend_while_free, made.version) == (True, False, 1)
        assert AuditEntry.objects.filter(verb="wish").count() == 1
        assert "to be released when the processes end" in client.get(address).content.decode()


def test_d8_again_takes_the_wishes_along() -> None:
    who = member()
    made = booking.reserve(who, request(cards(1), 24, 26, release_when_done=True), now=NOW)
    asked = booking.next_week(made.pk, by=who, key="k")
    assert (asked.release_when_done, asked.extend_while_free) == (True, False)


# --- extending while free (H5) ------------------------------------------------------------------------------------------


def wished(gpus: list[Gpu], start: float | None = None, end: float = 4, **fields: Any) -> Reservation:
    who = fields.pop("who", None) or member("Lin")
    return booking.reserve(who, request(gpus, start, end, extend_while_free=True, **fields), now=NOW)


def advance(now: datetime) -> None:
    with time_machine.travel(now, tick=False):
        tasks.advance()


def ends() -> datetime:
    return Reservation.objects.order_by("pk")[0].end


def test_h5_while_free_it_goes_on_by_an_hour_shortly_before_the_message_on_the_end() -> None:
    gpus = cards(1, host("gpu-a"))
    made = wished(gpus)
    advance(at(4) - 12 * MINUTE)
    assert ends() == at(4)
    for _round in range(3):
        advance(at(4) - 11 * MINUTE)
    assert (ends(), charged(made.holder)) == (at(5), 5)
    entry = AuditEntry.objects.get(verb="extend")
    assert (entry.actor, entry.origin) == (None, "sweep")
    (message,) = sent(at(4) - 10 * MINUTE)  # and not the one on the old end
    assert message.subject == "Extended until 19:00: 1 × RTX 4090 (gpu-a:0)"
    assert [one.label for one in message.actions] == ["Release now"]
    advance(at(5) - 5 * MINUTE)
    assert ends() == at(6)


def test_h5_not_without_the_wish_and_not_before_the_start() -> None:
    reservation(member(), cards(1), None, 4)
    advance(at(4) - MINUTE)
    assert ends() == at(4)


def test_h5_while_free_it_stops_after_eight_hours() -> None:
    lab(extend_free_s=2 * 3600 + 1800)
    wished(cards(1))
    for end in (at(5), at(6), at(6.5), at(6.5)):
        advance(ends() - MINUTE)
        assert ends() == end
    assert Reservation.objects.get().extended_free_s == 2 * 3600 + 1800


def test_h5_while_free_means_as_far_as_it_is_free_and_the_hours_last() -> None:
    gpus = cards(1)
    wished(gpus)
    reservation(member(), gpus, 4.5, 6)
    for _round in range(2):
        advance(ends() - MINUTE)
    assert ends() == at(4.5)
    advance(at(4.5))
    assert Reservation.objects.order_by("pk")[0].status == Status.FINISHED


def test_h5_not_without_hours() -> None:
    lab(roles={"phd": {"weekly_hours": 4}})
    wished(cards(1))
    advance(at(4) - MINUTE)
    assert ends() == at(4)


def test_h5_not_while_somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus, asked = cards(2), []

    def waits(card_ids: Any, span: Any, now: Any, *, besides: int) -> bool:
        asked.append((sorted(card_ids), besides))
        return True

    monkeypatch.setattr(queries, "somebody_waits", waits)
    made = wished(gpus)
    advance(at(4) - MINUTE)
    assert ends() == at(4)
    assert (sorted(gpu.pk for gpu in gpus), made.holder_id) in asked


def test_k2_the_message_of_an_extension_is_dropped_when_it_was_released_since() -> None:
    made = wished(cards(1))
    advance(at(4) - MINUTE)
    changes.release(made.pk, by=made.holder, version=None, now=at(4) - SECOND)
    assert sent(at(4)) == []


# --- how far an extension reaches (H5) ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "latest"),
    [
        # Monday 14:00: Tuesday is not firm, so until Tuesday 08:00. After 20:00 it is: until Wednesday 08:00.
        (NOW, 18), (at(5.75), 18), (at(6), 42),
    ],
)
def test_h5_what_runs_reaches_eight_hours_into_time_that_is_not_firm(now: datetime, latest: float) -> None:
    lab(extend_ahead_s=8 * 3600)
    made = reservation(member(), cards(1), None, 12)
    assert extension.longest_end(made, now=now) == at(latest)
    (refusal,) = refusals(
        lambda: extension.extend(made.pk, at(latest + 0.25), by=made.holder, version=None, now=now)
    )
    assert (refusal.code, refusal.rule, refusal.facts) == (Code.EXTEND_AHEAD, "H5", {"hours": 8, "end": at(latest)})
    assert refusal.alternative is not None and refusal.alternative.values == {"end": at(latest)}
    assert extension.extend(made.pk, at(latest), by=made.holder, version=None, now=now).end == at(latest)


def test_h5_one_that_has_not_started_and_one_booked_further_are_not_bound_by_it() -> None:
    lab(extend_ahead_s=8 * 3600)
    coming = reservation(member(), cards(1), 1, 12)
    assert extension.extend(coming.pk, at(30), by=coming.holder, version=None, now=NOW).end == at(30)
    booked = reservation(member(), cards(1), None, 40)
    assert extension.longest_end(booked, now=NOW) is None
    assert booked.end == at(40)


def test_h5_the_refusal_names_the_longest_and_the_best_other_card() -> None:
    gpus = cards(4, host("gpu-a"))
    made = reservation(member("Lin"), gpus[:1], None, 4)
    reservation(member("Wei"), gpus[:1], 5, 8)
    reservation(member(), gpus[1:2], 3, 5)
    reservation(member(), gpus[2:3], 4, 4.75)
    (refusal,) = refusals(lambda: extension.extend(made.pk, at(6), by=made.holder, version=None, now=at(1)))
    assert (refusal.code, refusal.facts["others"]) == (Code.CARD_TAKEN, ["gpu-a:3"])
    assert refusal.alternative is not None and refusal.alternative.values == {"end": at(5)}
    with translation.override("en"):
        assert labels.sentence(refusal).endswith("Free for all of that time: gpu-a:3.")


def test_h5_of_cards_without_their_like_none_is_named() -> None:
    (gpu,), _other = cards(1), cards(1, model="NVIDIA A100")
    made = reservation(member(), [gpu], None, 4)
    reservation(member(), [gpu], 5, 8)
    (refusal,) = refusals(lambda: extension.extend(made.pk, at(6), by=made.holder, version=None, now=at(1)))
    assert refusal.facts["others"] == []


def test_n_the_balanced_lab_asks_and_the_friendly_does_not() -> None:
    preset("friendly")
    assert not queries.lab_facts().policy.confirmation
    preset("balanced")
    assert queries.lab_facts().policy.confirmation
