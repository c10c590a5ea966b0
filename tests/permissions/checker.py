"""Walks the resolver and holds each cell of the table to the site. Says what is wrong, as sentences; asserts nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from django.core.cache import cache
from django.http import HttpResponse
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from . import world as worlds
from .table import COLUMNS, METHODS, TABLE, Row
from .world import World

ALSO_SAFE = ("GET", "HEAD", "OPTIONS")
# Read from the table's own words, so that a changed address is a changed expectation.
_LEADS = {
    "L": ("account_login",), "W": ("waiting",), "C": ("welcome",), "S": ("schedule",), "I": ("admin:index",),
    "A": ("admin:login",),
    "N": (
        "account_request_login_code", "account_confirm_login_code", "account_change_password", "account_reset_password_from_key",
    ),
}
_OUTSIDE = ("account_login", "waiting", "welcome", "admin:login")


def routes() -> list[str]:
    """Every route of the resolver in force: its name, or its pattern where it has none."""
    return list(_walk(get_resolver().url_patterns))


def _walk(patterns: Iterable[Any], prefix: str = "", space: str = "") -> Iterator[str]:
    for one in patterns:
        if isinstance(one, URLPattern):
            yield f"{space}:{one.name}" if space and one.name else one.name or prefix + str(one.pattern)
        elif isinstance(one, URLResolver):
            yield from _walk(one.url_patterns, prefix + str(one.pattern), one.namespace or space)


def unmatched() -> list[str]:
    """Routes without a row, with two, rows without a route, names that two routes bear."""
    there, wanted = routes(), [name for row in TABLE for name in row.routes]
    return [
        *(f"route without a row: {name}" for name in dict.fromkeys(there) if name not in wanted),
        *(f"row without a route: {name}" for name in dict.fromkeys(wanted) if name not in there),
        *(f"two rows for {name}" for name in dict.fromkeys(wanted) if wanted.count(name) > 1),
        *(f"two routes called {name}" for name in dict.fromkeys(there) if there.count(name) > 1),
    ]


def path(route: str, kwargs: dict[str, Any]) -> str:
    """The address; routes without a name are Django's admin's, and are written out."""
    if "/" not in route:
        return reverse(route, kwargs=kwargs)
    return "/" + re.sub(r"<path:object_id>", str(kwargs.get("object_id", "")), route).replace("(?P<url>.*)$", "nothing/here/")


@dataclass(frozen=True)
class Cell:
    """One question to the site."""

    route: str
    column: str
    found: str
    method: str
    expected: str

    def __str__(self) -> str:
        return " ".join(part for part in (self.route, self.method, self.found) if part) + f", {self.column}"

    @property
    def changes(self) -> bool:
        return self.expected.endswith("+")

    @property
    def refused(self) -> bool:
        return self.expected[0] in "4LWCA"


def cells(row: Row, columns: Iterable[str], methods: Iterable[str] = METHODS) -> Iterator[Cell]:
    """The cells of a row. The pages of Django's admin that are one piece of code for all models have their rarer methods
    asked of the first alone."""
    for route in row.routes:
        rare = route.startswith("admin") and route != row.routes[0]
        for column in columns:
            for found in row.objects:
                for method in (one for one in methods if not rare or one in ("GET", "POST")):
                    expected = row.cell(method, found, column)
                    if expected != "-":
                        yield Cell(route, column, found, method, expected)


def fits(expected: str, response: HttpResponse, *, htmx: bool = False) -> bool:
    """Whether the answer is the one that the cell expects."""
    code = expected.rstrip("+")
    target = response.headers.get("Location", response.headers.get("HX-Redirect", "")).partition("?")[0]
    if code in _LEADS:
        status = response.status_code in (302, 303) or (htmx and response.status_code == 204)
        return status and any(_same(target, name) for name in _LEADS[code])
    if response.status_code != int(code):
        return False
    # A success that leads to the door is none.
    return not (code in ("302", "303") and any(target == reverse(name) for name in _OUTSIDE[1:]))


def _same(target: str, name: str) -> bool:
    if name == "account_reset_password_from_key":
        return target.startswith("/accounts/password/reset/key/") and target.endswith("-set-password/")
    return target == reverse(name)


class Check:
    """Asks the cells of one world and gathers what is wrong with the answers."""

    def __init__(self, world: World) -> None:
        self.world, self.wrong, self.asked = world, list[str](), 0
        self.shown: set[str] = set()
        self.said: dict[Cell, str] = {}

    def holds(
        self, rows: Iterable[Row], columns: Iterable[str], *, wanted: Callable[[Cell], bool] | None = None
    ) -> list[str]:
        """Asks every cell of these rows and columns, or those `wanted`; the answer is what was wrong."""
        columns = list(columns)
        for row in rows:
            for column in columns:
                found = [cell for cell in cells(row, [column]) if wanted is None or wanted(cell)]
                if still := [cell for cell in found if not cell.changes]:
                    self._unchanging(still)
                for cell in found:
                    if cell.changes:
                        self._changing(cell)
            self._alike(row)
        return self.wrong

    def _ask(self, cell: Cell, *, harm: bool = False) -> tuple[HttpResponse, list[str]]:
        self.asked += 1
        where = path(cell.route, worlds.kwargs(self.world, cell.route, cell.column, cell.found))
        form = worlds.body(self.world, cell.route, cell.column, cell.found) if cell.method == "POST" else {}
        if harm:
            somebody = self.world.people.get(cell.column) or next(iter(self.world.people.values()), None)
            form = {**worlds.extras(cell.route, form, somebody.pk if somebody else 1), **form}
        with worlds.writes() as written:
            response = worlds.send(self.world.client(cell.column), cell.method, where, form)
        if cell.method == "POST":
            self.world.reopen(cell.column)
        if not fits(cell.expected, response):
            was = f"{response.status_code} {response.headers.get('Location', '')}"
            self.wrong.append(f"{cell}{' with extra fields' if harm else ''}: {cell.expected}, but was {was}")
        self._reads(cell, response)
        if cell.refused and not harm:
            self.said[cell] = _said(response)
        return response, written

    def _reads(self, cell: Cell, response: HttpResponse) -> None:
        """Notes and statements are for whom they are about and for arbiters; Django's admin shows admins the raw rows."""
        if cell.method == "HEAD" or cell.route.startswith("admin"):
            return
        found = [words for words in worlds.SECRETS if words.encode() in response.content]
        self.shown.update(found)
        foreign = [words for words in found if not words.endswith(f" of {cell.column}")]
        if foreign and cell.column != "arbiter":
            self.wrong.append(f"{cell}: shows {foreign[0]!r}")

    def _unchanging(self, found: list[Cell]) -> None:
        """All of one column in a row; then nothing may differ. A statement names its cell, the rows have the last word."""
        with worlds.undone():
            for cell in found:
                # Django's own forms have fields of their own; that nobody gets at them is asked once.
                for harm in (False, True) if cell.method == "POST" and "admin" not in cell.route else (False,):
                    _, written = self._ask(cell, harm=harm)
                    cache.clear()  # the limits of sign-in are not what is asked here
                    if written:
                        self.wrong.append(f"{cell}{' with extra fields' if harm else ''}: wrote {written[0]}")
            for words in worlds.changed(self.world.rows, worlds.dump()):
                routes = "/".join(dict.fromkeys(cell.route for cell in found))
                self.wrong.append(f"{routes}, {found[0].column}: something that may change nothing changed {words}")

    def _changing(self, cell: Cell) -> None:
        """What is allowed happens, and with extra fields exactly the same happens."""
        with worlds.undone():
            worlds.reset_keys()
            self._ask(cell)
            plain, rows = worlds.dump(alike=True), worlds.dump()
        if rows == self.world.rows:
            self.wrong.append(f"{cell}: should change rows, but changed none")
        if cell.method != "POST" or cell.route == "demo-load":  # the demonstration is drawn by lot, and has no form
            return
        with worlds.undone():
            worlds.reset_keys()
            self._ask(cell, harm=True)
            harmed = worlds.dump(alike=True)
        self.wrong.extend(f"{cell}: an extra field was applied: {words}" for words in worlds.changed(plain, harmed))

    def looks(self, rows: Iterable[Row], columns: Iterable[str], routes: Iterable[str] = (), **headers: str) -> list[str]:
        """Asks by safe methods only (these routes of the rows, or all): nothing may change, whatever is answered."""
        columns, wanted = list(columns), set(routes)
        with worlds.undone():
            for row in rows:
                for cell in cells(row, columns, ALSO_SAFE):
                    if wanted and cell.route not in wanted:
                        continue
                    where = path(cell.route, worlds.kwargs(self.world, cell.route, cell.column, cell.found))
                    with worlds.writes() as written:
                        response = worlds.send(self.world.client(cell.column), cell.method, where, {}, **headers)
                    self.asked += 1
                    cache.clear()
                    if written:
                        self.wrong.append(f"{cell}: wrote {written[0]}")
                    if response.status_code >= 500:
                        self.wrong.append(f"{cell}: {response.status_code}")
                    self._reads(cell, response)
            self.wrong.extend(f"looking changed {words}" for words in worlds.changed(self.world.rows, worlds.dump()))
        return self.wrong

    def _alike(self, row: Row) -> None:
        """Where another's and a missing one are refused with the same status, the answers say the same."""
        for one in list(self.said):
            if one.route not in row.routes or one.method not in ("GET", "POST") or one.found in ("", "missing"):
                continue
            other = replace(one, found="missing", expected=row.cell(one.method, "missing", one.column))
            if other.expected == one.expected and self.said[one] != self.said[other]:
                self.wrong.append(f"{one}: told from one that is missing: {self.said[one][:300]!r} … {self.said[other][:300]!r}")


def _said(response: HttpResponse) -> str:
    """All that an answer tells, without what differs from one answer to the next and without the address asked for."""
    headers = {name: value for name, value in response.headers.items() if name not in ("Content-Length", "Set-Cookie", "ETag")}
    text = f"{response.status_code} {headers} {response.content.decode()}"
    text = re.sub(r'(csrfmiddlewaretoken" value=|X-CSRFToken": ?)"[^"]+"', "", text)
    text = re.sub(r'(name="next" value=)"[^"]*"', "", text)
    return re.sub(r"(%2F|/)\d+", "/N", text)


def columns_of(world: World) -> tuple[str, ...]:
    return COLUMNS[:-1] if world.people else COLUMNS[-1:]
