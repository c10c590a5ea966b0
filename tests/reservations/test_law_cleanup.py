"""F3: what a case of the weekly clean-up says, who sees it, and what may be done with it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone, translation

from reservations import evidence, messages, obsolete, permissions, queries
from reservations.models import Case, Cleanup, CleanupNotice, Demerit, Member, Notification, Ruling
from reservations.permissions import Action
from reservations.rules.refusal import Code, Refused
from reservations.services import arbitration, cleanup
from tests import factories as make

FIVE = datetime(2026, 12, 4, 9, 0, tzinfo=UTC)  # Friday 17:00 in Shanghai
SIX = FIVE + timedelta(hours=1)
PROOF: dict[str, Any] = {
    "kind": "cleanup", "card": "gpu-a:0", "gpu": "GPU-abc", "cards": ["gpu-a:0", "gpu-b:1"],
    "listed_at": FIVE.isoformat(), "told_at": (FIVE + timedelta(seconds=20)).isoformat(),
    "due_at": (SIX + timedelta(seconds=20)).isoformat(), "last_look": (SIX + timedelta(seconds=30)).isoformat(),
    "listed": [{"pid": 4711, "started": 1, "uid": 2001, "owner": "verified", "card": "gpu-a:0"}],
    "processes": [{"pid": 4712, "started": 2, "uid": 2001, "owner": "verified", "card": "gpu-b:1"}],
    "samples": [{"at": SIX.isoformat(), "pids": [4712], "utilization": 90, "memory": 1 << 30}],
    "coverage": 0.98, "simulated": False,
}
DOUBT: dict[str, Any] = {
    "kind": "cleanup", "doubt": True, "cards": ["gpu-a:0"], "listed_at": FIVE.isoformat(), "last_look": SIX.isoformat(),
    "processes": [{"pid": 99, "started": 1, "uid": 0, "owner": "ambiguous", "card": "gpu-a:0"}], "unread": ["gpu-c:3"],
    "simulated": False,
}


@pytest.fixture
def lin(db: None) -> Member:
    make.lab()
    return make.member("Li Na")


def listed(who: Member, cards: list[dict[str, Any]] | None = None) -> CleanupNotice:
    round_ = cleanup.begin(date(2026, 11, 30), until=FIVE + timedelta(hours=7), grace_s=3600, cards={1: "gpu-a:0"}, now=FIVE)
    found = [
        {"gpu": 1, "card": "gpu-a:0", "processes": [
            {"pid": 4711, "started": 1, "uid": 2001, "owner": "verified", "since": (FIVE - timedelta(hours=3)).isoformat()},
            {"pid": 4712, "started": 1, "uid": 2001, "owner": "verified", "since": None},
        ]},
    ]
    cleanup.take_list(round_.pk, {1: ""}, {who.pk: found if cards is None else cards}, [], now=FIVE)
    return CleanupNotice.objects.get(cleanup=round_, member=who)


def opened(who: Member) -> Case:
    case = cleanup.open_case(listed(who), PROOF, now=SIX)
    assert case is not None
    return case


def in_doubt() -> Case:
    round_ = cleanup.begin(date(2026, 11, 30), until=SIX, grace_s=3600, cards={}, now=FIVE)
    case = cleanup.settle_doubt(round_.pk, DOUBT, now=SIX)
    assert case is not None
    return case


def _as(member: Member) -> Client:
    client = Client()
    client.force_login(member)
    return client


def page(who: Member, case: Case) -> Any:
    return _as(who).get(reverse("case", args=[case.pk]))


def composed(kind: str, now: datetime = FIVE) -> messages.Message:
    row = Notification.objects.select_related("member").get(kind=kind)
    assert obsolete.cause(row, now) == ""
    return messages.compose(row, queries.lab_facts(), now)


# --- what is written once ---------------------------------------------------------------------------------------------
def test_f3_the_same_week_is_begun_once_and_the_same_person_listed_once(lin: Member) -> None:
    one, again = listed(lin), listed(lin)
    assert one == again
    assert (Cleanup.objects.count(), Notification.objects.filter(kind="cleanup").count()) == (1, 1)


def test_f3_the_same_fact_opens_one_case(lin: Member) -> None:
    notice = listed(lin)
    assert cleanup.open_case(notice, PROOF, now=SIX) is not None
    assert cleanup.open_case(notice, {}, now=SIX) is None
    case = Case.objects.get()
    assert (case.evidence, Notification.objects.filter(kind="case").count()) == (PROOF, 1)
    cleanup.settle(notice.pk, CleanupNotice.Outcome.GONE)  # too late: it has become a case
    notice.refresh_from_db()
    assert (notice.outcome, notice.case) == ("case", case)


# --- messages ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("language", "pieces"),
    [
        ("en", ["Book or stop by 18:00: your processes on gpu-a:0", "processes 4711, 4712, seen since 14:00",
                "becomes one case for the arbiters", "LabGPU ends no process"]),
        ("zh-hans", ["18:00 前请预约或停止：你在 gpu-a:0 上的进程", "进程 4711、4712，自 14:00 起可见",
                     "会为你立一个仲裁事项", "LabGPU 不会结束任何进程"]),
    ],
)
def test_f3_the_message_lists_cards_and_processes_and_says_what_happens_when(
    lin: Member, language: str, pieces: list[str]
) -> None:
    Member.objects.update(language=language)
    listed(lin)
    message = composed("cleanup")
    whole = f"{message.subject}\n{message.text}"
    assert [piece for piece in pieces if piece not in whole] == []
    assert reverse("book") in message.text and "4711" in message.html


def test_f3_told_late_the_message_names_the_later_time(lin: Member) -> None:
    listed(lin)
    assert "18:25" in composed("cleanup", FIVE + timedelta(minutes=25)).subject


def test_f3_the_message_is_dropped_once_the_day_is_over(lin: Member) -> None:
    listed(lin)
    row = Notification.objects.select_related("member").get(kind="cleanup")
    assert obsolete.cause(row, FIVE + timedelta(hours=7)) == "the clean-up is over"


@pytest.mark.parametrize(
    ("language", "pieces"),
    [
        ("en", ["A case for the arbiters: processes without a reservation on gpu-a:0, gpu-b:1", "No point comes of it"]),
        ("zh-hans", ["仲裁事项：gpu-a:0、gpu-b:1 上没有预约的进程", "不会因此记分"]),
    ],
)
def test_f3_who_has_a_case_is_told_and_led_to_it(lin: Member, language: str, pieces: list[str]) -> None:
    Member.objects.update(language=language)
    case = opened(lin)
    message = composed("case", SIX)
    whole = f"{message.subject}\n{message.text}"
    assert [piece for piece in pieces if piece not in whole] == []
    assert reverse("case", args=[case.pk]) in message.text


def test_f3_the_message_of_a_case_is_dropped_once_it_is_decided(lin: Member) -> None:
    case = opened(lin)
    arbitration.rule(case.pk, Ruling.Outcome.DECLINED, "A class.", by=make.arbiter(), version=1, now=SIX)
    row = Notification.objects.select_related("member").get(kind="case")
    assert obsolete.cause(row, SIX) == "the case is decided"


@pytest.mark.parametrize(
    ("outcome", "language", "said"),
    [
        (Ruling.Outcome.ACCEPTED, "en", "The arbiters say: it was against the rule"),
        (Ruling.Outcome.DECLINED, "en", "The arbiters say: nothing against it"),
        (Ruling.Outcome.ACCEPTED, "zh-hans", "仲裁结果：违反了规则"),
        (Ruling.Outcome.DECLINED, "zh-hans", "仲裁结果：没有问题"),
    ],
)
def test_f3_the_ruling_is_told_to_who_it_is_about(
    lin: Member, outcome: Ruling.Outcome, language: str, said: str
) -> None:
    Member.objects.update(language=language)
    case = opened(lin)
    arbitration.rule(case.pk, outcome, "The log shows it.", by=make.arbiter(), version=1, now=SIX)
    message = composed("ruling", SIX)
    assert said in message.subject and "The log shows it." in message.text
    assert not Demerit.objects.exists()


# --- pages ----------------------------------------------------------------------------------------------------------------
def test_f3_the_case_is_seen_by_who_it_is_about_and_by_arbiters_with_its_proof(lin: Member) -> None:
    case = opened(lin)
    for who in (lin, make.arbiter()):
        shown = page(who, case)
        assert shown.status_code == 200
        for piece in ("Li Na", "gpu-a:0", "gpu-b:1", "4711", "4712", "17:00", "18:00:20", "LabGPU opened the case"):
            assert piece in shown.text, piece
        assert "dispute" not in shown.text.split("<main")[1]
    assert page(make.member(), case).status_code == 404
    assert "weekly clean-up" in _as(lin).get(reverse("mine")).text
    listed_for = _as(make.arbiter()).get(reverse("cases")).text
    assert "Li Na · gpu-a:0, gpu-b:1" in listed_for


def test_f3_owners_in_doubt_are_seen_by_arbiters_only_and_name_nobody(lin: Member) -> None:
    case = in_doubt()
    shown = page(make.arbiter(), case)
    assert shown.status_code == 200
    for piece in ("no member is named", "gpu-a:0", "99", "gpu-c:3"):
        assert piece in shown.text, piece
    assert "Li Na" not in shown.text
    for who in (lin, make.admin(is_arbiter=False)):
        assert page(who, case).status_code == 404
    assert not Notification.objects.exists()
    arbitration.rule(case.pk, Ruling.Outcome.ACCEPTED, "Stopped by its owner.", by=make.arbiter(), version=1, now=SIX)
    assert not Notification.objects.exists()
    assert "owners in doubt: gpu-a:0" in _as(make.arbiter()).get(reverse("cases")).text


@pytest.mark.parametrize(("press", "said"), [("accepted", "against the rule"), ("declined", "nothing against it")])
def test_f3_an_arbiter_says_what_it_was(lin: Member, press: str, said: str) -> None:
    case, client = opened(lin), _as(make.arbiter("Zhou"))
    shown = page(make.arbiter(), case).text
    assert "Against the rule" in shown and "Accept the dispute" not in shown and "Grant and book" not in shown
    answer = client.post(
        reverse("case-rule", args=[case.pk]), {"outcome": press, "reason": "As the proof has it.", "version": 1}
    )
    assert answer.status_code == 303
    case.refresh_from_db()
    assert (case.state, case.version) == ("decided", 2)
    shown = page(lin, case).text
    assert f"Zhou found: {'it was ' if press == 'accepted' else ''}{said}." in shown and "As the proof has it." in shown
    assert said in client.get(reverse("cases")).text
    assert not Demerit.objects.exists()


def test_f3_an_arbiter_whom_it_is_about_decides_nothing_of_it(db: None) -> None:
    make.lab()
    wu = make.arbiter("Wu")
    case = opened(wu)
    assert permissions.is_party(wu, case) and not permissions.may(wu, Action.RULE, case)
    with pytest.raises(Refused) as caught:
        arbitration.rule(case.pk, Ruling.Outcome.DECLINED, "Mine.", by=wu, version=1, now=SIX)
    assert list(caught.value.codes) == [Code.PARTY]


# --- stating one's side -------------------------------------------------------------------------------------------------------
def test_f3_the_person_states_their_side_once_and_arbiters_read_it(lin: Member) -> None:
    case, client = opened(lin), _as(lin)
    path = reverse("case-state", args=[case.pk])
    assert 'name="statement"' in page(lin, case).text
    answer = client.post(path, {"statement": "A class ran on.\n<b>see</b>"})
    assert (answer.status_code, answer["Location"]) == (303, reverse("case", args=[case.pk]))
    for who in (lin, make.arbiter()):
        assert "A class ran on." in page(who, case).text and "&lt;b&gt;see" in page(who, case).text
    assert 'name="statement"' not in page(lin, case).text
    again = client.post(path, {"statement": "Another."})
    assert again.status_code == 409 and "stated your side already" in again.text
    case.refresh_from_db()
    assert case.statement.startswith("A class")


def test_f3_who_has_not_read_the_statement_cannot_decide(lin: Member) -> None:
    case = opened(lin)
    cleanup.state_side(case.pk, "A class ran on.", by=lin, now=SIX)
    with pytest.raises(Refused) as caught:
        arbitration.rule(case.pk, Ruling.Outcome.ACCEPTED, "Clear.", by=make.arbiter(), version=1, now=SIX)
    assert list(caught.value.codes) == [Code.STALE]


def test_f3_nothing_is_stated_without_words_for_others_or_too_late(lin: Member) -> None:
    case = opened(lin)
    path = reverse("case-state", args=[case.pk])
    for empty in ({}, {"statement": " \n "}):
        answer = _as(lin).post(path, empty)
        assert answer.status_code == 422 and "Write a reason" in answer.text
    assert _as(lin).post(path, {"statement": "x" * 2001}).status_code == 422
    for who in (make.member(), make.arbiter(), make.admin(is_arbiter=False)):
        assert _as(who).post(path, {"statement": "Not mine."}).status_code == 404
    arbitration.rule(case.pk, Ruling.Outcome.DECLINED, "A class.", by=make.arbiter(), version=1, now=SIX)
    assert 'name="statement"' not in page(lin, case).text
    assert _as(lin).post(path, {"statement": "Late."}).status_code == 409
    case.refresh_from_db()
    assert case.statement == ""


def test_f3_nobody_states_anything_in_a_case_about_nobody(lin: Member) -> None:
    case, arbiter = in_doubt(), make.arbiter()
    assert 'name="statement"' not in page(arbiter, case).text
    assert _as(arbiter).post(reverse("case-state", args=[case.pk]), {"statement": "Hm."}).status_code == 404


# --- the proof in words --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("raw", [PROOF, DOUBT, {"kind": "cleanup"}, {**PROOF, "listed": None, "cards": 3, "told_at": 7}])
def test_f3_the_proof_is_shown_as_far_as_it_goes(raw: dict[str, Any], language: str) -> None:
    with translation.override(language):
        words = evidence.in_words(raw)
    assert all("%(" not in one for one in words.sentences)
    assert words.is_empty is (raw == {"kind": "cleanup"})


def test_f3_the_proof_says_what_was_listed_told_and_seen() -> None:
    with translation.override("en"), timezone.override("Asia/Shanghai"):
        words = evidence.in_words(PROOF)
    assert words.cards == "gpu-a:0, gpu-b:1"
    assert words.processes == ["gpu-b:1 · process 4712 · uid 2001 · owner verified"]
    assert words.sentences == [
        "At Fri 4 Dec 17:00 processes without a reservation were listed: gpu-a:0 · process 4711 · uid 2001 · owner verified.",
        "They were told at 17:00:20, with time until 18:00:20.",
        "At 18:00:30 processes were still there: gpu-a:0, gpu-b:1.",
    ]
