"""Whom a request may displace (D3, D4, D7, E4). What that costs whom is in `allocation`."""

from __future__ import annotations

from datetime import timedelta

from .facts import Facts, Holding
from .kinds import Kind, freezes_at
from .rank import Rank


def may_be_displaced(holding: Holding, rank: Rank, kind: Kind, facts: Facts) -> bool:
    """Whether a request of this rank and kind, asked at `facts.now`, may take the place of what holds the card.

    Never what has started. An elastic one: by any planned or late request within quota, until two hours before its start.
    Any other: by a planned request of stronger rank, while the policy lets displace, before the closing hour, and at most
    twice. Whether the member may displace at all (J3, D6) is `facts.may_displace`. A ruling that waives D displaces whatever has
    not started (L3).
    """
    claim, policy = holding.claim, facts.policy
    if claim is not None and "D" in facts.waived:
        return claim.start > facts.now
    if claim is None or claim.start <= facts.now or kind == Kind.WALK_IN or rank[0] or not rank < claim.rank:
        return False
    if claim.rank[0]:
        return facts.now < claim.start - timedelta(seconds=policy.elastic_safe_s)
    return (
        policy.displacement
        and kind == Kind.PLANNED
        and claim.displaced_times < policy.safe_after
        # the closing hour is one of the same evening on which it freezes
        and facts.now < freezes_at(claim.start, facts.zone, policy.closing)
    )
