"""Demerits: what somebody did against the rules, proved."""

from __future__ import annotations

from django.db import models

from .booking import Reservation
from .people import Member


class Demerit(models.Model):
    """Points against a member for one fact (J1). `fact` is unique for ever: one fact, one demerit.

    `evidence` is the proof as it stood when it was issued: it does not change when samples age away.
    """

    class Reason(models.TextChoices):
        OVERRUN = "overrun"
        NO_SHOW = "no_show"

    class State(models.TextChoices):
        COUNTED = "counted"
        DISPUTED = "disputed"
        VOID = "void"

    member = models.ForeignKey(Member, models.PROTECT, related_name="demerits")
    reason = models.CharField(max_length=20, choices=Reason.choices)
    points = models.PositiveSmallIntegerField()
    fact = models.CharField(max_length=80, unique=True)
    reservation = models.ForeignKey(Reservation, models.PROTECT, related_name="demerits")
    evidence = models.JSONField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.COUNTED)
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        ordering = ["-issued_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.reason} {self.fact}"
