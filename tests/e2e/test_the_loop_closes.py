"""The closed loop on the live machinery: supervisor, site, workers, clock, broker, SMTP, simulated cards, a browser.

Time is compressed by settings and policy alone. What happened is read with plain SQL from the product's database, so that
no product code judges itself.
"""

import email.policy
import json
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiosmtpd.controller import Controller
from playwright.sync_api import Browser, Page

from tests.lab import ROOT, Lab, environment, free_port

T = TypeVar("T")
HOST, CARDS = "loop-a", 3
GRACE_S, UNWAITED_S, NOTICE_S = 10, 20, 20
POLICY = {
    "raster_s": 60, "shortest_s": 20, "ending_notice_s": NOTICE_S, "overrun_grace_s": GRACE_S,
    "overrun_unwaited_s": UNWAITED_S,
}
PASSWORD = "only for this test 1"
PEOPLE = {"lin": ("林悦", 2001), "wu": ("Wu", 2002), "chen": ("Chen", 2003), "judge": ("Judge", 2004)}


class Postbox:
    """An SMTP server on loopback that keeps what it is given."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append(message_from_bytes(envelope.content, policy=email.policy.default))
        return "250 kept"

    def to(self, who: str) -> list[EmailMessage]:
        return [mail for mail in self.mails if f"{who}@lab.example" in str(mail["To"])]


@pytest.fixture
def postbox() -> Iterator[tuple[Postbox, int]]:
    box, port = Postbox(), free_port()
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    yield box, port
    controller.stop()


class Host:
    """The simulated host: its scenario file, rewritten while it is played."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{HOST}.json"
        self.processes: list[dict[str, Any]] = []
        self.write()

    @staticmethod
    def uuid(card: int) -> str:
        return f"GPU-0000000{card}-1111-4222-8333-444444444444"

    def run(self, card: int, uid: int, *, until: datetime | None = None) -> None:
        self.processes.append(
            {
                "pid": 7000 + uid, "uid": uid, "card": self.uuid(card), "from": None,
                "until": until.timestamp() if until else None, "memory": 9 << 30, "utilization": 97,
                "started_ticks": 4242 + uid,
            }
        )
        self.write()

    def end(self, uid: int) -> None:
        self.processes = [process for process in self.processes if process["uid"] != uid]
        self.write()

    def write(self) -> None:
        cards = [
            {
                "uuid": self.uuid(card), "name": "NVIDIA GeForce RTX 4090", "bus_id": f"00000000:0{card + 1}:00.0",
                "memory_total": 24 << 30, "baseline": 12 << 20, "temperature": 36,
            }
            for card in range(CARDS)
        ]
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps({"cards": cards, "processes": self.processes}))
        beside.replace(self.path)


SEED = f"""
import json, sys
from django.utils import timezone
from reservations.models import Gpu, Host, HostAccount, Member, Pool
host = Host.objects.get(name={HOST!r}) if Host.objects.filter(name={HOST!r}).exists() else Host.objects.create(
    name={HOST!r}, simulated=True)
for account, (name, uid) in {PEOPLE!r}.items():
    who = Member.objects.create_user(f"{{account}}@lab.example", {PASSWORD!r}, name=name, role="phd",
        approval="approved", language="zh-hans" if account == "lin" else "en", is_arbiter=account == "judge")
    HostAccount.objects.create(member=who, host=host, unix_name=account, uid=uid)
"""


def prepare(data_dir: Path, env: dict[str, str]) -> None:
    """The lab as an admin sets it up without a browser, before its first start."""
    for arguments in (
        ["prepare"],
        ["setup_lab", "--name", "Loop lab", "--language", "en", "--policy", json.dumps(POLICY), "--simulated",
         "--admin-email", "admin@lab.example", "--admin-name", "Admin"],
        ["shell", "--no-imports", "-c", SEED],
    ):
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def query(lab: Lab, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{lab.data_dir / 'labgpu.sqlite3'}?mode=ro", uri=True, timeout=10)) as database:
        return database.execute(sql, values).fetchall()


def wait_for(look: Callable[[], T], timeout_s: float, what: str) -> T:
    until = time.monotonic() + timeout_s
    while True:
        if found := look():
            return found
        assert time.monotonic() < until, f"in {timeout_s:.0f} s: no {what}"
        time.sleep(0.3)


def sign_in(browser: Browser, lab: Lab, who: str) -> Page:
    page = browser.new_context(locale="en-GB", timezone_id="Europe/Berlin").new_page()
    page.goto(f"{lab.address}/accounts/login/")
    page.fill("input[name=login]", f"{who}@lab.example")
    page.fill("input[name=password]", PASSWORD)
    page.click("main button.primary")
    page.wait_for_url(f"{lab.address}/")
    return page


def book(page: Page, lab: Lab, card: int, end: datetime) -> int:
    """Books one card from now until `end` on the page; the reservation's id."""
    gpu = query(lab, "select id from reservations_gpu where uuid = ?", Host.uuid(card))[0][0]
    before = query(lab, "select coalesce(max(id), 0) from reservations_reservation")[0][0]
    page.goto(f"{lab.address}/book")
    page.check(f"input[name=card][value='{gpu}']")
    page.fill("input[name=start]", "")
    page.fill("input[name=end]", (end + timedelta(hours=8)).strftime("%Y-%m-%dT%H:%M"))  # the lab's clock: Shanghai
    page.click(".book-end button.primary")
    page.wait_for_url(re.compile(re.escape(lab.address) + r"/(\?.*)?$"))
    (made,) = query(lab, "select id from reservations_reservation where id > ?", before)
    return int(made[0])


def status(lab: Lab, reservation: int) -> str:
    return str(query(lab, "select status from reservations_reservation where id = ?", reservation)[0][0])


def state(lab: Lab, card: int) -> tuple[str, int]:
    rows = query(
        lab, "select s.state, s.free_streak from reservations_cardstate s join reservations_gpu g on g.id = s.gpu_id "
        "where g.uuid = ?", Host.uuid(card),
    )
    return rows[0] if rows else ("", 0)


def text_of(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    assert body is not None
    return str(body.get_content())


def link(mail: EmailMessage, label: str) -> str:
    """The link under the action with this label in the mail's text."""
    lines = text_of(mail).splitlines()
    assert label in lines, text_of(mail)
    return lines[lines.index(label) + 1]


def everything(lab: Lab) -> list[list[tuple[Any, ...]]]:
    """Every row that a press could change; not when processes were last seen, which every reading moves on."""
    tables = ("reservation", "ledgerentry", "auditentry", "idempotencykey", "case", "demerit")
    columns = 'id, reservation_id, gpu_id, status, start, "end", weight, price, given_back_at'
    return [
        *(query(lab, f"select * from reservations_{table} order by id") for table in tables),
        query(lab, f"select {columns} from reservations_allocation order by id"),
    ]


@pytest.mark.slow
def test_the_loop_closes(
    start_lab: Callable[..., Lab], browser: Browser, postbox: tuple[Postbox, int], tmp_path: Path
) -> None:
    box, smtp_port = postbox
    data_dir, port = tmp_path / "lab", free_port()
    data_dir.mkdir(mode=0o700)
    (data_dir / "secret_key").write_text("only-for-this-test\n")
    settings = {
        "EMAIL_URL": f"smtp://127.0.0.1:{smtp_port}", "SWEEP_SECONDS": "1", "SAMPLE_SECONDS": "2",
        "SITE_URL": f"http://127.0.0.1:{port}",
    }
    host = Host(data_dir / "scenarios")
    prepare(
        data_dir,
        environment(data_dir, port, settings)
        | {"LABGPU_ADMIN_PASSWORD": PASSWORD, "DJANGO_SETTINGS_MODULE": "labgpu.settings"},
    )
    lab = start_lab(data_dir=data_dir, port=port, **settings)
    lab.wait_until_up()
    wait_for(lambda: all(state(lab, card)[0] == "free" for card in range(CARDS)), 60, "cards read and seen free")

    # Three people book a card each, from now to the same minute.
    pages = {who: sign_in(browser, lab, who) for who in ("lin", "wu", "chen")}
    end = (datetime.now(UTC) + timedelta(seconds=NOTICE_S + 20 + 60)).replace(second=0, microsecond=0)
    made = {who: book(pages[who], lab, card, end) for card, who in enumerate(("lin", "wu", "chen"))}
    for card, who in enumerate(("lin", "wu")):
        host.run(card, PEOPLE[who][1])
    host.run(2, PEOPLE["chen"][1], until=end + timedelta(seconds=GRACE_S - 4))  # the innocent twin: ends in the grace
    wait_for(lambda: [state(lab, card)[0] for card in range(CARDS)] == ["in_use"] * 3, 30, "cards in use")

    # A: the mail before the end; opening its link changes nothing; a press releases; the card is seen free.
    mail = wait_for(lambda: box.to("lin"), 110, "mail to Lin before the end")[0]
    assert f"{HOST}:0" in str(mail["Subject"])
    release = link(mail, "立即释放")
    assert release.startswith(f"{lab.address}/r/")
    reader = browser.new_context(locale="zh-CN").new_page()  # not signed in, as from a phone's mail program
    before = everything(lab)
    answer = reader.goto(release)
    assert answer is not None
    assert answer.status == 200
    assert (everything(lab), status(lab, made["lin"])) == (before, "active")
    reader.click("main button.primary")
    wait_for(lambda: status(lab, made["lin"]) == "released", 10, "release by the link")
    assert datetime.now(UTC) < end
    host.end(PEOPLE["lin"][1])
    wait_for(lambda: state(lab, 0)[0] == "free" and state(lab, 0)[1] >= 3, 30, "three looks that show the card free")

    # B: nobody presses, the job runs on: a reminder, the overrun proved, one demerit with its evidence.
    wait_for(lambda: status(lab, made["wu"]) == "finished", 90, "end of B")
    wait_for(lambda: state(lab, 1)[0] == "overrun", 20, "card shown as overrun")
    (demerit,) = wait_for(
        lambda: query(lab, "select id, member_id, points, state, evidence, issued_at from reservations_demerit"), 90,
        "demerit for B",
    )
    evidence = json.loads(demerit[4])
    assert datetime.fromisoformat(demerit[5] + "+00:00") >= end + timedelta(seconds=UNWAITED_S)
    assert (demerit[2], demerit[3], evidence["kind"], evidence["gpu"]) == (1, "counted", "overrun", Host.uuid(1))
    proof = [sample for sample in evidence["samples"] if sample["pids"] == [7000 + PEOPLE["wu"][1]]]
    assert len(proof) >= 3
    assert all(datetime.fromisoformat(sample["at"]) >= end + timedelta(seconds=GRACE_S) for sample in proof)
    assert evidence["simulated"] is True
    wait_for(lambda: len(box.to("wu")) >= 3, 30, "mails to Wu: before the end, running over, demerit")
    host.end(PEOPLE["wu"][1])

    # Wu disputes; an arbiter rules with a reason; the point is void.
    page = pages["wu"]
    page.goto(f"{lab.address}/demerits/{demerit[0]}/dispute")
    page.fill("main textarea", "The job hung while closing its files.")
    page.click("main button.primary")
    (case,) = wait_for(lambda: query(lab, "select id, state from reservations_case"), 10, "case")
    assert query(lab, "select state from reservations_demerit") == [("disputed",)]
    judge = sign_in(browser, lab, "judge")
    judge.goto(f"{lab.address}/cases/{case[0]}/")
    judge.fill("main textarea", "The log shows that it hung. The point is void.")
    judge.click("main button[value=accepted]")
    wait_for(lambda: query(lab, "select state from reservations_case") == [("decided",)], 10, "ruling")
    assert query(lab, "select outcome, reason from reservations_ruling") == [
        ("accepted", "The log shows that it hung. The point is void.")
    ]
    assert query(lab, "select state from reservations_demerit") == [("void",)]
    wait_for(lambda: any("The log shows" in text_of(mail) for mail in box.to("wu")), 20, "mail of the ruling")

    # The twin got its reminder and nothing else; no offence but Wu's; nothing went wrong in any part.
    assert status(lab, made["chen"]) == "finished"
    assert query(lab, "select count(*) from reservations_demerit") == [(1,)]
    assert len(list(box.to("chen"))) <= 2
    for log in (data_dir / "log").glob("*.log"):
        text = log.read_text(encoding="utf-8")
        assert "Traceback" not in text, f"{log.name}: {text[-3000:]}"
        assert "/r/" not in text or "/r/…" in text, f"{log.name} shows a link's token"
