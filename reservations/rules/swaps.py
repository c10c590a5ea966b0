"""Equal cards in place of those that are gone (G5, G6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .facts import Card


def swaps(held: Sequence[Card], gone: Iterable[int], free: Iterable[Card]) -> Mapping[int, int] | None:
    """For each card of `held` that is gone an equal one, of its pool and model, from `free`; None where there are too few.

    On the hosts that it is on; else all of it together on one other host, or, where it was on several hosts, wherever equal
    cards are. Lowest bus id first.
    """
    lost = set(gone)
    missing = [card for card in held if card.id in lost]
    mine = {card.id for card in held}
    others = [card for card in free if card.id not in mine]
    hosts = {card.host for card in held}
    at_home = _match(missing, [card for card in others if card.host in hosts])
    if at_home is not None:
        return at_home
    if len(hosts) > 1:
        return _match(missing, others)
    for host in sorted({card.host for card in others} - hosts):
        elsewhere = _match(held, [card for card in others if card.host == host])
        if elsewhere is not None:
            return elsewhere
    return None


def _match(wanted: Sequence[Card], free: Iterable[Card]) -> Mapping[int, int] | None:
    left = sorted(free, key=lambda card: (card.bus_id, card.host, card.id))
    found: dict[int, int] = {}
    for card in sorted(wanted, key=lambda card: (card.bus_id, card.host, card.id)):
        equal = next((one for one in left if (one.pool_id, one.model) == (card.pool_id, card.model)), None)
        if equal is None:
            return None
        left.remove(equal)
        found[card.id] = equal.id
    return found
