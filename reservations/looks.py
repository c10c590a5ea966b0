"""The cards of a reservation in words, and what the sensor says of them now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from labgpu.notify.message import one_line

from . import labels
from .models import Allocation, CardState, Gpu, Reservation
from .reader import near
from .rules.lifecycle import Status

# More cards than this are counted in a subject and not listed.
_LISTED = 4


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
    """What the sensor says of one card. `own`: whether processes of the holder's side were seen; None = not known (I1)."""

    label: str
    words: str
    own: bool | None

    @property
    def line(self) -> str:
        """gpu-a:0: free, no processes"""
        # Translators: a card and what is so with it, such as: gpu-a:0: free
        return _("%(card)s: %(words)s") % {"card": self.label, "words": self.words}


def people_of(reservation: Reservation) -> frozenset[int]:
    """Whose processes count as the holder's: the holder and who accepted to collaborate (B4)."""
    return frozenset({reservation.holder_id, *reservation.collaborator_ids})


def looks(rows: Sequence[Allocation], people: Collection[int], now: datetime) -> list[Look]:
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
            found.append(Look(str(row.gpu), _state_words(state), _own_processes(state, people)))
    return found


def _own_processes(state: CardState, people: Collection[int]) -> bool | None:
    if set(people) & set(state.owner_ids):
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
    """The reservation's cards in the order of pages, with host and what the sensor last said; none given back alone."""
    return standing(all_cards_of(reservation_id))


def standing(rows: Iterable[Allocation]) -> list[Allocation]:
    """The cards that a reservation stands for: none that was given back alone, nor one taken away while others went on."""
    kept = [row for row in rows if row.given_back_at is None]
    return [row for row in kept if row.status != Status.INTERRUPTED] or kept


def names_of(card_ids: Sequence[int]) -> list[str]:
    """The cards by their short names: gpu-a:0."""
    return [str(gpu) for gpu in Gpu.objects.filter(pk__in=card_ids).select_related("host")]


def all_cards_of(reservation_id: int) -> list[Allocation]:
    """As `cards_of`, with those that were given back alone after the start."""
    rows = Allocation.objects.filter(reservation=reservation_id).select_related("gpu__host", "gpu__state")
    return list(rows.order_by("gpu__host__name", "gpu__index", "gpu_id"))
