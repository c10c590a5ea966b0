"""The schedule as a picture: a window of time cut into columns, cards as lanes, reservations as pieces of lanes.

Columns are instants (UTC), labelled by the lab's clock: a day with a clock change simply has more or fewer of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .. import labels, names
from ..models import Gpu, Member
from ..queries import HOLDING_CODES, Block
from ..rules.facts import Closed
from ..rules.lifecycle import Status
from ..rules.week import day_start, local_date, round_to_raster, rule_instant
from . import cardlook
from .cardlook import CardLook, Hold

HOURS_36, WEEK, LIST = "36h", "week", "list"
VIEWS = (HOURS_36, WEEK, LIST)
_STEP = {HOURS_36: timedelta(minutes=15), WEEK: timedelta(minutes=30), LIST: timedelta(minutes=30)}
# A piece narrower than this many columns is too small for a finger or a pointer (24 px) at the narrowest lane.
_SMALL = {HOURS_36: 3, WEEK: 7, LIST: 0}
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
class Piece:
    """What stands on a lane. `kind`: a block (opens its reservation), a group of blocks too small to press, whose
    `parts` are drawn and which leads to the list of that day, or `closed`: maintenance, which opens nothing."""

    kind: str
    css: str
    key: str
    reservation_id: int = 0
    tier: str = ""
    letter: str = ""
    holder: str = ""
    times: str = ""
    words: str = ""
    own: bool = False
    ended: bool = False
    new: bool = False
    count: str = ""
    day: str = ""
    parts: tuple[Piece, ...] = ()


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
    start_s: int
    step_s: int
    days: tuple[Span, ...]
    hours: tuple[Span, ...]
    shades: tuple[Span, ...]
    now: str
    hosts: tuple[HostLanes, ...]


def _css(start: int, end: int) -> str:
    return f"s{start} e{end}"


def days(win: Window) -> Iterator[tuple[date, datetime, datetime]]:
    """The lab days that the window touches, each with the part inside it."""
    day = local_date(win.start, win.zone)
    while (begins := day_start(day, win.zone)) < win.end:
        ends = day_start(day + timedelta(days=1), win.zone)
        if max(begins, win.start) < min(ends, win.end):
            yield day, max(begins, win.start), min(ends, win.end)
        day += timedelta(days=1)


def _header(win: Window) -> tuple[tuple[Span, ...], tuple[Span, ...], tuple[Span, ...]]:
    day_spans, hour_spans, shades = [], [], []
    for day, begins, ends in days(win):
        kind = "monday" if day.weekday() == 0 else "day"
        span = _css(win.column(begins), win.column(ends))
        day_spans.append(Span(f"{span} {kind}", _day_words(day, ends - begins)))
        if day.weekday() >= 5:
            shades.append(Span(f"{span} rest"))
        for from_, to in ((time(0), time(8)), (time(22), None)):
            night = rule_instant(datetime.combine(day, from_), win.zone)
            morning = rule_instant(datetime.combine(day, to), win.zone) if to else ends
            if win.column(night) < win.column(morning):
                shades.append(Span(f"{_css(win.column(night), win.column(morning))} night"))
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
    return Span(f"{_css(column, until)} {'midnight' if hour == 0 else 'hour'}", f"{hour:02}" if room else "")


def calendar(
    win: Window, gpus: Sequence[Gpu], blocks: Iterable[Block], holds: dict[int, Hold], *, member: Member, now: datetime,
    new_id: int = 0,
) -> Calendar:
    """The picture of the window for one reader."""
    on_card: dict[int, list[Block]] = defaultdict(list)
    for block in blocks:
        on_card[block.gpu_id].append(block)
    by_host: dict[str, list[Lane]] = {}
    said = _Said()
    for gpu in gpus:
        pieces = [_piece(win, block, member, now, new_id, said) for block in on_card[gpu.pk]]
        lane = Lane(cardlook.look(gpu, now, holds[gpu.pk]), holds[gpu.pk], tuple(_merged(win, pieces)))
        by_host.setdefault(gpu.host.name, []).append(lane)
    day_spans, hour_spans, shades = _header(win)
    inside = win.start <= now < win.end
    return Calendar(
        columns=f"cols-{win.columns}", start_s=int(win.start.timestamp()), step_s=int(win.step.total_seconds()),
        days=day_spans, hours=hour_spans, shades=shades,
        now=_css(win.column(now), win.column(now) + 1) if inside else "",
        hosts=tuple(HostLanes(name, tuple(lanes)) for name, lanes in by_host.items()),
    )


def shown_status(block: Block, now: datetime) -> str:
    """The status by the clock, not by the last sweep."""
    if block.status == Status.BOOKED and block.start <= now:
        return str(Status.ACTIVE)
    if block.status == Status.ACTIVE and block.end <= now:
        return str(Status.FINISHED)
    return block.status


class _Said:
    """The words that every block repeats, looked up once for a picture."""

    def __init__(self) -> None:
        self.block, self.own = _("%(holder)s, %(tier)s, %(status)s, %(period)s"), _("%(words)s, yours")
        self.closed, self.maintenance = _("maintenance"), _("maintenance, %(period)s")
        self._tiers = {code: str(words) for code, words in labels.TIER.items()}
        self._letters = {code: str(letter) for code, letter in labels.TIER_LETTER.items()}
        self._statuses = {str(code): str(words) for code, words in labels.STATUS.items()}

    def tier(self, code: str) -> str:
        return self._tiers.get(code, code)

    def letter(self, code: str) -> str:
        return self._letters.get(code, "")

    def status(self, code: str) -> str:
        return self._statuses[code]


def _piece(win: Window, block: Block, member: Member, now: datetime, new_id: int, said: _Said) -> Piece:
    start = win.column(block.start)
    end = max(win.column(block.end), start + 1)
    if end > win.columns:
        start, end = win.columns - 1, win.columns
    if block.status == Closed.MAINTENANCE:
        words = said.maintenance % {"period": cardlook.period_words(block.start, block.end)}
        return Piece(
            kind="closed", css=_css(start, end), key=f"m{block.gpu_id}-{int(block.start.timestamp())}", words=words,
            holder=said.closed,
        )
    own = block.holder_id == member.pk
    status = shown_status(block, now)
    holder = names.shown(block.holder_name)
    words = said.block % {
        "holder": holder, "tier": said.tier(block.tier), "status": said.status(status),
        "period": cardlook.period_words(block.start, block.end),
    }
    return Piece(
        kind="block", css=_css(start, end), key=f"b{block.reservation_id}-{block.gpu_id}-{int(block.start.timestamp())}",
        reservation_id=block.reservation_id, tier=block.tier, letter=said.letter(block.tier),
        holder=holder, times=f"{labels.clock(block.start)}–{labels.clock(block.end)}",
        words=said.own % {"words": words} if own else words, own=own,
        ended=status not in HOLDING_CODES, new=block.reservation_id == new_id,
        day=local_date(max(block.start, win.start), win.zone).isoformat(),
    )


def _columns(piece: Piece) -> tuple[int, int]:
    start, end = piece.css.split()
    return int(start[1:]), int(end[1:])


def _merged(win: Window, pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Small pieces that touch another become one group, so that everything that can be pressed is large enough."""
    small = _SMALL[win.view]
    groups: list[list[Piece]] = []
    for piece in pieces:
        start, end = _columns(piece)
        if piece.kind == "closed":  # nothing to press
            yield piece
            continue
        if groups:
            last_start, last_end = _columns(groups[-1][-1])
            if not _apart(last_end - last_start, start - last_end, end - start, small):
                groups[-1].append(piece)
                continue
        groups.append([piece])
    for group in groups:
        if len(group) == 1:
            yield group[0]
            continue
        first, last = _columns(group[0])[0], max(_columns(one)[1] for one in group)
        count = ngettext("%(n)d reservation", "%(n)d reservations", len(group)) % {"n": len(group)}
        yield Piece(
            kind="group", css=_css(first, last), key="g" + group[0].key, count=str(len(group)), day=group[0].day,
            words=count + ": " + "; ".join(one.words for one in group),
            parts=tuple(replace(one, kind="part") for one in group),
        )


def _apart(first: int, gap: int, second: int, small: int) -> bool:
    """Whether two pieces of these widths, with this gap, can both be pressed: a circle of the smallest size around the
    middle of a small one must touch neither a large neighbour nor the circle of a small one (WCAG 2.2, 2.5.8)."""
    if first >= small and second >= small:
        return True
    if first < small and second < small:
        return gap + (first + second) / 2 >= small
    return gap + min(first, second) / 2 >= small / 2


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


def _listed_maintenance(group: Sequence[Block], by_id: dict[int, Gpu]) -> ListedRow:
    start, end = group[0].start, group[0].end
    return ListedRow(
        reservation_id=0, period=cardlook.period_words(start, end), length=cardlook.length_words(start, end),
        cards=cardlook.cards_words(by_id[block.gpu_id] for block in group), holder="", own=False, new=False, tier="", letter="",
        tier_words="", status=str(Closed.MAINTENANCE), status_words=_("maintenance"),
    )


@dataclass(frozen=True)
class ListedDay:
    title: str
    iso: str
    rows: tuple[ListedRow, ...]


def listed(
    win: Window, gpus: Sequence[Gpu], blocks: Iterable[Block], *, member: Member, now: datetime, new_id: int = 0
) -> tuple[ListedDay, ...]:
    """The same blocks as a list: by the day they begin on, each reservation once with all its cards."""
    by_id = {gpu.pk: gpu for gpu in gpus}
    groups: dict[tuple[datetime, datetime, int, str], list[Block]] = defaultdict(list)
    for block in blocks:
        groups[block.start, block.end, block.reservation_id, block.status].append(block)
    by_day: dict[date, list[ListedRow]] = defaultdict(list)
    for (start, end, reservation_id, _status), group in sorted(groups.items(), key=lambda item: item[0]):
        one = group[0]
        if _status == Closed.MAINTENANCE:
            by_day[local_date(max(start, win.start), win.zone)].append(_listed_maintenance(group, by_id))
            continue
        status = shown_status(one, now)
        by_day[local_date(max(start, win.start), win.zone)].append(
            ListedRow(
                reservation_id=reservation_id, period=cardlook.period_words(start, end), length=cardlook.length_words(start, end),
                cards=cardlook.cards_words(by_id[block.gpu_id] for block in group), holder=names.shown(one.holder_name),
                own=one.holder_id == member.pk, new=reservation_id == new_id, tier=one.tier,
                letter=str(labels.TIER_LETTER.get(one.tier, "")), tier_words=str(labels.TIER.get(one.tier, one.tier)),
                status=status, status_words=str(labels.STATUS[Status(status)]),
            )
        )
    return tuple(ListedDay(labels.day(day), day.isoformat(), tuple(rows)) for day, rows in sorted(by_day.items()))
