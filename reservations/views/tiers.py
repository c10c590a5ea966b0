"""Which tiers and which project a form offers its reader (B5, C1, C2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.http import HttpRequest

from .. import queries
from ..rules.policy import Policy
from ..rules.projects import Scheduling


def open_tiers(projects: Mapping[int, str], policy: Policy, request: HttpRequest) -> list[str]:
    """The tiers to choose from: those that need a grant only with one in force, and without any project what is left."""
    granted = queries.is_granted(projects, request.lab, request.now)
    tiers = [code for code in policy.tiers if granted or code not in policy.granted_tiers]
    if not projects and policy.mode == Scheduling.MIXED:
        tiers = [code for code in tiers if code in policy.free_tiers]
    return tiers


def usual_tier(tiers: Sequence[str], project: int | None, policy: Policy) -> str:
    """The tier that a form shows when nothing else was chosen."""
    usual = "regular" if "regular" in tiers else tiers[0] if tiers else ""
    if project is None and policy.mode == Scheduling.MIXED:
        return next(iter(policy.free_tiers), usual)
    return usual
