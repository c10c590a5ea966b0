"""What a ruling may waive (L3): never the raster, a card held by one, the open days, or what has started."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum

from .facts import Facts


class Waiver(StrEnum):
    """A rule, or a section of the law, that an arbiter may set aside for one reservation."""

    LIMITS = "B1"  # cards at once, reservations that lie ahead
    ORDER = "D"  # kinds, ranks, freeze and closing hour: whoever has not started makes room
    QUOTA = "E"
    WINDOWS = "F"
    RESERVE = "G4"
    QUICK = "G7"


def waiving(facts: Facts, waivers: Iterable[Waiver]) -> Facts:
    """The facts as the law is to see them once these rules are set aside."""
    waived = frozenset(waivers)
    pools = {
        number: replace(
            pool, reserve=0 if Waiver.RESERVE in waived else pool.reserve, quick=0 if Waiver.QUICK in waived else pool.quick
        )
        for number, pool in facts.pools.items()
    }
    may_displace = facts.may_displace or Waiver.ORDER in waived
    return replace(facts, pools=pools, may_displace=may_displace, waived=waived)
