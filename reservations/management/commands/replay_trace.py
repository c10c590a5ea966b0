"""`manage.py replay_trace`: books a job log again in an empty installation and says what came of it (docs/replay.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from reservations.rules.quota import UNITS_PER_GPU_HOUR
from reservations.services import replay


class Command(BaseCommand):
    help = "Book a job log in order of time under a policy, in a data folder of its own, and report what came of it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--policy", default="replay", choices=sorted(replay.POLICIES))
        parser.add_argument("--format", default="alex", choices=["alex", "openb"])
        parser.add_argument("--cards", default="", metavar="MODEL×COUNT", help="the cards asked for by a log that names none")
        parser.add_argument(
            "--asked", choices=[str(one) for one in replay.Asked],
            help="when each job is asked for: at its start (with policy replay), or the evening before (with a preset)",
        )
        parser.add_argument("--json", type=Path, metavar="OUT", help="also write all figures to this file")

    def handle(self, *args: Any, **options: Any) -> None:
        if (options["format"] == "openb") != bool(options["cards"]):
            raise CommandError("--cards goes with --format openb, and only with it.")
        asked = replay.Asked(options["asked"] or ("start" if options["policy"] == "replay" else "evening"))
        try:
            log = replay.read(options["file"], options["format"], options["cards"])
        except OSError as problem:
            raise CommandError(f"{options['file']} cannot be read: {problem.strerror}") from None
        except ValueError as problem:
            raise CommandError(f"{options['file']}: {problem}") from None
        try:
            result = replay.replay(log, options["policy"], asked)
        except replay.HoldsALab:
            raise CommandError(
                "This data folder holds a lab. Replay in a folder of its own: see docs/replay.md."
            ) from None
        if options["json"]:
            options["json"].write_text(json.dumps(result.to_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        self.stdout.write("\n".join(_lines(result)))


def _lines(result: replay.Result) -> list[str]:
    spent = result.ledger_total / UNITS_PER_GPU_HOUR
    lines = [
        f"{result.jobs:,} jobs of {result.people} people on {result.cards} cards of {result.hosts} hosts"
        + (f"; {result.skipped:,} rows without a card skipped" if result.skipped else ""),
        f"policy {result.policy}, asked for {'at the start' if result.asked == 'start' else 'the evening before'}: "
        f"{result.accepted:,} accepted, {result.refused:,} refused",
        *(
            f"  {code}: {count:,} (alone {result.alone.get(code, 0):,})" for code, count in result.reasons.items()
        ),
        f"booked {_hours(result.booked_s)} card-hours, held {_hours(result.held_s)}, "
        f"overrun apart {_hours(result.overrun_s)} by {result.overran} jobs",
        ", ".join(
            [f"charged {spent:,.1f} GPU-hours"]
            + [f"{reason} {units / UNITS_PER_GPU_HOUR:+,.1f}" for reason, units in result.ledger.items()]
        ),
        *([f"free of charge {_hours(sum(result.free.values()))} card-hours of walk-ins"] if result.free else []),
        *(f"  not released, {code}: {count:,}" for code, count in result.not_released.items()),
        f"cards held twice at one instant: {result.overlaps}",
    ]
    for what, taken in (("requests", result.requests), ("starts, releases and ends", result.changes)):
        lines.append(
            f"{what}: {taken.calls:,} in {taken.total:.1f} s; each {taken.mean * 1000:.1f} ms "
            f"(median {taken.median * 1000:.1f}, 95 % {taken.p95 * 1000:.1f}, most {taken.most * 1000:.1f}; "
            f"first tenth {taken.first * 1000:.1f}, last tenth {taken.last * 1000:.1f})"
        )
    return lines


def _hours(seconds: int) -> str:
    return f"{seconds / 3600:,.1f}"
