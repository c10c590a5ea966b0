"""B2, B5, B6, C2: for whom, for which project and in which tier one may book; each rule and its innocent neighbour."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from reservations.rules.booking import Ask, decide
from reservations.rules.facts import Facts, ProjectFacts, TierGrant
from reservations.rules.grants import Days, day_refusals, is_second
from reservations.rules.hours import Hours
from reservations.rules.interval import Interval
from reservations.rules.policy import BadPolicy, Policy
from reservations.rules.projects import most_of_pool
from reservations.rules.quota import allowance_units
from reservations.rules.refusal import Code, Refusal
from tests.rules.test_booking import PLAIN, WEEK, ask, at, check, facts, held

VISION = ProjectFacts(7, "Vision", True, 240)
MINE = {7: "Vision"}


def lab(mode: str, **changes: Any) -> Facts:
    """The lab in this mode, with the project asked for and the member in it unless told otherwise."""
    changes = {"project": VISION, "projects": MINE, **changes}
    return facts(policy=replace(PLAIN, mode=mode, **changes.pop("policy", {})), **changes)


def wish(project: int | None = 7, tier: str = "regular", start: float | None = 8, end: float = 16, count: int = 1) -> Ask:
    return replace(ask(start, end, tuple(range(1, count + 1)), tier), project_id=project)


def codes(refusals: list[Refusal]) -> set[Code]:
    return {one.code for one in refusals}


def ways(refusals: list[Refusal]) -> list[dict[str, Any]]:
    return [dict(one.alternative.values) for one in refusals if one.alternative]


def free(**changes: Any) -> Facts:
    return lab("project", project=None, policy={"walk_in_free_hours": 4}, **changes)


@pytest.mark.parametrize(
    ("asked", "known", "expected"),
    [
        pytest.param(wish(None), lab("person", project=None, projects={}), set(), id="B5: person, no project"),
        pytest.param(wish(), lab("person"), set(), id="B5: person, a project as a name only"),
        pytest.param(wish(), lab("mixed"), set(), id="B5: mixed, with a project"),
        pytest.param(wish(), lab("project"), set(), id="B5: project, with one"),
        pytest.param(wish(None, "exploration"), lab("mixed", project=None), set(), id="B5: mixed, exploring without"),
        pytest.param(wish(None), lab("mixed", project=None), {Code.TIER_NEEDS_PROJECT}, id="B5: mixed, regular without"),
        pytest.param(wish(None, start=None, end=2), lab("mixed", project=None), {Code.TIER_NEEDS_PROJECT},
                     id="B5: mixed, a regular walk-in without"),
        pytest.param(wish(None), lab("project", project=None), {Code.PROJECT_NEEDED}, id="B5: project, planned without"),
        pytest.param(wish(None, "exploration"), lab("project", project=None), {Code.PROJECT_NEEDED},
                     id="B5: project, no tier helps"),
        pytest.param(wish(None, start=None, end=4), free(), set(), id="B5: project, the free hours of the day"),
        pytest.param(wish(None, start=None, end=4.25), free(), {Code.FREE_HOURS_ONLY}, id="B5: project, beyond the free hours"),
        pytest.param(wish(None, start=None, end=4.25), replace(free(), policy=replace(free().policy, elastic=True)),
                     {Code.FREE_HOURS_ONLY}, id="B5: project, nor elastic"),
        pytest.param(wish(), lab("mixed", project=None), {Code.PROJECT_UNKNOWN}, id="B4: no such project"),
        pytest.param(wish(), lab("mixed", project=replace(VISION, is_open=False)), {Code.PROJECT_CLOSED}, id="B4: a closed one"),
        pytest.param(wish(), lab("mixed", projects={}), {Code.NOT_IN_PROJECT}, id="B4: not in it"),
        pytest.param(wish(), lab("person", projects={}), {Code.NOT_IN_PROJECT}, id="B4: not in it, also as a name only"),
    ],
)
def test_b5_whose_allowance_and_which_tier(asked: Ask, known: Facts, expected: set[Code]) -> None:
    assert codes(check(asked, known)) == expected


def test_b5_the_ways_out_are_other_projects_and_the_free_tier() -> None:
    refusals = check(wish(None), lab("mixed", project=None, projects={7: "Vision", 8: "Robots"}))
    assert ways(refusals) == [
        {"project": 7, "project_name": "Vision"}, {"project": 8, "project_name": "Robots"}, {"tier": "exploration"},
    ]


def test_b5_beyond_the_free_hours_it_says_how_long_it_may_last() -> None:
    (refusal,) = check(wish(None, start=None, end=6), free())
    assert refusal.facts["fits"] == at(4) and ways([refusal]) == [{"start": None, "end": at(4)}]
    (refusal,) = check(wish(None, start=None, end=6), free(free_used={date(2026, 11, 30): 4 * 3600}))
    assert refusal.facts["fits"] is None and refusal.alternative is None


@pytest.mark.parametrize(("mode", "used", "fits"), [("mixed", 232, True), ("mixed", 233, False), ("project", 233, False)])
def test_b5_b6_the_project_pays_its_own_weekly_allowance(mode: str, used: int, fits: bool) -> None:
    known = lab(mode, used={WEEK: allowance_units(used)})
    assert codes(check(wish(), known)) == (set() if fits else {Code.QUOTA})


def test_b5_in_person_mode_a_project_pays_nothing() -> None:
    assert codes(check(wish(), lab("person", used={WEEK: allowance_units(93)}))) == {Code.QUOTA}
    assert not check(wish(), lab("person", used={WEEK: allowance_units(92)}))


def test_b5_an_empty_allowance_offers_the_other_and_never_takes_it() -> None:
    refusals = check(wish(), lab("mixed", used={WEEK: allowance_units(240)}))
    assert codes(refusals) == {Code.QUOTA} and ways(refusals) == [{"project": None, "tier": "exploration"}]
    refusals = check(wish(None, "exploration"), lab("mixed", project=None, used={WEEK: allowance_units(100)}))
    assert codes(refusals) == {Code.QUOTA} and ways(refusals) == [{"project": 7, "project_name": "Vision"}]
    assert ways(check(wish(), lab("project", used={WEEK: allowance_units(240)}))) == []


def test_e5_one_off_hours_of_the_account_that_pays() -> None:
    given = [Hours(allowance_units(3), Interval(at(-24), at(24)))]
    assert not check(wish(), lab("mixed", used={WEEK: allowance_units(235)}, grants=given))
    (refusal, *_) = check(wish(end=17), lab("mixed", used={WEEK: allowance_units(235)}, grants=given))
    assert (refusal.facts["left"], refusal.facts["fits"]) == (allowance_units(8), at(16))
    assert ways([refusal]) == [{"start": at(8), "end": at(16)}]


# --- cards at once of a project (B6) --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cards", "share", "most"), [(1, 50, 1), (2, 50, 1), (3, 50, 1), (4, 50, 2), (5, 50, 2), (8, 50, 4),
                                                      (8, 100, 8), (8, 1, 1)])
def test_b6_half_of_a_pool_rounded_down_at_least_one(cards: int, share: int, most: int) -> None:
    pool = replace(facts().pools[0], card_ids=frozenset(range(cards)))
    assert most_of_pool(pool, replace(PLAIN, project_share=share)) == most


def test_b6_a_project_holds_no_more_cards_of_a_pool_at_once() -> None:
    full = replace(VISION, holdings=[held(2, 6, 9)])
    (refusal,) = check(wish(), lab("mixed", project=full))
    assert (refusal.code, refusal.facts) == (Code.PROJECT_CARDS, {"project": "Vision", "most": 1, "would": 2})
    assert not check(wish(start=9), lab("mixed", project=full)), "after it there is room again"
    assert not check(wish(), lab("mixed", project=replace(VISION, holdings=[held(99, 6, 9)]))), "a card of another pool"
    assert not check(wish(), lab("person", project=full)), "by person a project is a name only"


# --- deadline grants (C2) -------------------------------------------------------------------------------------------------

GRANT = TierGrant(3, Interval(at(-14), at(34)), 20 * 3600)  # until the midnight after tomorrow; 20 hours x cards


def granted(*grants: TierGrant, **changes: Any) -> Facts:
    return lab("mixed", project=replace(VISION, grants=grants), **changes)


@pytest.mark.parametrize(
    ("asked", "known", "expected"),
    [
        pytest.param(wish(tier="deadline"), granted(GRANT), set(), id="C2: inside"),
        pytest.param(wish(tier="deadline"), granted(), {Code.TIER_NEEDS_GRANT}, id="C2: no grant"),
        pytest.param(wish(None, "deadline"), lab("person", project=None), {Code.TIER_NEEDS_GRANT}, id="C2: no project"),
        pytest.param(wish(tier="deadline", start=26, end=34), granted(GRANT), set(), id="C2: to the end of its last day"),
        pytest.param(wish(tier="deadline", start=26, end=34.25), granted(GRANT), {Code.GRANT_DAYS}, id="C2: beyond its last day"),
        pytest.param(wish(tier="deadline", end=28), granted(GRANT), set(), id="C2: its whole budget"),
        pytest.param(wish(tier="deadline", end=28.25), granted(GRANT), {Code.GRANT_BUDGET}, id="C2: beyond its budget"),
        pytest.param(
            wish(tier="deadline", end=20, count=2), granted(replace(GRANT, left=23 * 3600), policy={"project_share": 100}),
            {Code.GRANT_BUDGET}, id="C2: two cards count twice",
        ),
        pytest.param(wish(tier="deadline", start=26, end=34.25), granted(GRANT, TierGrant(4, Interval(at(20), at(60)), 9 * 3600)),
                     set(), id="C2: another grant goes on longer"),
    ],
)
def test_c2_the_deadline_tier_needs_a_grant(asked: Ask, known: Facts, expected: set[Code]) -> None:
    assert codes(check(asked, known)) == expected


def test_c2_the_grant_that_ends_first_is_used_and_the_plan_says_which() -> None:
    other = TierGrant(4, Interval(at(-14), at(58)), 20 * 3600)
    plan = decide(wish(tier="deadline"), granted(other, GRANT)).plan
    assert plan is not None and plan.grant_id == 3
    plan = decide(wish(tier="deadline"), granted(other, replace(GRANT, left=0))).plan
    assert plan is not None and plan.grant_id == 4
    plan = decide(wish(), granted(GRANT)).plan
    assert plan is not None and plan.grant_id is None


def test_c2_what_would_be_allowed_is_offered() -> None:
    (refusal,) = check(wish(tier="deadline"), granted())
    assert ways([refusal]) == [{"tier": "regular"}]
    (refusal,) = check(wish(tier="deadline", start=26, end=40), granted(GRANT))
    assert ways([refusal]) == [{"end": at(34)}]
    (refusal,) = check(wish(tier="deadline", end=30), granted(GRANT))
    assert ways([refusal]) == [{"end": at(28)}]


@pytest.mark.parametrize(
    ("first", "last", "deadline", "expected"),
    [
        pytest.param(1, 28, 28, [], id="C2: exactly 28 days"),
        pytest.param(1, 29, 30, [Code.GRANT_TOO_LONG], id="C2: 29 days"),
        pytest.param(1, 10, 9, [Code.GRANT_AFTER_DEADLINE], id="C2: beyond its deadline"),
        pytest.param(-3, -1, 5, [Code.DAY_OVER], id="C2: over"),
        pytest.param(5, 4, 9, [Code.DAY_OVER], id="C2: the last day before the first"),
    ],
)
def test_c2_the_days_of_a_grant(first: int, last: int, deadline: int, expected: list[Code]) -> None:
    today = date(2026, 11, 30)
    day = lambda n: today + timedelta(days=n)  # noqa: E731
    found = day_refusals(Days(day(first), day(last)), day(deadline), today, Policy())
    assert [one.code for one in found] == expected


@pytest.mark.parametrize(("gap", "second"), [(89, True), (90, False), (-200, False), (-89, True), (0, True)])
def test_c2_a_second_grant_within_90_days_of_the_former_end(gap: int, second: bool) -> None:
    former = Days(date(2026, 6, 1), date(2026, 6, 20))
    if gap < 0:
        new = Days(former.first + timedelta(days=gap - 10), former.first + timedelta(days=gap))
    else:
        new = Days(former.last + timedelta(days=gap), former.last + timedelta(days=gap + 10))
    assert is_second(new, [former], Policy()) == second


# --- people (B2) ------------------------------------------------------------------------------------------------------------


def test_b2_a_reservation_ends_by_the_midnight_of_the_last_day() -> None:
    assert not check(wish(), lab("mixed", member_until=at(16)))
    (refusal,) = check(wish(), lab("mixed", member_until=at(15)))
    assert (refusal.code, ways([refusal])) == (Code.AFTER_LAST_DAY, [{"end": at(15)}])
    (refusal,) = check(wish(), lab("mixed", member_until=at(7)))
    assert refusal.alternative is None


def test_b2_the_house_rules_come_first() -> None:
    assert codes(check(wish(), lab("mixed", rules_accepted=False))) == {Code.HOUSE_RULES}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"mode": "anarchy"}, "mode takes"), ({"free_tiers": ["deadline"]}, "free_tiers takes"),
        ({"free_tiers": ["vip"]}, "free_tiers takes"), ({"project_share": 0}, "project_share takes"),
        ({"project_share": 101}, "project_share takes"), ({"grant_days": 0}, "grant_days takes"),
    ],
)
def test_b5_b6_c2_a_policy_that_cannot_be_used_is_refused_by_name(values: dict[str, Any], says: str) -> None:
    with pytest.raises(BadPolicy, match=says):
        Policy.from_json(values)
