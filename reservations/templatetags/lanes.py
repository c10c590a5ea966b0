"""The pieces on a lane, and the lines behind all lanes, as HTML.

A week has hundreds of them and is asked for every 20 s by everybody who looks: made by the template engine they took most
of the answer's time. Everything that people typed is escaped here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from django import template
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from ..views.calendar import Span
from ..views.pieces import Piece

register = template.Library()


@register.filter
def pieces_html(pieces: Iterable[Piece]) -> SafeString:
    """The list items of one lane."""
    before, after = reverse("reservation", args=[0]).split("0")
    return mark_safe("".join(_items(pieces, before, after, reverse("schedule"))))  # noqa: S308


@register.filter
def heads_html(spans: Iterable[Span], kind: str) -> SafeString:
    """The headings over columns: days in bold, hours."""
    if kind == "day":
        return mark_safe("".join(f'<span class="cal-day {one.css}"><b>{escape(one.words)}</b></span>' for one in spans))  # noqa: S308
    return mark_safe("".join(f'<span class="cal-hour {one.css}">{escape(one.words)}</span>' for one in spans))  # noqa: S308


@register.filter
def lines_html(spans: Iterable[Span], kind: str) -> SafeString:
    """Shades or lines behind the lanes."""
    return mark_safe("".join(f'<i class="{kind} {one.css}"></i>' for one in spans))  # noqa: S308


def _items(pieces: Iterable[Piece], before: str, after: str, schedule: str) -> Iterator[str]:
    for piece in pieces:
        kind, start, end, key, said, reservation_id, look, letter, holder, times, number, day, parts, grip = piece
        words = escape(said)
        if kind == "block":
            page = f"{before}{reservation_id}{after}"
            own = f' data-own="{grip}"' if grip else ""
            yield (
                f'<li class="slot s{start} e{end}"><button class="block {escape(look)}" id="{key}" formaction="{page}" '
                f'hx-get="{page}" hx-target="#panel"{own} title="{words}">'
                f'<span class="tier-mark" aria-hidden="true">{escape(letter)}</span>'
                f'<span class="who" aria-hidden="true">{escape(holder)}</span>'
                f'<span class="when" aria-hidden="true">{times}</span>'
                f'<span class="visually-hidden">{words}</span></button></li>\n'
            )
        elif kind == "closed":
            yield (
                f'<li class="slot closed s{start} e{end}" id="{key}" title="{words}"><span aria-hidden="true">'
                f'{escape(holder)}</span><span class="visually-hidden">{words}</span></li>\n'
            )
        else:
            for part in parts:
                yield f'<li class="part {escape(part.look)} {part.css}" aria-hidden="true">{escape(part.holder)}</li>'
            yield (
                f'<li class="group s{start} e{end}"><a href="{schedule}?view=list&amp;from={day}" id="{key}" '
                f'title="{words}"><span class="count" aria-hidden="true">{number}</span>'
                f'<span class="visually-hidden">{words}</span></a></li>\n'
            )
