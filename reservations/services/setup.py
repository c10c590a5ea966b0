"""The one-time link by which the first admin sets the lab up."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.urls import reverse

from ..models import Member
from . import people

_LIFE = timedelta(days=1)


def _file() -> Path:
    return Path(settings.DATA_DIR) / "setup_token"


def is_open() -> bool:
    """Whether nobody has become admin yet."""
    return not Member.objects.filter(is_admin=True).exists()


def link(now: datetime) -> str | None:
    """A fresh one-time set-up address (the previous one is void), or None when the lab has its admin.

    The file holds a hash and an expiry; the token itself is printed once and kept nowhere.
    """
    if not is_open():
        _file().unlink(missing_ok=True)
        return None
    token = secrets.token_urlsafe(24)
    _file().write_text(f"{people.hash_token(token)} {(now + _LIFE).timestamp():.0f}\n", encoding="ascii")
    _file().chmod(0o600)
    return str(settings.SITE_URL) + reverse("setup", args=[token])


def is_valid(token: str, now: datetime) -> bool:
    """Whether this is the token printed last, unexpired, and the lab still lacks an admin."""
    try:
        kept, until = _file().read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return False
    fits = secrets.compare_digest(kept, people.hash_token(token))
    return fits and now.timestamp() < float(until) and is_open()


def close() -> None:
    """Voids the link after use."""
    _file().unlink(missing_ok=True)
