"""The transports LabGPU has. A further one is one file beside this and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from .email import EmailTransport
from .transport import Transport

TRANSPORTS: Mapping[str, Callable[[], Transport]] = MappingProxyType(
    {
        "email": EmailTransport,
    }
)
