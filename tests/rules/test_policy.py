"""The policy is one validated value."""

from typing import Any

import pytest

from reservations.rules.policy import BadPolicy, Policy


def test_n_the_defaults_are_the_balanced_preset() -> None:
    policy = Policy()
    assert {code: role.weekly_hours for code, role in policy.roles.items()} == {
        "undergraduate": 20, "master": 60, "phd": 100, "staff": 100,
    }
    assert (policy.opens_days, policy.longest_s, policy.cards_at_once, policy.open_future) == (14, 72 * 3600, 4, 6)
    assert (policy.overrun_grace_s, policy.point_life_s) == (600, 30 * 86_400)


def test_a_policy_survives_being_stored() -> None:
    assert Policy.from_json(Policy().to_json()) == Policy()
    assert Policy.from_json({}) == Policy()


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"rastr_s": 60}, "no such setting: rastr_s"),
        ({"raster_s": 0}, "raster_s takes a divisor of a day"),
        ({"raster_s": 7 * 60}, "raster_s takes a divisor of a day"),
        ({"raster_s": -900}, "raster_s takes a whole number"),
        ({"raster_s": 900.5}, "raster_s takes a whole number"),
        ({"raster_s": True}, "raster_s takes a whole number"),
        ({"shortest_s": 7200, "longest_s": 3600}, "shortest_s must be"),
        ({"samples_in_a_row": 0}, "samples_in_a_row"),
        ({"opens_at": "noon"}, "opens_at takes a time of day"),
        ({"cleanup": 1}, "cleanup takes true or false"),
        ({"cleanup_at": "25:00"}, "cleanup_at takes a time of day"),
        ({"cleanup_weekday": 7}, "cleanup_weekday takes a number from 0"),
        ({"cleanup_grace_s": 0}, "cleanup_grace_s takes 1 second to a day"),
        ({"cleanup_grace_s": 86_401}, "cleanup_grace_s takes 1 second to a day"),
        ({"opens_days": 4000}, "opens_days takes at most"),
        ({"tiers": []}, "tiers takes"),
        ({"tiers": ["a", "a"]}, "tiers takes"),
        ({"roles": {}}, "roles takes"),
        ({"roles": {"phd": {"weekly": 3}}}, "cannot be read"),
        ({"roles": {"phd": {"weekly_hours": -3}}}, "weekly_hours"),
        ({"roles": 7}, "cannot be read"),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused_by_name(values: dict[str, Any], says: str) -> None:
    with pytest.raises(BadPolicy, match=says):
        Policy.from_json(values)
