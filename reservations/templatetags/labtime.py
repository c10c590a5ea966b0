"""Instants in templates, in the words of the product (`labels`)."""

from __future__ import annotations

from datetime import date, datetime

from django import template

from .. import labels

register = template.Library()


@register.filter
def instant(value: datetime) -> str:
    """An instant by the lab's clock with its weekday: Tue 1 Dec 22:00."""
    return labels.instant(value)


@register.filter
def day(value: date) -> str:
    """A date with its weekday: Tue 1 Dec."""
    return labels.day(value)
