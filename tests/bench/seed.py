"""Fills LabGPU's database with the floor's own layout and prints, as JSON, what the bench needs to ask it.

Layout (as floor/seed_floor.py): base Monday 7 December 2026 00:00 UTC; of 8 cards, or as many as are asked for, reservation i
is on card i % 8, slot i // 8 starts at base + 6 h x slot + 30 min x (card % 4) and lasts 4 h: 28 a week for each card. Policy:
limits out of the way.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import django

BASE = datetime(2026, 12, 7, tzinfo=UTC)
PORTION = 10_000  # reservations made at a time
SLOTS = 4000  # free hours to book


def main(stored: int, count: int = 8) -> None:
    django.setup()
    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore
    from django.core.management import call_command
    from django.db import connection
    from django.middleware.csrf import _get_new_csrf_string
    from django.utils import timezone

    from reservations.models import Allocation, Gpu, Host, LedgerEntry, Member, Pool, Reservation
    from reservations.rules.interval import Interval
    from reservations.rules.quota import Stretch, charge
    from reservations.services import people

    sys.stdout, said = sys.stderr, sys.stdout
    for command in (["migrate"], ["createcachetable"], ["collectstatic", "--no-input"]):
        call_command(*command, verbosity=0)
    now = timezone.now()
    lab = people.set_up(
        lab_name="Bench", zone="UTC", language="en", admin=None, now=now,
        policy={
            "mode": "person", "opens_days": 366, "cards_at_once": 1000, "open_future": 10**6,
            "roles": {"phd": {"weekly_hours": 10**6}},
        },
    )
    members = Member.objects.bulk_create(
        Member(email=f"m{n}@lab.example", name=f"Member {n}", role="phd", approval="approved", password="!", language="en")
        for n in range(16)
    )
    host, pool = Host.objects.create(name="bench"), Pool.objects.create(name="bench")
    gpus = [
        Gpu.objects.create(uuid=f"GPU-{n:08x}-0000-4000-8000-000000000000", host=host, pool=pool, model="Bench", index=n)
        for n in range(count)
    ]
    zone = ZoneInfo(lab.zone)
    for first in range(0, stored, PORTION):
        rows = []
        for i in range(first, min(first + PORTION, stored)):
            start = BASE + timedelta(hours=6 * (i // count), minutes=30 * (i % count % 4))
            rows.append(
                Reservation(
                    holder=members[i % 15], status="booked", tier="regular", rank_tier=1, start=start,
                    end=start + timedelta(hours=4), booked_at=now, note=f"run {i}",
                )
            )
        Reservation.objects.bulk_create(rows, batch_size=500)
        held, ledger = [], []
        for i, row in enumerate(rows, first):
            held.append(
                Allocation(reservation=row, gpu=gpus[i % count], status="booked", start=row.start, end=row.end, weight=100)
            )
            for week, units in charge([((Stretch(Interval(row.start, row.end)),), 100)], zone).items():
                ledger.append(
                    LedgerEntry(member=row.holder, period=week, units=units, reason="booked", reservation=row, at=now)
                )
        Allocation.objects.bulk_create(held, batch_size=500)
        LedgerEntry.objects.bulk_create(ledger, batch_size=500)
    with connection.cursor() as cursor:
        cursor.execute("analyze")
    who = members[15]
    session = SessionStore()
    session[SESSION_KEY] = str(who.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = who.get_session_auth_hash()
    session.save()
    # Free hours: between the 4 h reservations of each card lie 2 h without one.
    slots = []
    first = (now + timedelta(days=10)).replace(minute=0, second=0, microsecond=0)
    for n in range(SLOTS):
        gpu = n % count
        slot = (first - BASE) // timedelta(hours=6) + 1 + n // count
        start = BASE + timedelta(hours=6 * slot + 4, minutes=30 * (gpu % 4))
        slots.append([(start + timedelta(minutes=m)).strftime("%Y-%m-%dT%H:%M") for m in (15, 75)])
    # A time that a reservation of the first card holds, two weeks after the beginning.
    taken = [(BASE + timedelta(days=14, hours=hours)).strftime("%Y-%m-%dT%H:%M") for hours in (0, 4)]
    facts = {
        "taken": taken,
        "stored": stored, "count": count, "base": BASE.isoformat(),
        "session": session.session_key, "csrf": _get_new_csrf_string(), "week": "2026-12-14",
        "cards": [gpu.pk for gpu in gpus], "slots": slots,
    }
    print(json.dumps(facts), file=said)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labgpu.settings")
    main(*map(int, sys.argv[1:]))
