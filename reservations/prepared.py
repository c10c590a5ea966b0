"""Queries that are put together and compiled once, and from then on only executed.

Django builds and compiles a query anew each time, which takes several times as long as the database takes to answer it; an act
on the ledger asks some thirty (docs/adr/0013). A function that returns a queryset, decorated with `prepared`, keeps the SQL that
it compiled for arguments of this shape, and later only sends it with other values. What it asks stays written in Django's terms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Model, QuerySet
from django.db.models.constants import OnConflict
from django.db.models.query import FlatValuesListIterable, ModelIterable, ValuesListIterable, get_related_populators
from django.db.models.sql import InsertQuery
from django.db.models.sql.compiler import SQLInsertCompiler

P = ParamSpec("P")
R = TypeVar("R")

_MOST = 2**63
_FIRST_INT, _FIRST_DAY = 1_900_000_000, date(9000, 1, 1)
_FIRST_INSTANT = datetime(9000, 1, 1, tzinfo=UTC)
_BY_VALUE = (int, str, datetime, date)


@dataclass(frozen=True)
class _Statement:
    """SQL with its values in order: fixed ones, and places in the flat list of the arguments' values."""

    sql: str
    values: list[Any]
    places: list[tuple[int, int]]  # (place among the values, place among the arguments)
    converters: list[tuple[int, Callable[[Any], Any]]]
    finish: Callable[[list[Any]], list[Any]]


def prepared(build: Callable[P, QuerySet[Any, R]]) -> Callable[P, list[R]]:
    """The rows of the query that `build` returns for these arguments, as a list: models, or what its `values_list` says.

    Arguments are numbers, texts, instants and days, which may only be values in the query; collections of numbers; and None and
    booleans, by which `build` may decide. It must not decide by anything else: it is called once for each shape. Whether an
    argument takes part is checked when the query is compiled.
    """
    known: dict[Any, _Statement | None] = {}

    @wraps(build)
    def rows(*args: P.args, **kwargs: P.kwargs) -> list[R]:
        shape: list[Any] = [connection.vendor]
        values: list[Any] = []
        given: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
        for name, value in given:
            if value is None or value is True or value is False:
                shape.append((name, value))
            elif isinstance(value, _BY_VALUE):
                shape.append((name, type(value) if isinstance(value, date) else str if isinstance(value, str) else int))
                values.append(value)
            else:
                padded = _padded(value)
                shape.append((name, len(padded)))
                values += padded
        key = tuple(shape)
        if any(isinstance(value, int) and not -_MOST < value < _MOST for value in values):
            return list(build(*args, **kwargs))  # no row has such a number: Django knows and does not ask
        if key not in known:
            known[key] = _compiled(build, args, kwargs)
        statement = known[key]
        return [] if statement is None else _run(statement, values)

    return rows


def _padded(numbers: Iterable[int]) -> list[int]:
    """The numbers, the last repeated up to a power of two: so that lists of many lengths share a statement."""
    found = list(numbers)
    wanted = 1 << max(len(found) - 1, 0).bit_length()
    return found + found[-1:] * (wanted - len(found)) if found else []


def _compiled(build: Callable[..., QuerySet[Any, Any]], args: Sequence[Any], kwargs: dict[str, Any]) -> _Statement | None:
    """The statement for arguments like these; None where it can have no rows."""
    stand_ins: list[Any] = []

    def stand_in(value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if not isinstance(value, _BY_VALUE):
            return [stand_in(one) for one in _padded(value)]
        number = len(stand_ins)
        found: Any = _FIRST_INT + number
        if isinstance(value, datetime):
            found = _FIRST_INSTANT + timedelta(microseconds=number)
        elif isinstance(value, date):
            found = _FIRST_DAY + timedelta(days=number)
        elif isinstance(value, str):
            found = f"argument {number}"
        stand_ins.append(found)
        return found

    rows = build(*map(stand_in, args), **{name: stand_in(value) for name, value in kwargs.items()})
    compiler = rows.query.get_compiler(connection=connection)
    try:
        sql, values = compiler.as_sql()
    except EmptyResultSet:
        return None
    meant = {_sent(value): place for place, value in enumerate(stand_ins)}
    places = [(place, meant[value]) for place, value in enumerate(values) if _is_stand_in(value, meant)]
    if left := set(range(len(stand_ins))) - {argument for _, argument in places}:
        raise TypeError(f"{build.__qualname__}: arguments {sorted(left)} are no values in its query")
    converters = compiler.get_converters([column[0] for column in compiler.select])
    return _Statement(
        sql, list(values), places, [(place, _conversion(functions, column)) for place, (functions, column) in converters.items()],
        _finisher(rows, compiler),
    )


def _conversion(functions: Sequence[Callable[..., Any]], column: Any) -> Callable[[Any], Any]:
    """What makes the column's value of what the driver gives, as Django's converters would."""
    if [getattr(function, "__name__", "") for function in functions] == ["convert_datetimefield_value"]:
        return _instant
    if len(functions) == 1 and getattr(functions[0], "needs_value_only", False):
        return functions[0]

    def converted(value: Any) -> Any:
        for function in functions:
            value = function(value, column, connection)
        return value

    return converted


def _instant(value: datetime | None) -> datetime | None:
    """What the driver of SQLite gives for an instant, which Django writes in UTC (its own converter takes ten times as long)."""
    return None if value is None else value.replace(tzinfo=UTC)


def _is_stand_in(value: Any, meant: Collection[Any]) -> bool:
    return value.__hash__ is not None and value in meant


def _finisher(rows: QuerySet[Any, Any], compiler: Any) -> Callable[[list[Any]], list[Any]]:
    """What makes of the database's rows what the queryset would give."""
    if rows._iterable_class is FlatValuesListIterable:
        return lambda found: [row[0] for row in found]
    if rows._iterable_class is ValuesListIterable:
        return list
    if rows._iterable_class is not ModelIterable:
        raise TypeError("only models and values_list can be prepared")
    info, select, alias = compiler.klass_info, compiler.select, rows.db
    first, last = info["select_fields"][0], info["select_fields"][-1] + 1
    names = [column[0].target.attname for column in select[first:last]]
    # The stubs know a later Django.
    populators = get_related_populators(info, select, alias)  # type: ignore[call-arg]
    model = info["model"]
    if compiler.annotation_col_map:
        raise TypeError("annotations need values_list to be prepared")

    def models(found: list[Any]) -> list[Any]:
        made = []
        for row in found:
            one = model.from_db(alias, names, row[first:last])
            for populator in populators:
                populator.populate(row, one)
            made.append(one)
        return made

    return models


def _sent(value: Any) -> Any:
    """The value as the database's driver gets it."""
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    if isinstance(value, date):
        return connection.ops.adapt_datefield_value(value)
    return str(value) if isinstance(value, str) else int(value)


def _run(statement: _Statement, arguments: Sequence[Any]) -> list[Any]:
    values = statement.values
    if statement.places:
        values = values.copy()
        for place, argument in statement.places:
            values[place] = _sent(arguments[argument])
    with connection.cursor() as cursor:
        cursor.execute(statement.sql, values)
        found: list[Any] = cursor.fetchall()
    if statement.converters and found:
        columns: list[Any] = list(zip(*found, strict=True))
        for place, converted in statement.converters:
            columns[place] = map(converted, columns[place])
        found = list(zip(*columns, strict=True))
    return statement.finish(found)


# --- writing ----------------------------------------------------------------------------------------------------------
_inserts: dict[Any, tuple[str, list[Any]]] = {}
Row = TypeVar("Row", bound=Model)


def insert(rows: Sequence[Row], *, ignore_conflicts: bool = False) -> Sequence[Row]:
    """Writes new rows of one model in one statement, as `bulk_create` does, by SQL that is compiled once; gives them their keys.

    Of tables to whose writes nothing listens: no signals are sent. With `ignore_conflicts` rows that meet a unique key are
    left out, and no keys are given.
    """
    if not rows:
        return rows
    model = type(rows[0])
    known = (connection.vendor, model, len(rows), ignore_conflicts)
    if known not in _inserts:
        _inserts[known] = _compiled_insert(rows, ignore_conflicts)
    sql, fields = _inserts[known]
    values = [field.get_db_prep_save(field.pre_save(row, True), connection) for row in rows for field in fields]
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        keys = [] if ignore_conflicts else cursor.fetchall()
    for row, (key,) in zip(rows, keys, strict=False):
        row.pk = key
        row._state.adding, row._state.db = False, connection.alias
    return rows


def _compiled_insert(rows: Sequence[Row], ignore_conflicts: bool) -> tuple[str, list[Any]]:
    meta = type(rows[0])._meta
    fields = [field for field in meta.concrete_fields if not field.primary_key]
    query = InsertQuery(type(rows[0]), on_conflict=OnConflict.IGNORE if ignore_conflicts else None)
    query.insert_values(fields, list(rows))
    # The general compiler: PostgreSQL's own hands several rows over column by column.
    compiler = SQLInsertCompiler(query, connection, None)
    if not ignore_conflicts:
        compiler.returning_fields = [meta.pk]
    ((sql, _values),) = compiler.as_sql()
    return sql, fields
