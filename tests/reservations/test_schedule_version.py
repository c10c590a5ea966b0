"""The grid's ETag: whatever changes the fragment changes it, and nothing else need."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import time_machine
from django.conf import settings
from django.test import Client

from reservations import localclock, program
from reservations.models import Allocation, CardState, Gpu, Host, Lab, LedgerEntry, Maintenance, Member, Reservation
from reservations.services import booking
from reservations.views import schedule
from tests.factories import NOW, at, cards, host, lab, member, reservation

pytestmark = pytest.mark.django_db
PATHS = ("/schedule/grid", "/schedule/grid?view=36h", "/schedule/grid?view=week", "/schedule/grid?view=list")


class Stage:
    """Two cards with reservations around now, one of them the reader's, looked at in every view."""

    def __init__(self, client: Client) -> None:
        lab(language="en")
        self.client, self.now = client, NOW
        self.reader, self.other = member("Wei", language="en"), member("Ada")
        self.gpus = cards(2, host())
        for gpu in self.gpus:
            CardState.objects.create(gpu=gpu, state="free", since=at(-3), sampled_at=NOW)
        self.own = reservation(self.reader, self.gpus[:1], 1, 5)
        self.others = reservation(self.other, self.gpus[1:], 2, 6)
        client.force_login(self.reader)

    def look(self) -> list[tuple[str, str]]:
        """Each view's ETag and its fragment, drawn."""
        with time_machine.travel(self.now, tick=False):
            answers = [self.client.get(path) for path in PATHS]
        return [(answer["ETag"], answer.content.decode()) for answer in answers]

    def wait(self, **time: float) -> None:
        self.now += timedelta(**time)
        CardState.objects.update(sampled_at=self.now)  # it is read on, so that only the clock makes the difference


def _save(rows: type, /, **values: object) -> Callable[[Stage], object]:
    return lambda stage: rows.objects.update(**values)


def _reschedule(stage: Stage) -> None:
    Reservation.objects.filter(pk=stage.others.pk).update(start=at(3), end=at(7))
    Allocation.objects.filter(reservation=stage.others).update(start=at(3), end=at(7))


def _sign_in_as_other(stage: Stage) -> None:
    Member.objects.filter(pk=stage.other.pk).update(language="en")
    stage.other.refresh_from_db()
    stage.client.force_login(stage.other)


CHANGES: dict[str, Callable[[Stage], object]] = {
    "somebody books": lambda s: booking.reserve(
        s.other, booking.BookingRequest((s.gpus[0].pk,), at(8), at(10), key="k" * 8), now=NOW
    ),
    "a time changes": _reschedule,
    "a card ends its holding": lambda s: Allocation.objects.filter(reservation=s.others).update(status="cancelled"),
    "an end is early": lambda s: Allocation.objects.filter(reservation=s.others).update(status="released", end=at(4)),
    "a holder is renamed, beside the audit": lambda s: Member.objects.filter(pk=s.other.pk).update(name="Ada Lovelace"),
    "names become initials": _save(Lab, show_names="initials"),
    "the lab has another zone": _save(Lab, zone="Europe/Berlin"),
    "a tier changes": lambda s: Reservation.objects.filter(pk=s.others.pk).update(tier="exploration"),
    "a card changes hands": lambda s: Reservation.objects.filter(pk=s.others.pk).update(holder=s.reader),
    "a card is seen in use": _save(CardState, state="in_use"),
    "a card is not read any more": _save(CardState, sampled_at=at(-2)),
    "a card was never read": lambda s: CardState.objects.all().delete(),
    "a card goes out of service": _save(Gpu, service="out_of_service"),
    "a card has another model": _save(Gpu, model="NVIDIA H100"),
    "a host is renamed": _save(Host, name="other-host"),
    "a card comes": lambda s: cards(1, host()),
    "the reader reads Chinese": lambda s: Member.objects.filter(pk=s.reader.pk).update(language="zh-hans"),
    "somebody else reads": _sign_in_as_other,
    "a reservation begins": lambda s: s.wait(hours=1, minutes=1),
    "a reservation ends": lambda s: s.wait(hours=5, minutes=1),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_the_fragment_changes_its_etag(client, change):
    stage = Stage(client)
    before = stage.look()
    CHANGES[change](stage)
    after = stage.look()
    drawn = [old != new for (_, old), (_, new) in zip(before, after, strict=True)]
    told = [old != new for (old, _), (new, _) in zip(before, after, strict=True)]
    assert any(drawn), "the change is none: it could not find a fault"
    assert [is_told for is_drawn, is_told in zip(drawn, told, strict=True) if is_drawn] == [True] * sum(drawn)


def test_a_maintenance_changes_the_etag(client):
    stage = Stage(client)
    before = stage.look()
    admin = member("Admin")
    one = Maintenance.objects.create(start=at(30), end=at(32), reason="fans", announced_by=admin, announced_at=NOW)
    one.cards.create(gpu=stage.gpus[1], start=at(30), end=at(32))
    assert all(old != new for (old, _), (new, _) in zip(before, stage.look(), strict=True))


@pytest.mark.parametrize("minutes", range(0, 400, 31))
def test_while_the_etag_stays_the_clock_changes_nothing_that_is_drawn(client, minutes):
    stage = Stage(client)
    stage.now = NOW + timedelta(minutes=minutes)
    first = stage.look()
    stage.now += timedelta(seconds=100)
    for (old, was), (new, is_now) in zip(first, stage.look(), strict=True):
        assert old != new or was == is_now


def test_another_program_has_another_etag(client, monkeypatch):
    stage = Stage(client)
    before = stage.look()
    monkeypatch.setattr(program, "version", lambda: "another")
    assert all(old != new for (old, _), (new, _) in zip(before, stage.look(), strict=True))


def test_what_nobody_sees_changes_no_etag(client):
    """The control: were the ETag another each time, all of the above would hold, too."""
    stage = Stage(client)
    before = stage.look()
    Member.objects.filter(pk=stage.other.pk).update(email="new@lab.example")
    Reservation.objects.update(note="something else", version=7)
    LedgerEntry.objects.create(
        member=stage.other, period=NOW.date(), units=1, reason="booked", reservation=stage.others, at=NOW
    )
    stage.wait(seconds=20)
    assert [etag for etag, _ in before] == [etag for etag, _ in stage.look()]


def test_an_etag_that_leaves_the_clock_out_is_found(client, monkeypatch):
    """The control of the clock: without its part the same ETag stands over another picture."""
    stage = Stage(client)
    monkeypatch.setattr(schedule, "_clock", lambda *_: ())
    before = stage.look()
    stage.now += timedelta(hours=1, minutes=1)
    after = stage.look()
    assert any(old == new and was != is_now for (old, was), (new, is_now) in zip(before, after, strict=True))


def test_every_language_writes_a_clock_by_which_days_and_times_come_apart():
    found = 0
    for texts in (Path(settings.BASE_DIR) / "locale").rglob("django.po"):
        for written in re.findall(r'msgid "D j M H:i"\nmsgstr "(.*)"', texts.read_text("utf-8")):
            assert not written or written.count(localclock.TIME) == 1
            found += 1
    assert found
