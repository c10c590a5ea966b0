"""What happens on a simulated host, as a JSON file that may change while it is played.

The file is an object; times are epoch seconds, memory is in bytes, and what is left out takes the value in brackets::

    {"boot_id": text ["5113e3a5-..."], "driver": text ["580.95.05"],
     "missing_functions": [names of library functions which this driver is too old to have]  [[]],
     "faults": [host fault, ...]  [[]],
     "cards": [
       {"uuid": text, "name": text|null, "bus_id": text|null, "serial": text|null, "memory_total": bytes|null,
        "baseline": bytes held without any process [0],
        "temperature": degrees when idle|null [null],
        "power_idle_mw": n|null [null], "power_limit_mw": n [power_idle_mw],
        "not_supported": [any of name, bus_id, serial, memory, utilization, encoder, decoder, temperature, power,
                          processes, graphics]  [[]],
        "faults": [card fault, ...]  [[]]}, ...],
     "processes": [
       {"pid": n, "uid": n, "card": uuid, "from": time|null [null], "until": time|null [null],
        "memory": bytes|null [null: the driver does not tell], "kind": "C"|"G"|"C+G" ["C"],
        "utilization": percent or {"low": percent, "high": percent, "period_s": seconds} [0],
        "encoder": percent [0], "decoder": percent [0],
        "started_ticks": n [100], "gone": true when /proc has no such process any more [false]}, ...]}

A process is on its card while ``from <= now < until`` (null: always). A process on several cards is written once for
each. A card's use is the sum over its processes, at most 100; its memory the baseline and theirs, at most the total. A
utilisation with a period goes from low up to high and back along a cosine, low at every multiple of the period.

A fault is ``{"kind": text, "from": time|null, "until": time|null}``. For the host: ``no_library``, ``no_driver``,
``mismatch``, ``no_permission``, ``unknown_error``, and ``hang``, which answers only when the fault is over or has been
taken out of the file. For a card: ``lost``, ``reset_required``, ``timeout``, ``unknown_error``, ``no_permission``, with
an optional ``"at"``: only this query fails (``handle``, ``uuid``, ``name``, ``bus_id``, ``serial``, ``memory``,
``utilization``, ``encoder``, ``decoder``, ``temperature``, ``power``, ``processes``, ``graphics``); without it
everything that is measured does.

Whoever steers a running simulation should replace the file (write beside it, rename). A file caught half-written is not
played: the scenario before it stays.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOST_FAULTS = frozenset({"no_library", "no_driver", "mismatch", "no_permission", "unknown_error", "hang"})
CARD_FAULTS = frozenset({"lost", "reset_required", "timeout", "unknown_error", "no_permission"})
IDENTITY = frozenset({"handle", "uuid", "name", "bus_id", "serial"})
MEASURES = frozenset(
    {"memory", "utilization", "encoder", "decoder", "temperature", "power", "processes", "graphics"},
)
DEFAULT_BOOT = "5113e3a5-0000-4000-8000-000000000001"
DEFAULT_DRIVER = "580.95.05"


class BadScenario(ValueError):
    """The text is no scenario; says where and why."""


@dataclass(frozen=True)
class Span:
    """From ``begin`` (included) to ``end`` (excluded) in epoch seconds; None is open."""

    begin: float | None = None
    end: float | None = None

    def holds(self, now: float) -> bool:
        """Whether ``now`` lies in it."""
        return (self.begin is None or self.begin <= now) and (self.end is None or now < self.end)


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong for a time, at one query or (``at`` None) at all that measure."""

    kind: str
    span: Span
    at: str | None = None


@dataclass(frozen=True)
class Curve:
    """A percentage that goes up and down in time, or stands still where ``low == high``."""

    low: float
    high: float
    period_s: float = 1.0

    def at(self, now: float) -> float:
        """Its value at ``now``, the same at every call."""
        rise = 0.5 - 0.5 * math.cos(2 * math.pi * (now % self.period_s) / self.period_s)
        return self.low + (self.high - self.low) * rise


@dataclass(frozen=True)
class PlayedProcess:
    """A process on one card."""

    pid: int
    uid: int
    card: str
    span: Span
    memory: int | None
    kind: str
    utilization: Curve
    encoder: int
    decoder: int
    started_ticks: int
    gone: bool


@dataclass(frozen=True)
class PlayedCard:
    """A card and what it tells."""

    uuid: str
    name: str | None
    bus_id: str | None
    serial: str | None
    memory_total: int | None
    baseline: int
    temperature: int | None
    power_idle_mw: int | None
    power_limit_mw: int
    not_supported: frozenset[str]
    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class Scenario:
    """A host with its cards, processes and faults."""

    boot_id: str = DEFAULT_BOOT
    driver: str = DEFAULT_DRIVER
    missing_functions: frozenset[str] = frozenset()
    faults: tuple[Fault, ...] = ()
    cards: tuple[PlayedCard, ...] = ()
    processes: tuple[PlayedProcess, ...] = field(default=())

    def running(self, now: float) -> tuple[PlayedProcess, ...]:
        """The processes which are there at ``now``."""
        return tuple(process for process in self.processes if process.span.holds(now))

    def host_fault(self, now: float) -> str | None:
        """What is wrong with the host as a whole at ``now``."""
        return next((fault.kind for fault in self.faults if fault.span.holds(now)), None)


class ScenarioFile:
    """A scenario on disk, read again whenever the file has changed."""

    def __init__(self, path: Path) -> None:
        """Raises ``OSError`` or ``BadScenario`` when there is nothing to start with."""
        self._path = path
        self._seen = self._mark()
        self._scenario = parse(json_object(path.read_text("utf-8")))

    def current(self) -> Scenario:
        """The scenario as the file has it now; the one before while the file is missing, half-written or wrong."""
        try:
            mark = self._mark()
            if mark != self._seen:
                self._scenario = parse(json_object(self._path.read_text("utf-8")))
                self._seen = mark  # only now: a half-written file may be completed within the same clock tick
        except (OSError, ValueError):
            pass
        return self._scenario

    def _mark(self) -> tuple[int, int, int]:
        found = self._path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino


def json_object(text: str) -> object:
    """The JSON value in ``text``; raises ``BadScenario``."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadScenario(f"the scenario is not JSON: {error}") from None


def parse(data: object) -> Scenario:
    """The scenario written as ``data`` (see the module for the format); raises ``BadScenario``."""
    try:
        return _scenario(_object(data))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, BadScenario):
            raise
        raise BadScenario(f"the scenario is wrong: {type(error).__name__}: {error}") from None


def _scenario(data: Mapping[str, Any]) -> Scenario:
    _only(data, {"boot_id", "driver", "missing_functions", "faults", "cards", "processes"}, "the scenario")
    cards = tuple(_card(_object(row)) for row in data.get("cards", []))
    uuids = {card.uuid for card in cards}
    if len(uuids) != len(cards):
        raise BadScenario("two cards have the same uuid")
    processes = tuple(_process(_object(row)) for row in data.get("processes", []))
    for process in processes:
        if process.card not in uuids:
            raise BadScenario(f"process {process.pid} is on card {process.card}, which is not there")
    return Scenario(
        boot_id=str(data.get("boot_id", DEFAULT_BOOT)),
        driver=str(data.get("driver", DEFAULT_DRIVER)),
        missing_functions=frozenset(map(str, data.get("missing_functions", []))),
        faults=tuple(_fault(_object(row), HOST_FAULTS) for row in data.get("faults", [])),
        cards=cards,
        processes=processes,
    )


def _card(row: Mapping[str, Any]) -> PlayedCard:
    where = f"card {row.get('uuid')}"
    known = {"uuid", "name", "bus_id", "serial", "memory_total", "baseline", "temperature"}
    _only(row, known | {"power_idle_mw", "power_limit_mw", "not_supported", "faults"}, where)
    unknown = set(row.get("not_supported", [])) - IDENTITY - MEASURES
    if unknown:
        raise BadScenario(f"{where}: nothing is called {', '.join(sorted(unknown))}")
    idle = _maybe_int(row.get("power_idle_mw"))
    return PlayedCard(
        uuid=str(row["uuid"]),
        name=row.get("name"),
        bus_id=row.get("bus_id"),
        serial=row.get("serial"),
        memory_total=_maybe_int(row.get("memory_total")),
        baseline=int(row.get("baseline", 0)),
        temperature=_maybe_int(row.get("temperature")),
        power_idle_mw=idle,
        power_limit_mw=int(row.get("power_limit_mw", idle or 0)),
        not_supported=frozenset(row.get("not_supported", [])),
        faults=tuple(_fault(_object(fault), CARD_FAULTS) for fault in row.get("faults", [])),
    )


def _process(row: Mapping[str, Any]) -> PlayedProcess:
    where = f"process {row.get('pid')}"
    known = {"pid", "uid", "card", "from", "until", "memory", "kind", "utilization", "encoder", "decoder"}
    _only(row, known | {"started_ticks", "gone"}, where)
    kind = row.get("kind", "C")
    if kind not in ("C", "G", "C+G"):
        raise BadScenario(f"{where}: kind must be C, G or C+G")
    return PlayedProcess(
        pid=int(row["pid"]),
        uid=int(row["uid"]),
        card=str(row["card"]),
        span=_span(row),
        memory=_maybe_int(row.get("memory")),
        kind=kind,
        utilization=_curve(row.get("utilization", 0)),
        encoder=int(row.get("encoder", 0)),
        decoder=int(row.get("decoder", 0)),
        started_ticks=int(row.get("started_ticks", 100)),
        gone=bool(row.get("gone", False)),
    )


def _curve(value: Any) -> Curve:
    if not isinstance(value, dict):
        return Curve(float(value), float(value))
    curve = Curve(float(value["low"]), float(value["high"]), float(value["period_s"]))
    if curve.period_s <= 0:
        raise BadScenario("a period must be longer than nothing")
    return curve


def _fault(row: Mapping[str, Any], kinds: frozenset[str]) -> Fault:
    if row["kind"] not in kinds:
        raise BadScenario(f"no such fault here: {row['kind']}")
    at = row.get("at")
    if at is not None and at not in IDENTITY | MEASURES:
        raise BadScenario(f"no such query: {at}")
    return Fault(row["kind"], _span(row), at)


def _span(row: Mapping[str, Any]) -> Span:
    begin, end = row.get("from"), row.get("until")
    return Span(None if begin is None else float(begin), None if end is None else float(end))


def _maybe_int(value: Any) -> int | None:
    return None if value is None else int(value)


def _object(data: object) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise BadScenario("an object was expected")
    return data


def _only(row: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    # A misspelt key would otherwise be played as its default, and a test would prove nothing.
    unknown = set(row) - set(known)
    if unknown:
        raise BadScenario(f"{where}: unknown {', '.join(sorted(unknown))}")
