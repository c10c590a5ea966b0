"""Lab time: local clock readings, days and quota weeks as instants (A2, A3, A4)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from .interval import Interval


class NoSuchLocalTime(ValueError):
    """A reading of the local clock that is skipped or comes twice (A3). `readings` are the two instants to offer."""

    def __init__(self, twice: bool, readings: tuple[datetime, datetime]) -> None:
        super().__init__("this local time comes twice" if twice else "this local time is skipped")
        self.twice = twice
        self.readings = readings


def _both(local: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    first = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    second = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return first, second


def typed_instant(local: datetime, zone: ZoneInfo) -> datetime:
    """The instant of a local clock reading somebody typed (naive `local`).

    Raises `NoSuchLocalTime` with both readings when a clock change skips or repeats it (A3).
    """
    first, second = _both(local, zone)
    if first == second:
        return first
    raise NoSuchLocalTime(twice=first < second, readings=(min(first, second), max(first, second)))


def rule_instant(local: datetime, zone: ZoneInfo) -> datetime:
    """The instant of a local reading in a rule: a skipped one is the first instant after the gap, a double one the first (A3)."""
    first, second = _both(local, zone)
    if first <= second:
        return first
    # In a gap `second` (new offset) lies before the change and `first` (old offset) after it.
    return _change_between(second, first, zone)


def _change_between(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """The first instant of the offset that holds at `after`, another holding at `before`."""
    offset = after.astimezone(zone).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = (before + (after - before) / 2).replace(microsecond=0)
        if middle.astimezone(zone).utcoffset() == offset:
            after = middle
        else:
            before = middle
    return after


def local_date(instant: datetime, zone: ZoneInfo) -> date:
    """The lab's date at an instant."""
    return instant.astimezone(zone).date()


def day_start(day: date, zone: ZoneInfo) -> datetime:
    """The instant at which a lab day begins."""
    return rule_instant(datetime.combine(day, time()), zone)


def week_of(instant: datetime, zone: ZoneInfo) -> date:
    """The Monday whose quota week holds the instant (A2)."""
    day = local_date(instant, zone)
    return day - timedelta(days=day.weekday())


def week_interval(monday: date, zone: ZoneInfo) -> Interval:
    """Monday 00:00 to the next Monday 00:00, lab time."""
    return Interval(day_start(monday, zone), day_start(monday + timedelta(days=7), zone))


def weekly_time(now: datetime, zone: ZoneInfo, *, weekday: int, at: time) -> Interval:
    """This week's instant of a weekly time (0 = Monday) with the rest of its lab day, an hour at least: when it is due, and until
    when it can be made up for. What was missed for longer is left out."""
    day = week_of(now, zone) + timedelta(days=weekday)
    due = rule_instant(datetime.combine(day, at), zone)
    return Interval(due, max(day_start(day + timedelta(days=1), zone), due + timedelta(hours=1)))


def weeks_of(interval: Interval, zone: ZoneInfo) -> Iterator[tuple[date, Interval]]:
    """The quota weeks an interval touches, each with the part inside it (E2)."""
    monday = week_of(interval.start, zone)
    while True:
        part = interval.cut(week_interval(monday, zone))
        if part is None:
            return
        yield monday, part
        monday += timedelta(days=7)


def last_day(interval: Interval, zone: ZoneInfo) -> date:
    """The last lab day an interval touches; one ending at midnight does not touch the day that begins there."""
    return local_date(interval.end - timedelta(microseconds=1), zone)


def opens_at(day: date, zone: ZoneInfo, *, days_before: int, at: time) -> datetime:
    """When a lab day opens for booking as a whole (A4)."""
    return rule_instant(datetime.combine(day - timedelta(days=days_before), at), zone)


def last_open_day(now: datetime, zone: ZoneInfo, *, days_before: int, at: time) -> date:
    """The last lab day that is open for booking at `now` (A4)."""
    day = local_date(now, zone) + timedelta(days=days_before)
    return day if opens_at(day, zone, days_before=days_before, at=at) <= now else day - timedelta(days=1)


def _past_step(instant: datetime, raster_s: int, zone: ZoneInfo) -> timedelta:
    """How far the local clock is past the last step of the raster, which is counted from local midnight (A1)."""
    local = instant.astimezone(zone).replace(tzinfo=None)
    return (local - datetime.combine(local.date(), time())) % timedelta(seconds=raster_s)


def on_raster(instant: datetime, raster_s: int, zone: ZoneInfo) -> bool:
    """Whether an instant is a step of the lab's clock (A1)."""
    return not _past_step(instant, raster_s, zone)


def round_to_raster(instant: datetime, raster_s: int, zone: ZoneInfo, *, up: bool) -> datetime:
    """The nearest step of the raster at or after (`up`) or at or before the instant."""
    past = _past_step(instant, raster_s, zone)
    if not past:
        return instant
    return instant - past + timedelta(seconds=raster_s) if up else instant - past


def next_step(instant: datetime, raster_s: int, zone: ZoneInfo) -> datetime:
    """The first step of the raster at or after the instant, also where a clock change moves the steps (A1)."""
    step = round_to_raster(instant, raster_s, zone, up=True)
    if step.astimezone(zone).utcoffset() == instant.astimezone(zone).utcoffset():
        return step
    # The clock changes before that step: the old steps end there, and new ones are counted from there.
    change = max(_change_between(instant, step, zone), instant)
    return round_to_raster(change, raster_s, zone, up=True)
