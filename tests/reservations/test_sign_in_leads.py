"""Where sign-in leads: to a page of this site, whatever the address says."""

import pytest
from django.test import Client
from django.urls import reverse

from tests import factories as make


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("asked", "led"),
    [
        ("/mine", "/mine"), ("/book?card=1", "/book?card=1"), ("http://127.0.0.1/x", "/"), ("http://localhost:1/", "/"),
        ("http://testserver.evil.example/", "/"), ("//evil.example", "/"), ("/\\evil.example", "/"), ("javascript:alert(1)", "/"),
    ],
)
def test_sign_in_leads_to_pages_of_this_site_alone(client: Client, asked: str, led: str) -> None:
    make.lab()
    who = make.member(password="a long enough password")
    sent = {"login": who.email, "password": "a long enough password", "next": asked}
    assert client.post(reverse("account_login"), sent)["Location"] == led
