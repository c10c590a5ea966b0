"""How a card looks on pages: what the sensor last said of it, and until when it is free or held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .. import labels, names, queries
from ..models import CardState, Gpu
from ..queries import ShownCard
from ..rules.facts import Closed
from ..services.booking import BookingRequest

# Fresh are samples of at most three periods (I1).
FRESH_PERIODS = 3
# How many holdings ahead of each card "held until" follows where one begins as another ends.
AHEAD = 6
GIB = 1024**3


@dataclass(frozen=True)
class CardLook:
    """One card as pages name it. `state` is a code of `CardState.State`; an old or missing sighting is unknown."""

    id: int
    host: str
    index: int
    label: str
    model: str
    memory: str
    in_service: bool
    state: str
    state_words: str
    since: datetime | None
    age: str
    fresh: bool


@dataclass(frozen=True)
class Hold:
    """Until when a card is free (`holder` empty; `until` None = nothing ahead), or who holds it until when.

    `short` leaves out the date where the weekday says enough. `closed`: it is in maintenance until then, and nobody holds it.
    """

    holder: str
    until: datetime | None
    words: str
    short: str
    closed: bool = False


def age_words(seconds: float) -> str:
    """How old a figure is, coarsely: pages that are polled must not change with every second."""
    minutes = int(seconds // 60)
    if minutes < 1:
        return _("less than a minute ago")
    if minutes < 120:
        return ngettext("%(n)d minute ago", "%(n)d minutes ago", minutes) % {"n": minutes}
    hours = minutes // 60
    if hours < 48:
        return ngettext("%(n)d hour ago", "%(n)d hours ago", hours) % {"n": hours}
    return ngettext("%(n)d day ago", "%(n)d days ago", hours // 24) % {"n": hours // 24}


def state_of(gpu: Gpu) -> CardState | None:
    """What the sensor last said of a card whose `state` was loaded with it."""
    try:
        return gpu.state
    except CardState.DoesNotExist:
        return None


def look(gpu: Gpu, now: datetime, hold: Hold) -> CardLook:
    """The card as pages show it. One that somebody holds is not called free because nothing runs on it."""
    return look_of(queries.shown_card(gpu), now, hold)


def look_of(card: ShownCard, now: datetime, hold: Hold) -> CardLook:
    """The same for a card that was read as a value."""
    age = seen_ago(card, now)
    fresh = age is not None and is_fresh(age)
    shown = str(card.state) if fresh else _UNKNOWN
    if shown == _FREE and hold.holder:
        shown = _HELD_EMPTY
    return CardLook(
        id=card.id, host=card.host, index=card.card_index, label=f"{card.host}:{card.card_index}",
        model=card.model.removeprefix("NVIDIA ").strip(), memory=gib(card.memory_total) if card.memory_total else "",
        in_service=card.service == _IN_SERVICE, state=shown, state_words=str(labels.CARD_STATE[shown]),
        since=card.since if fresh else None, age=_("never read") if age is None else age_words(age), fresh=fresh,
    )


_IN_SERVICE = str(Gpu.Service.IN_SERVICE)
_FREE, _UNKNOWN, _HELD_EMPTY = map(str, (CardState.State.FREE, CardState.State.UNKNOWN, CardState.State.HELD_EMPTY))


def seen_ago(card: ShownCard, now: datetime) -> float | None:
    """How many seconds ago the card was last read; None: never."""
    return None if card.sampled_at is None else (now - card.sampled_at).total_seconds()


def is_fresh(age: float) -> bool:
    """Whether a figure of this age, in seconds, is one of now (I1)."""
    return age <= FRESH_PERIODS * settings.SAMPLE_SECONDS


def gib(amount: int) -> str:
    """Bytes as whole GiB."""
    return f"{round(amount / GIB)} GiB"


LOOK_AHEAD = timedelta(days=30)


def holds(
    gpu_ids: Sequence[int], now: datetime, ahead: Iterable[queries.Block] | None = None
) -> dict[int, Hold]:
    """For each card, until when it is free or who holds it until when, as of `now`.

    `ahead`: what `coming` gives, and perhaps more maintenance, where it has been read.
    """
    on_card: dict[int, list[queries.Block]] = defaultdict(list)
    this, last = now.timestamp(), (now + LOOK_AHEAD).timestamp()
    for block in coming(gpu_ids, now) if ahead is None else ahead:
        if block.end > this and block.start < last:
            on_card[block.gpu_id].append(block)
    return {gpu_id: _hold(sorted(on_card[gpu_id], key=lambda one: one.start), now) for gpu_id in gpu_ids}


def coming(gpu_ids: Sequence[int], now: datetime) -> list[queries.Block]:
    """What `holds` rests on: the next that holds each card, and its maintenance."""
    return [*queries.next_blocks(gpu_ids, now, AHEAD), *queries.maintenance_blocks(gpu_ids, now, now + LOOK_AHEAD)]


def _hold(ahead: Iterable[queries.Block], now: datetime) -> Hold:
    holder, until, this = "", None, now.timestamp()
    for block in ahead:
        if block.start <= this and block.status == Closed.MAINTENANCE:
            return Hold("", *_until(_("in maintenance until %(time)s"), block.end, now), closed=True)
        if block.start <= this:
            holder, until = names.shown(block.holder_name), block.end
        elif until is None:
            return Hold("", *_until(_("free until %(time)s"), block.start, now))
        elif block.start > until:
            break
        else:  # the next one begins where this one ends: the card stays held
            until = block.end
    if until is None:
        return Hold("", None, _("nothing booked"), _("nothing booked"))
    return Hold(holder, *_until(_("held until %(time)s"), until, now))


def _until(words: str, seconds: float, now: datetime) -> tuple[datetime, str, str]:
    until = queries.instant_of(seconds)
    full = words % {"time": labels.instant(until)}
    if not is_near(seconds, now):
        return until, full, full
    # Translators: a weekday with 24-hour time, in Django's format letters
    return until, full, words % {"time": date_format(timezone.localtime(until), _("D H:i"))}


def is_near(seconds: float, now: datetime) -> bool:
    """Whether the weekday says enough of an instant."""
    return seconds - now.timestamp() < 6 * 86_400


def period_words(start: datetime, end: datetime) -> str:
    """A period with its days: Tue 1 Dec 22:00 – Wed 2 Dec 06:00; the day only once where it is the same."""
    same = timezone.localtime(start).date() == timezone.localtime(end).date()
    return f"{labels.instant(start)} – {labels.clock(end) if same else labels.instant(end)}"


def length_words(start: datetime, end: datetime) -> str:
    """An elapsed length: 8 h, 30 min, 1 h 30 min."""
    return labels.length(int((end - start).total_seconds()))


def wanted_words(wanted: BookingRequest) -> str:
    """The cards that a request asks for: by name, or how many of which kind."""
    if wanted.card_ids:
        return cards_words(queries.gpus_named(wanted.card_ids))
    return " · ".join(filter(None, [count_words(wanted), wanted.model or ""]))


def count_words(wanted: BookingRequest) -> str:
    """How many cards a request asks for."""
    count = len(wanted.card_ids) or wanted.count
    return ngettext("%(n)d card", "%(n)d cards", count) % {"n": count}


def cards_words(gpus: Iterable[Gpu]) -> str:
    """Cards by host: gpu-a: 0, 1; gpu-b: 3."""
    return places_words((gpu.host.name, gpu.index) for gpu in gpus)


def places_words(places: Iterable[tuple[str, int]]) -> str:
    """Cards named by host and index: gpu-a: 0, 1; gpu-b: 3."""
    by_host: dict[str, list[int]] = defaultdict(list)
    for host, index in places:
        by_host[host].append(index)
    return "; ".join(
        f"{host}: {', '.join(str(index) for index in sorted(indexes))}" for host, indexes in sorted(by_host.items())
    )
