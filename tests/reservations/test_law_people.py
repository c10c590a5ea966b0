"""B2 and B4: house rules, the last day, leaving; collaborators and what counts as theirs."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from django.test import Client

from reservations import links, obsolete, permissions, queries, tasks
from reservations.links import LinkAction
from reservations.models import (
    AuditEntry,
    CardState,
    Collaborator,
    Invite,
    Member,
    Notification,
    Reservation,
)
from reservations.permissions import Action
from reservations.rules.refusal import Code, Refused
from reservations.services import (
    booking,
    changes,
    collaborators,
    extension,
    held,
    houserules,
    leaving,
    moving,
    people,
)
from tests.factories import NOW, admin, arbiter, at, cards, lab, member, project, reservation

from .accounts import charged, codes

pytestmark = pytest.mark.django_db
State = Collaborator.State


def joined(made: Reservation, *members: Member) -> None:
    for one in members:
        collaborators.invite(made.pk, one.pk, by=made.holder, now=NOW)
        collaborators.accept(made.pk, by=one, now=NOW)


# --- house rules (B2) -------------------------------------------------------------------------------------------------


def test_b2_nothing_is_booked_before_the_current_house_rules_are_accepted() -> None:
    lab()
    lin, boss, gpus = member(), admin(), cards(1)
    reservation(lin, gpus, 24, 25)
    houserules.write("Be fair.", by=boss, now=NOW)
    for start in (None, 30):
        with pytest.raises(Refused) as caught:
            reservation(lin, gpus, start, 2 if start is None else 31)
        assert codes(caught) == [Code.HOUSE_RULES]
    houserules.accept(1, by=lin, now=NOW)
    houserules.accept(1, by=lin, now=NOW)
    assert AuditEntry.objects.filter(verb="accept_rules").count() == 1
    lin.refresh_from_db()
    reservation(lin, gpus, 30, 31)
    houserules.write("Be fairer.", by=boss, now=NOW)
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus, 34, 35)
    assert codes(caught) == [Code.HOUSE_RULES]
    with pytest.raises(Refused) as caught:
        houserules.accept(1, by=lin, now=NOW)
    assert codes(caught) == [Code.STALE]
    houserules.write("", by=boss, now=NOW)
    reservation(lin, gpus, 34, 35)


def test_b2_the_same_house_rules_again_need_no_new_consent_and_only_admins_write_them() -> None:
    lab()
    boss = admin()
    for _ in range(2):
        assert houserules.write(" Be fair. ", by=boss, now=NOW).rules_version == 1
    with pytest.raises(Refused):
        houserules.write("Mine first.", by=member(), now=NOW)


# --- the last day and leaving (B2) ------------------------------------------------------------------------------------------


def test_b2_a_reservation_ends_by_the_midnight_of_the_last_day_also_when_extended_or_moved() -> None:
    lab()
    lin, gpus = member(ends_on=date(2026, 12, 1)), cards(1)  # at(34) is the midnight after it
    made = reservation(lin, gpus, 30, 33)
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus, 33, 35)
    assert codes(caught) == [Code.AFTER_LAST_DAY]
    assert extension.longest_end(made, now=NOW) == at(34)
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(35), by=lin, version=1, now=NOW)
    assert codes(caught) == [Code.AFTER_LAST_DAY]
    with pytest.raises(Refused) as caught:
        moving.move(made.pk, start=at(33), end=at(36), by=lin, version=1, now=NOW)
    assert codes(caught) == [Code.AFTER_LAST_DAY]
    extension.extend(made.pk, at(34), by=lin, version=1, now=NOW)


def test_b2_who_leaves_gives_back_what_lies_ahead_without_a_fee_and_nothing_of_theirs_opens_anything() -> None:
    lab(late_cancel_percent=25)
    boss, lin, gpus = admin(), member(), cards(3)
    running = reservation(lin, gpus[:1], None, 4)
    soon, far = reservation(lin, gpus[1:2], 1, 3), reservation(lin, gpus[2:], 48, 50)
    token = links.link_for(running, LinkAction.RELEASE).url
    client = Client()
    client.force_login(lin)
    for _ in range(2):
        leaving.leave(lin.pk, by=boss, now=NOW)
    for one, status in ((running, "active"), (soon, "cancelled"), (far, "cancelled")):
        one.refresh_from_db()
        assert one.status == status
    assert charged(lin) == 4
    lin.refresh_from_db()
    assert (lin.is_active, lin.left_at) == (False, NOW)
    assert AuditEntry.objects.filter(verb="leave").count() == 1
    assert client.get("/mine").status_code == 302
    assert Client().get(token).status_code == 404


def test_b2_duties_pass_on_projects_to_a_named_successor_and_invites_end() -> None:
    lab()
    boss, wu = admin("Root"), member("Wu")
    lead = arbiter("Lead", is_admin=True)
    vision = project("Vision", wu, advisor=lead)
    people.invite(by=lead, role="phd", uses=3, days=7, now=NOW)
    with pytest.raises(Refused) as caught:
        leaving.leave(lead.pk, by=boss, now=NOW)
    assert codes(caught) == [Code.SUCCESSOR_NEEDED]
    leaving.leave(lead.pk, successor_id=wu.pk, by=boss, now=NOW)
    vision.refresh_from_db()
    lead.refresh_from_db()
    assert (vision.advisor, lead.is_arbiter, lead.is_admin) == (wu, False, False)
    assert Invite.objects.get().uses_left == 0
    running = reservation(wu, cards(1), None, 4, project_id=vision.pk)
    assert permissions.may(wu, Action.RELEASE, running)


def test_b2_the_last_admin_stays_and_others_let_nobody_leave() -> None:
    lab()
    boss = admin()
    with pytest.raises(Refused) as caught:
        leaving.leave(boss.pk, by=boss, now=NOW)
    assert codes(caught) == [Code.LAST_ADMIN]
    with pytest.raises(Refused) as caught:
        leaving.leave(boss.pk, by=member(), now=NOW)
    assert codes(caught) == [Code.NOT_YOURS]


def test_b2_when_the_last_day_is_over_they_leave_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    lab()
    boss, lin = admin(), member(ends_on=date(2026, 12, 1))
    vision = project("Vision", advisor=lin)
    assert leaving.leave_due(at(33.9)) == [] and leaving.leave_due(at(34)) == [lin.pk]
    monkeypatch.setattr(tasks.timezone, "now", lambda: at(34))
    tasks.people()
    tasks.people()
    lin.refresh_from_db()
    vision.refresh_from_db()
    assert (lin.left_at, vision.advisor) == (at(34), boss)


def test_b2_h8_what_a_leaver_still_runs_the_projects_advisor_may_release() -> None:
    lab(mode="mixed")
    boss, lin = admin(is_arbiter=False), member()
    vision = project("Vision", lin)
    running = reservation(lin, cards(2)[:1], None, 4, project_id=vision.pk)
    leaving.leave(lin.pk, by=boss, now=NOW)
    assert changes.release(running.pk, by=vision.advisor, version=1, now=at(1)).status == "released"


# --- collaborators (B4) ---------------------------------------------------------------------------------------------------


def test_b4_only_who_accepted_may_release_and_extend_and_only_these() -> None:
    lab()
    lin, wu, other = member("Lin"), member("Wu"), member("Other")
    made = reservation(lin, cards(1), None, 4)
    collaborators.invite(made.pk, wu.pk, by=lin, now=NOW)
    collaborators.invite(made.pk, wu.pk, by=lin, now=NOW)
    assert Notification.objects.filter(kind="invited", member=wu).count() == 1
    with pytest.raises(Refused) as caught:
        changes.release(made.pk, by=wu, version=1, now=NOW)
    assert codes(caught) == [Code.NOT_YOURS]
    with pytest.raises(Refused) as caught:
        collaborators.accept(made.pk, by=other, now=NOW)
    assert codes(caught) == [Code.NOT_INVITED]
    collaborators.accept(made.pk, by=wu, now=NOW)
    assert obsolete.cause(Notification.objects.get(kind="invited"), NOW) == "the invitation is answered"
    for act in (
        lambda: moving.move(made.pk, start=at(5), end=at(6), by=wu, version=None, now=NOW),
        lambda: changes.cancel(made.pk, by=wu, version=None, now=NOW),
        lambda: collaborators.invite(made.pk, other.pk, by=wu, now=NOW),
        lambda: booking.again(made.pk, by=wu, now=NOW, key="again-by-another"),
    ):
        with pytest.raises(Refused) as caught:
            act()
        assert codes(caught) == [Code.NOT_YOURS]
    extension.extend(made.pk, at(5), by=wu, version=1, now=NOW)
    assert changes.release(made.pk, by=wu, version=2, now=at(1)).status == "released"
    assert (charged(lin), charged(wu)) == (1, 0)
    assert Notification.objects.filter(kind="changed", member=lin).count() == 2


def test_b4_at_most_three_and_never_the_holder() -> None:
    lab()
    lin, three, fourth = member(), [member() for _ in range(3)], member()
    made = reservation(lin, cards(1), None, 4)
    with pytest.raises(Refused) as caught:
        collaborators.invite(made.pk, lin.pk, by=lin, now=NOW)
    assert codes(caught) == [Code.COLLABORATOR_HOLDER]
    joined(made, *three)
    with pytest.raises(Refused) as caught:
        collaborators.invite(made.pk, fourth.pk, by=lin, now=NOW)
    assert codes(caught) == [Code.COLLABORATORS_FULL]
    for _ in range(2):
        collaborators.remove(made.pk, three[0].pk, by=lin, now=NOW)
        collaborators.decline(made.pk, by=three[1], now=NOW)
    joined(made, fourth, three[1])  # who declined may be asked again
    assert queries.collaborator_ids({made.pk})[made.pk] == {three[1].pk, three[2].pk, fourth.pk}


def test_b4_b1_the_cards_count_to_their_cap_too() -> None:
    lab(cards_at_once=2)
    lin, wu, gpus = member("Lin"), member("Wu"), cards(6)
    made = reservation(lin, gpus[:1], 2, 6)
    own = reservation(wu, gpus[1:3], 4, 8)
    collaborators.invite(made.pk, wu.pk, by=lin, now=NOW)
    with pytest.raises(Refused) as caught:
        collaborators.accept(made.pk, by=wu, now=NOW)
    assert codes(caught) == [Code.CARDS_AT_ONCE]
    moving.move(own.pk, start=at(6), end=at(8), by=wu, version=1, now=NOW)
    collaborators.accept(made.pk, by=wu, now=NOW)
    with pytest.raises(Refused) as caught:
        reservation(wu, gpus[3:5], 3, 4)
    assert codes(caught) == [Code.CARDS_AT_ONCE]
    reservation(wu, gpus[3:4], 3, 4)
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(7), by=lin, version=1, now=NOW)
    assert codes(caught) == [Code.COLLABORATOR_CARDS]
    assert extension.longest_end(Reservation.objects.get(pk=made.pk), now=NOW) is None
    with pytest.raises(Refused) as caught:
        moving.move(made.pk, start=at(6), end=at(7), by=lin, version=1, now=NOW)
    assert codes(caught) == [Code.COLLABORATOR_CARDS]
    collaborators.decline(made.pk, by=wu, now=NOW)
    extension.extend(made.pk, at(7), by=lin, version=1, now=NOW)


def test_b4_d2_a_holders_walk_in_does_not_fill_a_collaborators_walk_in_cards() -> None:
    lab(walk_in_cards=1)
    lin, wu, gpus = member(), member(), cards(2)
    joined(reservation(lin, gpus[:1], None, 4), wu)
    reservation(wu, gpus[1:], None, 2)


def test_b4_h4_a_collaborators_processes_count_as_the_holders() -> None:
    lab()
    lin, wu, gpus = member(), member(), cards(1)
    made = reservation(lin, gpus, None, 4)
    CardState.objects.create(gpu=gpus[0], state="in_use", since=NOW, sampled_at=NOW, process_count=1, owner_ids=[wu.pk])
    assert not held.own_processes_seen(held.held_by(made))
    joined(made, wu)
    with pytest.raises(Refused) as caught:
        changes.release(made.pk, by=lin, version=1, now=NOW)
    assert codes(caught) == [Code.STILL_RUNNING]
    [watched] = queries.watched_allocations([gpus[0].pk], NOW - timedelta(hours=1), at(1))
    assert (watched.member_id, watched.beside) == (lin.pk, {wu.pk})


def test_b4_h0_asking_somebody_does_not_end_the_seconds_of_an_undo() -> None:
    lab()
    lin, wu = member(), member()
    made = reservation(lin, cards(1), 24, 26)
    joined(made, wu)
    moving.undo(made.pk, by=lin, version=1, now=NOW)
    made.refresh_from_db()
    assert made.status == "cancelled"
    assert not permissions.may(wu, Action.CANCEL, made)


@pytest.mark.parametrize("who", ["advisor", "arbiter"])
def test_h8_the_projects_advisor_and_arbiters_may_act(who: str) -> None:
    lab()
    lin, judge = member(), arbiter()
    vision = project("Vision", lin)
    made = reservation(lin, cards(1), 24, 26, project_id=vision.pk)
    actor = vision.advisor if who == "advisor" else judge
    moving.move(made.pk, start=at(30), end=at(32), by=actor, version=1, now=NOW)
    assert changes.cancel(made.pk, by=actor, version=2, now=NOW).status == "cancelled"
    other = reservation(lin, cards(1), 24, 26, project_id=project("Other", lin).pk)
    if who == "advisor":
        with pytest.raises(Refused):
            changes.cancel(other.pk, by=actor, version=1, now=NOW)
