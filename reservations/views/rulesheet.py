"""The law of the lab in plain sentences with its own numbers: what the house rules show (experience.md 8, docs/policy.md).

Sections and numbers are those of docs/policy.md. A rule that the policy switches off says that it is off. What is not built, or
concerns nobody who books, is left out; every number that a refusal can name is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from .. import labels
from ..queries import LARGE_POOL
from ..rules.policy import Policy, Scheduling
from ..services.collaborators import MOST as MOST_COLLABORATORS
from . import rulesheet_after, rulesheet_windows
from .rulesheet_words import Part, cards, day, period, sentences


@dataclass(frozen=True)
class Section:
    """A letter of the law with its rules."""

    letter: str
    title: str
    rules: tuple[Part, ...]


FIVE = (
    gettext_lazy("Book the day before."), gettext_lazy("Today, free cards are first come, first served."),
    gettext_lazy("Your hours renew each Monday."), gettext_lazy("Press release when you are done, or extend."),
    gettext_lazy("Who overruns stands behind others next time."),
)


def sheet(policy: Policy, pools: Mapping[int, str]) -> tuple[Section, ...]:
    """The rules in force, in the reader's language. `pools`: the names of the pools, for windows of their own."""
    parts = (
        ("A", _("Time"), _time(policy)), ("B", _("People and projects"), _people(policy)),
        ("C", _("Priority"), _priority(policy)), ("D", _("Three kinds, and making room"), _kinds(policy)),
        ("E", _("Quota"), _quota(policy)), ("F", _("Windows"), rulesheet_windows.parts(policy, pools)),
        ("G", _("Cards and pools"), _cards(policy)),
        *rulesheet_after.sections(policy),
    )
    return tuple(Section(letter, title, tuple(rules)) for letter, title, rules in parts)


def _time(p: Policy) -> Iterator[Part]:
    yield Part("A1", _(
        "A reservation begins and ends on a step of %(raster)s and lasts from %(shortest)s to %(longest)s. Its end is not part "
        "of it: another can begin at that very moment."
    ) % {"raster": period(p.raster_s), "shortest": period(p.shortest_s), "longest": period(p.longest_s)})
    yield Part("A2", _(
        "Days and quota weeks follow the lab's clock, and a week begins on Monday. Hours are hours that really pass."
    ))
    yield Part("A3", _("A local time that the clocks skip or repeat is not guessed: you choose between its two readings."))
    yield Part("A4", _(
        "A day opens for booking %(days)s before it, at %(time)s. Nothing begins in the past; a start that passed up to %(age)s "
        "ago means now."
    ) % {"days": day(p.opens_days * 86_400), "time": p.opens_at, "age": period(p.form_age_s)})
    yield Part("A5", _("Public holidays count as rest days; the lab can make any date a rest day or a working day."))


def _people(p: Policy) -> Iterator[Part]:
    yield Part("B1", _("How many cards you hold at once and how many reservations lie ahead of you depends on your role:"), tuple(
        _("%(role)s: %(hours)s GPU-hours a week, at most %(cards)s at once, at most %(ahead)s ahead") % {
            "role": labels.ROLE.get(code, code), "hours": role.weekly_hours, "cards": cards(p.most_cards(code)),
            "ahead": ngettext("%(n)d reservation", "%(n)d reservations", p.most_ahead(code)) % {"n": p.most_ahead(code)},
        }
        for code, role in p.roles.items()
    ))
    yield Part("B2", _(
        "You may book once you are approved and have accepted the house rules. A reservation ends by midnight of your last day; "
        "who leaves the lab gives back what lies ahead."
    ))
    yield Part("B3", _(
        "Arbiters decide cases, and advisors the deadline grants of their projects; nobody decides what concerns themselves. A "
        "grant that nobody could decide goes to an admin after %(wait)s."
    ) % {"wait": period(p.no_arbiter_s)})
    yield Part("B4", _(
        "A reservation has one holder, who answers for it. Up to %(n)s collaborators may share it: their processes count as the "
        "holder's, and the cards count to their own limit too."
    ) % {"n": MOST_COLLABORATORS})
    yield _whose_hours(p)
    if p.mode == Scheduling.PERSON:
        yield Part("B6", _("Reservations draw on people's own hours, so projects have no hours and no limit."), off=True)
    else:
        yield Part("B6", _(
            "A project has %(hours)s GPU-hours a week unless it was given others, and holds at most %(share)s %% of a pool's "
            "cards at once, rounded down, but at least 1."
        ) % {"hours": p.project_weekly_hours, "share": p.project_share})


def _whose_hours(p: Policy) -> Part:
    match p.mode:
        case Scheduling.PERSON:
            return Part("B5", _("Reservations draw on your own hours."))
        case Scheduling.PROJECT:
            return Part("B5", _(
                "Reservations draw on the hours of their project. Without a project you can only take free cards on the spot, "
                "within the free hours of the day."
            ))
        case _:
            return Part("B5", _(
                "With a project, a reservation draws on the project's hours; without one it draws on your own, and only as "
                "%(tiers)s. When one account is empty, nothing falls back to the other by itself."
            ) % {"tiers": _tiers(p.free_tiers)})


def _tiers(codes: tuple[str, ...]) -> str:
    return labels.join(labels.tier(code) for code in codes)


def _priority(p: Policy) -> Iterator[Part]:
    yield Part("C1", _("The tiers, the strongest first: %(tiers)s.") % {"tiers": _tiers(p.tiers)})
    if p.granted_tiers:
        yield Part("C2", _(
            "The tier %(tiers)s needs a deadline grant of the project, with a reason, a deadline and a budget, for at most "
            "%(days)s; everybody can see it. A second grant within %(again)s needs an arbiter."
        ) % {"tiers": _tiers(p.granted_tiers), "days": day(p.grant_days * 86_400), "again": day(p.grant_again_days * 86_400)})
    else:
        yield Part("C2", _("No tier needs a deadline grant."), off=True)
    yield Part("C3", _(
        "Reservations are compared by their effective rank: within quota goes before elastic, then the stronger tier goes first, "
        "lowered by your points (J3). Equals do not displace each other: first come, first served."
    ))


def _kinds(p: Policy) -> Iterator[Part]:
    yield Part("D1", _(
        "Each evening at %(time)s the next day becomes firm. What starts now is a walk-in, what starts later in firm time is "
        "late, and what starts after it is planned."
    ) % {"time": p.freezes_at})
    free = _("%(hours)s card-hours a day are free of charge.") % {"hours": p.walk_in_free_hours}
    yield Part("D2", _(
        "A walk-in takes cards that are free for all of it, first come, first served, for at most %(longest)s and with at most "
        "%(cards)s at once. %(free)s A card that somebody waits for is not renewed on the spot."
    ) % {
        "longest": period(p.walk_in_longest_s), "cards": cards(p.walk_in_cards),
        "free": free if p.walk_in_free_hours else _("It is charged like any other."),
    })
    yield Part("D3", _("A late reservation takes free cards; only elastic ones make room for it.") if p.elastic else _(
        "A late reservation takes free cards only: nobody makes room for it."
    ))
    if p.displacement:
        yield Part("D4", _(
            "When no card is free for it, a planned reservation of stronger rank takes the place of weaker ones, until %(time)s "
            "of the evening on which they become firm. What was displaced %(times)s is safe from then on."
        ) % {"time": p.closes_at, "times": ngettext("%(n)d time", "%(n)d times", p.safe_after) % {"n": p.safe_after}})
    else:
        yield Part("D4", _("Displacement is off: nobody makes room for a stronger tier."), off=True)
    yield from _made_room(p)
    yield Part("D7", _("Once firm, only a ruling, urgent maintenance or a lost card takes your slot, never what has started."))
    yield Part("D8", _("There are no series: “Again next week” books the same hours of the next week, under all rules."))


def _made_room(p: Policy) -> Iterator[Part]:
    if not (p.displacement or p.elastic):
        yield Part("D5", _("Nobody has to make room, so nothing is moved by itself."), off=True)
        return
    moved = _(
        "What you allowed to be moved (in %(tiers)s unless you say otherwise) goes to the next time that fits by itself, to end "
        "at most %(later)s later."
    ) if p.moving_tiers else _(
        "What you allowed to be moved goes to the next time that fits by itself, to end at most %(later)s later."
    )
    yield Part("D5", sentences(
        _("Who has to make room gets the charge back and three alternatives, each one press."),
        moved % {"tiers": _tiers(p.moving_tiers), "later": period(p.may_move_s)},
    ))
    yield Part("D6", _(
        "If what displaced you is given up, your slot is offered to you before anybody else. Who gave it up may displace nobody "
        "for %(time)s."
    ) % {"time": day(p.cool_down_s)})


def _quota(p: Policy) -> Iterator[Part]:
    yield Part("E1", _("Charge = hours × cards × rate of the window (F) × weight of the pool. You are charged when you book."))
    yield Part("E2", _("Your hours renew each Monday (B1). A reservation over two weeks needs room in both of them."))
    late = _(
        "Cancelling less than %(late)s before the start keeps %(percent)s %% of the charge of the first %(first)s, less what is "
        "booked again."
    ) % {"late": period(p.late_cancel_s), "percent": p.late_cancel_percent, "first": period(p.late_cancel_first_s)}
    yield Part("E3", sentences(
        _("What has not elapsed comes back when you cancel, release or have to make room."),
        late if p.late_cancel_percent else _("Cancelling late costs nothing."),
        _(
            "What comes back through no act of yours in the last %(end)s of a week stays valid for %(valid)s. Staying on after "
            "the end costs twice the rate."
        ) % {"end": period(p.returned_late_s), "valid": day(p.returned_valid_s)},
    ))
    if p.elastic:
        yield Part("E4", _(
            "What goes beyond your hours is elastic: it starts within %(within)s, takes free cards only, and makes room for "
            "anybody within their hours until %(safe)s before it starts."
        ) % {"within": period(p.elastic_within_s), "safe": period(p.elastic_safe_s)})
    else:
        yield Part("E4", _("Elastic reservations are off: nothing is booked beyond your hours."), off=True)
    yield Part("E5", _("Unused hours do not roll over. Hours given once have a reason and an end."))
    yield Part("E6", _("A change of these rules binds what is asked later; what is booked keeps its time and its price."))


def _cards(p: Policy) -> Iterator[Part]:
    yield Part("G1", _("A card is held whole, by one reservation, and is known by its UUID, wherever it is plugged in."))
    yield Part("G2", _(
        "Name the cards, or ask for a number by pool, model or memory. They come from one host unless you allow several."
    ))
    yield Part("G3", _("The cards of a reservation are booked, moved and released together; single ones can be given back."))
    if p.emergency_reserve:
        kept = _(
            "Pools of %(large)s cards or more keep %(cards)s in reserve for emergencies, unless a pool has its own number."
        ) % {"large": LARGE_POOL, "cards": cards(p.emergency_reserve)}
        used = _("Only the tier %(tiers)s plans on them; others take them on the spot for at most %(time)s.")
        if not p.granted_tiers:
            used = _("They are taken on the spot, for at most %(time)s.")
        yield Part("G4", sentences(kept, used % {"tiers": _tiers(p.granted_tiers), "time": period(p.reserve_walk_in_s)}))
    else:
        yield Part("G4", _("No card is kept in reserve for emergencies, unless a pool has a number of its own."), off=True)
    yield Part("G5", _(
        "Planned maintenance waits for what runs or is firm; urgent maintenance begins at once. Whose cards are taken away gets "
        "the rest back, and equal cards with one press."
    ))
    yield Part("G6", _(
        "A card that is offline for %(time)s counts as lost: what is to come on it goes to equal cards, else you choose (D5)."
    ) % {"time": period(p.lost_after_s)})
    if p.quick_cards:
        yield Part("G7", _(
            "On working days pools of %(large)s cards or more keep %(cards)s for reservations of at most %(time)s, unless a pool "
            "has its own number."
        ) % {"large": LARGE_POOL, "cards": cards(p.quick_cards), "time": period(p.quick_s)})
    else:
        yield Part("G7", _("No quick cards are kept, unless a pool has a number of its own."), off=True)
