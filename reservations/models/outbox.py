"""Messages to send: rows first, sent after (K2)."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from .booking import Reservation
from .conduct import Demerit
from .people import Member
from .projects import DeadlineGrant
from .waitlist import WaitlistEntry


class Notification(models.Model):
    """One message to one member. Written in the transaction of the fact that causes it; rendered when it is sent.

    `key` is unique for ever: the same fact writes no second message. `claim` marks the sender that has it; an unfinished
    claim runs out, so a killed sender costs at most one possible duplicate.
    """

    class Kind(models.TextChoices):
        CONFIRM = "confirm"
        ENDING = "ending"
        EXTENDED = "extended"
        DONE = "done"
        GIVEN_BACK = "given_back"
        NO_SHOW = "no_show"
        CHANGED = "changed"
        OVERRUN = "overrun"
        DEMERIT = "demerit"
        RULING = "ruling"
        DISPLACED = "displaced"
        PLACED = "placed"
        BROUGHT_BACK = "brought_back"
        INVITED = "invited"
        GRANT = "grant"
        INTERRUPTED = "interrupted"
        SWAPPED = "swapped"
        MAINTENANCE = "maintenance"
        SERVED = "served"
        OFFER = "offer"
        OFFER_OVER = "offer_over"
        WAIT_OVER = "wait_over"
        CLEANUP = "cleanup"
        CASE = "case"

    class State(models.TextChoices):
        DUE = "due"
        SENT = "sent"
        DROPPED = "dropped"
        FAILED = "failed"

    key = models.CharField(max_length=120, unique=True)
    kind = models.CharField(max_length=20, choices=Kind.choices)
    member = models.ForeignKey(Member, models.PROTECT, related_name="notifications")
    reservation = models.ForeignKey(Reservation, models.PROTECT, null=True, related_name="notifications")
    demerit = models.ForeignKey(Demerit, models.PROTECT, null=True, related_name="notifications")
    grant = models.ForeignKey(DeadlineGrant, models.PROTECT, null=True, related_name="notifications")
    waitlist_entry = models.ForeignKey(WaitlistEntry, models.PROTECT, null=True, related_name="notifications")
    reservation_version = models.PositiveIntegerField(null=True)
    due_at = models.DateTimeField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.DUE)
    attempts = models.PositiveSmallIntegerField(default=0)
    claim = models.CharField(max_length=32, default="", blank=True)
    claimed_until = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=300, default="", blank=True)

    class Meta:
        indexes = [models.Index(fields=["due_at"], name="notification_due", condition=Q(state="due"))]

    def __str__(self) -> str:
        return self.key


class KeptMail(models.Model):
    """A mail that could not leave because the lab has set up no mail server: admins see it and pass it on."""

    to = models.CharField(max_length=254)
    subject = models.CharField(max_length=300)
    body = models.TextField()
    at = models.DateTimeField()

    class Meta:
        ordering = ["-at", "-pk"]

    def __str__(self) -> str:
        return self.subject
