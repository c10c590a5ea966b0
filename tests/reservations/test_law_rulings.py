"""L3: a ruling names the rules it waives and books by the same check and write, now."""

import re
from typing import Any

import pytest
import time_machine
from django.test import Client

from reservations import messages as messages_of
from reservations import obsolete
from reservations.models import AuditEntry, Case, Gpu, Member, Notification, Reservation, Ruling
from reservations.queries import lab_facts
from reservations.rules.quota import UNITS_PER_GPU_HOUR
from reservations.rules.refusal import Code, Refused
from reservations.rules.waivers import Waiver
from reservations.services import arbitration, booking, exceptions
from tests import factories
from tests.factories import NOW, at

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _lab(db: None) -> None:
    factories.lab(displacement=True)


@pytest.fixture
def card() -> Gpu:
    return factories.cards(1)[0]


@pytest.fixture
def asker() -> Member:
    return factories.member("Asker")


@pytest.fixture
def judge() -> Member:
    return factories.arbiter("Judge")


def asked(member: Member, card: Gpu, start: float | None, end: float, **fields: Any) -> Case:
    return exceptions.ask(
        member, factories.request([card], start, end, **fields), "The deadline is tonight.", kind=Case.Kind.QUEUE_JUMP, now=NOW
    )


def granted(case: Case, judge: Member, *waives: Waiver, **more: Any) -> Reservation:
    return exceptions.grant(case.pk, waives, "It is a thesis.", by=judge, version=case.version, now=more.pop("now", NOW), **more)


def refused(case: Case, judge: Member, *waives: Waiver, **more: Any) -> list[Code]:
    before = Reservation.objects.count(), Ruling.objects.count()
    with pytest.raises(Refused) as problem:
        granted(case, judge, *waives, **more)
    assert (Reservation.objects.count(), Ruling.objects.count()) == before
    return problem.value.codes


@pytest.mark.parametrize("start", [4, None, 34], ids=["frozen", "from now on", "planned"])
def test_l3_waiving_d_takes_the_place_of_whatever_has_not_started(
    card: Gpu, asker: Member, judge: Member, start: float | None
) -> None:
    """Also of an equal rank, and after the freeze (D7)."""
    old = factories.reservation(factories.member("Owner"), [card], 5 if start is None else start, 42)
    case = asked(asker, card, start, 42)
    made = granted(case, judge, Waiver.ORDER)
    old.refresh_from_db()
    assert (old.status, old.displaced_by) == ("displaced", made)
    assert made.holder == asker
    ruling = Ruling.objects.get(case=case)
    assert (ruling.outcome, ruling.waives, ruling.reservation, ruling.arbiter) == ("accepted", ["D"], made, judge)
    entry = AuditEntry.objects.get(verb="reserve", subject_id=made.pk)
    assert (entry.actor, entry.change["waives"]) == (judge, ["D"])


def test_l3_what_has_started_is_never_displaced(card: Gpu, asker: Member, judge: Member) -> None:
    factories.reservation(factories.member(), [card], None, 8)
    case = asked(asker, card, 2, 6)
    assert refused(case, judge, *Waiver) == [Code.CASE_OVERTAKEN, Code.CARD_TAKEN]


def test_l3_only_what_is_named_is_waived(card: Gpu, asker: Member, judge: Member) -> None:
    factories.reservation(factories.member(), [card], 4, 8)
    case = asked(asker, card, 4, 8)
    assert refused(case, judge, Waiver.QUOTA, Waiver.WINDOWS) == [Code.CASE_OVERTAKEN, Code.CARD_TAKEN]


def test_l3_the_limits_of_a_member_may_be_waived(asker: Member, judge: Member) -> None:
    factories.lab(cards_at_once=1, open_future=1)
    cards = factories.cards(3)
    factories.reservation(asker, cards[:1], 4, 8)
    case = exceptions.ask(
        asker, factories.request(cards[1:], 4, 8), "Two more.", kind=Case.Kind.EXCEPTION, now=NOW
    )
    assert refused(case, judge, Waiver.ORDER) == [Code.CASE_OVERTAKEN, Code.CARDS_AT_ONCE, Code.OPEN_FUTURE]
    assert granted(case, judge, Waiver.LIMITS).allocations.count() == 2


def test_l3_waiving_e_overdraws_the_account_and_says_so_in_the_ledger(card: Gpu, asker: Member, judge: Member) -> None:
    factories.lab(roles={"phd": {"weekly_hours": 4}})
    made = granted(asked(asker, card, 4, 12), judge, Waiver.QUOTA)
    assert not made.is_elastic
    assert sum(row.units for row in made.ledger.all()) == 8 * UNITS_PER_GPU_HOUR


def test_l3_waiving_f_opens_closed_hours(card: Gpu, asker: Member, judge: Member) -> None:
    factories.lab(windows=[{"mode": "closed"}])
    case = asked(asker, card, 4, 12)
    assert refused(case, judge) == [Code.CASE_OVERTAKEN, Code.WINDOW_CLOSED]
    assert granted(case, judge, Waiver.WINDOWS).status == "booked"


def test_l3_waiving_g4_plans_on_the_emergency_reserve(asker: Member, judge: Member) -> None:
    factories.lab(emergency_reserve=1)
    cards = factories.cards(4)
    factories.reservation(factories.member(), cards[:3], 4, 12)
    case = asked(asker, cards[3], 4, 12)
    assert refused(case, judge, Waiver.QUICK) == [Code.CASE_OVERTAKEN, Code.RESERVE_KEPT]
    assert granted(case, judge, Waiver.RESERVE).status == "booked"


@pytest.mark.parametrize(
    ("start", "end", "code"),
    [(4.1, 8, Code.OFF_RASTER), (4, 80, Code.TOO_LONG), (24 * 20, 24 * 20 + 4, Code.DAY_NOT_OPEN)],
    ids=["off the raster", "longer than the longest", "a day not open"],
)
def test_l3_raster_length_and_open_days_are_never_waived(
    card: Gpu, asker: Member, judge: Member, start: float, end: float, code: Code
) -> None:
    assert refused(asked(asker, card, start, end), judge, *Waiver) == [Code.CASE_OVERTAKEN, code]


def test_l3_a_card_out_of_service_is_never_waived(card: Gpu, asker: Member, judge: Member) -> None:
    Gpu.objects.update(service="out_of_service")
    assert refused(asked(asker, card, 4, 8), judge, *Waiver) == [Code.CASE_OVERTAKEN, Code.CARD_OUT_OF_SERVICE]


def test_l3_two_arbiters_cannot_grant_one_slot_twice(card: Gpu, judge: Member) -> None:
    factories.reservation(factories.member(), [card], None, 2, now=at(-2))
    first, second = (asked(factories.member(), card, 1, 8) for _ in range(2))
    made = granted(first, judge, Waiver.ORDER, now=NOW, changed=factories.request([card], 2, 8))
    with_started = at(3)
    assert refused(
        second, factories.arbiter("Second"), *Waiver, now=with_started, changed=factories.request([card], None, 8)
    ) == [Code.CASE_OVERTAKEN, Code.CARD_TAKEN]
    assert made.start == at(2)


def test_l3_a_decided_case_is_decided_once(card: Gpu, asker: Member, judge: Member) -> None:
    factories.reservation(factories.member(), [card], 4, 8)
    case = asked(asker, card, 4, 8)
    granted(case, judge, Waiver.ORDER)
    assert refused(case, factories.arbiter("Second"), Waiver.ORDER) == [Code.CASE_DECIDED]


def test_b3_a_party_decides_nothing_of_it(card: Gpu, asker: Member) -> None:
    owner = factories.arbiter("Owner")
    factories.reservation(owner, [card], 4, 8)
    case = asked(asker, card, 4, 8)
    assert refused(case, owner, Waiver.ORDER) == [Code.PARTY]
    own = asked(factories.arbiter("Own"), card, 4, 8)
    assert refused(own, Member.objects.get(name="Own"), Waiver.ORDER) == [Code.PARTY]
    assert refused(case, factories.member("Nobody"), Waiver.ORDER) == [Code.NOT_YOURS]


def test_l2_a_ruling_needs_a_reason_and_a_request_a_statement(card: Gpu, asker: Member, judge: Member) -> None:
    factories.reservation(factories.member(), [card], 4, 8)
    case = asked(asker, card, 4, 8)
    with pytest.raises(Refused) as problem:
        exceptions.grant(case.pk, [Waiver.ORDER], "  ", by=judge, version=1, now=NOW)
    assert problem.value.codes == [Code.TEXT_MISSING]
    with pytest.raises(Refused) as problem:
        exceptions.ask(asker, factories.request([card], 4, 8), " ", kind=Case.Kind.EXCEPTION, now=NOW)
    assert problem.value.codes == [Code.TEXT_MISSING]


def test_l1_what_can_be_booked_needs_no_arbiter(card: Gpu, asker: Member) -> None:
    with pytest.raises(Refused) as problem:
        asked(asker, card, 4, 8)
    assert problem.value.codes == [Code.NEEDS_NO_RULING]


def test_l2_a_declined_request_books_nothing_and_tells_why(card: Gpu, asker: Member, judge: Member) -> None:
    factories.reservation(factories.member(), [card], 4, 8)
    case = asked(asker, card, 4, 8)
    arbitration.rule(case.pk, Ruling.Outcome.DECLINED, "Others wait too.", by=judge, version=1, now=NOW)
    assert not Reservation.objects.filter(holder=asker).exists()
    assert "Others wait too." in said(asker)


def said(member: Member) -> str:
    row = Notification.objects.select_related("member", "reservation__holder").get(member=member, kind="ruling")
    assert obsolete.cause(row, NOW) == ""
    return messages_of.compose(row, lab_facts(), NOW).text


def test_l2_both_sides_read_the_reason(card: Gpu, asker: Member, judge: Member) -> None:
    owner = factories.member("Owner")
    factories.reservation(owner, [card], 4, 8)
    granted(asked(asker, card, 4, 8), judge, Waiver.ORDER)
    assert "It is a thesis." in said(asker)
    row = Notification.objects.select_related("member", "reservation__holder").get(member=owner, kind="displaced")
    assert "It is a thesis." in messages_of.compose(row, lab_facts(), at(1)).text


def test_l3_whom_a_ruling_displaced_pays_no_more_than_before(card: Gpu, asker: Member, judge: Member) -> None:
    """From a night at the plain rate to a working day at twice that."""
    factories.lab(displacement=True, windows=[{"days": "working", "opens": "09:00", "shuts": "18:00", "rate": 200}])
    owner = factories.member("Owner")
    old = factories.reservation(owner, [card], 4, 12)
    granted(asked(asker, card, 4, 12), judge, Waiver.ORDER)
    new = booking.reserve(owner, factories.request(factories.cards(1), 19, 27, instead_of=old.pk), now=NOW)
    assert sum(row.units for row in new.ledger.all()) == 8 * UNITS_PER_GPU_HOUR
    dear = booking.reserve(asker, factories.request(factories.cards(1), 19, 27), now=NOW)
    assert sum(row.units for row in dear.ledger.all()) == 16 * UNITS_PER_GPU_HOUR


# --- on the pages ---


def test_l1_l3_from_a_refused_form_to_a_booked_ruling(card: Gpu, client: Client) -> None:
    with time_machine.travel(NOW, tick=False):
        asker, judge = factories.member("Asker"), factories.arbiter("Judge")
        old = factories.reservation(factories.member("Owner"), [card], 4, 8)
        client.force_login(asker)
        form = {
            "card": card.pk, "start": at(4).isoformat(), "end": at(8).isoformat(), "tier": "regular", "purpose": "test",
            "key": "a-key-of-this-form",
        }
        assert 'name="ask"' in client.post("/book", form).content.decode()
        assert client.post("/book", {**form, "ask": "yes", "statement": " "}).status_code == 422
        answer = client.post("/book", {**form, "ask": "yes", "statement": "The deadline is tonight."})
        case = Case.objects.get()
        assert (answer.status_code, answer["Location"]) == (303, f"/cases/{case.pk}/")
        assert case.kind == Case.Kind.QUEUE_JUMP
        assert 'name="outcome"' not in client.get(f"/cases/{case.pk}/").content.decode()
        client.force_login(judge)
        assert f"/cases/{case.pk}/" in client.get("/cases/").content.decode()
        page = client.get(f"/cases/{case.pk}/").content.decode()
        assert "is held by Owner" in page
        assert re.search(r'name="waives" value="D"[^>]* checked', page)
        ruled = client.post(
            f"/cases/{case.pk}/rule", {"outcome": "accepted", "reason": "Go.", "version": 1, "waives": ["D"]}
        )
        assert ruled.status_code == 303
        old.refresh_from_db()
        assert old.status == "displaced"
        assert Reservation.objects.get(holder=asker).status == "booked"
        for reader in (asker, judge):
            client.force_login(reader)
            assert "Go." in client.get(f"/cases/{case.pk}/").content.decode()


def test_l3_what_no_ruling_can_help_is_not_offered_to_the_arbiters(card: Gpu, client: Client) -> None:
    with time_machine.travel(NOW, tick=False):
        client.force_login(factories.member())
        form = {
            "card": card.pk, "start": at(4).isoformat(), "end": at(90).isoformat(), "tier": "regular", "purpose": "test",
            "key": "a-key-of-this-form",
        }
        page = client.post("/book", form)
        assert page.status_code == 422
        assert 'name="ask"' not in page.content.decode()
