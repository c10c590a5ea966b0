"""The schedule as a picture: a window of time cut into columns, cards as lanes, reservations as pieces of lanes.

Columns are instants (UTC), labelled by the lab's clock: a day with a clock change simply has more or fewer of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from django.utils import formats
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from .. import labels, names
from ..localclock import LocalClock
from ..queries import Block, LabFacts, ShownCard
from ..rules.facts import Closed
from ..rules.interval import Interval
from ..rules.kinds import is_frozen
from ..rules.lifecycle import Status
from ..rules.week import day_start, local_date, round_to_raster, rule_instant
from ..rules.windows import Mode, Timetable
from . import cardlook, pieces
from .cardlook import CardLook, Hold
from .pieces import Piece, css

HOURS_36, WEEK, LIST = "36h", "week", "list"
VIEWS = (HOURS_36, WEEK, LIST)
_STEP = {HOURS_36: timedelta(minutes=15), WEEK: timedelta(minutes=30), LIST: timedelta(minutes=30)}
# A piece narrower than this many columns is too small for a finger or a pointer (24 px) at the narrowest lane.
SMALL = {HOURS_36: 3, WEEK: 7, LIST: 0}
_TICK_HOURS = {HOURS_36: 3, WEEK: 6, LIST: 6}


class BadWindow(ValueError):
    """A view or day that was asked for and cannot be shown; the message says why."""


@dataclass(frozen=True)
class Window:
    """What stretch of time is shown, and how. `plain` when no view was asked for: phones then get the list."""

    view: str
    plain: bool
    day: date | None
    start: datetime
    end: datetime
    zone: ZoneInfo

    @property
    def step(self) -> timedelta:
        return _STEP[self.view]

    @property
    def columns(self) -> int:
        return -(-(self.end - self.start) // self.step)

    def column(self, instant: datetime) -> int:
        """The column that begins at or before the instant, from 0 to `columns`."""
        return min(max((instant - self.start) // self.step, 0), self.columns)


def window(view: str, day: str, *, now: datetime, zone: ZoneInfo) -> Window:
    """The window asked for. Raises `BadWindow`."""
    if view not in ("", *VIEWS):
        raise BadWindow(_("There is no such view. Choose 36 h, week or list."))
    shown = view or HOURS_36
    chosen = _day(day, local_date(now, zone)) if day else None
    if shown == HOURS_36:
        start = day_start(chosen, zone) if chosen else round_to_raster(now, 3600, zone, up=False) - timedelta(hours=1)
        return Window(shown, not view, chosen, start, start + timedelta(hours=36), zone)
    first = chosen or local_date(now, zone)
    return Window(shown, False, chosen, day_start(first, zone), day_start(first + timedelta(days=7), zone), zone)


def _day(text: str, today: date) -> date:
    try:
        day = date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        day = None
    if day is None:
        raise BadWindow(_("A day is written like 2025-12-01."))
    if abs(day - today) > timedelta(days=366):
        raise BadWindow(_("Choose a day within a year of today."))
    return day


@dataclass(frozen=True)
class Span:
    """Something that lies over columns: a day, an hour mark, a shade."""

    css: str
    words: str = ""


@dataclass(frozen=True)
class Lane:
    card: CardLook
    hold: Hold
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class HostLanes:
    name: str
    lanes: tuple[Lane, ...]


@dataclass(frozen=True)
class Calendar:
    """The grid: its columns' class, header, shades, the line of now, and the lanes by host."""

    columns: str
    count: int
    start_s: int
    step_s: int
    days: tuple[Span, ...]
    hours: tuple[Span, ...]
    shades: tuple[Span, ...]
    now: str
    firm: str
    windows: tuple[Span, ...]
    hosts: tuple[HostLanes, ...]


def days(win: Window) -> Iterator[tuple[date, datetime, datetime]]:
    """The lab days that the window touches, each with the part inside it."""
    day = local_date(win.start, win.zone)
    while (begins := day_start(day, win.zone)) < win.end:
        ends = day_start(day + timedelta(days=1), win.zone)
        if max(begins, win.start) < min(ends, win.end):
            yield day, max(begins, win.start), min(ends, win.end)
        day += timedelta(days=1)


@lru_cache(maxsize=64)
def _header(win: Window, language: str) -> tuple[tuple[Span, ...], tuple[Span, ...], tuple[Span, ...]]:
    """Days, hours and shades, which nobody's reservation changes: worked out once for a window, in each language."""
    day_spans, hour_spans, shades = [], [], []
    for day, begins, ends in days(win):
        kind = "monday" if day.weekday() == 0 else "day"
        span = css(win.column(begins), win.column(ends))
        day_spans.append(Span(f"{span} {kind}", _day_words(day, ends - begins)))
        if day.weekday() >= 5:
            shades.append(Span(f"{span} rest"))
        for from_, to in ((time(0), time(8)), (time(22), None)):
            night = rule_instant(datetime.combine(day, from_), win.zone)
            morning = rule_instant(datetime.combine(day, to), win.zone) if to else ends
            if win.column(night) < win.column(morning):
                shades.append(Span(f"{css(win.column(night), win.column(morning))} night"))
        for hour in range(0, 24, _TICK_HOURS[win.view]):
            at = rule_instant(datetime.combine(day, time(hour)), win.zone)
            if win.start <= at < win.end:
                hour_spans.append(_mark(win, at, hour))
    return tuple(day_spans), tuple(hour_spans), tuple(shades)


def _day_words(day: date, shown: timedelta) -> str:
    """The heading of a day, as long as the part of it that is shown has room for."""
    if shown >= timedelta(hours=3):
        return labels.day(day)
    return labels.day_briefly(day) if shown >= timedelta(hours=2) else ""


def _mark(win: Window, at: datetime, hour: int) -> Span:
    """The mark of one hour, up to the next mark; without room for its words it is only a line."""
    length = timedelta(hours=_TICK_HOURS[win.view])
    column = win.column(at)
    until = min(column + int(length / win.step), win.columns)
    room = (until - column) * win.step >= length / 2
    return Span(f"{css(column, until)} {'midnight' if hour == 0 else 'hour'}", f"{hour:02}" if room else "")


def _windows(win: Window, timetable: Timetable) -> tuple[Span, ...]:
    """The times that are not simply open at the plain rate (F1, F2)."""
    found = []
    for segment in timetable.segments(Interval(win.start, win.end)):
        mode, rate = segment.window.mode, segment.window.rate
        start, end = win.column(segment.interval.start), win.column(segment.interval.end)
        if (mode == Mode.OPEN and rate == 100) or start >= end:
            continue
        price = f"×{formats.number_format(rate / 100)}" if rate != 100 else ""
        words = {Mode.CLOSED: _("closed"), Mode.WALK_IN: _("walk-ins only"), Mode.LONG: _("long ones only"), Mode.OPEN: ""}[mode]
        found.append(Span(f"{css(start, end)} w-{str(mode).replace('_', '-')}", " ".join(filter(None, [words, price]))))
    return tuple(found)


def firm_until(now: datetime, lab: LabFacts) -> datetime:
    """The midnight up to which days are firm: what starts before it is no longer displaced (D1)."""
    tomorrow = local_date(now, lab.zone) + timedelta(days=1)
    first = day_start(tomorrow, lab.zone)
    is_firm = is_frozen(first, now, lab.zone, lab.policy.freezing)
    return day_start(tomorrow + timedelta(days=1), lab.zone) if is_firm else first


def calendar(
    win: Window, cards: Sequence[ShownCard], blocks: Iterable[Block], holds: dict[int, Hold], *, reader: pieces.Reader,
    lab: LabFacts, timetable: Timetable | None = None,
) -> Calendar:
    """The picture of the window for one reader; with a `timetable`, when what is open and what it costs."""
    on_card: dict[int, list[Block]] = defaultdict(list)
    for block in blocks:
        on_card[block.gpu_id].append(block)
    drawn = pieces.Drawing(win.start, win.end, win.step, SMALL[win.view], win.zone, reader)
    by_host: dict[str, list[Lane]] = {}
    for card in cards:
        look = cardlook.look_of(card, reader.now, holds[card.id])
        by_host.setdefault(card.host, []).append(Lane(look, holds[card.id], drawn.lane(on_card[card.id])))
    day_spans, hour_spans, shades = _header(win, get_language() or "")
    inside, firm = win.start <= reader.now < win.end, firm_until(reader.now, lab)
    return Calendar(
        columns=f"cols-{win.columns}", count=win.columns,
        start_s=int(win.start.timestamp()), step_s=int(win.step.total_seconds()),
        days=day_spans, hours=hour_spans, shades=shades,
        now=css(win.column(reader.now), win.column(reader.now) + 1) if inside else "",
        firm=css(win.column(firm), win.column(firm) + 1) if win.start < firm < win.end else "",
        windows=_windows(win, timetable) if timetable is not None else (),
        hosts=tuple(HostLanes(name, tuple(lanes)) for name, lanes in by_host.items()),
    )


@dataclass(frozen=True)
class ListedRow:
    """One reservation in the list; a maintenance has no reservation (0), holder and tier."""

    reservation_id: int
    period: str
    length: str
    cards: str
    holder: str
    own: bool
    new: bool
    tier: str
    letter: str
    tier_words: str
    status: str
    status_words: str


@dataclass(frozen=True)
class ListedDay:
    title: str
    iso: str
    rows: tuple[ListedRow, ...]


def listed(
    win: Window, cards: Sequence[ShownCard], blocks: Iterable[Block], *, reader: pieces.Reader
) -> tuple[ListedDay, ...]:
    """The same blocks as a list: by the day they begin on, each reservation once with all its cards."""
    by_id, clock, first = {card.id: card for card in cards}, LocalClock(win.zone), win.start.timestamp()
    groups: dict[tuple[float, float, int, str], list[Block]] = defaultdict(list)
    for block in blocks:
        groups[block.start, block.end, block.reservation_id, block.status].append(block)
    by_day: dict[str, list[ListedRow]] = defaultdict(list)
    for (start, _end, _id, _status), group in sorted(groups.items(), key=lambda item: item[0]):
        by_day[clock.iso(max(start, first))].append(_listed(group, by_id, clock, reader))
    return tuple(ListedDay(labels.day(date.fromisoformat(iso)), iso, tuple(rows)) for iso, rows in sorted(by_day.items()))


def _listed(group: Sequence[Block], by_id: dict[int, ShownCard], clock: LocalClock, reader: pieces.Reader) -> ListedRow:
    one, cards = group[0], cardlook.places_words((by_id[block.gpu_id].host, by_id[block.gpu_id].card_index) for block in group)
    period, length = clock.period(one.start, one.end), labels.length(int(one.end - one.start))
    if one.status == Closed.MAINTENANCE:
        return ListedRow(
            reservation_id=0, period=period, length=length, cards=cards, holder="", own=False, new=False, tier="", letter="",
            tier_words="", status=str(Closed.MAINTENANCE), status_words=_("maintenance"),
        )
    status = pieces.shown_status(one, reader.now.timestamp())
    return ListedRow(
        reservation_id=one.reservation_id, period=period, length=length, cards=cards, holder=names.shown(one.holder_name),
        own=one.holder_id == reader.member_id, new=one.reservation_id == reader.new_id, tier=one.tier,
        letter=str(labels.TIER_LETTER.get(one.tier, "")), tier_words=str(labels.TIER.get(one.tier, one.tier)),
        status=status, status_words=str(labels.STATUS[Status(status)]),
    )
