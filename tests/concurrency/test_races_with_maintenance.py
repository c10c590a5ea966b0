"""Maintenance against everybody who books, extends and releases at that moment: nothing is left in its time (G5, T2)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection

from reservations.models import Allocation, CardState, Gpu, Maintenance, MaintenanceCard, Member, Notification
from reservations.rules.refusal import Refused
from reservations.services import changes, extension, interrupting, locking, maintenance, replacing
from tests import factories
from tests.factories import NOW, at

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cards() -> list[Gpu]:
    factories.lab(cards_at_once=50, open_future=50)
    return factories.cards(3)


def at_once(*jobs: Callable[[], object]) -> list[BaseException]:
    """Runs the jobs in threads that begin together; returns what they raised, refusals and "busy" apart."""
    gate, raised = threading.Barrier(len(jobs)), list[BaseException]()

    def run(job: Callable[[], object]) -> None:
        try:
            gate.wait()
            job()
        except (Refused, locking.Busy):
            pass
        except BaseException as problem:
            raised.append(problem)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def left_inside() -> list[tuple[int, str]]:
    """What still holds a card in the time of its maintenance."""
    return [
        (row.reservation_id, row.status)
        for one in MaintenanceCard.objects.all()
        for row in Allocation.objects.filter(
            gpu=one.gpu_id, status__in=["offered", "booked", "active"], start__lt=one.end, end__gt=one.start
        )
    ]


def announce(boss: Member, cards: list[Gpu], start: float, end: float, *, urgent: bool) -> Maintenance:
    return maintenance.announce(
        [card.pk for card in cards], at(start), at(end), reason="new fan", urgent=urgent, by=boss, now=NOW
    )


@pytest.mark.parametrize("urgent", [False, True], ids=["planned", "urgent"])
def test_g5_who_books_extends_or_releases_as_it_is_announced_holds_nothing_in_it(cards: list[Gpu], urgent: bool) -> None:
    boss, people = factories.admin(), [factories.member() for _ in range(6)]
    begun = factories.reservation(people[0], [cards[0]], None, 2)
    firm = factories.reservation(people[1], [cards[1]], 3, 5)
    open_yet = factories.reservation(people[2], [cards[2]], 20, 22, may_move=False)
    raised = at_once(
        lambda: announce(boss, cards, 1, 30, urgent=urgent),
        lambda: announce(boss, cards, 1, 30, urgent=urgent),
        lambda: extension.extend(begun.pk, at(4), by=people[0], version=None, now=NOW),
        lambda: changes.cancel(firm.pk, by=people[1], version=None, now=NOW),
        lambda: changes.cancel(open_yet.pk, by=people[2], version=None, now=NOW),
        *(
            lambda one=one, card=card: factories.reservation(one, [card], 24, 26, may_move=False)  # type: ignore[misc]
            for one, card in zip(people[3:], cards, strict=True)
        ),
    )
    assert (raised, Maintenance.objects.count()) == ([], 1)
    for reservation_id in interrupting.due(at(1)):
        interrupting.interrupt(reservation_id, now=at(1))
    assert left_inside() == []


def test_g6_sweeps_that_meet_interrupt_and_swap_once(cards: list[Gpu]) -> None:
    ann, bo = factories.member(), factories.member()
    active = factories.reservation(ann, [cards[0]], None, 8)
    coming = factories.reservation(bo, [cards[0]], 9, 10)
    CardState.objects.create(
        gpu=cards[0], state="offline", since=NOW, sampled_at=NOW, lost_since=NOW, lost_how=CardState.Lost.GONE
    )
    raised = at_once(
        *[lambda: interrupting.interrupt(active.pk, now=at(1))] * 3,
        *[lambda: interrupting.swap_or_displace(coming.pk, now=at(1))] * 3,
    )
    kinds = Notification.objects.filter(kind__in=["interrupted", "swapped"]).values_list("kind", flat=True)
    assert (raised, sorted(kinds)) == ([], ["interrupted", "swapped"])


def test_g5_two_presses_for_one_equal_card_take_one(cards: list[Gpu]) -> None:
    ann = factories.member()
    row = factories.reservation(ann, [cards[0]], None, 8)
    CardState.objects.bulk_create(
        CardState(gpu=card, state="free", since=NOW - timedelta(hours=1), sampled_at=NOW) for card in cards
    )
    CardState.objects.filter(gpu=cards[0]).update(state="offline", lost_since=NOW, lost_how="gone")
    interrupting.interrupt(row.pk, now=at(1))
    raised = at_once(
        *(lambda key=key: replacing.take_equal(row.pk, by=ann, now=at(1), key=key) for key in ("one", "two"))  # type: ignore[misc]
    )
    assert (raised, row.replacements.count()) == ([], 1)
