"""One look at one host, as a value and as the JSON object the server receives.

``None`` always means "could not be read", never zero and never "none": ``processes=None`` is unknown, ``processes=()``
was read and there are none. Whoever receives a reading must keep the two apart: unknown is not idle and not free.

Codes of ``Problem``:

- of a reading (then there are no cards): ``no_library``, ``no_driver``, ``mismatch`` (driver and library differ: an
  upgrade before the reboot), ``no_permission``, ``unknown_error``; from the supervisor ``hung``, ``reader_died``,
  ``bad_answer``
- of a card: ``lost``, ``reset_required``, ``unreadable`` (these three are ``CARD_OUT``: nothing but its identity is
  told); ``processes_unread`` (``processes`` is None), ``graphics_unread`` (``processes`` holds compute only)
- of a process: ``gone`` (ended between the list and the look-up), ``denied``, ``unreadable``

A card whose identity could not be read has ``uuid == ""``. Unknown keys are ignored: a later agent may add some.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Dict, FrozenSet, List, Optional, Tuple, Union

FORMAT = 1
MAX_CARDS = 256
MAX_PROCESSES = 4096
MAX_TEXT = 200

MAX_BYTES = 2**63 - 1  # what a signed 64-bit database column holds; far above any card
MAX_TEMPERATURE = 250
MAX_POWER_MW = 10_000_000
MAX_PID = 2**31 - 1
MAX_UID = 2**32 - 1
MAX_COUNTER = 2**63 - 1
MAX_TOOK_MS = 7 * 86_400_000
MAX_EPOCH = 1e11

KINDS: FrozenSet[str] = frozenset({"C", "G", "C+G"})
CARD_OUT: FrozenSet[str] = frozenset({"lost", "reset_required", "unreadable"})


class BadReading(ValueError):
    """What was given is not a reading; the text is one sentence that names the field and says what is wrong with it."""


@dataclass(frozen=True)
class Problem:
    """Why something could not be read: ``code`` for programs (see the module), ``detail`` for people."""

    code: str
    detail: str

    def to_dict(self) -> Dict[str, Any]:
        """The JSON form."""
        return {"code": self.code, "detail": self.detail}


@dataclass(frozen=True)
class Process:
    """A process on a card. ``started`` counts clock ticks since boot: (boot, pid, started) is one process."""

    pid: int
    started: Optional[int]
    uid: Optional[int]
    kind: str
    memory: Optional[int]  # bytes on this card
    problem: Optional[str]

    def to_dict(self) -> Dict[str, Any]:
        """The JSON form."""
        return {
            "pid": self.pid,
            "started": self.started,
            "uid": self.uid,
            "kind": self.kind,
            "memory": self.memory,
            "problem": self.problem,
        }


@dataclass(frozen=True)
class Card:
    """A card at one moment. Memory in bytes, utilisations in percent, temperature in Celsius, power in milliwatts."""

    uuid: str
    index: int
    name: Optional[str] = None
    bus_id: Optional[str] = None
    serial: Optional[str] = None
    memory_total: Optional[int] = None
    memory_used: Optional[int] = None
    utilization: Optional[int] = None
    encoder: Optional[int] = None
    decoder: Optional[int] = None
    temperature: Optional[int] = None
    power_mw: Optional[int] = None
    problem: Optional[Problem] = None
    processes: Optional[Tuple[Process, ...]] = None

    def to_dict(self) -> Dict[str, Any]:
        """The JSON form."""
        return {
            "uuid": self.uuid,
            "index": self.index,
            "name": self.name,
            "bus_id": self.bus_id,
            "serial": self.serial,
            "memory_total": self.memory_total,
            "memory_used": self.memory_used,
            "utilization": self.utilization,
            "encoder": self.encoder,
            "decoder": self.decoder,
            "temperature": self.temperature,
            "power_mw": self.power_mw,
            "problem": None if self.problem is None else self.problem.to_dict(),
            "processes": None if self.processes is None else [process.to_dict() for process in self.processes],
        }


@dataclass(frozen=True)
class Reading:
    """One look at one host. ``taken_at`` is the host's own clock in epoch seconds, at the start of the look."""

    host: str
    boot_id: str  # "" when it could not be read
    sequence: int
    taken_at: float
    took_ms: int
    driver: Optional[str]
    problem: Optional[Problem]
    simulated: bool
    cards: Tuple[Card, ...]

    def to_dict(self) -> Dict[str, Any]:
        """The JSON form, as the server receives it."""
        return {
            "format": FORMAT,
            "host": self.host,
            "boot_id": self.boot_id,
            "sequence": self.sequence,
            "taken_at": self.taken_at,
            "took_ms": self.took_ms,
            "driver": self.driver,
            "problem": None if self.problem is None else self.problem.to_dict(),
            "simulated": self.simulated,
            "cards": [card.to_dict() for card in self.cards],
        }

    def to_json(self) -> str:
        """The JSON form as one line without a line end."""
        return json.dumps(self.to_dict(), ensure_ascii=True, allow_nan=False, separators=(",", ":"))

    @staticmethod
    def from_dict(data: object) -> Reading:
        """The reading that ``to_dict`` wrote. Checks types, ranges and sizes of everything; raises ``BadReading``."""
        return _reading(_mapping(data, "reading"))

    @staticmethod
    def from_json(text: Union[str, bytes]) -> Reading:
        """The reading that ``to_json`` wrote; raises ``BadReading`` for anything else, broken JSON included."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadReading("The reading is not JSON: " + printable(str(error)) + ".") from None
        return Reading.from_dict(data)


def printable(text: str) -> str:
    """``text`` fit for a reading: control characters become "?", and what exceeds the limit is cut off."""
    return "".join(char if char.isprintable() else "?" for char in text[:MAX_TEXT])


def _reading(data: Dict[str, Any]) -> Reading:
    if _int(data, "format", "reading", 1, MAX_COUNTER) != FORMAT:
        raise BadReading(f"reading.format must be {FORMAT}: this reading comes from an agent of another version.")
    if type(data.get("simulated")) is not bool:
        raise BadReading("reading.simulated must be true or false.")
    problem = _problem(data, "reading")
    rows = _list(_key(data, "cards", "reading"), "reading.cards", MAX_CARDS)
    if problem is not None and rows:
        raise BadReading("reading.cards must be empty when the whole host has a problem.")
    cards = tuple(_card(row, f"cards[{place}]") for place, row in enumerate(rows))
    _distinct([card.index for card in cards], "cards", "index")
    _distinct([card.uuid for card in cards if card.uuid], "cards", "uuid")
    return Reading(
        host=_text(data, "host", "reading", least=1),
        boot_id=_text(data, "boot_id", "reading"),
        sequence=_int(data, "sequence", "reading", 0, MAX_COUNTER),
        taken_at=_seconds(data, "taken_at", "reading"),
        took_ms=_int(data, "took_ms", "reading", 0, MAX_TOOK_MS),
        driver=_maybe_text(data, "driver", "reading"),
        problem=problem,
        simulated=data["simulated"],
        cards=cards,
    )


def _card(row: object, where: str) -> Card:
    data = _mapping(row, where)
    found = _key(data, "processes", where)
    processes: Optional[Tuple[Process, ...]] = None
    if found is not None:
        rows = _list(found, where + ".processes", MAX_PROCESSES)
        processes = tuple(_process(entry, f"{where}.processes[{place}]") for place, entry in enumerate(rows))
        _distinct([process.pid for process in processes], where + ".processes", "pid")
    return Card(
        uuid=_text(data, "uuid", where),
        index=_int(data, "index", where, 0, MAX_CARDS - 1),
        name=_maybe_text(data, "name", where),
        bus_id=_maybe_text(data, "bus_id", where),
        serial=_maybe_text(data, "serial", where),
        memory_total=_maybe_int(data, "memory_total", where, 0, MAX_BYTES),
        memory_used=_maybe_int(data, "memory_used", where, 0, MAX_BYTES),
        utilization=_maybe_int(data, "utilization", where, 0, 100),
        encoder=_maybe_int(data, "encoder", where, 0, 100),
        decoder=_maybe_int(data, "decoder", where, 0, 100),
        temperature=_maybe_int(data, "temperature", where, 0, MAX_TEMPERATURE),
        power_mw=_maybe_int(data, "power_mw", where, 0, MAX_POWER_MW),
        problem=_problem(data, where),
        processes=processes,
    )


def _process(row: object, where: str) -> Process:
    data = _mapping(row, where)
    kind = _text(data, "kind", where)
    if kind not in KINDS:
        raise BadReading(f"{where}.kind must be C, G or C+G.")
    return Process(
        pid=_int(data, "pid", where, 1, MAX_PID),
        started=_maybe_int(data, "started", where, 0, MAX_COUNTER),
        uid=_maybe_int(data, "uid", where, 0, MAX_UID),
        kind=kind,
        memory=_maybe_int(data, "memory", where, 0, MAX_BYTES),
        problem=_maybe_text(data, "problem", where, least=1),
    )


def _problem(data: Dict[str, Any], where: str) -> Optional[Problem]:
    found = _key(data, "problem", where)
    if found is None:
        return None
    where += ".problem"
    inner = _mapping(found, where)
    return Problem(_text(inner, "code", where, least=1), _text(inner, "detail", where))


def _mapping(data: object, where: str) -> Dict[str, Any]:
    if type(data) is not dict:
        raise BadReading(f"{where} must be an object.")
    return data


def _list(data: object, where: str, most: int) -> List[Any]:
    if type(data) is not list:
        raise BadReading(f"{where} must be a list.")
    if len(data) > most:
        raise BadReading(f"{where} has {len(data)} entries; at most {most} are allowed.")
    return data


def _key(data: Dict[str, Any], key: str, where: str) -> Any:
    try:
        return data[key]
    except KeyError:
        raise BadReading(f"{where}.{key} is missing.") from None


def _text(data: Dict[str, Any], key: str, where: str, least: int = 0) -> str:
    found = _key(data, key, where)
    if type(found) is not str:
        raise BadReading(f"{where}.{key} must be a text.")
    if not least <= len(found) <= MAX_TEXT:
        raise BadReading(f"{where}.{key} must have {least} to {MAX_TEXT} characters.")
    # A NUL or half a surrogate pair would fail much later, inside the database.
    if not found.isprintable():
        raise BadReading(f"{where}.{key} must have printable characters only.")
    return found


def _int(data: Dict[str, Any], key: str, where: str, least: int, most: int) -> int:
    found = _key(data, key, where)
    if type(found) is not int:  # not isinstance: true and false are no numbers here
        raise BadReading(f"{where}.{key} must be a whole number.")
    if not least <= found <= most:
        raise BadReading(f"{where}.{key} must be between {least} and {most}.")
    return found


def _seconds(data: Dict[str, Any], key: str, where: str) -> float:
    found = _key(data, key, where)
    if type(found) not in (int, float):
        raise BadReading(f"{where}.{key} must be a number of seconds.")
    if (type(found) is float and not math.isfinite(found)) or not 0 <= found <= MAX_EPOCH:
        raise BadReading(f"{where}.{key} must be between 0 and {MAX_EPOCH:.0f} seconds.")
    return float(found)


def _maybe_text(data: Dict[str, Any], key: str, where: str, least: int = 0) -> Optional[str]:
    return None if _key(data, key, where) is None else _text(data, key, where, least)


def _maybe_int(data: Dict[str, Any], key: str, where: str, least: int, most: int) -> Optional[int]:
    return None if _key(data, key, where) is None else _int(data, key, where, least, most)


def _distinct(values: List[Any], where: str, what: str) -> None:
    if len(set(values)) != len(values):
        raise BadReading(f"{where} has two entries with the same {what}.")
