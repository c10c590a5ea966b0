"""Readings come in once, whatever is sent again, late, shuffled, broken or by a host with a wrong clock."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from monitoring.models import HostReading, Incident, ProcessInterval, Sample
from monitoring.services import judge as judging
from monitoring.services import retention
from monitoring.services.ingest import Outcome, ingest
from reservations.models import CardState, Demerit, Gpu, Host, Notification
from tests.conftest import ExpectLogs
from tests.monitoring.world import NOON, PERIOD, World, process, uuid

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def decided() -> tuple[Any, ...]:
    """All that was decided or told, without keys."""
    return (
        list(CardState.objects.order_by("gpu__uuid").values_list("gpu__uuid", "state", "since", "sampled_at", "owner_ids")),
        list(Incident.objects.values_list("allocation", "first_sight", "counted_at", "closed_at")),
        list(Demerit.objects.values_list("fact", "issued_at", "evidence")),
        sorted(Notification.objects.values_list("key", flat=True)),
        list(Sample.objects.order_by("gpu", "at").values_list("gpu", "at", "received_at", "processes")),
        list(ProcessInterval.objects.order_by("pid", "started").values_list("pid", "first_seen", "last_seen", "member")),
    )


def guilty(world: World) -> None:
    ann, bo = world.member("ann", 2001), world.member("bo", 2002)
    world.book(ann, NOON - 2 * HOUR, NOON)
    world.book(bo, NOON, NOON + 2 * HOUR)
    world.on[0] = [process(100, 2001)]


def test_what_the_tests_store_at_once_is_what_one_by_one_would_have_stored(world: World) -> None:
    """The shortcut by which these tests let hours pass leaves the rows that readings sent singly leave."""
    guilty(world)
    instants = [NOON - HOUR + place * PERIOD for place in range(7)]
    kept: list[tuple[Any, ...]] = []
    for at_once in (True, False):
        sid, sequence = transaction.savepoint(), world.sequence
        for some in [instants] if at_once else [[one] for one in instants]:
            world.store(some)
        rows = [
            [{**row, "id": None} for row in model.objects.order_by("pk").values()]
            for model in (HostReading, Sample, ProcessInterval)
        ]
        kept.append((*rows, world.sequence))
        transaction.savepoint_rollback(sid)
        world.sequence = sequence
    assert kept[0] == kept[1]
    assert len(kept[0][1]) == 8 and kept[0][3] == world.sequence + 7


# --- hosts and cards --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("lab")
def test_a_host_nobody_entered_appears_with_its_cards() -> None:
    world = World(host="new-box", cards=2)
    assert world.look(NOON) == Outcome.STORED
    host = Host.objects.get()
    assert (host.name, host.simulated, host.has_reader) == ("new-box", False, True)
    assert list(host.gpus.values_list("uuid", "index", "model")) == [
        (uuid("new-box", place), place, "NVIDIA A100-SXM4-80GB") for place in range(2)
    ]
    assert list(CardState.objects.values_list("state", flat=True)) == ["free", "free"]


@pytest.mark.usefixtures("lab")
def test_a_machine_without_cards_makes_no_host() -> None:
    problem = {"code": "no_library", "detail": "libnvidia-ml.so.1 was not found"}
    assert World().look(NOON, cards=[], problem=problem) == Outcome.IGNORED
    assert World().look(NOON, cards=[]) == Outcome.IGNORED
    assert not Host.objects.exists()


def test_a_host_in_trouble_says_so_and_its_cards_are_unknown(world: World) -> None:  # NV-07
    world.look(NOON)
    world.look(NOON + PERIOD, cards=[], problem={"code": "mismatch", "detail": "reboot"})
    assert (HostReading.objects.get().problem_code, world.state()) == ("mismatch", "unknown")
    world.look(NOON + HOUR, cards=[], problem={"code": "mismatch", "detail": "reboot"})
    assert world.state() == "unknown"
    world.look(NOON + HOUR + PERIOD)
    assert (HostReading.objects.get().problem_code, world.state()) == ("", "free")


def test_simulated_data_never_stands_beside_real_cards(world: World, expect_logs: ExpectLogs) -> None:
    expect_logs("simulated data never stands beside real cards")
    assert World(host="sim", simulated=True).look(NOON) == Outcome.REFUSED
    world.simulated = True
    assert world.look(NOON) == Outcome.REFUSED
    assert (Host.objects.count(), Gpu.objects.count(), Sample.objects.count()) == (1, 1, 1)


@pytest.mark.usefixtures("lab")
def test_real_cards_never_stand_beside_simulated_data(expect_logs: ExpectLogs) -> None:
    expect_logs("simulated data never stands beside real cards")
    assert World(host="sim", simulated=True).look(NOON) == Outcome.STORED
    assert CardState.objects.get().simulated
    assert World().look(NOON) == Outcome.REFUSED


def test_one_lost_card_leaves_the_others_alone(world: World) -> None:  # NV-04
    world.cards = 8
    world.look(NOON)
    world.changes[3] = {"problem": {"code": "lost", "detail": "GPU is lost"}, "processes": None}
    world.look(NOON + PERIOD)
    assert [world.state(place) for place in range(8)] == ["free"] * 3 + ["offline"] + ["free"] * 4


def test_a_card_that_its_host_no_longer_names_is_unknown_then_offline(world: World) -> None:
    world.cards = 2
    world.look(NOON)
    world.cards = 1
    world.play(NOON + PERIOD, NOON + 3 * PERIOD)
    assert (world.state(0), world.state(1)) == ("free", "free")
    world.play(NOON + 4 * PERIOD, NOON + 5 * PERIOD)
    assert (world.state(0), world.state(1)) == ("free", "unknown")
    world.play(NOON + 15 * MINUTE, NOON + 15 * MINUTE + PERIOD)
    assert (world.state(0), world.state(1)) == ("free", "offline")


def test_reservations_follow_the_card_when_numbers_are_swapped(world: World) -> None:  # NV-15
    world.cards = 2
    world.look(NOON - HOUR)
    ann = world.member("ann", 2001)
    world.book(ann, NOON - HOUR, NOON + HOUR)
    world.on[0] = [process(100, 2001)]
    world.changes = {0: {"index": 1}, 1: {"index": 0}}
    world.look(NOON)
    assert (world.state(0), world.state(1), world.gpu(0).index) == ("in_use", "free", 1)


# --- processes --------------------------------------------------------------------------------------------------------


def test_a_process_is_one_interval_and_a_pid_given_away_again_another(world: World) -> None:
    ann = world.member("ann", 2001)
    world.on[0] = [process(100, 2001, started=7)]
    world.play(NOON, NOON + 2 * PERIOD)
    world.on[0] = [process(100, 2009, started=900)]
    world.play(NOON + 3 * PERIOD, NOON + 4 * PERIOD)
    assert list(ProcessInterval.objects.order_by("pk").values_list("started", "member", "owner", "first_seen", "last_seen")) == [
        (7, ann.pk, "verified", NOON, NOON + 2 * PERIOD),
        (900, None, "unknown", NOON + 3 * PERIOD, NOON + 4 * PERIOD),
    ]


def test_a_process_that_ended_before_it_was_looked_up_leaves_the_rest_of_the_sample(world: World) -> None:  # AT-05
    world.on[0] = [process(100, None, started=None, problem="gone")]
    world.look(NOON)
    sample = Sample.objects.get(at=NOON)
    assert (sample.has_processes, sample.utilization, world.state()) == (True, 90, "unknown")
    assert not ProcessInterval.objects.exists()


def test_unread_and_empty_process_lists_stay_apart(world: World) -> None:
    world.changes[0] = {"processes": None, "problem": {"code": "processes_unread", "detail": ""}}
    world.look(NOON)
    world.changes[0] = {}
    world.look(NOON + PERIOD)
    assert list(Sample.objects.order_by("at").values_list("has_processes", "processes"))[-2:] == [(None, None), (False, [])]


def test_the_holder_s_first_and_last_process_are_noted(world: World) -> None:
    ann = world.member("ann", 2001)
    held = world.book(ann, NOON - HOUR, NOON + HOUR)
    world.look(NOON)
    world.on[0] = [process(100, 2001)]
    world.play(NOON + PERIOD, NOON + 3 * PERIOD)
    world.on[0] = []
    world.look(NOON + 4 * PERIOD)
    held.refresh_from_db()
    assert (held.first_seen, held.last_seen) == (NOON + PERIOD, NOON + 3 * PERIOD)


def test_a_damaged_row_makes_its_own_card_unknown_and_no_other(world: World) -> None:
    world.cards = 2
    world.look(NOON)
    world.look(NOON + PERIOD)
    Sample.objects.filter(gpu=world.gpu(0), at=NOON + PERIOD).update(processes=[["nonsense"]])
    CardState.objects.all().delete()
    judging.judge_all(now=NOON + PERIOD, period=PERIOD)
    assert (world.state(0), world.state(1)) == ("unknown", "free")


def test_a_card_that_cannot_be_judged_stops_no_other(
    world: World, expect_logs: ExpectLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_logs("Card a100:0 could not be judged")
    world.cards = 2
    world.look(NOON)
    honest = judging.verdicts.judge

    def poisoned(card: Any, *args: Any, **kwargs: Any) -> Any:
        if card.newest and card.newest.temperature == 66:
            raise RuntimeError("poison")
        return honest(card, *args, **kwargs)

    monkeypatch.setattr(judging.verdicts, "judge", poisoned)
    world.changes = {0: {"temperature": 66}}
    world.on[1] = [process(100, 2009)]
    world.look(NOON + PERIOD)
    assert (world.state(0), world.state(1)) == ("free", "unknown")


# --- again, late, shuffled --------------------------------------------------------------------------------------------


def test_the_same_reading_again_is_stored_once_and_changes_nothing(world: World) -> None:  # NV-16
    guilty(world)
    world.play(NOON, NOON + 12 * MINUTE)
    before = decided()
    again = world.reading(NOON + 12 * MINUTE)
    again["sequence"] -= 1
    world.sequence -= 1
    for _ in range(3):
        assert ingest(again, now=NOON + 12 * MINUTE + SECOND, period=PERIOD) == Outcome.REPEATED
    assert decided() == before


def test_readings_out_of_order_lead_to_the_same_decisions(world: World) -> None:  # NV-16: n, n again, n-1, n+1
    guilty(world)
    world.play(NOON, NOON + 10 * MINUTE - PERIOD)
    readings = [world.reading(NOON + 10 * MINUTE + place * PERIOD) for place in range(3)]
    for place in (1, 1, 0):
        ingest(readings[place], now=NOON + 10 * MINUTE + PERIOD, period=PERIOD)
    assert not Demerit.objects.exists()
    ingest(readings[2], now=NOON + 10 * MINUTE + 2 * PERIOD, period=PERIOD)
    one = Demerit.objects.get()
    assert [sample["at"] for sample in one.evidence["samples"]] == [
        (NOON + 10 * MINUTE + place * PERIOD).isoformat() for place in range(3)
    ]


def test_a_shuffled_tripled_backlog_decides_nothing(world: World) -> None:  # T9
    guilty(world)
    world.play(NOON, NOON + 5 * MINUTE)
    backlog = [world.reading(NOON + 5 * MINUTE + place * PERIOD) for place in range(1, 90)] * 3
    random.Random(7).shuffle(backlog)
    for reading in backlog:
        ingest(reading, now=NOON + 25 * MINUTE, period=PERIOD)
    assert (Demerit.objects.count(), Incident.objects.count()) == (0, 0)
    assert Sample.objects.filter(at__gt=NOON + 5 * MINUTE).count() == 89


def test_an_older_reading_brings_its_sample_and_nothing_else(world: World) -> None:
    world.look(NOON)
    late = world.reading(NOON + PERIOD)
    world.on[0] = [process(100, 2009)]
    world.look(NOON + 2 * PERIOD)
    assert ingest(late, now=NOON + 2 * PERIOD + SECOND, period=PERIOD) == Outcome.LATE
    reading = HostReading.objects.get()
    assert (reading.taken_at, reading.sequence, world.state()) == (NOON + 2 * PERIOD, late["sequence"] + 1, "unknown")
    assert Sample.objects.filter(at=NOON + PERIOD).exists()


# --- clocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "taken",
    [
        NOON + 2 * HOUR, NOON - 2 * HOUR, NOON - 90 * SECOND, NOON + 31 * SECOND, datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC), datetime(5138, 11, 16, tzinfo=UTC),
    ],
    ids=str,
)
def test_a_host_with_a_wrong_clock_is_flagged_unknown_and_heals(world: World, taken: datetime) -> None:  # NV-17
    world.look(NOON - PERIOD)
    world.look(taken, received=NOON)
    reading = HostReading.objects.get()
    assert reading.clock_offset_s == (NOON - taken).total_seconds()
    assert world.state() == "unknown"
    for place in range(1, 7):
        world.look(taken + place * PERIOD, received=NOON + place * PERIOD)
    assert world.state() == "unknown"
    world.look(NOON + 8 * PERIOD)
    assert (HostReading.objects.get().clock_offset_s, world.state()) == (0, "free")


def test_when_the_server_s_own_clock_was_set_back_the_card_moves_on(world: World) -> None:  # T7
    world.look(NOON + timedelta(days=35))
    world.on[0] = [process(100, 2009)]
    world.look(NOON)
    assert (world.state(), HostReading.objects.get().taken_at) == ("unknown", NOON)
    world.on[0] = []
    world.look(NOON + PERIOD)
    assert world.state() == "free"


def test_a_restart_of_the_reader_with_smaller_sequences_is_no_repeat(world: World) -> None:
    world.look(NOON)
    world.sequence = -1
    assert world.look(NOON + PERIOD) == Outcome.STORED


# --- what is no reading -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [None, 5, "x", [], {}, {"format": 1}, {"format": 2, "host": "a"}])
def test_what_is_no_reading_is_logged_and_refused(world: World, data: Any, expect_logs: ExpectLogs) -> None:
    expect_logs("A reading was refused")
    before = decided()
    assert ingest(data, now=NOON, period=PERIOD) == Outcome.REFUSED
    assert decided() == before


@pytest.mark.parametrize("name", ["a b", "x" * 64, "../etc", "主机", "a.b"])
@pytest.mark.usefixtures("lab")
def test_a_host_needs_a_name_that_can_be_one(name: str, expect_logs: ExpectLogs) -> None:
    expect_logs("is no host name")
    assert World(host=name).look(NOON) == Outcome.REFUSED
    assert not Host.objects.exists()


def mutated(reading: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """The reading with one to three values somewhere in it replaced, dropped or blown up."""
    broken = copy.deepcopy(reading)
    rubbish: list[Any] = [
        None, -1, 0, 1, 2**31, 2**63, 2**64, 1e300, "", "x" * 300, "\x00", "\ud800", "N/A", True, [], {}, [None], 0.5,
        "GPU-a100-0", "a100", 99, 4096,
    ]
    for _ in range(dice.randint(1, 3)):
        places = list(_places(broken))
        holder, key = dice.choice(places)
        if isinstance(holder, dict) and dice.random() < 0.15:
            del holder[key]
        else:
            holder[key] = dice.choice(rubbish)
    return broken


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield value, key
        yield from _places(inner)


def test_no_broken_reading_crashes_or_makes_a_busy_card_free(world: World, expect_logs: ExpectLogs) -> None:
    expect_logs("A reading")
    world.cards = 2
    dice = random.Random(20261130)
    world.on = {0: [process(100, 2001)], 1: [process(101, 0), process(102, 2009)]}
    world.look(NOON)
    outcomes = set()
    for place in range(1, 400):
        reading = mutated(world.reading(NOON + place * SECOND), dice)
        outcomes.add(ingest(reading, now=NOON + place * SECOND, period=PERIOD))
    assert {Outcome.STORED, Outcome.REFUSED} <= outcomes
    assert not Demerit.objects.exists()


# --- costs ------------------------------------------------------------------------------------------------------------


def statements(world: World, cards: int) -> list[str]:
    world.cards = cards
    world.on = {place: [process(100 + place, 2001), process(500 + place, 0)] for place in range(cards)}
    world.look(NOON - 2 * PERIOD)
    ann = world.member("ann", 2001)
    world.book(ann, NOON - HOUR, NOON + HOUR, places=tuple(range(cards)))
    world.look(NOON - PERIOD)
    reading = world.reading(NOON)
    with CaptureQueriesContext(connection) as caught:
        ingest(reading, now=NOON, period=PERIOD)
    assert {world.state(place) for place in range(cards)} == {"in_use"}
    return [query["sql"] for query in caught.captured_queries]


@pytest.mark.parametrize("cards", [2, 8])
@pytest.mark.usefixtures("lab")
def test_a_reading_costs_the_same_statements_whatever_the_number_of_cards(cards: int) -> None:
    found = statements(World(), cards)
    assert len(found) == 26, "\n".join(sql[:150] for sql in found)


# --- retention --------------------------------------------------------------------------------------------------------


def test_samples_older_than_two_days_go_in_small_batches_and_incidents_stay(world: World) -> None:
    world.look(NOON - timedelta(hours=49))
    world.play(NOON - 2 * PERIOD, NOON)
    assert retention.forget_samples(now=NOON) == 0  # the first row of the table is younger
    Sample.objects.all().delete()
    for place in range(5):
        world.look(NOON - timedelta(hours=49) + place * PERIOD)
    world.look(NOON)
    assert retention.forget_samples(now=NOON) == 5
    assert list(Sample.objects.values_list("at", flat=True)) == [NOON]
    assert retention.forget_samples(now=NOON) == 0
