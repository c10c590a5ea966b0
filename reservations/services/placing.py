"""What a decision on a request rests on, read under the lock, and the rows that its plan becomes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from .. import queries
from ..models import Allocation, Member, Reservation
from ..prepared import insert
from ..queries import LabFacts
from ..rules import booking as rules
from ..rules.interval import Interval
from ..rules.policy import Scheduling
from ..rules.projects import pays
from ..rules.quota import price_to_json
from ..rules.rank import standing
from ..rules.week import local_date, weeks_of
from .held import TINY, Held

LONGEST_LOOK = timedelta(days=366)
BESIDE = timedelta(hours=2)  # how far beside the asked time a gap is small (G2)


def cards_to_lock(ask: rules.Ask) -> list[int]:
    """The named cards and their pools' others, whose sums (reserve, quick cards) the answer rests on; or all that may be
    chosen from."""
    return queries.pool_mates(ask.card_ids) if ask.is_named else queries.serving_cards(ask.pool_id)


def facts_for(
    member: Member, ask: rules.Ask, lab: LabFacts, now: datetime, *, as_asked: bool = False
) -> rules.Facts:
    """Everything the answer to this request rests on. Under the lock, if something is to be written.

    `as_asked`: for `decide` inside the time asked, and no other: what is held at other times is left out.
    """
    from_ = ask.start or now
    until = min(max(ask.end, from_ + TINY), from_ + LONGEST_LOOK)
    whole = Interval(min(from_, now), max(until, now + TINY))
    weeks = [week for week, _ in weeks_of(whole, lab.zone)][:60]
    cards = queries.cards_and_mates(ask.card_ids) if ask.is_named else queries.cards_serving(ask.pool_id)
    card_ids = sorted(cards)
    lowered = standing(queries.open_demerit_points(member, now), lab.policy)
    cooling = member.no_displacing_until is not None and now < member.no_displacing_until
    pools = queries.pools_of(cards, lab)
    account = queries.account(member, ask.project_id if pays(ask.project_id, lab.policy) else None, weeks, lab)
    # Which projects the member has matters for what may be booked, or offered instead, save in `person` mode without one.
    asks_projects = ask.project_id is not None or lab.policy.mode != Scheduling.PERSON
    mates = sorted({card_id for pool in pools.values() for card_id in pool.card_ids})
    asked = queries.named(cards, ask.card_ids) if ask.is_named else cards
    own = queries.holdings_of(member.pk, from_, max(ask.end, from_ + TINY)) if as_asked else queries.holdings_of(member.pk, now)
    days = [local_date(whole.start, lab.zone) + timedelta(days=n) for n in range((whole.end - whole.start).days + 2)]
    return rules.Facts(
        now=now, zone=lab.zone, policy=lab.policy, member_id=member.pk, member_approved=member.is_approved,
        member_role=member.role, cards=asked, pools=pools,
        holdings=[
            *queries.holdings_between(card_ids, (from_ if as_asked else min(from_, now)) - BESIDE, until + BESIDE, claims=True),
            *queries.lost_cards(card_ids, now),
        ],
        own=own, own_future=queries.future_count(member.pk, now),
        used=account.used, free_used=queries.free_seconds_used(member.pk, days[:400]),
        used_last=queries.card_used_last(member.pk) if not ask.is_named else None,
        steps=lowered.steps, may_displace=lowered.may_displace and not cooling,
        no_displacing_until=member.no_displacing_until if cooling else None, mates=cards, grants=account.grants,
        projects=queries.projects_of(member.pk) if asks_projects else {},
        project=None if ask.project_id is None else queries.project_facts(ask.project_id, mates, lab, now),
        member_until=queries.last_instant(member, lab), rules_accepted=member.accepted_rules >= lab.rules_version,
        kept=queries.kept_for_others(member.pk, asked, whole, now, lab),
    )


def on_reserve(reserved: int) -> dict[str, Any]:
    """What the audit keeps of the use of emergency reserve cards, which is public (G4)."""
    return {"reserve": reserved} if reserved else {}


def allocate(reservation: Reservation, plan: rules.Plan, facts: rules.Facts, lab: LabFacts) -> Held:
    """Writes the rows of the plan's cards; the reservation with them."""
    rows = insert(
        [
            Allocation(
                reservation=reservation, gpu_id=card_id, status=reservation.status, start=plan.held.start,
                end=plan.held.end, weight=facts.cards[card_id].weight, price=price_to_json(plan.prices[card_id]),
            )
            for card_id in plan.card_ids
        ]
    )
    return Held(reservation, sorted(rows, key=lambda row: row.gpu_id), lab)
