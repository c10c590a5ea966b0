"""Mail: text and HTML by Django's mail backend, with the headers that machines and mail programs go by."""

from __future__ import annotations

import logging
import smtplib
from email.errors import MessageError
from email.headerregistry import Address
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection
from django.core.mail.backends.base import BaseEmailBackend

from .message import Message
from .transport import TransportError

log = logging.getLogger(__name__)

# A server that ends the session after so many mails says 421 or hangs up; the mail in hand then goes by a new session.
_SERVICE_CLOSING = 421


class EmailTransport:
    """Sends by one SMTP session for as long as it lives (a session per mail would be slow at six o'clock)."""

    def __init__(self) -> None:
        self._session: BaseEmailBackend | None = None

    def send(self, message: Message) -> None:
        mail = as_mail(message)
        kept_open = self._session is not None
        try:
            self._send(mail)
        except (smtplib.SMTPServerDisconnected, smtplib.SMTPResponseException) as problem:
            if not (kept_open and _closed_the_session(problem)):
                raise self._failed(problem) from problem
            self.close()
            try:
                self._send(mail)
            except _TROUBLE as again:
                raise self._failed(again) from again
        except _TROUBLE as problem:
            raise self._failed(problem) from problem

    def close(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        try:
            session.close()
        except (OSError, smtplib.SMTPException):
            log.info("the mail server did not say goodbye")

    def _send(self, mail: EmailMultiAlternatives) -> None:
        if self._session is None:
            session: BaseEmailBackend = get_connection()
            try:
                session.open()
            except (OSError, smtplib.SMTPException, ValueError) as problem:
                raise _Unreachable(_words(problem)) from problem
            self._session = session
        self._session.send_messages([mail])

    def _failed(self, problem: Exception) -> TransportError:
        # After any trouble the session's state is in doubt: the next mail gets a fresh one.
        self.close()
        return classify(problem)


class _Unreachable(Exception):
    """No session with the mail server."""


_TROUBLE = (_Unreachable, smtplib.SMTPException, OSError, ValueError, MessageError)


def _closed_the_session(problem: Exception) -> bool:
    return getattr(problem, "smtp_code", _SERVICE_CLOSING) == _SERVICE_CLOSING


def classify(problem: Exception) -> TransportError:
    """Whether trying again can help, and whether the server or only this mail is in trouble.

    A refusal of the sender or of the sign-in is about the lab's mail account, not about this mail: it passes when an
    admin corrects it, so nothing is given up for it.
    """
    words = _words(problem)
    match problem:
        case smtplib.SMTPRecipientsRefused():
            codes = [code for code, _ in problem.recipients.values()]
            return TransportError(words, permanent=bool(codes) and all(code >= 500 for code in codes))
        case smtplib.SMTPDataError():
            return TransportError(words, permanent=problem.smtp_code >= 500)
        case smtplib.SMTPNotSupportedError():
            return TransportError(words, permanent=True)
        case _Unreachable() | smtplib.SMTPException() | OSError():
            return TransportError(words, permanent=False, channel=True)
        case _:
            return TransportError(words, permanent=True)


def _words(problem: Exception) -> str:
    """A server's answer in one line."""
    if isinstance(problem, smtplib.SMTPRecipientsRefused):
        answers: list[tuple[int, bytes | str]] = list(problem.recipients.values())
    elif isinstance(problem, smtplib.SMTPResponseException):
        answers = [(problem.smtp_code, problem.smtp_error)]
    else:
        return " ".join(str(problem).split())[:300] or type(problem).__name__
    said = (f"{code} {text.decode('utf-8', 'replace') if isinstance(text, bytes) else text}" for code, text in answers)
    return " ".join("; ".join(said).split())[:300]


def as_mail(message: Message) -> EmailMultiAlternatives:
    """The mail of a message. Raises `TransportError` (permanent) when its address cannot be one."""
    host = urlsplit(settings.SITE_URL).hostname or "labgpu.invalid"
    thread = f"<labgpu.{message.thread}@{host}>"
    headers = {
        # The same for every attempt: a mail program shows a possible duplicate once.
        "Message-ID": f"<labgpu.{message.id}@{host}>",
        # No mail has this id; all mails about one reservation point to it and so lie in one thread.
        "In-Reply-To": thread,
        "References": thread,
        # RFC 3834: no robot answers this; the second line says the same to Exchange.
        "Auto-Submitted": "auto-generated",
        "X-Auto-Response-Suppress": "All",
    }
    if message.language:
        headers["Content-Language"] = message.language
    try:
        to = str(Address(display_name=message.recipient.name, addr_spec=message.recipient.email.strip()))
    except (ValueError, IndexError, MessageError) as problem:
        cause = f"not an e-mail address: {message.recipient.email[:80]!r}"
        raise TransportError(cause, permanent=True) from problem
    mail = EmailMultiAlternatives(subject=message.subject, body=message.text, to=[to], headers=headers)
    mail.attach_alternative(message.html, "text/html")
    return mail
