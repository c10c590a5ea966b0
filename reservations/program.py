"""Which program this is: what it draws changes with its code, templates, texts and styles, whatever the database holds."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from django.conf import settings

_DRAWN_BY = (
    ("labgpu", "*.py"), ("reservations", "*.py"), ("monitoring", "*.py"), ("templates", "*"), ("locale", "*.po"), ("static", "*"),
)


@lru_cache(maxsize=1)
def version() -> str:
    """A hash over all that makes pages: the same in every process of one version, another after an update."""
    found = hashlib.blake2b(digest_size=8)
    for folder, pattern in _DRAWN_BY:
        for path in sorted((Path(settings.BASE_DIR) / folder).rglob(pattern)):
            if path.is_file():
                found.update(str(path.relative_to(settings.BASE_DIR)).encode())
                found.update(path.read_bytes())
    return found.hexdigest()
