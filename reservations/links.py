"""The token of a link in a message (K4): what it lets its bearer do, and a keyed MAC over exactly that.

Nothing of it is stored. A token is bound to one reservation, one member, one action and one version of the reservation,
so changing any of these makes another token, which only the installation's secret can sign.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.conf import settings
from django.core.signing import BadSignature, Signer
from django.urls import reverse

from .models import Reservation
from .rules.policy import Policy

_SALT = "reservations.links"


class LinkAction(StrEnum):
    """What a link may be for. Undoing a release belongs to the link that released."""

    RELEASE = "release"
    EXTEND = "extend"
    CONFIRM = "confirm"
    KEEP = "keep"
    TAKE = "take"
    DECLINE = "pass"


class Forged(ValueError):
    """Not a token of this installation, whatever is wrong with it."""


@dataclass(frozen=True)
class Link:
    """What a token says."""

    reservation_id: int
    member_id: int
    action: LinkAction
    version: int

    @property
    def token(self) -> str:
        return _signer().sign(f"{self.reservation_id}.{self.member_id}.{self.action}.{self.version}")

    @property
    def url(self) -> str:
        """The whole address, as a message carries it."""
        return settings.SITE_URL + reverse("link", args=[self.token])

    @property
    def key(self) -> str:
        """The idempotency key of this link: however often it is pressed, it has one effect."""
        return "link:" + hashlib.sha256(self.token.encode()).hexdigest()


def _signer() -> Signer:
    return Signer(salt=_SALT)


def link_for(reservation: Reservation, action: LinkAction) -> Link:
    """The holder's link for one action on the reservation as it is now."""
    return Link(reservation.pk, reservation.holder_id, action, reservation.version)


def read(token: str) -> Link:
    """What a token says, its signature having been checked first. Raises `Forged`. Its age is judged by `is_over`."""
    try:
        said = _signer().unsign(token)
        reservation_id, member_id, action, version = said.split(".")
        return Link(int(reservation_id), int(member_id), LinkAction(action), int(version))
    except (BadSignature, ValueError) as problem:
        raise Forged from problem


def is_over(reservation: Reservation, policy: Policy, now: datetime) -> bool:
    """Whether links of this reservation have expired: some time after its end (K4)."""
    return now >= reservation.end + timedelta(seconds=policy.link_life_s)
