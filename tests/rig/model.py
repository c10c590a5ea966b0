"""A second, plain reading of the law: a list of reservations and a list of ledger rows, nothing of the product.

Slow and simple on purpose. It knows no sweep: what a reservation is follows from the clock alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
TICK = timedelta(microseconds=1)


@dataclass
class Booked:
    """A reservation: what was granted, and whether somebody ended it early."""

    key: int
    member: int
    cards: tuple[int, ...]
    start: datetime
    end: datetime
    cancelled: bool = False
    released: datetime | None = None

    def status(self, now: datetime) -> str:
        if self.cancelled:
            return "cancelled"
        if self.released is not None:
            return "released"
        return "booked" if now < self.start else "active" if now < self.end else "finished"

    def holds(self, at: datetime) -> bool:
        until = self.end if self.released is None else self.released
        return not self.cancelled and self.start <= at < until


@dataclass
class Model:
    """The lab: zone, weights of cards, limits; and what has happened."""

    zone: ZoneInfo
    weights: dict[int, int]
    weekly_hours: int
    cards_at_once: int
    open_future: int
    booked: list[Booked] = field(default_factory=list)
    ledger: list[tuple[int, date, int]] = field(default_factory=list)

    # --- time ---
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

    def _unopened(self, start: datetime, end: datetime, now: datetime) -> set[str]:
        day, last = self.shown(start).date(), self.shown(end - TICK).date()
        days = [day + number * DAY for number in range((last - day).days + 1)]
        return {"day_not_open"} if any(not self.is_open(one, now) for one in days) else set()

    # --- money ---
    def price(self, start: datetime, end: datetime, cards: tuple[int, ...]) -> dict[date, int]:
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
        return sum(units for who, when, units in self.ledger if (who, when) == (member, week))

    def _post(self, member: int, units: dict[date, int], sign: int) -> None:
        self.ledger += [(member, week, sign * amount) for week, amount in units.items()]

    def _over(self, member: int, units: dict[date, int]) -> set[str]:
        limit = self.weekly_hours * 36_000_000
        return {"quota"} if any(n and self.used(member, week) + n > limit for week, n in units.items()) else set()

    # --- cards ---
    def holder(self, card: int, at: datetime) -> int | None:
        """Who holds a card at an instant."""
        holders = [one.member for one in self.booked if card in one.cards and one.holds(at)]
        assert len(holders) <= 1
        return holders[0] if holders else None

    def _holding(self, now: datetime) -> list[Booked]:
        return [one for one in self.booked if one.status(now) in {"booked", "active"}]

    def _taken(self, cards: tuple[int, ...], start: datetime, end: datetime, now: datetime, but: Booked | None) -> set[str]:
        clash = any(
            one is not but and set(one.cards) & set(cards) and one.start < end and start < one.end
            for one in self._holding(now)
        )
        return {"card_taken"} if clash else set()

    def _crowded(
        self, member: int, cards: tuple[int, ...], start: datetime, end: datetime, now: datetime, but: Booked | None
    ) -> set[str]:
        """Whether the member would hold too many cards at some instant: it suffices to look where something begins."""
        own = [one for one in self._holding(now) if one.member == member and one is not but]
        for at in [start, *(one.start for one in own if start <= one.start < end)]:
            if len(cards) + sum(len(one.cards) for one in own if one.start <= at < one.end) > self.cards_at_once:
                return {"cards_at_once"}
        return set()

    # --- acts; each returns the reasons against it, or does it and returns none ---
    def reserve(
        self, member: int, cards: tuple[int, ...], start: datetime | None, end: datetime, now: datetime
    ) -> tuple[set[str], Booked | None]:
        asked = start or now
        held = now if start is None or now - 5 * MINUTE <= start <= now else start
        why: set[str] = set()
        if asked >= end:
            why.add("end_before_start")
        else:
            typed = [end] if start is None else [start, end]
            if any(self.shown(one).minute % 15 or self.shown(one).second or one.microsecond for one in typed):
                why.add("off_raster")
            if end - asked < 30 * MINUTE:
                why.add("too_short")
            if end - asked > 72 * HOUR:
                why.add("too_long")
            if start is not None and start < now - 5 * MINUTE:
                why.add("in_past")
            why |= self._unopened(asked, end, now)
        if held < end:
            why |= self._taken(cards, held, end, now, None)
            why |= self._crowded(member, cards, held, end, now, None)
            waiting = [one for one in self._holding(now) if one.member == member and one.start > now]
            if held > now and len(waiting) + 1 > self.open_future:
                why.add("open_future")
            why |= self._over(member, self.price(held, end, cards))
        if why:
            return why, None
        made = Booked(len(self.booked), member, cards, held, end)
        self.booked.append(made)
        self._post(member, self.price(held, end, cards), 1)
        return why, made

    def cancel(self, one: Booked, now: datetime) -> set[str]:
        if one.cancelled:
            return set()
        if one.status(now) != "booked":
            return {"wrong_status"}
        one.cancelled = True
        self._post(one.member, self.price(one.start, one.end, one.cards), -1)
        return set()

    def release(self, one: Booked, now: datetime) -> set[str]:
        if one.released is not None:
            return set()
        if one.status(now) != "active":
            return {"wrong_status"}
        one.released = now
        self._post(one.member, self.price(now, one.end, one.cards), -1)
        return set()

    def undo(self, one: Booked, now: datetime) -> set[str]:
        if one.released is None or one.cancelled:
            return {"wrong_status"}
        if now >= min(one.released + 10 * MINUTE, one.end):
            return {"undo_over"}
        again = self.price(one.released, one.end, one.cards)
        why = self._taken(one.cards, one.released, one.end, now, one)
        why |= self._crowded(one.member, one.cards, max(one.released, now), one.end, now, one) | self._over(one.member, again)
        if not why:
            one.released = None
            self._post(one.member, again, 1)
        return why

    def extend(self, one: Booked, end: datetime, now: datetime) -> set[str]:
        status = one.status(now)
        if status in {"cancelled", "released"}:
            return {"wrong_status"}
        if status == "finished" and now >= one.end + 10 * MINUTE:
            return {"grace_over"}
        if end <= max(one.end, now):
            return {"not_later"}
        why: set[str] = set()
        if self.shown(end).minute % 15 or self.shown(end).second or end.microsecond:
            why.add("off_raster")
        if end - one.start > 72 * HOUR:
            return why | {"too_long"}
        why |= self._unopened(one.end, end, now) | self._taken(one.cards, one.end, end, now, one)
        why |= self._crowded(one.member, one.cards, max(one.end, now), end, now, one)
        more = self.price(one.end, end, one.cards)
        why |= self._over(one.member, more)
        if not why:
            one.end = end
            self._post(one.member, more, 1)
        return why
