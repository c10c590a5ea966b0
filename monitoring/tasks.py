"""The sensor's tasks: the clock, the settings and the broker meet the services here."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from celery import current_app, shared_task
from django.conf import settings
from django.utils import timezone

from labgpu.broker import READ_TASK, host_queue
from reservations import ticks

from . import queries
from .services import accounting, retention
from .services import cleanup as cleaning
from .services import ingest as ingesting
from .services import judge as judging
from .services import lost as losing
from .services import presence as following


def _period() -> timedelta:
    return timedelta(seconds=settings.SAMPLE_SECONDS)


@shared_task(name="monitoring.ingest", ignore_result=True)
def ingest(reading: object) -> None:
    """Takes in a reading that a card host's worker sent."""
    ingesting.ingest(reading, now=timezone.now(), period=_period())


@shared_task(name="monitoring.judge", ignore_result=True)
def judge() -> None:
    """Judges all cards, so that silence is noticed too, and puts old samples away."""
    judging.judge_all(now=timezone.now(), period=_period())
    retention.forget_samples(now=timezone.now())


@shared_task(name="monitoring.lost", ignore_result=True)
def lost() -> None:
    """Judges which cards are gone (G6)."""
    losing.sweep(now=timezone.now(), period=_period())


@shared_task(name="monitoring.account_use", ignore_result=True)
def account_use() -> None:
    """Keeps what the samples say of the use of every held card, before they are put away."""
    accounting.account_use(now=timezone.now(), period=_period())


@shared_task(name="monitoring.presence", ignore_result=True)
def presence() -> None:
    """Looks who does not come, which cards lie unused, and whose processes have ended (H2, H3, H7)."""
    now = timezone.now()
    ticks.mark("presence", now)
    following.sweep(now=now, period=_period())


@shared_task(name="monitoring.cleanup", ignore_result=True)
def cleanup() -> None:
    """Lists processes without a reservation once a week, and looks again an hour later (F3)."""
    cleaning.sweep(now=timezone.now(), period=_period())


@shared_task(name="monitoring.ask_hosts", ignore_result=True)
def ask_hosts() -> None:
    """Asks each host for a reading. What is not read within a period is dropped: the next ask is already there."""
    scenarios = [path.stem for path in Path(settings.SCENARIO_DIR).glob("*.json")]
    for name in queries.hosts_to_ask(settings.THIS_HOST, scenarios):
        current_app.send_task(
            READ_TASK, args=[name], queue=host_queue(name), expires=settings.SAMPLE_SECONDS, ignore_result=True
        )
