"""From a proved fact to a demerit, a dispute and a ruling."""

from datetime import timedelta

import pytest

from reservations import queries
from reservations.models import AuditEntry, Case, Demerit, Member, Notification, Ruling
from reservations.rules.refusal import Code, Refused
from reservations.services import arbitration, conduct
from tests.factories import NOW, arbiter, at, cards, lab, member, reservation

pytestmark = pytest.mark.django_db
EVIDENCE = {"kind": "overrun", "samples": [1, 2, 3]}


@pytest.fixture(autouse=True)
def _lab() -> None:
    lab()


def demerit(holder: Member | None = None, fact: str = "overrun:1") -> Demerit:
    made = reservation(holder or member("Lin"), cards(1), None, 2)
    issued = conduct.issue_overrun(fact=fact, reservation=made, evidence=EVIDENCE, now=at(3))
    assert issued is not None
    return issued


def codes(caught: pytest.ExceptionInfo[Refused]) -> list[Code]:
    return caught.value.codes


def test_j1_a_proved_overrun_costs_its_holder_one_point_with_the_evidence_kept() -> None:
    one = demerit()
    assert (one.points, one.state, one.evidence, one.expires_at) == (1, "counted", EVIDENCE, at(3) + timedelta(days=30))
    assert queries.open_demerit_points(one.member, at(4)) == 1
    assert Notification.objects.get(kind="demerit").member == one.member
    assert AuditEntry.objects.get(verb="demerit").actor is None


def test_j1_one_fact_is_one_demerit_for_ever() -> None:
    one = demerit()
    assert conduct.issue_overrun(fact=one.fact, reservation=one.reservation, evidence=EVIDENCE, now=at(9)) is None
    assert (Demerit.objects.count(), Notification.objects.filter(kind="demerit").count()) == (1, 1)


def test_j2_a_point_counts_thirty_days() -> None:
    one = demerit()
    assert queries.open_demerit_points(one.member, one.expires_at - timedelta(seconds=1)) == 1
    assert queries.open_demerit_points(one.member, one.expires_at) == 0


def test_j4_a_disputed_point_rests() -> None:
    one = demerit()
    case = conduct.dispute(one.pk, "My job had ended.", by=one.member, now=at(5))
    one.refresh_from_db()
    assert (case.state, one.state, queries.open_demerit_points(one.member, at(6))) == ("open", "disputed", 0)


def test_j4_a_demerit_is_disputed_once_within_seven_days_with_words_by_its_owner() -> None:
    one = demerit()
    for text, by, when, code in (
        (" \n", one.member, at(5), Code.TEXT_MISSING),
        ("No.", member(), at(5), Code.NOT_YOURS),
        ("No.", arbiter(), at(5), Code.NOT_YOURS),
        ("No.", one.member, at(3) + timedelta(days=7), Code.DISPUTE_OVER),
    ):
        with pytest.raises(Refused) as caught:
            conduct.dispute(one.pk, text, by=by, now=when)
        assert codes(caught) == [code]
    conduct.dispute(one.pk, "No.", by=one.member, now=at(3) + timedelta(days=7, seconds=-1))
    with pytest.raises(Refused) as caught:
        conduct.dispute(one.pk, "No.", by=one.member, now=at(9))
    assert codes(caught) == [Code.ALREADY_DISPUTED]
    assert Case.objects.count() == 1


def test_l2_a_dispute_accepted_voids_the_demerit_with_a_reason_for_all_to_read() -> None:
    one, judge = demerit(), arbiter()
    case = conduct.dispute(one.pk, "My job had ended.", by=one.member, now=at(5))
    ruling = arbitration.rule(case.pk, Ruling.Outcome.ACCEPTED, "The log shows it.", by=judge, version=1, now=at(6))
    one.refresh_from_db()
    case.refresh_from_db()
    assert (one.state, case.state, ruling.reason) == ("void", "decided", "The log shows it.")
    assert queries.open_demerit_points(one.member, at(7)) == 0
    assert Notification.objects.get(kind="ruling").member == one.member
    assert AuditEntry.objects.get(verb="rule").reason == "The log shows it."


def test_j4_a_dispute_declined_counts_again_and_its_rest_did_not_age_it() -> None:
    one = demerit()
    case = conduct.dispute(one.pk, "No.", by=one.member, now=at(5))
    arbitration.rule(case.pk, Ruling.Outcome.DECLINED, "The samples show it.", by=arbiter(), version=1, now=at(29))
    old_end = one.expires_at
    one.refresh_from_db()
    assert (one.state, one.expires_at - old_end) == ("counted", timedelta(hours=24))


def test_b3_a_party_decides_nothing_of_its_case() -> None:
    judge = arbiter()
    one = demerit(holder=judge)
    case = conduct.dispute(one.pk, "No.", by=judge, now=at(5))
    with pytest.raises(Refused) as caught:
        arbitration.rule(case.pk, Ruling.Outcome.ACCEPTED, "I say so.", by=judge, version=1, now=at(6))
    assert codes(caught) == [Code.PARTY]
    assert Ruling.objects.count() == 0


def test_b3_only_an_arbiter_decides_and_others_do_not_learn_of_the_case() -> None:
    one = demerit()
    case = conduct.dispute(one.pk, "No.", by=one.member, now=at(5))
    for by, code in ((one.member, Code.NOT_ARBITER), (member(), Code.NOT_YOURS), (member(is_admin=True), Code.NOT_YOURS)):
        with pytest.raises(Refused) as caught:
            arbitration.rule(case.pk, Ruling.Outcome.ACCEPTED, "So.", by=by, version=1, now=at(6))
        assert codes(caught) == [code]


def test_l4_a_case_is_decided_once_on_the_facts_its_page_showed_with_a_reason() -> None:
    one, judge = demerit(), arbiter()
    case = conduct.dispute(one.pk, "No.", by=one.member, now=at(5))
    for version, reason, code in ((9, "So.", Code.STALE), (1, "  ", Code.TEXT_MISSING)):
        with pytest.raises(Refused) as caught:
            arbitration.rule(case.pk, Ruling.Outcome.ACCEPTED, reason, by=judge, version=version, now=at(6))
        assert codes(caught) == [code]
    arbitration.rule(case.pk, Ruling.Outcome.ACCEPTED, "So.", by=judge, version=1, now=at(6))
    with pytest.raises(Refused) as caught:
        arbitration.rule(case.pk, Ruling.Outcome.DECLINED, "Not so.", by=arbiter(), version=2, now=at(7))
    assert codes(caught) == [Code.CASE_DECIDED]
    assert Ruling.objects.count() == 1


@pytest.mark.once
def test_the_demonstration_lab_is_believable_and_keeps_every_invariant(tmp_path, settings) -> None:  # type: ignore[no-untyped-def]
    import json

    from reservations.models import Allocation, Gpu, Host, Lab, Reservation
    from reservations.services import demo

    Lab.objects.all().delete()
    settings.DATA_DIR, settings.SCENARIO_DIR = tmp_path, tmp_path / "scenarios"
    demo.load(now=NOW)
    people = Member.objects.filter(email__endswith="@lab.example").count()
    assert (Host.objects.count(), Gpu.objects.count(), people) == (2, 8, 12)
    starts = Reservation.objects.order_by("start").values_list("start", flat=True)
    assert starts[0] < NOW - timedelta(days=12)
    assert starts.reverse()[0] > NOW + timedelta(days=3)
    held = list(Allocation.objects.filter(status__in=queries.HOLDING_CODES).values_list("gpu", "start", "end"))
    assert not [
        (a, b) for n, a in enumerate(held) for b in held[n + 1 :] if a[0] == b[0] and a[1] < b[2] and b[1] < a[2]
    ]
    played = json.loads((tmp_path / "scenarios" / "demo-a.json").read_text())
    assert {process["card"] for process in played["processes"]} <= {card["uuid"] for card in played["cards"]}
    with pytest.raises(demo.NotDemo):
        demo.load(now=NOW)
    Lab.objects.update(simulated=False)
    with pytest.raises(demo.NotDemo):
        demo.wipe()
