"""Who goes before whom: effective ranks, and what standing does to them (C3, J3)."""

from __future__ import annotations

from dataclasses import dataclass

from .policy import Policy

# (0 within quota, 1 elastic; tier lowered by standing). Smaller is stronger. Compared, never added (C3).
Rank = tuple[int, int]
MOST_LOWERED = 2  # steps below the weakest tier at most


def rank_of(is_elastic: bool, rank_tier: int) -> Rank:
    """The effective rank of a reservation on the elastic account or within quota, in this place of the tiers (C3)."""
    return (int(is_elastic), rank_tier)


@dataclass(frozen=True)
class Standing:
    """What a member's points do to the next bookings: tiers lower, and whether they may displace (J3)."""

    steps: int
    may_displace: bool


def standing(points: int, policy: Policy) -> Standing:
    """The standing with so many points that count."""
    if points >= policy.two_steps_points:
        return Standing(2, may_displace=False)
    return Standing(int(points >= policy.one_step_points), may_displace=True)


def lowered(tier: str, steps: int, policy: Policy) -> int:
    """The place of the tier among the policy's, 0 strongest, so many steps weaker; at most two below the weakest."""
    return min(policy.rank_tier(tier) + steps, len(policy.tiers) - 1 + MOST_LOWERED)
