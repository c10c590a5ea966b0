"""The words for every code: statuses, tiers, states, refusals. Templates and messages say them; rules know only codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from django.utils import formats, timezone
from django.utils.translation import get_language, gettext_lazy, gettext_noop, ngettext, pgettext_lazy
from django.utils.translation import gettext as _

from . import names
from .rules.lifecycle import Status
from .rules.quota import UNITS_PER_GPU_HOUR
from .rules.refusal import Code, Refusal
from .rules.waivers import Waiver

STATUS = {
    Status.REQUESTED: gettext_lazy("requested"), Status.OFFERED: gettext_lazy("offered"), Status.BOOKED: gettext_lazy("booked"),
    Status.ACTIVE: gettext_lazy("active"), Status.FINISHED: gettext_lazy("finished"), Status.RELEASED: gettext_lazy("released"),
    Status.FORFEITED: gettext_lazy("forfeited"), Status.INTERRUPTED: gettext_lazy("interrupted"),
    Status.CANCELLED: gettext_lazy("cancelled"), Status.DISPLACED: gettext_lazy("displaced"),
    Status.DECLINED: gettext_lazy("declined"),
    Status.LAPSED: gettext_lazy("lapsed"), Status.PASSED: gettext_lazy("passed"),
}
TIER = {
    "deadline": pgettext_lazy("tier", "deadline"), "regular": pgettext_lazy("tier", "regular"),
    "exploration": pgettext_lazy("tier", "exploration"),
}
# One letter beside the colour: colour alone carries no meaning.
TIER_LETTER = {
    "deadline": pgettext_lazy("tier letter", "D"), "regular": pgettext_lazy("tier letter", "R"),
    "exploration": pgettext_lazy("tier letter", "E"),
}
ROLE = {
    "undergraduate": gettext_lazy("undergraduate"), "master": gettext_lazy("master's student"),
    "phd": gettext_lazy("PhD student"),
    "staff": gettext_lazy("staff"),
}
KIND = {
    "planned": gettext_lazy("planned"), "late": pgettext_lazy("kind", "late"),
    "walk_in": gettext_lazy("walk-in, first come, first served"),
}
PURPOSE = {
    "training": gettext_lazy("training"), "inference": gettext_lazy("inference"),
    "interactive": gettext_lazy("interactive"), "test": pgettext_lazy("purpose", "test"),
}
CARD_STATE = {
    "free": gettext_lazy("free"), "in_use": gettext_lazy("in use"),
    "held_idle": gettext_lazy("held idle"), "held_empty": gettext_lazy("held empty"),
    "overrun": gettext_lazy("overrun"), "unbooked": gettext_lazy("unbooked use"),
    "contested": gettext_lazy("contested"), "not_visible": gettext_lazy("held, not visible"),
    "unknown": gettext_lazy("unknown"), "offline": gettext_lazy("offline"),
}
DEMERIT_REASON = {"overrun": gettext_lazy("overrun"), "no_show": gettext_lazy("no-show")}
DEMERIT_STATE = {
    "counted": gettext_lazy("counted"), "disputed": gettext_lazy("disputed, resting"),
    "void": gettext_lazy("void"),
}
CASE_KIND = {
    "dispute": gettext_lazy("dispute"), "queue_jump": gettext_lazy("queue jump"), "exception": gettext_lazy("exception"),
    "cleanup": gettext_lazy("weekly clean-up"),
}
WAIVER = {
    Waiver.LIMITS: gettext_lazy("limits of a member: cards at once, reservations ahead"),
    Waiver.ORDER: gettext_lazy("the order: whoever has not started makes room"),
    Waiver.QUOTA: gettext_lazy("quota"), Waiver.WINDOWS: gettext_lazy("windows: closed hours, long jobs, hours inside"),
    Waiver.RESERVE: gettext_lazy("the emergency reserve"), Waiver.QUICK: gettext_lazy("quick cards"),
}
CASE_STATE = {"open": gettext_lazy("open"), "decided": gettext_lazy("decided")}
GRANT_STATE = {
    "requested": gettext_lazy("waits for a decision"), "granted": pgettext_lazy("grant", "granted"),
    "declined": gettext_lazy("declined"), "revoked": gettext_lazy("revoked"), "lapsed": gettext_lazy("lapsed"),
    "over": gettext_lazy("has run out"),
}
OUTCOME = {"accepted": gettext_lazy("accepted"), "declined": gettext_lazy("declined")}
# Of a case that nobody asked for, nothing is accepted: an arbiter says what it was.
CLEANUP_OUTCOME = {"accepted": gettext_lazy("against the rule"), "declined": gettext_lazy("nothing against it")}


def outcome_of(case_kind: str, outcome: str) -> str:
    """The outcome of a ruling, in the words of its kind of case."""
    return str((CLEANUP_OUTCOME if case_kind == "cleanup" else OUTCOME)[outcome])


def hours(units: int) -> str:
    """Units as GPU-hours with at most one decimal, in the reader's language: 7.5."""
    value = units / UNITS_PER_GPU_HOUR
    return formats.number_format(round(value, 1), decimal_pos=0 if float(round(value, 1)).is_integer() else 1)


def card_hours(seconds: int) -> str:
    """Card-seconds as hours x cards with at most one decimal: 7.5."""
    return hours(seconds * UNITS_PER_GPU_HOUR // 3600)


def join(parts: Iterable[str]) -> str:
    """A list in a sentence."""
    return _(", ").join(parts)


def tier(code: str) -> str:
    """A tier as people say it; one that the lab added by its code."""
    return str(TIER.get(code, code))


# Django's short names of the weekdays; ours replace them in Chinese, where its "short" ones are the long ones.
WEEKDAYS = (
    gettext_noop("Mon"), gettext_noop("Tue"), gettext_noop("Wed"), gettext_noop("Thu"), gettext_noop("Fri"),
    gettext_noop("Sat"), gettext_noop("Sun"),
)


def instant(value: datetime) -> str:
    """An instant as the reader's clock shows it, with the weekday: Tue 1 Dec 22:00."""
    return _dated(timezone.localtime(value).replace(tzinfo=None), get_language() or "")


@lru_cache(maxsize=8192)
def _dated(local: datetime, language: str) -> str:
    """Kept, for a schedule says hundreds of instants and says them again at every poll."""
    # Translators: a date with weekday and 24-hour time, in Django's format letters
    return formats.date_format(local, _("D j M H:i"))


def clock(value: datetime) -> str:
    """The time of day on the reader's clock: 22:00."""
    return f"{timezone.localtime(value):%H:%M}"


def day(value: date) -> str:
    """A date with its weekday: Tue 1 Dec."""
    # Translators: a date with weekday, in Django's format letters
    return formats.date_format(value, _("D j M"))


def day_briefly(value: date) -> str:
    """A date beside the next one, where there is little room: Tue 1."""
    # Translators: a date in very little room, in Django's format letters
    return formats.date_format(value, _("D j"))


def length(seconds: int) -> str:
    """An elapsed length: 8 h, 30 min, 1 h 30 min."""
    hours, rest = divmod(seconds // 60, 60)
    parts = []
    if hours:
        # Translators: a length in hours
        parts.append(_("%(n)d h") % {"n": hours})
    if rest or not hours:
        # Translators: a length in minutes
        parts.append(_("%(n)d min") % {"n": rest})
    return " ".join(parts)


def _minutes(facts: Mapping[str, Any]) -> str:
    value = facts["minutes"]
    if value < 1:
        seconds = int(value * 60)
        return ngettext("%(n)d second", "%(n)d seconds", seconds) % {"n": seconds}
    return ngettext("%(n)d minute", "%(n)d minutes", int(value)) % {"n": int(value)}


def _hours_limit(facts: Mapping[str, Any]) -> str:
    value = facts["hours"]
    return formats.number_format(value, decimal_pos=0 if float(value).is_integer() else 2)


def _card_taken(facts: Mapping[str, Any]) -> str:
    if facts["start"] is None:
        return _("Somebody booked one of these cards just now. Look at the schedule and choose again.")
    text = _("%(card)s is held by %(holder)s from %(start)s to %(end)s. Choose another card or another time.") % {
        "card": facts["card"], "holder": names.shown(facts["holder"]), "start": instant(facts["start"]),
        "end": instant(facts["end"]),
    }
    if not facts.get("others"):
        return text
    # Translators: cards that could be booked for the time for which this one cannot be extended
    others = _("Free for all of that time: %(cards)s.") % {"cards": _(", ").join(facts["others"])}
    return _("%(first)s %(second)s") % {"first": text, "second": others}


def _no_displacing(facts: Mapping[str, Any]) -> str:
    if facts["until"] is None:
        return _("With the points you have you may not displace others. Choose a free card or another time.")
    return _(
        "You may displace nobody until %(until)s, because you cancelled what had displaced somebody. Choose a free card "
        "or another time."
    ) % {"until": instant(facts["until"])}
def _waitlist_first(facts: Mapping[str, Any]) -> str:
    if facts["card"]:
        text = _("Somebody waits for %(card)s and is asked first.") % {"card": facts["card"]}
    else:
        text = _("Such cards are free, but somebody waits for them and is asked first.")
    way = (
        _("Press again after %(until)s, choose another card or time, or wait for it too.") % {"until": instant(facts["until"])}
        if facts["until"]
        else _("Name a card to take it all the same, choose another time, or wait for one too.")
    )
    return _("%(first)s %(second)s") % {"first": text, "second": way}


def _quota(facts: Mapping[str, Any]) -> str:
    text = _(
        "Quota: %(used)s of %(allowance)s GPU-hours are used in the week of %(week)s, this needs %(needs)s. "
        "%(left)s are left."
    ) % {
        "used": hours(facts["used"]), "allowance": hours(facts["allowance"]), "week": day(facts["week"]),
        "needs": hours(facts["needs"]), "left": hours(facts["left"]),
    }
    way = (
        _("It would fit until %(end)s.") % {"end": instant(facts["fits"])}
        if facts["fits"]
        else _("Wait for the next week or book fewer cards.")
    )
    # Translators: two sentences, one after the other; Chinese has no space between them
    return _("%(first)s %(second)s") % {"first": text, "second": way}


def _free_hours_only(facts: Mapping[str, Any]) -> str:
    text = _("Without a project only the %(hours)s free card-hours of the day can be used. Choose a project for more.") % facts
    if facts["fits"]:
        way = _("It would fit until %(end)s.") % {"end": instant(facts["fits"])}
        text = _("%(first)s %(second)s") % {"first": text, "second": way}
    return text


def _span(facts: Mapping[str, Any]) -> dict[str, str]:
    return {"start": instant(facts["start"]), "end": instant(facts["end"])}


def _window_hours(facts: Mapping[str, Any]) -> str:
    text = _("In these hours one reservation may have at most %(hours)s h.") % {"hours": _hours_limit(facts)}
    if facts["fits"]:
        text = _("%(first)s %(second)s") % {
            "first": text, "second": _("It would fit until %(end)s.") % {"end": instant(facts["fits"])}
        }
    if facts["later"]:
        text = _("%(first)s %(second)s") % {
            "first": text, "second": _("This length may start on %(start)s.") % {"start": instant(facts["later"])}
        }
    return text


def _not_later(facts: Mapping[str, Any]) -> str:
    if facts["longest"] is None:
        return _("It cannot be extended: the cards, the quota or the longest length allow no more.")
    return _("Choose a later end. The latest possible is %(end)s.") % {"end": instant(facts["longest"])}


_SENTENCES: dict[Code, Callable[[Mapping[str, Any]], str]] = {
    Code.NOT_APPROVED: lambda f: _("An admin has not approved this account yet. Ask one to approve it."),
    Code.ROLE_UNKNOWN: lambda f: _("The role “%(role)s” is not in the house rules. Ask an admin to set it.") % f,
    Code.NO_CARDS: lambda f: _("Choose at least one card."),
    Code.CARD_UNKNOWN: lambda f: _("One of the cards does not exist here. Choose from the list."),
    Code.CARD_OUT_OF_SERVICE: lambda f: _("Out of service: %(cards)s. Choose other cards.") % {
        "cards": _(", ").join(f["cards"])
    },
    Code.TIER_UNKNOWN: lambda f: _("This tier does not exist here. Choose from the list."),
    Code.TIER_NEEDS_GRANT: lambda f: _(
        "The tier “%(tier)s” needs a deadline grant of the project. Request one on the project's page, or book in another tier."
    ) % {"tier": tier(f["tier"])},
    Code.GRANT_DAYS: lambda f: _(
        "The project's deadline grant goes from %(start)s to %(end)s. Choose a time inside, or another tier."
    ) % _span(f),
    Code.GRANT_BUDGET: lambda f: _(
        "The project's deadline grant has %(left)s hours × cards left; this needs %(needs)s. Book less, or in another tier."
    ) % {"left": card_hours(f["left"]), "needs": card_hours(f["needs"])},
    Code.HOUSE_RULES: lambda f: _("The lab has house rules that you have not accepted yet. Read and accept them, then book."),
    Code.AFTER_LAST_DAY: lambda f: _(
        "Your last day in the lab ends on %(until)s; a reservation must end by then. Ask an admin if the date is wrong."
    ) % {"until": instant(f["until"])},
    Code.COLLABORATOR_CARDS: lambda f: _(
        "%(name)s, who works on these cards with the holder, may hold at most %(most)s at once; with this it would be %(would)s. "
        "Choose another time, or go on without them."
    ) % f,
    Code.PROJECT_KNOWN: lambda f: _("There is a project named “%(name)s” already. Choose another name.") % f,
    Code.MEMBER_UNKNOWN: lambda f: _("There is no such member in the lab. Choose from the list."),
    Code.DAY_OVER: lambda f: _("This day is over. Choose a later one."),
    Code.GRANT_TOO_LONG: lambda f: _("A deadline grant runs for at most %(days)s days. Choose fewer.") % f,
    Code.GRANT_AFTER_DEADLINE: lambda f: _(
        "A deadline grant ends on the day of its deadline at the latest. Choose an earlier last day."
    ),
    Code.GRANT_DECIDED: lambda f: _("This request has been decided, or its time has passed."),
    Code.GRANT_PARTY: lambda f: _("You asked for this grant yourself, so somebody else must decide it."),
    Code.GRANT_ADVISOR: lambda f: _("The project's advisor decides this request: %(advisor)s.") % f,
    Code.GRANT_ARBITER: lambda f: _("An arbiter must decide this request."),
    Code.COLLABORATORS_FULL: lambda f: _("A reservation has at most %(most)s collaborators. Take one away first.") % f,
    Code.COLLABORATOR_HOLDER: lambda f: _("The holder needs no invitation to their own reservation. Choose somebody else."),
    Code.NOT_INVITED: lambda f: _("You are not invited to this reservation any more. Ask its holder."),
    Code.SUCCESSOR_NEEDED: lambda f: _(
        "They lead projects: %(projects)s. Choose who leads them from now on."
    ) % {"projects": _(", ").join(f["projects"])},
    Code.PROJECT_UNKNOWN: lambda f: _("There is no such project. Choose from the list."),
    Code.PROJECT_CLOSED: lambda f: _("The project “%(project)s” is closed. Choose another one.") % f,
    Code.NOT_IN_PROJECT: lambda f: _(
        "You do not belong to the project “%(project)s”. Ask its advisor or an admin to add you."
    ) % f,
    Code.PROJECT_NEEDED: lambda f: _(
        "Booking ahead needs a project. Choose one of yours."
    ) if f["known"] else _(
        "Booking ahead needs a project, and you belong to none yet. Ask an advisor or an admin to add you, or take free cards on "
        "the spot."
    ),
    Code.TIER_NEEDS_PROJECT: lambda f: _(
        "The tier “%(tier)s” is for work in a project. Choose a project, or book without one as %(free)s."
    ) % {"tier": tier(f["tier"]), "free": _(", ").join(tier(code) for code in f["free"])},
    Code.FREE_HOURS_ONLY: _free_hours_only,
    Code.PROJECT_CARDS: lambda f: ngettext(
        "The project “%(project)s” may hold at most %(most)s card of this pool at once; with this it would be %(would)s. "
        "Book fewer cards, another time or another pool.",
        "The project “%(project)s” may hold at most %(most)s cards of this pool at once; with this it would be %(would)s. "
        "Book fewer cards, another time or another pool.",
        f["most"],
    ) % f,
    Code.END_BEFORE_START: lambda f: _("The end must lie after the start."),
    Code.OFF_RASTER: lambda f: _("Start and end go by steps of %(step)s.") % {"step": _minutes(f)},
    Code.TOO_SHORT: lambda f: _("A reservation lasts at least %(length)s.") % {"length": _minutes(f)},
    Code.TOO_LONG: lambda f: _("A reservation lasts at most %(hours)s h.") % {"hours": _hours_limit(f)},
    Code.IN_PAST: lambda f: _("The start has passed; it is now %(now)s.") % {"now": instant(f["now"])},
    Code.DAY_NOT_OPEN: lambda f: _(
        "Booking is open up to and including %(day)s. The last day asked for opens on %(opens)s."
    ) % {"day": day(f["last_day"]), "opens": instant(f["opens"])},
    Code.TIME_SKIPPED: lambda f: _(
        "The clocks skip this time on that night. Choose %(first)s or %(second)s."
    ) % {"first": instant(f["first"]), "second": instant(f["second"])},
    Code.TIME_TWICE: lambda f: _(
        "The clocks show this time twice on that night, an hour apart. Choose a time before or after it."
    ),
    Code.CARD_TAKEN: _card_taken,
    Code.EQUAL_FREE: lambda f: _(
        "Somebody would have to make room for you, but as good a card is free: %(cards)s. Take it instead."
    ) % {"cards": _(", ").join(f["cards"])},
    Code.NO_DISPLACING: _no_displacing,
    Code.MAINTENANCE: lambda f: _(
        "%(card)s is in maintenance from %(start)s to %(end)s. Choose another card, or a time outside."
    ) % {"card": f["card"], **_span(f)},
    Code.CARD_LOST: lambda f: _("%(card)s is offline. Choose another card, or a start after %(end)s.") % {
        "card": f["card"], **_span(f)
    },
    Code.NOT_ENOUGH_CARDS: lambda f: ngettext(
        "There is no such card free for all of this time. Choose another time, or fewer conditions.",
        "There are not %(count)s such cards free together for all of this time. Choose another time, or fewer cards.",
        f["count"],
    ) % f,
    Code.CARD_OFFERED: lambda f: _(
        "%(card)s is offered to %(holder)s until %(until)s, from %(start)s to %(end)s. Choose another card or another time, "
        "or wait for it."
    ) % {"card": f["card"], "holder": f["holder"], "until": instant(f["until"]), **_span(f)},
    Code.WAITLIST_FIRST: _waitlist_first,
    Code.NOT_RENEWED: lambda f: _(
        "Somebody waits for %(card)s: what you took on the spot is not renewed on it. Choose another card, or wait for one too."
    ) % f,
    Code.RESERVE_KEPT: lambda f: _(
        "The last cards of this pool are kept: %(reserve)s for emergencies, %(quick)s on working days for at most two hours. "
        "Choose another time, or another pool."
    ) % f,
    Code.WINDOW_CLOSED: lambda f: _("These cards are closed from %(start)s to %(end)s. Choose a time outside.") % _span(f),
    Code.WINDOW_WALK_IN: lambda f: _(
        "From %(start)s to %(end)s these cards are first come, first served and cannot be booked ahead. "
        "Come then and book from now, or choose a time outside."
    ) % _span(f),
    Code.WINDOW_LONG: lambda f: _(
        "In this time a reservation lasts at least %(hours)s h. Book longer, or choose another time."
    ) % {"hours": _hours_limit(f)},
    Code.WINDOW_HOURS: _window_hours,
    Code.WALK_IN_WINDOW: lambda f: _("What you start now must end by %(start)s, when other rules begin.") % _span(f),
    Code.WALK_IN_LONG: lambda f: _("What you start now lasts at most %(hours)s h. For longer, book ahead.") % {
        "hours": _hours_limit(f)
    },
    Code.WALK_IN_CARDS: lambda f: _(
        "At most %(most)s cards at once can be taken on the spot; with this it would be %(would)s. Book ahead for more."
    ) % f,
    Code.CARDS_AT_ONCE: lambda f: _(
        "At most %(most)s cards at once; with this it would be %(would)s. Book fewer cards or another time."
    ) % f,
    Code.OPEN_FUTURE: lambda f: _(
        "At most %(most)s reservations may lie ahead. Cancel one that you do not need, or wait until one has started."
    ) % f,
    Code.QUOTA: _quota,
    Code.KEY_REUSED: lambda f: _("This form was used for another request. Reload the page and press again."),
    Code.NOT_YOURS: lambda f: _("Only its holder or an arbiter may do this."),
    Code.STALE: lambda f: _("It was changed meanwhile. This page now shows it as it is; press again if you still want to."),
    Code.WRONG_STATUS: lambda f: _("It is %(status)s: this cannot be done any more.") % {
        "status": STATUS.get(f["status"], f["status"])
    },
    Code.NOT_LATER: _not_later,
    Code.STILL_RUNNING: lambda f: _(
        "Your processes still run on these cards. LabGPU ends no process: stop them yourself, then release, or release now."
    ),
    Code.UNDO_OVER: lambda f: _("The time to undo has passed. Book again."),
    Code.GRACE_OVER: lambda f: _("It ended too long ago to be extended. Book again."),
    Code.OWNER_ACTED: lambda f: _(
        "Somebody whom this displaced has acted on it already, so it cannot be undone. Cancel it instead."
    ),
    Code.REPLACED: lambda f: _("You have taken another time in its place already. See your reservations."),
    Code.EXTEND_AHEAD: lambda f: _(
        "What runs now reaches at most %(hours)s h into days that are not firm yet, that is until %(end)s. Book ahead for more."
    ) % {"hours": _hours_limit(f), "end": instant(f["end"])},
    Code.CONFIRM_EARLY: lambda f: _("You can confirm from %(begins)s. Until then nothing is needed.") % {
        "begins": instant(f["begins"])
    },
    Code.WAIT_TOO_SHORT: lambda f: _(
        "This length cannot end by %(latest)s. Wait until later, or ask for less."
    ) % {"latest": instant(f["latest"])},
    Code.WAITS_ENOUGH: lambda f: _("At most %(most)s wishes may wait. Take one off the waitlist first.") % f,
    Code.OFFER_ENDED: lambda f: _("This offer has ended. Wait again if you still need the cards."),
    Code.WAIT_OVER: lambda f: _("This wish no longer waits: it was served, or its time has passed."),
    Code.LINK_FORGED: lambda f: _("This link is not valid. Open the reservation on your page instead."),
    Code.LINK_EXPIRED: lambda f: _("This link has expired. Open the reservation on your page instead."),
    Code.LINK_OVERTAKEN: lambda f: _("Overtaken: the reservation was changed after this message was sent."),
    Code.DISPUTE_OVER: lambda f: _("A demerit can be disputed for %(days)g days. That time has passed.") % f,
    Code.SIDE_STATED: lambda f: _("You have stated your side already: it stands in the case."),
    Code.ALREADY_DISPUTED: lambda f: _("This demerit was disputed already. See its case."),
    Code.TEXT_MISSING: lambda f: _("Write a reason: it is what the others will read."),
    Code.NOT_ARBITER: lambda f: _("Only an arbiter may decide a case."),
    Code.PARTY: lambda f: _("You are a party to this case, so another arbiter must decide it."),
    Code.CASE_DECIDED: lambda f: _("This case has been decided already."),
    Code.CASE_OVERTAKEN: lambda f: _(
        "This case was overtaken by events: as things are now, what it asks for cannot be had even so. Change it, or decline it."
    ),
    Code.NEEDS_NO_RULING: lambda f: _("This needs no arbiter: you can book it as it is."),
    Code.INVITE_OVER: lambda f: _("This invite link has been used up or has expired. Ask an admin for a new one."),
    Code.EMAIL_KNOWN: lambda f: _("This e-mail address already has an account. Sign in with it instead."),
    Code.LAST_ADMIN: lambda f: _("The lab needs at least one admin. Make somebody else an admin first."),
    Code.UNIX_KNOWN: lambda f: _(
        "%(account)s on %(host)s belongs to %(member)s already. Correct the name or the uid, or remove it there first."
    ) % f,
    Code.MAINTENANCE_WAITS: lambda f: _(
        "What is firm on %(card)s lasts until %(until)s, and planned maintenance waits for that. Choose a later end, or "
        "announce it as urgent with a reason."
    ) % {"card": f["card"], "until": instant(f["until"])},
    Code.MAINTENANCE_TWICE: lambda f: _(
        "%(card)s is in maintenance from %(start)s to %(end)s already. Choose another time, or end that one first."
    ) % {"card": f["card"], **_span(f)},
    Code.MAINTENANCE_OVER: lambda f: _("This maintenance is over already. See the list."),
    Code.NOTHING_LOST: lambda f: _(
        "There is nothing to make good: no card was taken from this reservation, its time is over, or you have others for it."
    ),
    Code.NO_EQUAL_CARD: lambda f: _("No equal card is free for the rest of the time now. Choose another time or other cards."),
    Code.NOT_A_REPLACEMENT: lambda f: _(
        "A replacement is another card that is in service. Choose one, or add it first."
    ),
    Code.HOST_KNOWN: lambda f: _("There is a host named %(name)s already. Choose another name.") % f,
    Code.CARD_KNOWN: lambda f: _("A card with this UUID is known already: %(card)s.") % f,
}


def sentence(refusal: Refusal) -> str:
    """What a refusal says, in the reader's language: why not, and what to do."""
    return _SENTENCES[refusal.code](refusal.facts)


def missing_sentences() -> set[Code]:
    """Codes without words; a test holds that there are none."""
    return set(Code) - set(_SENTENCES)
