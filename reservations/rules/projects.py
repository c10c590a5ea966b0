"""For which project, and on whose account: the lab's scheduling mode, projects' caps and deadline grants (B5, B6, C2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from .facts import Ask, Facts, Holding, PoolFacts, TierGrant
from .hours import Account
from .interval import Interval, most_at_once, whole_seconds
from .kinds import Kind
from .policy import Policy, Scheduling
from .quota import allowance_units
from .refusal import Alternative, Code, Refusal


def pays(project_id: int | None, policy: Policy) -> bool:
    """Whether the allowance of the project is charged, not the member's own (B5)."""
    return project_id is not None and policy.mode != Scheduling.PERSON


def free_walk_in(project_id: int | None, policy: Policy, kind: Kind) -> bool:
    """Whether only the free card-hours may be used: a walk-in for no project in `project` mode (B5)."""
    return project_id is None and policy.mode == Scheduling.PROJECT and kind == Kind.WALK_IN


def account_of(ask: Ask, facts: Facts) -> Account | None:
    """The account that pays; None where another refusal says that there is none."""
    if pays(ask.project_id, facts.policy):
        if facts.project is None:
            return None
        return Account(allowance_units(facts.project.weekly_hours), facts.used, facts.grants)
    role = facts.policy.role(facts.member_role)
    return None if role is None else Account(allowance_units(role.weekly_hours), facts.used, facts.grants)


def mode_refusals(ask: Ask, facts: Facts, kind: Kind) -> Iterator[Refusal]:
    """What is against the project asked for, or against asking for none (B4, B5). Each way out is a refusal of its own."""
    policy = facts.policy
    if ask.project_id is not None:
        yield from _project_refusals(ask, facts)
        return
    if policy.mode == Scheduling.PROJECT and kind != Kind.WALK_IN:
        yield from _with_ways(Code.PROJECT_NEEDED, {"known": bool(facts.projects)}, _projects(facts))
    if policy.mode == Scheduling.MIXED and ask.tier in policy.tiers and ask.tier not in policy.free_tiers:
        ways = [{"tier": tier} for tier in policy.free_tiers]
        yield from _with_ways(Code.TIER_NEEDS_PROJECT, {"tier": ask.tier, "free": policy.free_tiers}, [*_projects(facts), *ways])


def _project_refusals(ask: Ask, facts: Facts) -> Iterator[Refusal]:
    project = facts.project
    if project is None:
        yield Refusal(Code.PROJECT_UNKNOWN)
    elif not project.is_open:
        yield Refusal(Code.PROJECT_CLOSED, {"project": project.name})
    elif project.id not in facts.projects:
        yield Refusal(Code.NOT_IN_PROJECT, {"project": project.name})


def _projects(facts: Facts) -> list[Mapping[str, Any]]:
    return [{"project": pk, "project_name": name} for pk, name in facts.projects.items()]


def _with_ways(code: Code, said: Mapping[str, Any], ways: list[Mapping[str, Any]]) -> Iterator[Refusal]:
    if not ways:
        yield Refusal(code, said)
    for way in ways:
        yield Refusal(code, said, Alternative(way))


# --- deadline grants (C2) -----------------------------------------------------------------------------------------------


def grant_for(grants: Sequence[TierGrant], held: Interval, cards: int) -> TierGrant | None:
    """The grant that allows these cards for this time: of several the one that ends first."""
    needs = cards * whole_seconds(held.start, held.end)
    fitting = [one for one in grants if held.cut(one.valid) == held and needs <= one.left]
    return min(fitting, key=lambda one: (one.valid.end, one.id), default=None)


def grant_refusals(ask: Ask, facts: Facts, held: Interval) -> Iterator[Refusal]:
    """What is against a tier that needs a deadline grant: there is none, its days, its budget (C2)."""
    policy = facts.policy
    if ask.tier not in policy.granted_tiers:
        return
    grants = facts.project.grants if facts.project is not None else ()
    yield from grant_refusals_for(grants, held, ask.wanted, ask.tier, policy)


def grant_refusals_for(
    grants: Sequence[TierGrant], held: Interval, cards: int, tier: str, policy: Policy
) -> Iterator[Refusal]:
    """The same for known grants; what would be allowed is said for the one that goes on longest."""
    if grant_for(grants, held, cards) is not None:
        return
    if not grants:
        yield Refusal(Code.TIER_NEEDS_GRANT, {"tier": tier}, Alternative({"tier": policy.plain_tier}))
        return
    last = max(grants, key=lambda one: (one.valid.end, one.id))
    if held.cut(last.valid) != held:
        instead = Alternative({"end": last.valid.end}) if last.valid.start <= held.start < last.valid.end else None
        yield Refusal(Code.GRANT_DAYS, {"start": last.valid.start, "end": last.valid.end}, instead)
    needs = cards * whole_seconds(held.start, held.end)
    if needs > last.left:
        seconds = last.left // cards // policy.raster_s * policy.raster_s if cards else 0
        fits = held.start + timedelta(seconds=seconds)
        usable = seconds >= policy.shortest_s
        yield Refusal(
            Code.GRANT_BUDGET, {"needs": needs, "left": last.left}, Alternative({"end": fits}) if usable else None
        )


def other_account(ask: Ask, facts: Facts, refused: Refusal) -> Iterator[Refusal]:
    """The same refusal with the other account as the way out: nothing falls back silently (B5)."""
    policy = facts.policy
    if policy.mode != Scheduling.MIXED:
        return
    own = [{"project": None, "tier": tier} for tier in policy.free_tiers]
    for way in _projects(facts) if ask.project_id is None else own:
        yield Refusal(refused.code, refused.facts, Alternative(way))


def most_of_pool(pool: PoolFacts, policy: Policy) -> int:
    """How many cards of a pool a project may hold at once: its share of those that serve, at least one (B6)."""
    return max(len(pool.card_ids) * policy.project_share // 100, 1)


def project_cap(
    ask: Ask, facts: Facts, held: Interval, card_ids: tuple[int, ...], displaced: frozenset[int] = frozenset()
) -> Iterator[Refusal]:
    """A refusal for each pool of which the project would hold too many cards at some instant of `held` (B6).

    What makes room for the request (`displaced`) holds nothing any more.
    """
    if facts.project is None or not pays(ask.project_id, facts.policy):
        return
    others = [one for one in facts.project.holdings if one.reservation_id not in displaced]
    for pool in facts.pools.values():
        wanted = sum(card_id in pool.card_ids for card_id in card_ids)
        yield from pool_cap(pool, wanted, others, held, facts.policy, facts.project.name)


def pool_cap(
    pool: PoolFacts, wanted: int, holdings: Iterable[Holding], held: Interval, policy: Policy, name: str
) -> Iterator[Refusal]:
    """A refusal when with `wanted` cards more the project would hold too many of the pool (B6)."""
    theirs = [one.interval.cut(held) for one in holdings if one.card_id in pool.card_ids]
    would = most_at_once(part for part in theirs if part) + wanted
    most = most_of_pool(pool, policy)
    if wanted and would > most:
        yield Refusal(Code.PROJECT_CARDS, {"project": name, "most": most, "would": would})
