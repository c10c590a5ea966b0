"""The driver's library, played: an object in place of the loaded one, so that the real binding runs unchanged on top.

The binding calls it with its own ctypes arguments and reads the numbers it writes into them; a function that is not
here is one the driver does not have.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable, Iterator
from typing import Any

from labgpu.agent.nvml import pynvml
from labgpu.simulator.scenario import IDENTITY, PlayedCard, PlayedProcess, Scenario

OK = 0
NOT_AVAILABLE = 2**64 - 1

_CODES = {
    "no_library": pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
    "no_driver": pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    "mismatch": pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    "no_permission": pynvml.NVML_ERROR_NO_PERMISSION,
    "unknown_error": pynvml.NVML_ERROR_UNKNOWN,
    "lost": pynvml.NVML_ERROR_GPU_IS_LOST,
    "reset_required": pynvml.NVML_ERROR_RESET_REQUIRED,
    "timeout": pynvml.NVML_ERROR_TIMEOUT,
}


class _Refused(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Double:
    """Plays ``scenario()`` at ``clock()``. One look sees one moment: both are asked when the cards are counted.

    ``on_look`` is called with them then, so that the process table can follow. ``calls`` counts what was asked, by
    function name.
    """

    def __init__(
        self,
        scenario: Callable[[], Scenario],
        *,
        clock: Callable[[], float] = time.time,
        on_look: Callable[[Scenario, float], None] = lambda scenario, now: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.calls: dict[str, int] = {}
        self._source = scenario
        self._clock = clock
        self._on_look = on_look
        self._sleep = sleep
        self._scenario = Scenario()
        self._now = 0.0
        self._handles: list[str] = []
        self._functions: dict[str, Callable[..., int]] = {
            "nvmlInitWithFlags": self._init,
            "nvmlShutdown": lambda: OK,
            "nvmlDeviceGetCount_v2": self._count,
            "nvmlSystemGetDriverVersion": self._driver,
            "nvmlDeviceGetHandleByIndex_v2": self._handle,
            "nvmlDeviceGetUUID": self._text("uuid"),
            "nvmlDeviceGetName": self._text("name"),
            "nvmlDeviceGetSerial": self._text("serial"),
            "nvmlDeviceGetPciInfo_v3": self._on_card("bus_id", self._pci),
            "nvmlDeviceGetMemoryInfo": self._on_card("memory", self._memory),
            "nvmlDeviceGetMemoryInfo_v2": self._on_card("memory", self._memory),
            "nvmlDeviceGetUtilizationRates": self._on_card("utilization", self._utilization),
            "nvmlDeviceGetEncoderUtilization": self._on_card("encoder", self._codec("encoder")),
            "nvmlDeviceGetDecoderUtilization": self._on_card("decoder", self._codec("decoder")),
            "nvmlDeviceGetTemperature": self._on_card("temperature", self._temperature),
            "nvmlDeviceGetPowerUsage": self._on_card("power", self._power),
        }
        for version in ("v2", "v3"):
            for which, query, letter in (("Compute", "processes", "C"), ("Graphics", "graphics", "G")):
                name = f"nvmlDeviceGet{which}RunningProcesses_{version}"
                self._functions[name] = self._on_card(query, self._processes(letter))

    def __getattr__(self, name: str) -> Callable[..., int]:
        # How the binding looks a function up in a loaded library, and what it takes for "this driver has none".
        if name.startswith("_") or name not in self._functions:
            raise AttributeError(name)

        def played(*arguments: Any) -> int:
            self.calls[name] = self.calls.get(name, 0) + 1
            if name in self._scenario.missing_functions:
                return int(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
            try:
                return self._functions[name](*arguments)
            except _Refused as refused:
                return refused.code

        return played

    def _begin_look(self) -> None:
        while True:
            self._scenario, self._now = self._source(), self._clock()
            fault = self._scenario.host_fault(self._now)
            if fault != "hang":
                break
            self._sleep(0.02)
        self._on_look(self._scenario, self._now)
        if fault is not None:
            raise _Refused(_CODES[fault])

    def _init(self, flags: Any) -> int:
        self._begin_look()
        self._handles = [card.uuid for card in self._scenario.cards]
        return OK

    def _count(self, count: Any) -> int:
        self._begin_look()
        _target(count).value = len(self._scenario.cards)
        return OK

    def _driver(self, buffer: Any, length: Any) -> int:
        buffer.value = self._scenario.driver.encode()
        return OK

    def _handle(self, index: Any, handle: Any) -> int:
        place = _number(index)
        if place >= len(self._scenario.cards):
            return int(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        card = self._scenario.cards[place]
        self._refuse(card, "handle")
        if card.uuid not in self._handles:
            self._handles.append(card.uuid)
        # An address of nothing, never followed: it only comes back.
        ctypes.cast(handle, ctypes.POINTER(ctypes.c_void_p))[0] = 1 + self._handles.index(card.uuid)
        return OK

    def _on_card(self, query: str, answer: Callable[..., int]) -> Callable[..., int]:
        def asked(handle: Any, *arguments: Any) -> int:
            uuid = self._handles[(ctypes.cast(handle, ctypes.c_void_p).value or 0) - 1]
            card = next((card for card in self._scenario.cards if card.uuid == uuid), None)
            if card is None:
                return int(pynvml.NVML_ERROR_GPU_IS_LOST)  # taken out of the scenario under its handle
            self._refuse(card, query)
            return answer(card, *arguments)

        return asked

    def _refuse(self, card: PlayedCard, query: str) -> None:
        for fault in card.faults:
            hit = fault.at == query if fault.at is not None else query not in IDENTITY
            if hit and fault.span.holds(self._now):
                raise _Refused(_CODES[fault.kind])
        both_lists = query == "graphics" and "processes" in card.not_supported
        if query in card.not_supported or both_lists:
            raise _Refused(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def _text(self, query: str) -> Callable[..., int]:
        def answer(card: PlayedCard, buffer: Any, length: Any) -> int:
            buffer.value = _told(getattr(card, query)).encode()
            return OK

        return self._on_card(query, answer)

    def _pci(self, card: PlayedCard, info: Any) -> int:
        _target(info).busId = _told(card.bus_id).encode()
        return OK

    def _memory(self, card: PlayedCard, info: Any) -> int:
        total = _told(card.memory_total)
        used = min(total, card.baseline + sum(process.memory or 0 for process in self._on(card)))
        info = _target(info)
        info.total, info.used, info.free = total, used, total - used
        return OK

    def _utilization(self, card: PlayedCard, rates: Any) -> int:
        _target(rates).gpu = self._busy(card)
        return OK

    def _codec(self, which: str) -> Callable[..., int]:
        def answer(card: PlayedCard, utilization: Any, period: Any) -> int:
            _target(utilization).value = min(100, sum(getattr(process, which) for process in self._on(card)))
            _target(period).value = 167_000
            return OK

        return answer

    def _temperature(self, card: PlayedCard, sensor: Any, degrees: Any) -> int:
        _target(degrees).value = _told(card.temperature) + self._busy(card) * 2 // 5
        return OK

    def _power(self, card: PlayedCard, milliwatts: Any) -> int:
        idle = _told(card.power_idle_mw)
        _target(milliwatts).value = idle + (card.power_limit_mw - idle) * self._busy(card) // 100
        return OK

    def _processes(self, letter: str) -> Callable[..., int]:
        def answer(card: PlayedCard, count: Any, rows: Any) -> int:
            listed = [process for process in self._on(card) if letter in process.kind]
            count = _target(count)
            room, count.value = count.value, len(listed)
            if not listed:
                return OK
            if rows is None or room < len(listed):
                return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
            for row, process in zip(rows, listed, strict=False):
                row.pid = process.pid
                row.usedGpuMemory = NOT_AVAILABLE if process.memory is None else process.memory
                row.gpuInstanceId = row.computeInstanceId = 0xFFFFFFFF
            return OK

        return answer

    def _on(self, card: PlayedCard) -> list[PlayedProcess]:
        return [process for process in self._scenario.running(self._now) if process.card == card.uuid]

    def _busy(self, card: PlayedCard) -> int:
        return min(100, round(sum(process.utilization.at(self._now) for process in self._on(card))))


@contextlib.contextmanager
def installed(double: object) -> Iterator[None]:
    """Put ``double`` in place of the loaded library for the length of the block."""
    before, pynvml.nvmlLib = pynvml.nvmlLib, double
    # The binding remembers the functions it has found, of whichever library that was.
    pynvml._nvmlGetFunctionPointer_cache.clear()
    try:
        yield
    finally:
        pynvml.nvmlLib = before
        pynvml._nvmlGetFunctionPointer_cache.clear()


def _told(value: Any) -> Any:
    if value is None:
        raise _Refused(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return value


def _target(reference: Any) -> Any:
    return getattr(reference, "_obj", reference)


def _number(value: Any) -> int:
    return int(getattr(value, "value", value))
