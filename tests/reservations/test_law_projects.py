"""B5, B6, C2, E5, G4 on the rows: whose account pays, whose budget is used, and who decides."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from reservations import queries
from reservations.models import (
    AuditEntry,
    DeadlineGrant,
    HourGrant,
    Lab,
    LedgerEntry,
    Member,
    Notification,
    Project,
    Reservation,
)
from reservations.rules.quota import UNITS_PER_GPU_HOUR, allowance_units
from reservations.rules.refusal import Code, Refused
from reservations.services import booking, changes, elastic, extension, grants, hours, moving, projects, rulebook
from reservations.services.held import Reason, held_by, post, scaled
from tests.factories import NOW, admin, arbiter, at, cards, lab, member, project, request, reservation

from .accounts import charged, codes

pytestmark = pytest.mark.django_db
State = DeadlineGrant.State
WEEK = date(2026, 11, 30)


@pytest.fixture
def mixed() -> Lab:
    return lab(mode="mixed", project_share=100)


def paid(by: Project | Member) -> float:
    """GPU-hours on the account of a project, or on a member's own."""
    rows = LedgerEntry.objects.filter(account="quota")
    rows = rows.filter(project=by) if isinstance(by, Project) else rows.filter(member=by, project=None)
    return sum(rows.values_list("units", flat=True)) / UNITS_PER_GPU_HOUR


def test_b5_the_project_pays_and_gets_back(mixed: Lab) -> None:
    lin, gpus = member(), cards(2)
    vision = project("Vision", lin)
    made = reservation(lin, gpus, 24, 28, project_id=vision.pk)
    assert (paid(vision), paid(lin), made.project_pays) == (8, 0, True)
    extension.extend(made.pk, at(30), by=lin, version=1, now=NOW)
    assert (paid(vision), paid(lin)) == (12, 0)
    moving.move(made.pk, start=at(26), end=at(27), by=lin, version=2, now=NOW)
    assert (paid(vision), paid(lin)) == (2, 0)
    changes.cancel(made.pk, by=lin, version=3, now=NOW)
    assert (paid(vision), paid(lin), charged(lin)) == (0, 0, 0)


def test_b5_without_a_project_the_members_own_hours_pay_for_exploring_only(mixed: Lab) -> None:
    lin, gpus = member(), cards(2)
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus, 24, 28)
    assert codes(caught) == [Code.TIER_NEEDS_PROJECT]
    made = reservation(lin, gpus, 24, 28, tier="exploration")
    assert (paid(lin), made.project_id, made.project_pays) == (8, None, False)


def test_b5_an_empty_project_never_falls_back(mixed: Lab) -> None:
    lin, gpus = member(), cards(2)
    vision = project("Vision", lin, weekly_hours=7)
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus, 24, 28, project_id=vision.pk)
    assert set(codes(caught)) == {Code.QUOTA}
    assert [dict(one.alternative.values) for one in caught.value.refusals if one.alternative] == [
        {"start": at(24), "end": at(27.5)}, {"project": None, "tier": "exploration"},
    ]
    assert not LedgerEntry.objects.exists()


def test_b5_two_members_share_one_allowance_and_each_keeps_their_own(mixed: Lab) -> None:
    lin, wu, gpus = member(), member(), cards(4)
    vision = project("Vision", lin, wu, weekly_hours=10)
    reservation(lin, gpus[:1], 24, 32, project_id=vision.pk)
    with pytest.raises(Refused) as caught:
        reservation(wu, gpus[1:2], 24, 27, project_id=vision.pk)
    assert set(codes(caught)) == {Code.QUOTA}
    reservation(wu, gpus[1:2], 24, 26, project_id=vision.pk)
    reservation(wu, gpus[2:3], 24, 48, tier="exploration")
    assert (paid(vision), paid(wu), paid(lin)) == (10, 24, 0)


def test_b5_in_person_mode_a_project_is_a_name_and_the_holder_pays() -> None:
    lab()
    lin, gpus = member(), cards(1)
    vision = project("Vision", lin)
    made = reservation(lin, gpus, 24, 28, project_id=vision.pk)
    assert (paid(vision), paid(lin), made.project_id, made.project_pays) == (0, 4, vision.pk, False)


def test_b5_in_project_mode_without_one_only_the_free_hours_on_the_spot() -> None:
    lab(mode="project", walk_in_free_hours=4)
    lin, gpus = member(), cards(2)
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus[:1], 24, 25, tier="exploration")
    assert codes(caught) == [Code.PROJECT_NEEDED]
    made = reservation(lin, gpus, None, 2, tier="exploration")
    assert charged(lin) == 0
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(2.5), by=lin, version=1, now=at(1))
    assert codes(caught) == [Code.FREE_HOURS_ONLY]
    assert extension.longest_end(made, now=at(1)) is None


def test_b5_e6_a_new_mode_binds_extensions() -> None:
    lab()
    lin = member()
    made = reservation(lin, cards(1), 24, 28)
    lab(mode="mixed")
    with pytest.raises(Refused) as caught:
        extension.extend(made.pk, at(29), by=lin, version=1, now=NOW)
    assert codes(caught) == [Code.TIER_NEEDS_PROJECT]


def test_b4_only_who_belongs_books_for_a_project_that_is_open(mixed: Lab) -> None:
    lin, gpus, boss = member(), cards(2), admin()
    vision = project("Vision")
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus, 24, 28, project_id=vision.pk)
    assert codes(caught) == [Code.NOT_IN_PROJECT]
    projects.add_member(vision.pk, lin.pk, by=vision.advisor, now=NOW)
    reservation(lin, gpus, 24, 28, project_id=vision.pk)
    reservation(vision.advisor, gpus, 30, 31, project_id=vision.pk)  # who leads it belongs to it
    projects.change(
        vision.pk, name="Vision", advisor_id=vision.advisor_id, weekly_hours=None, is_open=False, by=boss, now=NOW
    )
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus, 34, 35, project_id=vision.pk)
    assert codes(caught) == [Code.PROJECT_CLOSED]


def test_b6_the_cap_holds_over_all_members_and_through_extensions_and_undone_releases() -> None:
    lab(mode="mixed", cards_at_once=8)
    lin, wu, gpus = member(), member(), cards(4)
    vision = project("Vision", lin, wu)
    first = reservation(lin, gpus[:2], None, 4, project_id=vision.pk)
    with pytest.raises(Refused) as caught:
        reservation(wu, gpus[2:3], 2, 6, project_id=vision.pk)
    assert codes(caught) == [Code.PROJECT_CARDS]
    second = reservation(wu, gpus[2:], 4, 8, project_id=vision.pk)
    with pytest.raises(Refused) as caught:
        extension.extend(first.pk, at(5), by=lin, version=1, now=at(1))
    assert codes(caught) == [Code.PROJECT_CARDS]
    assert extension.longest_end(first, now=at(1)) is None
    changes.release(first.pk, by=lin, version=1, now=at(1))
    moving.move(second.pk, start=at(2), end=at(6), by=wu, version=1, now=at(1))
    with pytest.raises(Refused) as caught:
        changes.undo_release(first.pk, by=lin, version=2, now=at(1.1))
    assert codes(caught) == [Code.PROJECT_CARDS]


def test_e4_beyond_a_projects_allowance_its_oldest_becomes_in_quota_first() -> None:
    lab(mode="mixed", elastic=True, project_share=100)
    lin, wu, gpus = member(), member(), cards(4)
    vision = project("Vision", lin, wu, weekly_hours=10)
    full = reservation(lin, gpus[:1], 24, 34, project_id=vision.pk)
    older = reservation(wu, gpus[1:2], 24, 30, project_id=vision.pk, now=at(0.1))
    newer = reservation(lin, gpus[2:3], 24, 26, project_id=vision.pk, now=at(0.2))
    assert (older.is_elastic, newer.is_elastic, paid(vision)) == (True, True, 10)
    assert elastic.due(at(1)) == []
    changes.cancel(full.pk, by=lin, version=1, now=at(1))
    assert elastic.due(at(1)) == [older.pk]
    assert not elastic.settle(newer.pk, now=at(1)) and elastic.settle(older.pk, now=at(1))
    assert elastic.settle(newer.pk, now=at(1)) and paid(vision) == 8


# --- one-off hours (E5) and those that stay valid (E3) ----------------------------------------------------------------------


def test_e5_one_off_hours_are_used_after_the_allowance_and_come_back_by_themselves() -> None:
    lab(roles={"phd": {"weekly_hours": 4}})
    lin, gpus, boss = member(), cards(1), admin()
    for moment in (NOW, at(0.01)):  # the same press again gives nothing more
        projects.give_hours(member_id=lin.pk, hours=3, last_day=date(2026, 12, 2), reason="a course", by=boss, now=moment)
    made = reservation(lin, gpus, 24, 31)
    [this, following] = queries.balances(lin, queries.lab_facts(), NOW)
    assert (this.used, this.extra, this.left) == (allowance_units(7), 0, 0)
    with pytest.raises(Refused):
        reservation(lin, gpus, 32, 32.5)
    changes.cancel(made.pk, by=lin, version=1, now=NOW)
    [this, following] = queries.balances(lin, queries.lab_facts(), NOW)
    assert (this.used, this.extra, following.extra) == (0, allowance_units(3), 0)
    assert set(LedgerEntry.objects.values_list("account", flat=True)) == {"quota"}


def test_e5_they_end_with_their_last_day_and_do_not_roll_over() -> None:
    lab(roles={"phd": {"weekly_hours": 4}})
    lin, gpus = member(), cards(1)
    projects.give_hours(member_id=lin.pk, hours=3, last_day=date(2026, 12, 1), reason="a course", by=admin(), now=NOW)
    reservation(lin, gpus, 26, 32)  # until Tuesday 22:00
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus, 48, 49)
    assert set(codes(caught)) == {Code.QUOTA}
    reservation(lin, gpus, 33, 34)  # to the midnight that ends it: the seventh hour
    assert [one.left for one in queries.balances(lin, queries.lab_facts(), at(40))] == [0, allowance_units(4)]


def test_e5_a_project_may_be_given_hours_too(mixed: Lab) -> None:
    lin, gpus = member(), cards(1)
    vision = project("Vision", lin, weekly_hours=4)
    projects.give_hours(project_id=vision.pk, hours=2, last_day=date(2026, 12, 6), reason="a paper", by=admin(), now=NOW)
    reservation(lin, gpus, 24, 30, project_id=vision.pk)
    assert paid(vision) == 6
    with pytest.raises(Refused):
        reservation(lin, gpus, 32, 33, project_id=vision.pk)


@pytest.mark.parametrize(
    ("values", "code"), [({"reason": " "}, Code.TEXT_MISSING), ({"last_day": date(2026, 11, 29)}, Code.DAY_OVER)]
)
def test_e5_they_have_a_reason_and_an_end(values: dict[str, Any], code: Code) -> None:
    lab()
    lin, boss = member(), admin()
    given = {"member_id": lin.pk, "hours": 2, "last_day": date(2026, 12, 6), "reason": "a course", "by": boss, "now": NOW}
    with pytest.raises(Refused) as caught:
        projects.give_hours(**(given | values))
    assert codes(caught) == [code]
    with pytest.raises(Refused):
        projects.give_hours(**(given | {"by": lin}))
    for wrong in ({"hours": 0}, {"member_id": None}, {"project_id": 1}):
        with pytest.raises(ValueError, match="one-off hours need"):
            projects.give_hours(**(given | wrong))
    assert not HourGrant.objects.exists()


SATURDAY = at(5 * 24)  # Saturday 14:00: within the week's last 48 hours


def returned(made: Reservation, now: Any) -> int:
    """What a displacement does: returns the charge and lets it stay valid if it comes late."""
    held = held_by(made)
    post(made, scaled(held.charge(), -1), Reason.DISPLACED, now)
    Reservation.objects.filter(pk=made.pk).update(status="displaced")
    made.allocations.update(status="displaced")
    return hours.keep_valid(made, held.charge(), why="displaced", lab=held.lab, now=now)


def test_e3_hours_that_come_back_late_in_a_week_stay_valid_for_seven_days_and_are_never_there_twice() -> None:
    lab(roles={"phd": {"weekly_hours": 10}})
    lin, gpus = member(), cards(1)
    made = reservation(lin, gpus, 6 * 24, 6 * 24 + 6)
    assert returned(made, SATURDAY) == allowance_units(6)
    this, following = queries.balances(lin, queries.lab_facts(), SATURDAY)
    assert (this.left, following.left) == (allowance_units(10), allowance_units(16))
    reservation(lin, gpus, 7 * 24 + 12, 8 * 24 + 4, now=SATURDAY)  # sixteen hours of the next week
    this, following = queries.balances(lin, queries.lab_facts(), SATURDAY)
    assert (this.left, following.left) == (allowance_units(4), 0)
    late = SATURDAY + timedelta(days=7)
    assert [one.left for one in queries.balances(lin, queries.lab_facts(), late)] == [0, allowance_units(10)]


@pytest.mark.parametrize(("now", "kept"), [(at(4 * 24), 0), (at(5 * 24 - 14.01), 0), (at(5 * 24 - 14), 6)])
def test_e3_only_in_the_last_48_hours_of_the_week(now: Any, kept: int) -> None:
    lab()
    made = reservation(member(), cards(1), 6 * 24, 6 * 24 + 6)
    assert returned(made, now) == allowance_units(kept)


def test_e3_h0_what_stays_valid_is_taken_back_when_its_cause_is_undone() -> None:
    lab(roles={"phd": {"weekly_hours": 10}})
    lin, gpus = member(), cards(1)
    made = reservation(lin, gpus, 6 * 24, 6 * 24 + 6)
    returned(made, SATURDAY)
    hours.take_back(made, SATURDAY)
    hours.take_back(made, SATURDAY)
    this, following = queries.balances(lin, queries.lab_facts(), SATURDAY)
    assert (this.left, following.left) == (allowance_units(10), allowance_units(10))


def test_e3_d4_a_displacement_late_in_the_week_keeps_the_hours_and_its_undo_takes_them_back() -> None:
    lab(displacement=True, roles={"phd": {"weekly_hours": 10}, "staff": {"weekly_hours": 100}})
    lin, gpus = member(), cards(1)
    friday = at(4 * 24 + 10.5)  # Saturday 00:30, the next Sunday not frozen
    weak = reservation(lin, gpus, 6 * 24, 6 * 24 + 6, tier="exploration", may_move=False)
    strong = reservation(member(role="staff"), gpus, 6 * 24, 6 * 24 + 6, now=friday)
    weak.refresh_from_db()
    assert weak.status == "displaced" and HourGrant.objects.get().units == allowance_units(6)
    moving.undo(strong.pk, by=strong.holder, version=1, now=friday)
    weak.refresh_from_db()
    assert (weak.status, HourGrant.objects.get().units, charged(lin)) == ("booked", 0, 6)


# --- deadline grants (C2) -------------------------------------------------------------------------------------------------


def ask_for(vision: Project, by: Member, *, hours: int = 20, last: int = 10, first: int = 1, now: Any = NOW) -> DeadlineGrant:
    day = date(2026, 11, 30)
    return grants.request(
        vision.pk, deadline=day + timedelta(days=last), reason="a paper is due", card_hours=hours,
        first_day=day + timedelta(days=first - 1), last_day=day + timedelta(days=last), by=by, now=now,
    )


def granted(vision: Project, by: Member, **values: Any) -> DeadlineGrant:
    grant = ask_for(vision, by, **values)
    return grants.decide(grant.pk, True, "go", by=vision.advisor, now=values.get("now", NOW))


def test_c2_a_grant_opens_the_deadline_tier_for_its_project_until_its_end(mixed: Lab) -> None:
    lin, gpus = member(), cards(2)
    vision, other = project("Vision", lin), project("Other", lin)
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus, 24, 26, tier="deadline", project_id=vision.pk)
    assert codes(caught) == [Code.TIER_NEEDS_GRANT]
    grant = granted(vision, lin, last=1)
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus, 24, 26, tier="deadline", project_id=other.pk)
    assert codes(caught) == [Code.TIER_NEEDS_GRANT]
    made = reservation(lin, gpus, 24, 26, tier="deadline", project_id=vision.pk)
    assert (made.grant, made.rank_tier, queries.grant_used([grant.pk])) == (grant, 0, {grant.pk: 4 * 3600})
    assert extension.longest_end(made, now=NOW) == at(34), "to the midnight that ends its last day"
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus[:1], 30, 34.5, tier="deadline", project_id=vision.pk)
    assert codes(caught) == [Code.GRANT_DAYS]


def test_c2_what_is_returned_gives_back_to_the_budget(mixed: Lab) -> None:
    lin, gpus = member(), cards(2)
    vision = project("Vision", lin)
    grant = granted(vision, lin, hours=8)
    made = reservation(lin, gpus, None, 4, tier="deadline", project_id=vision.pk)
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus[:1], 24, 25, tier="deadline", project_id=vision.pk)
    assert codes(caught) == [Code.GRANT_BUDGET]
    changes.release(made.pk, by=lin, version=1, now=at(1))
    assert queries.grant_used([grant.pk]) == {grant.pk: 2 * 3600}
    later = reservation(lin, gpus[:1], 24, 30, tier="deadline", project_id=vision.pk, now=at(1))
    with pytest.raises(Refused) as caught:
        changes.undo_release(made.pk, by=lin, version=2, now=at(1.1))
    assert codes(caught) == [Code.GRANT_BUDGET]
    changes.cancel(later.pk, by=lin, version=1, now=at(1.1))
    assert queries.grant_used([grant.pk]) == {grant.pk: 2 * 3600}


def test_c2_b3_the_advisor_decides_once_with_a_reason_and_is_told_of_the_request(mixed: Lab) -> None:
    lin = member()
    vision = project("Vision", lin)
    grant = ask_for(vision, lin)
    assert ask_for(vision, lin) == grant, "the same press again"
    assert Notification.objects.filter(kind="grant").values_list("member", flat=True).get() == vision.advisor_id
    for who, code in ((lin, Code.GRANT_PARTY), (arbiter(), Code.GRANT_ADVISOR), (admin("Root"), Code.GRANT_ADVISOR)):
        with pytest.raises(Refused) as caught:
            grants.decide(grant.pk, True, "go", by=who, now=NOW)
        assert codes(caught) == [code]
    with pytest.raises(Refused) as caught:
        grants.decide(grant.pk, True, " ", by=vision.advisor, now=NOW)
    assert codes(caught) == [Code.TEXT_MISSING]
    for _ in range(2):
        assert grants.decide(grant.pk, True, "go", by=vision.advisor, now=NOW).state == State.GRANTED
    with pytest.raises(Refused) as caught:
        grants.decide(grant.pk, False, "no", by=vision.advisor, now=NOW)
    assert codes(caught) == [Code.GRANT_DECIDED]
    assert AuditEntry.objects.filter(verb="decide_grant").count() == 1
    assert Notification.objects.filter(kind="grant", member=lin).count() == 1


def test_c2_a_second_grant_within_90_days_needs_an_arbiter(mixed: Lab) -> None:
    lin, judge = member(), arbiter()
    vision = project("Vision", lin)
    granted(vision, lin, last=10)
    second = ask_for(vision, lin, first=12, last=20)
    with pytest.raises(Refused) as caught:
        grants.decide(second.pk, True, "go", by=vision.advisor, now=NOW)
    assert codes(caught) == [Code.GRANT_ARBITER]
    assert grants.decide(second.pk, True, "go", by=judge, now=NOW).state == State.GRANTED


def test_b3_who_leads_and_asks_decides_nothing_of_it(mixed: Lab) -> None:
    vision = project("Vision")
    grant = ask_for(vision, vision.advisor)
    with pytest.raises(Refused) as caught:
        grants.decide(grant.pk, True, "go", by=vision.advisor, now=NOW)
    assert codes(caught) == [Code.GRANT_PARTY]
    assert grants.decide(grant.pk, False, "no", by=arbiter(), now=NOW).state == State.DECLINED


def test_b3_without_an_arbiter_for_a_day_an_admin_decides_and_after_two_the_request_lapses(mixed: Lab) -> None:
    vision = project("Vision")
    boss = admin("Root", is_arbiter=False)
    grant = ask_for(vision, vision.advisor)
    with pytest.raises(Refused):
        grants.decide(grant.pk, True, "go", by=boss, now=at(23))
    assert grants.decide(grant.pk, True, "go", by=boss, now=at(24)).by_admin
    Member.objects.filter(pk=boss.pk).update(is_active=False)
    other = ask_for(project("Robots", advisor=vision.advisor), vision.advisor)
    assert grants.lapse_due(at(47)) == 0 and grants.lapse_due(at(48)) == 1
    other.refresh_from_db()
    assert other.state == State.LAPSED


def test_c2_c3_a_revoked_grant_makes_what_is_not_frozen_regular_and_tells_its_holder(mixed: Lab) -> None:
    lin, wu, gpus = member(), member(), cards(4)
    vision = project("Vision", lin, wu)
    grant = granted(vision, lin, hours=100)
    tonight = reservation(lin, gpus[:1], 8, 9, tier="deadline", project_id=vision.pk)
    ahead = reservation(wu, gpus[1:2], 48, 49, tier="deadline", project_id=vision.pk)
    grants.revoke(grant.pk, "the deadline moved", by=vision.advisor, now=NOW)
    grants.revoke(grant.pk, "again", by=vision.advisor, now=NOW)
    tonight.refresh_from_db()
    ahead.refresh_from_db()
    assert (tonight.tier, tonight.rank_tier, tonight.grant_id) == ("deadline", 0, grant.pk), "today is frozen"
    assert (ahead.tier, ahead.rank_tier, ahead.grant_id) == ("regular", 1, None)
    assert AuditEntry.objects.filter(verb="retier", subject_id=ahead.pk).count() == 1
    assert Notification.objects.filter(kind="changed", member=wu).exists()
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus[2:3], 48, 49, tier="deadline", project_id=vision.pk)
    assert codes(caught) == [Code.TIER_NEEDS_GRANT]


def test_c2_only_those_of_the_project_ask_and_only_those_concerned_revoke(mixed: Lab) -> None:
    lin, stranger = member(), member()
    vision = project("Vision", lin)
    with pytest.raises(Refused) as caught:
        ask_for(vision, stranger)
    assert codes(caught) == [Code.NOT_IN_PROJECT]
    grant = ask_for(vision, lin)
    for who in (stranger, admin(is_arbiter=False)):
        with pytest.raises(Refused) as caught:
            grants.revoke(grant.pk, "no", by=who, now=NOW)
        assert codes(caught) == [Code.NOT_YOURS]
    assert grants.revoke(grant.pk, "not needed", by=lin, now=NOW).state == State.REVOKED


def test_g4_the_deadline_tier_uses_the_reserve_also_late_and_each_use_is_public() -> None:
    lab(mode="mixed", emergency_reserve=1, project_share=100, cards_at_once=8)
    lin, gpus = member(), cards(4)
    vision = project("Vision", lin)
    granted(vision, lin, hours=100)
    reservation(lin, gpus[:3], 2, 8, project_id=vision.pk)
    with pytest.raises(Refused) as caught:
        reservation(lin, gpus[3:], 3, 8, project_id=vision.pk)
    assert codes(caught) == [Code.RESERVE_KEPT]
    made = reservation(lin, gpus[3:], 3, 8, tier="deadline", project_id=vision.pk)  # today: late
    assert made.kind == "late"
    assert AuditEntry.objects.get(verb="reserve", subject_id=made.pk).change["reserve"] == 1
    first = AuditEntry.objects.filter(verb="reserve").order_by("pk")[0]
    assert "reserve" not in first.change


def test_c2_g4_a_dry_run_judges_a_deadline_reservation_as_if_it_were_not_there(mixed: Lab) -> None:
    lin, gpus = member(), cards(2)
    vision = project("Vision", lin, weekly_hours=4)
    granted(vision, lin, hours=4)
    reservation(lin, gpus, 24, 26, tier="deadline", project_id=vision.pk)
    assert rulebook.dry_run(queries.lab_facts().policy, now=NOW) == []
    assert rulebook.dry_run(rulebook.policy_from(None, {"project_share": 50}, queries.lab_facts()), now=NOW)[0].after == (
        Code.PROJECT_CARDS,
    )


def test_b4_expected_memory_is_kept_and_decides_nothing() -> None:
    lab()
    made = booking.reserve(member(), request(cards(1), 24, 25, expected_memory=40 << 30), now=NOW)
    made.refresh_from_db()
    assert made.expected_memory == 40 << 30
