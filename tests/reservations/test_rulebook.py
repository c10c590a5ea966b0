"""Changing the policy: what it would do, that it binds only what comes later, and that it leaves a trace."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from reservations import names, queries
from reservations.models import Allocation, AuditEntry, Lab, LedgerEntry, SpecialDay
from reservations.rules.policy import PRESETS, BadPolicy, Policy
from reservations.rules.quota import UNITS_PER_GPU_HOUR
from reservations.rules.refusal import Code, Refused
from reservations.services import changes, rulebook
from tests.factories import NOW, admin, at, cards, lab, member, reservation

pytestmark = pytest.mark.django_db


def effects(**changed: object) -> list[tuple[int, tuple[Code, ...], tuple[Code, ...]]]:
    policy = rulebook.policy_from(None, changed, queries.lab_facts())
    return [(one.reservation.pk, one.before, one.after) for one in rulebook.dry_run(policy, now=NOW)]


def test_a_dry_run_names_what_the_change_would_refuse_and_changes_nothing() -> None:
    lab()
    lin, gpus = member("Lin"), cards(3)
    long = reservation(lin, gpus[:1], 24, 44)
    reservation(lin, gpus[1:2], 24, 28)
    before = (Lab.objects.get().policy, AuditEntry.objects.count(), LedgerEntry.objects.count())
    assert effects(longest_s=12 * 3600) == [(long.pk, (), (Code.TOO_LONG,))]
    assert (Lab.objects.get().policy, AuditEntry.objects.count(), LedgerEntry.objects.count()) == before


def test_a_dry_run_names_what_would_be_allowed_again() -> None:
    lab()
    long = reservation(member(), cards(1), 24, 44)
    Lab.objects.update(policy=Policy.from_json({**Lab.objects.get().policy, "longest_s": 12 * 3600}).to_json())
    assert effects(longest_s=72 * 3600) == [(long.pk, (Code.TOO_LONG,), ())]


def test_a_reservation_is_not_judged_against_itself() -> None:
    lab(roles={"phd": {"weekly_hours": 8}}, cards_at_once=2, open_future=1)
    reservation(member(), cards(2), 24, 28)
    assert effects(form_age_s=60) == []


def test_who_no_longer_fits_the_allowance_is_named() -> None:
    lab(roles={"phd": {"weekly_hours": 20}})
    lin, gpus = member(), cards(1)
    reservation(lin, gpus, 24, 34)
    second = reservation(lin, gpus, 40, 50)
    first, last = effects(roles={"phd": {"weekly_hours": 15}})
    assert (first[2], last[0], last[2]) == ((Code.QUOTA,), second.pk, (Code.QUOTA,))


def test_e6_a_change_binds_what_is_asked_later_and_keeps_what_is_booked() -> None:
    lab()
    lin, gpus = member(), cards(1)
    made = reservation(lin, gpus, 20, 44)
    price = Allocation.objects.get(reservation=made).price
    strict = rulebook.policy_from("strict", {}, queries.lab_facts())
    rulebook.change(strict, by=admin(), reason="Too many long jobs.", now=at(1))
    with pytest.raises(Refused) as caught:
        reservation(member(), cards(1), 20, 46, now=at(1))
    assert Code.TOO_LONG in caught.value.codes
    assert Allocation.objects.get(reservation=made).price == price
    changes.cancel(made.pk, by=lin, version=None, now=at(2))
    assert sum(entry.units for entry in LedgerEntry.objects.filter(reservation=made)) == 0


def test_a_change_has_a_reason_a_right_and_a_trace() -> None:
    lab()
    policy = rulebook.policy_from(None, {"cards_at_once": 2}, queries.lab_facts())
    for by, reason, code in ((admin(), "  ", Code.TEXT_MISSING), (member(), "Because.", Code.NOT_YOURS)):
        with pytest.raises(Refused) as caught:
            rulebook.change(policy, by=by, reason=reason, now=NOW)
        assert caught.value.codes == [code]
    who = admin()
    rulebook.change(policy, by=who, reason="Two servers are away.", now=NOW)
    entry = AuditEntry.objects.get(verb="policy")
    assert (entry.actor, entry.reason, entry.change) == (who, "Two servers are away.", {"changed": {"cards_at_once": [4, 2]}})
    assert Lab.objects.get().policy_version == 2


def test_the_command_says_what_would_happen_before_it_happens() -> None:
    lab()
    reservation(member(), cards(1), 24, 44, now=NOW)
    said = StringIO()
    call_command("policy", "--set", json.dumps({"longest_s": 12 * 3600}), stdout=said)
    assert "Nothing was changed" in said.getvalue()
    assert queries.lab_facts().policy.longest_s == 72 * 3600
    call_command("policy", "--preset", "strict", "--reason", "We agreed on it.", stdout=said)
    assert queries.lab_facts().policy == PRESETS["strict"]
    assert AuditEntry.objects.get(verb="policy").origin == "command"


@pytest.mark.parametrize("text", ["{", "[]", '{"nonsense": 1}', '{"raster_s": 7}'])
def test_a_policy_that_cannot_be_used_is_one_sentence(text: str) -> None:
    lab()
    with pytest.raises(CommandError, match=r"^The policy was not changed: .+\.$"):
        call_command("policy", "--set", text)


def test_no_such_preset_is_refused() -> None:
    lab()
    with pytest.raises((KeyError, BadPolicy)):
        rulebook.policy_from("severe", {}, queries.lab_facts())


def test_a5_a_date_is_made_a_rest_day_and_given_back_with_a_trace() -> None:
    lab(balanced=True)
    said = StringIO()
    call_command("special_day", "2026-12-01", "rest", "--name", "Lab outing", stdout=said)
    assert [(f"{row.day}", row.is_working, row.name) for row in SpecialDay.objects.all()] == [("2026-12-01", False, "Lab outing")]
    tuesday_noon = reservation(member(), cards(1), 20, 22)  # 10:00 to 12:00 in the lab
    assert sum(entry.units for entry in LedgerEntry.objects.filter(reservation=tuesday_noon)) == 2 * UNITS_PER_GPU_HOUR
    call_command("special_day", "2026-12-01", "plain", stdout=said)
    assert not SpecialDay.objects.exists()
    assert list(AuditEntry.objects.filter(verb="special_day").values_list("origin", flat=True)) == ["command"] * 2


@pytest.mark.parametrize("words", [("2026-13-01", "rest"), ("tomorrow", "rest"), ("2026-12-01",)])
def test_a_day_that_cannot_be_read_is_one_sentence(words: tuple[str, ...]) -> None:
    lab()
    with pytest.raises(CommandError):
        call_command("special_day", *words)


def test_m1_the_lab_sets_how_names_are_shown_with_a_trace() -> None:
    lab()
    said = StringIO()
    for words in ((), ("initials",), ("initials",), ()):
        call_command("show_names", *words, stdout=said)
    assert said.getvalue().splitlines() == ["full", *["Names are shown as: initials."] * 2, "initials"]
    assert [entry.change["changed"] for entry in AuditEntry.objects.filter(verb="show_names")] == [
        {"show_names": ["full", "initials"]}
    ]
    with pytest.raises(CommandError):
        call_command("show_names", "nicknames")
    with pytest.raises(Refused) as refused:
        rulebook.set_show_names("full", by=member(), now=NOW)
    assert refused.value.refusals[0].code == Code.NOT_YOURS


@pytest.mark.parametrize(("name", "said"), [
    ("Ada Lovelace", "A. L."), ("ada", "A."), ("Jean-Luc P", "J. L. P."), ("王小明", "王**"), ("欧阳 娜娜", "欧. 娜."),
    ("wei@lab.example", "W."), ("@x", "@"), ("", ""), ("  ", " "),
])
def test_m1_initials(name: str, said: str) -> None:
    assert names.initials(name) == said
    assert names.shown(name) == name and names.shown(name, names.INITIALS) == said
    with names.shown_as(names.INITIALS):
        assert names.shown(name) == said
