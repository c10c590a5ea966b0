"""The guard of promise P1: no two holding rows share a card at any instant, on both databases."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeBoundary, RangeOperators
from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.backends.ddl_references import Statement, Table


class _Span(models.Func):
    function = "TSTZRANGE"
    output_field = DateTimeRangeField()


class NoOverlap(ExclusionConstraint):
    """No two rows with the same `key` and a status in `holding` have overlapping `[start, end)`.

    On PostgreSQL this is `EXCLUDE USING gist`; on SQLite a pair of BEFORE triggers. Both raise `IntegrityError` that
    names the constraint, for every path that writes: forms, bulk writes, plain SQL. The triggers are `Statement`s over a
    `Table` because SQLite changes a table by making a new one and renaming it: only references that Django can rename
    live through that (a hand-written trigger vanishes there silently).
    """

    def __init__(self, *, name: str, key: str, start: str, end: str, status: str, holding: tuple[str, ...], **kwargs: Any):
        self.key, self.start, self.end, self.status = key, start, end, status
        self.holding = tuple(str(value) for value in holding)
        super().__init__(
            name=name,
            expressions=[(key, RangeOperators.EQUAL), (_Span(start, end, RangeBoundary()), RangeOperators.OVERLAPS)],
            condition=models.Q(**{f"{status}__in": list(self.holding)}),
            **kwargs,
        )

    def deconstruct(self) -> Any:
        path, args, kwargs = models.BaseConstraint.deconstruct(self)
        kwargs |= {"key": self.key, "start": self.start, "end": self.end, "status": self.status, "holding": self.holding}
        return path, args, kwargs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoOverlap) and self.deconstruct() == other.deconstruct()

    __hash__ = ExclusionConstraint.__hash__

    def _triggers(self, model: type[models.Model], editor: BaseDatabaseSchemaEditor) -> list[Statement]:
        quote = editor.quote_name

        def column(field: str) -> str:
            return quote(model._meta.get_field(field).column)

        key, start, end, status = (column(name) for name in (self.key, self.start, self.end, self.status))
        pk = quote(model._meta.pk.column)
        holding = ", ".join(editor.quote_value(value) for value in self.holding)
        statements = []
        for event, others in (
            ("INSERT", ""),
            (f"UPDATE OF {key}, {start}, {end}, {status}", f" AND o.{pk} <> OLD.{pk}"),
        ):
            name = quote(f"{self.name}_{event.split()[0].lower()}")
            statements.append(
                Statement(  # names of columns and constants of the class, quoted; no value of anybody's
                    f"CREATE TRIGGER {name} BEFORE {event} ON %(table)s FOR EACH ROW WHEN NEW.{status} IN ({holding}) "  # noqa: S608
                    f"BEGIN SELECT RAISE(ABORT, '{self.name}') WHERE EXISTS (SELECT 1 FROM %(table)s o "
                    f"WHERE o.{key} = NEW.{key} AND o.{status} IN ({holding}) "
                    f"AND o.{start} < NEW.{end} AND o.{end} > NEW.{start}{others}); END",
                    table=Table(model._meta.db_table, quote),
                )
            )
        return statements

    def constraint_sql(self, model: type[models.Model], schema_editor: BaseDatabaseSchemaEditor) -> Any:
        if schema_editor.connection.vendor == "postgresql":
            return super().constraint_sql(model, schema_editor)
        schema_editor.deferred_sql.extend(self._triggers(model, schema_editor))
        return None

    def create_sql(self, model: type[models.Model], schema_editor: BaseDatabaseSchemaEditor) -> Any:
        if schema_editor.connection.vendor == "postgresql":
            return super().create_sql(model, schema_editor)
        return None  # SQLite remakes the table and asks constraint_sql

    def remove_sql(self, model: type[models.Model], schema_editor: BaseDatabaseSchemaEditor) -> Any:
        if schema_editor.connection.vendor == "postgresql":
            return super().remove_sql(model, schema_editor)
        return None

    def validate(
        self, model: Any, instance: Any, exclude: Any = None, using: str = DEFAULT_DB_ALIAS
    ) -> None:
        """The same test as a query, for `full_clean` (Django's own would need range types on SQLite)."""

        def value(name: str) -> Any:
            return getattr(instance, model._meta.get_field(name).attname)

        if exclude and {self.key, self.start, self.end, self.status} & set(exclude):
            return
        key, start, end = value(self.key), value(self.start), value(self.end)
        if value(self.status) not in self.holding or None in (key, start, end):
            return
        clashes = model._default_manager.using(using).filter(
            **{
                self.key: key,
                f"{self.status}__in": self.holding,
                f"{self.start}__lt": end,
                f"{self.end}__gt": start,
            }
        )
        if not instance._state.adding:
            clashes = clashes.exclude(pk=instance.pk)
        if clashes.exists():
            raise ValidationError(self.get_violation_error_message(), code=self.violation_error_code)
