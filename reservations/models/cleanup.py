"""The weekly clean-up: who was told of processes without a reservation, and what came of it."""

from __future__ import annotations

from django.db import models

from .cases import Case
from .people import Member


class Cleanup(models.Model):
    """The clean-up of one week (F3); `week` is its Monday. `at`: when it began, `until`: when nobody is listed any more.

    `unlisted`: the cards that could not be judged yet, by their number, each with its name and why. `doubtful`: processes that
    nobody can be said to own, as they were listed. What the lab changes in its policy meanwhile does not change `grace_s`, of
    which people were told.
    """

    week = models.DateField(unique=True)
    at = models.DateTimeField()
    until = models.DateTimeField()
    grace_s = models.PositiveIntegerField()
    unlisted = models.JSONField(default=dict)
    doubtful = models.JSONField(default=list)
    doubt_settled_at = models.DateTimeField(null=True, blank=True)
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["week"]
        indexes = [models.Index(fields=["week"], name="cleanup_open", condition=models.Q(settled_at=None))]

    def __str__(self) -> str:
        return f"clean-up of {self.week}"


class CleanupNotice(models.Model):
    """That a member was listed in a week's clean-up: once, whatever is found later. `found`: the cards and processes listed.

    `outcome` is what came of it, and is set once.
    """

    class Outcome(models.TextChoices):
        OPEN = "", "open"
        CASE = "case"
        GONE = "gone"
        UNTOLD = "untold"  # the message never left: nobody is accused who was not told
        UNKNOWN = "unknown"  # what the samples say does not suffice
        OFF = "off"  # the lab has switched the clean-up off meanwhile

    cleanup = models.ForeignKey(Cleanup, models.CASCADE, related_name="notices")
    member = models.ForeignKey(Member, models.PROTECT, related_name="cleanup_notices")
    listed_at = models.DateTimeField()
    found = models.JSONField()
    outcome = models.CharField(max_length=10, choices=Outcome.choices, default=Outcome.OPEN, blank=True)
    case = models.OneToOneField(Case, models.PROTECT, null=True, related_name="cleanup_notice")

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["cleanup", "member"], name="one_cleanup_notice_per_week")]

    def __str__(self) -> str:
        return f"{self.member_id} in {self.cleanup_id}"

    @property
    def message_key(self) -> str:
        """The name of the message that tells the member."""
        return f"cleanup:{self.pk}"
