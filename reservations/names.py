"""How members are named to others: in full or by initials, as the lab sets it (M1)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

FULL, INITIALS = "full", "initials"
WAYS = (FULL, INITIALS)

# In force while a page or message is drawn, like the zone and the language: names stand in too many places to hand it on.
_in_force: ContextVar[str] = ContextVar("show_names", default=FULL)


@contextmanager
def shown_as(way: str) -> Iterator[None]:
    """Names members in this way (`WAYS`) inside."""
    token = _in_force.set(way)
    try:
        yield
    finally:
        _in_force.reset(token)


def shown(name: object, way: str | None = None) -> str:
    """The name as others read it: as `way` says, else as is in force. Of an e-mail only what stands before the @ counts."""
    text = str(name)
    return initials(text) if (way or _in_force.get()) == INITIALS else text


def initials(name: str) -> str:
    """Ada Lovelace: A. L.; 王小明: 王**. Never empty for a name that is not."""
    words = name.split("@")[0].replace("-", " ").split()
    if not words:
        return name[:1]
    if len(words) == 1 and _is_ideographic(words[0]):
        return words[0][0] + "*" * (len(words[0]) - 1)
    return " ".join(f"{word[0].upper()}." for word in words)


def _is_ideographic(word: str) -> bool:
    return all(unicodedata.name(letter, "").startswith(("CJK UNIFIED", "HANGUL SYLLABLE")) for letter in word)
