"""Sessions in the database, as Django keeps them; the read that every page begins with is compiled once (docs/adr/0013)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.sessions.backends import db
from django.db.models import QuerySet
from django.utils import timezone

from reservations.prepared import prepared

if TYPE_CHECKING:
    from datetime import datetime

    from django.contrib.sessions.models import Session


@prepared
def _sessions(key: str, now: datetime) -> QuerySet[Session]:
    from django.contrib.sessions.models import Session  # not before the apps are ready

    return Session.objects.filter(session_key=key, expire_date__gt=now)


class SessionStore(db.SessionStore):
    """The store that `SESSION_ENGINE` names."""

    def _get_session_from_db(self) -> Session | None:
        found = _sessions(self.session_key or "", timezone.now())
        if not found:
            self._session_key = None
            return None
        return found[0]
