"""Sessions in the database, as Django keeps them.

The read that every page begins with is compiled once (docs/adr/0013), and what was read is understood once (docs/adr/0014).
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

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
    """The store that `SESSION_ENGINE` names.

    Whether a session still lives is asked of the database at each request. Only the proof that its text is ours (an HMAC) and
    its unpacking are kept, by the text itself: another text is proved anew.
    """

    def decode(self, session_data: bytes | str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(_proved(session_data))
        return found

    def _get_session_from_db(self) -> Session | None:
        found = _sessions(self.session_key or "", timezone.now())
        if not found:
            self._session_key = None
            return None
        return found[0]


@lru_cache(maxsize=1024)
def _proved(session_data: bytes | str) -> str:
    """The content of a session's text as JSON, so that every request gets its own; empty when the text is not ours."""
    return json.dumps(db.SessionStore().decode(session_data))
