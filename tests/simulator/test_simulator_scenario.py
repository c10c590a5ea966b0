"""What a scenario means. The expected numbers are worked out by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from labgpu.simulator.fakeproc import FakeProc
from labgpu.simulator.identities import MODELS, card
from labgpu.simulator.scenario import BadScenario, Scenario, ScenarioFile, parse

A = {"uuid": "GPU-a"}


def job(**other: Any) -> dict[str, Any]:
    return {"pid": 100, "uid": 1003, "card": "GPU-a", **other}


@pytest.mark.parametrize(
    ("span", "there"),
    [
        ({}, [True, True, True, True]),
        ({"from": 20}, [False, True, True, True]),
        ({"until": 30}, [True, True, True, False]),
        ({"from": 20, "until": 30}, [False, True, True, False]),
        ({"from": None, "until": None}, [True, True, True, True]),
        ({"from": 20, "until": 20}, [False, False, False, False]),
    ],
)
def test_a_process_is_there_from_its_first_moment_until_before_its_last(span: Any, there: list[bool]) -> None:
    played = parse({"cards": [A], "processes": [job(**span)]})
    assert [bool(played.running(now)) for now in (19.9, 20.0, 29.9, 30.0)] == there


def test_a_curve_rises_from_low_to_high_and_falls_back_and_is_the_same_at_every_call() -> None:
    played = parse({"cards": [A], "processes": [job(utilization={"low": 10, "high": 90, "period_s": 60})]})
    curve = played.processes[0].utilization
    assert [round(curve.at(now), 6) for now in (600, 615, 630, 645, 660)] == [10, 50, 90, 50, 10]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([], "an object was expected"),
        ({"card": []}, "the scenario: unknown card"),
        ({"cards": [A, A]}, "two cards have the same uuid"),
        ({"cards": [{**A, "temprature": 3}]}, "card GPU-a: unknown temprature"),
        ({"cards": [{**A, "not_supported": ["fan"]}]}, "card GPU-a: nothing is called fan"),
        ({"cards": [{**A, "faults": [{"kind": "hang"}]}]}, "no such fault here: hang"),
        ({"cards": [{**A, "faults": [{"kind": "lost", "at": "fan"}]}]}, "no such query: fan"),
        ({"cards": [{}]}, "the scenario is wrong: KeyError: 'uuid'"),
        ({"processes": [job()]}, "process 100 is on card GPU-a, which is not there"),
        ({"cards": [A], "processes": [job(kind="M")]}, "process 100: kind must be C, G or C+G"),
        (
            {"cards": [A], "processes": [job(utilization={"low": 0, "high": 1, "period_s": 0})]},
            "a period must be longer than nothing",
        ),
    ],
)
def test_a_scenario_that_would_not_be_played_as_written_is_refused(data: Any, sentence: str) -> None:
    with pytest.raises(BadScenario) as caught:
        parse(data)
    assert str(caught.value) == sentence


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def write(path: Path, **data: Any) -> None:
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(data))
    beside.replace(path)


def test_a_changed_file_is_played_at_the_next_look(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    write(path, driver="1")
    file = ScenarioFile(path)
    assert file.current().driver == "1"
    write(path, driver="2")  # the same size, and maybe within the same tick of the file system's clock
    assert file.current().driver == "2"


def test_a_file_that_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    write(path, driver="1")
    file = ScenarioFile(path)
    assert file.current() is file.current()


@pytest.mark.parametrize("text", ["", '{"driver": "2"', '{"driver": "2", "crads": []}', "[]"])
def test_a_half_written_or_wrong_file_is_not_played_and_the_whole_one_after_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "scenario.json"
    write(path, driver="1")
    file = ScenarioFile(path)
    path.write_text(text)
    assert file.current().driver == "1"
    path.write_text('{"driver": "3"}')
    assert file.current().driver == "3"


def test_a_file_that_is_gone_is_played_on(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    write(path, driver="1")
    file = ScenarioFile(path)
    path.unlink()
    assert file.current().driver == "1"


def test_without_a_scenario_to_start_with_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ScenarioFile(tmp_path / "scenario.json")
    (tmp_path / "scenario.json").write_text("{")
    with pytest.raises(BadScenario):
        ScenarioFile(tmp_path / "scenario.json")


def test_the_process_table_follows_the_scenario(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    played = parse(
        {
            "boot_id": "b-1",
            "cards": [A],
            "processes": [job(until=30), job(pid=101, **{"from": 30}), job(pid=102, gone=True)],
        }
    )
    proc.follow(played, 29)
    assert names(tmp_path) == ["100", "sys"]
    proc.follow(played, 30)
    assert names(tmp_path) == ["101", "sys"]
    proc.follow(Scenario(boot_id="b-2"), 31)
    assert names(tmp_path) == ["sys"]
    assert (tmp_path / "sys/kernel/random/boot_id").read_text() == "b-2\n"


@pytest.mark.parametrize("model", MODELS)
def test_cards_are_the_same_at_every_call_and_differ_from_each_other(model: str) -> None:
    assert card(model, 3) == card(model, 3)
    cards = [card(model, number, host) for host in ("gpu-a", "gpu-b") for number in range(8)]
    assert len({one["uuid"] for one in cards}) == 16
    assert all(re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", one["uuid"]) for one in cards)
    assert len(parse({"cards": cards}).cards) == 16


def test_consumer_cards_tell_no_serial_number_and_server_cards_do() -> None:
    assert card("rtx4090", 0)["serial"] is None
    assert re.fullmatch(r"[0-9]{13}", card("a100-80", 0)["serial"])
