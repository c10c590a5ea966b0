"""The Celery application and the whole beat table.

Celery only nudges: every task looks for due rows and claims them by compare-and-set, so a lost, repeated or late
message changes nothing (reliability.md, design rule 3). Each beat entry expires, so that a worker that was down does not
replay a backlog of ticks. No delays are ever put into the broker.
"""

import os
from typing import Any

from celery import Celery
from kombu import Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labgpu.settings")

from django.conf import settings

from labgpu.broker import BROKER_OPTIONS, SERVER_QUEUE

app = Celery("labgpu", broker=settings.BROKER_URL)
app.conf.update(BROKER_OPTIONS)
app.conf.task_default_queue = SERVER_QUEUE
app.conf.task_queues = [Queue(SERVER_QUEUE)]
app.conf.update(timezone="UTC")  # a scheduler in a zone with clock changes crashed or skipped an hour for others (BG-05)
app.autodiscover_tasks(["reservations", "monitoring"])


def _tick(task: str, seconds: float) -> dict[str, Any]:
    return {"task": task, "schedule": seconds, "options": {"expires": max(seconds, 1.0)}}


app.conf.beat_schedule = {
    "ask-hosts": _tick("monitoring.ask_hosts", settings.SAMPLE_SECONDS),
    "lost-cards": _tick("monitoring.lost", settings.SWEEP_SECONDS),
    "judge": _tick("monitoring.judge", settings.SAMPLE_SECONDS),
    "account-use": _tick("monitoring.account_use", 300),
    "presence": _tick("monitoring.presence", 3 * settings.SWEEP_SECONDS),
    "weekly-cleanup": _tick("monitoring.cleanup", 3 * settings.SWEEP_SECONDS),
    "advance-reservations": _tick("reservations.advance", settings.SWEEP_SECONDS),
    "serve-waitlist": _tick("reservations.serve_waitlist", settings.SWEEP_SECONDS),
    "deliver-messages": _tick("reservations.deliver", settings.SWEEP_SECONDS),
    "people-and-grants": _tick("reservations.people", 300.0),
}
