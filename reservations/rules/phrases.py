"""What somebody types to say what they want to book: "2 8h tomorrow 22:00", "2卡 8小时 明晚22点".

A small grammar in English and Chinese. It reads what is plain and asks about the rest: a word that it does not know, a time that
could be two times, a number that could be cards or hours. It never guesses. Times are by the lab's clock, without a zone; the
form that they fill in knows which of them do not exist.

What parts of a day mean, when no hour is named: morning 09:00 to 12:00, noon from 12:00, afternoon 14:00 to 18:00, evening 18:00
to 22:00, night 22:00 to 08:00.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from enum import StrEnum

DAY = timedelta(days=1)
MOST_CARDS, LONGEST = 999, 400 * DAY  # beyond these a number is no count and no length: then it is asked
_YEARS = 2  # so far from now is no year that anybody means


class Unclear(StrEnum):
    """What is asked back; `Asked.piece` says about which words."""

    WORD = "word"  # not understood at all
    NUMBER = "number"  # cards, hours or an hour of the day
    MODEL = "model"  # fits several models
    DAY = "day"  # which day
    TIME = "time"  # at what time
    HALF = "half"  # morning or afternoon
    TWICE = "twice"  # said twice, and not the same
    ORDER = "order"  # ends before it starts
    PAST = "past"  # has passed already


@dataclass(frozen=True)
class Asked:
    """A question about a piece of the text."""

    what: Unclear
    piece: str


@dataclass(frozen=True)
class Said:
    """What was understood; what was not said is None. `start` and `end` are by the lab's clock. With `asks` nothing else counts.

    `length` is elapsed time (A2), so `end` is None with it: the clock may be changed in between.
    """

    count: int | None = None
    model: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    length: timedelta | None = None
    is_now: bool = False
    asks: tuple[Asked, ...] = ()


@dataclass
class _Moment:
    """A point in time as far as it was said."""

    day: date | None = None
    at: time | None = None
    part: str = ""
    next_day: bool = False  # the time belongs to the night after the day: 12 at night


@dataclass
class _Reader:
    now: datetime
    models: Collection[str]
    count: int | None = None
    model: str | None = None
    length: timedelta | None = None
    is_now: bool = False
    moments: list[_Moment] = field(default_factory=lambda: [_Moment()])
    has_end: bool = False
    asks: list[Asked] = field(default_factory=list)

    def ask(self, what: Unclear, piece: str) -> None:
        self.asks.append(Asked(what, piece.strip()))


Reader = Callable[[_Reader, "re.Match[str]"], None]

_CHINESE = {"零": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_NUMBER = r"(?P<n>\d+(?:\.\d+)?|[零一二两三四五六七八九十]+)"
_WEEKDAYS = {
    name: place
    for place, names in enumerate((
        ("monday", "mon", "一"), ("tuesday", "tues", "tue", "二"), ("wednesday", "wed", "三"),
        ("thursday", "thurs", "thur", "thu", "四"), ("friday", "fri", "五"), ("saturday", "sat", "六"),
        ("sunday", "sun", "日", "天"),
    ))
    for name in names
}
_MONTHS = {
    name: number
    for number, names in enumerate((
        ("january", "jan"), ("february", "feb"), ("march", "mar"), ("april", "apr"), ("may",), ("june", "jun"), ("july", "jul"),
        ("august", "aug"), ("september", "sept", "sep"), ("october", "oct"), ("november", "nov"), ("december", "dec"),
    ), 1)
    for name in names
}
_PARTS = {
    "凌晨": "small", "清晨": "morning", "早上": "morning", "早晨": "morning", "上午": "morning", "中午": "noon",
    "下午": "afternoon", "傍晚": "evening", "晚上": "night", "夜里": "night", "晚": "night",
    "早": "morning", "morning": "morning", "noon": "noon",
    "midday": "noon", "afternoon": "afternoon", "evening": "evening", "night": "night",
}
_SPANS = {
    "morning": (time(9), time(12)), "noon": (time(12), None), "afternoon": (time(14), time(18)), "evening": (time(18), time(22)),
    "night": (time(22), time(8)),
}
_END = r"(?![a-z0-9])"
_WEEKDAY = "|".join(sorted((name for name in _WEEKDAYS if name.isascii()), key=len, reverse=True))
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_PART_EN = "|".join(name for name in _PARTS if name.isascii())
_PART_ZH = "|".join(sorted((name for name in _PARTS if not name.isascii()), key=len, reverse=True))

# In order: the first that fits at a place reads it.
_RULES: tuple[tuple[str, str], ...] = (
    (
        "skip",
        r"[\s,，。;；]+|(?:for|at|on|please|the|a|an|in|of|from|want|need|starting|book)" + _END + r"|从|的|要|用|订|预约|开始",
    ),
    ("now", r"(?:right now|now|asap)" + _END + r"|现在|马上|立刻|立即"),
    ("iso", r"(?P<y>\d{4})[-/](?P<m>\d{1,2})[-/](?P<d>\d{1,2})(?!\d)"),
    ("zh_date", r"(?:(?P<y>\d{4})年)?(?P<m>\d{1,2}|[一二三四五六七八九十]+)月(?P<d>\d{1,2}|[一二三四五六七八九十]+)[日号]?"),
    (
        "en_date",
        rf"(?P<d>\d{{1,2}})(?:st|nd|rd|th)? (?P<month>{_MONTH}){_END}"
        rf"|(?P<month2>{_MONTH}) (?P<d2>\d{{1,2}})(?:st|nd|rd|th)?{_END}",
    ),
    ("half_hour", r"half an hour" + _END + r"|半个?小时"),
    ("hours_half", _NUMBER + r"个半(?:小时|钟头)"),
    ("hours_minutes", r"(?P<h>\d+)h(?P<min>\d{1,2})m?" + _END),
    ("hours", _NUMBER + r" ?(?:(?:hours?|hrs?|h)" + _END + r"|个?小时|个?钟头)"),
    ("minutes", _NUMBER + r" ?(?:(?:minutes?|mins?|m)" + _END + r"|分钟)"),
    ("days", _NUMBER + r" ?(?:days?" + _END + r"|天)"),
    ("count", _NUMBER + r" ?(?:(?:cards?|gpus?|x|×)" + _END + r"|张卡|块卡|个卡|张|块|卡)"),
    ("count", r"[x×] ?" + _NUMBER + r"(?!\d)"),
    ("us_date", r"(?P<m>\d{1,2})/(?P<d>\d{1,2})(?!\d)"),
    ("day_of_month", r"(?P<d>\d{1,2})[号日]"),
    ("clock", r"(?P<h>\d{1,2}):(?P<min>\d{2})(?: ?(?P<half>am|pm))?(?![\d:])"),
    ("half_day", r"(?P<h>\d{1,2}) ?(?P<half>am|pm)" + _END),
    (
        "zh_clock",
        r"(?P<h>\d{1,2}|[零一二两三四五六七八九十]+)[点时](?:钟|整)?(?:(?P<min>\d{1,2})分?|(?P<half>半)|(?P<quarter>一刻|三刻))?",
    ),
    ("until", r"(?:until|till|to|through)" + _END + r"|[-–—~～]|到|至"),
    ("in_three", r"大后天"),
    ("after_next", r"day after tomorrow" + _END + r"|后天"),
    ("tonight", r"tonight" + _END + r"|今晚|今夜"),
    ("tomorrow_night", r"明晚|明夜"),
    ("tomorrow", r"(?:tomorrow|tmrw?|tmw)" + _END + r"|明天|明日|明(?=早|上|下|中)"),
    ("today", r"today" + _END + r"|今天|今日|今(?=早)"),
    ("weekday", rf"(?P<which>next|this|coming)? ?(?P<name>{_WEEKDAY}){_END}"),
    ("weekday", r"(?P<which>下个?|本|这个?)?(?:周|星期|礼拜)(?P<name>[一二三四五六日天])"),
    ("hour_of_part", rf"(?P<h>\d{{1,2}}) (?:in the |at )?(?P<part>{_PART_EN}){_END}"),
    ("midnight", r"midnight" + _END + r"|午夜|半夜"),
    ("part", rf"(?:{_PART_EN}){_END}|{_PART_ZH}"),
    ("word", r"[a-z0-9][a-z0-9_.+-]*|."),
)
_COMPILED = tuple((name, re.compile(pattern)) for name, pattern in _RULES)


def read(text: str, *, now: datetime, models: Collection[str] = ()) -> Said:
    """What the text says. `now`: by the lab's clock, without a zone; `models`: the names of the models there are."""
    reader = _Reader(now.replace(second=0, microsecond=0), models)
    is_first = True
    for name, match in _pieces(unicodedata.normalize("NFKC", text).lower()):
        if name == "skip":
            continue
        if name == "word":
            _word(reader, match.group(), is_first=is_first)
        else:
            _READERS[name](reader, match)
        is_first = False
    return _understood(reader)


def _pieces(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    place = 0
    while place < len(text):
        for name, pattern in _COMPILED:
            if match := pattern.match(text, place):
                yield name, match
                place = match.end()
                break


# --- pieces -----------------------------------------------------------------------------------------------------------


def _number(digits: str) -> float:
    """The number, in digits or in Chinese below a hundred; infinity for what is none: 十十."""
    if digits[0].isdigit():
        return float(digits)
    tens, ten, ones = digits.partition("十")
    if max(len(tens), len(ones)) > 1 or "十" in ones:
        return math.inf
    if not ten:
        return float(_CHINESE[digits])
    return (_CHINESE[tens] if tens else 1) * 10 + (_CHINESE[ones] if ones else 0)


def _small(digits: str) -> int:
    """An hour, a day or a month; for what is no number one that none of them is."""
    number = _number(digits)
    return int(number) if number < 100 else 99


def _word(reader: _Reader, word: str, *, is_first: bool) -> None:
    fits = [model for model in reader.models if len(word) > 2 and word in re.split(r"[\s-]+", model.lower())]
    if len(fits) == 1:
        _once(reader, "model", fits[0], word)
    elif fits:
        reader.ask(Unclear.MODEL, word)
    elif word.isdigit() and is_first and len(word) < 3 and int(word):
        reader.count = int(word)  # "2 8h tomorrow": what comes first, alone, is how many
    else:
        reader.ask(Unclear.NUMBER if word.isdigit() else Unclear.WORD, word)


def _once(reader: _Reader, name: str, value: object, piece: str) -> None:
    if getattr(reader, name) not in (None, value):
        reader.ask(Unclear.TWICE, piece)
    setattr(reader, name, value)


def _length(reader: _Reader, seconds: float, piece: str) -> None:
    if not 1 <= seconds <= LONGEST.total_seconds():
        reader.ask(Unclear.WORD, piece)
        return
    added = timedelta(seconds=round(seconds))
    reader.length = added if reader.length is None else reader.length + added  # 1 hour 30 minutes


def _set_day(reader: _Reader, day: date, piece: str) -> None:
    moment = reader.moments[-1]
    if moment.day not in (None, day):
        reader.ask(Unclear.TWICE, piece)
    moment.day = day


def _set_time(reader: _Reader, hour: int, minute: int, piece: str, *, half: str = "", bare: bool = False) -> None:
    """`bare`: a Chinese hour, which a part of the day may precede."""
    moment = reader.moments[-1]
    if moment.at is not None:
        reader.ask(Unclear.TWICE, piece)
        return
    if half:
        if not 1 <= hour <= 12:
            reader.ask(Unclear.WORD, piece)
            return
        hour = hour % 12 + (12 if half == "pm" else 0)
    part = moment.part
    if bare and not part and hour < 12 and _continues(reader):
        hour = _continued(reader.moments[0], hour)
    elif part and hour <= 12 and not half:
        hour = _by_part(reader, moment, hour, part, piece)
    elif bare and 1 <= hour <= 6 and not part:
        reader.ask(Unclear.HALF, piece)
    if hour == 24 and minute == 0:
        hour, moment.next_day = 0, True
    if hour > 23 or minute > 59:
        reader.ask(Unclear.WORD, piece)
        return
    moment.at = time(hour, minute)


def _continues(reader: _Reader) -> bool:
    """Whether this is the end of a time whose start was plain."""
    return reader.has_end and reader.moments[0].at is not None


def _continued(start: _Moment, hour: int) -> int:
    """The part of the day goes on: 下午2点到5点 ends at 17:00, 晚上10点到6点 at 06:00."""
    later = hour + 12
    goes_on = start.part in ("afternoon", "evening", "night") and start.at is not None and start.at.hour < later
    return later if goes_on else hour


def _by_part(reader: _Reader, moment: _Moment, hour: int, part: str, piece: str) -> int:
    if part == "night":
        if hour == 12:
            moment.next_day = True
            return 0
        if hour <= 5:
            reader.ask(Unclear.DAY, piece)  # two at night: of which day?
        return hour + 12 if hour > 5 else hour
    if part in ("afternoon", "evening"):
        return hour + 12 if hour < 12 else hour
    if part == "noon":
        return hour + 12 if hour < 3 else hour
    return 0 if part == "small" and hour == 12 else hour


def _clock(reader: _Reader, match: re.Match[str]) -> None:
    _set_time(reader, int(match["h"]), int(match["min"]), match.group(), half=match["half"] or "")


def _half_day(reader: _Reader, match: re.Match[str]) -> None:
    _set_time(reader, int(match["h"]), 0, match.group(), half=match["half"])


def _zh_clock(reader: _Reader, match: re.Match[str]) -> None:
    minute = 30 if match["half"] else {"一刻": 15, "三刻": 45}.get(match["quarter"] or "", int(match["min"] or 0))
    _set_time(reader, _small(match["h"]), minute, match.group(), bare=True)


def _until(reader: _Reader, match: re.Match[str]) -> None:
    if reader.has_end:
        reader.ask(Unclear.TWICE, match.group())
        return
    reader.has_end = True
    reader.moments.append(_Moment())


def _hour_of_part(reader: _Reader, match: re.Match[str]) -> None:
    reader.moments[-1].part = _PARTS[match["part"]]
    _set_time(reader, int(match["h"]), 0, match.group())


def _midnight(reader: _Reader, match: re.Match[str]) -> None:
    reader.ask(Unclear.DAY, match.group())  # at which end of the day?


def _part(reader: _Reader, match: re.Match[str]) -> None:
    moment, part = reader.moments[-1], _PARTS[match.group()]
    if moment.at is not None and match.group().isascii():  # ten in the evening
        said, moment.at, moment.part = moment.at, None, part
        _set_time(reader, said.hour, said.minute, match.group())
        return
    if moment.part and moment.part != part:
        reader.ask(Unclear.TWICE, match.group())
    moment.part = part


def _date(reader: _Reader, year: int | None, month: int, day: int, piece: str) -> None:
    try:
        if year is not None and abs(year - reader.now.year) > _YEARS:
            raise ValueError
        if year is not None:
            _set_day(reader, date(year, month, day), piece)
            return
        found = date(reader.now.year, month, day)
        if found < reader.now.date():
            found = date(reader.now.year + 1, month, day)
        _set_day(reader, found, piece)
    except ValueError:
        reader.ask(Unclear.DAY, piece)


def _iso(reader: _Reader, match: re.Match[str]) -> None:
    _date(reader, int(match["y"]), int(match["m"]), int(match["d"]), match.group())


def _zh_date(reader: _Reader, match: re.Match[str]) -> None:
    _date(reader, int(match["y"]) if match["y"] else None, _small(match["m"]), _small(match["d"]), match.group())


def _en_date(reader: _Reader, match: re.Match[str]) -> None:
    _date(reader, None, _MONTHS[match["month"] or match["month2"]], int(match["d"] or match["d2"]), match.group())


def _us_date(reader: _Reader, match: re.Match[str]) -> None:
    month, day = int(match["m"]), int(match["d"])
    if month != day and month <= 12 and day <= 12:
        reader.ask(Unclear.DAY, match.group())  # 3/4: in March or in April?
    elif month > 12:
        _date(reader, None, day, month, match.group())
    else:
        _date(reader, None, month, day, match.group())


def _day_of_month(reader: _Reader, match: re.Match[str]) -> None:
    wanted, day = int(match["d"]), reader.now.date()
    for _ in range(62):
        if day.day == wanted:
            _set_day(reader, day, match.group())
            return
        day += DAY
    reader.ask(Unclear.DAY, match.group())


def _weekday(reader: _Reader, match: re.Match[str]) -> None:
    today, wanted, which = reader.now.date(), _WEEKDAYS[match["name"]], match["which"] or ""
    monday = today - today.weekday() * DAY
    if which.startswith(("next", "下")):
        if which == "next" and wanted > today.weekday():
            reader.ask(Unclear.DAY, match.group())  # on a Monday, "next Friday" is either of two
        _set_day(reader, monday + 7 * DAY + wanted * DAY, match.group())
        return
    day = monday + wanted * DAY
    if which in ("this", "本", "这", "这个"):
        if day < today:
            reader.ask(Unclear.PAST, match.group())
    elif day == today:
        reader.ask(Unclear.DAY, match.group())  # today, or in a week?
    elif day < today:
        day += 7 * DAY
    _set_day(reader, day, match.group())


def _in_days(days: int, part: str = "") -> Reader:
    def read_day(reader: _Reader, match: re.Match[str]) -> None:
        _set_day(reader, reader.now.date() + days * DAY, match.group())
        if part:
            reader.moments[-1].part = part

    return read_day


def _now(reader: _Reader, match: re.Match[str]) -> None:
    reader.is_now = True


def _count(reader: _Reader, match: re.Match[str]) -> None:
    number = _number(match["n"])
    if not (1 <= number <= MOST_CARDS and number == int(number)):
        reader.ask(Unclear.NUMBER, match.group())
        return
    _once(reader, "count", int(number), match.group())


def _seconds(each: int) -> Reader:
    return lambda reader, match: _length(reader, _number(match["n"]) * each, match.group())


_READERS: dict[str, Reader] = {
    "now": _now, "iso": _iso, "zh_date": _zh_date, "en_date": _en_date, "us_date": _us_date, "day_of_month": _day_of_month,
    "half_hour": lambda reader, match: _length(reader, 1800, match.group()),
    "hours_half": lambda reader, match: _length(reader, _number(match["n"]) * 3600 + 1800, match.group()),
    "hours_minutes": lambda reader, match: _length(reader, int(match["h"]) * 3600 + int(match["min"]) * 60, match.group()),
    "hours": _seconds(3600), "minutes": _seconds(60), "days": _seconds(86_400), "count": _count, "clock": _clock,
    "half_day": _half_day, "zh_clock": _zh_clock, "until": _until, "today": _in_days(0), "tonight": _in_days(0, "night"),
    "tomorrow": _in_days(1), "tomorrow_night": _in_days(1, "night"), "after_next": _in_days(2), "in_three": _in_days(3),
    "weekday": _weekday, "midnight": _midnight, "part": _part, "hour_of_part": _hour_of_part,
}


# --- together ---------------------------------------------------------------------------------------------------------


def _understood(reader: _Reader) -> Said:
    first, last = reader.moments[0], reader.moments[-1] if reader.has_end else None
    if reader.is_now and (first.day or first.at or first.part):
        reader.ask(Unclear.TWICE, "now")
    start = _starts(reader, first)
    end = None if last is None else _ends(reader, start, last)
    if last is None and first.part and first.at is None and reader.length is None:
        end = _end_of_part(first, start)
    if end is not None and end <= (start or reader.now):
        reader.ask(Unclear.ORDER, f"{end:%Y-%m-%d %H:%M}")
    if end is not None and reader.length is not None:
        if start is None and not reader.is_now:
            start = end - reader.length  # 8 hours until tomorrow 08:00
        elif end - (start or reader.now) != reader.length:
            reader.ask(Unclear.TWICE, f"{end:%Y-%m-%d %H:%M}")
    if start is not None and start < reader.now:
        reader.ask(Unclear.PAST, f"{start:%Y-%m-%d %H:%M}")
    if reader.asks:
        return Said(asks=tuple(dict.fromkeys(reader.asks)))
    return Said(reader.count, reader.model, start, None if reader.length else end, reader.length, reader.is_now)


def _starts(reader: _Reader, moment: _Moment) -> datetime | None:
    """The first moment; a time without a day is the next such time."""
    at = moment.at or (_SPANS[moment.part][0] if moment.part in _SPANS else None)
    if at is None:
        if moment.day is not None:
            reader.asks.append(Asked(Unclear.TIME, f"{moment.day:%Y-%m-%d}"))
        elif moment.part:
            reader.asks.append(Asked(Unclear.TIME, moment.part))
        return None
    if moment.day is not None:
        return datetime.combine(moment.day, at) + (DAY if moment.next_day else timedelta())
    found = datetime.combine(reader.now.date(), at) + (DAY if moment.next_day else timedelta())
    return found if found >= reader.now else found + DAY


def _ends(reader: _Reader, start: datetime | None, moment: _Moment) -> datetime | None:
    """The last moment; without a day of its own the next such time after the start."""
    at = time(12) if moment.at is None and moment.part == "noon" else moment.at
    if at is None:
        reader.asks.append(Asked(Unclear.TIME, f"{moment.day:%Y-%m-%d}" if moment.day else moment.part))
        return None
    after = start or reader.now
    if moment.day is not None:
        return datetime.combine(moment.day, at) + (DAY if moment.next_day else timedelta())
    found = datetime.combine(after.date(), at) + (DAY if moment.next_day else timedelta())
    return found if found > after else found + DAY


def _end_of_part(moment: _Moment, start: datetime | None) -> datetime | None:
    until = _SPANS[moment.part][1] if moment.part in _SPANS else None
    if start is None or until is None:
        return None
    found = datetime.combine(start.date(), until)
    return found if found > start else found + DAY
