"""What the agent makes of what a driver says; the driver is played under the real binding."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labgpu.agent.nvml import REOPEN_AFTER_S, HostProblem, Nvml, pynvml
from labgpu.agent.procfs import ProcFs
from labgpu.agent.reader import Reader
from labgpu.agent.reading import Card, Problem, Process, Reading
from labgpu.simulator.double import Double, installed
from labgpu.simulator.fakeproc import FakeProc
from labgpu.simulator.scenario import parse

A = "GPU-aaaaaaaa-0000-4000-8000-000000000001"
GIB = 1 << 30


def card(uuid: str = A, **other: Any) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "name": "NVIDIA A100-SXM4-80GB",
        "bus_id": "00000000:01:00.0",
        "serial": "1323120035212",
        "memory_total": 80 * GIB,
        "baseline": GIB,
        "temperature": 30,
        "power_idle_mw": 60_000,
        **other,
    }


def job(pid: int = 100, uuid: str = A, **other: Any) -> dict[str, Any]:
    return {"pid": pid, "uid": 1003, "card": uuid, "memory": 2 * GIB, "utilization": 50, **other}


class Played:
    """A host whose scenario can be changed between looks."""

    def __init__(self, **data: Any) -> None:
        self.data: dict[str, Any] = {"cards": [card()], **data}
        self.now = 1000.0
        self.double = Double(lambda: parse(self.data), clock=lambda: self.now)
        self.nvml = Nvml(monotonic=lambda: self.now)

    def answer(self, function: str, code: int) -> None:
        """Let ``function`` fail with ``code``."""
        self.double._functions[function] = lambda *arguments: code

    def look(self) -> Card:
        (only,) = self.nvml.look()
        return only


@contextmanager
def host(**data: Any) -> Iterator[Played]:
    played = Played(**data)
    with installed(played.double):
        yield played


FULL = Card(
    uuid=A,
    index=0,
    name="NVIDIA A100-SXM4-80GB",
    bus_id="00000000:01:00.0",
    serial="1323120035212",
    memory_total=80 * GIB,
    memory_used=3 * GIB,
    utilization=50,
    encoder=0,
    decoder=0,
    temperature=50,
    power_mw=60_000,
    problem=None,
    processes=(Process(100, None, None, "C", 2 * GIB, None),),
)


def test_a_card_that_tells_everything_is_read_in_full() -> None:
    with host(processes=[job()]) as played:
        assert played.look() == FULL
        assert played.nvml.driver() == "580.95.05"


@pytest.mark.parametrize(
    ("silent", "unknown"),
    [
        ("name", {"name": None}),
        ("bus_id", {"bus_id": None}),
        ("serial", {"serial": None}),
        ("memory", {"memory_total": None, "memory_used": None}),
        ("utilization", {"utilization": None}),
        ("encoder", {"encoder": None}),
        ("decoder", {"decoder": None}),
        ("temperature", {"temperature": None}),
        ("power", {"power_mw": None}),
        ("processes", {"processes": None}),
        ("graphics", {}),
    ],
)
def test_what_a_card_does_not_tell_is_unknown_and_not_asked_again(silent: str, unknown: dict[str, Any]) -> None:
    with host(cards=[card(not_supported=[silent])], processes=[job()]) as played:
        assert played.look() == replace(FULL, **unknown)
        first = dict(played.double.calls)
        assert played.look() == replace(FULL, **unknown)
        again = {name: played.double.calls[name] - times for name, times in first.items()}
        assert sorted(name for name, more in again.items() if more == 0) == sorted(
            {
                "nvmlInitWithFlags",
                *{
                    "name": ["nvmlDeviceGetName"],
                    "bus_id": ["nvmlDeviceGetPciInfo_v3"],
                    "serial": ["nvmlDeviceGetSerial"],
                    "memory": ["nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"],
                    "utilization": ["nvmlDeviceGetUtilizationRates"],
                    "encoder": ["nvmlDeviceGetEncoderUtilization"],
                    "decoder": ["nvmlDeviceGetDecoderUtilization"],
                    "temperature": ["nvmlDeviceGetTemperature"],
                    "power": ["nvmlDeviceGetPowerUsage"],
                    "processes": [f"nvmlDeviceGetComputeRunningProcesses_{v}" for v in ("v2", "v3")],
                    "graphics": [f"nvmlDeviceGetGraphicsRunningProcesses_{v}" for v in ("v2", "v3")],
                }[silent],
            }
        )


def test_one_card_that_does_not_tell_does_not_silence_its_neighbour() -> None:
    with host(cards=[card(not_supported=["power"]), card("GPU-b")]) as played:
        assert [found.power_mw for found in played.nvml.look()] == [None, 60_000]
        assert [found.power_mw for found in played.nvml.look()] == [None, 60_000]


def test_a_passing_error_is_unknown_once_and_asked_again() -> None:
    with host(cards=[card(faults=[{"kind": "timeout", "at": "utilization", "until": 1010}])]) as played:
        assert played.look().utilization is None
        played.now = 1010.0
        assert played.look().utilization == 0


STAGES = ("handle", "uuid", "name", "bus_id", "serial", "memory", "utilization", "encoder", "decoder", "temperature")


@pytest.mark.parametrize("stage", [*STAGES, "power", "processes", "graphics"])
@pytest.mark.parametrize("kind", ["lost", "reset_required"])
def test_a_card_lost_at_any_stage_is_one_entry_and_seven_others_go_on(stage: str, kind: str) -> None:
    cards = [card(f"GPU-{n}") for n in range(8)]
    with host(cards=cards, processes=[job(uuid="GPU-3"), job(101, uuid="GPU-4")]) as played:
        whole = played.nvml.look()
        assert [found.problem for found in whole] == [None] * 8
        cards[3]["faults"] = [{"kind": kind, "at": stage}]
        found = played.nvml.look()
        assert [found[n] for n in range(8) if n != 3] == [whole[n] for n in range(8) if n != 3]
        out = found[3]
        assert (out.uuid, out.index, out.problem and out.problem.code) == ("GPU-3", 3, kind)
        measured = (out.memory_total, out.memory_used, out.utilization, out.encoder, out.decoder, out.temperature)
        assert (*measured, out.power_mw, out.processes) == (None,) * 8


def test_a_card_lost_before_it_told_its_identity_is_an_entry_without_one() -> None:
    fault = {"kind": "lost", "at": "handle"}
    with host(cards=[card("GPU-0", faults=[fault]), card("GPU-1")]) as played:
        found = played.nvml.look()
    assert found[0] == Card(uuid="", index=0, problem=Problem("lost", "GPU is lost"))
    assert (found[1].uuid, found[1].problem) == ("GPU-1", None)


def test_an_index_that_became_another_card_is_not_taken_for_the_old_one() -> None:
    with host(cards=[card("GPU-0"), card("GPU-1")]) as played:
        played.nvml.look()
        played.nvml.close()
        played.data["cards"] = [card("GPU-1", faults=[{"kind": "lost", "at": "handle"}])]
        assert [found.uuid for found in played.nvml.look()] == [""]


def test_a_lost_card_is_looked_for_afresh_now_and_then_and_found_when_it_is_back() -> None:
    with host() as played:
        played.look()
        played.data["cards"][0]["faults"] = [{"kind": "lost"}]
        played.look()
        played.now += REOPEN_AFTER_S
        played.data["cards"][0]["faults"] = []
        assert played.look().problem is None
        assert played.double.calls["nvmlInitWithFlags"] == 2
        played.now += 10 * REOPEN_AFTER_S
        played.look()
        assert played.double.calls["nvmlInitWithFlags"] == 2  # a healthy host is not opened again


def test_a_card_without_uuid_is_unreadable() -> None:
    with host(cards=[card(not_supported=["uuid"])]) as played:
        assert played.look() == Card(uuid="", index=0, problem=Problem("unreadable", "the card does not tell its UUID"))


def test_two_cards_that_tell_the_same_uuid_are_both_unreadable_and_the_third_goes_on() -> None:
    def the_same(handle: Any, buffer: Any, length: Any) -> int:
        buffer.value = next(uuids)
        return 0

    uuids = iter([b"GPU-1", b"GPU-2", b"GPU-1"])
    with host(cards=[card(f"GPU-{n}") for n in range(3)]) as played:
        played.double._functions["nvmlDeviceGetUUID"] = the_same
        found = played.nvml.look()
    problem = Problem("unreadable", "another card tells the same UUID")
    assert (found[0], found[2]) == (Card(uuid="", index=0, problem=problem), Card(uuid="", index=2, problem=problem))
    assert (found[1].uuid, found[1].problem) == ("GPU-2", None)


@pytest.mark.parametrize(
    ("missing", "processes"),
    [
        ((), FULL.processes),
        (("v3",), FULL.processes),
        (("v3", "v2"), None),
    ],
)
def test_an_older_driver_is_asked_in_its_older_way(missing: tuple[str, ...], processes: Any) -> None:
    absent = [f"nvmlDeviceGet{which}RunningProcesses_{v}" for which in ("Compute", "Graphics") for v in missing]
    with host(processes=[job()], missing_functions=absent) as played:
        assert played.look().processes == processes
        assert played.look().processes == processes
        assert played.double.calls["nvmlDeviceGetComputeRunningProcesses_v3"] == (1 if missing else 4)


@pytest.mark.parametrize(
    ("missing", "memory"),
    [
        (["nvmlDeviceGetMemoryInfo_v2"], (80 * GIB, GIB)),
        (["nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"], (None, None)),
    ],
)
def test_memory_falls_back_to_the_first_version(missing: list[str], memory: Any) -> None:
    with host(missing_functions=missing) as played:
        found = played.look()
    assert (found.memory_total, found.memory_used) == memory


def memory_says(total: int, used: int) -> Any:
    def answer(handle: Any, info: Any) -> int:
        info._obj.total, info._obj.used = total, used
        return 0

    return answer


@pytest.mark.parametrize(
    ("told", "taken"),
    [
        ((80 * GIB, 0), (80 * GIB, 0)),
        ((80 * GIB, 80 * GIB), (80 * GIB, 80 * GIB)),
        ((80 * GIB, 80 * GIB + 1), (80 * GIB, None)),
        ((80 * GIB, 2**64 - 1), (80 * GIB, None)),
        ((0, 0), (None, 0)),
        ((2**64 - 1, 5), (None, 5)),
        ((2**64 - 1, 2**64 - 1), (None, None)),
    ],
)
def test_memory_that_cannot_be_is_unknown(told: tuple[int, int], taken: Any) -> None:
    with host() as played:
        played.double._functions["nvmlDeviceGetMemoryInfo_v2"] = memory_says(*told)
        found = played.look()
    assert (found.memory_total, found.memory_used) == taken


def number_says(value: int) -> Any:
    def answer(handle: Any, *targets: Any) -> int:
        target = next(t._obj for t in targets if hasattr(t, "_obj"))
        if hasattr(target, "gpu"):
            target.gpu = value
        else:
            target.value = value
        return 0

    return answer


@pytest.mark.parametrize(
    ("function", "field", "told", "taken"),
    [
        ("nvmlDeviceGetUtilizationRates", "utilization", 100, 100),
        ("nvmlDeviceGetUtilizationRates", "utilization", 101, None),
        ("nvmlDeviceGetUtilizationRates", "utilization", 2**32 - 1, None),
        ("nvmlDeviceGetEncoderUtilization", "encoder", 4000, None),
        ("nvmlDeviceGetDecoderUtilization", "decoder", 2**32 - 1, None),
        ("nvmlDeviceGetTemperature", "temperature", 2**32 - 1, None),
        ("nvmlDeviceGetTemperature", "temperature", 0, 0),
        ("nvmlDeviceGetPowerUsage", "power_mw", 2**32 - 1, None),
        ("nvmlDeviceGetPowerUsage", "power_mw", 0, 0),
    ],
)
def test_numbers_that_cannot_be_are_unknown_and_zero_is_a_number(function: str, field: str, told: int, taken: Any) -> None:
    with host() as played:
        played.double._functions[function] = number_says(told)
        assert getattr(played.look(), field) == taken


def test_memory_of_a_process_that_is_not_told_or_cannot_be_is_unknown_and_the_process_stays() -> None:
    with host(processes=[job(1, memory=None), job(2, memory=81 * GIB), job(3, memory=0)]) as played:
        found = played.look().processes
    assert found is not None
    assert [(process.pid, process.memory) for process in found] == [(1, None), (2, None), (3, 0)]


def test_compute_and_graphics_of_one_process_are_one_entry() -> None:
    with host(processes=[job(7, kind="G"), job(8, kind="C+G"), job(9, kind="C")]) as played:
        found = played.look().processes
    assert found is not None
    assert [(process.pid, process.kind, process.memory) for process in found] == [
        (7, "G", 2 * GIB),
        (8, "C+G", 2 * GIB),
        (9, "C", 2 * GIB),
    ]


def test_without_the_compute_list_the_processes_are_unknown_whatever_graphics_says() -> None:
    fault = {"kind": "unknown_error", "at": "processes"}
    with host(cards=[card(faults=[fault])], processes=[job(kind="C+G")]) as played:
        found = played.look()
    assert (found.processes, found.problem) == (None, Problem("processes_unread", "Unknown Error"))
    assert found.memory_used == 3 * GIB


def test_without_the_graphics_list_the_compute_list_stands_and_says_that_it_is_half() -> None:
    fault = {"kind": "unknown_error", "at": "graphics"}
    with host(cards=[card(faults=[fault])], processes=[job()]) as played:
        found = played.look()
    assert (found.processes, found.problem) == (FULL.processes, Problem("graphics_unread", "Unknown Error"))


def test_a_list_with_a_pid_that_cannot_be_is_not_believed() -> None:
    with host(processes=[job(0), job(100)]) as played:
        found = played.look()
    assert found.processes is None
    assert found.problem == Problem("processes_unread", "the list holds a pid that cannot be")


@pytest.mark.parametrize(("times", "read"), [(2, True), (3, False)])
def test_a_list_that_outgrows_its_room_is_asked_again_a_few_times(times: int, read: bool) -> None:
    with host(processes=[job()]) as played:
        name = "nvmlDeviceGetComputeRunningProcesses_v3"
        answer = played.double._functions[name]
        grown: list[int] = []

        def growing(handle: Any, count: Any, rows: Any) -> int:
            if rows is not None and len(grown) < times:
                grown.append(1)
                return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
            return answer(handle, count, rows)

        played.double._functions[name] = growing
        assert played.look().processes == (FULL.processes if read else None)


@pytest.mark.parametrize(
    ("function", "name", "serial"),
    [("nvmlDeviceGetName", None, FULL.serial), ("nvmlDeviceGetSerial", FULL.name, None)],
)
def test_a_text_that_is_none_is_unknown(function: str, name: str | None, serial: str | None) -> None:
    def rubbish(handle: Any, buffer: Any, length: Any) -> int:
        buffer.value = b"\xff\xfe"
        return 0

    with host(processes=[job()]) as played:
        played.double._functions[function] = rubbish
        assert played.look() == replace(FULL, name=name, serial=serial)


@pytest.mark.parametrize("kind", ["no_library", "no_driver", "mismatch", "no_permission", "unknown_error"])
def test_a_host_that_cannot_be_read_says_why_and_is_read_when_it_is_over(kind: str) -> None:
    with host(faults=[{"kind": kind, "until": 1020}]) as played:
        for _ in range(2):
            with pytest.raises(HostProblem) as caught:
                played.nvml.look()
            assert caught.value.problem.code == kind
        played.now = 1020.0
        assert played.look().problem is None


@pytest.mark.parametrize("kind", ["no_driver", "mismatch", "unknown_error"])
def test_a_host_that_fails_between_two_looks_is_initialised_again(kind: str) -> None:
    with host(faults=[{"kind": kind, "from": 1010, "until": 1020}]) as played:
        played.look()
        played.now = 1010.0
        with pytest.raises(HostProblem):
            played.nvml.look()
        played.now = 1020.0
        assert played.look().problem is None
        assert played.double.calls["nvmlInitWithFlags"] == 2


def test_a_driver_that_goes_in_the_middle_of_a_card_is_a_problem_of_the_host() -> None:
    with host() as played:
        played.answer("nvmlDeviceGetPowerUsage", pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
        with pytest.raises(HostProblem) as caught:
            played.nvml.look()
    assert caught.value.problem == Problem("no_driver", "Driver Not Loaded")


def test_what_a_card_did_not_tell_is_asked_again_after_the_library_was_opened_again() -> None:
    with host(cards=[card(not_supported=["power"])]) as played:
        assert played.look().power_mw is None
        played.data["cards"] = [card()]
        assert played.look().power_mw is None
        played.nvml.close()
        assert played.look().power_mw == 60_000


def readings(tmp_path: Path, played: Played) -> Reader:
    proc = FakeProc(tmp_path)
    played.double._on_look = proc.follow
    return Reader("gpu-a", played.nvml, ProcFs(str(tmp_path)), simulated=True, clock=lambda: played.now)


def test_a_reading_names_the_owner_and_the_start_of_each_process(tmp_path: Path) -> None:
    with host(boot_id="b-1", processes=[job(100, uid=1003, started_ticks=777), job(101, gone=True)]) as played:
        reading = readings(tmp_path, played).read()
    assert reading == Reading(
        host="gpu-a",
        boot_id="b-1",
        sequence=1,
        taken_at=1000.0,
        took_ms=reading.took_ms,
        driver="580.95.05",
        problem=None,
        simulated=True,
        cards=(
            replace(
                FULL,
                memory_used=5 * GIB,
                utilization=100,
                temperature=70,
                processes=(
                    Process(100, 777, 1003, "C", 2 * GIB, None),
                    # It ended between the list and the look-up: still there, and nobody's.
                    Process(101, None, None, "C", 2 * GIB, "gone"),
                ),
            ),
        ),
    )
    assert Reading.from_dict(reading.to_dict()) == reading


def test_a_reading_of_a_host_that_cannot_be_read_has_the_problem_and_no_cards(tmp_path: Path) -> None:
    with host(faults=[{"kind": "no_driver"}]) as played:
        reading = readings(tmp_path, played).read()
    assert (reading.problem, reading.cards, reading.driver) == (Problem("no_driver", "Driver Not Loaded"), (), None)
    assert Reading.from_dict(reading.to_dict()) == reading


def test_the_sequence_counts_up_or_is_the_one_asked_for(tmp_path: Path) -> None:
    with host() as played:
        reader = readings(tmp_path, played)
        assert [reader.read().sequence, reader.read().sequence, reader.read(40).sequence, reader.read().sequence] == [
            1,
            2,
            40,
            41,
        ]


CODES = [*range(31), 99, 999, 12345]
FUNCTIONS = sorted(Double(lambda: parse({}))._functions)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(st.sampled_from(FUNCTIONS), st.sampled_from(CODES), max_size=4))
def test_whatever_code_a_driver_answers_to_whatever_question_there_is_a_reading(tmp_path: Path, codes: dict[str, int]) -> None:
    with host(cards=[card("GPU-0"), card("GPU-1")], processes=[job(uuid="GPU-0")]) as played:
        for function, code in codes.items():
            played.answer(function, code)
        reader = readings(tmp_path, played)
        for _ in range(2):
            reading = reader.read()
            assert Reading.from_dict(reading.to_dict()) == reading
            if reading.problem is None and "nvmlDeviceGetCount_v2" not in codes:
                assert [found.index for found in reading.cards] == [0, 1]


UNSIGNED = st.sampled_from([0, 1, 99, 101, 2**31, 2**32 - 1]) | st.integers(0, 2**32 - 1)
BYTES = st.sampled_from([0, 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.tuples(UNSIGNED, UNSIGNED, UNSIGNED, UNSIGNED, UNSIGNED),
    st.tuples(BYTES, BYTES),
    st.lists(st.tuples(UNSIGNED, BYTES), max_size=5),
)
def test_whatever_numbers_a_driver_makes_up_there_is_a_reading(
    tmp_path: Path, numbers: tuple[int, ...], memory: tuple[int, int], rows: list[tuple[int, int]]
) -> None:
    def listed(handle: Any, count: Any, array: Any) -> int:
        count._obj.value = len(rows)
        if not rows:
            return 0
        if array is None:
            return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
        for row, (pid, used) in zip(array, rows, strict=False):
            row.pid, row.usedGpuMemory = pid, used
        return 0

    with host() as played:
        names = ("UtilizationRates", "EncoderUtilization", "DecoderUtilization", "Temperature", "PowerUsage")
        for name, number in zip(names, numbers, strict=True):
            played.double._functions["nvmlDeviceGet" + name] = number_says(number)
        played.double._functions["nvmlDeviceGetMemoryInfo_v2"] = memory_says(*memory)
        for which in ("Compute", "Graphics"):
            played.double._functions[f"nvmlDeviceGet{which}RunningProcesses_v3"] = listed
        reading = readings(tmp_path, played).read()
    assert reading.problem is None
    assert len(reading.cards) == 1
    assert Reading.from_dict(reading.to_dict()) == reading
