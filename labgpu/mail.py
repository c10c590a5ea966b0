"""Mail when the lab has no mail server: kept for admins, who pass it on."""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import parseaddr

from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.utils import timezone

from reservations.services import keptmail


class NoMailServer(ValueError):
    """A reminder cannot leave. Kept, it would crowd out the sign-in codes, and its links would be seen by admins."""


class KeptForAdmins(BaseEmailBackend):
    """Keeps account mails where admins see them (members page), so that sign-in codes and links still reach people.

    Reminders (they say `Auto-Submitted`) are refused with `NoMailServer`: the row then says why it was not sent.
    """

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        if any("Auto-Submitted" in message.extra_headers for message in email_messages):
            raise NoMailServer("no mail server is set up: set EMAIL_URL")
        now = timezone.now()
        for message in email_messages:
            to = ", ".join(parseaddr(one)[1] or one for one in message.to)
            keptmail.keep(to=to, subject=str(message.subject), body=str(message.body), now=now)
        return len(email_messages)
