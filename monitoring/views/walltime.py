"""`wall_time.csv`: booked against used, for everybody of the lab (M1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from reservations import names
from reservations.rules.week import day_start, local_date
from reservations.views.access import member_required

from .. import queries
from ..rows import csv_lines
from ..rules import use

LONGEST = 366  # days at once
USUAL = 30
# Read by scripts: a column keeps its name, and new ones come last.
COLUMNS = (
    "reservation", "holder", "host", "card", "tier", "booked_start", "booked_end", "booked_hours", "ended", "first_seen",
    "last_seen", "observed_hours", "used_hours", "busy_hours", "overrun_hours", "mark", "off_by_more_than_half", "gpu",
)
_OFF = {True: "yes", False: "no", None: "unknown"}


class BadDays(ValueError):
    """Days that were asked for and cannot be shown; the message says why."""


@require_safe
@member_required
def wall_time(request: HttpRequest) -> HttpResponseBase:
    """One row per card of a reservation: `?from=YYYY-MM-DD&to=YYYY-MM-DD`, both lab days included; else the last 30 days.

    422 with a sentence for days that cannot be shown. Streamed, in a constant number of statements.
    """
    zone = request.lab.zone
    try:
        first, last = _days(request.GET.get("from", ""), request.GET.get("to", ""), local_date(request.now, zone))
    except BadDays as problem:
        return HttpResponse(str(problem), status=422, content_type="text/plain; charset=utf-8")
    rows = queries.accounts(day_start(first, zone), day_start(last + timedelta(days=1), zone), request.now)
    response = StreamingHttpResponse(
        csv_lines(_table(rows, zone, request.lab.show_names)), content_type="text/csv; charset=utf-8"
    )
    response["Content-Disposition"] = f'attachment; filename="wall_time_{first}_{last}.csv"'
    return response


def _days(from_: str, to: str, today: date) -> tuple[date, date]:
    last = _day(to) if to else today
    first = _day(from_) if from_ else last - timedelta(days=min(USUAL - 1, (last - date.min).days))
    if first > last:
        raise BadDays(_("The first day comes after the last. Swap them."))
    if (last - first).days >= LONGEST:
        raise BadDays(_("That is more than %(n)d days. Ask for a shorter time.") % {"n": LONGEST})
    return first, last


def _day(text: str) -> date:
    try:
        day = date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        day = None
    if day is None:
        raise BadDays(_("A day is written like 2025-12-01."))
    if not 2000 <= day.year <= 2200:  # beyond that a day's own bounds cannot be reckoned in every zone
        raise BadDays(_("There is nothing to show for that day. Choose one near today."))
    return day


def _table(rows: Iterator[queries.Accounted], zone: ZoneInfo, way: str) -> Iterator[tuple[str, ...]]:
    yield COLUMNS
    for one in rows:
        yield _row(one, zone, way)


def _row(one: queries.Accounted, zone: ZoneInfo, way: str) -> tuple[str, ...]:
    """Times are the lab's, with their distance from UTC. What nobody observed is an empty cell, not a zero."""
    account, seen = one.account, one.account.use
    return (
        str(one.reservation_id), names.shown(one.holder, way), one.host, str(one.index), one.tier,
        _instant(one.booked_start, zone), _instant(one.booked_end, zone), _hours(account.booked), _instant(one.ended, zone),
        _instant(one.first_seen, zone), _instant(one.last_seen, zone), _hours(seen.observed),
        _hours(seen.present) if seen.observed else "", _hours(seen.busy) if seen.measured else "", _hours(account.overrun),
        str(use.mark(account)), _OFF[use.is_off_by_more_than_half(account)], one.uuid,
    )


def _hours(length: timedelta) -> str:
    return f"{length / timedelta(hours=1):.2f}"


def _instant(at: datetime | None, zone: ZoneInfo) -> str:
    return at.astimezone(zone).isoformat(timespec="seconds") if at else ""
