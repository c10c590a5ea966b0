"""Rows that a committing test leaves never reach the next one (tests/emptying.py)."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection

from reservations.models import Member
from tests import emptying
from tests import factories as make


def filled() -> list[str]:
    """The tables of the models that have rows, but for those kept; asked table by table, by no code of the emptying."""
    tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
    with connection.cursor() as cursor:
        found = []
        for name in tables:
            cursor.execute(f'SELECT COUNT(*) FROM "{name}"')
            if cursor.fetchone()[0] and name not in emptying.KEPT:
                found.append(name)
    return found


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("turn", ["first", "second"])
def test_a_test_begins_with_nothing_and_leaves_rows(turn: str) -> None:
    assert filled() == []
    make.member()
    permission = Permission.objects.first()
    assert permission is not None
    Member.objects.get().user_permissions.add(permission)
    assert len(filled()) >= 2


@pytest.mark.django_db(transaction=True)
def test_every_row_goes_whatever_refers_to_it() -> None:
    member = make.member()
    member.user_permissions.set(Permission.objects.all()[:3])
    assert emptying.emptied()
    assert filled() == []
    assert Permission.objects.count() == sum(
        len(model._meta.default_permissions) + len(model._meta.permissions) for model in apps.get_models()
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("turn", ["first", "second"])
def test_a_changed_permission_is_made_anew(turn: str) -> None:
    assert not Permission.objects.filter(codename="left by a test").exists()
    kind = ContentType.objects.first()
    Permission.objects.create(content_type=kind, codename="left by a test", name="left by a test")
    assert not emptying.emptied()
