"""`make bench`: what LabGPU's hot requests cost, as multiples of a bare Django view measured in the same run.

The floor (`floor/`) is a one-file Django app that is never tuned. Each figure is the median over rounds of
(p50 of the request) / (p50 of the floor's /hello), the two measured in turn within each round, so that whatever else the
machine does weighs on both. Results go to var/bench.json; a figure over its budget makes the run fail.

From the environment: BENCH_DATABASES (`sqlite postgres`), BENCH_STORED (a second size of the database, such as 1000000, whose
figures are compared with those of the first), BENCH_RACES (rounds of 16 clients that want one hour; 1000 for the whole
promise). `make bench-full` sets both.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench import httpload
from tests.bench.servers import DATABASES, STORED, Floor, Product, Request, database

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 5
READS, BOOKINGS, HELLOS = 60, 40, 150
CLIENTS, AT_ONCE = 8, 160  # clients that book together, and how many bookings they share
RACERS, RACES = 16, int(os.environ.get("BENCH_RACES", "10"))
SECOND_SIZE = int(os.environ.get("BENCH_STORED", "0"))


@dataclass(frozen=True)
class Figure:
    """One line of var/bench.json. `ratio`: what is promised, in `unit`; at most `budget`, or at least where `is_floor`."""

    name: str
    database: str
    ratio: float
    unit: str
    budget: float
    is_floor: bool
    raw: dict[str, float]
    seed: dict[str, Any]
    commit: str

    @property
    def holds(self) -> bool:
        return self.ratio >= self.budget if self.is_floor else self.ratio <= self.budget


@dataclass(frozen=True)
class Work:
    """One request of the product: how to ask it in round n, what a good answer is, and its budget in multiples of /hello."""

    ask: Callable[[int], list[Request]]
    status: int
    budget: float


def main() -> int:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    figures = [figure for kind in DATABASES for figure in _measure(kind, commit)]
    target = ROOT / "var" / "bench.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps([asdict(figure) for figure in figures], indent=1) + "\n", encoding="utf-8")
    for figure in figures:
        word = "ok" if figure.holds else "OVER"
        raw = ", ".join(f"{name} {value:g}" for name, value in figure.raw.items())
        bound = f"at least {figure.budget:g}" if figure.is_floor else f"at most {figure.budget:g}"
        print(f"{word:5} {figure.name:24} {figure.database:9} {figure.ratio:7.2f} {figure.unit} ({bound}); {raw}")
    seeds = [json.loads(text) for text in dict.fromkeys(json.dumps(figure.seed) for figure in figures)]
    print(f"seeds: {seeds}")
    print(f"written to {target.relative_to(ROOT)}")
    return 0 if all(figure.holds for figure in figures) else 1


def _measure(kind: str, commit: str) -> list[Figure]:
    with database(kind) as place, Floor(kind, place) as floor, Product(kind, place) as product:

        def figure(
            name: str, ratio: float, budget: float, raw: dict[str, float], unit: str = "x /hello", *, is_floor: bool = False,
            of: Product = product,
        ) -> Figure:
            kept = {key: round(value, 3) for key, value in raw.items()}
            return Figure(name, kind, round(ratio, 2), unit, budget, is_floor, kept, of.seed, commit)

        works = _works(product)
        first = _rounds(floor, product, works)
        found = [figure(name, ratio, works[name].budget, raw) for name, (ratio, raw) in first.items()]
        with Product(kind, place, cards=64, name="wide") as wide:
            ratio, raw = _wide(product, wide)
            found.append(figure("week of 64 cards", ratio, 4.5, raw, "x 8 cards", of=wide))
        used = ROUNDS * BOOKINGS
        share, raw = _together(floor, product, used)
        found.append(figure(f"{CLIENTS} clients booking", share, 40, raw, "% of the floor's rate", is_floor=True))
        worst, raw = _races(product, used + ROUNDS * AT_ONCE)
        found.append(figure(f"{RACES} races of {RACERS}", worst, 40, raw, "x one booking"))
        if SECOND_SIZE:
            with Product(kind, place, stored=SECOND_SIZE, name="full") as full:
                second = _rounds(floor, full, _works(full))
                found += [
                    figure(f"{name}, full", ratio / first[name][0], 1.3, raw, f"x with {STORED}", of=full)
                    for name, (ratio, raw) in second.items()
                ]
        return found


def _works(product: Product) -> dict[str, Work]:
    return {
        "week fragment": Work(lambda n: [product.week()] * READS, 200, 20),
        "week unchanged": Work(lambda n: product.week_again(READS), 304, 6),
        "whole page": Work(lambda n: [product.page()] * READS, 200, 28),
        "preview, refused": Work(lambda n: [product.preview()] * READS, 200, 22),
        "booking": Work(lambda n: product.bookings(n * BOOKINGS, BOOKINGS), 303, 22),
    }


def _asked(server: Floor | Product, requests: list[Request], status: int) -> float:
    """The p50 of these requests, one after the other, in milliseconds."""
    done = httpload.seq(server.target, requests, ok=lambda answered, _: answered == status)
    if done["bad"]:
        raise SystemExit(f"bench: {done['bad']} wrong answers, such as {done['sample']}")
    return float(httpload.pct(done["lat"], 0.5) * 1e3)


def _rounds(floor: Floor, product: Product, works: dict[str, Work]) -> dict[str, tuple[float, dict[str, float]]]:
    """Each request's median multiple of /hello, with the medians in milliseconds."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    _asked(floor, [floor.hello()] * HELLOS, 200)  # both servers warm before anything counts
    _asked(product, [product.week()] * 5, 200)
    for number in range(ROUNDS):
        for name, work in works.items():
            hello = _asked(floor, [floor.hello()] * HELLOS, 200)
            times[name].append((_asked(product, work.ask(number), work.status), hello))
    return {
        name: (
            statistics.median(own / hello for own, hello in found),
            {"p50_ms": statistics.median(own for own, _ in found), "hello_ms": statistics.median(hello for _, hello in found)},
        )
        for name, found in times.items()
    }


def _wide(product: Product, wide: Product) -> tuple[float, dict[str, float]]:
    """A week of 64 cards as a multiple of one of 8."""
    _asked(wide, [wide.week()] * 3, 200)
    pairs = [(_asked(product, [product.week()] * READS, 200), _asked(wide, [wide.week()] * READS, 200)) for _ in range(ROUNDS)]
    raw = {"p50_ms": statistics.median(large for _, large in pairs), "of_8_ms": statistics.median(small for small, _ in pairs)}
    return statistics.median(large / small for small, large in pairs), raw


def _together(floor: Floor, product: Product, first: int) -> tuple[float, dict[str, float]]:
    """Bookings a second of several clients at once, in percent of what the floor's `reserve-full` does beside it."""
    pairs = []
    for number in range(ROUNDS):
        rates = []
        for server, requests, status in (
            (floor, floor.reserves(number * AT_ONCE, AT_ONCE), 201),
            (product, product.bookings(first + number * AT_ONCE, AT_ONCE), 303),
        ):
            done = httpload.conc(server.target, requests, CLIENTS, ok=lambda answered, _, good=status: answered == good)
            if done["bad"]:
                raise SystemExit(f"bench: {done['bad']} wrong answers of several clients, such as {done['sample']}")
            rates.append(done["rps"])
        pairs.append(rates)
    raw = {"a_second": statistics.median(own for _, own in pairs), "floor_a_second": statistics.median(its for its, _ in pairs)}
    return statistics.median(100 * own / its for its, own in pairs), raw


def _races(product: Product, first: int) -> tuple[float, dict[str, float]]:
    """The slowest answer of all rounds in which several clients want one hour, as a multiple of one booking. Exactly one may
    have it, and nobody may be answered 5xx."""
    one = _asked(product, product.bookings(first, BOOKINGS), 303)
    slowest = 0.0
    for number in range(RACES):
        answers = httpload.race(product.target, product.race(first + BOOKINGS + number, RACERS))
        statuses = sorted(status for status, _, _ in answers)
        if statuses.count(303) != 1 or not {*statuses} <= {303, 409, 422}:
            raise SystemExit(f"bench: race {number} for one hour was answered {statuses}")
        slowest = max(slowest, *(seconds for _, _, seconds in answers))
    return slowest * 1e3 / one, {"slowest_ms": slowest * 1e3, "one_ms": one}


if __name__ == "__main__":
    sys.exit(main())
