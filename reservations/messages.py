"""From a row of the outbox to a message: what is said, in the recipient's language, when it is sent.

Facts come in one order: what ends when, cards, what they do now, who is next, how far it can be extended, what follows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, reverse
from django.utils import formats, timezone, translation
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from labgpu.notify.message import Action, Message, Recipient, one_line

from . import evidence, labels, queries
from .links import LinkAction, link_for
from .models import Allocation, CardState, Demerit, Member, Notification, Reservation, Ruling
from .queries import LabFacts
from .rules.lifecycle import Status
from .services import booking

Kind = Notification.Kind
_HOLDS = (Status.BOOKED, Status.ACTIVE)
# More cards than this are counted in a subject and not listed.
_LISTED = 4


# --- language and clock of a reader ----------------------------------------------------------------------------------


@contextmanager
def read_by(member: Member, lab: LabFacts) -> Iterator[ZoneInfo]:
    """Words, numbers and times as this member reads them: their language and zone, else the lab's (K3)."""
    language = member.language if member.language in dict(settings.LANGUAGES) else lab.language
    zone = zone_of(member, lab)
    with translation.override(language), timezone.override(zone):
        yield zone


def zone_of(member: Member, lab: LabFacts) -> ZoneInfo:
    """The member's own zone where they have chosen one, else the lab's."""
    try:
        return ZoneInfo(member.zone) if member.zone else lab.zone
    except (ValueError, OSError, KeyError):  # a zone that this machine does not know
        return lab.zone


def clock(value: datetime) -> str:
    """The time of day: 18:00."""
    return formats.date_format(timezone.localtime(value), "H:i")


def near(value: datetime, now: datetime) -> str:
    """The time of day when it falls on the reader's today, else with its date."""
    same_day = timezone.localtime(value).date() == timezone.localtime(now).date()
    return clock(value) if same_day else labels.instant(value)


def _zone_words(zone: ZoneInfo, now: datetime) -> str:
    offset = now.astimezone(zone).strftime("%z")
    return f"{zone.key} (UTC{offset[:3]}:{offset[3:]})"


# --- cards ------------------------------------------------------------------------------------------------------------


def model_name(model: str) -> str:
    """A card's model as people say it: without the maker's name."""
    return one_line(model).removeprefix("NVIDIA ") or "GPU"


def cards_line(rows: Sequence[Allocation]) -> str:
    """The cards of a reservation in a few words: 2 × A100 (gpu-a:0, gpu-a:1). `gpu.host` must be loaded."""
    models: dict[str, int] = {}
    for row in rows:
        name = model_name(row.gpu.model)
        models[name] = models.get(name, 0) + 1
    counted = _(", ").join(f"{count} × {name}" for name, count in models.items())
    places = [str(row.gpu) for row in rows]
    if len(places) > _LISTED:
        places = list(dict.fromkeys(row.gpu.host.name for row in rows))
    # Translators: cards in short, such as: 2 × A100 (gpu-a:0, gpu-a:1)
    return _("%(models)s (%(places)s)") % {"models": counted, "places": _(", ").join(places)}


@dataclass(frozen=True)
class Look:
    """What the sensor says of one card. `own`: whether the holder's processes were seen; None = not known (I1)."""

    label: str
    words: str
    own: bool | None


def looks(rows: Sequence[Allocation], member_id: int, now: datetime) -> list[Look]:
    """What each card does now. A reading older than three periods says nothing (I1). Needs `gpu.host`, `gpu.state`."""
    fresh_from = now - timedelta(seconds=3 * settings.SAMPLE_SECONDS)
    found = []
    for row in rows:
        state: CardState | None = getattr(row.gpu, "state", None)
        if state is None:
            found.append(Look(str(row.gpu), _("not known: never read"), None))
        elif state.sampled_at < fresh_from:
            found.append(Look(str(row.gpu), _("not known: last read %(when)s") % {"when": near(state.sampled_at, now)}, None))
        else:
            found.append(Look(str(row.gpu), _state_words(state), _own_processes(state, member_id)))
    return found


def _own_processes(state: CardState, member_id: int) -> bool | None:
    if member_id in state.owner_ids:
        return True
    if state.process_count == 0 or state.state in (CardState.State.FREE, CardState.State.HELD_EMPTY):
        return False
    return None  # whose the processes are is in doubt, or they are not visible


def _state_words(state: CardState) -> str:
    parts = [str(labels.CARD_STATE[CardState.State(state.state)])]
    if state.process_count is not None:
        count = state.process_count
        parts.append(ngettext("%(n)d process", "%(n)d processes", count) % {"n": count} if count else _("no processes"))
    if state.utilization is not None:
        parts.append(_("%(n)d %% use") % {"n": state.utilization})
    if state.memory_used is not None:
        parts.append(_("%(n)s GiB memory") % {"n": formats.number_format(state.memory_used / (1 << 30), decimal_pos=1)})
    return _(", ").join(parts)


def cards_of(reservation_id: int) -> list[Allocation]:
    """The reservation's cards in the order of pages, with host and what the sensor last said."""
    rows = Allocation.objects.filter(reservation=reservation_id).select_related("gpu__host", "gpu__state")
    return list(rows.order_by("gpu__host__name", "gpu__index", "gpu_id"))


# --- what is out of date ---------------------------------------------------------------------------------------------


def obsolete(row: Notification, now: datetime) -> str:
    """Why this message has nothing to say any more, or "" (K2). Reads the facts as they are now."""
    if not row.member.is_active:
        return "the member is not active"
    match Kind(row.kind):
        case Kind.ENDING:
            return _ending_obsolete(row, now)
        case Kind.OVERRUN:
            return _overrun_obsolete(row, now)
        case Kind.DEMERIT:
            if row.demerit is None:
                return "the demerit is gone"
            if row.demerit.state != Demerit.State.COUNTED:
                return f"the demerit is {row.demerit.state}"
            return ""
        case Kind.RULING:
            ruling = _ruling_of(row)
            return "" if ruling is not None and row.key == f"ruling:{ruling.pk}" else "there is a newer ruling"


def _ending_obsolete(row: Notification, now: datetime) -> str:
    reservation = row.reservation
    if reservation is None:
        return "the reservation is gone"
    if reservation.status not in _HOLDS:
        return f"the reservation is {reservation.status}"
    if reservation.version != row.reservation_version:
        return "the reservation was changed"
    if now >= reservation.end:
        return "the end has passed"
    if _continues(reservation):
        return "the holder continues on the same cards"
    return ""


def _continues(reservation: Reservation) -> bool:
    """Whether the same holder has all the same cards from the very end on (RN-02)."""
    mine = set(Allocation.objects.filter(reservation=reservation).values_list("gpu", flat=True))
    following = Allocation.objects.filter(
        gpu__in=mine, start=reservation.end, status__in=queries.HOLDING_CODES, reservation__holder=reservation.holder_id
    )
    return set(following.values_list("gpu", flat=True)) == mine


def _overrun_obsolete(row: Notification, now: datetime) -> str:
    reservation = row.reservation
    if reservation is None:
        return "the reservation is gone"
    if reservation.status in _HOLDS or reservation.version != row.reservation_version:
        return "the reservation was changed"
    seen = [look.own for look in looks(cards_of(reservation.pk), reservation.holder_id, now)]
    if seen and all(own is False for own in seen):
        return "no process is seen any more"
    return ""


def _ruling_of(row: Notification) -> Ruling | None:
    rulings = Ruling.objects.filter(case__demerit=row.demerit_id, case__opened_by=row.member_id)
    return rulings.select_related("case", "arbiter").order_by("-at", "-pk").first()


# --- what is said -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fact:
    """One line of facts: what it is, and what is so."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Words:
    """What a message says, before it is laid out. `lead`: what to do by when. `view`: the one link beside the actions."""

    subject: str
    lead: str
    facts: tuple[Fact, ...]
    follows: str
    view: Action
    actions: tuple[Action, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


def compose(row: Notification, lab: LabFacts, now: datetime) -> Message:
    """The message of a row as things stand now. Raises `BadMessage` when a name or address has a line break."""
    member = row.member
    with read_by(member, lab) as zone:
        words = _SAID[Kind(row.kind)](row, lab, now)
        context = {
            "words": words, "lab_name": one_line(lab.name) or "LabGPU", "zone": _zone_words(zone, now), "kind": row.kind,
            "language": translation.get_language(), "simulated": lab.simulated, "name": one_line(member.name),
        }
        return Message(
            id=_message_id(row), thread=_thread(row), recipient=Recipient(member.name, member.email),
            subject=one_line(words.subject), actions=words.actions,
            text=render_to_string(f"notify/{row.kind}/message.txt", context).strip() + "\n",
            html=render_to_string(f"notify/{row.kind}/message.html", context),
            language=translation.get_language() or "",
        )


def _message_id(row: Notification) -> str:
    """Unique for ever, also in a database that was begun anew at the same address."""
    reservation = _about(row)
    began = reservation.booked_at.timestamp() if reservation else ""
    return f"{row.kind}.{row.pk}.{hashlib.sha256(f'{row.key} {row.member_id} {began}'.encode()).hexdigest()[:16]}"


def _thread(row: Notification) -> str:
    reservation = _about(row)
    return f"reservation.{reservation.pk}.{int(reservation.booked_at.timestamp())}" if reservation else f"{row.kind}.{row.pk}"


def _about(row: Notification) -> Reservation | None:
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


def _minutes(count: int) -> str:
    # Translators: a length of time
    return ngettext("%(n)d min", "%(n)d min", count) % {"n": count}


def _reservation(row: Notification) -> Reservation:
    assert row.reservation is not None  # `obsolete` has been asked
    return row.reservation


def _ending(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = _reservation(row)
    rows = cards_of(reservation.pk)
    end = reservation.end
    longest = booking.longest_end(reservation, now=now)
    said = {
        "left": _minutes(minutes_left(end, now)), "cards": cards_line(rows), "end": near(end, now),
    }
    if longest:
        # Translators: subject of the mail before the end: 10 min left: 2 × A100 (gpu-a:0, gpu-a:1), until 18:00
        subject = _("%(left)s left: %(cards)s, until %(end)s — release or extend") % said
        lead = _("Save your work, then release the cards or extend before %(end)s.") % said
    else:
        subject = _("%(left)s left: %(cards)s, until %(end)s — save and release") % said
        lead = _("Save your work and release the cards before %(end)s.") % said
    following = _following(rows, reservation)
    facts = (
        Fact(_("Ends"), (_("%(end)s, in %(left)s") % {"end": labels.instant(end), "left": said["left"]},)),
        Fact(_("Cards"), (said["cards"],)),
        Fact(_("Now"), _look_lines(rows, reservation, now)),
        Fact(_("Next"), _next_lines(following, reservation, now)),
        Fact(_("Can be extended"), (_("until %(end)s") % {"end": labels.instant(longest)} if longest else _("no"),)),
    )
    counts = _counts_from(following, reservation, lab)
    points = lab.policy.overrun_points
    follows = " ".join(
        (
            _("At the end the cards are no longer yours, but LabGPU ends no process."),
            ngettext(
                "Processes of yours that still run at %(when)s count as an overrun: %(n)d point.",
                "Processes of yours that still run at %(when)s count as an overrun: %(n)d points.",
                points,
            ) % {"when": near(counts, now), "n": points},
        )
    )
    actions = [Action(_("Release now"), link_for(reservation, LinkAction.RELEASE).url)]
    if longest:
        actions.append(Action(_("Extend"), link_for(reservation, LinkAction.EXTEND).url))
    return Words(subject, lead, facts, follows, Action(_("View"), page("mine")), tuple(actions))


def _overrun(row: Notification, lab: LabFacts, now: datetime) -> Words:
    reservation = _reservation(row)
    rows = cards_of(reservation.pk)
    ended = reservation.ended_at or reservation.end
    longest = booking.longest_end(reservation, now=now)
    following = _following(rows, reservation)
    counts = _counts_from(following, reservation, lab)
    points = lab.policy.overrun_points
    said = {"cards": cards_line(rows), "ended": near(ended, now), "counts": near(counts, now), "n": points}
    # Translators: subject of the mail after the end: Still running: 1 × A100 (gpu-a:0), ended 18:00 — stop your processes
    subject = _("Still running: %(cards)s, ended %(ended)s — stop your processes") % said
    if now >= counts:
        lead = _("Stop your processes on these cards now: the reservation ended at %(ended)s.") % said
        follows = ngettext(
            "The time allowed ended at %(counts)s: what still ran then counts as an overrun, %(n)d point.",
            "The time allowed ended at %(counts)s: what still ran then counts as an overrun, %(n)d points.",
            points,
        ) % said
    elif longest:
        lead = _("Stop your processes on these cards, or extend, before %(counts)s.") % said
        follows = _still_running(said, points)
    else:
        lead = _("Stop your processes on these cards before %(counts)s.") % said
        follows = _still_running(said, points)
    facts = (
        Fact(_("Ended"), (labels.instant(ended),)),
        Fact(_("Cards"), (said["cards"],)),
        Fact(_("Now"), _look_lines(rows, reservation, now)),
        Fact(_("Next"), _next_lines(following, reservation, now)),
        Fact(_("Can be extended"), (_("until %(end)s") % {"end": labels.instant(longest)} if longest else _("no"),)),
    )
    actions = (Action(_("Extend"), link_for(reservation, LinkAction.EXTEND).url),) if longest else ()
    return Words(
        subject, lead, facts, _("LabGPU ends no process.") + " " + follows, Action(_("View"), page("mine")), actions
    )


def _still_running(said: dict[str, Any], points: int) -> str:
    return ngettext(
        "Processes of yours that still run at %(counts)s count as an overrun: %(n)d point.",
        "Processes of yours that still run at %(counts)s count as an overrun: %(n)d points.",
        points,
    ) % said


def _demerit(row: Notification, lab: LabFacts, now: datetime) -> Words:
    demerit = row.demerit
    assert demerit is not None  # `obsolete` has been asked
    reservation = demerit.reservation
    rows = cards_of(reservation.pk)
    reason = labels.DEMERIT_REASON[Demerit.Reason(demerit.reason)]
    last_day = demerit.issued_at + timedelta(seconds=lab.policy.dispute_s)
    points = ngettext("%(n)d point", "%(n)d points", demerit.points) % {"n": demerit.points}
    said = {
        "points": points, "reason": reason, "cards": cards_line(rows), "end": labels.instant(reservation.end),
        "until": labels.instant(demerit.expires_at), "dispute": labels.instant(last_day),
    }
    facts = (
        Fact(_("What"), (_("%(reason)s: %(points)s") % said,)),
        Fact(_("Reservation"), (_("ended %(ended)s") % {"ended": labels.instant(reservation.ended_at or reservation.end)},)),
        Fact(_("Cards"), (said["cards"],)),
        Fact(_("Proof"), _proof_lines(demerit.evidence)),
        Fact(_("Counts until"), (said["until"],)),
    )
    total = queries.open_demerit_points(row.member, now)
    follows = ngettext(
        "With this, %(n)d point counts on your record.", "With this, %(n)d points count on your record.", total
    ) % {"n": total}
    dispute = Action(_("Dispute"), page("dispute", demerit.pk))
    return Words(
        # Translators: subject of the mail on a demerit: 1 point for overrun: 1 × A100 (gpu-a:0)
        _("%(points)s for %(reason)s: %(cards)s") % said,
        _("If this is wrong, dispute it by %(dispute)s: while it is being decided, the points do not count.") % said,
        facts, follows, Action(_("Your record"), page("mine")), (dispute,),
    )


def _ruling(row: Notification, lab: LabFacts, now: datetime) -> Words:
    ruling, demerit = _ruling_of(row), row.demerit
    assert ruling is not None and demerit is not None  # `obsolete` has been asked
    points = ngettext("%(n)d point", "%(n)d points", demerit.points) % {"n": demerit.points}
    said = {"points": points, "reason": labels.DEMERIT_REASON[Demerit.Reason(demerit.reason)]}
    if ruling.outcome == Ruling.Outcome.ACCEPTED:
        subject = _("Your dispute was accepted: the %(reason)s demerit is void") % said
        lead = _("You need do nothing. The demerit of %(points)s is void and counts no more.") % said
    else:
        subject = _("Your dispute was declined: the %(reason)s demerit counts") % said
        lead = _("The demerit of %(points)s counts again, until %(until)s.") % (
            said | {"until": labels.instant(demerit.expires_at)}
        )
    facts = (
        Fact(_("Outcome"), (str(labels.OUTCOME[Ruling.Outcome(ruling.outcome)]),)),
        Fact(_("Decided"), (_("%(when)s by %(arbiter)s") % {"when": labels.instant(ruling.at), "arbiter": ruling.arbiter},)),
        Fact(_("Cards"), (cards_line(cards_of(demerit.reservation_id)),)),
    )
    total = queries.open_demerit_points(row.member, now)
    follows = ngettext(
        "With this, %(n)d point counts on your record.", "With this, %(n)d points count on your record.", total
    ) % {"n": total}
    return Words(
        subject, lead, facts, follows, Action(_("Your record"), page("mine")), extra={"reason": ruling.reason}
    )


_SAID = {Kind.ENDING: _ending, Kind.OVERRUN: _overrun, Kind.DEMERIT: _demerit, Kind.RULING: _ruling}


# --- facts ------------------------------------------------------------------------------------------------------------


def _look_lines(rows: Sequence[Allocation], reservation: Reservation, now: datetime) -> tuple[str, ...]:
    # Translators: a card and what is so with it, such as: gpu-a:0: free
    return tuple(
        _("%(card)s: %(words)s") % {"card": look.label, "words": look.words}
        for look in looks(rows, reservation.holder_id, now)
    )


def _following(rows: Sequence[Allocation], reservation: Reservation) -> list[tuple[Allocation, queries.Holding]]:
    """For each card the next reservation on it after the end, where there is one."""
    end = reservation.ended_at or reservation.end
    found = [(row, queries.next_holding(row.gpu_id, end, not_of=reservation.pk)) for row in rows]
    return [(row, holding) for row, holding in found if holding is not None]


def _next_lines(
    following: Sequence[tuple[Allocation, queries.Holding]], reservation: Reservation, now: datetime
) -> tuple[str, ...]:
    lines = []
    for row, holding in following:
        said = {
            "card": str(row.gpu), "holder": one_line(holding.holder_name), "start": near(holding.interval.start, now)
        }
        if holding.holder_id == reservation.holder_id:
            lines.append(_("%(card)s: you yourself, from %(start)s") % said)
        else:
            lines.append(_("%(card)s: %(holder)s, from %(start)s") % said)
    return tuple(lines) or (_("nobody has booked these cards"),)


def _counts_from(
    following: Sequence[tuple[Allocation, queries.Holding]], reservation: Reservation, lab: LabFacts
) -> datetime:
    """From when an overrun counts: after the grace where somebody else has the card next, else later (I4)."""
    end = reservation.ended_at or reservation.end
    later = end + timedelta(seconds=max(lab.policy.overrun_unwaited_s, lab.policy.overrun_grace_s))
    waited = any(
        holding.holder_id != reservation.holder_id and holding.interval.start < later for _, holding in following
    )
    return end + lab.policy.grace if waited else later


def _proof_lines(stored: Any) -> tuple[str, ...]:
    """The proof of a demerit in sentences; the samples themselves are on the page of the record."""
    proof = evidence.in_words(stored)
    return tuple(proof.sentences) or tuple(f"{name}: {value}" for name, value in proof.facts) or (_("on your record"),)
