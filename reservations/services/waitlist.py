"""The waitlist: joining, leaving, and serving who waits with what is free (K5).

Serving looks without a lock first and then, where it found a place, once more under the lock: a round that comes late,
comes twice or meets another changes nothing that is not right at that moment.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from .. import permissions, queries
from ..models import FreedSlot, Member, Notification, WaitlistEntry
from ..queries import LabFacts
from ..rules import booking as rules
from ..rules import waitlist as law
from ..rules.refusal import Code, Refusal, Refused, refuse
from ..rules.supply import fits
from . import audit, booking, locking, offers, outbox
from .booking import BookingRequest
from .placing import cards_to_lock, facts_for

log = logging.getLogger(__name__)
State, Mode = WaitlistEntry.State, WaitlistEntry.Mode


@dataclass(frozen=True)
class WishRequest:
    """What somebody wants to wait for: `wanted` says what (its start, end and key say nothing), for `length`, to start at
    `earliest` (None = now) or later and to end by `latest`."""

    wanted: BookingRequest
    length: timedelta
    latest: datetime
    earliest: datetime | None = None
    mode: str = Mode.BOOK

    def fingerprint(self) -> str:
        """A hash of the wish, by which the same one is told apart from another."""
        asked = self.wanted.ask()
        cards = (asked.card_ids, asked.count, asked.pool_id, asked.model, asked.min_memory, asked.several_hosts, asked.project_id)
        wish = (cards, asked.tier, self.length, self.earliest, self.latest, self.mode)
        return hashlib.sha256(repr(wish).encode()).hexdigest()


# --- joining and leaving ----------------------------------------------------------------------------------------------


def join(member: Member, wish: WishRequest, *, now: datetime, origin: str = "page") -> WaitlistEntry:
    """Puts the wish on the waitlist; the same wish of the same member waits once, however often it is asked for.

    Refused, with every reason, is what could be had at no start, and more wishes than reservations may lie ahead (B1).
    """
    fingerprint = wish.fingerprint()
    with locking.hold(members=[member.pk]):
        same = WaitlistEntry.objects.filter(member=member, state=State.WAITING, fingerprint=fingerprint).first()
        if same is not None:
            return same
        member = Member.objects.get(pk=member.pk)
        lab = queries.lab_facts()
        if refusals := _against(member, wish, lab, now):
            raise Refused(refusals)
        wanted = wish.wanted
        entry = WaitlistEntry.objects.create(
            member=member, mode=wish.mode, card_ids=sorted(set(wanted.card_ids)),
            count=0 if wanted.card_ids else wanted.count, pool_id=wanted.pool_id, model=wanted.model or "",
            min_memory=wanted.min_memory, several_hosts=wanted.several_hosts, length_s=int(wish.length.total_seconds()),
            earliest=wish.earliest or now, latest=wish.latest, tier=wanted.tier, purpose=wanted.purpose, note=wanted.note,
            project_id=wanted.project_id, fingerprint=fingerprint, created_at=now,
        )
        audit.note(
            "join_waitlist", entry, actor=member, origin=origin, now=now, cards=entry.card_ids, count=entry.count,
            length_s=entry.length_s, earliest=entry.earliest.isoformat(), latest=entry.latest.isoformat(), mode=entry.mode,
        )
        return entry


def _against(member: Member, wish: WishRequest, lab: LabFacts, now: datetime) -> list[Refusal]:
    """What no waiting can mend, and whether there is room on the list."""
    if wish.earliest is not None and wish.earliest < now - timedelta(seconds=lab.policy.form_age_s):
        return [Refusal(Code.IN_PAST, {"now": now})]
    first = max(wish.earliest or now, now)
    refusals = []
    if first + wish.length > wish.latest:
        refusals.append(Refusal(Code.WAIT_TOO_SHORT, {"latest": wish.latest}))
    if wish.length.total_seconds() % lab.policy.raster_s:
        refusals.append(Refusal(Code.OFF_RASTER, {"minutes": lab.policy.raster_s / 60}))
    ask = replace(wish.wanted.ask(), start=first, end=first + wish.length)
    facts = facts_for(member, ask, lab, now)
    refusals += [one for one in rules.decide(ask, facts).refusals if one.code in law.HOPELESS]
    if not ask.is_named and sum(fits(card, ask) for card in facts.cards.values()) < ask.count:
        refusals.append(Refusal(Code.NOT_ENOUGH_CARDS, {"count": ask.count}))
    most = lab.policy.most_ahead(member.role)
    if WaitlistEntry.objects.filter(member=member, state=State.WAITING).count() >= most:
        refusals.append(Refusal(Code.WAITS_ENOUGH, {"most": most}))
    return [replace(one, alternative=None) for one in refusals]


def leave(entry_id: int, *, by: Member, now: datetime, origin: str = "page") -> WaitlistEntry:
    """Takes a wish off the waitlist. Repeating it changes nothing; what was served already is refused."""
    with locking.hold(members=[by.pk]):
        entry = WaitlistEntry.objects.select_related("member").filter(pk=entry_id).first()
        if entry is None or not permissions.may(by, permissions.Action.LEAVE, entry):
            raise refuse(Code.NOT_YOURS)
        if entry.state == State.LEFT:
            return entry
        if entry.state != State.WAITING:
            raise refuse(Code.WAIT_OVER)
        _end(entry, State.LEFT)
        audit.note("leave_waitlist", entry, actor=by, origin=origin, now=now)
        return entry


def _end(entry: WaitlistEntry, state: str) -> None:
    entry.state = state
    entry.version += 1
    entry.save(update_fields=["state", "version", "reservation"])


# --- serving ----------------------------------------------------------------------------------------------------------


def is_due(now: datetime) -> bool:
    """Whether something has come up since the last round: freed time that may be offered, or a wish just written down."""
    if FreedSlot.objects.filter(ready_at__lte=now).exists():
        return True
    return WaitlistEntry.objects.filter(state=State.WAITING, created_at__gt=now - _NEW).exists()


_NEW = timedelta(seconds=30)


def serve(now: datetime, *, budget_s: float = 45.0) -> int:
    """One round: everybody who waits in turn, each with the earliest place there is. Returns how many were served.

    Ends wishes whose time has passed. Freed time stops being kept once everybody was asked; a round that did not come to
    its end leaves it for the next. Whoever cannot be served is passed over by the next in turn. What is freed during the
    round waits for the next one: who was passed over before is asked first then.
    """
    stop = time.monotonic() + budget_s
    lab = queries.lab_facts()
    ready = set(FreedSlot.objects.filter(ready_at__lte=now).values_list("pk", flat=True))
    for entry_id in _over(now):
        try:
            _expire(entry_id, now)
        except locking.Busy:
            log.info("wish %s: busy, ended in the next round", entry_id)
    whole = True
    for displaced in queries.may_come_back(now):  # before everybody who waits (D6)
        try:
            offers.give_back(displaced.pk, now=now)
        except locking.Busy:
            whole = False
            log.info("displaced reservation %s: busy, offered in the next round", displaced.pk)
        except Exception:
            whole = False
            log.exception("displaced reservation %s: left for the next round", displaced.pk)
    in_turn = law.in_order(queries.wishes_in_turn(now, lab))
    # Within the allowance goes before beyond it, whatever the tier (C3).
    done: set[int] = set()
    for wish, elastic in [(wish, elastic) for elastic in (False, True) for wish in in_turn]:
        if wish.id in done or (elastic and not lab.policy.elastic):
            continue
        if time.monotonic() > stop:
            log.info("the waitlist's round ran out of time: the rest waits for the next")
            return len(done)
        try:
            if _serve_one(replace(wish, ask=replace(wish.ask, elastic=elastic)), lab, now, ready):
                done.add(wish.id)
        except locking.Busy:
            whole = False
            log.info("wish %s: busy, left for the next round", wish.id)
        except Exception:
            whole = False
            log.exception("wish %s: left for the next round", wish.id)
    FreedSlot.objects.filter(end__lte=now).delete()
    if whole:
        FreedSlot.objects.filter(pk__in=ready).delete()
    return len(done)


def _serve_one(wish: law.Wish, lab: LabFacts, now: datetime, ready: Collection[int]) -> bool:
    """Serves one wish if there is a place for it. In quiet hours what asks first is passed over (K5)."""
    if not wish.is_served_now:
        return False
    member = Member.objects.get(pk=wish.member_id)
    if law.earliest(wish, _facts(member, wish, lab, now, ready)) is None:
        return False
    projects = [] if wish.ask.project_id is None else [wish.ask.project_id]
    with locking.hold(members=[wish.member_id], projects=projects, cards=_cards(wish)):
        entry = WaitlistEntry.objects.select_related("member").get(pk=wish.id)
        if entry.state != State.WAITING:
            return False
        lab = queries.lab_facts()
        facts = _facts(entry.member, wish, lab, now, ready)
        plan = law.earliest(wish, facts)
        if plan is None:
            return False
        request = BookingRequest(
            (), None, entry.latest, entry.tier, entry.purpose, entry.note, project_id=entry.project_id,
        )
        until = law.offer_until(plan.held, now, lab.policy) if wish.asks_first else None
        noted = {"until": until.isoformat()} if until else {}
        made = booking.write(
            entry.member, request, plan, facts, lab, now=now, origin="sweep", by=None, verb="offer" if until else "place",
            offer_until=until, placed_at=None if until else now, waitlist=entry.pk, **noted,
        )
        kind = Notification.Kind.OFFER if until else Notification.Kind.SERVED
        outbox.write(kind, entry.member, key=f"{kind}:{made.pk}", due_at=now, reservation=made)
        entry.reservation = made
        _end(entry, State.SERVED)
        return True


def _over(now: datetime) -> list[int]:
    """Wishes whose length no longer fits before their latest end, whoever's they are."""
    rows = WaitlistEntry.objects.filter(state=State.WAITING).values_list("pk", "latest", "length_s")
    return [pk for pk, latest, length_s in rows if latest - timedelta(seconds=length_s) < now]


def _expire(entry_id: int, now: datetime) -> None:
    member = WaitlistEntry.objects.filter(pk=entry_id).values_list("member", flat=True)
    with locking.hold(members=member):
        entry = WaitlistEntry.objects.select_related("member").get(pk=entry_id)
        if entry.state != State.WAITING:
            return
        _end(entry, State.EXPIRED)
        audit.note("wait_expired", entry, actor=None, origin="sweep", now=now)
        outbox.write(Notification.Kind.WAIT_OVER, entry.member, key=f"wait_over:{entry.pk}", due_at=now, entry=entry)


def _cards(wish: law.Wish) -> list[int]:
    return cards_to_lock(wish.ask)


def _facts(member: Member, wish: law.Wish, lab: LabFacts, now: datetime, ready: Collection[int]) -> rules.Facts:
    """The facts over all the time in which the wish may find its place; of freed time only what was `ready` may be offered."""
    ask = replace(wish.ask, start=min(max(wish.earliest, now), wish.latest - wish.length), end=wish.latest)
    facts = facts_for(member, ask, lab, now)
    return replace(facts, kept=queries.unready(facts.cards, ready, now))
