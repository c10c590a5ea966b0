"""A lab with one row or more of everything, made by the services at fixed instants: what the dumps hold."""

from __future__ import annotations

import django


def main() -> None:
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    call_command("createcachetable", verbosity=0)

    from datetime import timedelta

    from reservations.models import CardState, HostAccount, Ruling
    from reservations.services import arbitration, booking, changes, conduct, extension, people, sightings
    from tests.factories import NOW, admin, at, cards, host, lab, member, reservation

    lab(language="zh-hans")
    chief, lin, wu = admin("高雨桐"), member("林悦"), member("Wu", role="master")
    one = host("gpu-a")
    gpus = cards(3, one)
    HostAccount.objects.create(member=lin, host=one, unix_name="lin", uid=2001)
    people.invite(by=chief, role="phd", uses=3, days=7, now=NOW)
    over = reservation(lin, gpus[:2], None, 4)
    booking.advance_one(over.pk, now=at(4))
    demerit = conduct.issue_overrun(fact=f"overrun:{over.pk}:1", reservation=over, evidence={"kind": "overrun"}, now=at(5))
    assert demerit is not None
    case = conduct.dispute(demerit.pk, "我的任务已经结束。", by=lin, now=at(6))
    arbitration.rule(case.pk, Ruling.Outcome.DECLINED, "采样清楚。", by=chief, version=1, now=at(7))
    early = reservation(wu, gpus[2:], None, 8, key="form-1")
    changes.release(early.pk, by=wu, version=1, now=at(2))
    gone = reservation(wu, gpus[2:], 20, 24)
    changes.cancel(gone.pk, by=wu, version=1, now=at(3))
    longer = reservation(lin, gpus[:1], 24, 30, now=at(8))
    extension.extend(longer.pk, at(32), by=lin, version=1, now=at(9))
    reservation(wu, gpus[1:], 6 * 24 + 8, 6 * 24 + 14, now=at(9))  # over a week's end
    sightings.record([sightings.Sighting(gpus[0].pk, CardState.State.FREE, at(4) + timedelta(minutes=20), utilization=0)])


if __name__ == "__main__":
    main()
