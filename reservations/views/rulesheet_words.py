"""A rule as the house rules show it, and the units that its sentences share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .. import labels

_DAY = 86_400


@dataclass(frozen=True)
class Part:
    """A numbered rule in one or two sentences, with a list where there is one. `off`: the lab has switched it off."""

    number: str
    text: str
    items: tuple[str, ...] = ()
    off: bool = False


def period(seconds: int) -> str:
    """A length in hours and minutes, or in seconds where it is shorter or no whole minutes."""
    if seconds % 60:
        return ngettext("%(n)d second", "%(n)d seconds", seconds) % {"n": seconds}
    return labels.length(seconds)


def day(seconds: int) -> str:
    """A length in days, where it is whole days."""
    if seconds % _DAY:
        return period(seconds)
    return ngettext("%(n)d day", "%(n)d days", seconds // _DAY) % {"n": seconds // _DAY}


def cards(count: int) -> str:
    """So many cards."""
    return ngettext("%(n)d card", "%(n)d cards", count) % {"n": count}


def points(count: int) -> str:
    """So many points."""
    return ngettext("%(n)s point", "%(n)s points", count) % {"n": count}


def sentences(*parts: str) -> str:
    """Sentences after each other; some languages put no space between them."""
    # Translators: two sentences, one after the other
    return reduce(lambda first, second: _("%(first)s %(second)s") % {"first": first, "second": second}, parts)
