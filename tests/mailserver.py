"""A mail server on the loopback that keeps what it accepts, and refuses whom it is told to refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.lab import free_port


class Mailserver:
    """`mails` are the accepted ones in order. `refuse` maps an address to the answer its RCPT gets; `on_data` answers DATA."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.recipients: list[str] = []
        self.refuse: dict[str, str] = {}
        self.on_data: Callable[[Envelope], str | None] = lambda envelope: None
        self.sessions = 0
        self.mails_per_session = 0
        self.port = 0

    async def handle_EHLO(
        self, server: SMTP, session: Session, envelope: Envelope, hostname: str, answers: list[str]
    ) -> list[str]:
        session.host_name = hostname
        self.sessions += 1
        session.taken = 0  # type: ignore[attr-defined]
        return answers

    async def handle_MAIL(self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]) -> str:
        if self.mails_per_session and session.taken >= self.mails_per_session:  # type: ignore[attr-defined]
            return "421 too many mails in one session"
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]) -> str:
        if address in self.refuse:
            return self.refuse[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if answer := self.on_data(envelope):
            return answer
        session.taken += 1  # type: ignore[attr-defined]
        self.mails.append(message_from_bytes(envelope.content, policy=policy.default))  # type: ignore[arg-type]
        self.recipients.extend(envelope.rcpt_tos)
        return "250 accepted"

    def subjects(self) -> list[str]:
        return [str(mail["Subject"]) for mail in self.mails]


def text_of(mail: EmailMessage) -> str:
    part: Any = mail.get_body(("plain",))
    return str(part.get_content())


def html_of(mail: EmailMessage) -> str:
    part: Any = mail.get_body(("html",))
    return str(part.get_content())


@contextmanager
def running(settings: Any) -> Iterator[Mailserver]:
    """The server, with Django's mail settings pointed at it."""
    handler = Mailserver()
    handler.port = free_port()
    controller = Controller(handler, hostname="127.0.0.1", port=handler.port)
    controller.start()
    try:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", handler.port
        settings.EMAIL_TIMEOUT = 10
        yield handler
    finally:
        controller.stop()
