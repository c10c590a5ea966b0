"""Mails that could not leave: kept a week, at most 200, for admins to pass on."""

from __future__ import annotations

from datetime import datetime, timedelta

from ..models import KeptMail

_KEEP, _MOST = timedelta(days=7), 200


def keep(*, to: str, subject: str, body: str, now: datetime) -> None:
    """Keeps one mail and lets old ones go."""
    KeptMail.objects.create(to=to[:254], subject=subject[:300], body=body[:20_000], at=now)
    KeptMail.objects.filter(at__lt=now - _KEEP).delete()
    surplus = KeptMail.objects.order_by("-at", "-pk").values_list("pk", flat=True)[_MOST:]
    KeptMail.objects.filter(pk__in=list(surplus)).delete()
