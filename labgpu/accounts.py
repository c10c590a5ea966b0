"""Sign-in: allauth's hooks. Sign-up is closed; people join by an invite (`reservations.services.people.join`)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.auth_backends import AuthenticationBackend
from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy as _

from reservations import queries
from reservations.models import Member


class Backend(AuthenticationBackend):
    """Sign-in by allauth; who is signed in is read by a query that is compiled once (docs/adr/0013)."""

    def get_user(self, user_id: Any) -> Member | None:
        member = queries.member_or_none(int(user_id))
        return member if member is not None and self.user_can_authenticate(member) else None


class Adapter(DefaultAccountAdapter):
    """Closed sign-up, addresses in lower case, mails in their reader's language with links to the site's own address."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "email_password_mismatch": _("The e-mail address or the password is wrong."),
        "enter_current_password": _("This is not your current password."),
        "incorrect_code": _("This code is wrong. Check it, or send a new one."),
        "too_many_login_attempts": _("Too many failed tries. Wait a few minutes, then try again."),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def is_safe_url(self, url: str | None) -> bool:
        """After sign-in people stay on this site: a path of it, never another address, of their own machine neither."""
        return url_has_allowed_host_and_scheme(url, allowed_hosts=None)

    def clean_email(self, email: str) -> str:
        return str(super().clean_email(email)).lower()

    def get_reset_password_from_key_url(self, key: str) -> str:
        """Made of SITE_URL, never of the Host header: that one the asker writes."""
        path = reverse("account_reset_password_from_key", kwargs={"uidb36": "UID", "key": "KEY"})
        return str(settings.SITE_URL + path.replace("UID-KEY", quote(key)))

    def send_notification_mail(
        self, template_prefix: str, user: Member, context: dict[str, Any] | None = None, email: str | None = None
    ) -> None:
        super().send_notification_mail(template_prefix, user, context, email=email or user.email)

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """In the reader's language and zone, whoever's request causes it (UI-11)."""
        lab = queries.lab_facts()
        reader = Member.objects.filter(email=email.lower()).first()
        language = (reader.language if reader else translation.get_language()) or lab.language
        words = {"lab_name": lab.name or "LabGPU", "site_url": settings.SITE_URL}
        with translation.override(language), timezone.override(lab.zone):
            super().send_mail(template_prefix, email, {**words, **context})
