"""Maintenance: times in which cards serve nobody (G5)."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from .inventory import Gpu
from .people import Member


class Maintenance(models.Model):
    """A maintenance as announced: `start` and `end` as asked. Each card's own time is in `MaintenanceCard`.

    `ended_at`: when it was ended early or called off; its cards' rows then end there, or are gone.
    """

    reason = models.CharField(max_length=200, default="", blank=True)
    is_urgent = models.BooleanField(default=False)
    start = models.DateTimeField()
    end = models.DateTimeField()
    announced_by = models.ForeignKey(Member, models.PROTECT, related_name="+")
    announced_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["start", "pk"]
        constraints = [models.CheckConstraint(condition=Q(start__lt=F("end")), name="maintenance_start_before_end")]

    def __str__(self) -> str:
        return f"maintenance {self.pk}"


class MaintenanceCard(models.Model):
    """The time in which one card serves nobody: a planned maintenance begins on each card when what is firm there has ended."""

    maintenance = models.ForeignKey(Maintenance, models.CASCADE, related_name="cards")
    gpu = models.ForeignKey(Gpu, models.PROTECT, related_name="maintenance")
    start = models.DateTimeField()
    end = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(start__lt=F("end")), name="maintenance_card_start_before_end"),
            models.UniqueConstraint(fields=["maintenance", "gpu"], name="card_once_per_maintenance"),
        ]
        indexes = [models.Index(fields=["gpu", "end", "start"], name="maintenance_card_end")]

    def __str__(self) -> str:
        return f"{self.gpu_id} in {self.maintenance_id}"
