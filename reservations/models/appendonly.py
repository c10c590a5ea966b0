"""Rows that are written once: ledger, audit, rulings. Corrections are further rows."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import models


class AppendOnlyError(TypeError):
    """Somebody tried to change or delete a row that is written once."""


class AppendOnlyQuerySet(models.QuerySet[Any]):
    """Refuses bulk changes; reads and inserts as usual."""

    def _refuse(self) -> NoReturn:
        raise AppendOnlyError(f"{self.model.__name__} rows are written once; write a further row instead.")

    def update(self, **kwargs: Any) -> NoReturn:  # type: ignore[override]
        self._refuse()

    def delete(self) -> NoReturn:  # type: ignore[override]
        self._refuse()

    def bulk_update(self, *args: Any, **kwargs: Any) -> NoReturn:  # type: ignore[override]
        self._refuse()


class AppendOnly(models.Model):
    """Base of rows written once.

    `sequence` and `digest` are sealed later, in order, by a sweep: hashing inline would make every write wait for every
    other one.
    """

    sequence = models.BigIntegerField(null=True, editable=False, unique=True)
    digest = models.CharField(max_length=64, null=True, editable=False)  # noqa: DJ001  (NULL = not sealed yet)

    objects = AppendOnlyQuerySet.as_manager()

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnlyError(f"{type(self).__name__} rows are written once; write a further row instead.")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AppendOnlyError(f"{type(self).__name__} rows are never deleted.")
