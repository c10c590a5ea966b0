"""The pieces on a lane as HTML.

A week has hundreds of them and is asked for every 20 s by everybody who looks: made by the template engine they took most
of the answer's time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django import template
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from ..views.calendar import Piece

register = template.Library()


@register.filter
def pieces_html(pieces: Iterable[Piece]) -> SafeString:
    """The list items of one lane. Everything that people typed is escaped here."""
    address = reverse("reservation", args=[0])
    schedule = reverse("schedule")
    return mark_safe("".join(_items(pieces, address, schedule)))  # noqa: S308


def _items(pieces: Iterable[Piece], address: str, schedule: str) -> Iterator[str]:
    for piece in pieces:
        words = escape(piece.words)
        if piece.kind == "block":
            page = address.replace("/0/", f"/{piece.reservation_id}/")
            yield (
                f'<li class="slot {piece.css}"><button class="block {_look(piece)}" id="{piece.key}" formaction="{page}" '
                f'hx-get="{page}" hx-target="#panel" title="{words}">'
                f'<span class="tier-mark" aria-hidden="true">{escape(piece.letter)}</span>'
                f'<span class="who" aria-hidden="true">{escape(piece.holder)}</span>'
                f'<span class="when" aria-hidden="true">{piece.times}</span>'
                f'<span class="visually-hidden">{words}</span></button></li>\n'
            )
            continue
        if piece.kind == "closed":
            yield (
                f'<li class="slot closed {piece.css}" id="{piece.key}" title="{words}"><span aria-hidden="true">'
                f'{escape(piece.holder)}</span><span class="visually-hidden">{words}</span></li>\n'
            )
            continue
        for part in piece.parts:
            yield f'<li class="part {_look(part)} {part.css}" aria-hidden="true">{escape(part.holder)}</li>'
        yield (
            f'<li class="group {piece.css}"><a href="{schedule}?view=list&amp;from={piece.day}" id="{piece.key}" '
            f'title="{words}"><span class="count" aria-hidden="true">{piece.count}</span>'
            f'<span class="visually-hidden">{words}</span></a></li>\n'
        )


def _look(piece: Piece) -> str:
    marks = (("own", piece.own), ("ended", piece.ended), ("new", piece.new))
    return " ".join([f"t-{escape(piece.tier)}", *(name for name, holds in marks if holds)])
