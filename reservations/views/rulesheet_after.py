"""Sections H to N of the house rules: what becomes of a reservation, what cards say, conduct, messages, cases, accounts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.utils.translation import gettext as _

from ..rules.policy import Policy
from .rulesheet_words import Part, day, period, points


def sections(p: Policy) -> tuple[tuple[str, str, Iterable[Part]], ...]:
    """Letter, title and rules of each."""
    return (
        ("H", _("Life of a reservation"), _life(p)), ("I", _("What the cards say"), _seen(p)), ("J", _("Conduct"), _conduct(p)),
        ("K", _("Messages and the waitlist"), _messages(p)), ("L", _("Arbitration"), _arbitration()),
        ("M", _("Accounts of the lab"), (Part("M1", _(
            "Everybody can see who holds what, by name or initials, and what was booked against what was used."
        )),)),
        ("N", _("Where these numbers come from"), (Part("N", _(
            "The lab started from a preset and may have changed any number of it. What stands here is in force now."
        )),)),
    )


def _life(p: Policy) -> Iterator[Part]:
    yield Part("H", _(
        "What can be done with a reservation depends on its status: what is booked can be confirmed, moved or cancelled, what is "
        "active can be released or extended."
    ))
    yield Part("H0", _(
        "A booking or a move can be undone for %(booking)s, a release for %(release)s, unless others have taken what it needs."
    ) % {"booking": period(p.booking_undo_s), "release": period(p.release_undo_s)})
    yield Part("H1", _("At its booked end a reservation is over and holds nothing, whatever still runs."))
    yield _coming(p)
    if p.give_back_s:
        yield Part("H3", _(
            "Of several cards, one that lies unused for %(time)s beside a used one goes back by itself, without a point."
        ) % {"time": period(p.give_back_s)})
    else:
        yield Part("H3", _("No card goes back by itself."), off=True)
    yield Part("H4", _(
        "Release when you are done, by button or link. If processes of yours still run it asks once more, and ends none of them."
    ))
    yield Part("H5", _(
        "You may extend while the cards are free and your hours suffice: to %(longest)s in all (a walk-in to %(walk_in)s), at "
        "most %(ahead)s into time that is not firm, and up to %(grace)s after the end. “Extend while free” adds at most %(free)s."
    ) % {
        "longest": period(p.longest_s), "walk_in": period(p.walk_in_longest_s), "ahead": period(p.extend_ahead_s),
        "grace": period(p.overrun_grace_s), "free": period(p.extend_free_s),
    })
    yield Part("H6", _("A move is one step: all or nothing. Your place in line is kept only inside the old time and cards."))
    yield Part("H7", _("“Release when my processes end” acts %(time)s after the last one, after a message.") % {
        "time": period(p.done_release_s)
    })
    yield Part("H8", _(
        "The holder, the collaborators, the project's advisor and arbiters act on a reservation, others do not. Every change is "
        "recorded."
    ))


def _coming(p: Policy) -> Part:
    if not p.no_show_s:
        return Part("H2", _("Nobody has to come: there are no no-shows."), off=True)
    facts = {
        "after": period(p.no_show_s), "confirmed": period(p.confirmed_no_show_s), "kept": period(p.no_show_kept_s),
        "points": points(p.no_show_points), "answer": period(p.answer_s),
    }
    if not p.confirmation:
        return Part("H2", _(
            "Without a process %(after)s after the start you lose the rest, pay the first %(kept)s and get %(points)s. What the "
            "system booked for you waits at least %(answer)s after its message, and costs no point."
        ) % facts)
    return Part("H2", _(
        "On the day you are asked whether you come. Without a process %(after)s after the start (%(confirmed)s if you confirmed) "
        "you lose the rest, pay the first %(kept)s and get %(points)s. After the question you have at least %(answer)s."
    ) % facts)


def _seen(p: Policy) -> Iterator[Part]:
    yield Part("I1", _(
        "What is unknown counts as neither idle nor free. Nobody is charged or gets a point for what was not seen clearly, and "
        "only while the clocks agree within %(clock)s."
    ) % {"clock": period(p.clock_tolerance_s)})
    yield Part("I3", _(
        "A process is yours where its Unix account is verified or can be resolved. Where the owner is in doubt, nobody is blamed."
    ))
    yield Part("I4", _(
        "An overrun is a process of yours on the card later than %(grace)s after the end, in %(samples)s looks in a row, first "
        "seen within %(first)s. Where nobody waits it counts only %(unwaited)s after the end."
    ) % {
        "grace": period(p.overrun_grace_s), "samples": p.samples_in_a_row, "first": period(p.overrun_first_sight_s),
        "unwaited": period(p.overrun_unwaited_s),
    })
    yield Part("I9", _("LabGPU never ends a process by itself."))


def _conduct(p: Policy) -> Iterator[Part]:
    yield Part("J1", _("An overrun is %(overrun)s, a no-show %(no_show)s. One fact counts once, and has its evidence.") % {
        "overrun": points(p.overrun_points), "no_show": points(p.no_show_points)
    })
    yield Part("J2", _("A point counts for %(life)s, then no longer.") % {"life": day(p.point_life_s)})
    yield Part("J3", _(
        "From %(one)s your next bookings count one tier lower; from %(two)s two tiers lower, and you may displace nobody."
    ) % {"one": points(p.one_step_points), "two": points(p.two_steps_points)})
    yield Part("J4", _("You can dispute a point for %(days)s; until it is decided it does not count.") % {
        "days": day(p.dispute_s)
    })
    yield Part("J5", _("You see your own record and what restores it; other members do not."))


def _messages(p: Policy) -> Iterator[Part]:
    yield Part("K1", _(
        "You are told in time to act: whether you come, %(before)s before an end, and when something is taken from or offered to "
        "you."
    ) % {"before": period(p.ending_notice_s)})
    yield Part("K4", _(
        "A link in a message shows a page; only a press acts, and only once. It is yours alone and ends %(life)s after the "
        "reservation."
    ) % {"life": period(p.link_life_s)})
    yield Part("K5", _(
        "What comes free goes to those who wait: the stronger rank first, then who had fewer card-hours in the last %(days)s, "
        "then who waits longest. An offer is held for %(offer)s, or %(ahead)s where it starts a day or more ahead."
    ) % {"days": day(p.fair_share_s), "offer": period(p.offer_s), "ahead": period(p.offer_ahead_s)})


def _arbitration() -> Iterator[Part]:
    yield Part("L1", _("What these rules refuse, an arbiter can allow: hand in the request with a reason."))
    yield Part("L2", _("Every ruling has a reason, and whom it concerns reads it."))
    yield Part("L3", _("A ruling names the rules it sets aside and books there and then. What has started is never displaced."))
