"""Section F of the house rules: when pools may be booked, and the weekly clean-up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from django.utils.dates import WEEKDAYS
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext, pgettext_lazy

from .. import labels
from ..rules.policy import Policy
from ..rules.windows import Days, Mode, Window
from .rulesheet_words import Part, period

_MODE = {
    Mode.OPEN: pgettext_lazy("hours of a pool", "open"), Mode.WALK_IN: gettext_lazy("walk-ins only"),
    Mode.LONG: gettext_lazy("long jobs and walk-ins"), Mode.CLOSED: pgettext_lazy("hours of a pool", "closed"),
}
_DAYS = {
    Days.EVERY: gettext_lazy("every day"), Days.WORKING: gettext_lazy("working days"), Days.REST: gettext_lazy("rest days"),
}


def parts(p: Policy, pools: Mapping[int, str]) -> Iterator[Part]:
    """The rules of section F."""
    if p.windows:
        yield Part("F1", _(
            "The hours of a pool are open, for walk-ins only, for long jobs (at least %(long)s) or closed. Where several lines "
            "apply, the most specific holds; where none does, the hours are open at rate 1:"
        ) % {"long": period(p.long_s)}, tuple(_window(one, pools) for one in p.windows))
    else:
        yield Part("F1", _("There are no windows: all hours are open at rate 1."), off=True)
    yield Part("F2", _(
        "A window has a rate, and may cap the hours that one reservation has inside it. The refusal says what length would fit."
    ), off=not p.windows)
    if p.cleanup:
        yield Part("F3", _(
            "Each %(weekday)s at %(time)s everybody whose processes run on a card without a reservation of theirs gets one "
            "message. What still runs without one %(grace)s later becomes a case; no point comes of it."
        ) % {"weekday": WEEKDAYS[p.cleanup_weekday], "time": p.cleanup_at, "grace": period(p.cleanup_grace_s)})
    else:
        yield Part("F3", _("The weekly clean-up is off."), off=True)


def _window(one: Window, pools: Mapping[int, str]) -> str:
    """A window as a line: when, what may be done, at which rate, how much of it."""
    hours = _("all day") if one.opens == one.shuts else f"{one.opens:%H:%M}–{one.shuts:%H:%M}"
    facts = [str(_MODE[one.mode])]
    if one.mode != Mode.CLOSED:
        facts.append(_("rate %(rate)s") % {"rate": f"{one.rate / 100:g}"})
    if one.most_inside is not None:
        facts.append(_("at most %(hours)s of one reservation") % {"hours": period(int(one.most_inside.total_seconds()))})
    # Translators: a window of time: days and hours, then what holds in it
    line = _("%(days)s %(hours)s: %(facts)s") % {"days": _days(one), "hours": hours, "facts": labels.join(facts)}
    if one.pool_id is None:
        return line
    name = pools.get(one.pool_id, str(one.pool_id))
    return pgettext("a window", "Pool %(pool)s, %(line)s") % {"pool": name, "line": line}


def _days(one: Window) -> str:
    if one.days == Days.WEEKDAYS:
        return labels.join(str(WEEKDAYS[number]) for number in sorted(one.weekdays))
    if one.days == Days.DATES:
        return labels.join(day.isoformat() for day in sorted(one.dates))
    return str(_DAYS[one.days])
