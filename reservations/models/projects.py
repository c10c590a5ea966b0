"""Projects, their deadline grants, and one-off hours for a project or a member."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from .people import Member


class Project(models.Model):
    """What people work on together: led by an advisor, with a weekly allowance of its own (B6).

    `weekly_hours` empty: the policy's number. A closed project books nothing more; its record stays.
    """

    name = models.CharField(max_length=80, unique=True)
    advisor = models.ForeignKey(Member, models.PROTECT, related_name="led_projects")
    weekly_hours = models.PositiveIntegerField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name", "pk"]

    def __str__(self) -> str:
        return self.name


class ProjectMember(models.Model):
    """That a member may book for a project."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="members")
    member = models.ForeignKey(Member, models.CASCADE, related_name="project_memberships")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "member"], name="once_in_a_project")]

    def __str__(self) -> str:
        return f"{self.member_id} in {self.project_id}"


class DeadlineGrant(models.Model):
    """That a project may book in the strongest tier until a day (C2). Everybody sees it.

    `first_day` and `last_day` are lab days, both included. `budget` is in elapsed seconds x cards, without rates and weights;
    what is used of it is always the sum over the cards of its reservations (`Reservation.grant`).
    """

    class State(models.TextChoices):
        REQUESTED = "requested"
        GRANTED = "granted"
        DECLINED = "declined"
        REVOKED = "revoked"
        LAPSED = "lapsed"

    project = models.ForeignKey(Project, models.PROTECT, related_name="grants")
    deadline = models.DateField()
    reason = models.CharField(max_length=2000)
    budget = models.BigIntegerField()
    first_day = models.DateField()
    last_day = models.DateField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.REQUESTED)
    requested_by = models.ForeignKey(Member, models.PROTECT, related_name="+")
    requested_at = models.DateTimeField()
    decided_by = models.ForeignKey(Member, models.PROTECT, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)
    decision = models.CharField(max_length=2000, default="", blank=True)
    by_admin = models.BooleanField(default=False)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-requested_at", "-pk"]
        constraints = [models.CheckConstraint(condition=Q(first_day__lte=F("last_day")), name="grant_first_before_last")]

    def __str__(self) -> str:
        return f"grant {self.pk}"


class HourGrant(models.Model):
    """One-off hours beyond the weekly allowance of a member or of a project, until an end (E5).

    `units` as in the ledger. They cover what a week's account is overdrawn (`rules.hours`), so nothing is posted when they
    are used. `given_by` empty: LabGPU kept hours valid that came back late in a week (E3); `reservation` says whose.
    """

    class Code(models.TextChoices):
        GIVEN = "given"
        RETURNED = "returned"

    member = models.ForeignKey(Member, models.PROTECT, null=True, related_name="hour_grants")
    project = models.ForeignKey(Project, models.PROTECT, null=True, related_name="hour_grants")
    units = models.BigIntegerField()
    code = models.CharField(max_length=10, choices=Code.choices, default=Code.GIVEN)
    reason = models.CharField(max_length=2000, default="", blank=True)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    given_by = models.ForeignKey(Member, models.PROTECT, null=True, related_name="+")
    reservation = models.ForeignKey("reservations.Reservation", models.PROTECT, null=True, related_name="hour_grants")

    class Meta:
        ordering = ["ends_at", "pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(member=None, project__isnull=False) | Q(member__isnull=False, project=None),
                name="hours_of_member_or_project",
            ),
            models.CheckConstraint(condition=Q(starts_at__lt=F("ends_at")), name="hours_start_before_end"),
        ]

    def __str__(self) -> str:
        return f"{self.units} until {self.ends_at}"
