"""Empties the database after a test that commits, as Django's flush does, but touches only the tables that have rows.

Django's own way empties every table and then makes all permissions and content types anew, which takes longer than most of
the tests after which it is done. Those two are kept here: they follow from the models, and no test may change them. Whether
one did is looked at each time, and then Django's way is gone.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connections, transaction
from django.test import TransactionTestCase

KEPT = (ContentType._meta.db_table, Permission._meta.db_table)
ROUNDS = 3  # a trigger may write a row into one table when one goes from another

_kept_rows: dict[str, list[list[Any]]] = {}
_djangos_teardown = TransactionTestCase._fixture_teardown


def install() -> None:
    """From now on tests that commit are followed by this emptying."""
    TransactionTestCase._fixture_teardown = _teardown  # type: ignore[method-assign]


def remember(alias: str = "default") -> None:
    """Notes what the kept tables hold when all is as the migrations left it."""
    _kept_rows[alias] = _rows_kept(alias)


def emptied(alias: str = "default") -> bool:
    """Empties all tables of the models but the kept; False, with nothing done, where those are not what they were."""
    if alias not in _kept_rows or _rows_kept(alias) != _kept_rows[alias]:
        return False
    connection = connections[alias]
    tables = list(connection.introspection.django_table_names(only_existing=True, include_views=False))
    with transaction.atomic(using=alias), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # No row is left that could refer to one that goes. Like TRUNCATE, this asks no guard whether rows may go.
            cursor.execute("SET LOCAL session_replication_role = replica")
        for _ in range(ROUNDS):
            filled = _filled(cursor, [name for name in tables if name not in KEPT])
            if not filled:
                return True
            for name in filled:
                cursor.execute(f'DELETE FROM "{name}"')
        if left := _filled(cursor, [name for name in tables if name not in KEPT]):
            raise AssertionError(f"rows come back into {left} whenever they are deleted")
    return True


def _filled(cursor: Any, tables: list[str]) -> list[str]:
    cursor.execute("SELECT " + ", ".join(f'EXISTS(SELECT 1 FROM "{name}")' for name in tables))
    return [name for name, has_rows in zip(tables, cursor.fetchone(), strict=True) if has_rows]


def _rows_kept(alias: str) -> list[list[Any]]:
    return [
        list(ContentType.objects.using(alias).order_by("pk").values_list()),
        list(Permission.objects.using(alias).order_by("pk").values_list()),
    ]


def _teardown(case: TransactionTestCase) -> None:
    aliases = case._databases_names(include_mirrors=False)  # type: ignore[attr-defined]
    plain = case.available_apps is None and not case.serialized_rollback
    if plain and all(emptied(alias) for alias in aliases):
        return
    _djangos_teardown(case)  # type: ignore[attr-defined]
    for alias in aliases:
        remember(alias)  # what was made anew has other keys
