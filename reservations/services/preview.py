"""What a booking would be, before it is pressed: reads only, under no lock. Booking decides again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from .. import queries
from ..models import Member, Reservation
from ..rules import booking as rules
from ..rules.instead import may_help
from ..rules.refusal import Refusal
from ..rules.slots import units_of
from . import placing, slots, ways
from .booking import BookingRequest
from .slots import Slot, Week


@dataclass(frozen=True)
class Preview:
    """Either refusals, with ways out that would be booked, or a plan and what it comes to.

    `labels`: the plan's cards by name; `units`: its whole charge; `steps`: by how many tiers standing lowers it (J3);
    `makes_room`: the reservations that it would displace, holder and cards loaded; `others`: slots to be had instead.
    """

    refusals: tuple[Refusal, ...]
    plan: rules.Plan | None = None
    labels: tuple[str, ...] = ()
    units: int = 0
    weeks: tuple[Week, ...] = ()
    steps: int = 0
    makes_room: Sequence[Reservation] = ()
    others: tuple[Slot, ...] = ()


def preview(member: Member, request: BookingRequest, *, now: datetime) -> Preview:
    """What would come of the request if it were asked now. Other slots are looked for where it is refused or displaces."""
    lab, ask = queries.lab_facts(), request.ask()
    facts = placing.facts_for(member, ask, lab, now, as_asked=True)
    decision = rules.decide(ask, facts)
    plan = decision.plan
    if plan is None:
        return Preview(
            tuple(ways.allowed(member, request, decision.refusals, now)),
            others=tuple(slots.alternatives_for(member, request, now))
            if may_help(one.code for one in decision.refusals) else (),
        )
    return Preview(
        (), plan, tuple(facts.cards[card_id].label for card_id in plan.card_ids), units_of(plan, facts),
        slots.weeks_charged(plan, ask, facts), facts.steps, queries.reservations_named(plan.displaced) if plan.displaced else (),
        tuple(slots.without_displacing(member, request, now)) if plan.displaced else (),
    )
