"""T12: whatever is typed, pasted or forged into a form is refused in a sentence or is legal text; and UI-13.

Never a 5xx, never slow, nothing written by a refusal, and what was accepted is shown as the text that it is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.http import HttpResponse

from reservations.models import Demerit, Lab, Member, Pool, Reservation
from tests.conftest import AGAIN

from . import world as worlds
from .checker import Cell, cells, path
from .table import TABLE
from .world import MISSING, World

pytestmark = pytest.mark.django_db
SLOW_S = 5.0
SCRIPT = "'\"><script>alert(1)</script>"
DATES = (
    "0001-01-01T00:00", "9999-12-31T23:59", "2026-02-30T10:00", "2026-12-01T25:00", "now", "2026-12-01", "9999-12-31T23:59+23:59",
)
NUMBERS = ("NaN", "inf", "-1", "0", "1e999", "1" + "0" * 30, "1.5", "1_0", "٣")
TEXTS = (
    "", "   ", "x" * 10_000, "\U0001f600" * 70, "\u202eabc\u202c", SCRIPT, "javascript:alert(1)", "a\x00b", "a\r\nBcc: x@y.z",
    "%00", "../../etc/passwd", "[]", "\ufffe\uffff", "\u2028",
)
# What the two databases take differently: the ends of time, numbers without bounds, texts too long or not storable. The rest
# is refused or cleaned before either is asked, and is tried in the first run.
BOUNDS = (
    "0001-01-01T00:00", "9999-12-31T23:59", "-1", "1" + "0" * 30, "٣", "   ", "x" * 10_000, "\U0001f600" * 70, SCRIPT, "a\x00b",
    "\ufffe\uffff",
)
BAD = BOUNDS if AGAIN else (*DATES, *NUMBERS, *TEXTS)
# Whose successful form each row is: the column and object at which the table says that something is done.
OURS = {
    "book": ("member", ""), "release": ("member", "own"), "undo-release": ("member", "own"), "cancel": ("member", "own"),
    "confirm": ("member", "own"), "wishes": ("member", "own"), "give-back": ("member", "own"),
    "undo-give-back": ("member", "own"),
    "extend": ("member", "own"), "move": ("member", "own"), "again": ("member", "own"), "instead": ("member", "own"),
    "undo-booking": ("member", "own"), "link": ("anonymous", "extend"),
    "projects": ("admin", ""), "project-change": ("admin", "other"), "project-member-add": ("admin", "other"),
    "project-hours": ("admin", "other"), "member-hours": ("admin", "other"), "member-leave": ("admin", "other"),
    "grant-request": ("member", "own"), "grant-decide": ("member", "led"), "grant-revoke": ("member", "own"),
    "collaborator-invite": ("member", "own"), "house-rules-text": ("admin", ""),
    "dispute": ("member", "own"), "case-rule": ("arbiter", "other"), "case-state": ("member", "own"),
    "join": ("anonymous", "open"), "set-language": ("member", ""), "member-invite": ("admin", ""), "host-add": ("admin", ""),
    "host-reader": ("admin", "there"), "card-add": ("admin", "there"), "card-service": ("admin", "there"),
    "member": ("admin", "other"), "account-add": ("admin", "other"), "account_login": ("anonymous", ""),
    "account_change_password": ("member", ""), "account_reset_password": ("member", ""),
    "account_request_login_code": ("anonymous", ""),
    **{f"admin:reservations_{name}_change": ("admin", "there") for name in ("member", "host", "gpu", "pool")},
    "admin:reservations_member_changelist": ("admin", ""),
}
# Fields that are no free text, and which of the bad values they may take after all.
BLANK = {"", "   ", "\u2028"}
DIGITS = {"٣", "1_0"}  # three and ten, as Python reads them
A_DAY = {"2026-12-01"}
STRICT: dict[str, dict[str, set[str]]] = {
    "book": {"card": set(), "start": BLANK, "end": set(), "tier": set(), "purpose": set(), "key": {"2026-12-01", "1" + "0" * 30}},
    "release": {"version": set()}, "undo-release": {"version": set()}, "cancel": {"version": set()},
    "confirm": {"version": set()}, "give-back": {"version": set(), "card": set()},
    "undo-give-back": {"version": set(), "card": set()},
    "extend": {"version": set(), "end": set()},
    "move": {"version": set(), "start": set(), "end": set()}, "undo-booking": {"version": set()},
    "instead": {"card": set(), "start": BLANK, "end": set()},
    "link": {"do": set(), "end": set()},
    "case-rule": {"outcome": set(), "version": set()},
    "projects": {"advisor": DIGITS}, "project-change": {"advisor": DIGITS}, "project-member-add": {"member": DIGITS},
    "project-hours": {"hours": DIGITS, "last_day": A_DAY}, "member-hours": {"hours": DIGITS, "last_day": A_DAY},
    "member-leave": {"successor": {*BLANK, *DIGITS}},
    "grant-request": {"deadline": set(), "first_day": A_DAY, "last_day": A_DAY, "card_hours": DIGITS},
    "grant-decide": {"outcome": set()}, "collaborator-invite": {"member": set()},
    "join": {"email": set(), "language": set(), "password": set(BAD) - {"", "1.5", "0"}},
    "set-language": {"language": set()},
    "member-invite": {"role": set(), "uses": DIGITS, "days": DIGITS},
    "host-add": {"name": {"NaN", "inf", "0", "1e999", "1" + "0" * 30, "1_0", "now", "2026-12-01"}},
    "host-reader": {"has_reader": set()},
    "card-add": {"host1-index": {"0", *DIGITS}, "host1-memory": {*BLANK, "0", "1.5", *DIGITS}},
    "card-service": {"service": set()},
    "member": {"role": set()},
    "account-add": {"host": DIGITS, "uid": DIGITS},
    "account_login": {"login": set(), "password": set()},
    "admin:reservations_pool_change": {"weight": DIGITS},
    "admin:reservations_gpu_change": {
        "host": set(), "pool": set(), "service": set(), "index": {"0", *DIGITS}, "memory_total": {"0", "-1", *DIGITS},
    },
}


def _cell(route: str) -> Cell:
    column, found = OURS[route]
    [row] = [row for row in TABLE if route in row.routes]
    return next(one for one in cells(row, [column], ["POST"]) if (one.route, one.found) == (route, found))


def _form(lab: World, cell: Cell) -> dict[str, Any]:
    return worlds.body(lab, cell.route, cell.column, cell.found) | {"book": {"start": "", "note": ""}}.get(cell.route, {})


def _where(lab: World, cell: Cell) -> str:
    return path(cell.route, worlds.kwargs(lab, cell.route, cell.column, cell.found))


def _sentence(response: HttpResponse) -> bool:
    """Whether the body says something to a person, and shows nothing of the inside."""
    text = response.content.decode()
    said = re.sub(r"(?s)<(script|style|head).*?</\1>|<[^>]+>", " ", text)
    return len(said.split()) > 5 and "Traceback" not in text and "Exception" not in said


class Sent:
    """One answer to a form, with what it did."""

    def __init__(self, lab: World, cell: Cell, form: dict[str, Any] | bytes, **headers: str) -> None:
        client, where, self.is_admin = lab.client(cell.column), _where(lab, cell), cell.route.startswith("admin")
        began = time.perf_counter()
        with worlds.writes() as written:
            if isinstance(form, bytes):
                self.response = client.generic("POST", where, form, "application/x-www-form-urlencoded")
            else:
                self.response = client.post(where, form, headers=headers)
        self.seconds = time.perf_counter() - began
        lab.reopen(cell.column)
        # A refusal whose statements were taken back has written nothing: the rows have the last word.
        self.changed = worlds.changed(lab.rows, worlds.dump()) if written else []

    @property
    def refused(self) -> bool:
        """Django's admin shows a refused form with 200."""
        return 400 <= self.response.status_code < 500 or (self.is_admin and not self.changed)

    def wrong(self) -> list[str]:
        found = []
        if self.response.status_code >= 500:
            found.append(f"{self.response.status_code}")
        if self.seconds > SLOW_S:
            found.append(f"took {self.seconds:.1f} s")
        if self.refused and self.changed:
            found.append(f"refused with {self.response.status_code}, but changed {self.changed}")
        if self.refused and not _sentence(self.response):
            found.append(f"refused with {self.response.status_code} without a sentence")
        if b"<script>alert(1)" in self.response.content:
            found.append("shows markup as markup")
        return found


def _tries(form: dict[str, Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """The form with one field spoilt: its name, the value, the whole."""
    for name in form:
        for value in BAD:
            yield name, value, form | {name: value}


@pytest.mark.parametrize("route", OURS)
def test_a_spoilt_field_is_refused_or_is_text(route: str) -> None:
    lab, wrong = worlds.lab(), []
    cell, strict = _cell(route), STRICT.get(route, {})
    strict = {name.replace("host1-", f"host{worlds._first_host()}-"): legal for name, legal in strict.items()}
    form = _form(lab, cell)
    assert set(strict) <= set(form), "names a field that the form does not have"
    for name, value, spoilt in _tries(form):
        with worlds.undone():
            sent = Sent(lab, cell, spoilt)
        wrong += [f"{route} {name}={value[:40]!r}: {what}" for what in sent.wrong()]
        if name in strict and value not in strict[name] and (sent.changed or not sent.refused):
            wrong.append(f"{route} {name}={value[:40]!r}: taken, {sent.response.status_code} {sent.changed}")
    assert not wrong, "\n".join(["", *wrong])


# Fields without which the form is still whole.
_MAY_LACK = {
    "book": {"start", "note"}, "host-add": {"has_reader"}, "card-service": {"reason"}, "member": {"is_active"}, "extend": {"key"},
    "project-change": {"is_open"}, "house-rules-text": {"text"}, "wishes": {"release_when_done"}, "instead": {"start"},
    "card-add": {"memory"},
}


@pytest.mark.once
def test_forms_with_missing_doubled_and_listed_fields() -> None:
    lab, wrong = worlds.lab(), []
    for route in OURS:
        cell = _cell(route)
        form = _form(lab, cell)
        for name in form:
            rest = {key: value for key, value in form.items() if key != name}
            for what, spoilt in (
                ("missing", rest), ("doubled", form | {name: [form[name], form[name]]}),
                ("listed", rest | {f"{name}[]": form[name]}),
                ("three at once", form | {name: [SCRIPT, "", MISSING]}), ("nested", rest | {f"{name}[x]": "1", f"{name}.x": "1"}),
            ):
                with worlds.undone():
                    sent = Sent(lab, cell, spoilt)
                wrong += [f"{route} {name} {what}: {one}" for one in sent.wrong()]
                optional = route.startswith(("admin", "account_re")) or name.rpartition("-")[2] in _MAY_LACK.get(route, set())
                if what in ("missing", "listed", "nested") and not optional and (sent.changed or not sent.refused):
                    wrong.append(f"{route} without {name}: {sent.response.status_code} {sent.changed}")
    assert not wrong, "\n".join(["", *wrong])


@pytest.mark.once
def test_forms_that_are_too_large_or_no_forms() -> None:
    lab, wrong = worlds.lab(), []
    for route in OURS:
        cell = _cell(route)
        form = _form(lab, cell)
        good = urlencode(form).encode()
        many = urlencode([(f"field{number}", "1") for number in range(301)]).encode()
        for what, raw, must in (
            ("301 fields", good + b"&" + many, True), ("2 MB", good + b"&note=" + b"x" * 2_000_000, True),
            ("no UTF-8", good + b"&note=%ff%fe%c3%28&%ff=%ff", False), ("broken escapes", good + b"&a=%zz&b=%&c=%u0041", False),
            ("nothing", b"", True), ("no form", b"{\"version\": 1}", True), ("nulls", good + b"&%00=%00", False),
        ):
            with worlds.undone():
                sent = Sent(lab, cell, raw)
            wrong += [f"{route} {what}: {one}" for one in sent.wrong()]
            if must and sent.changed:
                wrong.append(f"{route} {what}: changed {sent.changed}")
            if what in ("301 fields", "2 MB") and sent.response.status_code != 400:
                wrong.append(f"{route} {what}: {sent.response.status_code}")
    assert not wrong, "\n".join(["", *wrong])


# Pressing again asks for one more, and says so: a further invite, a further session.
_AGAIN = {"member-invite", "account_login"}


def test_the_same_form_twice_has_one_effect() -> None:
    lab, wrong = worlds.lab(), []
    for route in OURS:
        if route in _AGAIN:
            continue
        cell = _cell(route)
        with worlds.undone():
            form = _form(lab, cell)
            first = Sent(lab, cell, form)
            rows = worlds.dump(alike=True)
            again = lab.client(cell.column).post(_where(lab, cell), form)
            both = worlds.dump(alike=True)
        changed = [words for words in worlds.changed(rows, both) if not words.startswith("django_admin_log")]
        wrong += [f"{route} twice: {one}" for one in first.wrong()]
        if again.status_code >= 500 or changed:
            wrong.append(f"{route} twice: {again.status_code} {changed}")
    assert not wrong, "\n".join(["", *wrong])


def test_a_stale_version_and_ids_of_others_change_nothing() -> None:
    lab, wrong = worlds.lab(), []
    for route in (
        "release", "undo-release", "confirm", "give-back", "undo-give-back", "cancel", "extend", "move", "undo-booking",
        "case-rule",
    ):
        cell = _cell(route)
        form = _form(lab, cell)
        for version in (int(form["version"]) - 1, int(form["version"]) + 1, 2**31, 2**63, 10**9 - 1):
            with worlds.undone():
                sent = Sent(lab, cell, form | {"version": version})
            if sent.response.status_code not in (409, 422, 400) or sent.changed:
                wrong.append(f"{route} version {version}: {sent.response.status_code} {sent.changed}")
            wrong += [f"{route} version {version}: {one}" for one in sent.wrong()]
    taken = lab.active["other"].allocations.get().gpu_id
    spoilt: list[tuple[str, dict[str, Any]]] = [
        ("book", {"card": taken}), ("book", {"card": [lab.free[1].pk, taken]}), ("book", {"card": [MISSING]}),
        ("book", {"card": list(range(1, 70))}), ("book", {"card": 2**63}), ("book", {"tier": "deadline"}),
        ("book", {"use": "start=0001-01-01T00:00&end=9999-12-31T00:00"}),
        ("book", {"length": "-1"}), ("book", {"length": "9" * 30}),
        ("account-add", {"host": MISSING}), ("account-add", {"unix_name": "wang"}), ("account-add", {"uid": 2001}),
        ("join", {"email": "other@lab.example"}), ("host-add", {"name": "gpu-a"}),
    ]
    for route, values in spoilt:
        with worlds.undone():
            sent = Sent(lab, _cell(route), _form(lab, _cell(route)) | values)
        wrong += [f"{route} {values}: {one}" for one in sent.wrong()]
        if not sent.refused or sent.changed:
            wrong.append(f"{route} {values}: {sent.response.status_code} {sent.changed}")
    assert not wrong, "\n".join(["", *wrong])


NUMBERS_IN_ADDRESSES = (str(2**31), str(2**63 - 1), str(2**63), *(() if AGAIN else ("0", "9" * 40, "9" * 4000)))


def test_numbers_in_addresses_without_bounds() -> None:
    lab, wrong = worlds.lab(), []
    for row in TABLE:
        for cell in cells(row, ["arbiter" if row.group in ("cases", "reservations") else "admin"], ("GET", "POST")):
            if cell.found != "missing" or cell.route in ("join", "setup", "demo-load", "account_reset_password_from_key"):
                continue
            for number in NUMBERS_IN_ADDRESSES:
                if cell.route.startswith("admin") and cell.route != row.routes[0]:
                    continue
                where = _where(lab, cell).replace(str(MISSING), number)
                with worlds.undone(), worlds.writes() as written:
                    response = worlds.send(lab.client(cell.column), cell.method, where, _form(lab, cell))
                    changed = worlds.changed(lab.rows, worlds.dump()) if written else []
                if response.status_code >= 500 or changed:
                    wrong.append(f"{cell} {number[:25]}: {response.status_code} {changed}")
    for where in ("\x00", "%00", "a" * 5000, "%ff", "\u202e", "<script>alert(1)</script>", "..%2f..%2fetc", "1.1.release.-1:x"):
        for pattern in ("/r/{}", "/join/{}", "/setup/{}", "/admin/reservations/member/{}/change/", "/admin/r/{}/1/", "/{}"):
            response = lab.client("admin").get(pattern.format(where))
            if response.status_code >= 500 or b"<script>alert(1)" in response.content:
                wrong.append(f"{pattern.format(where)[:60]!r}: {response.status_code}")
    assert not wrong, "\n".join(["", *wrong])


# --- UI-13 ------------------------------------------------------------------------------------------------------------
NONSENSE = (
    "from=0001-01-01", "from=9999-12-31", "from=2026-02-30", "from=now", "from=-1", "from=NaN", "from=" + "9" * 5000,
    "from=%00", "from=%ff%fe", "from=2026-11-30T00:00", "from=%F0%9F%98%80", "from=2028-01-01", "from=2024-01-01", "view=year",
    "view=1e9", "view=" + "x" * 5000, "view=%3Cscript%3Ealert(1)%3C/script%3E", "view=week&from=0001-01-01", "from=20261130",
    "view=week&view=decade", "from=%20", "from=2026-11-3%D9%A0", "from=2026-13-01",
)


@pytest.mark.once
@pytest.mark.parametrize("page", ["/", "/schedule/grid"])
def test_a_window_that_is_none_is_refused_with_a_reason_and_at_once(page: str) -> None:
    lab, wrong = worlds.lab(), []
    client = lab.client("member")
    client.get(page)  # templates are read once
    for query in NONSENSE:
        began = time.process_time()  # what it costs, however busy the machine is
        response = client.get(f"{page}?{query}")
        spent = time.process_time() - began
        if response.status_code != 400 or not _sentence(response) or spent > 0.2 or b"<script>alert" in response.content:
            wrong.append(f"{page}?{query[:60]}: {response.status_code}, {spent:.3f} s, {response.content[-80:]!r}")
    assert not wrong, "\n".join(["", *wrong])


@pytest.mark.once
def test_what_other_pages_cannot_read_in_their_address_is_left_to_the_reader() -> None:
    lab, wrong = worlds.lab(), []
    for column, pages in {
        "member": ("/book", "/find", "/mine", "/board", "/board/table", "/waiting"),
        "admin": ("/members/", "/hosts/", "/admin/reservations/member/"),
        "anonymous": ("/accounts/login/", "/health", f"/join/{lab.invite}"),
    }.items():
        for page in pages:
            for value in (*DATES, *NUMBERS, *TEXTS):
                names = (
                    "start", "end", "card", "tier", "purpose", "note", "key", "new", "next", "q", "p", "o", "page", "e",
                    "count", "model", "pool", "min_memory", "hours", "length", "project", "several_hosts", "use",
                )
                query = urlencode(dict.fromkeys(names, value[:2000]))
                with worlds.writes() as written:
                    response = lab.client(column).get(f"{page}?{query}")
                if response.status_code >= 500 or written or b"<script>alert(1)" in response.content:
                    wrong.append(f"{page} {value[:30]!r}: {response.status_code} {written}")
    assert not wrong, "\n".join(["", *wrong])


# --- what was accepted is shown as text -------------------------------------------------------------------------------
@pytest.mark.once
def test_markup_is_shown_as_the_text_that_it_is() -> None:
    """AU-09: hostile names, notes, statements and reasons on every page of everybody, in Django's admin too."""
    lab = worlds.lab()
    Lab.objects.update(name=SCRIPT)
    Member.objects.update(name=SCRIPT)
    Pool.objects.filter(pk=Pool.objects.first().pk).update(name=SCRIPT)  # type: ignore[union-attr]
    admin, member, arbiter = (lab.client(name) for name in ("admin", "member", "arbiter"))
    form = {"card": lab.free[1].pk, "end": "2026-11-30T16:00", "tier": "regular", "purpose": "training", "key": "a-key-of-mine"}
    assert member.post("/book", form | {"note": SCRIPT}).status_code == 303
    made = Reservation.objects.get(note=SCRIPT)
    demerit = lab.demerits["member"]
    Demerit.objects.filter(pk=demerit.pk).update(evidence={**worlds.EVIDENCE, "card": SCRIPT, "gpu": SCRIPT})
    case = member.post(f"/demerits/{demerit.pk}/dispute", {"statement": SCRIPT})["Location"]
    assert arbiter.post(f"{case}rule", {"outcome": "accepted", "reason": SCRIPT, "version": 1}).status_code == 303
    prefix = f"host{worlds._first_host()}"
    card = {f"{prefix}-uuid": "GPU-x", f"{prefix}-model": SCRIPT, f"{prefix}-index": "7", f"{prefix}-pool": SCRIPT + "2"}
    assert admin.post(f"/hosts/{worlds._first_host()}/cards", card).status_code == 303
    hit = []
    for row in TABLE:
        for cell in cells(row, ("anonymous", "member", "arbiter", "admin"), ["GET"]):
            response = lab.client(cell.column).get(_where(lab, cell))
            if response.headers.get("Content-Type", "").startswith("text/csv"):
                continue  # a download, which no browser reads as markup
            text = response.content.decode()
            assert "<script>alert(1)" not in text, str(cell)
            if "&lt;script&gt;alert(1)" in text:
                hit.append(cell.route)
    for client, where in ((arbiter, case), (member, f"/reservations/{made.pk}/"), (member, case)):
        text = client.get(where).content.decode()
        assert "<script>alert(1)" not in text and "&lt;script&gt;alert(1)" in text
    assert {"schedule", "board", "mine", "reservation", "case", "cases", "members", "hosts", "link", "book"} <= set(hit)
