"""The page behind a link in a message (K4): looking changes nothing, a press acts, and acts once however often it comes.

The token's bearer acts as the member it names, whoever is signed in: that is the stated rule. The audit keeps that it came
by a link, and who was signed in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import render
from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .. import forms, labels, links, looks, permissions, queries, reader
from ..links import Link, LinkAction
from ..messages.parts import page
from ..models import AuditEntry, IdempotencyKey, Member, Reservation
from ..rules.lifecycle import Status
from ..rules.refusal import Code, Refusal, Refused
from ..services import changes, extension, giveback, offers, presence
from ..services.audit import WORDS_ONLY
from ..services.held import held_by
from ..services.locking import Busy

# Presses of one link in a minute. A repeat of what was done is answered before it is counted.
PRESSES, PRESSES_S = 60, 60
_BUSY_TRIES = 6
_SAFE = ("GET", "HEAD", "OPTIONS")
_RIGHTS = {
    LinkAction.RELEASE: permissions.Action.RELEASE, LinkAction.EXTEND: permissions.Action.EXTEND,
    LinkAction.CONFIRM: permissions.Action.CONFIRM, LinkAction.KEEP: permissions.Action.CONFIRM,
    LinkAction.TAKE: permissions.Action.TAKE, LinkAction.DECLINE: permissions.Action.DECLINE,
}


@dataclass(frozen=True)
class _Asked:
    """A link that may be used: what it says, and the reservation it is about as it is now."""

    link: Link
    reservation: Reservation
    member: Member
    lab: queries.LabFacts
    now: datetime
    pressed_by: int | None

    def again(self) -> _Asked:
        """The same with the reservation read again."""
        return replace(self, reservation=Reservation.objects.select_related("holder").get(pk=self.reservation.pk))


@dataclass(frozen=True)
class _Page:
    """What the page says: `state` chooses its words."""

    state: str
    refusals: tuple[Refusal, ...] = ()



def link(request: HttpRequest, token: str) -> HttpResponse:
    """Shows what a link is about, or, by POST, does it."""
    response = _answer(request, token)
    # The token stands in the address: it is sent to nobody, kept by no cache, found by no robot. `strict-origin` names the
    # site to itself and never a path; under `no-referrer` browsers send `Origin: null` with a form, which the protection
    # against forged forms must refuse.
    response["Referrer-Policy"] = "strict-origin"
    response["Cache-Control"] = "no-store, private"
    response["X-Robots-Tag"] = "noindex, nofollow"
    return response


def _answer(request: HttpRequest, token: str) -> HttpResponse:
    if request.method not in (*_SAFE, "POST"):
        return HttpResponseNotAllowed([*_SAFE, "POST"])
    try:
        said = links.read(token)
    except links.Forged:
        return _nothing(request, "forged", 404)
    reservation = Reservation.objects.select_related("holder").filter(pk=said.reservation_id).first()
    member = Member.objects.filter(pk=said.member_id).first()
    if reservation is None or member is None or not permissions.may(member, _RIGHTS[said.action], reservation):
        return _nothing(request, "forged", 404)
    with _read_by(request, member):
        if links.is_over(reservation, request.lab.policy, request.now):
            return _nothing(request, "expired", 410)
        pressed_by = request.user.pk if request.user.is_authenticated else None
        asked = _Asked(said, reservation, member, request.lab, request.now, pressed_by)
        return _press(request, asked) if request.method == "POST" else _draw(request, asked, _look(asked), 200)


@contextmanager
def _read_by(request: HttpRequest, member: Member) -> Iterator[None]:
    """The page in the language and zone of the mail, unless this browser has chosen a language or somebody signed in."""
    if request.user.is_authenticated:
        yield
        return
    chosen = translation.get_language() if settings.LANGUAGE_COOKIE_NAME in request.COOKIES else None
    with reader.read_by(member, request.lab), translation.override(chosen) if chosen else nullcontext():
        yield


# --- looking ----------------------------------------------------------------------------------------------------------


def _look(asked: _Asked) -> _Page:
    return _LOOKS[asked.link.action](asked)


def _look_offer(asked: _Asked) -> _Page:
    reservation, link = asked.reservation, asked.link
    takes = link.action == LinkAction.TAKE
    if reservation.status == Status.OFFERED and reservation.version == link.version:
        open_ = reservation.offer_until is not None and asked.now < reservation.offer_until
        return _Page(("take" if takes else "pass") if open_ else "offer_over")
    last = _last_act(asked) if reservation.version == link.version + 1 else None
    if last is not None and last.verb == ("take_offer" if takes else "pass_offer"):
        return _Page("taken" if takes else "passed")
    return _Page("offer_over") if reservation.status == Status.PASSED else _overtaken()


def _look_release(asked: _Asked) -> _Page:
    reservation, link = asked.reservation, asked.link
    if reservation.status == Status.RELEASED:
        return _Page("released")
    if (done := _done_by_this(asked)) is not None:
        return _Page(done)
    if reservation.version != link.version:
        return _overtaken()
    status = status_at(reservation, asked.now)
    if status == Status.ACTIVE:
        return _Page("release")
    if status != Status.BOOKED:
        return _Page("over")
    return _Page("cancel" if permissions.may(asked.member, permissions.Action.CANCEL, reservation) else "early")


def _look_extend(asked: _Asked) -> _Page:
    if _was_extended(asked):
        return _Page("extended")
    if asked.reservation.version != asked.link.version:
        return _overtaken()
    if extension.longest_end(asked.reservation, now=asked.now) is None:
        return _Page("stuck", (Refusal(Code.NOT_LATER, {"longest": None}),))
    return _Page("extend")


def _look_confirm(asked: _Asked) -> _Page:
    reservation = asked.reservation
    if reservation.confirmed_at is not None:
        return _Page("confirmed")
    if (status := status_at(reservation, asked.now)) not in (Status.BOOKED, Status.ACTIVE):
        return _Page("over")
    if reservation.version != asked.link.version:
        return _overtaken()
    return _Page("come" if status == Status.ACTIVE and _has_come(reservation) else "confirm")


def _look_keep(asked: _Asked) -> _Page:
    reservation = asked.reservation
    if reservation.status == Status.RELEASED:
        return _Page("released")
    if (done := _done_by_this(asked)) is not None:
        return _Page(done)
    if status_at(reservation, asked.now) != Status.ACTIVE:
        return _Page("over")
    if presence.is_kept(held_by(reservation)):
        return _Page("kept")
    return _overtaken() if reservation.version != asked.link.version else _Page("keep")


def _has_come(reservation: Reservation) -> bool:
    return reservation.allocations.exclude(first_seen=None).exists()


_LOOKS = {
    LinkAction.RELEASE: _look_release, LinkAction.EXTEND: _look_extend, LinkAction.CONFIRM: _look_confirm,
    LinkAction.KEEP: _look_keep, LinkAction.TAKE: _look_offer, LinkAction.DECLINE: _look_offer,
}


def _overtaken() -> _Page:
    return _Page("overtaken", (Refusal(Code.LINK_OVERTAKEN),))


def status_at(reservation: Reservation, now: datetime) -> Status:
    """The status by the clock, which may be ahead of the last sweep."""
    status = Status(reservation.status)
    if status == Status.BOOKED and reservation.start <= now:
        status = Status.ACTIVE
    if status == Status.ACTIVE and reservation.end <= now:
        status = Status.FINISHED
    return status


# What this link may have been pressed for, by the last act on record and how much the version has grown since it was made.
_DONE = {
    ("undo_release", 2): "undone", ("give_back", 1): "given_back", ("undo_give_back", 2): "undone", ("cancel", 1): "cancelled",
}


def _done_by_this(asked: _Asked) -> str | None:
    """The page on what this link was pressed for, if that is the last that somebody did to the reservation."""
    last = _last_act(asked)
    grown = asked.reservation.version - asked.link.version
    return _DONE.get((last.verb, grown)) if last is not None else None


def _last_act(asked: _Asked) -> AuditEntry | None:
    done = AuditEntry.objects.filter(subject="reservation", subject_id=asked.reservation.pk)
    return done.exclude(origin="sweep").exclude(verb__in=WORDS_ONLY).order_by("-pk").first()


def _was_extended(asked: _Asked) -> bool:
    return IdempotencyKey.objects.filter(actor=asked.member, key=asked.link.key).exists()


def _may_undo_until(asked: _Asked) -> datetime | None:
    """Until when this link may take back the release that followed it, or None."""
    reservation = asked.reservation
    if reservation.status != Status.RELEASED or reservation.ended_at is None:
        return None
    if reservation.version != asked.link.version + 1:
        return None
    until = min(reservation.ended_at + timedelta(seconds=asked.lab.policy.release_undo_s), reservation.end)
    return until if asked.now < until else None


def _last_cards(asked: _Asked) -> list[int]:
    last = _last_act(asked)
    return list(last.change.get("cards", ())) if last is not None else []


def _may_take_again_until(asked: _Asked) -> datetime | None:
    """Until when this link may take again the cards that were given back by it, or None."""
    found = giveback.undoable(asked.reservation, now=asked.now)
    untils = [until for row, until in found if row.gpu_id in _last_cards(asked)]
    return min(untils, default=None)


# --- pressing ---------------------------------------------------------------------------------------------------------


def _press(request: HttpRequest, asked: _Asked) -> HttpResponse:
    do = request.POST.get("do", "")
    acts: dict[tuple[LinkAction, str], Callable[[HttpRequest, _Asked], None]] = {
        (LinkAction.RELEASE, "release"): _release, (LinkAction.RELEASE, "undo"): _undo,
        (LinkAction.RELEASE, "give_back"): _give_back, (LinkAction.RELEASE, "take_again"): _take_again,
        (LinkAction.RELEASE, "cancel"): _cancel,
        (LinkAction.EXTEND, "extend"): _extend, (LinkAction.CONFIRM, "confirm"): _confirm, (LinkAction.KEEP, "keep"): _keep,
        (LinkAction.KEEP, "undo"): _undo, (LinkAction.TAKE, "take"): _take, (LinkAction.DECLINE, "pass"): _decline,
    }
    act = acts.get((asked.link.action, do))
    if act is None:  # a link does the one thing it is for
        return _nothing(request, "forged", 404)
    done = _AFTER[do]
    page = _look(asked)
    if page.state == done:
        return _draw(request, asked, page, 200)
    if _too_often(asked.link):
        response = _nothing(request, "often", 429)
        response["Retry-After"] = str(PRESSES_S)
        return response
    refusals: tuple[Refusal, ...] = ()
    try:
        _patiently(lambda: act(request, asked))
    except Busy as problem:
        response = _nothing(request, "busy", 409)
        response["Retry-After"] = str(problem.retry_after)
        return response
    except Refused as problem:
        refusals = problem.refusals
    asked = asked.again()
    page = _look(asked)
    if page.state == done:
        return _draw(request, asked, page, 200)
    # What the page says by itself covers "changed meanwhile" and "has another status"; every other reason is said.
    own_words = {Code.STALE, Code.WRONG_STATUS, Code.KEY_REUSED, Code.OFFER_ENDED, *(one.code for one in page.refusals)}
    more = tuple(one for one in refusals if one.code not in own_words)
    return _draw(request, asked, replace(page, refusals=(*page.refusals, *more)), 409)


_AFTER = {
    "release": "released", "undo": "undone", "give_back": "given_back", "take_again": "undone", "cancel": "cancelled",
    "extend": "extended", "confirm": "confirmed", "keep": "kept", "take": "taken", "pass": "passed",
}


def _patiently(act: Callable[[], None]) -> None:
    for attempt in range(_BUSY_TRIES):
        try:
            return act()
        except Busy:
            if attempt == _BUSY_TRIES - 1:
                raise
            time.sleep(0.05)
    return None


def _release(request: HttpRequest, asked: _Asked) -> None:
    # The page before the press has said what still runs: one press is enough.
    changes.release(
        asked.reservation.pk, by=asked.member, version=asked.link.version, now=asked.now, origin="link",
        knowing_it_runs=True, pressed_by=asked.pressed_by,
    )


def _undo(request: HttpRequest, asked: _Asked) -> None:
    changes.undo_release(
        asked.reservation.pk, by=asked.member, version=asked.link.version + 1, now=asked.now, origin="link",
        pressed_by=asked.pressed_by,
    )


def _give_back(request: HttpRequest, asked: _Asked) -> None:
    giveback.give_back(
        asked.reservation.pk, forms.card_ids(request.POST), by=asked.member, version=asked.link.version, now=asked.now,
        origin="link", knowing_it_runs=True, pressed_by=asked.pressed_by,
    )


def _take_again(request: HttpRequest, asked: _Asked) -> None:
    last = _last_act(asked)
    giveback.undo_give_back(
        asked.reservation.pk, last.change.get("cards", ()) if last else (), by=asked.member,
        version=asked.link.version + 1, now=asked.now, origin="link", pressed_by=asked.pressed_by,
    )


def _confirm(request: HttpRequest, asked: _Asked) -> None:
    presence.confirm(
        asked.reservation.pk, by=asked.member, version=asked.link.version, now=asked.now, origin="link",
        pressed_by=asked.pressed_by,
    )


def _keep(request: HttpRequest, asked: _Asked) -> None:
    presence.keep(
        asked.reservation.pk, by=asked.member, version=asked.link.version, now=asked.now, origin="link",
        pressed_by=asked.pressed_by,
    )


def _cancel(request: HttpRequest, asked: _Asked) -> None:
    changes.cancel(
        asked.reservation.pk, by=asked.member, version=asked.link.version, now=asked.now, origin="link",
        pressed_by=asked.pressed_by,
    )


def _extend(request: HttpRequest, asked: _Asked) -> None:
    extension.extend(
        asked.reservation.pk, _asked_end(request, asked), by=asked.member, version=asked.link.version, now=asked.now,
        origin="link", key=asked.link.key, pressed_by=asked.pressed_by,
    )


def _take(request: HttpRequest, asked: _Asked) -> None:
    offers.take(
        asked.reservation.pk, by=asked.member, version=asked.link.version, now=asked.now, origin="link",
        pressed_by=asked.pressed_by,
    )


def _decline(request: HttpRequest, asked: _Asked) -> None:
    offers.pass_on(
        asked.reservation.pk, by=asked.member, version=asked.link.version, now=asked.now, origin="link",
        pressed_by=asked.pressed_by,
    )


def _asked_end(request: HttpRequest, asked: _Asked) -> datetime:
    """The end that was pressed; what is no instant asks for nothing new and is refused as such."""
    try:
        end = datetime.fromisoformat(request.POST.get("end", ""))
    except ValueError:
        return asked.reservation.end
    return end if end.tzinfo is not None and 1 < end.year < 9999 else asked.reservation.end


def _too_often(link: Link) -> bool:
    """Counts a press of this link, in the cache that counts sign-ins too."""
    key = f"press:{link.key}"
    if cache.add(key, 1, PRESSES_S):
        return False
    try:
        return cache.incr(key) > PRESSES
    except ValueError:  # it ran out between the two
        return False


# --- drawing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Choice:
    """A later end to press."""

    value: str
    label: str


def _choices(asked: _Asked) -> list[_Choice]:
    """One hour more, two hours more, and the longest possible; as instants, so that a repeat asks for the same."""
    longest = extension.longest_end(asked.reservation, now=asked.now)
    if longest is None:
        return []
    found = []
    for hours in (1, 2):
        end = asked.reservation.end + timedelta(hours=hours)
        if asked.now < end < longest:
            words = ngettext("%(n)d h more, until %(end)s", "%(n)d h more, until %(end)s", hours)
            found.append(_Choice(end.isoformat(), words % {"n": hours, "end": reader.near(end, asked.now)}))
    words = _("As long as possible, until %(end)s") % {"end": reader.near(longest, asked.now)}
    return [*found, _Choice(longest.isoformat(), words)]


def _draw(request: HttpRequest, asked: _Asked, page: _Page, status: int) -> HttpResponse:
    if page.state == "extended":
        asked = asked.again()  # another press may have extended it after it was read here, and all presses say the same
    reservation, now = asked.reservation, asked.now
    rows = looks.cards_of(reservation.pk)
    seen = looks.looks(rows, looks.people_of(reservation), now)
    ended = reservation.ended_at or reservation.end
    undo_until = {"released": _may_undo_until, "given_back": _may_take_again_until}.get(page.state, lambda _: None)(asked)
    context: dict[str, Any] = {
        "state": page.state, "refusals": [labels.sentence(one) for one in page.refusals],
        "cards": looks.cards_line(rows), "looks": [look.line for look in seen],
        "own_seen": [look.label for look in seen if look.own], "own_unsure": any(look.own is None for look in seen),
        "start": labels.instant(reservation.start), "end": labels.instant(reservation.end),
        "ended": reader.near(ended, now), "ended_early": reservation.ended_at is not None,
        "status": labels.STATUS[status_at(reservation, now)], "runs": status_at(reservation, now) == Status.ACTIVE,
        "choices": _choices(asked) if page.state == "extend" else [],
        "single": [(row.gpu_id, str(row.gpu)) for row in rows] if page.state in ("release", "cancel") and len(rows) > 1 else [],
        "gone": _(", ").join(looks.names_of(_last_cards(asked))) if page.state == "given_back" else "",
        "offer_until": reader.near(reservation.offer_until, now) if reservation.offer_until else "",
        "undo_until": reader.near(undo_until, now) if undo_until else "",
        "forwarded": asked.pressed_by not in (None, asked.member.pk),
        "used": request.method == "POST",
    }
    return _render(request, context, status)


def _nothing(request: HttpRequest, state: str, status: int) -> HttpResponse:
    """A page about no reservation: the same for every token that is none, and nothing of what it might have been."""
    return _render(request, {"state": state, "used": False, "looks": []}, status)


def _render(request: HttpRequest, context: dict[str, Any], status: int) -> HttpResponse:
    response = render(
        request, "reservations/link.html", {**context, "address": request.path, "mine": page("mine")}, status=status
    )
    response["Content-Language"] = translation.get_language() or ""
    return response
