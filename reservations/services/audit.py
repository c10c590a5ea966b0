"""The audit's one pen."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Model

from ..models import AuditEntry, Member
from ..prepared import insert

# What says something about a reservation and changes nothing that it holds.
WORDS_ONLY = (
    "confirm", "keep", "wish", "invite_collaborator", "accept_collaboration", "decline_collaboration", "remove_collaborator",
)


def note(
    verb: str, subject: Model, *, actor: Member | None, origin: str, now: datetime, reason: str = "", **change: Any
) -> AuditEntry:
    """Writes who did what to which row, in the caller's transaction. `change` must be JSON-able."""
    entry = AuditEntry(
        at=now, actor=actor, origin=origin, verb=verb, subject=type(subject).__name__.lower(), subject_id=subject.pk,
        change=change, reason=reason,
    )
    insert([entry])
    return entry
