"""Equal cards in place of those that are gone: on the same host, else all together elsewhere (G5, G6)."""

import pytest

from reservations.rules.facts import Card
from reservations.rules.swaps import swaps


def card(number: int, host: str = "a", model: str = "A100", pool: int = 1) -> Card:
    return Card(number, f"{host}:{number}", 100, True, pool, host, f"{number:02}", model)


@pytest.mark.parametrize(
    ("held", "gone", "free", "found"),
    [
        ([card(1)], [1], [card(3), card(2)], {1: 2}),  # lowest bus id
        ([card(1)], [1], [card(2, "b"), card(3)], {1: 3}),  # the same host first
        ([card(1)], [1], [card(2, "b")], {1: 2}),
        ([card(1), card(2)], [1], [card(3, "b"), card(4, "b")], {1: 3, 2: 4}),  # together on the other host
        ([card(1), card(2)], [1], [card(3, "b")], None),
        ([card(1), card(2, "b")], [1], [card(3, "c")], {1: 3}),  # was on several hosts already
        ([card(1)], [1], [card(2, model="H100"), card(3, pool=2)], None),
        ([card(1)], [1], [card(1)], None),
        ([card(1), card(2)], [1, 2], [card(3), card(4)], {1: 3, 2: 4}),
        ([card(1)], [], [card(2)], {}),
    ],
)
def test_g6_an_equal_card_is_of_the_same_pool_and_model(
    held: list[Card], gone: list[int], free: list[Card], found: dict[int, int] | None
) -> None:
    assert swaps(held, gone, free) == found
