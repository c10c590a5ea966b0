"""Two hosts that name one card: by mistake (a host renamed, two readers on one machine) or by a lie."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reservations.models import AuditEntry, Host
from tests.monitoring.world import NOON, PERIOD, World, card

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def test_a_card_that_its_host_reads_goes_to_no_other_host_that_names_it(world: World) -> None:
    world.look(NOON)
    other = World(host="b200")
    before, sampled = AuditEntry.objects.count(), world.gpu().samples.count()
    other.look(NOON + PERIOD / 2, cards=[card("b200", 0, []), card("a100", 0, [], index=7)])
    world.look(NOON + PERIOD)
    mine = world.gpu()
    assert (mine.host.name, mine.index, world.state()) == ("a100", 0, "free")
    assert mine.samples.count() == sampled + 1
    assert list(AuditEntry.objects.order_by("pk").values_list("verb", flat=True))[before:] == ["find_card"]


def test_a_card_moves_to_the_host_that_names_it_when_the_old_one_is_silent(world: World) -> None:
    world.look(NOON)
    World(host="b200").look(NOON + MINUTE, cards=[card("a100", 0, [], index=7)])
    moved = world.gpu()
    assert (moved.host, moved.index) == (Host.objects.get(name="b200"), 7)
