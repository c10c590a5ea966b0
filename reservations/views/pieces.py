"""What stands on the lanes of the schedule: reservations and maintenance as pieces, small ones grouped.

A week has hundreds of pieces and is asked for every 20 s by everybody who looks. So here instants are seconds, words that
repeat are looked up once a picture, and times are said by arithmetic (`localclock`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .. import labels, names
from ..localclock import LocalClock
from ..queries import HOLDING_CODES, Block
from ..rules.facts import Closed
from ..rules.lifecycle import Status

_BOOKED, _ACTIVE, _FINISHED = map(str, (Status.BOOKED, Status.ACTIVE, Status.FINISHED))
_MAINTENANCE = str(Closed.MAINTENANCE)


class Piece(NamedTuple):
    """What stands on a lane, from column `start` to column `end`. `kind`: a block (opens its reservation), a group of blocks
    too small to press, whose `parts` are drawn and which leads to the list of that `day`, or `closed`: maintenance, which
    opens nothing."""

    kind: str
    start: int
    end: int
    key: str
    words: str
    reservation_id: int = 0
    look: str = ""  # the classes of tier, own, ended, new
    letter: str = ""
    holder: str = ""
    times: str = ""
    number: str = ""  # of the parts
    day: str = ""
    parts: tuple[Piece, ...] = ()
    grip: str = ""  # of the reader's own that can be moved or extended: its status and exact times

    @property
    def css(self) -> str:
        """The classes that place it."""
        return css(self.start, self.end)


def css(start: int, end: int) -> str:
    """The classes of what lies from one column to another."""
    return f"s{start} e{end}"


@dataclass(frozen=True)
class Reader:
    """For whom it is drawn and when; `new_id`: the reservation they have just made."""

    member_id: int | None
    now: datetime
    new_id: int = 0


def shown_status(block: Block, now: float) -> str:
    """The status by the clock, not by the last sweep."""
    if block.status == _BOOKED and block.start <= now:
        return _ACTIVE
    if block.status == _ACTIVE and block.end <= now:
        return _FINISHED
    return block.status


class Drawing:
    """One picture: its columns, its reader, and the words that its pieces share."""

    def __init__(self, start: datetime, end: datetime, step: timedelta, small: int, zone: ZoneInfo, reader: Reader) -> None:
        self._start, self._step, self._small = start.timestamp(), step.total_seconds(), small
        self._columns = -(-(end - start) // step)
        self._reader, self._now, self._clock = reader, reader.now.timestamp(), LocalClock(zone)
        # The period stands apart: it is the only part that no two pieces share.
        self._block = _("%(holder)s, %(tier)s, %(status)s, %(period)s")
        self._own, self._closed = _("%(words)s, yours"), _("maintenance")
        self._closed_until = _("maintenance, %(period)s")
        self._shared: dict[tuple[str, str, str, bool], tuple[str, str, str, str, str]] = {}

    def lane(self, blocks: Sequence[Block]) -> tuple[Piece, ...]:
        """The pieces of one card, in order of time but for maintenance, which comes as it is met."""
        return tuple(self.merged([self.piece(block) for block in blocks]))

    def piece(self, block: Block) -> Piece:
        """One holding or maintenance."""
        reservation_id, gpu_id, begins, ends, _status, tier, holder_id, holder_name = block
        columns, first, step = self._columns, self._start, self._step
        start = min(max(int((begins - first) // step), 0), columns)
        end = max(min(max(int((ends - first) // step), 0), columns), start + 1)
        if end > columns:
            start, end = columns - 1, columns
        period, times = self._clock.spoken(begins, ends)
        if block.status == _MAINTENANCE:
            key, words = f"m{gpu_id}-{int(begins)}", self._closed_until % {"period": period}
            return Piece("closed", start, end, key, words, holder=self._closed)
        about = (holder_name, tier, shown_status(block, self._now), holder_id == self._reader.member_id)
        shared = self._shared.get(about)
        if shared is None:
            shared = self._shared[about] = self._in_common(*about)
        before, after, look, letter, holder = shared
        if reservation_id == self._reader.new_id:
            look += " new"
        grip = ""
        if about[3] and about[2] in (_BOOKED, _ACTIVE):
            grip = f"{about[2]} {int(begins)} {int(ends)}"
        return Piece(
            "block", start, end, f"b{reservation_id}-{gpu_id}-{int(begins)}", f"{before}{period}{after}", reservation_id, look,
            letter, holder, times, grip=grip,
        )

    def _in_common(self, name: str, tier: str, status: str, own: bool) -> tuple[str, str, str, str, str]:
        """What pieces of this holder, tier and status share: their words before and after the period, looks, letter, name."""
        holder = names.shown(name)
        words = self._block % {
            "holder": holder, "tier": labels.tier(tier), "status": labels.STATUS[Status(status)], "period": "\0",
        }
        before, _mark, after = (self._own % {"words": words} if own else words).partition("\0")
        marks = (("own", own), ("ended", status not in HOLDING_CODES))
        look = " ".join([f"t-{tier}", *(mark for mark, holds in marks if holds)])
        return before, after, look, str(labels.TIER_LETTER.get(tier, "")), holder

    def merged(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """Small pieces that touch another become one group, so that everything that can be pressed is large enough."""
        groups: list[list[Piece]] = []
        last: Piece | None = None
        for piece in pieces:
            if piece.kind == "closed":  # nothing to press
                yield piece
                continue
            if last and not _apart(last.end - last.start, piece.start - last.end, piece.end - piece.start, self._small):
                groups[-1].append(piece)
            else:
                groups.append([piece])
            last = piece
        for group in groups:
            yield group[0] if len(group) == 1 else self._group(group)

    def _group(self, group: Sequence[Piece]) -> Piece:
        one = group[0]
        count = ngettext("%(n)d reservation", "%(n)d reservations", len(group)) % {"n": len(group)}
        begins = float(one.key.rpartition("-")[2])
        return Piece(
            "group", one.start, max(part.end for part in group), "g" + one.key,
            count + ": " + "; ".join(part.words for part in group), number=str(len(group)),
            day=self._clock.iso(max(begins, self._start)), parts=tuple(group),
        )


def _apart(first: int, gap: int, second: int, small: int) -> bool:
    """Whether two pieces of these widths, with this gap, can both be pressed: a circle of the smallest size around the
    middle of a small one must touch neither a large neighbour nor the circle of a small one (WCAG 2.2, 2.5.8)."""
    if first >= small and second >= small:
        return True
    if first < small and second < small:
        return gap + (first + second) / 2 >= small
    return gap + min(first, second) / 2 >= small / 2
