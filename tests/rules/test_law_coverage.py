"""Every number of the law has a test that bears it, or stands in the list of what is to come, which may only shrink."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What brings each number that is not wholly here yet (a part of it may be, and be tested). It may only shrink.
MOST_LATER = 16
LATER = {
    "I2": "judging and keeping", "I5": "judging and keeping", "I6": "judging and keeping", "I7": "judging and keeping",
    "I8": "judging and keeping", "I9": "conduct and arbitration", "I10": "conduct and arbitration",
    "J3": "conduct and arbitration", "J5": "conduct and arbitration",
    "K1": "messages", "K2": "messages", "K3": "messages", "K4": "messages",
    "L1": "conduct and arbitration",
    "M2": "accounts of the lab", "M3": "accounts of the lab",
}


def numbers() -> list[str]:
    """The numbers of the law, from its document."""
    return re.findall(r"^### ([A-N]\d*)$", (ROOT / "docs" / "policy.md").read_text(encoding="utf-8"), flags=re.MULTILINE)


def named_by_tests() -> set[str]:
    """The numbers that names of tests, or ids of their rows, bear."""
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"def (test_\w+)", text):
            found |= {number.upper() for number in re.findall(r"(?<![a-z0-9])([a-n]\d{1,2})(?![a-z0-9])", name.replace("_", " "))}
            found |= {letter.upper() for letter in re.findall(r"^test_([hn])_", name)}
        found |= set(re.findall(r'id="([A-N]\d{1,2}):', text))
    return found


def test_every_number_has_a_test_or_a_place_in_the_list() -> None:
    law = set(numbers()) - {"I"}
    missing = sorted(law - named_by_tests() - set(LATER))
    assert not missing, f"numbers of the law that nothing tests: {missing}"


def test_the_list_of_what_is_to_come_only_shrinks() -> None:
    assert set(LATER) <= set(numbers())
    assert len(LATER) <= MOST_LATER
