"""The reader's clock for hundreds of instants at once: the words of `labels.instant` and `labels.clock`, by arithmetic.

Converting an instant by its zone, and writing it out by Django's formats, costs more than all else that the schedule does
with a reservation. A picture has few days: the distance to UTC is asked for once a day, and so are a day's words.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from django.utils import formats
from django.utils.translation import gettext as _

DAY_S = 86_400
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_TIMES = [f"{minute // 60:02}:{minute % 60:02}" for minute in range(24 * 60)]
TIME = "H:i"


class LocalClock:
    """Words for instants, given in seconds since the epoch, in one zone and in the language in force."""

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone
        self._offsets: dict[int, float | None] = {}
        self._days: dict[int, tuple[str, str]] = {}
        # Translators: a date with weekday and 24-hour time, in Django's format letters
        self._before, self._time, self._after = _("D j M H:i").partition(TIME)

    def local(self, at: float) -> float:
        """The clock's reading, in seconds as if it were UTC."""
        day = int(at // DAY_S)
        try:
            offset = self._offsets[day]
        except KeyError:
            offset = self._offsets[day] = self._of_day(day)
        return at + (self._offset(at) if offset is None else offset)

    def _of_day(self, day: int) -> float | None:
        """The distance to UTC on a day of UTC; None where it changes within it."""
        first, last = self._offset(day * DAY_S), self._offset((day + 1) * DAY_S)
        return first if first == last else None

    def _offset(self, at: float) -> float:
        offset = datetime.fromtimestamp(at, UTC).astimezone(self._zone).utcoffset()
        return offset.total_seconds() if offset is not None else 0.0

    def day(self, at: float) -> int:
        """The local day, counted from the epoch's."""
        return int(self.local(at) // DAY_S)

    def iso(self, at: float) -> str:
        """The local day as 2026-12-01."""
        return date.fromordinal(_EPOCH_DAY + self.day(at)).isoformat()

    def time(self, at: float) -> str:
        """The time of day, as `labels.clock` says it: 22:00."""
        return _TIMES[int(self.local(at) % DAY_S) // 60]

    def instant(self, at: float) -> str:
        """An instant with its weekday, as `labels.instant` says it: Tue 1 Dec 22:00."""
        local = self.local(at)
        return self._dated(int(local // DAY_S), _TIMES[int(local % DAY_S) // 60])

    def _dated(self, day: int, time: str) -> str:
        words = self._days.get(day)
        if words is None:
            local = date.fromordinal(_EPOCH_DAY + day)
            before, after = (formats.date_format(local, part) if part else "" for part in (self._before, self._after))
            words = self._days[day] = (before, after)
        return f"{words[0]}{time}{words[1]}" if self._time else words[0]

    def period(self, start: float, end: float) -> str:
        """A period with its days, the day only once where it is the same: Tue 1 Dec 22:00 – Wed 2 Dec 06:00."""
        return self.spoken(start, end)[0]

    def spoken(self, start: float, end: float) -> tuple[str, str]:
        """The period, and its times alone: 22:00–06:00."""
        first, last = self.local(start), self.local(end)
        day, until = int(first // DAY_S), int(last // DAY_S)
        begins, ends = _TIMES[int(first % DAY_S) // 60], _TIMES[int(last % DAY_S) // 60]
        end_words = ends if day == until else self._dated(until, ends)
        return f"{self._dated(day, begins)} – {end_words}", f"{begins}–{ends}"
