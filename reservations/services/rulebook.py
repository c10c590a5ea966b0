"""Changing the lab's policy, and what a change would do before it is made (E6, N)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

from .. import names, permissions, queries
from ..models import Lab, Member, Reservation, SpecialDay
from ..rules import booking as rules
from ..rules.lifecycle import Status
from ..rules.policy import PRESETS, Policy
from ..rules.projects import pays
from ..rules.refusal import Code, refuse
from . import audit, locking
from .placing import facts_for


@dataclass(frozen=True)
class Effect:
    """What the other policy would say to one reservation of the coming week, were it asked as it was."""

    reservation: Reservation
    before: tuple[Code, ...]
    after: tuple[Code, ...]


def policy_from(preset: str | None, changes: Mapping[str, Any], lab: queries.LabFacts) -> Policy:
    """The policy in force with these changes, or a preset with them. Raises `BadPolicy`, or KeyError for no such preset."""
    base = PRESETS[preset] if preset else lab.policy
    return Policy.from_json({**base.to_json(), **changes})


def dry_run(policy: Policy, *, now: datetime) -> list[Effect]:
    """Every reservation of the next seven days that the two policies answer differently, asked as when it was booked.

    Reservations keep what they have (E6): this tells what people could and could no longer book. Each is judged as if it
    alone were not there, with the other reservations as they stand. Reads only.
    """
    lab = queries.lab_facts()
    rows = Reservation.objects.filter(
        status__in=[Status.BOOKED, Status.ACTIVE], start__gte=now, start__lt=now + timedelta(days=7)
    ).select_related("holder")
    effects = []
    for row in rows.order_by("start", "pk"):
        before, after = (_codes(row, replace(lab, policy=one)) for one in (lab.policy, policy))
        if before != after:
            effects.append(Effect(row, before, after))
    return effects


def _codes(row: Reservation, lab: queries.LabFacts) -> tuple[Code, ...]:
    card_ids = tuple(sorted(row.allocations.filter(given_back_at=None).values_list("gpu", flat=True)))
    ask = rules.Ask(card_ids, row.start, row.end, row.tier, project_id=row.project_id)
    facts = facts_for(row.holder, ask, lab, row.booked_at)
    charged: dict[Any, int] = {}
    for entry in row.ledger.filter(account="quota", project=row.project_id if pays(row.project_id, lab.policy) else None):
        charged[entry.period] = charged.get(entry.period, 0) + entry.units
    project = facts.project
    if project is not None:
        held = queries.grant_used([row.grant_id], of=row.pk) if row.grant_id else {}
        project = replace(
            project, holdings=[one for one in project.holdings if one.reservation_id != row.pk],
            grants=[replace(one, left=one.left + held.get(one.id, 0)) for one in project.grants],
        )
    without = replace(
        facts,
        holdings=[one for one in facts.holdings if one.reservation_id != row.pk],
        own=[one for one in facts.own if one.reservation_id != row.pk],
        own_future=max(facts.own_future - 1, 0),
        used={week: units - charged.get(week, 0) for week, units in facts.used.items()}, project=project,
    )
    return tuple(refusal.code for refusal in rules.decide(ask, without).refusals)


def change(policy: Policy, *, by: Member | None, reason: str, now: datetime, origin: str = "page") -> Lab:
    """Puts the policy in force for what is asked from now on, with its reason in the audit. `by` None = a command.

    What is booked keeps its times and price (E6). Raises `Refused` without a reason or without the right.
    """
    text = reason.strip()
    if not text:
        raise refuse(Code.TEXT_MISSING)
    if by is not None and not permissions.may(by, permissions.Action.ADMINISTER):
        raise refuse(Code.NOT_YOURS)
    with locking.hold():
        lab = Lab.objects.get(pk=1)
        old, new = Policy.from_json(lab.policy).to_json(), policy.to_json()
        lab.policy, lab.policy_version = new, lab.policy_version + 1
        lab.save(update_fields=["policy", "policy_version"])
        changed = {name: [old[name], new[name]] for name in new if old[name] != new[name]}
        audit.note("policy", lab, actor=by, origin=origin, now=now, reason=text, changed=changed)
    return lab


def set_special_day(
    day: date, is_working: bool | None, name: str = "", *, by: Member | None, now: datetime, origin: str = "page"
) -> None:
    """Makes a date a working day or a rest day, or (None) gives it back to the public calendar and its weekday (A5)."""
    if by is not None and not permissions.may(by, permissions.Action.ADMINISTER):
        raise refuse(Code.NOT_YOURS)
    with locking.hold():
        lab = Lab.objects.get(pk=1)
        if is_working is None:
            SpecialDay.objects.filter(day=day).delete()
        else:
            SpecialDay.objects.update_or_create(day=day, defaults={"is_working": is_working, "name": name[:60]})
        audit.note("special_day", lab, actor=by, origin=origin, now=now, day=day.isoformat(), is_working=is_working, name=name)


def set_show_names(way: str, *, by: Member | None, now: datetime, origin: str = "page") -> None:
    """Names members to others in full or by initials from now on (`names.WAYS`; M1). The same again changes nothing."""
    if by is not None and not permissions.may(by, permissions.Action.ADMINISTER):
        raise refuse(Code.NOT_YOURS)
    if way not in names.WAYS:
        raise ValueError(f"names are shown as one of {names.WAYS}, not {way!r}")
    with locking.hold():
        lab = Lab.objects.get(pk=1)
        if lab.show_names == way:
            return
        before, lab.show_names = lab.show_names, way
        lab.save(update_fields=["show_names"])
        audit.note("show_names", lab, actor=by, origin=origin, now=now, changed={"show_names": [before, way]})
