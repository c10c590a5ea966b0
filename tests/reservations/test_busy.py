"""A write that waited in vain for another's lock: 409 on every address, also where the service takes no lock of its own."""

from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from django.urls import reverse

from reservations.services import inventory, people
from tests import factories as make


@pytest.fixture
def boss(db: None, client: Client) -> Client:
    make.lab()
    client.force_login(make.admin("Boss"))
    client.raise_request_exception = False
    return client


def _raise(words: str) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError(words)

    return fail


def test_a_write_that_meets_a_long_lock_is_409_with_a_time_to_try_again(
    boss: Client, monkeypatch: pytest.MonkeyPatch, expect_logs: Any
) -> None:
    expect_logs("Conflict")
    monkeypatch.setattr(inventory, "add_host", _raise("database is locked"))
    monkeypatch.setattr(people, "choose_language", _raise("database is locked"))
    asked = [
        boss.post(reverse("host-add"), {"name": "gpu01"}), boss.post(reverse("set-language"), {"language": "en"}),
        boss.post(reverse("set-language"), {"language": "en"}, headers={"HX-Request": "true"}),
    ]
    assert [(response.status_code, response["Retry-After"]) for response in asked] == [(409, "2")] * 3


def test_any_other_trouble_of_the_database_is_still_a_fault(
    boss: Client, monkeypatch: pytest.MonkeyPatch, expect_logs: Any
) -> None:
    expect_logs("Internal Server Error")
    monkeypatch.setattr(inventory, "add_host", _raise("disk I/O error"))
    assert boss.post(reverse("host-add"), {"name": "gpu01"}).status_code == 500
