"""How a message leaves: what every transport promises."""

from __future__ import annotations

from typing import Protocol

from .message import Message


class TransportError(Exception):
    """A message did not leave. The text is shown to admins and to its recipient.

    `permanent`: trying again cannot help (the address does not exist, the message cannot be written).
    `channel`: the transport itself was not to be reached, so the next message would not leave either.
    """

    def __init__(self, cause: str, *, permanent: bool, channel: bool = False) -> None:
        super().__init__(cause)
        self.permanent = permanent
        self.channel = channel


class Transport(Protocol):
    """One way out. An instance serves one sweep in one thread; `close` gives back what it keeps open."""

    def send(self, message: Message) -> None:
        """Hands the message over, or raises `TransportError`. Returning means that the other side accepted it."""

    def close(self) -> None:
        """Ends what `send` may have kept open. Never raises."""
