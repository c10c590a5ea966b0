"""A request as views get it, for annotations: `LabMiddleware` and the sign-in have put these on it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from django.http import HttpRequest

if TYPE_CHECKING:
    from .models import Member
    from .queries import LabFacts


class LabRequest(HttpRequest):
    """`user` is a member behind `member_required`; before it, check `is_authenticated`."""

    lab: LabFacts
    now: datetime
    user: Member  # type: ignore[assignment]
