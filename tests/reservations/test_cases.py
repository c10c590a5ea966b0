"""Disputes and rulings as pages: who sees what, what is refused, and the evidence in words."""


from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone, translation

from reservations import evidence
from reservations.models import Case, Demerit, Member, Ruling
from reservations.services import arbitration, conduct
from tests import factories as make

EVIDENCE: dict[str, Any] = {
    "kind": "overrun", "card": "gpu01:2", "gpu": "GPU-abc", "end": "2026-11-30T06:00:00+00:00",
    "grace_until": "2026-11-30T06:10:00+00:00", "counted_at": "2026-11-30T06:10:30+00:00",
    "first_sight": "2026-11-30T06:10:10+00:00",
    "samples": [
        {"at": "2026-11-30T06:10:10+00:00", "pids": [20417, 20418], "utilization": 97, "memory": 64 << 30},
        {"at": "2026-11-30T06:10:20+00:00", "pids": [20417], "utilization": None, "memory": None},
    ],
    "processes": [{"pid": 20417, "started": 884211, "uid": 2003, "owner": "verified"}],
    "waiting": True, "coverage": 1.0, "simulated": True,
}


def _demerit(holder: Member, fact: str = "", proof: Any = None) -> Demerit:
    [gpu] = make.cards(1)
    reservation = make.reservation(holder, [gpu], 1, 2)
    issued = conduct.issue_overrun(
        fact=fact or f"overrun:{reservation.pk}", reservation=reservation, evidence=EVIDENCE if proof is None else proof,
        now=timezone.now(),
    )
    assert issued is not None
    return issued


@pytest.fixture
def holder(db: None) -> Member:
    make.lab()
    return make.member("Li Na")


@pytest.fixture
def demerit(holder: Member) -> Demerit:
    return _demerit(holder)


@pytest.fixture
def case(holder: Member, demerit: Demerit) -> Case:
    return conduct.dispute(demerit.pk, "The host was down.\n<b>see</b>", by=holder, now=timezone.now())


def _as(member: Member) -> Client:
    client = Client()
    client.force_login(member)
    return client


def _rule(case: Case, **change: str) -> dict[str, str]:
    return {"outcome": "accepted", "reason": "The log shows it.", "version": str(case.version)} | change


# --- disputing ------------------------------------------------------------------------------------------------------
def test_the_holder_reads_the_evidence_and_disputes(holder: Member, demerit: Demerit) -> None:
    client, path = _as(holder), reverse("dispute", args=[demerit.pk])
    page = client.get(path)
    assert page.status_code == 200
    for piece in ("gpu01:2", "14:10:10", "20417", "97 %", "65,536 MiB", "Somebody was waiting"):
        assert piece in page.text
    response = client.post(path, {"statement": "The host was down."})
    case = Case.objects.get()
    assert (response.status_code, response["Location"]) == (303, reverse("case", args=[case.pk]))
    demerit.refresh_from_db()
    assert (case.statement, demerit.state) == ("The host was down.", "disputed")
    assert client.get(response["Location"]).status_code == 200


def test_a_second_dispute_is_refused_and_leads_to_the_case(holder: Member, demerit: Demerit, case: Case) -> None:
    client, path = _as(holder), reverse("dispute", args=[demerit.pk])
    response = client.post(path, {"statement": "Again."})
    assert response.status_code == 422
    assert "was disputed already" in response.text and reverse("case", args=[case.pk]) in response.text
    assert 'name="statement"' not in client.get(path).text
    assert Case.objects.count() == 1


def test_without_words_or_after_the_time_it_is_refused(holder: Member, demerit: Demerit) -> None:
    client, path = _as(holder), reverse("dispute", args=[demerit.pk])
    for empty in ({}, {"statement": ""}, {"statement": " \n "}):
        response = client.post(path, empty)
        assert response.status_code == 422
        assert "Write a reason" in response.text
    assert client.post(path, {"statement": "x" * 2001}).status_code == 422
    Demerit.objects.update(issued_at=timezone.now() - timedelta(days=7))
    page = client.get(path)
    assert page.status_code == 200 and "That time has passed" in page.text and 'name="statement"' not in page.text
    response = client.post(path, {"statement": "Late."})
    assert response.status_code == 422 and "That time has passed" in response.text
    assert not Case.objects.exists()


def test_anothers_demerit_looks_like_a_missing_one(holder: Member, demerit: Demerit) -> None:
    for who in (make.member(), make.arbiter(), make.admin()):
        client = _as(who)
        mine, none = reverse("dispute", args=[demerit.pk]), reverse("dispute", args=[999_999])
        for answer in (client.get(mine), client.post(mine, {"statement": "x"}), client.get(none)):
            assert answer.status_code == 404
            assert "gpu01" not in answer.text
    assert not Case.objects.exists()


# --- seeing ---------------------------------------------------------------------------------------------------------
def test_a_case_is_seen_by_its_parties_and_arbiters_only(holder: Member, case: Case) -> None:
    path, none = reverse("case", args=[case.pk]), reverse("case", args=[999_999])
    for who in (holder, make.arbiter()):
        page = _as(who).get(path)
        assert page.status_code == 200
        assert "The host was down." in page.text and "&lt;b&gt;see&lt;/b&gt;" in page.text
    stranger = _as(make.member())
    hidden, missing = stranger.get(path), stranger.get(none)
    assert (hidden.status_code, missing.status_code) == (404, 404)
    assert hidden.text.split("<main")[1] == missing.text.split("<main")[1]
    assert Client().get(path).status_code == 302


def test_the_list_is_for_arbiters(holder: Member, case: Case) -> None:
    assert _as(holder).get(reverse("cases")).status_code == 404
    assert _as(make.admin(is_arbiter=False)).get(reverse("cases")).status_code == 404
    page = _as(make.arbiter()).get(reverse("cases"))
    assert page.status_code == 200 and f"dispute {case.pk}" in page.text


def test_the_list_shows_the_oldest_first_and_what_was_decided(holder: Member, case: Case) -> None:
    arbiter = make.arbiter()
    newer = conduct.dispute(_demerit(holder).pk, "Newer.", by=holder, now=timezone.now())
    Case.objects.filter(pk=case.pk).update(opened_at=timezone.now() - timedelta(days=3))
    page = _as(arbiter).get(reverse("cases"))
    assert [row["case"].pk for row in page.context["open_cases"]] == [case.pk, newer.pk]
    assert "3 days" in page.text
    arbitration.rule(newer.pk, Ruling.Outcome.DECLINED, "No sign of it.", by=arbiter, version=1, now=timezone.now())
    page = _as(arbiter).get(reverse("cases"))
    assert [row["case"].pk for row in page.context["decided_cases"]] == [newer.pk]
    assert "No sign of it." in page.text


@pytest.mark.parametrize("count", [1, 3])
def test_the_list_asks_as_often_for_one_as_for_three(holder: Member, count: int, django_assert_num_queries: Any) -> None:
    arbiter = make.arbiter()
    for _ in range(count):
        conduct.dispute(_demerit(make.member()).pk, "Open.", by=Member.objects.order_by("-pk")[0], now=timezone.now())
        who = make.member()
        decided = conduct.dispute(_demerit(who).pk, "Decided.", by=who, now=timezone.now())
        arbitration.rule(decided.pk, Ruling.Outcome.DECLINED, "No.", by=arbiter, version=1, now=timezone.now())
    client = _as(arbiter)
    with django_assert_num_queries(7):
        assert client.get(reverse("cases")).status_code == 200


@pytest.mark.parametrize("count", [1, 3])
def test_a_case_asks_as_often_whatever_else_there_is(
    holder: Member, case: Case, count: int, django_assert_num_queries: Any
) -> None:
    for _ in range(count):
        _demerit(holder)
    client = _as(make.arbiter())
    with django_assert_num_queries(6):
        assert client.get(reverse("case", args=[case.pk])).status_code == 200


# --- deciding -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("outcome", "state"), [("accepted", "void"), ("declined", "counted")])
def test_an_arbiter_decides_with_a_reason(holder: Member, case: Case, outcome: str, state: str) -> None:
    arbiter = make.arbiter("Prof. Zhou")
    response = _as(arbiter).post(reverse("case-rule", args=[case.pk]), _rule(case, outcome=outcome))
    assert (response.status_code, response["Location"]) == (303, reverse("case", args=[case.pk]))
    case.refresh_from_db()
    assert case.demerit is not None
    assert (case.state, case.demerit.state) == ("decided", state)
    page = _as(holder).get(reverse("case", args=[case.pk]))
    assert "Prof. Zhou" in page.text and "The log shows it." in page.text
    assert 'name="reason"' not in _as(arbiter).get(reverse("case", args=[case.pk])).text


def test_refusals_are_said_and_nothing_is_decided(holder: Member, case: Case) -> None:
    path = reverse("case-rule", args=[case.pk])
    arbiter = make.arbiter()
    for form, status, piece in (
        (_rule(case, reason=""), 422, "Write a reason"),
        (_rule(case, reason="x" * 2001), 422, "at most 2000"),
        (_rule(case, version="7"), 409, "It was changed meanwhile"),
        (_rule(case, outcome="maybe"), 400, "accept or decline"),
        (_rule(case, version="x"), 400, "accept or decline"),
        ({}, 400, "accept or decline"),
    ):
        response = _as(arbiter).post(path, form)
        assert (response.status_code, piece in response.text) == (status, True), piece
    assert _as(holder).post(path, _rule(case)).status_code == 403
    assert _as(make.member()).post(path, _rule(case)).status_code == 404
    assert _as(arbiter).post(reverse("case-rule", args=[999_999]), _rule(case)).status_code == 404
    assert _as(arbiter).get(path).status_code == 405
    assert not Ruling.objects.exists()


def test_what_was_typed_is_kept_when_the_case_was_changed_meanwhile(case: Case) -> None:
    response = _as(make.arbiter()).post(reverse("case-rule", args=[case.pk]), _rule(case, version="7", reason="My long reason."))
    assert "My long reason." in response.text
    assert f'name="version" value="{case.version}"' in response.text


def test_an_arbiter_who_is_a_party_sees_no_form_and_decides_nothing(db: None) -> None:
    make.lab()
    arbiter = make.arbiter()
    case = conduct.dispute(_demerit(arbiter).pk, "Mine.", by=arbiter, now=timezone.now())
    page = _as(arbiter).get(reverse("case", args=[case.pk]))
    assert "another arbiter must decide" in page.text and 'name="reason"' not in page.text
    response = _as(arbiter).post(reverse("case-rule", args=[case.pk]), _rule(case))
    assert response.status_code == 403 and "another arbiter must decide" in response.text
    assert not Ruling.objects.exists()


def test_the_second_of_two_rulings_is_told_so(case: Case) -> None:
    path = reverse("case-rule", args=[case.pk])
    assert _as(make.arbiter()).post(path, _rule(case)).status_code == 303
    response = _as(make.arbiter("Second")).post(path, _rule(case, outcome="declined"))
    assert response.status_code == 409 and "decided already" in response.text
    assert Ruling.objects.count() == 1


# --- evidence in words ----------------------------------------------------------------------------------------------
def test_whole_evidence_is_told_in_the_labs_zone(db: None) -> None:
    with timezone.override("Asia/Shanghai"), translation.override("en"):
        told = evidence.in_words(EVIDENCE)
    assert told.sentences == [
        "The reservation ended at Mon 30 Nov 14:00; the grace period ran until 14:10:00.",
        "After that, processes of the holder were still seen on gpu01:2, first at 14:10:10.",
        "2 samples show it.",
        "Somebody was waiting for the card, so it counted at once, at 14:10:30.",
    ]
    assert told.processes == ["process 20417 · uid 2003 · owner verified"]
    assert [(s.at, s.processes, s.pids, s.use, s.memory) for s in told.samples] == [
        ("14:10:10", "2", "20417, 20418", "97 %", "65,536 MiB"), ("14:10:20", "1", "20417", "", ""),
    ]
    assert told.simulated and not told.is_empty


@pytest.mark.parametrize("key", sorted(EVIDENCE))
@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [None], [{"at": 3, "pid": "x"}], True, "2026-11-30T06:00:00", 1e400])
def test_odd_evidence_is_left_out(key: str, value: Any) -> None:
    for proof in ({k: v for k, v in EVIDENCE.items() if k != key}, EVIDENCE | {key: value}, {key: value}, value):
        with translation.override("en"):
            evidence.in_words(proof)


def test_missing_evidence_is_said(holder: Member) -> None:
    bare = _demerit(holder, proof={})
    assert "No evidence is kept" in _as(holder).get(reverse("dispute", args=[bare.pk])).text


