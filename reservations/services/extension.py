"""Extending a reservation, and how far that could go (H5, H0)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from .. import permissions, queries
from ..models import Allocation, AuditEntry, Member, Notification, Reservation
from ..rules import booking as rules
from ..rules.interval import Interval, whole_seconds
from ..rules.kinds import Kind, kind_of, unfrozen_from
from ..rules.lifecycle import Status
from ..rules.policy import HOUR, Policy
from ..rules.projects import free_walk_in, grant_refusals_for, mode_refusals, pool_cap
from ..rules.quota import Price, charge, free_seconds
from ..rules.refusal import Alternative, Code, Refused, refuse
from ..rules.supply import choices, kept_refusals, reserve_taken, room_in_pool
from ..rules.week import day_start, last_open_day, local_date, on_raster, round_to_raster, weeks_of
from . import audit, fees, outbox
from .held import (
    TINY,
    Account,
    Held,
    Reason,
    add_price,
    guarded,
    held_by,
    locked,
    on_its_cards,
    own_others,
    post,
    pressed,
    remember,
    reopen,
    repeated,
    status_at,
    taken,
)
from .placing import facts_for, on_reserve

_STEP_S = HOUR  # what is extended while free goes on hour by hour
_BEFORE_THE_MESSAGE = timedelta(minutes=1)  # so that nobody is told of an end that has just moved


def extend(
    reservation_id: int, new_end: datetime, *, by: Member, version: int | None, now: datetime, origin: str = "page",
    key: str = "", pressed_by: int | None = None,
) -> Reservation:
    """Moves the end later while the cards are free and quota and windows allow (H5); also within the grace (H0).

    A repeat of the same key returns the reservation as it stands. Raises `Refused`; the refusal says the longest
    possible end.
    """
    fingerprint = hashlib.sha256(f"extend {reservation_id} {new_end.isoformat()}".encode()).hexdigest()
    with locked(reservation_id, by, permissions.Action.EXTEND, None, now) as held:
        if done := repeated(by, key, fingerprint):
            return done
        reservation = held.reservation
        if version is not None and version != reservation.version:
            raise refuse(Code.STALE)
        facts = _refuse_unextendable(held, new_end, now)
        entry = _carry_out(held, new_end, facts, by, origin, now, pressed_by)
        outbox.write_changed(reservation, entry, now)
        remember(by, key, fingerprint, reservation, now)
        return reservation


def free_due(now: datetime, policy: Policy) -> list[int]:
    """Reservations to be extended while free whose end is near: shortly before the message on the end would leave (H5)."""
    near = now + timedelta(seconds=policy.ending_notice_s) + _BEFORE_THE_MESSAGE
    rows = Reservation.objects.filter(status=Status.ACTIVE, extend_while_free=True, end__gt=now, end__lte=near)
    return list(rows.order_by("end").values_list("pk", flat=True)[:500])


def extend_free(reservation_id: int, *, now: datetime) -> bool:
    """Extends what its holder wished to be extended while free by an hour, or as far as it goes; says whether it did (H5).

    Only while nobody waits, at most the policy's hours in all, and where the holder could extend it by hand. Raises
    `locking.Busy`.
    """
    with guarded(), on_its_cards(reservation_id, people=True):
        held = held_by(Reservation.objects.select_related("holder").get(pk=reservation_id))
        reservation, policy = held.reservation, held.lab.policy
        if status_at(reservation, now) != Status.ACTIVE or reservation_id not in free_due(now, policy):
            return False
        card_ids = [row.gpu_id for row in held.allocations]
        left = policy.extend_free_s - reservation.extended_free_s
        longest = _longest(held, now)
        if left <= 0 or longest is None:
            return False
        old_end = reservation.end
        if queries.somebody_waits(card_ids, Interval(old_end, longest), now, besides=reservation.holder_id):
            return False
        most = min(longest, old_end + timedelta(seconds=min(left, _STEP_S)))
        new_end = round_to_raster(most, policy.raster_s, held.lab.zone, up=False)
        if new_end <= old_end:
            return False
        facts = _refuse_unextendable(held, new_end, now)
        reservation.extended_free_s += whole_seconds(old_end, new_end)
        reservation.save(update_fields=["extended_free_s"])
        entry = _carry_out(held, new_end, facts, None, "sweep", now)
        outbox.write(
            Notification.Kind.EXTENDED, reservation.holder, key=f"extended:{entry.pk}", due_at=now, reservation=reservation
        )
        return True


def _carry_out(
    held: Held, new_end: datetime, facts: rules.Facts, by: Member | None, origin: str, now: datetime,
    pressed_by: int | None = None,
) -> AuditEntry:
    """The rows of an extension that nothing stands against; `by` None when the system extends. Returns its audit."""
    reservation, lab, old_end = held.reservation, held.lab, held.reservation.end
    added = Interval(old_end, new_end)
    prices = _prices(held, added, facts)
    add_price(held, prices)
    if reservation.status == Status.FINISHED:
        reopen(held, new_end)
    else:
        reservation.end = new_end
        reservation.version += 1
        reservation.save(update_fields=["end", "version"])
        Allocation.objects.filter(reservation=reservation, given_back_at=None, end=old_end).update(end=new_end)
    cards = [(prices[row.gpu_id], row.weight) for row in held.allocations]
    post(reservation, charge(cards, lab.zone), Reason.EXTENDED, now)
    if reservation.kind == Kind.WALK_IN:
        for price, _ in cards:
            post(reservation, free_seconds(price, 1, lab.zone), Reason.EXTENDED, now, account=Account.FREE)
    fees.return_for([row.gpu_id for row in held.allocations], added, lab, now)
    outbox.write_reminders(reservation, lab, now)
    return audit.note(
        "extend", reservation, actor=by, origin=origin, now=now,
        old_end=old_end.isoformat(), new_end=new_end.isoformat(), **pressed(pressed_by),
        **on_reserve(_reserve_taken(held, added, facts)),
    )


def longest_end(reservation: Reservation, *, now: datetime) -> datetime | None:
    """The latest end the reservation could be extended to now, or None when it cannot be extended (H5)."""
    return _longest(held_by(reservation), now)


def quota_for(
    held: Held, cards: Sequence[tuple[Price, int]], within: Interval | None = None
) -> list[rules.Refusal]:
    """What the account that pays says against these cards' time (the part inside `within`).

    Nothing of an elastic reservation: it is beyond the allowance as a whole (E4).
    """
    if held.reservation.is_elastic:
        return []
    if within is not None:
        cards = [(tuple(one for one in _cut(price, within)), weight) for price, weight in cards]
    return weeks_without_room(held, cards)


def weeks_without_room(held: Held, cards: Sequence[tuple[Price, int]]) -> list[rules.Refusal]:
    """A refusal for each week of the holder's allowance that these cards' time overdraws (E2)."""
    lab = held.lab
    span = Interval(cards[0][0][0].interval.start, cards[0][0][-1].interval.end)
    reservation = held.reservation
    if free_walk_in(reservation.project_id, lab.policy, Kind(reservation.kind)):
        return list(rules.free_refusals(cards, zone=lab.zone, policy=lab.policy, asked_start=None))
    weeks = [week for week, _ in weeks_of(span, lab.zone)]
    account = queries.account(reservation.holder, reservation.payer_id, weeks, lab)
    return list(
        rules.quota_refusals(cards, account=account, zone=lab.zone, policy=lab.policy, asked_start=None)
    )


def refuse_return(
    held: Held, span: Interval, now: datetime, beside: Sequence[rules.Holding] | None = None
) -> list[rules.Refusal]:
    """What stands against holding `span` of the reservation again: too many walk-ins, cards kept back, the project's cards
    at once, its collaborators', the budget of its grant (B4, B6, C2, D2, G4, G7).

    `beside`: what the holder holds beside these cards, others of the reservation among it; None = everything but it.
    """
    facts = _facts(held, span, now)
    budget = [one for one in _grant_refusals(held, span, facts, live_only=True) if one.code == Code.GRANT_BUDGET]
    more = sum(one.reservation_id == held.reservation.pk and one.interval.overlaps(span) for one in beside or ())
    return [
        *_walk_in_refusals(held, span, now, beside), *_reserve_refusals(held, span, facts),
        *_project_cap(held, span, facts, its_others=beside is not None),
        *collaborators_over(held, span, now, cards=len(held.allocations) + more),
        *(rules.Refusal(one.code, one.facts) for one in budget),
    ]


def collaborators_over(
    held: Held, span: Interval, now: datetime, *, cards: int | None = None
) -> list[rules.Refusal]:
    """A refusal for each collaborator who would hold too many cards at once in `span` (B4), with the reservation's or `cards`."""
    refusals = []
    cards = len(held.allocations) if cards is None else cards
    people = Member.objects.filter(pk__in=held.reservation.collaborator_ids) if held.reservation.collaborator_ids else ()
    for one in people:
        own = [row for row in queries.holdings_of(one.pk, now) if row.reservation_id != held.reservation.pk]
        for refusal in rules.crowd_refusals(span, cards, own, held.lab.policy, one.role):
            refusals.append(rules.Refusal(Code.COLLABORATOR_CARDS, {"name": str(one), **refusal.facts}))
    return refusals


def _cut(price: Price, within: Interval) -> Price:
    parts = ((one, one.interval.cut(within)) for one in price)
    return tuple(type(one)(part, one.rate, one.free) for one, part in parts if part)


def _facts(held: Held, added: Interval, now: datetime) -> rules.Facts:
    reservation = held.reservation
    card_ids = tuple(row.gpu_id for row in held.allocations)
    ask = rules.Ask(card_ids, added.start, added.end, reservation.tier, project_id=reservation.project_id)
    return facts_for(reservation.holder, ask, held.lab, now)


def _prices(held: Held, added: Interval, facts: rules.Facts) -> Mapping[int, Price]:
    cards = [facts.cards[row.gpu_id] for row in held.allocations]
    return rules.prices_for(cards, added, Kind(held.reservation.kind), facts)


def _most_length(held: Held) -> timedelta:
    policy = held.lab.policy
    return timedelta(seconds=policy.walk_in_longest_s) if held.reservation.kind == Kind.WALK_IN else policy.longest


def _window_refusals(held: Held, end: datetime, facts: rules.Facts) -> list[rules.Refusal]:
    """What the windows say against the reservation until `end`; what they say of time already booked is past mending."""
    reservation, lab = held.reservation, held.lab
    found = rules.window_refusals(
        Interval(reservation.start, end), Kind(reservation.kind), list(facts.pools.values()), asked_start=None,
        policy=lab.policy, zone=lab.zone,
    )
    return [one for one in found if one.facts.get("end") is None or one.facts["end"] > reservation.end]


def _walk_in_refusals(
    held: Held, span: Interval, now: datetime, beside: Sequence[rules.Holding] | None = None
) -> list[rules.Refusal]:
    """Too many cards as walk-ins, with those begun since this one ended (D2, H0)."""
    if held.reservation.kind != Kind.WALK_IN:
        return []
    beside = own_others(held, now) if beside is None else beside
    return list(rules.walk_in_card_refusals(span, len(held.allocations), beside, held.lab.policy))


def _reserve_taken(held: Held, added: Interval, facts: rules.Facts) -> int:
    """How many cards the added time takes of emergency reserves (G4)."""
    reservation = held.reservation
    whole = Interval(reservation.start, added.end)
    cards = [row.gpu_id for row in held.allocations]
    return reserve_taken(cards, facts, added, Kind(reservation.kind), reservation.tier, whole=whole)


def _reserve_refusals(held: Held, added: Interval, facts: rules.Facts) -> list[rules.Refusal]:
    """Cards that the pool keeps back from so long a reservation (G4, G7)."""
    whole = Interval(held.reservation.start, added.end)
    kind = Kind(held.reservation.kind)
    refusals = []
    for pool_id, pool in facts.pools.items():
        count = sum(facts.cards[row.gpu_id].pool_id == pool_id for row in held.allocations)
        room = room_in_pool(pool, facts, added, kind, held.reservation.tier, whole=whole)
        if (pool.reserve or pool.quick) and room < count:
            refusals.append(rules.Refusal(Code.RESERVE_KEPT, {"reserve": pool.reserve, "quick": pool.quick}))
    return refusals


def _project_cap(
    held: Held, span: Interval, facts: rules.Facts, *, its_others: bool = False
) -> list[rules.Refusal]:
    """Too many cards of a pool at once for the project that pays (B6); with `its_others` beside others of the reservation."""
    project = facts.project
    if project is None or held.reservation.payer_id is None:
        return []
    others = [one for one in project.holdings if its_others or one.reservation_id != held.reservation.pk]
    return [
        refusal
        for pool in facts.pools.values()
        for refusal in pool_cap(
            pool, sum(row.gpu_id in pool.card_ids for row in held.allocations), others, span, held.lab.policy, project.name
        )
    ]


def _grant_refusals(held: Held, span: Interval, facts: rules.Facts, *, live_only: bool = False) -> list[rules.Refusal]:
    """What the deadline grant of the reservation says of `span` beside what it holds (C2); nothing of what needs none.

    `live_only`: a grant that is over says nothing.
    """
    reservation, policy = held.reservation, held.lab.policy
    if reservation.tier not in policy.granted_tiers:
        return []
    grants = [one for one in (facts.project.grants if facts.project else ()) if one.id == reservation.grant_id]
    if live_only and not grants:
        return []
    return list(grant_refusals_for(grants, span, len(held.allocations), reservation.tier, policy))


def _mode_refusals(held: Held, facts: rules.Facts) -> list[rules.Refusal]:
    """What the lab's scheduling mode says now (B5, E6), without ways out: an extension keeps project and tier."""
    reservation = held.reservation
    ask = rules.Ask((), None, reservation.end, reservation.tier, project_id=reservation.project_id)
    return [rules.Refusal(one.code, one.facts) for one in mode_refusals(ask, facts, Kind(reservation.kind))][:1]


def _longest(held: Held, now: datetime) -> datetime | None:
    reservation, lab = held.reservation, held.lab
    policy = lab.policy
    status = status_at(reservation, now)
    in_grace = status == Status.FINISHED and now < reservation.end + policy.grace
    if not in_grace and status not in (Status.BOOKED, Status.ACTIVE):
        return None
    limit = round_to_raster(reservation.start + _most_length(held), policy.raster_s, lab.zone, up=False)
    open_until = last_open_day(now, lab.zone, days_before=policy.opens_days, at=policy.opens_time)
    limit = min(limit, day_start(open_until + timedelta(days=1), lab.zone))
    limit = min(limit, _reach(held, now) or limit)
    following = queries.next_start([row.gpu_id for row in held.allocations], reservation.end, not_of=reservation.pk)
    limit = min(limit, following or limit)
    if limit <= reservation.end or not reservation.holder.is_approved:
        return None
    facts = _facts(held, Interval(reservation.end, limit), now)
    limit = min(limit, facts.member_until or limit)
    if limit <= reservation.end or any(rules.service_refusals(facts.cards.values())) or _mode_refusals(held, facts):
        return None
    for refusal in _grant_refusals(held, Interval(reservation.end, limit), facts):
        if refusal.alternative is None or "end" not in refusal.alternative.values:
            return None
        limit = min(limit, refusal.alternative.values["end"])
    limit = _before_who_waits(held, limit, facts, now)
    if limit <= reservation.end:
        return None
    found = _within_windows(held, limit, facts)
    limit = _within_caps(held, found, facts, now) if found else reservation.end
    limit = _within_reserve(held, limit, facts)
    if limit <= reservation.end or _walk_in_refusals(held, Interval(reservation.end, limit), now):
        return None
    prices = _prices(held, Interval(reservation.end, limit), facts)
    for refusal in quota_for(held, [(prices[row.gpu_id], row.weight) for row in held.allocations]):
        fits = refusal.facts["fits"]
        if fits is None:
            return None
        limit = min(limit, fits)
    return limit if limit > max(reservation.end, now) else None


def _reach(held: Held, now: datetime) -> datetime | None:
    """How far into unfrozen time a running reservation may reach by an extension (H5); None for one that has not started."""
    if status_at(held.reservation, now) == Status.BOOKED:
        return None
    policy = held.lab.policy
    return unfrozen_from(now, held.lab.zone, policy.freezing) + timedelta(seconds=policy.extend_ahead_s)


def _elsewhere(held: Held, span: Interval, taken_cards: Iterable[int], now: datetime) -> list[str]:
    """The best other cards for the time for which these cannot be had, by G2 among like ones of their pool (H5)."""
    wanted = queries.cards(taken_cards)
    alike = {(card.pool_id, card.model) for card in wanted.values()}
    if len(alike) != 1:
        return []
    ((pool_id, model),) = alike
    holder, lab = held.reservation.holder, held.lab
    ask = rules.Ask((), span.start, span.end, held.reservation.tier, len(wanted), pool_id, model)
    facts = facts_for(holder, ask, lab, now)
    kind = kind_of(span.start, now, lab.zone, lab.policy.freezing)
    found = choices(ask, facts, span, kind)
    return [facts.cards[card_id].label for card_id in found[0]] if found else []


def _before_who_waits(held: Held, limit: datetime, facts: rules.Facts, now: datetime) -> datetime:
    """The latest end up to `limit` that leaves the waitlist what goes to it first (H5), a walk-in's what is waited for (D2)."""
    kept = [one.interval.start for one in _kept(held, facts).kept if one.until]
    limit = max(min([limit, *kept]), held.reservation.end)
    if held.reservation.kind != Kind.WALK_IN or limit <= held.reservation.end:
        return limit
    span = Interval(held.reservation.end, limit)
    waited = queries.waited_from(facts.cards, span, now, besides=held.reservation.holder_id)
    return limit if waited is None else waited


def _kept(held: Held, facts: rules.Facts) -> rules.Facts:
    """The facts with what the waitlist goes first for; that the walk-in itself is not renewed is asked for its whole time."""
    facts = rules.kept_from_rank(held.reservation.rank, facts)
    return replace(facts, kept=[one for one in facts.kept if not one.is_renewal])


def _waiting_refusals(held: Held, added: Interval, facts: rules.Facts, now: datetime) -> list[rules.Refusal]:
    """Time that goes to the waitlist first (H5), or cards on which a walk-in is not renewed (D2)."""
    ask = rules.Ask(tuple(facts.cards), added.start, added.end, held.reservation.tier)
    refusals = list(kept_refusals(ask, _kept(held, facts), added))
    if held.reservation.kind == Kind.WALK_IN:
        refusals += [
            rules.Refusal(Code.NOT_RENEWED, {"card": card.label})
            for card in facts.cards.values()
            if queries.somebody_waits([card.id], added, now, besides=held.reservation.holder_id)
        ]
    return refusals


def _within_windows(held: Held, limit: datetime, facts: rules.Facts) -> datetime | None:
    """The latest end up to `limit` that the windows allow."""
    while refusals := _window_refusals(held, limit, facts):
        ends = [one.alternative.values["end"] for one in refusals if one.alternative]
        if not ends or min(ends) <= held.reservation.end or min(ends) >= limit:
            return None
        limit = min(ends)
    return limit


def _within_reserve(held: Held, limit: datetime, facts: rules.Facts) -> datetime:
    """The latest end up to `limit` that leaves the pool what it keeps back (G4, G7).

    More can only be kept back where the reservation becomes long, where a day begins or where another one does.
    """
    reservation, policy = held.reservation, held.lab.policy
    end, zone = reservation.end, held.lab.zone
    turns = {limit, end, *(one.interval.start for one in facts.holdings)}
    for length_s in (policy.reserve_walk_in_s, policy.quick_s):
        turns.add(round_to_raster(reservation.start + timedelta(seconds=length_s), policy.raster_s, zone, up=False))
    day = local_date(end, zone) + timedelta(days=1)
    while (midnight := day_start(day, zone)) < limit:
        turns.add(midnight)
        day += timedelta(days=1)
    possible = sorted((turn for turn in turns if end < turn <= limit), reverse=True)
    return next((turn for turn in possible if not _reserve_refusals(held, Interval(end, turn), facts)), end)


def _within_caps(held: Held, limit: datetime, facts: rules.Facts, now: datetime) -> datetime:
    """The latest end up to `limit` with no more cards at once than allowed to the holder, collaborators and the project."""
    own, policy, holder = own_others(held, now), held.lab.policy, held.reservation.holder
    end = held.reservation.end
    others = [*own, *(facts.project.holdings if facts.project else ())]
    for pk in held.reservation.collaborator_ids:
        others += queries.holdings_of(pk, now)
    turns = sorted({end, *(one.interval.start for one in others if one.interval.start > end)})
    for turn in turns:  # more cards than the cap can only begin where the stretch or another reservation begins
        if turn >= limit:
            break
        instant = Interval(turn, turn + TINY)
        crowd = rules.crowd_refusals(instant, len(held.allocations), own, policy, holder.role)
        if any(crowd) or _project_cap(held, instant, facts) or collaborators_over(held, instant, now):
            limit = turn
    return limit


# Stands for the longest possible end, which costs as much to find as everything else: looked for once something is refused.
_LONGEST_POSSIBLE = Alternative({})


def _refuse_unextendable(held: Held, new_end: datetime, now: datetime) -> rules.Facts:
    """Raises every reason why the end cannot move to `new_end`, with how far it could (H5); else the facts this rests on."""
    refusals, facts = _against(held, new_end, now)
    if facts is not None and not refusals:
        return facts
    longest = _longest(held, now)
    instead = Alternative({"end": longest}) if longest else None
    raise Refused(
        replace(one, alternative=instead if one.alternative is _LONGEST_POSSIBLE else one.alternative)
        if one.code != Code.NOT_LATER else rules.Refusal(one.code, {"longest": longest}, instead)
        for one in refusals
    )


def _against(held: Held, new_end: datetime, now: datetime) -> tuple[list[rules.Refusal], rules.Facts | None]:
    """Everything against moving the end, and the facts that it rests on where it came to that."""
    reservation, lab = held.reservation, held.lab
    policy = lab.policy
    status = status_at(reservation, now)
    if status == Status.FINISHED:
        if now >= reservation.end + policy.grace:
            raise refuse(Code.GRACE_OVER)
    elif status not in (Status.BOOKED, Status.ACTIVE):
        raise refuse(Code.WRONG_STATUS, status=str(status))
    instead = _LONGEST_POSSIBLE
    if new_end <= max(reservation.end, now):
        return [rules.Refusal(Code.NOT_LATER)], None
    refusals = []
    if not reservation.holder.is_approved:
        refusals.append(rules.Refusal(Code.NOT_APPROVED))
    if not on_raster(new_end, policy.raster_s, lab.zone):
        nearest = round_to_raster(new_end, policy.raster_s, lab.zone, up=True)
        refusals.append(
            rules.Refusal(Code.OFF_RASTER, {"minutes": policy.raster_s / 60}, Alternative({"end": nearest}))
        )
    if new_end - reservation.start > _most_length(held):
        code = Code.WALK_IN_LONG if reservation.kind == Kind.WALK_IN else Code.TOO_LONG
        refusals.append(rules.Refusal(code, {"hours": _most_length(held).total_seconds() / 3600}, instead))
        return refusals, None  # what stands beyond the limit is of no use to the reader
    added = Interval(reservation.end, new_end)
    facts = _facts(held, added, now)
    against = [
        *rules.day_refusals(added, now=now, zone=lab.zone, policy=policy),
        *_window_refusals(held, new_end, facts),
        *_reserve_refusals(held, added, facts),
        *_waiting_refusals(held, added, facts, now),
    ]
    refusals += [rules.Refusal(one.code, one.facts, instead) for one in against]
    refusals += _mode_refusals(held, facts)
    if facts.member_until is not None and new_end > facts.member_until:
        refusals.append(rules.Refusal(Code.AFTER_LAST_DAY, {"until": facts.member_until}, instead))
    refusals += [rules.Refusal(one.code, one.facts, instead) for one in _grant_refusals(held, added, facts)]
    if (reach := _reach(held, now)) is not None and new_end > reach:
        refusals.append(rules.Refusal(Code.EXTEND_AHEAD, {"hours": policy.extend_ahead_s / 3600, "end": reach}, instead))
    refusals += rules.service_refusals(facts.cards.values())
    if in_the_way := taken(held, added, instead):
        holdings = queries.holdings_between([row.gpu_id for row in held.allocations], added.start, added.end)
        gone = {one.card_id for one in holdings if one.reservation_id != reservation.pk}
        others = {"others": _elsewhere(held, added, gone, now)}
        refusals += [rules.Refusal(one.code, {**one.facts, **others}, one.alternative) for one in in_the_way]
    refusals += _walk_in_refusals(held, added, now)
    refusals += rules.crowd_refusals(
        added, len(held.allocations), own_others(held, now), policy, reservation.holder.role
    )
    refusals += [*_project_cap(held, added, facts), *collaborators_over(held, added, now)]
    prices = _prices(held, added, facts)
    refusals += quota_for(held, [(prices[row.gpu_id], row.weight) for row in held.allocations])
    return refusals, facts
