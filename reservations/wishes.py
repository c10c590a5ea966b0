"""What somebody waits for, in words."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from . import labels
from .looks import model_name
from .models import Gpu, WaitlistEntry


def what_words(entry: WaitlistEntry) -> str:
    """The cards and the length of a wish: 2 × A100, 8 h."""
    # Translators: what somebody waits for: cards and a length, such as: 2 × A100, 8 h
    return _("%(cards)s, %(length)s") % {"cards": cards_words(entry), "length": labels.length(entry.length_s)}


def cards_words(entry: WaitlistEntry) -> str:
    """The cards of a wish: by name, or so many of a model, pool and memory. `entry.pool` should be loaded."""
    if entry.card_ids:
        return _(", ").join(str(gpu) for gpu in _in_order(entry.card_ids))
    kind = model_name(entry.model) if entry.model else ""
    said = ngettext("%(n)d card", "%(n)d cards", entry.count) % {"n": entry.count}
    if kind:
        said = f"{entry.count} × {kind}"
    parts = [said]
    if entry.pool is not None:
        # Translators: of which pool
        parts.append(_("pool %(pool)s") % {"pool": entry.pool.name})
    if entry.min_memory:
        parts.append(_("at least %(n)s GiB") % {"n": formats.number_format(entry.min_memory / (1 << 30), decimal_pos=0)})
    return _(", ").join(parts)


def _in_order(card_ids: Iterable[int]) -> list[Gpu]:
    return list(Gpu.objects.filter(pk__in=list(card_ids)).select_related("host").order_by("host__name", "index", "pk"))
