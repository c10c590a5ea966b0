"""What typed phrases mean, in both languages; and which of them are asked about instead of guessed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservations.rules.phrases import Said, Unclear, read

NOW = datetime(2026, 11, 30, 14)  # noqa: DTZ001  (a Monday, by the lab's clock)
MODELS = ("NVIDIA GeForce RTX 4090", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-PCIE-40GB", "NVIDIA H100 80GB HBM3")


def at(day: int, hour: int, minute: int = 0, month: int = 12, year: int = 2026) -> datetime:
    return NOW.replace(year=year, month=month, day=day, hour=hour, minute=minute)


def today(hour: int, minute: int = 0) -> datetime:
    return NOW.replace(hour=hour, minute=minute)


def h(hours: float) -> timedelta:
    return timedelta(hours=hours)


MEANT: dict[str, dict[str, Any]] = {
    # count, length, day, time, in any order
    "2 8h tomorrow 22:00": {"count": 2, "length": h(8), "start": at(1, 22)},
    "2卡 8小时 明晚22点": {"count": 2, "length": h(8), "start": at(1, 22)},
    "两张卡明晚10点用8小时": {"count": 2, "length": h(8), "start": at(1, 22)},
    "tomorrow 22:00 for 8 hours, 2 cards": {"count": 2, "length": h(8), "start": at(1, 22)},
    "4 gpus 1.5h 3 dec 9:00": {"count": 4, "length": h(1.5), "start": at(3, 9)},
    "x2 8h tomorrow 10pm": {"count": 2, "length": h(8), "start": at(1, 22)},
    "2x 4090 8h tomorrow 10pm": {"count": 2, "model": MODELS[0], "length": h(8), "start": at(1, 22)},
    "1 h100 2 days friday 9:00": {"count": 1, "model": MODELS[3], "length": h(48), "start": at(4, 9)},
    "一张卡 两天 周五 9点": {"count": 1, "length": h(48), "start": at(4, 9)},
    "2 cards now": {"count": 2, "is_now": True},
    "2 4h now": {"count": 2, "length": h(4), "is_now": True},
    "现在 2卡 4小时": {"count": 2, "length": h(4), "is_now": True},
    "马上 1卡": {"count": 1, "is_now": True},
    "3 cards": {"count": 3},
    "3块卡": {"count": 3},
    "十二张卡": {"count": 12},
    "4090": {"model": MODELS[0]},
    "8h": {"length": h(8)},
    # lengths
    "90min": {"length": h(1.5)},
    "90 minutes": {"length": h(1.5)},
    "30分钟": {"length": h(0.5)},
    "半小时": {"length": h(0.5)},
    "半个小时": {"length": h(0.5)},
    "half an hour": {"length": h(0.5)},
    "一个半小时": {"length": h(1.5)},
    "1h30": {"length": h(1.5)},
    "1h30m": {"length": h(1.5)},
    "1 hour 30 minutes": {"length": h(1.5)},
    "十二小时": {"length": h(12)},
    "二十四小时": {"length": h(24)},
    "24 hrs": {"length": h(24)},
    "3天": {"length": h(72)},
    # times
    "22:00": {"start": today(22)},
    "9:00": {"start": at(1, 9)},  # nine has passed today
    "２２：００": {"start": today(22)},
    "10pm": {"start": today(22)},
    "10:30 pm": {"start": today(22, 30)},
    "12am tomorrow": {"start": at(1, 0)},
    "12pm tomorrow": {"start": at(1, 12)},
    "22点": {"start": today(22)},
    "22点半": {"start": today(22, 30)},
    "22点30分": {"start": today(22, 30)},
    "22点一刻": {"start": today(22, 15)},
    "晚上10点": {"start": today(22)},
    "今晚十点半": {"start": today(22, 30)},
    "下午3点": {"start": today(15)},
    "明天下午3点": {"start": at(1, 15)},
    "明早8点": {"start": at(1, 8)},
    "明天早上8点": {"start": at(1, 8)},
    "明天凌晨2点": {"start": at(1, 2)},
    "明天晚上10点": {"start": at(1, 22)},
    "明天晚上12点": {"start": at(2, 0)},
    "明天中午12点": {"start": at(1, 12)},
    "明天中午1点": {"start": at(1, 13)},
    "10:30 in the evening": {"start": today(22, 30)},
    "8 in the morning": {"start": at(1, 8)},
    "10 at night": {"start": today(22)},
    "tomorrow 24:00": {"start": at(2, 0)},
    # days
    "day after tomorrow 9:00": {"start": at(2, 9)},
    "后天 9点": {"start": at(2, 9)},
    "大后天 9点": {"start": at(3, 9)},
    "friday 9:00": {"start": at(4, 9)},
    "周五9点": {"start": at(4, 9)},
    "星期五 9点": {"start": at(4, 9)},
    "礼拜天 9点": {"start": at(6, 9)},
    "this friday 9:00": {"start": at(4, 9)},
    "本周五9点": {"start": at(4, 9)},
    "next monday 9:00": {"start": at(7, 9)},
    "下周一9点": {"start": at(7, 9)},
    "下星期三 22点": {"start": at(9, 22)},
    "12月1日 22:00": {"start": at(1, 22)},
    "12月1号 22点": {"start": at(1, 22)},
    "十二月三日 9点": {"start": at(3, 9)},
    "2026-12-01 22:00": {"start": at(1, 22)},
    "2026/12/01 22:00": {"start": at(1, 22)},
    "dec 1 22:00": {"start": at(1, 22)},
    "1st december 10pm": {"start": at(1, 22)},
    "12/25 9:00": {"start": at(25, 9)},
    "25/12 9:00": {"start": at(25, 9)},
    "5号 9点": {"start": at(5, 9)},
    "2月3日 9点": {"start": at(3, 9, month=2, year=2027)},
    # from one to another
    "后天 9点到12点": {"start": at(2, 9), "end": at(2, 12)},
    "tomorrow 9:00-12:00": {"start": at(1, 9), "end": at(1, 12)},
    "tomorrow 9am to 5pm": {"start": at(1, 9), "end": at(1, 17)},
    "22:00–08:00": {"start": today(22), "end": at(1, 8)},
    "明晚10点到早上8点": {"start": at(1, 22), "end": at(2, 8)},
    "晚上10点到6点": {"start": today(22), "end": at(1, 6)},
    "下午2点到5点": {"start": today(14), "end": today(17)},
    "明晚8点到10点": {"start": at(1, 20), "end": at(1, 22)},
    "friday 22:00 until sunday 8:00": {"start": at(4, 22), "end": at(6, 8)},
    "周五22点到周六8点": {"start": at(4, 22), "end": at(5, 8)},
    "until 18:00": {"end": today(18)},
    "到18点": {"end": today(18)},
    "2卡 到明天8点": {"count": 2, "end": at(1, 8)},
    "8h until tomorrow 8:00": {"length": h(8), "start": at(1, 0)},
    "tomorrow noon to 6pm": {"start": at(1, 12), "end": at(1, 18)},
    # parts of a day
    "下周一上午": {"start": at(7, 9), "end": at(7, 12)},
    "明天下午": {"start": at(1, 14), "end": at(1, 18)},
    "tomorrow morning": {"start": at(1, 9), "end": at(1, 12)},
    "tomorrow evening": {"start": at(1, 18), "end": at(1, 22)},
    "tonight": {"start": today(22), "end": at(1, 8)},
    "明晚": {"start": at(1, 22), "end": at(2, 8)},
    "2卡明晚": {"count": 2, "start": at(1, 22), "end": at(2, 8)},
    "2 8h tonight": {"count": 2, "length": h(8), "start": today(22)},
    "": {},
}
ASKED: dict[str, tuple[Unclear, str]] = {
    "3点": (Unclear.HALF, "3点"),
    "明天2点": (Unclear.HALF, "2点"),
    "今晚2点": (Unclear.DAY, "2点"),
    "tomorrow": (Unclear.TIME, "2026-12-01"),
    "明天": (Unclear.TIME, "2026-12-01"),
    "tomorrow 22": (Unclear.NUMBER, "22"),
    "2 8 tomorrow 22:00": (Unclear.NUMBER, "8"),
    "9-12": (Unclear.WORD, "9-12"),
    "monday 15:00": (Unclear.DAY, "monday"),
    "周一 15点": (Unclear.DAY, "周一"),
    "next friday 9:00": (Unclear.DAY, "next friday"),
    "12/1 9:00": (Unclear.DAY, "12/1"),
    "midnight": (Unclear.DAY, "midnight"),
    "2月30日 9点": (Unclear.DAY, "2月30日"),
    "a100 8h": (Unclear.MODEL, "a100"),
    "two fast cards": (Unclear.WORD, "two"),
    "2卡 快点": (Unclear.WORD, "快"),
    "2 cards 3 cards": (Unclear.TWICE, "3 cards"),
    "tomorrow friday 9:00": (Unclear.TWICE, "friday"),
    "9:00 10:00": (Unclear.TWICE, "10:00"),
    "now tomorrow 9:00": (Unclear.TWICE, "now"),
    "tomorrow 9:00-12:00 8h": (Unclear.TWICE, "2026-12-01 12:00"),
    "today 9:00": (Unclear.PAST, "2026-11-30 09:00"),
    "2026-11-29 9:00": (Unclear.PAST, "2026-11-29 09:00"),
    "friday 9:00 until thursday 8:00": (Unclear.ORDER, "2026-12-03 08:00"),
    "25:00": (Unclear.WORD, "25:00"),
    "13pm": (Unclear.WORD, "13pm"),
    "1.5 cards": (Unclear.NUMBER, "1.5 cards"),
    "until tomorrow": (Unclear.TIME, "2026-12-01"),
    "0h": (Unclear.WORD, "0h"),
    "8h until 18:00": (Unclear.PAST, "2026-11-30 10:00"),
    "9" * 190 + "h": (Unclear.WORD, "9" * 190 + "h"),
    "9" * 190 + " cards": (Unclear.NUMBER, "9" * 190 + " cards"),
    "十十小时": (Unclear.WORD, "十十小时"),
    "十十张卡": (Unclear.NUMBER, "十十张卡"),
    "十十点": (Unclear.WORD, "十十点"),
    "十十月一日 9点": (Unclear.DAY, "十十月一日"),
    "9999-12-31 24:00": (Unclear.DAY, "9999-12-31"),
    "0001-01-01 9:00": (Unclear.DAY, "0001-01-01"),
}


@pytest.mark.parametrize("text", MEANT)
def test_what_is_plain_is_read(text: str) -> None:
    assert read(text, now=NOW, models=MODELS) == Said(**MEANT[text])


@pytest.mark.parametrize("text", ASKED)
def test_what_is_unclear_is_asked(text: str) -> None:
    said = read(text, now=NOW, models=MODELS)
    assert ASKED[text] in [(one.what, one.piece) for one in said.asks], said
    assert said == Said(asks=said.asks)


def test_the_table_is_long_enough() -> None:
    assert len(MEANT) >= 80


@given(st.text(max_size=60))
def test_anything_is_read_or_asked_about(text: str) -> None:
    said = read(text, now=NOW, models=MODELS)
    assert said.asks or said.start is None or said.start >= NOW


WORDS = [
    "2", "8h", "tomorrow", "明晚", "22:00", "10点", "到", "-", "9点", "周五", "now", "2卡", "4090", "下午", "十", "零", "小时",
    "月", "日", "99999999999", "张", "9999-12-31", "24:00", "in the evening", "until", "半",
]


@given(st.lists(st.sampled_from(WORDS), max_size=6))
def test_any_order_of_words_is_read_or_asked_about(words: list[str]) -> None:
    for text in (" ".join(words), "".join(words)):
        said = read(text, now=NOW, models=MODELS)
        assert said.asks or said.end is None or said.end > (said.start or NOW)
        assert said.asks or said.start is None or said.start >= NOW
