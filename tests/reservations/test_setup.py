"""From an empty installation to a lab with cards."""

import json
import re
import sys
import threading
from datetime import timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.core.cache import cache
from django.db import DatabaseError, connection, connections
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from reservations import ticks
from reservations.models import AuditEntry, CardState, Gpu, Host, Lab, Member, Notification, Pool
from reservations.services import inventory, people, setup
from reservations.services.inventory import SeenCard
from tests import factories as make

FORM = {
    "lab_name": "视觉实验室", "zone": "Asia/Shanghai", "language": "zh-hans", "name": "陈老师", "email": "Chen@Lab.Example",
    "password": "a long enough password",
}


@pytest.fixture(autouse=True)
def _own_folder(settings: Any, tmp_path: Path) -> None:
    """The one-time link is a file of the data folder; tests that run at the same time must not replace each other's."""
    settings.DATA_DIR = tmp_path


def _token() -> str:
    link = setup.link(timezone.now())
    assert link
    return link.rsplit("/", 1)[1]


def _masked(body: bytes) -> str:
    text = re.sub(r'(csrfmiddlewaretoken" value=|X-CSRFToken": )"[^"]+"', "", body.decode())
    return re.sub(r'name="next" value="[^"]*"', "", text)


# --- set-up ---------------------------------------------------------------------------------------------------------
def test_before_set_up_every_page_leads_to_the_welcome(db: None, client: Client) -> None:
    for name in ("schedule", "members", "hosts", "cases"):
        assert client.get(reverse(name))["Location"] == reverse("welcome")
    page = client.get(reverse("welcome"), headers={"Accept-Language": "en"})
    assert page.status_code == 200
    assert "printed in the terminal" in page.text


def test_after_set_up_the_welcome_leads_on(db: None, client: Client) -> None:
    make.lab()
    assert client.get(reverse("welcome"))["Location"] == reverse("schedule")


def test_the_link_makes_the_lab_and_its_admin_and_signs_them_in(db: None, client: Client) -> None:
    path = reverse("setup", args=[_token()])
    assert client.get(path).status_code == 200
    response = client.post(path, FORM | {"is_superuser": "on", "simulated": "on"})
    assert (response.status_code, response["Location"]) == (302, reverse("hosts"))
    lab, admin = Lab.objects.get(), Member.objects.get()
    assert (lab.name, lab.zone, lab.language, lab.simulated) == ("视觉实验室", "Asia/Shanghai", "zh-hans", False)
    assert lab.set_up_at is not None
    assert (admin.email, admin.is_admin, admin.is_arbiter, admin.approval) == ("chen@lab.example", True, True, "approved")
    assert admin.is_superuser is False
    assert client.get(reverse("hosts")).status_code == 200
    assert [entry.actor_id for entry in AuditEntry.objects.filter(verb="set_up")] == [admin.pk]


def test_the_link_works_once(db: None, client: Client) -> None:
    path = reverse("setup", args=[_token()])
    assert client.post(path, FORM).status_code == 302
    for response in (Client().get(path), Client().post(path, FORM | {"email": "other@lab.example"})):
        assert response.status_code == 404
    assert Member.objects.count() == 1
    assert setup.link(timezone.now()) is None


def test_every_link_that_does_not_work_is_answered_alike(db: None, client: Client) -> None:
    replaced = _token()
    expired = _token()
    answers = set()
    client.defaults["HTTP_ACCEPT_LANGUAGE"] = "en"
    for token in ("x", "never-printed", replaced):
        for response in (client.get(reverse("setup", args=[token])), client.post(reverse("setup", args=[token]), FORM)):
            assert response.status_code == 404
            answers.add(_masked(response.content))
    kept, _ = setup._file().read_text().split()
    setup._file().write_text(f"{kept} {(timezone.now() - timedelta(seconds=1)).timestamp():.0f}\n")
    answers.add(_masked(client.get(reverse("setup", args=[expired])).content))
    make.lab()
    make.admin()
    assert len(answers) == 1
    assert "restart LabGPU" in answers.pop()
    assert client.post(reverse("demo-load"), {"token": "x"}).status_code == 404


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"zone": "Mars/Olympus"}, "no such time zone"),
        ({"zone": "../../etc/passwd"}, "no such time zone"),
        ({"lab_name": ""}, "required"),
        ({"password": "short"}, "too short"),
        ({"email": "x"}, "valid email"),
        ({"language": "de"}, "valid choice"),
    ],
)
def test_bad_input_is_said_and_the_link_stays_open(db: None, client: Client, change: dict[str, str], said: str) -> None:
    path = reverse("setup", args=[_token()])
    response = client.post(path, FORM | change, headers={"Accept-Language": "en"})
    assert response.status_code == 422
    assert said in response.text
    assert not Member.objects.exists() and not Lab.objects.filter(set_up_at__isnull=False).exists()
    assert client.post(path, FORM).status_code == 302


def test_an_address_that_somebody_has_is_said(db: None, client: Client) -> None:
    make.member(email="chen@lab.example")
    response = client.post(reverse("setup", args=[_token()]), FORM, headers={"Accept-Language": "en"})
    assert response.status_code == 422
    assert "already has an account" in response.text


@pytest.mark.django_db(transaction=True)
def test_of_two_who_press_at_once_one_founds_the_lab() -> None:
    token, now = _token(), timezone.now()
    start, outcomes = threading.Barrier(4), []

    def press(number: int) -> None:
        try:
            start.wait(timeout=30)
            made = people.found(
                is_valid=lambda: setup.is_valid(token, now), lab_name=f"Lab {number}", zone="Asia/Shanghai", language="en",
                name="A", email=f"a{number}@lab.example", password="a long enough password", now=now,
            )
            outcomes.append(made is not None)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=press, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(outcomes) == [False, False, False, True]
    assert Member.objects.filter(is_admin=True).count() == 1


# --- the demonstration ----------------------------------------------------------------------------------------------
class _NotDemo(Exception):
    pass


@pytest.fixture
def demo(monkeypatch: Any) -> list[str]:
    """The demonstration's service, as small as can be."""
    calls: list[str] = []
    module: Any = ModuleType("reservations.services.demo")

    def load(*, now: Any) -> Any:
        calls.append("load")
        make.lab(simulated=True)
        return SimpleNamespace(admin=make.admin(email="demo@lab.example"), password="the-demo-password")

    def wipe() -> None:
        calls.append("wipe")
        Member.objects.all().delete()
        Lab.objects.all().delete()

    module.load, module.wipe, module.NotDemo = load, wipe, _NotDemo
    import reservations.services

    monkeypatch.setitem(sys.modules, "reservations.services.demo", module)
    monkeypatch.setattr(reservations.services, "demo", module, raising=False)
    return calls


def test_the_demo_is_loaded_behind_the_link_only(db: None, client: Client, demo: list[str]) -> None:
    assert client.post(reverse("demo-load"), {"token": "wrong"}).status_code == 404
    assert demo == []
    token = _token()
    assert "Load the demo lab" in client.get(reverse("setup", args=[token]), headers={"Accept-Language": "en"}).text
    page = client.post(reverse("demo-load"), {"token": token})
    assert page.status_code == 200
    assert "demo@lab.example" in page.text and "the-demo-password" in page.text
    assert client.get(reverse("schedule")).status_code == 200
    assert client.post(reverse("demo-load"), {"token": token}).status_code == 404
    assert demo == ["load"]


def test_wiping_the_demo_leads_straight_to_set_up(db: None, client: Client, demo: list[str]) -> None:
    client.post(reverse("demo-load"), {"token": _token()})
    response = client.post(reverse("demo-wipe"))
    assert response.status_code == 303
    assert response["Location"].startswith("/setup/")
    assert client.get(response["Location"]).status_code == 200
    assert demo == ["load", "wipe"]


def test_a_real_lab_is_never_wiped(db: None, client: Client, demo: list[str]) -> None:
    make.lab()
    client.force_login(make.admin())
    response = client.post(reverse("demo-wipe"))
    assert response.status_code == 409
    assert "Nothing was changed" in response.text
    assert client.get(reverse("demo-wipe")).status_code == 405
    assert demo == [] and Lab.objects.exists()


def test_the_demo_is_not_offered_where_real_cards_are(db: None, client: Client) -> None:
    make.cards(1)
    assert "Load the demo lab" not in client.get(reverse("setup", args=[_token()]), headers={"Accept-Language": "en"}).text


# --- hosts and cards by hand ----------------------------------------------------------------------------------------
@pytest.fixture
def boss(db: None, client: Client) -> Client:
    make.lab()
    client.force_login(make.admin())
    return client


CARD = {"uuid": "GPU-1", "model": "A100 80GB", "memory": "80", "index": "2", "pool": ""}


def _card(host: Host, **change: str) -> dict[str, str]:
    return {f"host{host.pk}-{name}": value for name, value in (CARD | change).items()}


def test_hosts_and_cards_are_added_by_hand(boss: Client) -> None:
    assert "no cards yet" in boss.get(reverse("hosts")).text
    assert boss.post(reverse("host-add"), {"name": "gpu01", "has_reader": "on"}).status_code == 303
    host = Host.objects.get()
    text = boss.get(reverse("hosts")).text
    assert "LABGPU_HOST=gpu01" in text and "labgpu.run --only cards" in text
    assert boss.post(reverse("card-add", args=[host.pk]), _card(host)).status_code == 303
    gpu = Gpu.objects.get()
    assert (gpu.uuid, gpu.host, gpu.index, gpu.memory_total, gpu.pool.name) == ("GPU-1", host, 2, 80 << 30, "A100 80GB")
    assert boss.post(reverse("host-reader", args=[host.pk]), {"has_reader": "no"}).status_code == 303
    host.refresh_from_db()
    assert host.has_reader is False
    for service in ("out_of_service", "in_service"):
        assert boss.post(reverse("card-service", args=[gpu.pk]), {"service": service}).status_code == 303
        gpu.refresh_from_db()
        assert gpu.service == service
    assert list(AuditEntry.objects.order_by("pk").values_list("verb", flat=True)) == [
        "add_host", "add_card", "set_reader", "set_service", "set_service",
    ]


def test_what_is_known_already_is_said(boss: Client) -> None:
    host = make.host("gpu01")
    response = boss.post(reverse("host-add"), {"name": "gpu01"})
    assert response.status_code == 422 and "a host named gpu01 already" in response.text
    boss.post(reverse("card-add", args=[host.pk]), _card(host))
    response = boss.post(reverse("card-add", args=[host.pk]), _card(host, index="3"))
    assert response.status_code == 422 and "known already: gpu01:2" in response.text


@pytest.mark.parametrize(
    "change",
    [
        {"uuid": "a b"}, {"uuid": "2689b51e"}, {"uuid": ""}, {"memory": "-1"}, {"index": "999"}, {"memory": "nan"}, {"model": ""},
    ],
)
def test_a_bad_card_is_said(boss: Client, change: dict[str, str]) -> None:
    host = make.host()
    assert boss.post(reverse("card-add", args=[host.pk]), _card(host, **change)).status_code == 422
    assert not Gpu.objects.exists()


def test_bad_host_requests_are_4xx(boss: Client) -> None:
    host = make.host()
    assert boss.post(reverse("host-add"), {"name": "gpu 01!"}).status_code == 422
    assert boss.post(reverse("host-reader", args=[host.pk]), {"has_reader": "maybe"}).status_code == 400
    assert boss.post(reverse("host-reader", args=[9999]), {"has_reader": "no"}).status_code == 404
    assert boss.post(reverse("card-add", args=[9999]), CARD).status_code == 404
    assert boss.post(reverse("card-service", args=[9999]), {"service": "in_service"}).status_code == 404
    assert boss.post(reverse("card-service", args=[9999]), {"service": "gone"}).status_code == 400


@pytest.mark.parametrize("count", [1, 3])
def test_the_hosts_page_asks_as_often_for_one_as_for_three(boss: Client, count: int, django_assert_num_queries: Any) -> None:
    for _ in range(count):
        make.cards(count)
    with django_assert_num_queries(6):
        assert boss.get(reverse("hosts")).status_code == 200


# --- cards found by the sensor --------------------------------------------------------------------------------------
def _seen(count: int, **change: Any) -> list[SeenCard]:
    return [
        SeenCard(**({"uuid": f"GPU-{n}", "index": n, "model": "A100", "bus_id": f"00:{n}", "memory_total": 80 << 30} | change))
        for n in range(count)
    ]


def test_new_cards_come_into_the_pool_of_their_model(db: None) -> None:
    host = make.host("gpu01")
    found = inventory.discover(host, _seen(2), make.NOW)
    assert [(gpu.uuid, gpu.index, gpu.pool.name, gpu.host) for gpu in found] == [
        ("GPU-0", 0, "A100", host), ("GPU-1", 1, "A100", host),
    ]
    assert [(e.verb, e.origin) for e in AuditEntry.objects.all()] == [("find_card", "sensor")] * 2


def test_the_same_again_writes_nothing(db: None, django_assert_num_queries: Any) -> None:
    host = make.host()
    inventory.discover(host, _seen(3), make.NOW)
    with django_assert_num_queries(1):
        assert len(inventory.discover(host, _seen(3), make.NOW)) == 3
    assert AuditEntry.objects.count() == 3


@pytest.mark.parametrize("count", [1, 3])
def test_finding_asks_as_often_for_one_as_for_three(db: None, count: int, django_assert_num_queries: Any) -> None:
    host = make.host()
    with django_assert_num_queries(9):
        inventory.discover(host, _seen(count), make.NOW)


def test_swapped_numbers_follow_the_uuid_and_unread_values_overwrite_nothing(db: None) -> None:
    host = make.host()
    inventory.discover(host, _seen(2), make.NOW)
    pool = Pool.objects.create(name="mine")
    Gpu.objects.filter(uuid="GPU-0").update(pool=pool, service=Gpu.Service.OUT_OF_SERVICE)
    inventory.discover(host, [SeenCard("GPU-0", 1), SeenCard("GPU-1", 0)], make.NOW)
    assert list(Gpu.objects.order_by("uuid").values_list("uuid", "index", "bus_id", "memory_total", "pool__name", "service")) == [
        ("GPU-0", 1, "00:0", 80 << 30, "mine", "out_of_service"),
        ("GPU-1", 0, "00:1", 80 << 30, "A100", "in_service"),
    ]
    assert AuditEntry.objects.filter(verb="change_card").count() == 2


def test_a_card_put_into_another_host_moves_but_never_between_real_and_simulated(db: None) -> None:
    old, new = make.host("old"), make.host("new")
    simulated = Host.objects.create(name="sim", simulated=True)
    inventory.discover(old, _seen(1), make.NOW)
    assert inventory.discover(simulated, _seen(1), make.NOW) == []
    assert Gpu.objects.get().host == old
    assert [gpu.host for gpu in inventory.discover(new, _seen(1), make.NOW)] == [new]


def test_cards_without_identity_are_left_out(db: None) -> None:
    assert inventory.discover(make.host(), [SeenCard("", 0, "A100")], make.NOW) == []
    assert not Gpu.objects.exists()


# --- health ---------------------------------------------------------------------------------------------------------
@pytest.fixture
def healthy(db: None) -> None:
    now = timezone.now()
    for name in ticks.SWEEPS:
        ticks.mark(name, now)
    [gpu] = make.cards(1)
    CardState.objects.create(gpu=gpu, since=now, sampled_at=now)


def test_health_is_ok_without_a_login_and_names_nobody(healthy: None, client: Client) -> None:
    make.member("Li Na")
    response = client.get(reverse("health"))
    assert response.status_code == 200
    body = json.loads(response.content)
    assert body["state"] == "ok"
    assert {name: line["state"] for name, line in body["checks"].items()} == dict.fromkeys(
        ("web", "database", "guard", "migrations", "messages", "sweeps", "samples"), "ok"
    )
    assert "Li Na" not in response.text and "host" not in response.text
    assert client.head(reverse("health")).status_code == 200
    assert client.post(reverse("health")).status_code == 405


def test_health_says_what_is_late_and_serves_on(healthy: None, client: Client) -> None:
    old = timezone.now() - timedelta(hours=1)
    member = make.member()
    Notification.objects.create(key="k", kind=Notification.Kind.ENDING, member=member, due_at=old)
    CardState.objects.update(sampled_at=old)
    cache.clear()
    response = client.get(reverse("health"))
    assert response.status_code == 200
    body = json.loads(response.content)
    assert [name for name, line in body["checks"].items() if line["state"] == "red"] == ["messages", "sweeps", "samples"]
    assert body["checks"]["messages"]["oldest_due_seconds"] >= 3600
    assert body["checks"]["sweeps"]["seconds_ago"] == dict.fromkeys(("advance", "deliver", "presence", "waitlist"))


@pytest.mark.django_db(transaction=True)
def test_health_is_503_without_the_guard(client: Client, expect_logs: Any) -> None:
    expect_logs("Service Unavailable: /health")
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'no_double_booking'")
            [(kept,)] = cursor.fetchall()
            cursor.execute("ALTER TABLE reservations_allocation DROP CONSTRAINT no_double_booking")
            again = f"ALTER TABLE reservations_allocation ADD CONSTRAINT no_double_booking {kept}"
        else:
            cursor.execute("SELECT sql FROM sqlite_master WHERE name = 'no_double_booking_update'")
            [(again,)] = cursor.fetchall()
            cursor.execute("DROP TRIGGER no_double_booking_update")
    try:
        response = client.get(reverse("health"))
        assert response.status_code == 503
        assert json.loads(response.content)["checks"]["guard"] == {"state": "red"}
    finally:
        with connection.cursor() as cursor:
            cursor.execute(again)
    assert client.get(reverse("health")).status_code == 200


def test_health_is_503_without_the_database_and_asks_it_once(
    db: None, client: Client, monkeypatch: Any, expect_logs: Any
) -> None:
    expect_logs("Service Unavailable: /health")
    asked = []

    def gone(now: Any) -> Any:
        asked.append(now)
        raise DatabaseError("gone")

    monkeypatch.setattr("reservations.views.health._database", gone)
    monkeypatch.setattr("reservations.views.health._guard", gone)
    response = client.get(reverse("health"))
    assert response.status_code == 503
    assert len(asked) == 1


@pytest.mark.parametrize("count", [1, 3])
def test_health_asks_as_often_for_one_as_for_three(
    healthy: None, client: Client, count: int, django_assert_num_queries: Any
) -> None:
    make.cards(count)
    client.get(reverse("health"))
    with django_assert_num_queries(5):
        client.get(reverse("health"))
