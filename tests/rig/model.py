"""A second, plain reading of the law: a list of reservations and a list of ledger rows, nothing of the product.

Written from docs/policy.md, slow and simple on purpose. It knows no sweep: what a reservation is follows from the clock
alone. Where the law leaves several cards equally good, `choose` is asked which were taken, and must name one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import combinations
from typing import Any
from zoneinfo import ZoneInfo

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
TICK = timedelta(microseconds=1)
UNITS = 36_000_000  # of a GPU-hour
DEADLINE, REGULAR, EXPLORATION = 0, 1, 2

Cards = tuple[int, ...]
Span = tuple[datetime, datetime]


@dataclass
class Booked:
    """A reservation: what was granted, what became of it, and what an undo of its last act would need."""

    key: int
    member: int
    cards: Cards
    start: datetime
    end: datetime
    tier: int
    booked_at: datetime
    elastic: bool = False
    may_move_until: datetime | None = None
    cancelled: bool = False
    released: datetime | None = None
    displaced: bool = False
    displaced_times: int = 0
    displaced_by: int | None = None
    changes: int = 0  # by whomever: an undo finds out by it whether an owner has acted
    last: Act | None = None

    @property
    def rank(self) -> tuple[bool, int]:
        """Smaller is stronger (C3)."""
        return self.elastic, self.tier

    def status(self, now: datetime) -> str:
        if self.cancelled:
            return "cancelled"
        if self.displaced:
            return "displaced"
        if self.released is not None:
            return "released"
        return "booked" if now < self.start else "active" if now < self.end else "finished"

    def holds(self, at: datetime) -> bool:
        until = self.end if self.released is None else self.released
        return not self.cancelled and not self.displaced and self.start <= at < until


@dataclass
class Fee:
    """What a late cancellation keeps of one card's time, for as long as nobody books that time again (E3)."""

    member: int
    elastic: bool
    card: int
    pieces: list[Span]


@dataclass
class Act:
    """A booking or a move that can be undone for ten seconds, with all that it did to others (H0)."""

    kind: str
    at: datetime
    before: dict[str, Any] = field(default_factory=dict)
    kept: list[Fee] = field(default_factory=list)
    returned: list[tuple[Fee, Span]] = field(default_factory=list)
    displaced: list[tuple[Booked, dict[str, Any], int]] = field(default_factory=list)
    cooled: bool = False
    cooling_before: datetime | None = None


@dataclass(frozen=True)
class Way:
    """Cards that would do, and who makes room on them."""

    cards: Cards
    displaced: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Plan:
    """How a request could be served: from when, in which ways, and whether beyond the allowance (E4)."""

    start: datetime
    ways: list[Way]
    elastic: bool


Choose = Callable[[int, list[Cards]], Cards]  # of a reservation's key and the cards that are equally good


def first_choice(key: int, options: list[Cards]) -> Cards:
    return options[0]


@dataclass
class Model:
    """The lab: zone, cards with weight and pool, limits, switches; and what has happened."""

    zone: ZoneInfo
    weights: dict[int, int]
    pools: dict[int, int]
    weekly_hours: int
    cards_at_once: int
    open_future: int
    displacement: bool = False
    elastic: bool = False
    late_percent: int = 0
    booked: list[Booked] = field(default_factory=list)
    ledger: list[tuple[int, bool, date, int]] = field(default_factory=list)  # member, elastic, week, units
    fees: list[Fee] = field(default_factory=list)
    cooling: dict[int, datetime] = field(default_factory=dict)  # member → may not displace until (D6)

    # --- time (A) ---
    def readings(self, typed: datetime) -> list[datetime]:
        """The instants at which the lab's clock shows what was typed: none in a gap, two when it comes twice."""
        found = {typed.replace(tzinfo=self.zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
        return sorted(one for one in found if self.shown(one) == typed)

    def shown(self, instant: datetime) -> datetime:
        return instant.astimezone(self.zone).replace(tzinfo=None)

    def week(self, instant: datetime) -> date:
        day = self.shown(instant).date()
        while day.weekday():
            day -= DAY
        return day

    def is_open(self, day: date, now: datetime) -> bool:
        return datetime.combine(day - 14 * DAY, time(12), tzinfo=self.zone).astimezone(UTC) <= now

    def evening_before(self, start: datetime, hour: int) -> datetime:
        """That hour on the evening on which a reservation with this start freezes (D1, D4)."""
        return datetime.combine(self.shown(start).date() - DAY, time(hour), tzinfo=self.zone).astimezone(UTC)

    def _unfrozen_from(self, now: datetime) -> datetime:
        """The midnight of the first lab day that is not frozen (D1)."""
        day = self.shown(now).date() + DAY
        while True:
            midnight = datetime.combine(day, time(), tzinfo=self.zone).astimezone(UTC)
            if now < self.evening_before(midnight, 20):
                return midnight
            day += DAY

    def _off_raster(self, instant: datetime) -> bool:
        local = self.shown(instant)
        return bool(local.minute % 15 or local.second or local.microsecond)

    def _unopened(self, start: datetime, end: datetime, now: datetime) -> set[str]:
        day, last = self.shown(start).date(), self.shown(end - TICK).date()
        days = [day + number * DAY for number in range((last - day).days + 1)]
        return {"day_not_open"} if any(not self.is_open(one, now) for one in days) else set()

    def _times(self, start: datetime | None, end: datetime, now: datetime) -> set[str]:
        asked = start or now
        if asked >= end:
            return {"end_before_start"}
        why: set[str] = set()
        if any(self._off_raster(one) for one in ([end] if start is None else [start, end])):
            why.add("off_raster")
        if end - asked < 30 * MINUTE:
            why.add("too_short")
        if end - asked > 72 * HOUR:
            why.add("too_long")
        if start is not None and start < now - 5 * MINUTE:
            why.add("in_past")
        return why | self._unopened(asked, end, now)

    # --- money (E) ---
    def price(self, start: datetime, end: datetime, cards: Iterable[int]) -> dict[date, int]:
        """Units per week: whole seconds, cut where the week of the lab turns."""
        weight = sum(self.weights[card] for card in cards)
        units: dict[date, int] = {}
        at = start
        while at < end:
            turn = datetime.combine(self.week(at) + 7 * DAY, time(), tzinfo=self.zone).astimezone(UTC)
            until = min(end, turn)
            seconds = int(until.timestamp() // 1) - int(at.timestamp() // 1)
            units[self.week(at)] = units.get(self.week(at), 0) + seconds * weight * 100
            at = until
        return units

    def used(self, member: int, week: date) -> int:
        return sum(units for who, elastic, when, units in self.ledger if (who, elastic, when) == (member, False, week))

    def _post(self, member: int, elastic: bool, units: dict[date, int], sign: int) -> None:
        self.ledger += [(member, elastic, week, sign * amount) for week, amount in units.items()]

    def _charge(self, one: Booked, sign: int, start: datetime | None = None) -> None:
        self._post(one.member, one.elastic, self.price(start or one.start, one.end, one.cards), sign)

    def _over(self, member: int, units: dict[date, int]) -> set[str]:
        limit = self.weekly_hours * UNITS
        return {"quota"} if any(n and self.used(member, week) + n > limit for week, n in units.items()) else set()

    # --- the fee of a late cancellation (E3) ---
    def _fee(self, fee: Fee, piece: Span, sign: int) -> None:
        units = {week: n * self.late_percent // 100 for week, n in self.price(*piece, [fee.card]).items()}
        self._post(fee.member, fee.elastic, units, sign)

    def _keep_fee(self, one: Booked, now: datetime) -> list[Fee]:
        if now <= one.start - 2 * HOUR or not self.late_percent:
            return []
        first = (one.start, min(one.end, one.start + 8 * HOUR))
        kept = [Fee(one.member, one.elastic, card, [first]) for card in one.cards]
        for fee in kept:
            self._fee(fee, first, 1)
        self.fees += kept
        return kept

    def _return_fees(self, cards: Cards, start: datetime, end: datetime) -> list[tuple[Fee, Span]]:
        """Whoever books the time again, card by card, and once."""
        returned: list[tuple[Fee, Span]] = []
        for fee in self.fees:
            if fee.card not in cards:
                continue
            left: list[Span] = []
            for piece in fee.pieces:
                again = (max(piece[0], start), min(piece[1], end))
                if again[0] >= again[1]:
                    left.append(piece)
                    continue
                self._fee(fee, again, -1)
                returned.append((fee, again))
                left += [span for span in ((piece[0], again[0]), (again[1], piece[1])) if span[0] < span[1]]
            fee.pieces = left
        return returned

    def _keep_again(self, returned: list[tuple[Fee, Span]]) -> None:
        for fee, piece in returned:
            self._fee(fee, piece, 1)
            fee.pieces = [*fee.pieces, piece]

    def _forgive(self, kept: list[Fee]) -> None:
        for fee in kept:
            for piece in fee.pieces:
                self._fee(fee, piece, -1)
            fee.pieces = []

    # --- cards and caps (B1, G) ---
    def holder(self, card: int, at: datetime) -> int | None:
        """Who holds a card at an instant."""
        holders = [one.member for one in self.booked if card in one.cards and one.holds(at)]
        assert len(holders) <= 1
        return holders[0] if holders else None

    def _holding(self, now: datetime) -> list[Booked]:
        return [one for one in self.booked if one.status(now) in {"booked", "active"}]

    def _in_the_way(self, card: int, start: datetime, end: datetime, now: datetime) -> list[Booked]:
        return [one for one in self._holding(now) if card in one.cards and one.start < end and start < one.end]

    def _taken(self, cards: Cards, start: datetime, end: datetime, now: datetime, but: Booked) -> set[str]:
        found = {one.key for card in cards for one in self._in_the_way(card, start, end, now)}
        return {"card_taken"} if found - {but.key} else set()

    def _crowded(
        self, member: int, count: int, start: datetime, end: datetime, now: datetime, but: Booked | None = None
    ) -> set[str]:
        """Whether the member would hold too many cards at some instant: it suffices to look where something begins."""
        own = [one for one in self._holding(now) if one.member == member and one is not but]
        for at in [start, *(one.start for one in own if start <= one.start < end)]:
            if count + sum(len(one.cards) for one in own if one.start <= at < one.end) > self.cards_at_once:
                return {"cards_at_once"}
        return set()

    def _too_many_ahead(self, member: int, start: datetime, now: datetime, but: Booked | None = None) -> set[str]:
        ahead = [one for one in self._holding(now) if one.member == member and one.start > now and one is not but]
        return {"open_future"} if start > now and len(ahead) + 1 > self.open_future else set()

    def _wasted(self, card: int, start: datetime, end: datetime, now: datetime) -> timedelta:
        """Gaps under two hours that a reservation would leave on the card (G2)."""
        held = [one for one in self._holding(now) if card in one.cards]
        before = start - max([now, *(one.end for one in held if one.end <= start)])
        after = min((one.start for one in held if one.start >= end), default=end) - end
        return sum((gap for gap in (before, after) if timedelta() < gap < 2 * HOUR), timedelta())

    # --- who makes room (C3, D3, D4, E4) ---
    def _gives_way(self, one: Booked, tier: int, start: datetime, now: datetime) -> bool:
        if start <= now or one.start <= now or not (False, tier) < one.rank:
            return False  # walk-ins displace nobody, what has started stays, and equal ranks are first come, first served
        if one.elastic:
            return now < one.start - 2 * HOUR
        planned = now < self.evening_before(start, 20)
        return self.displacement and planned and one.displaced_times < 2 and now < self.evening_before(one.start, 18)

    def _named(
        self, member: int, cards: Cards, tier: int, start: datetime, end: datetime, now: datetime, displace: bool
    ) -> tuple[set[str], list[Way]]:
        there = {one.key: one for card in cards for one in self._in_the_way(card, start, end, now)}
        if not there:
            return set(), [Way(cards)]
        if not all(self._gives_way(one, tier, start, now) for one in there.values()):
            return {"card_taken"}, [Way(cards)]
        if not displace or now < self.cooling.get(member, now):
            return {"card_taken", "no_displacing"}, [Way(cards)]
        # A named card counts as its pool and model, and is never swapped silently: the equal free one is offered.
        free = [card for card in self.weights if not self._in_the_way(card, start, end, now)]
        wanted = [self.pools[card] for card in cards]
        like = [self.pools[card] for card in free]
        equal = all(like.count(pool) >= wanted.count(pool) for pool in wanted)
        return ({"equal_free"} if equal else set()), [Way(cards, frozenset(there))]

    def _counted(
        self, member: int, pool: int, count: int, tier: int, start: datetime, end: datetime, now: datetime, displace: bool
    ) -> tuple[set[str], list[Way]]:
        """Cards of a pool by number: free ones, else those whose holders make room, by D4's order."""
        sets = list(combinations([card for card in self.weights if self.pools[card] == pool], count))
        there = {
            cards: {one.key: one for card in cards for one in self._in_the_way(card, start, end, now)} for cards in sets
        }
        if free := [cards for cards in sets if not there[cards]]:
            waste = {cards: sum((self._wasted(card, start, end, now) for card in cards), timedelta()) for cards in free}
            return set(), [Way(cards) for cards in free if waste[cards] == min(waste.values())]
        weak = {
            cards: list(ones.values()) for cards, ones in there.items()
            if all(self._gives_way(one, tier, start, now) for one in ones.values())
        }
        if weak and (not displace or now < self.cooling.get(member, now)):
            return {"not_enough_cards", "no_displacing"}, []
        if not weak:
            return {"not_enough_cards"}, []

        def worth(ones: list[Booked]) -> tuple[Any, ...]:
            strongest = min(one.rank for one in ones)
            hours = sum(((one.end - one.start) * len(one.cards) for one in ones), timedelta())
            return (-strongest[0], -strongest[1]), hours, -min(one.booked_at for one in ones).timestamp()

        best = min(worth(ones) for ones in weak.values())
        return set(), [Way(cards, frozenset(there[cards])) for cards, ones in weak.items() if worth(ones) == best]

    def _decide(
        self, member: int, cards: Cards, start: datetime | None, end: datetime, tier: int, now: datetime, *, pool: int = 0,
        count: int = 0, elastic: bool = True, displace: bool = True,
    ) -> tuple[set[str], Plan | None]:
        """Every reason against a request, or how it can be served."""
        why = self._times(start, end, now)
        held = now if start is None or now - 5 * MINUTE <= start <= now else start
        if held >= end:
            return why, None
        if count:
            against, ways = self._counted(member, pool, count, tier, held, end, now, displace)
        else:
            against, ways = self._named(member, cards, tier, held, end, now, displace)
        why |= against | self._crowded(member, count or len(cards), held, end, now) | self._too_many_ahead(member, held, now)
        beyond = False
        if ways:
            over = self._over(member, self.price(held, end, ways[0].cards))
            room_needed = bool(ways[0].displaced) and not against & {"card_taken"}
            beyond = bool(over) and self.elastic and elastic and held <= now + 48 * HOUR and not room_needed
            why |= set() if beyond else over
        return why, None if why else Plan(held, ways, beyond)

    # --- making room, and what becomes of those who made it (D4, D5) ---
    def _take_out(self, keys: Iterable[int]) -> list[tuple[Booked, dict[str, Any], int]]:
        found = []
        for one in sorted((self.booked[key] for key in keys), key=lambda one: (one.booked_at, one.key)):
            found.append((one, dict(vars(one)), 0))
            self._charge(one, -1)
            one.displaced, one.last = True, None
            one.displaced_times += 1
            one.changes += 1
        return found

    def _place_anew(
        self, displaced: list[tuple[Booked, dict[str, Any], int]], by: Booked, act: Act, now: datetime, choose: Choose
    ) -> None:
        for one, before, _ in displaced:
            plan = self._new_place(one, now)
            if plan is None:
                one.displaced_by = by.key
            else:
                one.cards = choose(one.key, [way.cards for way in plan.ways])
                one.start, one.end = plan.start, plan.start + (one.end - one.start)
                one.displaced, one.elastic = False, plan.elastic
                one.changes += 1
                self._charge(one, 1)
                act.returned += self._return_fees(one.cards, one.start, one.end)
            act.displaced.append((one, before, one.changes))

    def _new_place(self, one: Booked, now: datetime) -> Plan | None:
        """The earliest start, not before the old one, that all rules allow, for as many cards like the old ones (D5)."""
        pools = {self.pools[card] for card in one.cards}
        asked: dict[str, Any] = {"elastic": one.elastic, "displace": False}
        if len(pools) == 1:
            asked |= {"pool": min(pools), "count": len(one.cards)}
        start, length = one.start, one.end - one.start
        while one.may_move_until is not None and start + length <= one.may_move_until:
            _, plan = self._decide(one.member, one.cards, start, start + length, one.tier, now, **asked)
            if plan:
                return plan
            start += 15 * MINUTE
        return None

    # --- acts; each returns the reasons against it, or does it and returns none ---
    def reserve(
        self, member: int, cards: Cards, start: datetime | None, end: datetime, now: datetime, *, tier: int = REGULAR,
        pool: int = 0, count: int = 0, may_move: bool | None = None, choose: Choose = first_choice,
    ) -> tuple[set[str], Booked | None]:
        why, plan = self._decide(member, cards, start, end, tier, now, pool=pool, count=count)
        if plan is None:
            return why, None
        moves = tier == EXPLORATION if may_move is None else may_move
        made = Booked(
            len(self.booked), member, (), plan.start, end, tier, now, plan.elastic, end + 48 * HOUR if moves else None
        )
        made.cards = choose(made.key, [way.cards for way in plan.ways])
        made.last = act = Act("reserve", now)
        displaced = self._take_out(next(way.displaced for way in plan.ways if way.cards == made.cards))
        self.booked.append(made)
        self._charge(made, 1)
        act.returned = self._return_fees(made.cards, made.start, made.end)
        self._place_anew(displaced, made, act, now, choose)
        return why, made

    def move(
        self, one: Booked, cards: Cards | None, start: datetime, end: datetime, now: datetime, *,
        choose: Choose = first_choice,
    ) -> set[str]:
        """Cancels and books in one (H6)."""
        if one.status(now) != "booked":
            return {"wrong_status"}
        memory, before = self._memory(), dict(vars(one))
        self._charge(one, -1)
        act = Act("move", now, before, self._keep_fee(one, now))
        one.cancelled = True
        why, plan = self._decide(one.member, cards or one.cards, start, end, one.tier, now)
        if plan is None:
            self._back(memory)
            return why
        one.cancelled, one.last = False, act
        (way,) = plan.ways
        if not (plan.start <= one.start and one.end <= end and set(one.cards) <= set(way.cards)):
            act.cooled, act.cooling_before = self._cool_down(one, now)
        if not (one.start <= plan.start and end <= one.end and set(way.cards) <= set(one.cards)):
            one.booked_at = now
        if one.may_move_until is not None:
            one.may_move_until += end - one.end
        displaced = self._take_out(way.displaced)
        one.cards, one.start, one.end, one.elastic = way.cards, plan.start, end, plan.elastic
        one.changes += 1
        self._charge(one, 1)
        act.returned = self._return_fees(one.cards, one.start, one.end)
        self._place_anew(displaced, one, act, now, choose)
        return set()

    def again(
        self, one: Booked, now: datetime, *, choose: Choose = first_choice
    ) -> tuple[set[str], Booked | None]:
        """The same clock times next week (D8)."""
        local = self.shown(one.start)
        local -= timedelta(minutes=local.minute % 15, seconds=local.second, microseconds=local.microsecond)
        instants: list[datetime] = []
        for reading in (local, self.shown(one.end)):
            found = self.readings(reading + 7 * DAY)
            if len(found) != 1:
                return {"time_twice" if found else "time_skipped"}, None
            instants += found
        return self.reserve(one.member, one.cards, instants[0], instants[1], now, tier=one.tier, choose=choose)

    def unbook(self, one: Booked, now: datetime) -> set[str]:
        """Undoes a booking or a move within ten seconds: everything as before, the displaced included (H0)."""
        act = one.last
        if act is None:
            return {"stale"}
        if act.kind == "undone":
            return set()
        if now >= act.at + 10 * SECOND:
            return {"undo_over"}
        memory = self._memory()
        was_active = one.status(now) == "active"
        self._charge(one, -1)
        self._keep_again(act.returned)
        why: set[str] = set()
        if act.kind == "move":
            self._forgive(act.kept)
            why = self._restore(one, act.before, now)
        elif was_active:
            one.released = one.start
        else:
            one.cancelled = True
        for other, before, changes in [] if why else act.displaced:
            if other.changes != changes:
                why = {"owner_acted"}
                break
            if not other.displaced:
                self._charge(other, -1)
            if why := self._restore(other, before, now):
                break
        if why:
            self._back(memory)
            return why
        if act.cooled:
            self.cooling.pop(one.member)
            if act.cooling_before:
                self.cooling[one.member] = act.cooling_before
        one.last = Act("undone", now)
        one.changes += 1
        return set()

    def _restore(self, one: Booked, before: dict[str, Any], now: datetime) -> set[str]:
        """Puts a reservation back to what it was, if its cards, the room under the caps and the hours are still there."""
        changes = one.changes
        vars(one).update(before)
        one.last, one.changes = None, changes + 1
        why = self._taken(one.cards, one.start, one.end, now, one)
        why |= self._crowded(one.member, len(one.cards), one.start, one.end, now, one)
        why |= self._too_many_ahead(one.member, one.start, now, one)
        if not one.elastic:
            why |= self._over(one.member, self.price(one.start, one.end, one.cards))
        if not why:
            self._charge(one, 1)
            self._return_fees(one.cards, one.start, one.end)
        return why

    def cancel(self, one: Booked, now: datetime) -> set[str]:
        if one.cancelled:
            return set()
        if one.status(now) != "booked":
            return {"wrong_status"}
        self._charge(one, -1)
        self._keep_fee(one, now)
        self._cool_down(one, now)
        one.cancelled, one.last = True, None
        one.changes += 1
        return set()

    def _cool_down(self, one: Booked, now: datetime) -> tuple[bool, datetime | None]:
        """Whoever gives up what displaced somebody displaces nobody for seven days (D6)."""
        if not any(other.displaced and other.displaced_by == one.key for other in self.booked):
            return False, None
        before = self.cooling.get(one.member)
        self.cooling[one.member] = now + 7 * DAY
        return True, before

    def release(self, one: Booked, now: datetime) -> set[str]:
        if one.released is not None:
            return set()
        if one.status(now) != "active":
            return {"wrong_status"}
        one.released, one.last = now, None
        one.changes += 1
        self._charge(one, -1, now)
        return set()

    def undo(self, one: Booked, now: datetime) -> set[str]:
        """Undoes a release (H4)."""
        if one.status(now) != "released" or one.released is None:
            return {"wrong_status"}
        if now >= min(one.released + 10 * MINUTE, one.end):
            return {"undo_over"}
        why = self._taken(one.cards, one.released, one.end, now, one)
        why |= self._crowded(one.member, len(one.cards), max(one.released, now), one.end, now, one)
        if not one.elastic:
            why |= self._over(one.member, self.price(one.released, one.end, one.cards))
        if not why:
            self._charge(one, 1, one.released)
            self._return_fees(one.cards, one.released, one.end)
            one.released, one.last = None, None
            one.changes += 1
        return why

    def extend(self, one: Booked, end: datetime, now: datetime) -> set[str]:
        status = one.status(now)
        if status in {"cancelled", "released", "displaced"}:
            return {"wrong_status"}
        if status == "finished" and now >= one.end + 10 * MINUTE:
            return {"grace_over"}
        if end <= max(one.end, now):
            return {"not_later"}
        why: set[str] = {"off_raster"} if self._off_raster(end) else set()
        if end - one.start > 72 * HOUR:
            return why | {"too_long"}
        if status != "booked" and end > self._unfrozen_from(now) + 8 * HOUR:
            why.add("extend_ahead")
        why |= self._unopened(one.end, end, now) | self._taken(one.cards, one.end, end, now, one)
        why |= self._crowded(one.member, len(one.cards), max(one.end, now), end, now, one)
        more = self.price(one.end, end, one.cards)
        if not one.elastic:
            why |= self._over(one.member, more)
        if not why:
            self._post(one.member, one.elastic, more, 1)
            self._return_fees(one.cards, one.end, end)
            one.end, one.last = end, None
            one.changes += 1
        return why

    def may_settle(self, now: datetime) -> list[Booked]:
        """Of each member's elastic reservations the oldest that has not started, if all of it fits by now (E4)."""
        found = []
        for member in sorted({one.member for one in self.booked}):
            waiting = [one for one in self.booked if one.member == member and one.elastic and one.status(now) == "booked"]
            oldest = min(waiting, key=lambda one: (one.booked_at, one.key), default=None)
            if oldest and not self._over(member, self.price(oldest.start, oldest.end, oldest.cards)):
                found.append(oldest)
        return found

    def settle(self, now: datetime) -> list[int]:
        """Makes these in-quota."""
        settled = self.may_settle(now)
        for one in settled:
            self._charge(one, -1)
            one.elastic = False
            self._charge(one, 1)
        return sorted(one.key for one in settled)

    # --- whole or not at all ---
    def _memory(self) -> tuple[Any, ...]:
        return (
            [dict(vars(one)) for one in self.booked], len(self.ledger), [(fee, fee.pieces) for fee in self.fees],
            dict(self.cooling),
        )

    def _back(self, memory: tuple[Any, ...]) -> None:
        for one, values in zip(self.booked, memory[0], strict=True):
            vars(one).update(values)
        del self.ledger[memory[1] :]
        self.fees = [fee for fee, _ in memory[2]]
        for fee, pieces in memory[2]:
            fee.pieces = pieces
        self.cooling = dict(memory[3])
