"""Mail when the lab has no mail server: kept for admins, who pass it on."""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import parseaddr

from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.utils import timezone

from reservations.services import keptmail


class KeptForAdmins(BaseEmailBackend):
    """Keeps each mail where admins see it (members page), so that sign-in codes and links still reach people."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        now = timezone.now()
        for message in email_messages:
            to = ", ".join(parseaddr(one)[1] or one for one in message.to)
            keptmail.keep(to=to, subject=message.subject, body=str(message.body), now=now)
        return len(email_messages)
