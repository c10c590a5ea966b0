"""When a card is really gone, and when nobody can say (G6, I1)."""

from datetime import UTC, datetime, timedelta

import pytest

from monitoring.rules.lost import Answers, How, Seen, losses
from reservations.rules.policy import BALANCED

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
PERIOD = timedelta(seconds=10)


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def host(number: int = 1, heard: float = 0, steady: float = 60, *, in_order: bool = True) -> Answers:
    return Answers(number, ago(heard), ago(steady), in_order)


OTHER = host(2)


@pytest.mark.parametrize(
    ("last", "hosts", "how"),
    [
        (15, [host()], How.GONE),
        (14.9, [host()], None),  # not long enough
        (0, [host()], None),
        (60, [host(steady=14)], None),  # the host has not answered long enough to say so
        (60, [host(steady=15)], How.GONE),
        (60, [host(in_order=False)], None),  # trouble with the host says nothing of its cards
        (15, [host(heard=15), OTHER], How.SILENT),
        (15, [host(heard=14.9), OTHER], None),
        (15, [host(heard=15)], None),  # the only host: the silence may be LabGPU's own
        (15, [host(heard=15), host(2, steady=14)], None),  # LabGPU itself has not listened long enough
        (15, [host(heard=15), host(2, heard=1)], None),  # the other is silent too
        (15, [host(heard=15, in_order=False), OTHER], None),
        (None, [host(heard=15), OTHER], None),  # never read
    ],
)
def test_g6_i1_only_what_was_looked_for_all_the_time_is_lost(
    last: float | None, hosts: list[Answers], how: How | None
) -> None:
    seen = Seen(7, 1, None if last is None else ago(last))
    found = losses([seen], hosts, now=NOW, policy=BALANCED, period=PERIOD)
    assert [one.how for one in found] == ([] if how is None else [how])


def test_g6_a_loss_counts_from_when_it_was_first_looked_for() -> None:
    (one,) = losses([Seen(7, 1, ago(60))], [host(steady=20)], now=NOW, policy=BALANCED, period=PERIOD)
    assert (one.gpu_id, one.since) == (7, ago(20))
