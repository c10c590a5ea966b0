"""`make bench`: what LabGPU's hot requests cost, as multiples of a bare Django view measured in the same run.

The floor (`floor/`) is a one-file Django app that is never tuned. Each figure is the median over rounds of
(p50 of the request) / (p50 of the floor's /hello), the two measured in turn within each round, so that whatever else the
machine does weighs on both. Results go to var/bench.json; a ratio over its budget makes the run fail.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench import httpload
from tests.bench.servers import DATABASES, Floor, Product, database

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 5
READS, BOOKINGS, HELLOS = 60, 40, 150


@dataclass(frozen=True)
class Figure:
    """One line of var/bench.json. `ratio` = p50 / p50 of /hello, median of the rounds; `p50_ms` raw, likewise."""

    name: str
    database: str
    ratio: float
    p50_ms: float
    hello_p50_ms: float
    budget: float
    answered_bytes: int
    rounds: int
    commit: str

    @property
    def holds(self) -> bool:
        return self.ratio <= self.budget


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
        print(
            f"{word:5} {figure.name:14} {figure.database:9} {figure.ratio:6.1f} x /hello (budget {figure.budget:g}), "
            f"p50 {figure.p50_ms:.2f} ms, /hello {figure.hello_p50_ms:.2f} ms, {figure.answered_bytes} bytes"
        )
    print(f"written to {target.relative_to(ROOT)}")
    return 0 if all(figure.holds for figure in figures) else 1


def _measure(kind: str, commit: str) -> list[Figure]:
    with database(kind) as place, Floor(kind, place) as floor, Product(kind, place) as product:
        work = {
            # name: (requests of one round, what is a good answer, budget)
            "week fragment": (lambda n: [product.week()] * READS, lambda status, _: status == 200, 20.0),
            "week unchanged": (lambda n: product.week_again(READS), lambda status, _: status == 304, 6.0),
            "booking": (lambda n: product.bookings(n, BOOKINGS), lambda status, _: status == 303, 22.0),
        }
        raw: dict[str, list[float]] = {name: [] for name in work}
        hellos: dict[str, list[float]] = {name: [] for name in work}
        size = dict.fromkeys(work, 0)
        httpload.seq(floor.target, [floor.hello()] * HELLOS)  # both servers warm before anything counts
        httpload.seq(product.target, [product.week()] * 5)
        for number in range(ROUNDS):
            for name, (requests, good, _) in work.items():
                hello = httpload.seq(floor.target, [floor.hello()] * HELLOS)
                done = httpload.seq(product.target, requests(number), ok=good)
                if done["bad"] or hello["bad"]:
                    raise SystemExit(f"bench: {name} on {kind}: {done['bad']} wrong answers, such as {done['sample']}")
                hellos[name].append(httpload.pct(hello["lat"], 0.5) * 1e3)
                raw[name].append(httpload.pct(done["lat"], 0.5) * 1e3)
                size[name] = done["size"]
        return [
            Figure(
                name, kind, round(statistics.median(a / b for a, b in zip(raw[name], hellos[name], strict=True)), 2),
                round(statistics.median(raw[name]), 3), round(statistics.median(hellos[name]), 3), work[name][2],
                size[name], ROUNDS, commit,
            )
            for name in work
        ]


if __name__ == "__main__":
    sys.exit(main())
