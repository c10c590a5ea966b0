"""Instants in templates, in the words of the product (`labels`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from django import template
from django.contrib.messages.storage.base import Message

from .. import labels, names

register = template.Library()


@register.filter
def instant(value: datetime) -> str:
    """An instant by the lab's clock with its weekday: Tue 1 Dec 22:00."""
    return labels.instant(value)


@register.filter
def day(value: date) -> str:
    """A date with its weekday: Tue 1 Dec."""
    return labels.day(value)


@register.filter
def shown(member: object) -> str:
    """A member's name as others read it (M1)."""
    return names.shown(member)


@dataclass(frozen=True)
class Undo:
    """What the button of a toast undoes, and for how many seconds more."""

    pk: int
    version: int
    left_s: float


@register.simple_tag(takes_context=True)
def undo_of(context: template.Context, message: Message) -> Undo | None:
    """The undo that a message of success carries (`views.book.undo_tag`), while it lasts (H0)."""
    request = context.get("request")
    name, *numbers = (message.extra_tags or "").split(" ")
    if request is None or name != "undo" or len(numbers) != 3:
        return None
    pk, version, until = (int(number) for number in numbers)
    left_s = until / 1000 - request.now.timestamp()
    return Undo(pk, version, left_s) if left_s > 0 else None
