"""Looking for a slot, and for what can be had instead of a refused request: reads only, under no lock.

What is found may be taken before it is pressed; booking decides again. All facts are read at once over the whole time that may
be booked, with as many queries for a large lab as for a small one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from .. import queries
from ..models import Member, Reservation
from ..queries import LabFacts
from ..rules import booking as rules
from ..rules.instead import How, alternatives
from ..rules.kinds import Kind
from ..rules.lifecycle import Status
from ..rules.projects import account_of
from ..rules.quota import charge
from ..rules.slots import earliest, open_until, units_of
from . import booking
from .booking import BookingRequest
from .held import TINY

AFTER = timedelta(days=14)  # how long after the asked start another slot is still offered


@dataclass(frozen=True)
class Wanted:
    """What somebody looks for: cards by name or a `count` of any that fit, for an elapsed `length`, not before `after`."""

    length: timedelta
    card_ids: tuple[int, ...] = ()
    count: int = 0
    tier: str = "regular"
    pool_id: int | None = None
    model: str | None = None
    min_memory: int | None = None
    several_hosts: bool = False
    after: datetime | None = None
    project_id: int | None = None

    def ask(self, now: datetime) -> rules.Ask:
        """The request, at its first start."""
        return rules.Ask(
            tuple(sorted(set(self.card_ids))), self.after, (self.after or now) + self.length, self.tier, self.count, self.pool_id,
            self.model, self.min_memory, self.several_hosts, project_id=self.project_id,
        )


@dataclass(frozen=True)
class Week:
    """A quota week that a booking charges, in units: used before, and after it, of the allowance."""

    monday: date
    before: int
    after: int
    allowance: int


@dataclass(frozen=True)
class Slot:
    """A plan that could be booked now, its cards by their names, and what it charges over all weeks (units).

    `weeks`: those of the account that pays, where `find` made it.
    """

    plan: rules.Plan
    labels: tuple[str, ...]
    units: int
    how: How = How.OTHER_TIME
    weeks: tuple[Week, ...] = ()

    @property
    def start(self) -> datetime | None:
        """The start to ask for: None for a walk-in, which starts whenever it is booked."""
        return None if self.plan.kind == Kind.WALK_IN else self.plan.held.start


def find(member: Member, wanted: Wanted, before: datetime | None, now: datetime, *, several: int = 5) -> list[Slot]:
    """The earliest `several` slots that end by `before` (the last open day unless given), each allowed as it stands.

    Of one pool none begins before another's length is over: another quarter of an hour is no other slot. Nobody is displaced
    for them.
    """
    ask = wanted.ask(now)
    facts = wide_facts(member, ask, queries.lab_facts(), now)
    until = open_until(now, facts.zone, facts.policy) if before is None else before
    found = earliest(ask, facts, length=wanted.length, until=until, several=several, apart=wanted.length)
    return [replace(slot(plan, facts), weeks=weeks_charged(plan, ask, facts)) for plan in found]


def alternatives_for(member: Member, request: BookingRequest, now: datetime) -> list[Slot]:
    """Up to three slots that can be had instead of a refused request, best first, each different and allowed (D5)."""
    ask = request.ask()
    until = _worth_offering(ask, now)
    facts = wide_facts(member, ask, queries.lab_facts(), now, until, from_=ask.start)
    return [slot(one.plan, facts, one.how) for one in alternatives(ask, facts, until=until)]


def instead_of(displaced: Reservation, now: datetime) -> list[Slot]:
    """Up to three slots for who was displaced (D5); none once another one has been taken in its place, or its time has passed."""
    if displaced.status != Status.DISPLACED or booking.is_replaced(displaced):
        return []
    return alternatives_for(displaced.holder, booking.in_place_of(displaced), now)


def without_displacing(member: Member, request: BookingRequest, now: datetime) -> list[Slot]:
    """Up to three slots for a request that would displace somebody, for which nobody makes room."""
    ask = request.ask()
    until = _worth_offering(ask, now)
    facts = replace(
        wide_facts(member, ask, queries.lab_facts(), now, until, from_=ask.start), may_displace=False
    )
    return [slot(one.plan, facts, one.how) for one in alternatives(ask, facts, until=until)]


def _worth_offering(ask: rules.Ask, now: datetime) -> datetime:
    """Until when another slot is looked for: far later nobody takes it in place of what was asked, and a crowd that was refused
    at once would have every day that is open read for each of them."""
    return max(ask.start or now, now) + max(AFTER, ask.end - (ask.start or now))


def wide_facts(
    member: Member, ask: rules.Ask, lab: LabFacts, now: datetime, until: datetime | None = None, *,
    from_: datetime | None = None,
) -> rules.Facts:
    """The facts of a booking, from now or `from_` to the end of the open days or `until`, with all cards that could serve
    instead of named ones. For no search that begins before `from_`."""
    last = open_until(now, lab.zone, lab.policy)
    until = max(last if until is None else min(until, last), now + TINY)
    start = from_ if from_ is not None and now < from_ < until else None
    facts = booking.facts_for(member, replace(ask, start=start, end=until), lab, now, as_asked=start is not None)
    if not ask.is_named:
        return facts
    return replace(
        facts, cards=queries.cards(queries.pool_mates(ask.card_ids)), used_last=queries.card_used_last(member.pk)
    )


def slot(plan: rules.Plan, facts: rules.Facts, how: How = How.OTHER_TIME) -> Slot:
    """The plan with its cards' names and its charge."""
    return Slot(plan, tuple(facts.cards[card_id].label for card_id in plan.card_ids), units_of(plan, facts), how)


def weeks_charged(plan: rules.Plan, ask: rules.Ask, facts: rules.Facts) -> tuple[Week, ...]:
    """The weeks of the account that pays for the plan; none where nobody's hours do."""
    account = account_of(ask, facts)
    # What is beyond the allowance has an account of its own, and a walk-in without a project costs nobody anything (E4, B5).
    if account is None or plan.is_elastic:
        return ()
    charges = charge([(plan.prices[card_id], facts.cards[card_id].weight) for card_id in plan.card_ids], facts.zone)
    return tuple(
        Week(week, account.used.get(week, 0), account.used.get(week, 0) + units, account.allowance)
        for week, units in sorted(charges.items())
    )
