"""Job logs of real clusters, booked again: the ledger must tell the same hours as the file does.

What is expected is computed from the file alone, by `told`; what came of it is read by plain SQL.
"""

import csv
import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from reservations.models import Gpu, Host, Lab, Member
from reservations.services import replay
from tests.conftest import SHARED
from tests.factories import cards, lab, member, reservation

pytestmark = pytest.mark.django_db

SMALL = Path(__file__).resolve().parent.parent / "data" / "small_jobs.csv"
ALEX = SHARED / "data" / "traces" / "alex_gpu_jobs_2023-02-07.csv"
OPENB = SHARED / "data" / "traces" / "openb_pod_list_default.csv"
REPORT = Path(__file__).resolve().parents[2] / "docs" / "replay.md"
UNITS_PER_CARD_SECOND = 100 * 100  # rate and weight in hundredths (E1), written down here once more on purpose


# --- what the file says ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """Totals of a log in seconds × cards."""

    jobs: int
    people: int
    cards: int
    hosts: int
    booked: int
    net: int
    overrun: int
    overran: int


def told(path: Path) -> Told:
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    named = [row["cards"].split() for row in rows]
    assert [len(cards) for cards in named] == [int(row["num_acc"]) for row in rows]
    times = [(len(cards), int(row["booked_s"]), int(row["duration_s"])) for cards, row in zip(named, rows, strict=True)]
    return Told(
        jobs=len(rows),
        people=len({row["user"] for row in rows}),
        cards=len({card for cards in named for card in cards}),
        hosts=len({card.split("/")[0] for cards in named for card in cards}),
        booked=sum(n * booked for n, booked, _ in times),
        net=sum(n * min(booked, used) for n, booked, used in times),
        overrun=sum(n * max(used - booked, 0) for n, booked, used in times),
        overran=sum(used > booked for _, booked, used in times),
    )


# --- what the database says -----------------------------------------------------------------------------------------


def rows_of(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def instant(value: Any) -> datetime:
    """SQLite gives instants back as text."""
    found = datetime.fromisoformat(value) if isinstance(value, str) else value
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def seconds(start: Any, end: Any) -> float:
    return (instant(end) - instant(start)) / timedelta(seconds=1)


def ledger() -> dict[str, int]:
    return dict(rows_of("SELECT reason, SUM(units) FROM reservations_ledgerentry WHERE account = 'quota' GROUP BY reason"))


def held() -> float:
    """Seconds × cards that the allocations hold."""
    return sum(seconds(start, end) for start, end in rows_of('SELECT start, "end" FROM reservations_allocation'))


def overlaps() -> int:
    """Pairs of allocations of one card that share an instant, whatever their status."""
    return rows_of(
        "SELECT COUNT(*) FROM reservations_allocation a JOIN reservations_allocation b "
        'ON a.gpu_id = b.gpu_id AND a.id < b.id AND a.start < b."end" AND b.start < a."end"'
    )[0][0]


def assert_each_reservation_paid_for_what_it_held() -> None:
    """The ledger of each reservation is what its allocations held, at the plain rate."""
    paid = dict(
        rows_of("SELECT reservation_id, SUM(units) FROM reservations_ledgerentry WHERE account = 'quota' GROUP BY reservation_id")
    )
    due: Counter[int] = Counter()
    for pk, weight, start, end in rows_of('SELECT reservation_id, weight, start, "end" FROM reservations_allocation'):
        due[pk] += round(seconds(start, end)) * 100 * weight
    assert paid == due


def assert_told_in_order_of_time() -> None:
    """Everything that was written was written when its time had come."""
    moments = [instant(at) for (at,) in rows_of("SELECT at FROM reservations_auditentry ORDER BY id")]
    assert moments == sorted(moments)


def run(path: Path, *options: str) -> str:
    said = StringIO()
    call_command("replay_trace", str(path), *options, stdout=said)
    return said.getvalue()


def replayed(path: Path, tmp_path: Path, *options: str) -> dict[str, Any]:
    """All figures of one run of the command."""
    out = tmp_path / "result.json"
    run(path, "--json", str(out), *options)
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def assert_ledger_tells_what_the_file_tells(path: Path, result: dict[str, Any]) -> Told:
    file = told(path)
    assert (result["jobs"], result["people"], result["cards"], result["hosts"]) == (
        file.jobs, file.people, file.cards, file.hosts,
    )
    assert rows_of("SELECT COUNT(*) FROM reservations_reservation") == [(file.jobs,)]
    assert rows_of("SELECT COUNT(DISTINCT holder_id) FROM reservations_reservation") == [(file.people,)]
    assert rows_of("SELECT COUNT(DISTINCT gpu_id) FROM reservations_allocation") == [(file.cards,)]
    assert ledger() == {
        "booked": file.booked * UNITS_PER_CARD_SECOND, "released": (file.net - file.booked) * UNITS_PER_CARD_SECOND,
    }
    assert rows_of("SELECT COUNT(*) FROM reservations_ledgerentry WHERE account <> 'quota'") == [(0,)]
    assert held() == file.net
    assert (result["accepted"], result["refused"], result["reasons"]) == (file.jobs, 0, {})
    assert (result["booked_s"], result["held_s"]) == (file.booked, file.net)
    assert (result["overrun_s"], result["overran"]) == (file.overrun, file.overran)
    assert (overlaps(), result["overlaps"], result["not_released"]) == (0, 0, {})
    ended = dict(rows_of("SELECT status, COUNT(*) FROM reservations_reservation GROUP BY status"))
    assert set(ended) == {"released", "finished"}
    assert_each_reservation_paid_for_what_it_held()
    assert_told_in_order_of_time()
    return file


# --- a small log, everywhere ----------------------------------------------------------------------------------------


def test_a_small_log_comes_out_as_the_file_says(tmp_path: Path) -> None:
    """Cards taken over within the second, six over two hosts, two jobs that overran, a clock change, a change of week."""
    file = assert_ledger_tells_what_the_file_tells(SMALL, replayed(SMALL, tmp_path))
    assert (file.jobs, file.people, file.cards, file.overran, file.overrun) == (12, 5, 9, 2, 4 * 3661 + 1)
    weeks = rows_of("SELECT DISTINCT period FROM reservations_ledgerentry ORDER BY period")
    assert [str(week) for (week,) in weeks] == ["2026-03-23", "2026-03-30"]


def test_jobs_that_overran_end_at_the_booked_end_and_not_before(tmp_path: Path) -> None:
    replayed(SMALL, tmp_path)
    finished = rows_of("SELECT note FROM reservations_reservation WHERE status = 'finished' ORDER BY id")
    assert finished == [("2",), ("4",), ("9",)]  # the first of them ran to its end exactly


def test_people_of_a_log_take_part_but_cannot_sign_in(tmp_path: Path) -> None:
    replayed(SMALL, tmp_path)
    members = list(Member.objects.all())
    assert len(members) == 5
    assert all(one.is_approved and not one.has_usable_password() and one.email.endswith(".invalid") for one in members)
    assert Lab.objects.get().simulated
    assert rows_of("SELECT DISTINCT state FROM reservations_notification") == [("dropped",)]


def test_each_card_of_a_log_is_one_card_of_the_lab(tmp_path: Path) -> None:
    replayed(SMALL, tmp_path)
    places = {(gpu.host.name, gpu.bus_id, gpu.pool.name) for gpu in Gpu.objects.select_related("host", "pool")}
    assert len(places) == Gpu.objects.count() == 9
    assert ("n03", "", "a100") in places  # a log may not know the bus
    assert ("n01", "00000000:41:00.0", "a40") in places


def test_the_command_says_in_words_what_came_of_it() -> None:
    said = run(SMALL)
    assert "12 jobs of 5 people on 9 cards of 3 hosts" in said
    assert "12 accepted, 0 refused" in said
    assert "overrun apart 4.1 by 2 jobs" in said
    assert "cards held twice at one instant: 0" in said


@pytest.mark.parametrize("policy", ["strict", "balanced", "friendly"])
@pytest.mark.parametrize("asked", ["start", "evening"])
def test_under_a_preset_every_job_is_accepted_or_refused_with_a_reason(policy: str, asked: str, tmp_path: Path) -> None:
    result = replayed(SMALL, tmp_path, "--policy", policy, "--asked", asked)
    assert result["accepted"] + result["refused"] == 12
    assert bool(result["refused"]) == bool(result["reasons"])
    assert result["requests"]["calls"] == 12
    assert (overlaps(), result["overlaps"]) == (0, 0)
    assert_told_in_order_of_time()


def test_what_is_planned_is_asked_an_hour_before_its_day_freezes(tmp_path: Path) -> None:
    replayed(SMALL, tmp_path, "--policy", "balanced", "--asked", "evening")
    asked = rows_of("SELECT booked_at, start FROM reservations_reservation WHERE note = '1'")
    # 19:00 in Berlin; the start is on the lab's clock
    assert [(instant(a), instant(b)) for a, b in asked] == [
        (datetime(2026, 3, 26, 18, tzinfo=UTC), datetime(2026, 3, 27, 8, tzinfo=UTC)),
    ]


@pytest.mark.parametrize("make", [lab, member, lambda: Host.objects.create(name="n01")])
def test_a_log_is_never_mixed_with_a_lab(make: Any) -> None:
    make()
    with pytest.raises(CommandError, match="a folder of its own"):
        run(SMALL)
    assert not rows_of("SELECT 1 FROM reservations_reservation")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("booked_s", "asked_s", "line 1: no column booked_s"),
        ("2026-03-27T08:00:07Z", "yesterday", "line 2: start_time takes a time"),
        ("2026-03-27T08:00:07Z", "2026-03-27T08:00:07", "line 2: start_time needs its zone"),
        ("1800,7200", "-5,7200", "line 2: duration_s takes a whole number"),
        ("1800,7200", "1800,0", "line 2: booked_s takes 1 second or more"),
        ("n01/00000000:25:00.0 n01", "n01/00000000:41:00.0 n01", "line 3: cards takes"),
        ("single_user,n02", "single_user, /n02", "line 5: cards takes"),
    ],
)
def test_a_log_that_cannot_be_read_is_named_by_its_line(old: str, new: str, said: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.csv"
    broken.write_text(SMALL.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(CommandError, match=said):
        run(broken)
    assert not Lab.objects.exists()


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        run(tmp_path / "none.csv")


def test_the_search_for_overlaps_finds_one() -> None:
    """Control: rows that the guard of the database does not look at, since they hold no longer."""
    lab()
    (card,), who = cards(1), member()
    for first in (reservation(who, [card], 1, 3), reservation(who, [card], 3, 5)):
        first.allocations.update(status="finished")
    assert overlaps() == 0
    first.allocations.update(start=first.start - timedelta(seconds=1))
    assert overlaps() == 1


# --- a log without people and cards ---------------------------------------------------------------------------------

TASKS = """name,num_gpu,gpu_milli,creation_time,deletion_time
a,1,1000,0,100
b,0,0,5,3600
c,1,460,10,500
d,2,1000,20,9000000
e,8,1000,30,40
"""


def test_tasks_without_a_card_are_skipped_and_a_part_of_a_card_asks_for_a_whole_one() -> None:
    log = replay.read_openb(StringIO(TASKS), replay.pool("A100×8"))
    assert log.skipped == 1
    assert [(job.name, job.count) for job in log.jobs] == [("a", 1), ("c", 1), ("d", 2), ("e", 8)]


def test_times_are_stretched_between_half_an_hour_and_three_days_and_asked_for_in_whole_hours() -> None:
    log = replay.read_openb(StringIO(TASKS), replay.pool("A100×8"))
    hours = [(job.used / timedelta(hours=1), job.booked / timedelta(hours=1)) for job in log.jobs]
    assert hours == [(2000 / 3600, 1), (9800 / 3600, 3), (72, 72), (0.5, 1)]


def test_tasks_take_the_cards_that_are_free_and_are_refused_where_none_is(tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv"
    path.write_text(TASKS, encoding="utf-8")
    result = replayed(path, tmp_path, "--format", "openb", "--cards", "A100×8")
    assert (result["accepted"], result["refused"], result["reasons"]) == (3, 1, {"not_enough_cards": 1})
    assert held() == 2000 + 9800 + 2 * 72 * 3600
    assert_each_reservation_paid_for_what_it_held()


def test_the_pool_is_said_by_model_and_count() -> None:
    places = replay.pool("A100×9, T4 x 2")
    assert Counter(place.host for place in places) == {"a100-001": 8, "a100-002": 1, "t4-001": 2}
    assert {place.model for place in places} == {"A100", "T4"}


@pytest.mark.parametrize("spec", ["A100", "×8", "A100×0", "A100×8,A100×8", "A100×8,"])
def test_a_pool_that_makes_no_sense_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match=r"COUNT|one count"):
        replay.pool(spec)


@pytest.mark.parametrize("options", [("--format", "openb"), ("--cards", "A100×8")])
def test_cards_are_given_for_a_log_that_names_none_and_for_no_other(options: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match="--cards goes with"):
        run(SMALL, *options)


# --- logs that others wrote -----------------------------------------------------------------------------------------


@pytest.mark.shared_data
def test_a_real_log_comes_out_as_the_file_says(tmp_path: Path) -> None:
    file = assert_ledger_tells_what_the_file_tells(ALEX, replayed(ALEX, tmp_path))
    assert (file.jobs, file.people, file.cards, file.overran) == (303, 41, 263, 20)
    hours = [round(value / 3600, 1) for value in (file.booked, file.net, file.overrun, file.net + file.overrun)]
    assert hours == [12_380.6, 3_863.8, 116.3, 3_980.0]


def reported(heading: str) -> dict[str, list[int]]:
    """The rows of the first table under a heading of the report, by their code."""
    part = REPORT.read_text(encoding="utf-8").split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    cells = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|"]
    return {row[0]: [int(cell) for cell in row[1:5]] for row in cells[2:]}


@pytest.mark.once  # figures of the rules; that a replay writes soundly on either database, the two around this one hold
@pytest.mark.shared_data
@pytest.mark.parametrize(("asked", "column"), [("evening", 0), ("start", 2)])
def test_the_report_says_what_balanced_accepts_and_refuses(asked: str, column: int, tmp_path: Path) -> None:
    """Changing a rule changes these figures: run the commands of the report again and write down there what they say."""
    result = replayed(ALEX, tmp_path, "--policy", "balanced", "--asked", asked)
    assert result["accepted"] + result["refused"] == 303
    assert (overlaps(), result["not_released"]) == (0, {})
    found = {code: [result[code]] * 2 for code in ("accepted", "refused")}
    found |= {code: [count, result["alone"].get(code, 0)] for code, count in result["reasons"].items()}
    table = {code: cells[column : column + 2] for code, cells in reported("The same log under *balanced*").items()}
    assert {code: cells for code, cells in table.items() if any(cells)} == found


@pytest.mark.shared_data
@pytest.mark.once
def test_a_large_log_as_load_breaks_nothing(tmp_path: Path) -> None:
    """Its first 600 rows; docs/replay.md has the whole of it."""
    path = tmp_path / "tasks.csv"
    with OPENB.open(encoding="utf-8") as lines:
        path.write_text("".join(line for line, _ in zip(lines, range(601), strict=False)), encoding="utf-8")
    with path.open(encoding="utf-8", newline="") as rows:
        asking = [row for row in csv.DictReader(rows) if row["num_gpu"] != "0"]
    result = replayed(path, tmp_path, "--format", "openb", "--cards", "G2×16")
    assert (result["jobs"], result["skipped"]) == (len(asking), 600 - len(asking))
    assert result["requests"]["calls"] == len(asking)
    assert result["accepted"] == rows_of("SELECT COUNT(*) FROM reservations_reservation")[0][0] > 0
    assert set(result["reasons"]) == {"not_enough_cards"}
    assert (overlaps(), result["overlaps"], result["not_released"]) == (0, 0, {})
    assert held() == result["held_s"]
    assert_each_reservation_paid_for_what_it_held()
    assert_told_in_order_of_time()


@pytest.mark.shared_data
def test_the_whole_of_the_large_log_is_what_the_report_says_it_is() -> None:
    with OPENB.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 8152
    assert sum(row["num_gpu"] == "0" for row in rows) == 1088
    assert sum(row["num_gpu"] != "0" and int(row["gpu_milli"]) < 1000 for row in rows) == 3078
    log = replay.read_openb(OPENB.read_text(encoding="utf-8").splitlines(), replay.pool("G2×64"))
    assert (len(log.jobs), log.skipped) == (7064, 1088)
    assert all(one.start <= other.start for one, other in pairwise(log.jobs))
