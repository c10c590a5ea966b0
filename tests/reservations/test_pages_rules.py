"""The house rules as a page: the law with the numbers of the lab, in both languages, and every refusal leads to its rule."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.utils import translation

from reservations.models import Lab, Member
from reservations.rules.policy import BALANCED, FRIENDLY, STRICT, Policy, Role
from reservations.rules.refusal import RULE
from reservations.rules.windows import Days, Mode, Window
from reservations.views.rulesheet import FIVE, sheet
from tests.factories import NOW, cards, host, lab, member, reservation

# Everything switched on, so that every number stands somewhere.
FULL = replace(BALANCED, emergency_reserve=1, quick_cards=1)
# Numbers that no policy sets: of the law's text itself, or of words such as "24-hour".
FIXED = {"1", "3", "4"}  # rate 1 of what no window covers; three collaborators, three alternatives; pools of four cards
HERE = re.compile(r"\b[A-N](?:10|\d)\b")
NUMBER = re.compile(r"\d+(?:[.:]\d+)?")


def said(policy: Policy, language: str = "en", pools: dict[int, str] | None = None) -> dict[str, str]:
    """Each rule's text with its lines."""
    with translation.override(language):
        return {
            rule.number: "\n".join([rule.text, *rule.items]) for section in sheet(policy, pools or {}) for rule in section.rules
        }


def text(response: Any) -> str:
    return response.content.decode()


@pytest.fixture
def reader(client: Client) -> Member:
    lab()
    reader = member("Wei")
    client.force_login(reader)
    return reader


# --- the text -----------------------------------------------------------------------------------------------------------


def test_every_rule_that_a_refusal_can_name_is_there_once_and_in_order() -> None:
    numbers = [rule.number for section in sheet(BALANCED, {}) for rule in section.rules]
    assert not set(RULE.values()) - set(numbers)
    assert len(numbers) == len(set(numbers))
    assert numbers == sorted(numbers, key=lambda one: (one[0], int(one[1:] or 0) if one[1:] else -1))


def test_a_rule_refers_only_to_rules_that_are_there() -> None:
    rules = said(FULL)
    assert {one for words in rules.values() for one in HERE.findall(words)} <= set(rules)


def changed(name: str) -> Any:
    """Another value for a field of the policy."""
    value = getattr(FULL, name)
    other: dict[str, Any] = {
        "roles": {**FULL.roles, "phd": Role(77, 3, 5)}, "mode": "project",
        "tiers": ("deadline", "regular", "exploration", "idle"),
        "free_tiers": ("regular",), "granted_tiers": ("deadline", "regular"), "moving_tiers": ("regular",), "windows": (),
        "opens_at": "13:37", "freezes_at": "21:37", "closes_at": "17:37", "cleanup_at": "16:37", "cleanup_weekday": 2,
        "project_share": 37, "late_cancel_percent": 37, "raster_s": 1200,
    }
    if name in other:
        return other[name]
    return not value if isinstance(value, bool) else value + (3600 if name.endswith("_s") and value >= 3600 else 1)


@pytest.mark.parametrize("name", [one.name for one in fields(Policy)])
def test_each_number_of_the_policy_changes_what_is_said(name: str) -> None:
    policy = replace(FULL, **{name: changed(name), **({"free_tiers": ("exploration",)} if name == "granted_tiers" else {})})
    for language in ("en", "zh-hans"):
        before, after = said(FULL, language), said(policy, language)
        assert before != after, language


def test_no_number_stands_there_that_the_policy_does_not_set() -> None:
    """All numbers changed at once: what stands at the same place of both texts is fixed on purpose."""
    plain = [one.name for one in fields(Policy) if one.type in ("int", "str") and one.name != "mode"]
    other = {name: changed(name) for name in plain}
    windows = (Window(1, Mode.OPEN, 170, Days.WORKING),)
    odd = replace(FULL, **other, roles={"phd": Role(77, 3, 5)}, windows=windows)
    for number, words in said(FULL).items():
        ours, theirs = (NUMBER.findall(HERE.sub("", one)) for one in (words, said(odd)[number]))
        same = {one for one, other in zip(ours, theirs, strict=False) if one == other}
        assert same <= FIXED, (number, same, words)


@pytest.mark.parametrize("policy", [STRICT, BALANCED, FRIENDLY], ids=["strict", "balanced", "friendly"])
def test_both_languages_say_the_same_rules_with_the_same_figures(policy: Policy) -> None:
    english, chinese = said(policy), said(policy, "zh-hans")
    assert list(english) == list(chinese)
    for number, words in english.items():
        assert re.search(r"[\u3400-\u9fff]", chinese[number]) and not re.search(r"[\u3400-\u9fff]", words), number
        ours, theirs = (sorted(NUMBER.findall(HERE.sub("", one))) for one in (words, chinese[number]))
        assert ours == theirs, (number, ours, theirs)


def test_the_figures_are_the_labs() -> None:
    rules = said(replace(STRICT, late_cancel_percent=40, cleanup_weekday=1, cleanup_at="16:30"))
    assert "PhD student: 60 GPU-hours a week, at most 2 cards at once, at most 3 reservations ahead" in rules["B1"]
    assert "7 days before it, at 12:00" in rules["A4"] and "at 20:00" in rules["D1"]
    assert "keeps 40 % of the charge of the first 8 h" in rules["E3"] and "counts for 60 days" in rules["J2"]
    assert "From 1 point" in rules["J3"] and "from 2 points" in rules["J3"]
    assert "later than 5 min after the end" in rules["I4"]
    assert "Each Tuesday at 16:30" in rules["F3"] and "working days 09:00–18:00: open, rate 2, at most 4 h" in rules["F1"]


@pytest.mark.parametrize(
    ("field", "value", "number"),
    [
        ("displacement", False, "D4"), ("elastic", False, "E4"), ("cleanup", False, "F3"), ("windows", (), "F1"),
        ("no_show_s", 0, "H2"), ("give_back_s", 0, "H3"), ("emergency_reserve", 0, "G4"), ("quick_cards", 0, "G7"),
        ("granted_tiers", (), "C2"), ("mode", "person", "B6"),
    ],
)
def test_what_is_switched_off_says_so(field: str, value: Any, number: str) -> None:
    def off(policy: Policy) -> set[str]:
        return {rule.number for section in sheet(policy, {}) for rule in section.rules if rule.off}

    assert number not in off(FULL) and number in off(replace(FULL, **{field: value}))


def test_windows_are_read_out_with_their_pool_days_and_limits() -> None:
    policy = Policy.from_json({"windows": [
        {"mode": "closed", "days": "dates", "dates": ["2026-12-24"]},
        {"mode": "long", "days": "weekdays", "weekdays": [5, 6], "rate": 50, "pool": 7},
    ]})
    lines = said(policy, pools={7: "A100"})["F1"].splitlines()[1:]
    assert lines == ["2026-12-24 all day: closed", "Pool A100, Saturday, Sunday all day: long jobs and walk-ins, rate 0.5"]


# --- the page -----------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_the_page_opens_with_five_sentences_and_has_an_anchor_for_each_rule(client: Client, reader: Member) -> None:
    page = text(client.get("/house-rules"))
    assert [page.index(str(one)) for one in FIVE] == sorted(page.index(str(one)) for one in FIVE)
    assert page.index(str(FIVE[4])) < page.index("The lab has no house rules of its own.") < page.index('id="A1"')
    for number in set(RULE.values()):
        assert page.count(f'id="{number}"') == 1, number
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) - {"main"} <= set(ids)


@pytest.mark.django_db
def test_the_page_speaks_the_language_of_its_reader_and_of_the_policy_in_force(client: Client, reader: Member) -> None:
    Member.objects.filter(pk=reader.pk).update(language="zh-hans")
    lab(freezes_at="21:15")
    page = text(client.get("/house-rules"))
    assert "提前一天预约。" in page and "每晚 21:15 锁定第二天" in page and "Each evening" not in page


@pytest.mark.django_db
def test_a_refusal_leads_to_its_rule(client: Client, reader: Member) -> None:
    gpus = cards(1, host("gpu-a"))
    with time_machine.travel(NOW, tick=False):
        reservation(member("Ada"), gpus, None, 4)
        form = {"card": gpus[0].pk, "end": "2026-11-30T16:00", "tier": "regular", "purpose": "training", "key": "a-key-of-mine"}
        for sent in (form, {**form, "bar": "yes"}):
            page = text(client.post("/book", sent, headers={"hx-request": "true"}))
            assert '<a class="rule" href="/house-rules#C3">rule C3</a>' in page


@pytest.mark.django_db
def test_the_labs_own_text_is_accepted_beside_it(client: Client, reader: Member) -> None:
    Lab.objects.update(house_rules="Feed the fish.", rules_version=1)
    page = text(client.get("/house-rules"))
    assert "Feed the fish." in page and "I accept these rules" in page
    assert client.post("/house-rules", {"version": "1"}).status_code == 303
    page = text(client.get("/house-rules"))
    assert "You have accepted these rules." in page and "I accept these rules" not in page
