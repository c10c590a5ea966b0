"""docs/policy.md: every number of the law, once, in order, in both languages, with the same figures."""

import re
from collections import Counter
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")

SECTIONS = {
    "A": range(1, 6), "B": range(1, 7), "C": range(1, 4), "D": range(1, 9), "E": range(1, 7), "F": range(1, 4), "G": range(1, 8),
    "H": range(9), "I": range(1, 11), "J": range(1, 6), "K": range(1, 6), "L": range(1, 5), "M": range(1, 4),
}
NUMBERS = [f"{letter}{number}" for letter, numbers in SECTIONS.items() for number in numbers] + ["N"]
TABLES = ["H", "I", "N"]  # headings that carry a table; H and I introduce theirs and are no rules themselves

# What the law marks as editable, in order: figures, or the words and letters that stand where a figure would.
MARKED = {
    "A1": ["15", "72"], "A4": ["14"], "B1": ["staff", "4", "6"], "B5": ["mixed"], "B6": ["1"], "D1": ["20:00"],
    "D2": ["8", "2", "16"], "D4": ["18:00"], "D5": ["48"], "F2": ["9"], "F3": ["17:00"], "G4": ["k"], "G7": ["q"], "H2": ["30"],
    "H5": ["72", "8"], "I1": ["10"], "I4": ["10"], "I5": ["30", "60", "120"], "J2": ["30"], "J3": ["1", "3", "5"], "K1": ["10"],
}

# Figures that stand in one language only, and why. Empty: both languages write the same quantities as figures.
ONE_LANGUAGE_ONLY: dict[str, Counter[str]] = {}

STATUSES = {
    "requested": "待裁决", "offered": "待接受", "booked": "已预约", "active": "进行中", "finished": "已结束",
    "released": "已释放", "forfeited": "已收回", "interrupted": "已中断", "cancelled": "已取消", "displaced": "已让出",
    "declined": "已驳回", "lapsed": "已过期", "passed": "已放弃",
}
BECOMES = {
    "requested": {"booked", "declined", "cancelled", "lapsed"},
    "offered": {"booked", "passed"},
    "booked": {"active", "cancelled", "displaced"},
    "active": {"finished", "released", "forfeited", "interrupted"},
}

# state: offered to others, may lead to a sanction
STATES = {
    "free 空闲": ("yes 是", "–"),
    "in use 使用中": ("no 否", "–"),
    "held idle 空闲占卡": ("no 否", "I5"),
    "held empty 占而未用": ("no 否", "H2, I6"),
    "overrun 超时未释放": ("with a warning 附警告", "I4"),
    "unbooked use 未预约使用": ("with a warning 附警告", "I7"),
    "contested 冲突使用": ("no 否", "I7"),
    "held, not visible": ("with a warning 附警告", "never 绝不"),
    "unknown": ("with a warning 附警告", "never 绝不"),
    "offline, lost 失联": ("no 否", "never 绝不"),
}

# strict, balanced, friendly
PRESETS = {
    "day opens before, days": ("7", "14", "28"),
    "longest reservation, h": ("24", "72", "168"),
    "weekly GPU-hours: undergraduate, master, PhD, staff": ("12; 40; 60; 60", "20; 60; 100; 100", "40; 120; 168; 168"),
    "weekly GPU-hours of a project": ("120", "240", "480"),
    "cards at once; open future reservations": ("2; 3", "4; 6", "8; 12"),
    "walk-in: longest, h; cards at once; free card-hours a day": ("4; 1; 8", "8; 2; 16", "12; 4; 48"),
    "working day 09–18: mode; rate; most hours inside": ("`open`; 2; 4", "`open`; 1.5; 9", "`walk-in`"),
    "nights, weekends, rest days: mode; rate": ("`open`; 1", "`open`; 1", "`long`; 1"),
    "confirmation asked; no-show after, min": ("yes 是; 20", "yes 是; 30", "no 否; 60"),
    "overrun grace period, min": ("5", "10", "20"),
    "held idle: notice, second, forfeit, min": ("20; 40; 60", "30; 60; 120", "60; 120; flag only 仅标记"),
    "points for one step, two steps, case; life, days": ("1; 2; 4; 60", "1; 3; 5; 30", "2; 4; 6; 14"),
    "displacement; elastic": ("on 开; off 关", "on 开; on 开", "off 关; on 开"),
    "emergency reserve; quick cards, per pool of 4 or more": ("1; 1", "0; 0", "0; 0"),
}

HAN = "\u4e00-\u9fff"
REFERENCE = re.compile(r"\b[A-N](?:10|\d)\b")
FIGURE = re.compile(r"\d+(?:[.:]\d+)?")
MARK = re.compile(r"(\d+(?:[.:]\d+)?)[^†\d,.;:，。；：、（）()]*†|([A-Za-z]+)`?†")  # a figure with its unit, or a word


def blocks(text: str) -> list[str]:
    return [block.strip() for block in re.split(r"\n\s*\n", text) if block.strip()]


def parse(text: str) -> dict[str, list[str]]:
    """What stands under each `###` heading, as blocks. Raises ValueError if a heading comes twice."""
    parts = re.split(r"^### (.+)$", re.sub(r"^## .+$", "", text, flags=re.M), flags=re.M)[1:]
    rules: dict[str, list[str]] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name in rules:
            raise ValueError(f"{name} comes twice")
        rules[name] = blocks(body)
    return rules


def paragraphs(body: list[str]) -> tuple[str, str]:
    """The English and the Chinese paragraph of a rule, which must be the first two blocks, one each."""
    (english, chinese), rest = body[:2], body[2:]
    assert english.startswith("en: "), english
    assert chinese.startswith("zh: "), chinese
    assert all(block.startswith("|") for block in rest), rest
    assert "\n" not in english + chinese, "a paragraph is one line"
    return english.removeprefix("en: ").strip(), chinese.removeprefix("zh: ").strip()


def rows(table: str) -> list[list[str]]:
    """The cells of a table's rows, without header and rule."""
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines()]


def slips(chinese: str) -> list[str]:
    """What is wrong with the typography of Chinese text."""
    patterns = {
        "half-width punctuation beside Han": rf"[{HAN}][,.:;!?()]|[,.:;!?()][{HAN}]",
        "no space between Han and Latin or digits": rf"[{HAN}][A-Za-z0-9`]|[A-Za-z0-9`%][{HAN}]",
        "a space beside full-width punctuation": r" [，。；：、（）“”]|[，。；：、（）“”] ",
        "a space between Han": rf"[{HAN}] +[{HAN}]",
        "您": "您",
    }
    return [name for name, pattern in patterns.items() if re.search(pattern, chinese)]


def marked(text: str) -> list[str]:
    """The figure, or else the word or letter, that each † of a text belongs to."""
    return [figure or word for figure, word in MARK.findall(text)]


def figures(text: str) -> Counter[str]:
    return Counter(FIGURE.findall(REFERENCE.sub("", text)))


RULES = parse(TEXT)
PAIRS = {name: paragraphs(body) for name, body in RULES.items()}


def test_every_number_stands_there_once_and_in_order() -> None:
    assert [name for name in RULES if name in NUMBERS] == NUMBERS
    assert set(RULES) - set(NUMBERS) == {"H", "I"}
    with pytest.raises(ValueError, match="A1 comes twice"):
        parse("### A1\n\nen: a\n\nzh: 甲\n\n### A1\n")


def test_one_section_per_letter_holds_its_numbers() -> None:
    titles = re.findall(r"^## (.+)$", TEXT, flags=re.M)
    assert [title[0] for title in titles] == [*SECTIONS, "N"]
    assert all(re.fullmatch(rf"[A-N]\. [A-Z][A-Za-z, -]+ / [{HAN}]+", title) for title in titles), titles
    for section in re.split(r"^## ", TEXT, flags=re.M)[1:]:
        assert {name[0] for name in re.findall(r"^### (.+)$", section, flags=re.M)} == {section[0]}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_has_one_english_and_one_chinese_paragraph(name: str) -> None:
    english, chinese = PAIRS[name]
    assert len(RULES[name]) == (3 if name in TABLES else 2)
    assert english and not re.search(f"[{HAN}]", english)
    assert re.search(f"[{HAN}]", chinese) and chinese != english
    assert english.endswith(".") and chinese.endswith("。")


@pytest.mark.parametrize("name", RULES)
def test_chinese_is_set_as_chinese(name: str) -> None:
    assert slips(PAIRS[name][1]) == []


def test_the_top_and_the_tables_are_set_as_chinese_too() -> None:
    chinese = [block.removeprefix("zh: ") for block in blocks(TEXT) if block.startswith("zh: ")]
    chinese += [row[2] for row in _top_rows()]
    chinese += [part for row in rows(RULES["N"][2])[2:] for part in row[0].split(" / ")[1:]]
    assert len(chinese) == 1 + len(RULES) + 5 + len(PRESETS)
    assert {text: slips(text) for text in chinese if slips(text)} == {}
    assert "您" not in TEXT


@pytest.mark.parametrize(
    ("text", "slip"),
    [
        ("卡,时", "half-width punctuation beside Han"),
        ("卡:时", "half-width punctuation beside Han"),
        ("见 N.卡", "half-width punctuation beside Han"),
        ("有8 张", "no space between Han and Latin or digits"),
        ("有 8张", "no space between Han and Latin or digits"),
        ("用GPU 算", "no space between Han and Latin or digits"),
        ("达 80%的", "no space between Han and Latin or digits"),
        ("卡 ，时", "a space beside full-width punctuation"),
        ("卡 时", "a space between Han"),
        ("请您确认", "您"),
    ],
)
def test_a_slip_is_seen(text: str, slip: str) -> None:
    assert slip in slips(text)


def test_good_typography_is_no_slip() -> None:
    assert slips("每晚 20:00† 锁定，15 分钟†的刻度；用 GPU（`open`），25%、1.5 倍。") == []


@pytest.mark.parametrize("name", RULES)
def test_both_languages_give_the_same_figures(name: str) -> None:
    english, chinese = (figures(text) for text in PAIRS[name])
    assert (english - chinese) + (chinese - english) == ONE_LANGUAGE_ONLY.get(name, Counter())


@pytest.mark.parametrize("name", RULES)
def test_both_languages_name_the_same_rules_and_these_exist(name: str) -> None:
    english, chinese = (set(REFERENCE.findall(text)) for text in PAIRS[name])
    assert english == chinese
    assert english <= set(NUMBERS) - {name}


@pytest.mark.parametrize("name", RULES)
def test_what_the_lab_may_edit_is_marked_in_both_languages(name: str) -> None:
    english, chinese = PAIRS[name]
    expected = MARKED.get(name, [])
    assert english.count("†") == chinese.count("†") == len(expected)
    assert marked(english) == expected
    assert marked(chinese) == [one for one in expected if one != "staff"]  # 教职工† has no Latin letter to find


def test_a_letter_or_figure_is_found_before_its_mark() -> None:
    assert marked("at least 1†, k† cards, 16 card-hours† and 20:00† or `mixed`†; 5 to 8 hours†") == [
        "1", "k", "16", "20:00", "mixed", "8",
    ]


def _top_rows() -> list[list[str]]:
    top = TEXT.split("\n## ", 1)[0]
    table = next(block for block in blocks(top) if block.startswith("|"))
    return rows(table)[2:]


def test_the_top_says_what_this_is_and_gives_five_sentences() -> None:
    title, english, chinese, _ = blocks(TEXT.split("\n## ", 1)[0])
    assert title == "# The rules of the lab / 实验室规则"
    assert english.startswith("en: ") and "marked †" in english and "edit" in english
    assert chinese.startswith("zh: ") and "带 † 的数值" in chinese and "修改" in chinese
    assert [row[0] for row in _top_rows()] == ["1", "2", "3", "4", "5"]
    assert all(row[1].endswith(".") and row[2].endswith("。") for row in _top_rows())


def test_the_statuses_are_those_of_the_law() -> None:
    header, _, *body = rows(RULES["H"][2])
    assert all(re.fullmatch(rf"[a-z ]+ / [{HAN}]+", cell) for cell in header)
    named = dict(pair for row in body for pair in re.findall(rf"`([a-z]+)` ([{HAN}]+)", row[0]))
    assert named == STATUSES
    assert [bool(row[1].startswith("yes")) for row in body] == [False, True, True, True, False]
    assert {row[0].split("`")[1]: set(re.findall("`([a-z]+)`", row[3])) for row in body[:-1]} == BECOMES
    assert body[-1][3] == "final 最终状态"


def test_the_states_of_a_card_are_those_of_the_law() -> None:
    header, _, *body = rows(RULES["I"][2])
    assert all(re.fullmatch(rf"[a-z ]+ / [{HAN}]+", cell) for cell in header)
    assert len(body) == len(STATES)
    for row, (state, says) in zip(body, STATES.items(), strict=True):
        assert row[0].startswith(state)
        assert (row[1], row[2]) == says


def test_the_presets_are_those_of_the_law() -> None:
    header, _, *body = rows(RULES["N"][2])
    assert header == ["setting / 设置", "strict / 严格", "balanced / 均衡", "friendly / 宽松"]
    found = {row[0].split(" / ")[0]: tuple(row[1:]) for row in body}
    assert found == PRESETS
    assert len(body) == len(PRESETS)
    for row in body:
        english, chinese = row[0].split(" / ")
        assert figures(english) == figures(chinese)
        assert re.search(f"[{HAN}]", chinese)
