"""Small labs at random, from a seed: up to 3 hosts with up to 4 cards, up to 8 reservations of 1 to 3 cards in the way."""

from random import Random

from .brute import DAY, HOUR, Booking, Card, Lab, Request

TIERS = 5  # three, and two below for standing


def case(seed: int) -> tuple[Lab, Request]:
    """Values come from short ranges, so that ties are common."""
    chance = Random(seed)
    cards = _cards(chance)
    start = DAY + chance.randrange(0, 2 * DAY, 2)
    request = Request(
        start, start + chance.choice([2, HOUR, 4 * HOUR, 8 * HOUR, DAY]), chance.choice([1, 1, 2, 2, 3, 4]),
        (0, chance.choice([0, 0, 0, 1, 2])), several_hosts=chance.random() < 0.4,
    )
    now = start - chance.choice([1, 9 * HOUR, 20 * HOUR, 30 * HOUR, 40 * HOUR, 40 * HOUR])
    bookings: list[Booking] = []
    # Those in the way, as many as the case is crowded, and then neighbours that leave gaps.
    for _ in range(chance.choice([0, 2, 5, 8, 8, 8])):
        length = chance.choice([HOUR, 2 * HOUR, 2 * HOUR, 6 * HOUR, DAY])
        first = chance.randrange(max(now + 1, request.start - length + 1), request.end)
        _add(bookings, chance, cards, first, first + length, now)
    for _ in range(chance.randrange(10)):
        length = chance.choice([2, HOUR, 3 * HOUR])
        gap = chance.choice([0, 0, 1, 2, 4, 6, 7, 8, 9])
        first = request.end + gap if chance.random() < 0.6 else request.start - gap - length
        if first > now:
            _add(bookings, chance, cards, first, first + length, now)
    return Lab(now, cards, tuple(bookings)), request


def _cards(chance: Random) -> tuple[Card, ...]:
    places = [(f"host{host}", bus) for host in chance.sample("abc", chance.choice([1, 2, 3, 3]))
              for bus in chance.sample(range(1, 7), chance.choice([1, 2, 3, 4, 4]))]
    numbers = chance.sample(range(100, 200), len(places))
    often = chance.choice([0.0, 0.1, 0.4])
    return tuple(
        Card(number, host, f"00000000:{0x17 * bus:02X}:00.0", chance.random() < often)
        for number, (host, bus) in zip(numbers, places, strict=True)
    )


def _add(bookings: list[Booking], chance: Random, cards: tuple[Card, ...], start: int, end: int, now: int) -> None:
    """Books 1 to 3 cards that are free then (a card is held by one reservation, G1), if there are any."""
    taken = {card for one in bookings if one.start < end and start < one.end for card in one.cards}
    free = [card for card in cards if card.number not in taken]
    if not free:
        return
    host = chance.choice(free).host
    near = [card for card in free if card.host == host or chance.random() < 0.15]
    wanted = chance.choice([1, 1, 1, 2, 3])
    bookings.append(Booking(
        900 - 7 * len(bookings), frozenset(card.number for card in chance.sample(near, min(wanted, len(near)))), start, end,
        (int(chance.random() < 0.15), chance.randrange(1, TIERS)), now - chance.randrange(1, 5),
        chance.choice([0, 0, 0, 0, 1, 1, 2]),
    ))
