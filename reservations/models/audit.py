"""Who changed what, when, why, from where."""

from __future__ import annotations

from django.db import models

from .appendonly import AppendOnly
from .people import Member


class AuditEntry(AppendOnly):
    """One change. `actor` is empty when LabGPU itself acted; `origin` says by which way (page, link, sweep, command)."""

    at = models.DateTimeField()
    actor = models.ForeignKey(Member, models.PROTECT, null=True, related_name="+")
    origin = models.CharField(max_length=10)
    verb = models.CharField(max_length=40)
    subject = models.CharField(max_length=40)
    subject_id = models.BigIntegerField()
    change = models.JSONField(default=dict)
    reason = models.CharField(max_length=2000, default="", blank=True)

    class Meta:
        indexes = [models.Index(fields=["subject", "subject_id"], name="audit_subject")]

    def __str__(self) -> str:
        return f"{self.verb} {self.subject} {self.subject_id}"
