"""What the words of messages are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from labgpu.notify.message import Action, one_line

from .. import labels, names, queries
from ..looks import looks, people_of
from ..models import Allocation, Notification, Reservation
from ..queries import LabFacts
from ..reader import near
from ..rules.facts import Holding
from ..rules.interval import Interval

Kind = Notification.Kind


@dataclass(frozen=True)
class Fact:
    """One line of facts: what it is, and what is so."""

    name: str
    lines: tuple[str, ...]

    @property
    def plain(self) -> list[str]:
        """As lines of a plain text: on one line where it is one."""
        if len(self.lines) == 1:
            # Translators: a fact of a message, such as: Cards: 2 × A100 (gpu-a:0, gpu-a:1)
            return [_("%(name)s: %(value)s") % {"name": self.name, "value": self.lines[0]}]
        # Translators: a fact of a message whose values stand on the following lines
        return [_("%(name)s:") % {"name": self.name}, *(f"  {line}" for line in self.lines)]


@dataclass(frozen=True)
class Words:
    """What a message says, before it is laid out.

    `lead`: what to do by when. `follows`: what happens otherwise, a sentence each. `view`: the one link beside the actions.
    """

    subject: str
    lead: str
    facts: tuple[Fact, ...]
    follows: tuple[str, ...]
    view: Action
    actions: tuple[Action, ...] = ()


def about(row: Notification) -> Reservation | None:
    return row.reservation or (row.demerit.reservation if row.demerit else None)


def page(name: str, *args: Any) -> str:
    """The whole address of a page; the site's front where it has no such page."""
    try:
        return settings.SITE_URL + reverse(name, args=args)
    except NoReverseMatch:
        return settings.SITE_URL + "/"


def minutes_left(end: datetime, now: datetime) -> int:
    """Minutes until the end, to the nearest, at least one."""
    return max(1, round((end - now).total_seconds() / 60))


def minutes(count: int) -> str:
    # Translators: a length of time
    return _("%(n)d min") % {"n": count}


def reservation_of(row: Notification) -> Reservation:
    assert row.reservation is not None  # `obsolete.cause` has been asked
    return row.reservation


def still_running(when: str, points: int) -> str:
    return ngettext(
        "Processes of yours that still run at %(when)s count as an overrun: %(n)d point.",
        "Processes of yours that still run at %(when)s count as an overrun: %(n)d points.",
        points,
    ) % {"when": when, "n": points}


def slot(reservation: Reservation, cards: str) -> tuple[Fact, ...]:
    said = {"start": labels.instant(reservation.start), "end": labels.instant(reservation.end)}
    return (
        Fact(_("Cards"), (cards,)), Fact(pgettext("fact", "When"), (_("%(start)s to %(end)s") % said,)),
        Fact(pgettext("fact", "Kind"), (str(labels.KIND[reservation.kind]),)),
    )


def on_record(row: Notification, now: datetime) -> str:
    total = queries.open_demerit_points(row.member, now)
    return ngettext(
        "%(n)d point now counts on your record.", "%(n)d points now count on your record.", total
    ) % {"n": total}


def by_ruling(reservation: Reservation) -> tuple[Fact, ...]:
    """Why an arbiter let somebody else go first, if one did (L2)."""
    ruling = reservation.displaced_by.rulings.order_by("-pk").first() if reservation.displaced_by else None
    return (Fact(pgettext("fact", "Reason"), lines_of(ruling.reason)),) if ruling else ()


def booked_words(reservation: Reservation) -> str:
    return period(reservation.start, reservation.end)


def period(start: datetime, end: datetime) -> str:
    return _("%(start)s to %(end)s") % {"start": labels.instant(start), "end": labels.instant(end)}


def goes_first() -> str:
    return _("A reservation that goes first needs these cards, so yours had to make room. Choose another time now.")


def needed() -> str:
    return _("A reservation that goes first needed its place.")

DISPLACED_BY: Mapping[str, Callable[[], str]] = {
    "maintenance": lambda: _("The cards are in maintenance then. Choose another time or other cards now."),
    "lost": lambda: _(
        "A card is offline, and no equal one is free at the same time. Choose another time or other cards now."
    ),
}
CAUSE: Mapping[str, Callable[[], str]] = {
    "maintenance": lambda: _("The cards are in maintenance."), "lost": lambda: _("A card is offline."),
    "replacement": lambda: _("A card was replaced by another."),
}


def displacer(reservation: Reservation, cause: str) -> str:
    """Who goes first, with the rank that those displaced by it may see (J5)."""
    by = reservation.displaced_by
    if by is None:
        return CAUSE[cause]() if cause in CAUSE else _("the cards are not available")
    return _("%(who)s, %(tier)s") % {"who": one_line(names.shown(by.holder)), "tier": labels.TIER.get(by.tier, by.tier)}


def lines_of(text: str) -> tuple[str, ...]:
    return tuple(one_line(line) for line in text.splitlines() if line.strip())


def extension_fact(longest: datetime | None) -> Fact:
    words = _("possible until %(end)s") % {"end": labels.instant(longest)} if longest else _("not possible")
    return Fact(pgettext("fact", "Extension"), (words,))


def look_lines(rows: Sequence[Allocation], reservation: Reservation, now: datetime) -> tuple[str, ...]:
    return tuple(look.line for look in looks(rows, people_of(reservation), now))


def next_on(
    rows: Sequence[Allocation], reservation: Reservation, end: datetime
) -> list[tuple[Allocation, Holding]]:
    """For each card the next reservation on it after the end, where there is one."""
    found = [(row, queries.next_holding(row.gpu_id, end, not_of=reservation.pk)) for row in rows]
    return [(row, holding) for row, holding in found if holding is not None]


def next_lines(
    following: Sequence[tuple[Allocation, Holding]], reservation: Reservation, now: datetime
) -> tuple[str, ...]:
    lines = []
    for row, holding in following:
        said = {
            "card": str(row.gpu), "holder": one_line(names.shown(holding.holder_name)), "start": near(holding.interval.start, now)
        }
        if holding.holder_id == reservation.holder_id:
            lines.append(_("%(card)s: you yourself, from %(start)s") % said)
        else:
            lines.append(_("%(card)s: %(holder)s, from %(start)s") % said)
    return tuple(lines) or (_("nobody has booked these cards"),)


def counts_from(
    rows: Sequence[Allocation], following: Sequence[tuple[Allocation, Holding]], reservation: Reservation,
    end: datetime, lab: LabFacts,
) -> datetime:
    """From when an overrun counts: after the grace where somebody else has the card next or waits for it, else later (I4)."""
    later = end + timedelta(seconds=max(lab.policy.overrun_unwaited_s, lab.policy.overrun_grace_s))
    waited = any(
        holding.holder_id != reservation.holder_id and holding.interval.start < later for _, holding in following
    ) or queries.somebody_waits([row.gpu_id for row in rows], Interval(end, later), end, besides=reservation.holder_id)
    return end + lab.policy.grace if waited else later
