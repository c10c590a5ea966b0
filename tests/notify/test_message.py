"""What a message may hold."""

import pytest

from labgpu.notify.message import BadMessage, Message, Recipient, has_break, one_line

GOOD = {
    "id": "ending.1", "thread": "reservation.1", "recipient": Recipient("Lin", "lin@lab.example"), "subject": "10 min left",
    "text": "…", "html": "<p>…", "language": "en",
}
BREAKS = ["\n", "\r", "\r\n", "\x00", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\t"]


@pytest.mark.parametrize("line_break", BREAKS)
@pytest.mark.parametrize("part", ["id", "thread", "subject", "language", "name", "email"])
def test_nothing_that_stands_in_a_head_may_hold_a_line_break(part: str, line_break: str) -> None:
    text = f"Lin{line_break}Bcc: everybody@lab.example"
    values = dict(GOOD)
    if part == "name":
        values["recipient"] = Recipient(text, "lin@lab.example")
    elif part == "email":
        values["recipient"] = Recipient("Lin", text)
    else:
        values[part] = text
    with pytest.raises(BadMessage):
        Message(**values)


@pytest.mark.parametrize("part", ["subject", "recipient"])
def test_a_message_needs_a_subject_and_an_address(part: str) -> None:
    empty = {"subject": "  ", "recipient": Recipient("Lin", " ")}
    with pytest.raises(BadMessage):
        Message(**{**GOOD, part: empty[part]})


@pytest.mark.parametrize("line_break", BREAKS)
def test_one_line_is_one_line(line_break: str) -> None:
    assert one_line(f"  a{line_break} b ") == "a b"
    assert not has_break(one_line(f"a{line_break}b"))
