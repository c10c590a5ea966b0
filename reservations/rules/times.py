"""When something may be booked: raster, length, open days, and the pools' windows (A, D2, F)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from .facts import Ask, Facts, Holding, PoolFacts
from .interval import Interval
from .kinds import Kind
from .policy import Policy
from .refusal import Alternative, Code, Refusal
from .week import last_day, last_open_day, on_raster, opens_at, round_to_raster
from .windows import Mode, Segment, Timetable, Window, longest_within, time_inside

LOOK_AHEAD = timedelta(days=8)  # how far "a longer one may start" looks


def time_refusals(ask: Ask, facts: Facts) -> Iterator[Refusal]:
    """Everything against the asked times themselves (A1, A4)."""
    policy, zone = facts.policy, facts.zone
    asked_start = ask.start or facts.now
    if asked_start >= ask.end:
        yield Refusal(Code.END_BEFORE_START)
        return
    steps = [ask.end] if ask.start is None else [ask.start, ask.end]
    if any(not on_raster(step, policy.raster_s, zone) for step in steps):
        start = ask.start and round_to_raster(ask.start, policy.raster_s, zone, up=False)
        end = round_to_raster(ask.end, policy.raster_s, zone, up=True)
        yield Refusal(Code.OFF_RASTER, {"minutes": policy.raster_s / 60}, Alternative({"start": start, "end": end}))
    length = ask.end - asked_start
    if length < timedelta(seconds=policy.shortest_s):
        end = round_to_raster(asked_start + timedelta(seconds=policy.shortest_s), policy.raster_s, zone, up=True)
        yield Refusal(Code.TOO_SHORT, {"minutes": policy.shortest_s / 60}, Alternative({"start": ask.start, "end": end}))
    if length > policy.longest:
        end = round_to_raster(asked_start + policy.longest, policy.raster_s, zone, up=False)
        yield Refusal(Code.TOO_LONG, {"hours": policy.longest_s / 3600}, Alternative({"start": ask.start, "end": end}))
    if ask.start is not None and ask.start < facts.now - timedelta(seconds=policy.form_age_s):
        yield Refusal(Code.IN_PAST, {"now": facts.now}, _same_length_later(ask, facts))
    yield from day_refusals(Interval(asked_start, ask.end), now=facts.now, zone=zone, policy=policy)


def day_refusals(held: Interval, *, now: datetime, zone: ZoneInfo, policy: Policy) -> Iterator[Refusal]:
    """A refusal when the time touches a day that is not open for booking yet (A4)."""
    last = last_day(held, zone)
    open_until = last_open_day(now, zone, days_before=policy.opens_days, at=policy.opens_time)
    if last > open_until:
        opens = opens_at(last, zone, days_before=policy.opens_days, at=policy.opens_time)
        yield Refusal(Code.DAY_NOT_OPEN, {"last_day": open_until, "opens": opens})


def _same_length_later(ask: Ask, facts: Facts) -> Alternative | None:
    assert ask.start is not None
    start = round_to_raster(facts.now, facts.policy.raster_s, facts.zone, up=True)
    return Alternative({"start": start, "end": start + (ask.end - ask.start)})


# --- windows --------------------------------------------------------------------------------------------------------


def window_refusals(
    held: Interval, kind: Kind, pools: Sequence[PoolFacts], *, asked_start: datetime | None, policy: Policy, zone: ZoneInfo
) -> list[Refusal]:
    """Everything the pools' windows say against the interval, each reason once; offered is only what they all allow."""
    found: dict[Code, Refusal] = {}
    for pool in pools:
        for refusal in _of_pool(held, kind, pool.timetable, asked_start, policy, zone):
            found.setdefault(refusal.code, refusal)

    def is_allowed(end: datetime) -> bool:
        other = Interval(held.start, end)
        return not any(any(_of_pool(other, kind, pool.timetable, asked_start, policy, zone)) for pool in pools)

    return [
        one if one.alternative is None or is_allowed(one.alternative.values["end"]) else replace(one, alternative=None)
        for one in found.values()
    ]


def _of_pool(
    held: Interval, kind: Kind, timetable: Timetable, asked_start: datetime | None, policy: Policy, zone: ZoneInfo
) -> Iterator[Refusal]:
    segments = timetable.segments(held)
    closed = next((one for one in segments if one.window.mode == Mode.CLOSED), None)
    if closed:
        yield _until(Code.WINDOW_CLOSED, held, closed, asked_start, policy)
    if kind == Kind.WALK_IN:
        yield from _walk_in(held, segments, asked_start, policy)
        return
    walk_in = next((one for one in segments if one.window.mode == Mode.WALK_IN), None)
    if walk_in:
        yield _until(Code.WINDOW_WALK_IN, held, walk_in, asked_start, policy)
    if held.length < timedelta(seconds=policy.long_s) and any(one.window.mode == Mode.LONG for one in segments):
        end = round_to_raster(held.start + timedelta(seconds=policy.long_s), policy.raster_s, zone, up=True)
        yield Refusal(
            Code.WINDOW_LONG, {"hours": policy.long_s / 3600}, Alternative({"start": asked_start, "end": end})
        )
    yield from _inside(held, segments, timetable, asked_start, policy, zone)


def _walk_in(
    held: Interval, segments: Sequence[Segment], asked_start: datetime | None, policy: Policy
) -> Iterator[Refusal]:
    """A walk-in begun in a `long` window ends with it (F1)."""
    if segments[0].window.mode == Mode.LONG and len(segments) > 1:
        yield _until(Code.WALK_IN_WINDOW, held, segments[1], asked_start, policy)


def _until(code: Code, held: Interval, obstacle: Segment, asked_start: datetime | None, policy: Policy) -> Refusal:
    """Refused from where the obstacle begins: what lies before it would be allowed."""
    end = obstacle.interval.start
    fits = end - held.start >= timedelta(seconds=policy.shortest_s)
    return Refusal(
        code, {"start": obstacle.interval.start, "end": obstacle.interval.end},
        Alternative({"start": asked_start, "end": end}) if fits else None,
    )


def _inside(
    held: Interval, segments: Sequence[Segment], timetable: Timetable, asked_start: datetime | None, policy: Policy,
    zone: ZoneInfo,
) -> Iterator[Refusal]:
    """The most hours one reservation may have inside a window's occurrences together (F2)."""
    over = [window for window, time in time_inside(segments).items() if window.most_inside and time > window.most_inside]
    if not over:
        return
    window = over[0]
    assert window.most_inside is not None
    end = longest_within(segments, _fits)
    if end is not None:
        end = round_to_raster(end, policy.raster_s, zone, up=False)
    usable = end is not None and end - held.start >= timedelta(seconds=policy.shortest_s)
    yield Refusal(
        Code.WINDOW_HOURS,
        {
            "hours": window.most_inside.total_seconds() / 3600, "fits": end if usable else None,
            "later": longer_from(held, timetable),
        },
        Alternative({"start": asked_start, "end": end}) if usable else None,
    )


def _fits(window: Window, time: timedelta) -> bool:
    return window.most_inside is None or time <= window.most_inside


def longer_from(held: Interval, timetable: Timetable) -> datetime | None:
    """The next instant from which the same length fits inside the windows' hours, at an edge of a window (F2)."""
    span = Interval(held.start, held.start + LOOK_AHEAD)
    for segment in timetable.segments(span):
        start = segment.interval.end
        if start < span.end and start > held.start:
            moved = Interval(start, start + held.length)
            if all(_fits(window, time) for window, time in time_inside(timetable.segments(moved)).items()):
                return start
    return None


# --- walk-ins -------------------------------------------------------------------------------------------------------


def walk_in_refusals(held: Interval, cards: int, ask: Ask, facts: Facts) -> Iterator[Refusal]:
    """How long a walk-in may last, and on how many cards at once (D2)."""
    policy = facts.policy
    longest = timedelta(seconds=policy.walk_in_longest_s)
    if held.length > longest:
        end = round_to_raster(held.start + longest, policy.raster_s, facts.zone, up=False)
        yield Refusal(
            Code.WALK_IN_LONG, {"hours": policy.walk_in_longest_s / 3600}, Alternative({"start": ask.start, "end": end})
        )
    yield from walk_in_card_refusals(held, cards, facts.own, policy)


def walk_in_card_refusals(held: Interval, cards: int, own: Sequence[Holding], policy: Policy) -> Iterator[Refusal]:
    """A refusal when with `cards` more the member would hold too many as walk-ins (D2); all of them have begun."""
    others = len({(one.reservation_id, one.card_id) for one in own if one.is_walk_in and one.interval.overlaps(held)})
    if others + cards > policy.walk_in_cards:
        yield Refusal(Code.WALK_IN_CARDS, {"most": policy.walk_in_cards, "would": others + cards})
