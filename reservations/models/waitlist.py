"""Who waits for which cards, and time given back that the waitlist has not been asked about yet (K5, H4)."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from .booking import Reservation
from .inventory import Gpu, Pool
from .people import Member
from .projects import Project


class WaitlistEntry(models.Model):
    """A wish that waits: cards by name or a count of any that fit, for a length, to end by `latest` ("until when").

    `mode`: what is found is booked at once, or offered first. `reservation` is what it was served with. `version` grows with
    every change, so that an overtaken press changes nothing.
    """

    class Mode(models.TextChoices):
        BOOK = "book"
        ASK = "ask"

    class State(models.TextChoices):
        WAITING = "waiting"
        SERVED = "served"
        EXPIRED = "expired"
        LEFT = "left"

    member = models.ForeignKey(Member, models.PROTECT, related_name="waitlist")
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    mode = models.CharField(max_length=6, choices=Mode.choices, default=Mode.BOOK)
    card_ids = models.JSONField(default=list, blank=True)
    count = models.PositiveSmallIntegerField(default=0)
    pool = models.ForeignKey(Pool, models.PROTECT, null=True, blank=True, related_name="+")
    model = models.CharField(max_length=80, default="", blank=True)
    min_memory = models.BigIntegerField(null=True, blank=True)
    several_hosts = models.BooleanField(default=False)
    length_s = models.PositiveIntegerField()
    earliest = models.DateTimeField()
    latest = models.DateTimeField()
    tier = models.CharField(max_length=30)
    purpose = models.CharField(max_length=16, choices=Reservation.Purpose.choices, default=Reservation.Purpose.TRAINING)
    project = models.ForeignKey(Project, models.PROTECT, null=True, blank=True, related_name="+")
    note = models.CharField(max_length=200, default="", blank=True)
    fingerprint = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    reservation = models.ForeignKey(Reservation, models.PROTECT, null=True, blank=True, related_name="waitlist_entries")
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(earliest__lt=F("latest")), name="waitlist_earliest_before_latest"),
            models.UniqueConstraint(
                fields=["member", "fingerprint"], condition=Q(state="waiting"), name="waitlist_one_of_a_wish"
            ),
        ]
        indexes = [models.Index(fields=["created_at"], name="waitlist_waiting", condition=Q(state="waiting"))]

    def __str__(self) -> str:
        return f"wish {self.pk}"


class FreedSlot(models.Model):
    """Time on one card that was given back while somebody waited for such a card.

    `ready_at`: from when the waitlist may offer it; null while a card that was in use has not been seen free often enough
    (H4). `looks`: samples in a row since `at` that showed it free. The row goes when the waitlist has been asked.
    """

    gpu = models.ForeignKey(Gpu, models.PROTECT, related_name="freed_slots")
    start = models.DateTimeField()
    end = models.DateTimeField()
    at = models.DateTimeField()
    looks = models.PositiveSmallIntegerField(default=0)
    ready_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(start__lt=F("end")), name="freed_start_before_end")]
        indexes = [models.Index(fields=["gpu", "end"], name="freed_card_end")]

    def __str__(self) -> str:
        return f"{self.gpu_id} from {self.start}"
