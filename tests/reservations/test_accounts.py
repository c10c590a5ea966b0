"""Signing in, joining by invite, ending sessions, and the doors that stay shut."""

import re
import threading
from datetime import timedelta
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.core import mail
from django.db import connection, connections
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from reservations.models import AuditEntry, Invite, KeptMail, Member
from reservations.rules.refusal import Code, Refused
from reservations.services import locking, people
from tests import factories as make

PASSWORD = "a long enough password"
JOIN = {"name": "王小明", "email": "Wang@Lab.Example", "password": PASSWORD, "language": "zh-hans"}


@pytest.fixture
def lab(db: None) -> Any:
    return make.lab()


def _token(*, uses: int = 1, days: int = 7, role: str = "master") -> str:
    return people.invite(by=make.admin(), role=role, uses=uses, days=days, now=timezone.now())


def _masked(body: bytes) -> str:
    text = re.sub(r'(csrfmiddlewaretoken" value=|X-CSRFToken": )"[^"]+"', "", body.decode())
    return re.sub(r'name="next" value="[^"]*"', "", text)


# --- joining --------------------------------------------------------------------------------------------------------
def test_an_invite_shows_lab_and_role(lab: Any, client: Client) -> None:
    response = client.get(reverse("join", args=[_token(role="phd")]))
    assert response.status_code == 200
    assert "Test lab" in response.text and "PhD student" in response.text


def test_whoever_joins_is_a_member_of_the_invites_role_and_signed_in(lab: Any, client: Client) -> None:
    response = client.post(reverse("join", args=[_token(role="phd")]), JOIN)
    assert (response.status_code, response["Location"]) == (302, reverse("schedule"))
    member = Member.objects.get(email="wang@lab.example")
    assert (member.name, member.role, member.approval, member.language) == ("王小明", "phd", "approved", "zh-hans")
    assert (member.is_admin, member.is_arbiter, member.is_superuser) == (False, False, False)
    assert client.session["_auth_user_id"] == str(member.pk)
    assert Invite.objects.get().uses_left == 0
    assert [(e.verb, e.subject_id) for e in AuditEntry.objects.filter(verb="join")] == [("join", member.pk)]


def test_extra_fields_of_the_form_give_nothing(lab: Any, client: Client) -> None:
    more = {"role": "staff", "is_admin": "on", "is_arbiter": "1", "is_superuser": "1", "approval": "approved", "id": "1"}
    client.post(reverse("join", args=[_token(role="undergraduate")]), JOIN | more)
    member = Member.objects.get(email="wang@lab.example")
    assert (member.role, member.is_admin, member.is_arbiter, member.is_superuser) == ("undergraduate", False, False, False)


def test_every_token_that_lets_nobody_in_is_answered_alike(lab: Any, client: Client) -> None:
    used, expired, revoked = _token(), _token(), _token()
    Invite.objects.filter(token_hash=people.hash_token(used)).update(uses_left=0)
    Invite.objects.filter(token_hash=people.hash_token(expired)).update(expires_at=timezone.now() - timedelta(seconds=1))
    row = Invite.objects.get(token_hash=people.hash_token(revoked))
    people.revoke(row.pk, by=make.admin(), now=timezone.now())
    known = make.member(email="known@lab.example")
    answers = set()
    for token in (used, expired, revoked, "x", "never-given-out"):
        path = reverse("join", args=[token])
        for response in (client.get(path), client.post(path, JOIN), client.post(path, JOIN | {"email": known.email})):
            assert response.status_code == 410
            answers.add(_masked(response.content))
    assert len(answers) == 1
    assert "Ask an admin" in answers.pop()


def test_a_known_address_is_told_to_bearers_of_an_open_invite_only_and_takes_no_seat(lab: Any, client: Client) -> None:
    known = make.member(email="wang@lab.example", password="what it was before")
    token = _token()
    response = client.post(reverse("join", args=[token]), JOIN)
    assert response.status_code == 422
    assert "already has an account" in response.text
    assert Invite.objects.get().uses_left == 1
    known.refresh_from_db()
    assert known.check_password("what it was before")
    assert "_auth_user_id" not in client.session


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"password": "short"}, "too short"),
        ({"password": "1234567890"}, "entirely numeric"),
        ({"password": "wang@lab.example"}, "too similar"),
        ({"email": "nobody"}, "valid email"),
        ({"name": " "}, "required"),
        ({"name": "a\u202eb"}, "control characters"),
        ({"language": "fr"}, "valid choice"),
    ],
)
def test_bad_input_is_said_and_takes_no_seat(lab: Any, client: Client, change: dict[str, str], said: str) -> None:
    token = _token()
    response = client.post(reverse("join", args=[token]), JOIN | change)
    assert response.status_code == 422
    assert said in response.text
    assert Invite.objects.get().uses_left == 1
    assert not Member.objects.filter(email="wang@lab.example").exists()


def test_markup_in_a_name_is_shown_as_text(lab: Any, client: Client) -> None:
    client.post(reverse("join", args=[_token()]), JOIN | {"name": "<script>alert(1)</script>"})
    admin = make.admin()
    client.force_login(admin)
    text = client.get(reverse("members")).text
    assert "<script>alert(1)</script>" not in text and "&lt;script&gt;alert(1)" in text


def test_signed_in_people_are_told_that_they_have_an_account(lab: Any, client: Client) -> None:
    client.force_login(make.member("Li Na"))
    path = reverse("join", args=[_token()])
    response = client.get(path)
    assert response.status_code == 200 and "You have an account already" in response.text
    assert client.post(path, JOIN).status_code == 409
    assert Invite.objects.get().uses_left == 1


def test_joining_is_limited_per_client(lab: Any, client: Client) -> None:
    path = reverse("join", args=["x"])
    statuses = [client.post(path, JOIN).status_code for _ in range(21)]
    assert statuses == [410] * 20 + [429]


@pytest.mark.django_db(transaction=True)
def test_fifty_who_race_for_one_seat_give_one_member() -> None:
    make.lab()
    token, now = _token(uses=1), timezone.now()
    start, outcomes = threading.Barrier(50), []

    def press(number: int) -> None:
        try:
            start.wait(timeout=30)
            people.join(token, email=f"p{number}@lab.example", name="P", password=PASSWORD, language="en", now=now)
            outcomes.append("joined")
        except Refused as refused:
            outcomes.append(refused.codes[0])
        except locking.Busy:
            outcomes.append("busy")
        finally:
            connections.close_all()

    threads = [threading.Thread(target=press, args=[number]) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(outcomes) == 50
    assert outcomes.count("joined") == 1
    assert set(outcomes) <= {"joined", Code.INVITE_OVER, "busy"}
    assert Member.objects.filter(email__startswith="p").count() == 1
    assert Invite.objects.get().uses_left == 0


# --- signing in -----------------------------------------------------------------------------------------------------
def test_sign_in_by_password_whatever_the_case_of_the_address(lab: Any, client: Client) -> None:
    member = make.member(email="li@lab.example", password=PASSWORD)
    response = client.post(reverse("account_login"), {"login": "LI@Lab.Example", "password": PASSWORD})
    assert (response.status_code, response["Location"]) == (302, reverse("schedule"))
    assert client.session["_auth_user_id"] == str(member.pk)


def test_sign_in_leads_back_only_to_pages_of_ours(lab: Any, client: Client) -> None:
    make.member(email="li@lab.example", password=PASSWORD)
    for page, leads_to in (("/mine", "/mine"), ("https://evil.example/", "/"), ("//evil.example", "/")):
        client.post(reverse("account_logout"))
        response = client.post(
            reverse("account_login") + f"?next={page}", {"login": "li@lab.example", "password": PASSWORD, "next": page}
        )
        assert response["Location"] == leads_to


def test_sign_up_is_closed_and_makes_nobody(lab: Any, client: Client) -> None:
    path = reverse("account_signup")
    for response in (client.get(path), client.post(path, {"email": "new@lab.example", "password1": PASSWORD})):
        assert response.status_code == 200
        assert "People join by invite" in response.text
    assert Member.objects.count() == 0


@pytest.mark.parametrize("path", ["email/", "confirm-email/", "reauthenticate/", "reauthenticate/code/"])
def test_what_is_not_needed_is_not_there(lab: Any, client: Client, path: str) -> None:
    client.force_login(make.member())
    assert client.get(f"/accounts/{path}").status_code == 404


def test_a_wrong_password_and_an_unknown_address_look_alike(lab: Any, client: Client) -> None:
    make.member(email="li@lab.example", password=PASSWORD)
    path = reverse("account_login")
    answers = {
        (response.status_code, _masked(response.content).replace(email, ""))
        for email in ("li@lab.example", "no@lab.example")
        for response in [client.post(path, {"login": email, "password": "wrong but long"})]
    }
    assert len(answers) == 1
    assert answers.pop()[0] == 422


def test_after_five_wrong_passwords_even_the_right_one_is_refused(lab: Any, client: Client) -> None:
    make.member(email="li@lab.example", password=PASSWORD)
    path = reverse("account_login")
    for _ in range(5):
        assert client.post(path, {"login": "li@lab.example", "password": "wrong but long"}).status_code == 422
    response = client.post(path, {"login": "li@lab.example", "password": PASSWORD})
    assert response.status_code == 422
    assert "_auth_user_id" not in client.session


def test_forged_forwarding_headers_give_no_fresh_limit(lab: Any, client: Client) -> None:
    path = reverse("account_login")
    statuses = []
    for number in range(35):
        form = {"login": f"p{number}@lab.example", "password": "wrong but long"}
        statuses.append(client.post(path, form, headers={"X-Forwarded-For": f"10.0.0.{number}"}).status_code)
    assert 429 in statuses
    late = client.post(path, {"login": "x@lab.example", "password": "wrong but long"})
    assert late.status_code == 429
    assert "Too many tries" in late.text


def test_the_admin_signs_in_through_the_same_door_with_its_limits(lab: Any, client: Client, expect_logs: Any) -> None:
    expect_logs("Forbidden (Permission denied): /admin/")
    make.admin(email="boss@lab.example", password=PASSWORD)
    for method in (client.get, client.post):
        response = method("/admin/login/", {"username": "boss@lab.example", "password": PASSWORD})
        assert response.status_code == 302
        assert response["Location"].startswith(reverse("account_login") + "?next=")
    assert "_auth_user_id" not in client.session
    assert client.get("/admin/").status_code == 302
    client.force_login(make.member())
    assert client.get("/admin/login/").status_code == 403
    client.force_login(make.member(is_admin=True, approval="pending"))
    assert client.get("/admin/").status_code == 302  # led to its own sign-in …
    client.force_login(Member.objects.get(email="boss@lab.example"))
    assert client.get("/admin/").status_code == 200


def test_the_admin_shows_what_is_written_once_and_changes_nothing_of_it(lab: Any, client: Client, expect_logs: Any) -> None:
    expect_logs("Forbidden (Permission denied): /admin/")
    client.force_login(make.admin())
    _token()
    entry = AuditEntry.objects.first()
    assert entry is not None
    page = f"/admin/reservations/auditentry/{entry.pk}/change/"
    assert client.get(page).status_code == 200
    assert client.post(page, {"verb": "forged"}).status_code == 403
    assert client.post(f"/admin/reservations/auditentry/{entry.pk}/delete/", {"post": "yes"}).status_code == 403
    assert client.post(f"/admin/reservations/member/{make.member().pk}/delete/", {"post": "yes"}).status_code == 403


def test_the_admin_has_no_page_for_sessions_addresses_and_groups(lab: Any, client: Client) -> None:
    client.force_login(make.admin())
    assert client.get("/admin/reservations/member/").status_code == 200
    for page in ("account/emailaddress/", "usersessions/usersession/", "auth/group/"):
        assert client.get(f"/admin/{page}").status_code == 404


def test_a_repair_in_the_admin_is_audited_and_cannot_make_an_admin(lab: Any, client: Client) -> None:
    client.force_login(make.admin())
    member = make.member("Old")
    form = {
        "email": member.email, "name": "New", "role": "phd", "language": "", "zone": "", "is_admin": "on", "quiet_from": "23:00",
        "quiet_to": "08:00",
    }
    assert client.post(f"/admin/reservations/member/{member.pk}/change/", form).status_code == 302
    member.refresh_from_db()
    assert (member.name, member.is_admin) == ("New", False)
    assert AuditEntry.objects.filter(verb="repair", subject="member", subject_id=member.pk).exists()


def test_a_mailed_code_signs_in_and_its_mail_speaks_the_readers_language(lab: Any, client: Client) -> None:
    make.member(email="li@lab.example", language="zh-hans")
    response = client.post(reverse("account_request_login_code"), {"email": "LI@lab.example"}, headers={"Accept-Language": "en"})
    assert response["Location"] == reverse("account_confirm_login_code")
    assert [message.to for message in mail.outbox] == [["li@lab.example"]]
    code = re.search(r"\b[A-Z0-9]{4}-[A-Z0-9]{4}\b", mail.outbox[0].body)
    assert code
    assert client.post(reverse("account_confirm_login_code"), {"code": "AAAA-AAAA"}).status_code == 422
    response = client.post(reverse("account_confirm_login_code"), {"code": code.group()})
    assert response["Location"] == reverse("schedule")
    assert "_auth_user_id" in client.session


def test_code_and_reset_tell_nobody_who_has_an_account(lab: Any) -> None:
    make.member(email="li@lab.example", password=PASSWORD)
    for name, form in (("account_request_login_code", "email"), ("account_reset_password", "email")):
        seen = []
        for email in ("li@lab.example", "no@lab.example"):
            client, mail.outbox = Client(), []
            response = client.post(reverse(name), {form: email})
            follow = client.get(response["Location"])
            shown = _masked(follow.content).replace(email, "")
            seen.append((response.status_code, response["Location"], len(mail.outbox), shown))
        assert seen[0] == seen[1]


def test_the_reset_link_is_made_of_the_sites_own_address(lab: Any, client: Client, settings: Any) -> None:
    settings.SITE_URL = "https://gpu.lab.example"
    member = make.member(email="li@lab.example", password=PASSWORD)
    client.post(reverse("account_reset_password"), {"email": "li@lab.example"}, headers={"Host": "localhost"})
    link = re.search(r"https?://\S+password/reset/key/\S+", mail.outbox[0].body)
    assert link and link.group().startswith("https://gpu.lab.example/")
    page = client.get(link.group().removeprefix("https://gpu.lab.example"))
    form = page["Location"]
    assert client.get(form).status_code == 200
    new = "another long password"
    assert client.post(form, {"password1": new, "password2": "something else!"}).status_code == 422
    assert client.post(form, {"password1": new, "password2": new}).status_code == 302
    member.refresh_from_db()
    assert member.check_password(new)
    assert client.get(link.group().removeprefix("https://gpu.lab.example")).text.count("not valid any more") == 1


def test_without_a_mail_server_mails_are_kept_for_admins(lab: Any, client: Client, settings: Any) -> None:
    settings.EMAIL_CONFIGURED = False
    settings.EMAIL_BACKEND = "labgpu.mail.KeptForAdmins"
    make.member(email="li@lab.example")
    for email in ("li@lab.example", "stranger@else.example"):
        Client().post(reverse("account_request_login_code"), {"email": email})
    code = re.search(r"\b[A-Z0-9]{4}-[A-Z0-9]{4}\b", KeptMail.objects.get(to="li@lab.example").body)
    assert code
    client.force_login(make.admin())
    text = client.get(reverse("members")).text
    assert code.group() in text
    assert "stranger@else.example" not in text
    client.force_login(make.member())
    assert client.get(reverse("members")).status_code == 403


def test_changing_the_password_is_told_by_mail(lab: Any, client: Client) -> None:
    member = make.member(email="li@lab.example", password=PASSWORD)
    client.force_login(member)
    new = "another long password"
    form = {"oldpassword": PASSWORD, "password1": new, "password2": new}
    assert client.post(reverse("account_change_password"), form | {"oldpassword": "wrong one here"}).status_code == 422
    assert client.post(reverse("account_change_password"), form).status_code == 302
    assert [message.to for message in mail.outbox] == [["li@lab.example"]]


# --- sessions -------------------------------------------------------------------------------------------------------
def _signed_in(email: str) -> Client:
    client = Client()
    client.post(reverse("account_login"), {"login": email, "password": PASSWORD})
    return client


def test_the_sessions_page_ends_the_others_and_reading_it_changes_nothing(lab: Any) -> None:
    make.member(email="li@lab.example", password=PASSWORD)
    here, there = _signed_in("li@lab.example"), _signed_in("li@lab.example")
    before = (UserSession.objects.count(), Session.objects.count())
    assert here.get(reverse("usersessions_list")).text.count("<tr>") == 3
    assert (UserSession.objects.count(), Session.objects.count()) == before == (2, 2)
    assert here.post(reverse("usersessions_list")).status_code == 303
    assert here.get(reverse("schedule")).status_code == 200
    assert there.get(reverse("schedule")).status_code == 302


@pytest.mark.parametrize("count", [1, 3])
def test_the_sessions_page_asks_as_often_for_one_as_for_three(
    lab: Any, count: int, django_assert_num_queries: Any
) -> None:
    make.member(email="li@lab.example", password=PASSWORD)
    clients = [_signed_in("li@lab.example") for _ in range(count)]
    with django_assert_num_queries(5):
        clients[0].get(reverse("usersessions_list"))


def test_a_deactivated_member_is_out_at_once_and_stays_out_when_switched_on_again(lab: Any) -> None:
    member = make.member(email="li@lab.example", password=PASSWORD)
    client = _signed_in("li@lab.example")
    assert client.get(reverse("schedule")).status_code == 200
    admin = make.admin()
    keep = {"role": "phd", "is_arbiter": False, "is_admin": False}
    people.change(member.pk, by=admin, now=timezone.now(), is_active=False, **keep)
    assert client.get(reverse("schedule"))["Location"].startswith(reverse("account_login"))
    response = Client().post(reverse("account_login"), {"login": "li@lab.example", "password": PASSWORD})
    assert response["Location"] == reverse("account_inactive")
    people.change(member.pk, by=admin, now=timezone.now(), is_active=True, **keep)
    assert client.get(reverse("schedule"))["Location"].startswith(reverse("account_login"))


# --- language -------------------------------------------------------------------------------------------------------
def test_the_language_is_kept_for_browser_and_member(lab: Any, client: Client) -> None:
    member = make.member(language="en")
    client.force_login(member)
    response = client.post(reverse("set-language"), {"language": "zh-hans", "next": "/mine?a=1"})
    assert (response.status_code, response["Location"]) == (303, "/mine?a=1")
    assert response.cookies["django_language"].value == "zh-hans"
    member.refresh_from_db()
    assert member.language == "zh-hans"


@pytest.mark.parametrize(
    "page", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "\\\\evil.example", "http:///evil.example", ""]
)
def test_the_language_never_leads_away(lab: Any, client: Client, page: str) -> None:
    assert client.post(reverse("set-language"), {"language": "en", "next": page})["Location"] == "/"


def test_an_unknown_language_is_said_and_get_does_nothing(lab: Any, client: Client) -> None:
    response = client.post(reverse("set-language"), {"language": "tlh", "next": "/"})
    assert response.status_code == 400
    assert "does not speak" in response.text
    assert client.get(reverse("set-language")).status_code == 405


# --- waiting and errors ---------------------------------------------------------------------------------------------
def test_somebody_unapproved_waits_and_is_led_on_when_approved(lab: Any, client: Client) -> None:
    member = make.member(approval="pending")
    client.force_login(member)
    assert client.get(reverse("schedule"))["Location"] == reverse("waiting")
    assert client.get(reverse("waiting")).status_code == 200
    people.approve(member.pk, by=make.admin(), now=timezone.now())
    assert client.get(reverse("waiting"))["Location"] == reverse("schedule")


def test_reading_pages_changes_no_row(lab: Any, client: Client) -> None:
    client.force_login(make.admin())
    token = _token()
    pages = [
        reverse(name)
        for name in ("members", "hosts", "cases", "usersessions_list", "account_change_password", "waiting", "welcome", "health")
    ]
    pages += [reverse("join", args=[token]), reverse("setup", args=["x"]), "/no/such/page"]
    client.get(pages[0])
    with _Writes() as seen:
        for page in pages:
            client.get(page)
            client.head(page)
            Client().get(page)
        for name in ("account_login", "account_request_login_code", "account_reset_password", "account_signup"):
            Client().get(reverse(name))
    assert seen.writes == []


class _Writes:
    """The statements that write, of all that run inside."""

    def __enter__(self) -> "_Writes":
        self.writes: list[str] = []

        def look(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            if not sql.lstrip().upper().startswith(("SELECT", "SAVEPOINT", "RELEASE", "ROLLBACK", "BEGIN", "PRAGMA")):
                self.writes.append(sql)
            return execute(sql, params, many, context)

        self._wrapper = connection.execute_wrapper(look)
        self._wrapper.__enter__()
        return self

    def __exit__(self, *args: Any) -> None:
        self._wrapper.__exit__(*args)


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_a_missing_page_says_what_to_do_in_both_languages(lab: Any, client: Client, language: str) -> None:
    response = client.get("/no/such/page", headers={"Accept-Language": language})
    assert response.status_code == 404
    assert 'href="/"' in response.text


def test_a_wrong_host_name_is_answered_without_the_lab(lab: Any, client: Client, expect_logs: Any) -> None:
    expect_logs("Invalid HTTP_HOST header")
    response = client.get("/", headers={"Host": "evil.example", "Accept-Language": "en"})
    assert response.status_code == 400
    assert "not understood" in response.text


def test_a_form_older_than_the_sign_in_keeps_what_was_typed(lab: Any) -> None:
    member = make.member("Li Na")
    client = Client(enforce_csrf_checks=True)
    client.force_login(member)
    form = {"language": "en", "next": "/mine", "csrfmiddlewaretoken": "a" * 64, "note": "<b>"}
    response = client.post(reverse("set-language"), form, headers={"Sec-Fetch-Site": "same-origin"})
    assert response.status_code == 403
    assert "press again" in response.text and "Li Na" in response.text
    assert '<input type="hidden" name="next" value="/mine">' in response.text and "&lt;b&gt;" in response.text
    strange = client.post(reverse("set-language"), form, headers={"Sec-Fetch-Site": "cross-site"})
    assert strange.status_code == 403
    assert 'name="note"' not in strange.text
    login = {"login": "x", "password": "secret"}
    secret = client.post(reverse("account_login"), login, headers={"Sec-Fetch-Site": "same-origin"})
    assert "secret" not in secret.text


def test_a_fault_is_said_in_both_languages_without_the_database(lab: Any, expect_logs: Any, monkeypatch: Any) -> None:
    expect_logs("Internal Server Error")
    monkeypatch.setattr("reservations.queries.lab_facts", lambda: 1 / 0)
    client = Client(raise_request_exception=False)
    response = client.get("/")
    assert response.status_code == 500
    assert "出错了" in response.text and "Something went wrong" in response.text


def test_nobody_is_left_with_an_address_to_confirm(lab: Any, client: Client) -> None:
    client.post(reverse("join", args=[_token()]), JOIN)
    assert not EmailAddress.objects.filter(verified=False, primary=False).exists()
    assert mail.outbox == []
