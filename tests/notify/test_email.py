"""How a mail leaves, seen from a real server's side."""

import smtplib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from labgpu.notify.email import EmailTransport, classify
from labgpu.notify.message import Message, Recipient
from labgpu.notify.registry import TRANSPORTS
from labgpu.notify.transport import TransportError
from tests import mailserver
from tests.lab import free_port

MESSAGE = Message(
    id="ending.7.abc", thread="reservation.5.100", recipient=Recipient("林晓", "lin@lab.example"),
    subject="还剩 10 分钟：2 × A100", text="请释放\n", html="<p>请释放</p>", language="zh-hans",
)


@pytest.fixture
def mailbox(settings: Any) -> Iterator[mailserver.Mailserver]:
    with mailserver.running(settings) as server:
        yield server


@pytest.fixture
def transport() -> Iterator[EmailTransport]:
    made = EmailTransport()
    yield made
    made.close()


def failed(transport: EmailTransport, message: Message) -> TransportError:
    with pytest.raises(TransportError) as caught:
        transport.send(message)
    return caught.value


def test_the_registry_knows_mail() -> None:
    assert list(TRANSPORTS) == ["email"]


def test_a_mail_has_both_bodies_and_the_headers_that_programs_go_by(
    mailbox: mailserver.Mailserver, transport: EmailTransport, settings: Any
) -> None:
    settings.SITE_URL = "https://gpu.example.edu"
    transport.send(MESSAGE)
    (mail,) = mailbox.mails
    assert mailserver.text_of(mail).strip() == "请释放"
    assert mailserver.html_of(mail).strip() == "<p>请释放</p>"
    assert {name: mail[name] for name in ("Subject", "To", "Message-ID", "In-Reply-To", "References")} == {
        "Subject": "还剩 10 分钟：2 × A100", "To": "林晓 <lin@lab.example>",
        "Message-ID": "<labgpu.ending.7.abc@gpu.example.edu>",
        "In-Reply-To": "<labgpu.reservation.5.100@gpu.example.edu>",
        "References": "<labgpu.reservation.5.100@gpu.example.edu>",
    }
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["X-Auto-Response-Suppress"] == "All"
    assert mail["Content-Language"] == "zh-hans"
    assert mail["Date"]


def test_several_mails_go_by_one_session(mailbox: mailserver.Mailserver, transport: EmailTransport) -> None:
    for number in range(5):
        transport.send(replace(MESSAGE, id=f"ending.{number}"))
    assert (len(mailbox.mails), mailbox.sessions) == (5, 1)


def test_a_server_that_ends_the_session_after_two_mails_loses_none(
    mailbox: mailserver.Mailserver, transport: EmailTransport
) -> None:
    mailbox.mails_per_session = 2
    for number in range(5):
        transport.send(replace(MESSAGE, id=f"ending.{number}"))
    assert (len(mailbox.mails), mailbox.sessions) == (5, 3)


@pytest.mark.parametrize("name", ['Lin, "the" Great', "Lin <x@y.example>", "O'Brien; x@y.example,", "林，晓", "a" * 60])
def test_a_name_stays_a_name(mailbox: mailserver.Mailserver, transport: EmailTransport, name: str) -> None:
    transport.send(replace(MESSAGE, recipient=Recipient(name, "lin@lab.example")))
    assert mailbox.recipients == ["lin@lab.example"]
    (to,) = mailbox.mails[0]["To"].addresses
    assert (to.display_name, to.addr_spec) == (name, "lin@lab.example")
    assert mailbox.mails[0]["Bcc"] is None


@pytest.mark.parametrize("address", ["a@@b", "nobody", "@lab.example", "a b@lab.example", "lin@lab.example, x@y.example"])
def test_what_is_no_address_is_given_up_with_its_cause(
    mailbox: mailserver.Mailserver, transport: EmailTransport, address: str
) -> None:
    problem = failed(transport, replace(MESSAGE, recipient=Recipient("Lin", address)))
    assert (problem.permanent, problem.channel, mailbox.mails) == (True, False, [])
    assert address in str(problem)


def test_an_address_the_server_does_not_know_is_given_up_and_the_next_mail_leaves(
    mailbox: mailserver.Mailserver, transport: EmailTransport
) -> None:
    mailbox.refuse["gone@lab.example"] = "550 5.1.1 no such person"
    problem = failed(transport, replace(MESSAGE, recipient=Recipient("Gone", "gone@lab.example")))
    assert (problem.permanent, problem.channel) == (True, False)
    assert str(problem) == "550 5.1.1 no such person"
    transport.send(MESSAGE)
    assert mailbox.recipients == ["lin@lab.example"]


def test_a_full_mailbox_is_tried_again(mailbox: mailserver.Mailserver, transport: EmailTransport) -> None:
    mailbox.refuse["lin@lab.example"] = "452 4.2.2 mailbox full"
    assert failed(transport, MESSAGE).permanent is False


@pytest.mark.parametrize(("answer", "permanent"), [("554 5.7.1 spam", True), ("451 4.3.0 try again", False)])
def test_a_refusal_of_the_content_says_whether_it_lasts(
    mailbox: mailserver.Mailserver, transport: EmailTransport, answer: str, permanent: bool
) -> None:
    mailbox.on_data = lambda envelope: answer
    problem = failed(transport, MESSAGE)
    assert (problem.permanent, problem.channel) == (permanent, False)


def test_no_server_is_the_channels_trouble(transport: EmailTransport, settings: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", free_port()
    problem = failed(transport, MESSAGE)
    assert (problem.permanent, problem.channel) == (False, True)


@pytest.mark.parametrize(
    "problem",
    [
        smtplib.SMTPAuthenticationError(535, b"wrong password"), smtplib.SMTPSenderRefused(550, b"not yours", "a@b.example"),
        smtplib.SMTPConnectError(554, b"go away"), smtplib.SMTPServerDisconnected("gone"), TimeoutError("slow"),
    ],
)
def test_what_an_admin_can_correct_is_never_held_against_a_message(problem: Exception) -> None:
    error = classify(problem)
    assert (error.permanent, error.channel) == (False, True)
