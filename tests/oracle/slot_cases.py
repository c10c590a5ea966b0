"""Small labs and searches at random, from a seed: two days around the turn of a week, every sort of rule in every mixture."""

from random import Random

from .brute_slots import DAY, HOUR, Card, Held, Lab, Pool, Request, Window

UNIT = 900 * 100 * 100  # a quarter at the plain rate and weight


def case(seed: int) -> tuple[Lab, Request]:
    """Values come from short ranges, so that limits are met exactly as often as passed."""
    chance = Random(seed)
    raster = chance.choice([2, 4, 4])
    day = chance.choice([0, 1, 4, 5, 6, 6])
    now = day * DAY + chance.choice([2, 9 * HOUR, 12 * HOUR - 1, 12 * HOUR, 16 * HOUR + 3, 20 * HOUR - 1, 20 * HOUR, 93])
    pools = tuple(
        Pool(number, chance.choice([100, 100, 250]), chance.choice([0, 0, 0, 0, 1, 2]), chance.choice([0, 0, 0, 0, 1, 2]))
        for number in range(1, chance.choice([2, 3, 3]))
    )
    cards = _cards(chance, pools)
    length = chance.choice([1, 1, 1, 2, 2, 3, 4, 5, 8, 12]) * HOUR
    until = now + chance.choice([12, 30, 42, 54]) * HOUR
    lab = Lab(
        now=now, raster=raster, opens_days=chance.choice([1, 3, 14]), windows=_windows(chance, pools),
        rest=frozenset({5, 6, 12, 13} | ({7} if chance.random() < 0.2 else set()) - ({6} if chance.random() < 0.2 else set())),
        pools=pools, cards=cards, held=_held(chance, cards, now, until), own=_own(chance, now, until),
        ahead=2 * (chance.random() < 0.06), most_cards=chance.choice([1, 2, 3, 4, 6, 6]), most_ahead=2, shortest=2,
        longest=chance.choice([6, 24, 72, 72]) * HOUR, walk_in_longest=chance.choice([1, 4, 8]) * HOUR,
        walk_in_cards=chance.choice([1, 2, 2]),
        free_seconds={day + n: chance.choice([0, 0, 1800, 10_000, 57_600]) for n in range(4)},
        room={n: UNIT * 4 * chance.choice([-1, 0, 1, 3, 5, 12, *[200] * 14]) for n in range(3)},
        elastic=chance.random() < 0.25,
    )
    named: tuple[int, ...] = ()
    if chance.random() < 0.25:
        named = tuple(sorted(chance.sample([card.number for card in cards], min(len(cards), chance.choice([1, 1, 2])))))
    request = Request(
        length, until, 0 if named else chance.choice([1, 1, 1, 1, 2, 2, 3]), named,
        chance.choice([None, None, now - 1, now, now + chance.randrange(1, 60)]),
        None if named else chance.choice([None, None, 1]), None if named else chance.choice([None, None, None, "a"]),
        chance.random() < 0.3,
    )
    return lab, request


def _cards(chance: Random, pools: tuple[Pool, ...]) -> tuple[Card, ...]:
    found: list[Card] = []
    numbers = chance.sample(range(100, 200), 12)
    for pool in pools:
        for host in chance.sample("abc", chance.choice([1, 2, 2])):
            for bus in chance.sample(range(1, 7), chance.choice([1, 2, 3, 3])):
                found.append(
                    Card(
                        numbers[len(found)], f"{pool.number}{host}", f"{bus:02}", pool.number, chance.choice("aaab"),
                        chance.random() < 0.15, chance.random() < 0.85,
                    )
                )
    return tuple(found)


def _windows(chance: Random, pools: tuple[Pool, ...]) -> tuple[Window, ...]:
    """Up to three, each for all pools or for one, by day, by night or always."""
    found = []
    for _ in range(chance.choice([0, 0, 1, 1, 2, 3])):
        from_, until = chance.choice([(9, 18), (9, 18), (18, 9), (0, 0), (22, 2), (13, 15)])
        found.append(
            Window(
                chance.choice(["open", "open", "open", "open", "long", "walk_in", "closed"]), chance.choice([0, 100, 150, 200]),
                chance.choice(["every", "working", "working", "rest"]), from_, until,
                chance.choice([None, None, 2, 4]) and chance.choice([2, 4]) * HOUR,
                chance.choice([None, None, *(pool.number for pool in pools)]),
            )
        )
    return tuple(found)


def _held(chance: Random, cards: tuple[Card, ...], now: int, until: int) -> tuple[Held, ...]:
    """From nothing to nearly all: turns on each card with gaps between them."""
    busy = chance.choice([0.1, 0.4, 0.6, 0.8, 1.0])
    found: list[Held] = []
    for card in cards:
        at = now - chance.randrange(1, 30)
        while at < until:
            length = chance.choice([2, 4, 8, 9, 20, 48])
            if chance.random() < busy and at + length > now:
                found.append(Held(card.number, at, at + length, chance.random() < 0.2))
            at += length + chance.choice([0, 0, 1, 3, 4, 7, 8, 16])
    return tuple(found)


def _own(chance: Random, now: int, until: int) -> tuple[tuple[int, int, bool], ...]:
    found = []
    for _ in range(chance.choice([0, 0, 1, 2, 3])):
        begun = chance.random() < 0.4
        start = now - 3 if begun else chance.randrange(now + 1, until)
        found.append((start, max(start + chance.choice([4, 12, 40]), now + 1), begun and chance.random() < 0.7))
    return tuple(found)
