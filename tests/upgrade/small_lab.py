"""A lab with one row or more of everything, made by the services at fixed instants: what the dumps hold."""

from __future__ import annotations

import django


def main() -> None:
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    call_command("createcachetable", verbosity=0)

    from datetime import date, timedelta

    from reservations.models import CardState, HostAccount, Ruling
    from reservations.services import (
        arbitration,
        booking,
        changes,
        collaborators,
        conduct,
        extension,
        grants,
        houserules,
        maintenance,
        people,
        projects,
        sightings,
        waitlist,
    )
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

    # What the law of 0.2.0 brought.
    houserules.write("离开前请释放。", by=chief, now=at(9))
    for one_of in (chief, lin, wu):
        houserules.accept(1, by=one_of, now=at(9))
    vision = projects.make("视觉", advisor_id=chief.pk, weekly_hours=100, by=chief, now=at(9))
    projects.add_member(vision.pk, lin.pk, by=chief, now=at(9))
    projects.give_hours(project_id=vision.pk, hours=20, last_day=date(2026, 12, 31), reason="投稿", by=chief, now=at(9))
    grant = grants.request(
        vision.pk, deadline=date(2026, 12, 20), reason="论文", card_hours=50, first_day=date(2026, 12, 5),
        last_day=date(2026, 12, 19), by=lin, now=at(9),
    )
    grants.decide(grant.pk, True, "可以。", by=chief, now=at(10))
    lin.refresh_from_db()
    shared = reservation(lin, gpus[:1], 48, 54, now=at(10), project_id=vision.pk)
    collaborators.invite(shared.pk, wu.pk, by=lin, now=at(10))
    collaborators.accept(shared.pk, by=wu, now=at(11))
    wu.refresh_from_db()
    wish = booking.BookingRequest((), None, at(60), count=3)
    waitlist.join(wu, waitlist.WishRequest(wish, timedelta(hours=4), at(60), None), now=at(11))
    maintenance.announce([gpus[2].pk], at(72), at(76), reason="换风扇", urgent=False, by=chief, now=at(11))


if __name__ == "__main__":
    main()
