"""What every client asked and was answered, written by the client itself while it happens.

One file per client, one JSON object per line: a line when it asks, a line when it has the answer. A client that is killed
leaves a question without an answer: its effect may or may not be there, and a checker must allow both.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Event:
    """One question and its answer. `begun` and `ended` are of the machine's monotonic clock, common to all processes."""

    client: str
    number: int
    asked: dict[str, Any]
    begun: int
    ended: int | None = None
    answer: dict[str, Any] = field(default_factory=dict)

    @property
    def op(self) -> str:
        return str(self.asked["op"])

    @property
    def ok(self) -> bool:
        """Whether the client was told that it was done."""
        return bool(self.answer.get("ok"))


class Writer:
    """A client's pen. A line is one write to a file opened for appending, so a killed client tears at most its last."""

    def __init__(self, folder: Path, client: str) -> None:
        self.client, self._number = client, 0
        self._file = os.open(folder / f"{client}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def _line(self, **values: Any) -> None:
        os.write(self._file, (json.dumps(values) + "\n").encode())

    def begin(self, asked: dict[str, Any]) -> int:
        self._number += 1
        self._line(n=self._number, begun=time.monotonic_ns(), asked=asked)
        return self._number

    def end(self, number: int, answer: dict[str, Any]) -> None:
        self._line(n=number, ended=time.monotonic_ns(), answer=answer)

    def close(self) -> None:
        os.close(self._file)


def read(folder: Path) -> list[Event]:
    """All events of a folder of histories, in the order in which they were asked."""
    events: list[Event] = []
    for path in sorted(folder.glob("*.jsonl")):
        mine: dict[int, Event] = {}
        lines = path.read_bytes().split(b"\n")
        for line in lines[:-1]:  # what follows the last line feed is empty, or torn by a kill
            values = json.loads(line)
            if "asked" in values:
                mine[values["n"]] = Event(path.stem, values["n"], values["asked"], values["begun"])
            else:
                mine[values["n"]].ended, mine[values["n"]].answer = values["ended"], values["answer"]
        events += mine.values()
    return sorted(events, key=lambda one: one.begun)


def tally(events: Iterable[Event]) -> dict[str, int]:
    """How often each kind of answer came, for figures and for messages of failed tests."""
    counts: dict[str, int] = {}
    for event in events:
        answer = event.answer
        kind = "none" if not answer else next(iter(answer))
        for word in answer["refused"] if kind == "refused" else [kind]:
            counts[word] = counts.get(word, 0) + 1
    return dict(sorted(counts.items()))
