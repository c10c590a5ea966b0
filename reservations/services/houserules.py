"""The lab's own house rules, and that members have accepted them before they book (B2)."""

from __future__ import annotations

from datetime import datetime

from .. import queries
from ..models import Lab, Member
from ..rules.refusal import Code, refuse
from . import audit, locking, people

LONGEST = 20_000


def write(text: str, *, by: Member, now: datetime, origin: str = "page") -> Lab:
    """Puts the house rules in force; an empty text takes them away. A new text must be accepted anew by everybody.

    The same text changes nothing. Raises `Refused` for who is no admin.
    """
    people.require_admin(by)
    with locking.hold():
        lab = Lab.objects.get(pk=1)
        text = text.strip()[:LONGEST]
        if text == lab.house_rules:
            return lab
        lab.house_rules, lab.rules_version = text, lab.rules_version + 1
        lab.save(update_fields=["house_rules", "rules_version"])
        audit.note("house_rules", lab, actor=by, origin=origin, now=now, version=lab.rules_version, text=text)
        return lab


def text() -> str:
    """The house rules in force, or nothing."""
    return Lab.objects.filter(pk=1).values_list("house_rules", flat=True).first() or ""


def accept(version: int, *, by: Member, now: datetime, origin: str = "page") -> None:
    """The member's own press under the text of this version. Accepting twice is the same.

    Raises `Refused` when another text has come into force meanwhile.
    """
    with locking.hold(members=[by.pk]):
        if version != queries.lab_facts().rules_version:
            raise refuse(Code.STALE)
        member = Member.objects.get(pk=by.pk)
        if member.accepted_rules >= version:
            return
        member.accepted_rules = version
        member.save(update_fields=["accepted_rules"])
        audit.note("accept_rules", member, actor=by, origin=origin, now=now, version=version)
