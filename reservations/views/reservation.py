"""One reservation: what it is, what happened to it, and what the reader may do with it. Each action is a POST."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render, resolve_url
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from .. import forms, labels, queries
from ..looks import cards_of, standing
from ..models import Allocation, Collaborator, Reservation
from ..permissions import Action, may
from ..rules.lifecycle import Status
from ..rules.presence import question_due
from ..rules.refusal import Code, Refusal, Refused, refuse
from ..rules.week import NoSuchLocalTime, round_to_raster
from ..services import booking, changes, extension, giveback, locking, moving, offers, presence, replacing, slots
from ..services.collaborators import MOST
from . import cardlook, history, refused
from .access import lead, member_required
from .book import booked_words, schedule_with, undo_tag

_LARGEST_ID = 2**63 - 1


@dataclass(frozen=True)
class Later:
    """A button that extends to an exact instant."""

    words: str
    value: str


@dataclass(frozen=True)
class Actions:
    """What this reader may do now. `undo_until` and `longest` are None when there is nothing to undo or extend."""

    release: bool = False
    confirm: bool = False
    wishes: bool = False
    cancel: bool = False
    move: bool = False
    again: bool = False
    take_until: datetime | None = None
    undo_until: datetime | None = None
    longest: datetime | None = None
    later: tuple[Later, ...] = ()
    equal: str = ""  # the equal cards that can be had for those that were lost; `lost`: there were any
    lost: bool = False

    @property
    def any(self) -> bool:
        pressed = (self.release, self.confirm, self.wishes, self.cancel, self.move, self.again)
        return any(pressed) or bool(self.take_until or self.undo_until or self.longest)


def status_by_clock(reservation: Reservation, now: datetime) -> Status:
    """The status as the clock has it, whether or not the sweep has been by."""
    status = Status(reservation.status)
    if status == Status.BOOKED and reservation.start <= now:
        status = Status.ACTIVE
    if status == Status.ACTIVE and reservation.end <= now:
        status = Status.FINISHED
    return status


def actions(request: HttpRequest, reservation: Reservation, *, extend: bool = True) -> Actions:
    """What the reader may do with the reservation now; `extend` False leaves the (costlier) longest end out."""
    member, now = request.user, request.now
    status = status_by_clock(reservation, now)
    longest = None
    if extend and may(member, Action.EXTEND, reservation):
        longest = extension.longest_end(reservation, now=now)
    return Actions(
        release=status == Status.ACTIVE and may(member, Action.RELEASE, reservation),
        confirm=_may_confirm(request, reservation, status),
        wishes=status in (Status.ACTIVE, Status.BOOKED) and may(member, Action.EXTEND, reservation),
        cancel=status == Status.BOOKED and may(member, Action.CANCEL, reservation),
        move=status == Status.BOOKED and may(member, Action.MOVE, reservation),
        again=status != Status.OFFERED and may(member, Action.AGAIN, reservation),
        take_until=take_until(request, reservation), undo_until=undo_until(request, reservation),
        longest=longest, later=_later(reservation, longest),
        **_equal(request, reservation),
    )


def _equal(request: HttpRequest, reservation: Reservation) -> dict[str, Any]:
    """Whether cards were taken from it that can still be made good, and by which."""
    if reservation.end <= request.now or not may(request.user, Action.TAKE_EQUAL, reservation):
        return {}
    if all(row.status != Status.INTERRUPTED for row in reservation.allocations.all()):  # read with the page's own rows
        return {}
    found = replacing.equal_cards(reservation, now=request.now)
    if found is None:
        return {}
    names = queries.cards(found.cards.values())
    return {"lost": True, "equal": _(", ").join(sorted(card.label for card in names.values()))}


def _may_confirm(request: HttpRequest, reservation: Reservation, status: Status) -> bool:
    """Whether there is something to confirm: asked about by now, not said yet, and nobody seen to have come."""
    policy = request.lab.policy
    if not policy.no_show_s or reservation.confirmed_at is not None or status not in (Status.ACTIVE, Status.BOOKED):
        return False
    if request.now < question_due(reservation.start, request.lab.zone):
        return False
    come = any(row.first_seen for row in reservation.allocations.all())
    return not come and may(request.user, Action.CONFIRM, reservation)


def take_until(request: HttpRequest, reservation: Reservation) -> datetime | None:
    """Until when the reader may take what is offered, or None."""
    until = reservation.offer_until
    if reservation.status != Status.OFFERED or until is None or request.now >= until:
        return None
    return until if may(request.user, Action.TAKE, reservation) else None


def undo_until(request: HttpRequest, reservation: Reservation) -> datetime | None:
    """Until when the reader may take a release back, or None."""
    if reservation.status != Status.RELEASED or reservation.ended_at is None:
        return None
    limit = reservation.ended_at + timedelta(seconds=request.lab.policy.release_undo_s)
    limit = min(limit, reservation.end)
    return limit if request.now < limit and may(request.user, Action.RELEASE, reservation) else None


def _later(reservation: Reservation, longest: datetime | None) -> tuple[Later, ...]:
    if longest is None:
        return ()
    steps = [
        Later(_("+%(n)d h, until %(time)s") % {"n": hours, "time": labels.instant(end)}, end.isoformat())
        for hours in (1, 2)
        if (end := reservation.end + timedelta(hours=hours)) < longest
    ]
    return (*steps, Later(_("Longest possible: until %(time)s") % {"time": labels.instant(longest)}, longest.isoformat()))


@require_safe
@member_required
def reservation(request: HttpRequest, pk: int) -> HttpResponse:
    """The page; for htmx the panel alone."""
    found = queries.reservation_detail(pk) if pk <= _LARGEST_ID else None
    if found is None or not may(request.user, Action.SEE_SCHEDULE, found):
        raise Http404
    return show(request, found)


def show(
    request: HttpRequest, found: Reservation, *, reasons: tuple[refused.Reason, ...] = (), status: int = 200,
    still_running: bool = False, changed: bool = False, action: Action | None = None, errors: Sequence[str] = (),
) -> HttpResponse:
    """The reservation as a page, or for htmx as its panel alone."""
    template = "reservations/_panel.html" if request.htmx else "reservations/reservation.html"
    context = {**_context(request, found), "reasons": reasons, "still_running": still_running, "changed": changed}
    context |= {"field_errors": errors, "refused": str(action or ""), "ways": _ways(request, found, action)}
    response = render(request, template, context, status=status)
    if changed:
        response.headers["HX-Trigger"] = "reservation-changed"
    return response


def _context(request: HttpRequest, found: Reservation) -> dict[str, Any]:
    status = status_by_clock(found, request.now)
    rows = found.allocations.select_related("gpu__host").order_by("gpu__host__name", "gpu__index")
    allocations = standing(rows)
    here = resolve_url("reservation", found.pk)
    return {
        # On its own page it bears the page's heading, also when only the panel is drawn anew.
        "page": not request.htmx or request.htmx.current_url_abs_path == here,
        "reservation": found,
        "cards": cardlook.cards_words(row.gpu for row in allocations),
        "count": len(allocations),
        "period": cardlook.period_words(found.start, found.end),
        "length": cardlook.length_words(found.start, found.end),
        "status": str(status),
        "status_words": labels.STATUS[status],
        "kind_words": labels.KIND[found.kind],
        "tier_words": labels.TIER.get(found.tier, found.tier),
        "letter": labels.TIER_LETTER.get(found.tier, ""),
        "purpose_words": labels.PURPOSE.get(found.purpose, found.purpose),
        "memory": found.expected_memory >> 30 if found.expected_memory else None,
        "own": found.holder_id == request.user.pk,
        **_company(request, found, status),
        "alone": "give-back" in request.path,
        "single": _single(request, found, status, allocations),
        "shows_note": may(request.user, Action.SEE_NOTE, found) and bool(found.note),
        "actions": actions(request, found),
        "others": _others(request, found),
        "may_move_until": found.may_move_until if status == Status.BOOKED and may(request.user, Action.MOVE, found) else None,
        "key": forms.new_key(),
        "typed_end": str(request.POST.get("until", ""))[:40],
        "move_start": _shown(request, "start", found.start), "move_end": _shown(request, "end", found.end),
        "events": history.events(queries.history_of(found)),
    }


def _others(request: HttpRequest, found: Reservation) -> tuple[refused.Instead, ...]:
    """Other times as buttons, for who was displaced (D5)."""
    if found.status != Status.DISPLACED or not may(request.user, Action.REPLACE, found):
        return ()
    return refused.others(slots.instead_of(found, request.now), booking.in_place_of(found), ())


def _company(request: HttpRequest, found: Reservation, status: Status) -> dict[str, Any]:
    """Its collaborators, and what the reader may say to it: ask, take away, accept or decline (B4)."""
    rows = queries.collaborators_of(found.pk)
    lives = status in (Status.BOOKED, Status.ACTIVE)
    asks = lives and may(request.user, Action.COLLABORATE, found)
    there = {found.holder_id, *(row.member_id for row in rows)}
    mine = next((row for row in rows if row.member_id == request.user.pk), None)
    return {
        "company": rows, "takes_away": asks, "invited": bool(mine and lives and mine.state == Collaborator.State.INVITED),
        "shares": bool(mine and lives and mine.state == Collaborator.State.ACCEPTED),
        "people": [one for one in queries.members_in() if one.pk not in there] if asks and len(rows) < MOST else [],
    }


def _single(request: HttpRequest, found: Reservation, status: Status, held: Sequence[Allocation]) -> dict[str, Any]:
    """The cards that the reader may give back alone, and those that can be taken again until when (G3)."""
    right = {Status.ACTIVE: Action.RELEASE, Status.BOOKED: Action.CANCEL}.get(status)
    if right is None or not may(request.user, right, found):
        return {}
    ticked = set(forms.card_ids(request.POST))
    gone = giveback.undoable(found, now=request.now)
    return {
        "cards": [(row.gpu_id, str(row.gpu), row.gpu_id in ticked) for row in held] if len(held) > 1 else [],
        "undo": [(row.gpu_id, str(row.gpu)) for row, _until in gone],
        "undo_until": min((until for _row, until in gone), default=None),
    }


def _shown(request: HttpRequest, name: str, booked: datetime) -> str:
    """What a field of the move shows: as typed, else as booked."""
    typed = request.POST.get(name) if "move" in request.path else None
    return booked.astimezone(request.lab.zone).strftime("%Y-%m-%dT%H:%M") if typed is None else str(typed)[:40]


def _ways(request: HttpRequest, found: Reservation, action: Action | None) -> dict[str, Any] | None:
    """The booking form that a refused `again` leads on to: its buttons say another time of the next week."""
    if action != Action.AGAIN:
        return None
    zone, week = request.lab.zone, timedelta(days=7)
    start, end = (
        (one.astimezone(zone).replace(tzinfo=None) + week).strftime("%Y-%m-%dT%H:%M")
        for one in (round_to_raster(found.start, request.lab.policy.raster_s, zone, up=False), found.end)
    )
    card_ids = found.allocations.filter(given_back_at=None).order_by("gpu").values_list("gpu", flat=True)
    return {"cards": list(card_ids), "start": start, "end": end, "key": forms.new_key()}


def _act(
    request: HttpRequest, pk: int, action: Action, write: Callable[[int | None], Reservation], done: str,
    *, undoable: bool = False,
) -> HttpResponse:
    """One press: does it, or says why not on the same page. What is missing and what is not the reader's look alike."""
    found = queries.reservation_detail(pk) if pk <= _LARGEST_ID else None
    if found is None or not may(request.user, action, found):
        raise Http404
    refusals: tuple[Refusal, ...] = ()
    try:
        write(_version(request))
    except _Unreadable as problem:
        return show(request, found, errors=(str(problem),), status=422, action=action)
    except Refused as problem:
        if Code.NOT_YOURS in problem.codes:
            raise Http404 from None
        refusals = problem.refusals
    except locking.Busy:
        return refused.retry(show(request, found, reasons=refused.busy(), status=409))
    found = queries.reservation_detail(pk)
    assert found is not None  # no reservation is ever deleted
    if refusals:
        running = any(refusal.code == Code.STILL_RUNNING for refusal in refusals)
        return show(
            request, found, reasons=refused.reasons(refusals, times_only=True), status=refused.status(refusals),
            still_running=running,
            action=action,
        )
    messages.success(request, done, extra_tags=undo_tag(request, found) if undoable else "")
    if request.htmx:
        return show(request, found, changed=True)
    return lead(request, resolve_url("mine") if request.POST.get("back") == "mine" else resolve_url("reservation", pk))


def _version(request: HttpRequest) -> int:
    """The version the form was made for; a form without one counts as overtaken."""
    text = request.POST.get("version", "")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise refuse(Code.STALE)
    return int(text)


@require_POST
@member_required
def release(request: HttpRequest, pk: int) -> HttpResponse:
    """Ends it now. With own processes running it is refused once, and the page then offers to release all the same."""
    knowing = request.POST.get("knowing") == "yes"
    return _act(
        request, pk, Action.RELEASE,
        lambda version: changes.release(pk, by=request.user, version=version, now=request.now, knowing_it_runs=knowing),
        _("Released. What was left is back in the quota."),
    )


@require_POST
@member_required
def undo_release(request: HttpRequest, pk: int) -> HttpResponse:
    """Takes a release back within its time."""
    return _act(
        request, pk, Action.RELEASE,
        lambda version: changes.undo_release(pk, by=request.user, version=version, now=request.now),
        _("The release is undone: the cards are held again."),
    )


@require_POST
@member_required
def confirm(request: HttpRequest, pk: int) -> HttpResponse:
    """Says that somebody comes."""
    return _act(
        request, pk, Action.CONFIRM,
        lambda version: presence.confirm(pk, by=request.user, version=version, now=request.now), _("Confirmed."),
    )


@require_POST
@member_required
def take(request: HttpRequest, pk: int) -> HttpResponse:
    """Takes what is offered."""
    return _act(
        request, pk, Action.TAKE,
        lambda version: offers.take(pk, by=request.user, version=version, now=request.now), _("It is yours."),
    )


@require_POST
@member_required
def wishes(request: HttpRequest, pk: int) -> HttpResponse:
    """Sets how the reservation is to end: the two ticks as they stand."""
    return _act(
        request, pk, Action.EXTEND,
        lambda version: presence.wish(
            pk, release_when_done=request.POST.get("release_when_done") == "on",
            extend_while_free=request.POST.get("extend_while_free") == "on", by=request.user, now=request.now,
        ),
        _("Noted."),
    )


@require_POST
@member_required
def give_back(request: HttpRequest, pk: int) -> HttpResponse:
    """Gives the ticked cards back and keeps the others."""
    knowing = request.POST.get("knowing") == "yes"
    return _act(
        request, pk, Action.RELEASE,
        lambda version: giveback.give_back(
            pk, forms.card_ids(request.POST), by=request.user, version=version, now=request.now, knowing_it_runs=knowing
        ),
        _("Given back. What was left of it is back in the quota."),
    )


@require_POST
@member_required
def undo_give_back(request: HttpRequest, pk: int) -> HttpResponse:
    """Takes cards that were given back alone again, within their time."""
    return _act(
        request, pk, Action.RELEASE,
        lambda version: giveback.undo_give_back(
            pk, forms.card_ids(request.POST), by=request.user, version=version, now=request.now
        ),
        _("Undone: the cards are held again."),
    )


@require_POST
@member_required
def pass_on(request: HttpRequest, pk: int) -> HttpResponse:
    """Lets what is offered pass."""
    return _act(
        request, pk, Action.DECLINE,
        lambda version: offers.pass_on(pk, by=request.user, version=version, now=request.now),
        _("Passed on: it goes to whoever waits next."),
    )


@require_POST
@member_required
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    """Cancels what has not started."""
    return _act(
        request, pk, Action.CANCEL,
        lambda version: changes.cancel(pk, by=request.user, version=version, now=request.now),
        _("Cancelled. Its hours are back in the quota."),
    )


@require_POST
@member_required
def extend(request: HttpRequest, pk: int) -> HttpResponse:
    """Moves the end later: to an exact instant of a button (`end`, `use`) or to a typed time (`until`)."""

    def write(version: int | None) -> Reservation:
        data = forms.with_override(request.POST)
        text = str(data.get("end") or data.get("until") or "").strip()
        try:
            new_end = forms.read_instant(text, request.lab.zone)
        except NoSuchLocalTime as problem:
            raise Refused(forms.clock_refusal(problem, "end")) from None
        except ValueError:
            raise refuse(Code.NOT_LATER, longest=_longest(pk, request)) from None
        return extension.extend(
            pk, new_end, by=request.user, version=version, now=request.now, key=_key(request)
        )

    return _act(request, pk, Action.EXTEND, write, _("Extended."))


class _Unreadable(ValueError):
    """A form that cannot be read, with a sentence for the reader."""


def _needed_key(request: HttpRequest) -> str:
    if key := _key(request):
        return key
    raise _Unreadable(_("This form is damaged. Reload the page and press again."))


def _typed(data: QueryDict, name: str, request: HttpRequest) -> datetime:
    try:
        return forms.read_instant(str(data.get(name) or "").strip(), request.lab.zone)
    except NoSuchLocalTime as problem:
        raise Refused(forms.clock_refusal(problem, name)) from None
    except ValueError as problem:
        raise _Unreadable(str(problem)) from None


@require_POST
@member_required
def move(request: HttpRequest, pk: int) -> HttpResponse:
    """Moves what has not started to the typed time, or to that of a button (`use`), and from one of its cards to another."""

    def write(version: int | None) -> Reservation:
        data = forms.with_override(request.POST)
        start, end = _typed(data, "start", request), _typed(data, "end", request)
        return moving.move(
            pk, card_ids=_cards_after(pk, data), start=start, end=end, by=request.user, version=version, now=request.now,
            key=_needed_key(request),
        )

    return _act(request, pk, Action.MOVE, write, _("Moved."), undoable=True)


def _cards_after(pk: int, data: QueryDict) -> list[int] | None:
    """Its cards with `to_card` in place of `from_card`; None where they stay: none is lost by naming one that it has already."""
    before = [row.gpu_id for row in cards_of(pk)]
    [old, new] = [next(iter(forms.card_ids(data, name)), None) for name in ("from_card", "to_card")]
    if old not in before or new is None or new in before:
        return None
    return [new if card_id == old else card_id for card_id in before]


@require_POST
@member_required
def again(request: HttpRequest, pk: int) -> HttpResponse:
    """Books the same next week, as a reservation of its own."""
    found = queries.reservation_detail(pk) if pk <= _LARGEST_ID else None
    if found is None or not may(request.user, Action.AGAIN, found):
        raise Http404
    try:
        made = booking.again(pk, by=request.user, now=request.now, key=_needed_key(request))
    except _Unreadable as problem:
        return show(request, found, errors=(str(problem),), status=422)
    except Refused as problem:
        return show(
            request, found, reasons=refused.reasons(problem.refusals), status=refused.status(problem.refusals),
            action=Action.AGAIN,
        )
    except locking.Busy:
        return refused.retry(show(request, found, reasons=refused.busy(), status=409))
    words = booked_words(made.allocations.count(), made)
    messages.success(request, words, extra_tags=undo_tag(request, made))
    return lead(request, schedule_with(request, made))


@require_POST
@member_required
def instead(request: HttpRequest, pk: int) -> HttpResponse:
    """Books another time (`use`) in the place of what was displaced."""
    found = queries.reservation_detail(pk) if pk <= _LARGEST_ID else None
    if found is None or not may(request.user, Action.REPLACE, found):
        raise Http404
    data = forms.with_override(request.POST)
    try:
        start = _typed(data, "start", request) if data.get("start") else None
        asked = replace(
            booking.in_place_of(found), card_ids=forms.card_ids(data), start=start, end=_typed(data, "end", request),
            key=_needed_key(request),
        )
        made = booking.reserve(request.user, asked, now=request.now)
    except _Unreadable as problem:
        return show(request, found, errors=(str(problem),), status=422)
    except Refused as problem:
        return show(request, found, reasons=refused.reasons(problem.refusals), status=refused.status(problem.refusals))
    except locking.Busy:
        return refused.retry(show(request, found, reasons=refused.busy(), status=409))
    messages.success(request, booked_words(made.allocations.count(), made), extra_tags=undo_tag(request, made))
    return lead(request, schedule_with(request, made))


@require_POST
@member_required
def undo_booking(request: HttpRequest, pk: int) -> HttpResponse:
    """Takes a booking or a move back within its seconds."""
    return _act(
        request, pk, Action.UNDO,
        lambda version: moving.undo(pk, by=request.user, version=version, now=request.now),
        _("Undone: all is as it was before."),
    )


@require_POST
@member_required
def take_equal(request: HttpRequest, pk: int) -> HttpResponse:
    """Books equal cards for the rest of the time for those that were taken from it."""
    found = queries.reservation_detail(pk) if pk <= _LARGEST_ID else None
    if found is None or not may(request.user, Action.TAKE_EQUAL, found):
        raise Http404
    try:
        made = replacing.take_equal(pk, by=request.user, now=request.now, key=_needed_key(request))
    except _Unreadable as problem:
        return show(request, found, errors=(str(problem),), status=422)
    except Refused as problem:
        return show(
            request, found, reasons=refused.reasons(problem.refusals), status=refused.status(problem.refusals)
        )
    except locking.Busy:
        return refused.retry(show(request, found, reasons=refused.busy(), status=409))
    messages.success(request, booked_words(made.allocations.count(), made), extra_tags=undo_tag(request, made))
    return lead(request, schedule_with(request, made))


def _longest(pk: int, request: HttpRequest) -> datetime | None:
    found = queries.reservation_detail(pk)
    return extension.longest_end(found, now=request.now) if found else None


def _key(request: HttpRequest) -> str:
    key = str(request.POST.get("key", ""))
    return key if key.isalnum() and key.isascii() and len(key) <= 80 else ""
