"""Cases that a person decides, and their rulings."""

from __future__ import annotations

from django.db import models

from .appendonly import AppendOnly
from .booking import Reservation
from .conduct import Demerit
from .people import Member


class Case(models.Model):
    """A matter for an arbiter (L1). A dispute is about one demerit; while it is open the demerit rests (J4). A queue jump or an
    exception is about a `request` that the law refuses: what `services.booking.BookingRequest` has, as JSON. A case of the weekly
    clean-up (F3) is opened by nobody; it is about a member, `concerns`, whose side is the `statement`, or about nobody where the
    owners are in doubt. `fact` names for ever what it is about, `evidence` is the proof as it stood.
    """

    class Kind(models.TextChoices):
        DISPUTE = "dispute"
        QUEUE_JUMP = "queue_jump"
        EXCEPTION = "exception"
        CLEANUP = "cleanup"

    class State(models.TextChoices):
        OPEN = "open"
        DECIDED = "decided"

    kind = models.CharField(max_length=16, choices=Kind.choices)
    state = models.CharField(max_length=10, choices=State.choices, default=State.OPEN)
    opened_by = models.ForeignKey(Member, models.PROTECT, null=True, related_name="cases")
    concerns = models.ForeignKey(Member, models.PROTECT, null=True, related_name="cases_about")
    opened_at = models.DateTimeField()
    statement = models.CharField(max_length=2000, blank=True)
    demerit = models.ForeignKey(Demerit, models.PROTECT, null=True, related_name="cases")
    request = models.JSONField(null=True)
    fact = models.CharField(max_length=80, default="", blank=True)
    evidence = models.JSONField(null=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["opened_at", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["demerit"], name="one_dispute_per_demerit", condition=models.Q(kind="dispute")
            ),
            models.CheckConstraint(
                condition=models.Q(opened_by__isnull=False) | ~models.Q(fact=""), name="case_has_an_origin"
            ),
            models.UniqueConstraint(fields=["fact"], name="one_case_per_fact", condition=~models.Q(fact="")),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"

    @property
    def asker(self) -> Member:
        """Who opened the case: of every kind but the clean-up's, somebody did."""
        assert self.opened_by is not None
        return self.opened_by


class Ruling(AppendOnly):
    """An arbiter's decision with its reason; never edited (L4). `waives`: the rules it set aside for the reservation that it made
    (L3)."""

    class Outcome(models.TextChoices):
        ACCEPTED = "accepted"
        DECLINED = "declined"

    case = models.ForeignKey(Case, models.PROTECT, related_name="rulings")
    arbiter = models.ForeignKey(Member, models.PROTECT, related_name="rulings")
    outcome = models.CharField(max_length=10, choices=Outcome.choices)
    reason = models.CharField(max_length=2000)
    waives = models.JSONField(default=list)
    reservation = models.ForeignKey(Reservation, models.PROTECT, null=True, related_name="rulings")
    at = models.DateTimeField()

    class Meta:
        ordering = ["at", "pk"]

    def __str__(self) -> str:
        return f"{self.outcome} {self.case_id}"
