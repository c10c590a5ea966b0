"""The contract with the server: what goes in comes out, and nothing else comes in."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labgpu.agent.reading import BadReading, Card, Problem, Process, Reading, printable

PROCESS = {"pid": 4242, "started": 81234, "uid": 1003, "kind": "C", "memory": 2147483648, "problem": None}
CARD = {
    "uuid": "GPU-b01e9f90-c60c-4ad1-2052-154833662357",
    "index": 0,
    "name": "NVIDIA A100-SXM4-80GB",
    "bus_id": "00000000:01:00.0",
    "serial": "1323120035212",
    "memory_total": 85899345920,
    "memory_used": 2154823680,
    "utilization": 37,
    "encoder": 0,
    "decoder": 0,
    "temperature": 41,
    "power_mw": 187000,
    "problem": None,
    "processes": [PROCESS],
}
READING = {
    "format": 1,
    "host": "gpu-a",
    "boot_id": "66dfc652-3a84-49c5-bc77-b3eaac69b68a",
    "sequence": 17,
    "taken_at": 1796048373.25,
    "took_ms": 12,
    "driver": "580.95.05",
    "problem": None,
    "simulated": False,
    "cards": [CARD],
}


def changed(path: tuple[Any, ...], value: Any) -> Any:
    data = copy.deepcopy(READING)
    place: Any = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return data


def test_the_json_form_is_exactly_the_one_agreed_with_the_server() -> None:
    reading = Reading(
        host="gpu-a",
        boot_id="66dfc652-3a84-49c5-bc77-b3eaac69b68a",
        sequence=17,
        taken_at=1796048373.25,
        took_ms=12,
        driver="580.95.05",
        problem=None,
        simulated=False,
        cards=(
            Card(
                uuid="GPU-b01e9f90-c60c-4ad1-2052-154833662357",
                index=0,
                name="NVIDIA A100-SXM4-80GB",
                bus_id="00000000:01:00.0",
                serial="1323120035212",
                memory_total=85899345920,
                memory_used=2154823680,
                utilization=37,
                encoder=0,
                decoder=0,
                temperature=41,
                power_mw=187000,
                problem=None,
                processes=(Process(4242, 81234, 1003, "C", 2147483648, None),),
            ),
        ),
    )
    assert reading.to_dict() == READING
    assert json.loads(reading.to_json()) == READING
    assert Reading.from_dict(READING) == reading
    assert Reading.from_json(json.dumps(READING).encode()) == reading


def test_unknown_and_none_stay_apart() -> None:
    unknown = Reading.from_dict(changed(("cards", 0, "processes"), None)).cards[0]
    none = Reading.from_dict(changed(("cards", 0, "processes"), [])).cards[0]
    assert (unknown.processes, none.processes) == (None, ())
    assert unknown.to_dict()["processes"] is None
    assert none.to_dict()["processes"] == []


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("format",), 2, "reading.format must be 1: this reading comes from an agent of another version."),
        (("host",), "", "reading.host must have 1 to 200 characters."),
        (("host",), "a\x00b", "reading.host must have printable characters only."),
        (("host",), "\ud800", "reading.host must have printable characters only."),
        (("host",), "x" * 201, "reading.host must have 1 to 200 characters."),
        (("sequence",), -1, "reading.sequence must be between 0 and 9223372036854775807."),
        (("sequence",), True, "reading.sequence must be a whole number."),
        (("taken_at",), float("nan"), "reading.taken_at must be between 0 and 100000000000 seconds."),
        (("taken_at",), float("inf"), "reading.taken_at must be between 0 and 100000000000 seconds."),
        (("taken_at",), 10**400, "reading.taken_at must be between 0 and 100000000000 seconds."),
        (("taken_at",), "now", "reading.taken_at must be a number of seconds."),
        (("simulated",), 0, "reading.simulated must be true or false."),
        (("problem",), {"code": "hung"}, "reading.problem.detail is missing."),
        (
            ("problem",),
            {"code": "hung", "detail": ""},
            "reading.cards must be empty when the whole host has a problem.",
        ),
        (("cards",), {}, "reading.cards must be a list."),
        (("cards",), [CARD] * 257, "reading.cards has 257 entries; at most 256 are allowed."),
        (("cards",), [CARD, CARD], "cards has two entries with the same index."),
        (("cards",), [CARD, {**CARD, "index": 1}], "cards has two entries with the same uuid."),
        (("cards", 0), None, "cards[0] must be an object."),
        (("cards", 0, "utilization"), 101, "cards[0].utilization must be between 0 and 100."),
        (("cards", 0, "utilization"), 50.0, "cards[0].utilization must be a whole number."),
        (("cards", 0, "memory_used"), 2**64 - 1, "cards[0].memory_used must be between 0 and 9223372036854775807."),
        (("cards", 0, "uuid"), None, "cards[0].uuid must be a text."),
        (
            ("cards", 0, "processes"),
            [{**PROCESS, "pid": n + 1} for n in range(4097)],
            "cards[0].processes has 4097 entries; at most 4096 are allowed.",
        ),
        (("cards", 0, "processes"), [PROCESS, PROCESS], "cards[0].processes has two entries with the same pid."),
        (("cards", 0, "processes", 0, "pid"), 0, "cards[0].processes[0].pid must be between 1 and 2147483647."),
        (("cards", 0, "processes", 0, "kind"), "M", "cards[0].processes[0].kind must be C, G or C+G."),
        (("cards", 0, "processes", 0, "uid"), "root", "cards[0].processes[0].uid must be a whole number."),
    ],
)
def test_what_is_wrong_is_refused_with_a_sentence_that_names_it(path: Any, value: Any, sentence: str) -> None:
    with pytest.raises(BadReading) as caught:
        Reading.from_dict(changed(path, value))
    assert str(caught.value) == sentence


@pytest.mark.parametrize("where", [READING, CARD, PROCESS], ids=["reading", "card", "process"])
def test_every_key_is_needed(where: dict[str, Any]) -> None:
    for key in where:
        data = copy.deepcopy(READING)
        inner: Any = {0: data, 1: data["cards"][0], 2: data["cards"][0]["processes"][0]}[  # type: ignore[index]
            [READING, CARD, PROCESS].index(where)
        ]
        del inner[key]
        with pytest.raises(BadReading):
            Reading.from_dict(data)


def test_keys_of_a_later_agent_are_ignored() -> None:
    assert Reading.from_dict({**READING, "kernel": "7.0"}) == Reading.from_dict(READING)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"a":1e999}', "NaN", "null", "9" * 5000, b"\xff\xfe\xff"])
def test_text_that_is_no_reading_is_refused(text: str | bytes) -> None:
    with pytest.raises(BadReading):
        Reading.from_json(text)


def test_two_cards_without_identity_are_two_cards() -> None:
    lost = {**CARD, "uuid": "", "problem": {"code": "lost", "detail": "GPU is lost"}, "processes": None}
    assert len(Reading.from_dict({**READING, "cards": [lost, {**lost, "index": 1}]}).cards) == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
PATHS = [
    *[(key,) for key in READING],
    ("cards", 0),
    *[("cards", 0, key) for key in CARD],
    ("cards", 0, "processes", 0),
    *[("cards", 0, "processes", 0, key) for key in PROCESS],
]


@given(JSON | st.binary() | st.sets(st.integers()))
def test_anything_at_all_is_a_bad_reading(data: Any) -> None:
    with pytest.raises(BadReading):
        Reading.from_dict(data)


@given(st.lists(st.tuples(st.sampled_from(PATHS), JSON), min_size=1, max_size=3))
def test_a_reading_with_anything_in_any_place_is_a_reading_or_a_bad_one(changes: list[tuple[Any, Any]]) -> None:
    data: Any = copy.deepcopy(READING)
    for path, value in changes:
        place: Any = data
        try:
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
        except (TypeError, KeyError, IndexError):
            continue  # an earlier change took the place away
    try:
        reading = Reading.from_dict(data)
    except BadReading as error:
        assert str(error).endswith(".")
    else:
        assert Reading.from_dict(reading.to_dict()) == reading


TEXTS = st.text(max_size=300).map(printable)
COUNTS = st.integers(0, 2**63 - 1)
PERCENTS = st.none() | st.integers(0, 100)
PROBLEMS = st.none() | st.builds(Problem, TEXTS.filter(bool), TEXTS)
PROCESSES = st.builds(
    Process,
    st.integers(1, 2**31 - 1),
    st.none() | COUNTS,
    st.none() | st.integers(0, 2**32 - 1),
    st.sampled_from(["C", "G", "C+G"]),
    st.none() | COUNTS,
    st.none() | TEXTS.filter(bool),
)
CARDS = st.builds(
    Card,
    uuid=TEXTS,
    index=st.integers(0, 255),
    name=st.none() | TEXTS,
    bus_id=st.none() | TEXTS,
    serial=st.none() | TEXTS,
    memory_total=st.none() | COUNTS,
    memory_used=st.none() | COUNTS,
    utilization=PERCENTS,
    encoder=PERCENTS,
    decoder=PERCENTS,
    temperature=st.none() | st.integers(0, 250),
    power_mw=st.none() | st.integers(0, 10_000_000),
    problem=PROBLEMS,
    processes=st.none() | st.lists(PROCESSES, max_size=3, unique_by=lambda p: p.pid).map(tuple),
)


@given(
    st.builds(
        Reading,
        host=TEXTS.filter(bool),
        boot_id=TEXTS,
        sequence=COUNTS,
        taken_at=st.floats(0, 1e11),
        took_ms=st.integers(0, 10**8),
        driver=st.none() | TEXTS,
        problem=st.none(),
        simulated=st.booleans(),
        cards=st.lists(CARDS, max_size=3, unique_by=(lambda c: c.index, lambda c: c.uuid)).map(tuple),
    )
)
def test_every_reading_survives_the_way_to_the_server(reading: Reading) -> None:
    assert Reading.from_json(reading.to_json()) == reading
