"""What a ruling may waive (L3): never the raster, a card held by one, the open days, or what has started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType

from .facts import Facts
from .refusal import Code, Refusal


class Waiver(StrEnum):
    """A rule, or a section of the law, that an arbiter may set aside for one reservation."""

    LIMITS = "B1"  # cards at once, reservations that lie ahead
    ORDER = "D"  # kinds, ranks, freeze and closing hour: whoever has not started makes room
    QUOTA = "E"
    WINDOWS = "F"
    RESERVE = "G4"
    QUICK = "G7"


_AGAINST: Mapping[Code, tuple[Waiver, ...]] = MappingProxyType({
    Code.CARDS_AT_ONCE: (Waiver.LIMITS,), Code.OPEN_FUTURE: (Waiver.LIMITS,),
    Code.CARD_TAKEN: (Waiver.ORDER,), Code.NOT_ENOUGH_CARDS: (Waiver.ORDER,), Code.NO_DISPLACING: (Waiver.ORDER,),
    Code.WALK_IN_LONG: (Waiver.ORDER,), Code.WALK_IN_CARDS: (Waiver.ORDER,), Code.QUOTA: (Waiver.QUOTA,),
    Code.WINDOW_CLOSED: (Waiver.WINDOWS,), Code.WINDOW_WALK_IN: (Waiver.WINDOWS,), Code.WINDOW_LONG: (Waiver.WINDOWS,),
    Code.WINDOW_HOURS: (Waiver.WINDOWS,), Code.WALK_IN_WINDOW: (Waiver.WINDOWS,),
    Code.RESERVE_KEPT: (Waiver.RESERVE, Waiver.QUICK),
})


def would_help(refusals: Iterable[Refusal]) -> frozenset[Waiver]:
    """What a ruling would have to set aside for a request that was refused so; empty when no ruling can help."""
    found: set[Waiver] = set()
    for refusal in refusals:
        if refusal.code not in _AGAINST:
            return frozenset()
        found.update(_AGAINST[refusal.code])
    return frozenset(found)


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
