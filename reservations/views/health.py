"""What must be right for LabGPU to serve, as facts for a monitor. No names, no login, no broker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.models import Max, Min, Q
from django.http import JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from .. import ticks
from ..models import CardState, Host, Notification
from ..request import LabRequest

_GUARD = "no_double_booking"
_TRIGGERS = {f"{_GUARD}_insert", f"{_GUARD}_update"}
_MESSAGE_LATE_S = 300.0
# Without these nothing can be booked safely; the rest is said and repaired while LabGPU serves.
_VITAL = ("database", "guard")


@never_cache
@require_safe
def health(request: LabRequest) -> JsonResponse:
    """200 when web, database and the guard against double booking are fine, else 503; each line says ok or red."""
    now = request.now
    lines: dict[str, dict[str, Any]] = {"web": {"state": "ok"}}
    checks: dict[str, Callable[[datetime], dict[str, Any]]] = {
        "database": _database, "guard": _guard, "migrations": _migrations, "messages": _messages, "sweeps": _sweeps,
        "samples": _samples,
    }
    for name, check in checks.items():
        if name != "database" and lines["database"]["state"] == "red":
            lines[name] = {"state": "red"}  # not asked: each question would wait for the database again
            continue
        try:
            lines[name] = check(now)
        except DatabaseError:
            lines[name] = {"state": "red"}
    serves = all(lines[name]["state"] == "ok" for name in _VITAL)
    state = "ok" if all(line["state"] == "ok" for line in lines.values()) else "red"
    return JsonResponse({"state": state, "checks": lines}, status=200 if serves else 503)


def _line(fine: bool, **facts: Any) -> dict[str, Any]:
    return {"state": "ok" if fine else "red", **facts}


def _database(now: datetime) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        return _line(cursor.fetchone() == (1,))


def _guard(now: datetime) -> dict[str, Any]:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT convalidated FROM pg_constraint WHERE conname = %s AND contype = 'x'", [_GUARD])
            return _line(cursor.fetchone() == (True,))
        cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        return _line({name for (name,) in cursor.fetchall()} >= _TRIGGERS)


@cache
def _migrations_of_the_code() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None).graph.nodes)


def _migrations(now: datetime) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT app, name FROM django_migrations")
        missing = _migrations_of_the_code() - {(app, name) for app, name in cursor.fetchall()}
    return _line(not missing, missing=len(missing))


def _messages(now: datetime) -> dict[str, Any]:
    due = Notification.objects.filter(state=Notification.State.DUE, due_at__lte=now)
    age = _age(due.aggregate(at=Min("due_at"))["at"], now)
    return _line(age is None or age < _MESSAGE_LATE_S, oldest_due_seconds=age)


def _sweeps(now: datetime) -> dict[str, Any]:
    ages = ticks.ages(ticks.SWEEPS, now)
    late = max(60.0, 6 * settings.SWEEP_SECONDS)
    fine = all(age is not None and age < late for age in ages.values())
    return _line(fine, seconds_ago={name: None if age is None else round(age, 1) for name, age in ages.items()})


def _samples(now: datetime) -> dict[str, Any]:
    """By the host heard of longest ago: one that fell silent must not hide behind the others."""
    told = ~Q(gpus__state__state=CardState.State.OFFLINE)  # that verdict is dated by the clock, not by a reading
    hosts = Host.objects.filter(has_reader=True).annotate(at=Max("gpus__state__sampled_at", filter=told))
    ages = [_age(at, now) for at in hosts.values_list("at", flat=True)]
    late = max(60.0, 6 * settings.SAMPLE_SECONDS)
    silent = sum(age is None or age >= late for age in ages)
    return _line(not silent, seconds_ago=max((age for age in ages if age is not None), default=None), silent=silent)


def _age(at: datetime | None, now: datetime) -> float | None:
    return None if at is None else round(max((now - at).total_seconds(), 0.0), 1)
