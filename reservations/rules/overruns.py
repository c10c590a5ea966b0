"""What staying on costs, how an overdrawn week weighs on the next ones, and time that was lost through no fault (E3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from .interval import Interval
from .quota import Price, Stretch

TIMES = 2  # what an overrun costs, in rates of the window
LOOK_BACK_WEEKS = 8  # how far back an overdrawn week is looked for


def overrun_price(price: Price) -> Price:
    """The price of a card's time that was not booked: every rate twice, none of it free."""
    return tuple(Stretch(one.interval, TIMES * one.rate) for one in price)


def carried(
    weeks: Sequence[date], used: Mapping[date, int], overruns: Mapping[date, int], allowance: int
) -> dict[date, int]:
    """The units that weigh on each week because overruns overdrew the ones before.

    `weeks`: Mondays in order, none left out. `used`: what is charged to each, `overruns`: how much of that for overruns. Only
    what overruns overdrew is carried on; unused allowance pays it off.
    """
    weighs: dict[date, int] = {}
    debt = 0
    for week in weeks:
        weighs[week] = debt
        over = used.get(week, 0) + debt - allowance
        debt = max(0, min(over, max(overruns.get(week, 0), 0) + debt))
    return weighs


def uncharged(price: Price, lost: Iterable[Interval]) -> Price:
    """The price with the lost time at no charge, and none of it as free walk-in time: what was taken for it comes back."""
    for gap in lost:
        price = tuple(_without(price, gap))
    return price


def _without(price: Price, gap: Interval) -> Iterable[Stretch]:
    for one in price:
        inside = one.interval.cut(gap)
        if inside is None:
            yield one
            continue
        if one.interval.start < inside.start:
            yield replace(one, interval=Interval(one.interval.start, inside.start))
        yield Stretch(inside, 0)
        if inside.end < one.interval.end:
            yield replace(one, interval=Interval(inside.end, one.interval.end))
