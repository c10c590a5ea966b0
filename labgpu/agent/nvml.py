"""The edge to the driver, and the only importer of ``pynvml`` (package nvidia-ml-py).

Every query is guarded by itself: what a card cannot tell is None, what it will never tell is not asked again, a card
that is lost is an entry with a problem while the others go on. Only a failure of the whole host is raised.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, TypeVar

import pynvml  # type: ignore[import-untyped]

from labgpu.agent.reading import (
    CARD_OUT,
    MAX_BYTES,
    MAX_CARDS,
    MAX_PID,
    MAX_POWER_MW,
    MAX_PROCESSES,
    MAX_TEMPERATURE,
    Card,
    Problem,
    Process,
    printable,
)

__all__ = ["HostProblem", "Nvml", "pynvml"]

# A card that came back (reset, reseated) stays lost for a library that was initialised before: it is opened afresh now
# and then while a card is out; not at every look, because that takes seconds on a large host without persistence mode.
REOPEN_AFTER_S = 300.0

_HOST_CODES = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no_library",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "no_driver",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "mismatch",
    pynvml.NVML_ERROR_NO_PERMISSION: "no_permission",
}
# Of these a single card's query cannot be the cause, whichever query it was.
_HOST_WIDE = {
    pynvml.NVML_ERROR_UNINITIALIZED,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
}
_CARD_CODES = {
    pynvml.NVML_ERROR_GPU_IS_LOST: "lost",
    pynvml.NVML_ERROR_GPU_NOT_FOUND: "lost",
    pynvml.NVML_ERROR_RESET_REQUIRED: "reset_required",
}
_NEVER = {pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
# How libraries from before a versioned query refuse it.
_OLDER = _NEVER | {pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, pynvml.NVML_ERROR_INVALID_ARGUMENT}

T = TypeVar("T")
Key = Tuple[str, str]


class HostProblem(Exception):
    """No card of this host can be read; ``problem`` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class _CardOut(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class _Unread(Exception):
    """A process list could not be read this time."""


class Nvml:
    """The cards of this host through one initialised library.

    Initialise it in the process that uses it (a fork does not carry it over). Not thread-safe.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._opened_at: Optional[float] = None
        self._any_out = False
        self._never: Set[Key] = set()
        self._uuids: Dict[int, str] = {}

    def look(self) -> Tuple[Card, ...]:
        """All cards in the library's order, processes without owners (see ``procfs``).

        Raises ``HostProblem`` when the host as a whole cannot be read; the next call initialises the library again.
        """
        try:
            self._open()
            count = min(pynvml.nvmlDeviceGetCount(), MAX_CARDS)
            cards = _without_doubles([self._card(index) for index in range(count)])
        except pynvml.NVMLError as error:
            self.close()
            raise HostProblem(_host_problem(error)) from error
        self._any_out = any(card.problem is not None and card.problem.code in CARD_OUT for card in cards)
        return cards

    def driver(self) -> Optional[str]:
        """The driver's version, None when it cannot be read. Raises nothing."""
        try:
            return printable(pynvml.nvmlSystemGetDriverVersion())
        except (pynvml.NVMLError, ValueError):
            return None

    def close(self) -> None:
        """Let the library go. Calling it twice does no harm."""
        if self._opened_at is None:
            return
        self._opened_at = None
        # A library that fails to stop is initialised again all the same.
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()

    def _open(self) -> None:
        now = self._monotonic()
        if self._opened_at is not None and self._any_out and now - self._opened_at >= REOPEN_AFTER_S:
            self.close()
        if self._opened_at is None:
            pynvml.nvmlInit()
            self._opened_at = now
            self._any_out = False
            # Another driver may answer what the last one did not, and an index may now be another card.
            self._never.clear()
            self._uuids.clear()

    def _card(self, index: int) -> Card:
        known: Dict[str, Any] = {"uuid": "", "index": index}
        try:
            handle = self._handle(index)
            uuid = self._ask(f"#{index}", "uuid", lambda: pynvml.nvmlDeviceGetUUID(handle))
            if not uuid:
                raise _CardOut(Problem("unreadable", "the card does not tell its UUID"))
            known["uuid"] = self._uuids[index] = printable(uuid)
            self._identify(known["uuid"], handle, known)
            measured: Dict[str, Any] = {}
            self._measure(known["uuid"], handle, measured)
        except _CardOut as out:
            # What was measured before the card went may be the last gasp of it: only its identity is kept.
            known["uuid"] = known["uuid"] or self._uuids.get(index, "")
            return Card(problem=out.problem, processes=None, **known)
        return Card(**known, **measured)

    def _handle(self, index: int) -> Any:
        try:
            return pynvml.nvmlDeviceGetHandleByIndex(index)
        except pynvml.NVMLError as error:
            if error.value in _HOST_WIDE:
                raise
            code = _CARD_CODES.get(error.value, "unreadable")
            raise _CardOut(Problem(code, printable(str(error)))) from error

    def _identify(self, key: str, handle: Any, known: Dict[str, Any]) -> None:
        known["name"] = self._text(key, "name", lambda: pynvml.nvmlDeviceGetName(handle))
        known["bus_id"] = self._text(key, "bus_id", lambda: pynvml.nvmlDeviceGetPciInfo_v3(handle).busId)
        known["serial"] = self._text(key, "serial", lambda: pynvml.nvmlDeviceGetSerial(handle))

    def _measure(self, key: str, handle: Any, measured: Dict[str, Any]) -> None:
        total, used = self._memory(key, handle)
        measured["memory_total"], measured["memory_used"] = total, used
        for field, most, call in (
            ("utilization", 100, lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu),
            ("encoder", 100, lambda: pynvml.nvmlDeviceGetEncoderUtilization(handle)[0]),
            ("decoder", 100, lambda: pynvml.nvmlDeviceGetDecoderUtilization(handle)[0]),
            ("temperature", MAX_TEMPERATURE, lambda: pynvml.nvmlDeviceGetTemperature(handle, 0)),
            ("power_mw", MAX_POWER_MW, lambda: pynvml.nvmlDeviceGetPowerUsage(handle)),
        ):
            measured[field] = _plausible(self._ask(key, field, call), most)
        measured["processes"], measured["problem"] = self._processes(key, handle, total)

    def _memory(self, key: str, handle: Any) -> Tuple[Optional[int], Optional[int]]:
        # Version 2 leaves out what the driver keeps for itself; version 1, all old libraries have, counts it as used.
        info = self._ask(key, "memory_v2", lambda: pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2), never=_OLDER)
        if info is None:
            info = self._ask(key, "memory_v1", lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
        if info is None:
            return None, None
        total = _plausible(info.total, MAX_BYTES) or None  # a card has memory: 0 is no answer
        used = _plausible(info.used, MAX_BYTES if total is None else total)
        return total, used

    def _processes(self, key: str, handle: Any, total: Optional[int]) -> Tuple[Optional[Tuple[Process, ...]], Optional[Problem]]:
        try:
            compute = self._list(key, "Compute", handle)
        except _Unread as error:
            return None, Problem("processes_unread", printable(str(error)))
        if compute is None:
            return None, None  # this card never tells; that is no fault of today
        problem = None
        try:
            # A card without a graphics list has no graphics processes.
            graphics = self._list(key, "Graphics", handle) or []
        except _Unread as error:
            graphics, problem = [], Problem("graphics_unread", printable(str(error)))
        merged: Dict[int, Process] = {}
        for kind, rows in (("C", compute), ("G", graphics)):
            for pid, memory in rows:
                memory = _plausible(memory, MAX_BYTES if total is None else total)
                before = merged.get(pid)
                if before is not None:
                    # Both lists tell the memory of the whole process on the card: the larger, never the sum.
                    memory = before.memory if memory is None else max(memory, before.memory or 0)
                    kind_now = before.kind if before.kind == kind else "C+G"
                else:
                    kind_now = kind
                merged[pid] = Process(pid, None, None, kind_now, memory, None)
        if len(merged) > MAX_PROCESSES:
            return None, Problem("processes_unread", f"{len(merged)} processes, more than a reading holds")
        return tuple(merged[pid] for pid in sorted(merged)), problem

    def _list(self, key: str, which: str, handle: Any) -> Optional[List[Tuple[int, Optional[int]]]]:
        """(pid, bytes) of one list; None when this card never tells; ``_Unread`` when it did not tell this time."""
        for version in ("v3", "v2"):
            field = which + "_" + version
            if (key, field) in self._never:
                continue
            call = getattr(pynvml, f"nvmlDeviceGet{which}RunningProcesses_{version}")
            try:
                rows = [(int(row.pid), row.usedGpuMemory) for row in _retry_when_grown(call, handle)]
            except pynvml.NVMLError as error:
                self._raise_if_out(error)
                if error.value in _OLDER - {pynvml.NVML_ERROR_INVALID_ARGUMENT}:
                    self._never.add((key, field))
                    continue
                raise _Unread(str(error)) from error
            # A library that fills its rows in another layout than we read them gives pids no kernel gives.
            if any(not 0 < pid <= MAX_PID for pid, _ in rows):
                raise _Unread("the list holds a pid that cannot be")
            return rows
        return None

    def _text(self, key: str, field: str, call: Callable[[], Any]) -> Optional[str]:
        found = self._ask(key, field, call)
        if isinstance(found, bytes):
            found = found.decode("ascii", "replace")
        return printable(found) if found else None

    def _ask(self, key: str, field: str, call: Callable[[], T], never: Optional[Set[int]] = None) -> Optional[T]:
        """The answer, or None. Raises ``_CardOut`` when the card is lost, ``NVMLError`` when the whole host is."""
        if (key, field) in self._never:
            return None
        try:
            return call()
        except pynvml.NVMLError as error:
            self._raise_if_out(error)
            if error.value in (_NEVER if never is None else never):
                self._never.add((key, field))
            return None
        except ValueError:
            return None  # a text that is none: pynvml decodes it strictly

    @staticmethod
    def _raise_if_out(error: Any) -> None:
        if error.value in _HOST_WIDE:
            raise error
        if error.value in _CARD_CODES:
            raise _CardOut(Problem(_CARD_CODES[error.value], printable(str(error)))) from error


def _without_doubles(cards: List[Card]) -> Tuple[Card, ...]:
    """Of two cards which tell the same UUID at least one lies, and nobody can say which: neither is believed."""
    told = [card.uuid for card in cards if card.uuid]
    problem = Problem("unreadable", "another card tells the same UUID")
    return tuple(card if told.count(card.uuid) < 2 else Card(uuid="", index=card.index, problem=problem) for card in cards)


def _host_problem(error: Any) -> Problem:
    return Problem(_HOST_CODES.get(error.value, "unknown_error"), printable(str(error)))


def _plausible(value: Optional[int], most: int) -> Optional[int]:
    """``value`` when it can be one. Drivers say "not available" with all bits set, and broken cards say anything."""
    return value if value is not None and 0 <= value <= most else None


def _retry_when_grown(call: Callable[[Any], List[Any]], handle: Any) -> List[Any]:
    # The list is asked for its length first; processes that start in between can outgrow even the room left for them.
    for _ in range(2):
        try:
            return call(handle)
        except pynvml.NVMLError_InsufficientSize:
            continue
    return call(handle)
