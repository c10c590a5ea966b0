"""The members page: approving, duties, invites, Unix accounts."""

import threading
from typing import Any

import pytest
from django.db import connections
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from reservations.models import AuditEntry, HostAccount, Invite, Member
from reservations.rules.refusal import Code, Refused
from reservations.services import locking, people
from tests import factories as make

KEEP = {"role": "phd", "is_arbiter": "", "is_admin": "", "is_active": "on"}


@pytest.fixture
def admin(db: None) -> Member:
    make.lab()
    return make.admin("Boss")


@pytest.fixture
def boss(admin: Member, client: Client) -> Client:
    client.force_login(admin)
    return client


def _form(**change: str) -> dict[str, str]:
    return {name: value for name, value in (KEEP | change).items() if value}


def test_only_admins_come_in(admin: Member, client: Client) -> None:
    member = make.member()
    posts = [
        reverse("member-invite"), reverse("invite-end", args=[1]), reverse("member", args=[member.pk]),
        reverse("member-approve", args=[member.pk]), reverse("account-add", args=[member.pk]),
        reverse("account-remove", args=[member.pk, 1]), reverse("host-add"), reverse("host-reader", args=[1]),
        reverse("card-add", args=[1]), reverse("card-service", args=[1]), reverse("demo-wipe"),
    ]
    gets = [reverse("members"), reverse("hosts"), reverse("member", args=[member.pk])]
    for path in posts:
        assert client.post(path, {"is_admin": "on"})["Location"].startswith(reverse("account_login"))
    client.force_login(make.arbiter())
    assert [client.post(path, {"is_admin": "on"}).status_code for path in posts] == [403] * len(posts)
    assert [client.get(path).status_code for path in gets] == [403] * len(gets)
    assert Member.objects.filter(is_admin=True).count() == 1


def test_an_invite_link_is_shown_once_and_works(boss: Client) -> None:
    response = boss.post(reverse("member-invite"), {"role": "phd", "uses": "3", "days": "5"})
    assert response.status_code == 201
    link = response.context["link"]
    assert link in response.text and "3 people join as PhD student" in response.text
    assert Invite.objects.get().uses_left == 3
    assert link.rsplit("/", 1)[1] not in boss.get(reverse("members")).text
    assert Client().get("/join/" + link.rsplit("/", 1)[1]).status_code == 200
    assert boss.post(reverse("invite-end", args=[Invite.objects.get().pk])).status_code == 303
    assert Client().get("/join/" + link.rsplit("/", 1)[1]).status_code == 410
    assert list(AuditEntry.objects.order_by("pk").values_list("verb", flat=True)) == ["invite", "revoke_invite"]


@pytest.mark.parametrize(
    "change", [{"role": "king"}, {"uses": "0"}, {"uses": "100000"}, {"days": "-1"}, {"days": "x"}, {"uses": ""}]
)
def test_a_bad_invite_is_said(boss: Client, change: dict[str, str]) -> None:
    response = boss.post(reverse("member-invite"), {"role": "phd", "uses": "1", "days": "5"} | change)
    assert response.status_code == 422
    assert "errorlist" in response.text
    assert not Invite.objects.exists()


def test_approving_and_changing_is_audited(boss: Client, admin: Member) -> None:
    member = make.member("Li Na", approval="pending")
    assert "waits for approval" in boss.get(reverse("members")).text
    assert boss.post(reverse("member-approve", args=[member.pk])).status_code == 303
    form = _form(role="staff", is_arbiter="on")
    assert boss.post(reverse("member", args=[member.pk]), form).status_code == 303
    member.refresh_from_db()
    assert (member.approval, member.role, member.is_arbiter, member.is_admin) == ("approved", "staff", True, False)
    boss.post(reverse("member", args=[member.pk]), form)  # the same again is no change
    written = AuditEntry.objects.filter(subject="member", subject_id=member.pk).order_by("pk")
    assert [(e.verb, e.actor_id, e.change) for e in written] == [
        ("approve", admin.pk, {}),
        ("change_member", admin.pk, {"role": ["phd", "staff"], "is_arbiter": [False, True]}),
    ]


@pytest.mark.parametrize("change", [{"is_admin": ""}, {"is_active": "", "is_admin": "on"}])
def test_the_last_admin_stays(boss: Client, admin: Member, change: dict[str, str]) -> None:
    make.member(is_admin=True, approval="pending")  # an admin who may do nothing is no other admin
    response = boss.post(reverse("member", args=[admin.pk]), _form(role="staff", **change))
    assert response.status_code == 422
    assert "at least one admin" in response.text
    admin.refresh_from_db()
    assert admin.is_admin and admin.is_active


def test_with_another_admin_one_may_step_down(boss: Client, admin: Member) -> None:
    make.admin("Other")
    response = boss.post(reverse("member", args=[admin.pk]), _form(role="staff"))
    assert (response.status_code, response["Location"]) == (303, reverse("schedule"))
    assert boss.get(reverse("members")).status_code == 403


@pytest.mark.django_db(transaction=True)
def test_two_admins_who_remove_each_other_at_once_leave_one() -> None:
    make.lab()
    pair = [make.admin("A"), make.admin("B")]
    start, outcomes, now = threading.Barrier(2), [], timezone.now()

    def remove(by: Member, other: Member) -> None:
        try:
            start.wait(timeout=30)
            people.change(
                other.pk, by=by, now=now, role="staff", is_arbiter=False, is_admin=False, is_active=True
            )
            outcomes.append("removed")
        except Refused as refused:
            outcomes.append(str(refused.codes[0]))
        except locking.Busy:
            outcomes.append("busy")
        finally:
            connections.close_all()

    threads = [threading.Thread(target=remove, args=pair), threading.Thread(target=remove, args=pair[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert Member.objects.filter(is_admin=True).count() == 1
    assert sorted(outcomes) in (["last_admin", "removed"], ["busy", "removed"])


def test_an_unknown_role_and_an_empty_form_change_nothing(boss: Client) -> None:
    member = make.member()
    for form in ({}, _form(role="king"), {"is_admin": "on"}):
        assert boss.post(reverse("member", args=[member.pk]), form).status_code == 422
    member.refresh_from_db()
    assert (member.role, member.is_active, member.is_admin) == ("phd", True, False)
    assert boss.get(reverse("member", args=[99999])).status_code == 404
    assert boss.post(reverse("member", args=[99999]), _form()).status_code == 404
    assert boss.post(reverse("member-approve", args=[99999])).status_code == 404


def test_unix_accounts_are_added_and_removed_and_belong_to_one(boss: Client) -> None:
    host, li, wang = make.host("gpu01"), make.member("Li Na"), make.member("Wang")
    form = {"host": str(host.pk), "unix_name": "lina", "uid": "2001"}
    assert boss.post(reverse("account-add", args=[li.pk]), form).status_code == 303
    for other in ({"uid": "2001", "unix_name": "x"}, {"unix_name": "lina", "uid": "9"}):
        response = boss.post(reverse("account-add", args=[wang.pk]), form | other)
        assert response.status_code == 422
        assert "lina (2001) on gpu01 belongs to Li Na already" in response.text
    account = HostAccount.objects.get()
    assert boss.post(reverse("account-remove", args=[wang.pk, account.pk])).status_code == 303
    assert HostAccount.objects.count() == 1  # not Wang's to lose
    for _ in range(2):
        assert boss.post(reverse("account-remove", args=[li.pk, account.pk])).status_code == 303
    assert HostAccount.objects.count() == 0
    assert list(AuditEntry.objects.order_by("pk").values_list("verb", flat=True)) == ["add_account", "remove_account"]


@pytest.mark.parametrize(
    "change", [{"uid": "0"}, {"uid": "-1"}, {"uid": "x"}, {"unix_name": "a b"}, {"host": "77"}, {"uid": "9" * 30}]
)
def test_a_bad_unix_account_is_said(boss: Client, change: dict[str, str]) -> None:
    form = {"host": str(make.host().pk), "unix_name": "lina", "uid": "2001"} | change
    assert boss.post(reverse("account-add", args=[make.member().pk]), form).status_code == 422
    assert not HostAccount.objects.exists()


def test_root_is_nobody(admin: Member) -> None:
    with pytest.raises(ValueError, match="root"):
        people.add_account(admin.pk, host_id=make.host().pk, unix_name="root", uid=0, by=admin, now=timezone.now())


def test_services_ask_for_the_right_themselves(admin: Member) -> None:
    member, now = make.member(), timezone.now()
    calls = [
        lambda: people.approve(member.pk, by=member, now=now),
        lambda: people.change(member.pk, by=member, now=now, role="phd", is_arbiter=True, is_admin=True, is_active=True),
        lambda: people.invite(by=member, role="phd", uses=1, days=1, now=now),
        lambda: people.revoke(1, by=member, now=now),
        lambda: people.add_account(member.pk, host_id=1, unix_name="x", uid=5, by=member, now=now),
        lambda: people.remove_account(member.pk, 1, by=member, now=now),
    ]
    for call in calls:
        with pytest.raises(Refused) as refused:
            call()
        assert refused.value.codes == [Code.NOT_YOURS]


@pytest.mark.parametrize("count", [1, 3])
def test_the_members_page_asks_as_often_for_one_as_for_three(
    boss: Client, admin: Member, count: int, django_assert_num_queries: Any
) -> None:
    host = make.host()
    for number in range(count):
        member = make.member()
        people.add_account(member.pk, host_id=host.pk, unix_name=f"u{number}", uid=100 + number, by=admin, now=timezone.now())
        people.invite(by=admin, role="phd", uses=1, days=1, now=timezone.now())
    with django_assert_num_queries(7):
        assert boss.get(reverse("members")).status_code == 200


@pytest.mark.parametrize("count", [1, 3])
def test_a_members_page_asks_as_often_for_one_account_as_for_three(
    boss: Client, admin: Member, count: int, django_assert_num_queries: Any
) -> None:
    member = make.member()
    for number in range(count):
        host = make.host()
        people.add_account(member.pk, host_id=host.pk, unix_name="u", uid=100 + number, by=admin, now=timezone.now())
    with django_assert_num_queries(10):
        assert boss.get(reverse("member", args=[member.pk])).status_code == 200
