"""What is said to one person, ready to leave by any transport."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

# Control characters and the line and paragraph separators: none belongs in a name, an address or a subject, and in a
# mail's head a line break would begin a header of the writer's choice.
_BREAKS = {"Cc", "Zl", "Zp"}


class BadMessage(ValueError):
    """A message that no transport may carry; the text says which part and what is wrong with it."""


def has_break(text: str) -> bool:
    """Whether the text holds a line break or another control character."""
    return any(unicodedata.category(character) in _BREAKS for character in text)


def one_line(text: str) -> str:
    """The text on one line: every run of white space and control characters becomes one space."""
    return " ".join("".join(" " if has_break(character) else character for character in text).split())


@dataclass(frozen=True)
class Recipient:
    """Whom it is for: the name people call them, and the address per transport (e-mail today)."""

    name: str
    email: str


@dataclass(frozen=True)
class Action:
    """A button of a message. Its address shows a page; nothing happens before a press there."""

    label: str
    url: str


@dataclass(frozen=True)
class Message:
    """One message in the recipient's language.

    `id` stays the same for every attempt, so that a duplicate can be told; `thread` holds together what is about one
    reservation. Raises `BadMessage` when a part that stands on one line has a line break.
    """

    id: str
    thread: str
    recipient: Recipient
    subject: str
    text: str
    html: str
    actions: tuple[Action, ...] = ()
    language: str = ""

    def __post_init__(self) -> None:
        parts = {
            "id": self.id, "thread": self.thread, "subject": self.subject, "language": self.language,
            "recipient's name": self.recipient.name, "recipient's address": self.recipient.email,
        }
        for part, value in parts.items():
            if has_break(value):
                raise BadMessage(f"the {part} holds a line break or control character: {value[:80]!r}")
        if not self.subject.strip() or not self.recipient.email.strip():
            raise BadMessage("a message needs a subject and an address")
