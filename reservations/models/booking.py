"""Reservations, the cards they hold, and what they cost."""

from __future__ import annotations

from functools import cached_property

from django.db import models
from django.db.models import F, Q

from ..rules.kinds import Kind
from ..rules.lifecycle import HOLDING, Status
from ..rules.rank import Rank, rank_of
from .appendonly import AppendOnly
from .constraints import NoOverlap
from .inventory import Gpu
from .people import Member
from .projects import DeadlineGrant, Project

STATUS_CHOICES = [(status.value, status.value) for status in Status]
KIND_CHOICES = [(kind.value, kind.value) for kind in Kind]


class Reservation(models.Model):
    """What a member asked for and was granted: cards, a period, a tier, a purpose.

    `start`/`end` are the booked period; `ended_at` is when it stopped holding, if earlier. `version` grows with every
    change of what is held: a link or form made for an older version is overtaken. Its rank is the pair (`is_elastic`,
    `rank_tier`), smaller is stronger (C3). `may_move_until`: when displaced, the system may move it to end by then (D5).
    `placed_at`: when the system chose its time (D5, K5). `project` never changes; `project_pays`: its allowance is charged,
    not the holder's (B5). `grant`: the deadline grant it was booked under. `expected_memory` in bytes. `offer_until`: until
    when an offer holds its cards (K5).

    `confirmed_at`: when somebody said that they come (H2). The wishes of the holder: `release_when_done` (H7) and
    `extend_while_free` (H5), with the seconds by which that has extended it. `kept_at`: when somebody last took back what was
    given back or released, or said that they keep the cards: what lay unused before counts no more (H3, H7).
    """

    class Purpose(models.TextChoices):
        TRAINING = "training"
        INFERENCE = "inference"
        INTERACTIVE = "interactive"
        TEST = "test"

    holder = models.ForeignKey(Member, models.PROTECT, related_name="reservations")
    status = models.CharField(max_length=16, choices=STATUS_CHOICES)
    kind = models.CharField(max_length=10, choices=KIND_CHOICES, default=Kind.PLANNED)
    tier = models.CharField(max_length=30)
    rank_tier = models.PositiveSmallIntegerField()
    purpose = models.CharField(max_length=16, choices=Purpose.choices, default=Purpose.TRAINING)
    note = models.CharField(max_length=200, default="", blank=True)
    project = models.ForeignKey(Project, models.PROTECT, null=True, blank=True, related_name="reservations")
    project_pays = models.BooleanField(default=False)
    grant = models.ForeignKey(DeadlineGrant, models.PROTECT, null=True, blank=True, related_name="reservations")
    expected_memory = models.BigIntegerField(null=True, blank=True)
    start = models.DateTimeField()
    end = models.DateTimeField()
    booked_at = models.DateTimeField()
    is_elastic = models.BooleanField(default=False)
    may_move_until = models.DateTimeField(null=True, blank=True)
    displaced_times = models.PositiveSmallIntegerField(default=0)
    displaced_by = models.ForeignKey("self", models.PROTECT, null=True, blank=True, related_name="displaced", db_index=False)
    instead_of = models.ForeignKey("self", models.PROTECT, null=True, blank=True, related_name="replacements", db_index=False)
    placed_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    offer_until = models.DateTimeField(null=True, blank=True)
    version = models.PositiveIntegerField(default=1)
    confirmed_at = models.DateTimeField(null=True, blank=True)
    release_when_done = models.BooleanField(default=False)
    kept_at = models.DateTimeField(null=True, blank=True)
    extend_while_free = models.BooleanField(default=False)
    extended_free_s = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(start__lt=F("end")), name="reservation_start_before_end")]
        indexes = [
            models.Index(fields=["holder", "end"], name="reservation_holder_end"),
            models.Index(
                fields=["status", "start"], name="reservation_due", condition=Q(status__in=[str(s) for s in HOLDING])
            ),
            # Nearly all have none: an index over those that have is small, and used; one over all is judged useless.
            models.Index(
                fields=["displaced_by"], name="reservation_displaced_by", condition=Q(displaced_by__isnull=False)
            ),
            models.Index(fields=["instead_of"], name="reservation_instead_of", condition=Q(instead_of__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"#{self.pk}"

    @property
    def rank(self) -> Rank:
        """Its effective rank, smaller is stronger (C3)."""
        return rank_of(self.is_elastic, self.rank_tier)

    @property
    def payer_id(self) -> int | None:
        """The project whose account is charged, or None for the holder's own."""
        return self.project_id if self.project_pays else None

    @cached_property
    def collaborator_ids(self) -> frozenset[int]:
        """The members who accepted to collaborate (B4), read once for this object."""
        rows = self.collaborators.filter(state=Collaborator.State.ACCEPTED)
        return frozenset(rows.values_list("member", flat=True))


class Collaborator(models.Model):
    """A member whom the holder asked to work on the same cards (B4). Only who accepted counts."""

    class State(models.TextChoices):
        INVITED = "invited"
        ACCEPTED = "accepted"
        DECLINED = "declined"
        REMOVED = "removed"

    reservation = models.ForeignKey(Reservation, models.PROTECT, related_name="collaborators")
    member = models.ForeignKey(Member, models.PROTECT, related_name="collaborations")
    state = models.CharField(max_length=10, choices=State.choices, default=State.INVITED)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["reservation", "member"], name="once_beside_a_holder")]
        indexes = [
            models.Index(fields=["member"], name="collaborates", condition=Q(state="accepted"))
        ]

    def __str__(self) -> str:
        return f"{self.member_id} beside {self.reservation_id}"


class Allocation(models.Model):
    """One card of a reservation for the interval it is really held.

    `status` repeats the reservation's (the services write both), so that the database itself can guard P1; a card given back
    alone (`given_back_at`) has ended for itself. `price` is the
    card's price over the booked time (`rules.quota.price_to_json`), kept because it does not change later (E6); empty in
    rows of 0.1.0, which knew only the plain rate. `fee`: the time whose late-cancellation fee is still kept (E3), as
    [start, end] in microseconds; what is booked again leaves it.
    """

    reservation = models.ForeignKey(Reservation, models.PROTECT, related_name="allocations")
    gpu = models.ForeignKey(Gpu, models.PROTECT, related_name="allocations")
    status = models.CharField(max_length=16, choices=STATUS_CHOICES)
    start = models.DateTimeField()
    end = models.DateTimeField()
    weight = models.PositiveIntegerField(help_text="pool weight when booked: the price does not change later (E6)")
    price = models.JSONField(default=list, blank=True)
    fee = models.JSONField(default=list, blank=True)
    first_seen = models.DateTimeField(null=True, blank=True)
    last_seen = models.DateTimeField(null=True, blank=True)
    given_back_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(start__lt=F("end")), name="allocation_start_before_end"),
            models.UniqueConstraint(fields=["reservation", "gpu"], name="card_once_per_reservation"),
            NoOverlap(
                name="no_double_booking", key="gpu", start="start", end="end", status="status",
                holding=tuple(str(s) for s in HOLDING),
            ),
        ]
        indexes = [models.Index(fields=["gpu", "end", "start"], name="allocation_card_end")]

    def __str__(self) -> str:
        return f"{self.reservation_id} on {self.gpu_id}"


class FormerAllocation(models.Model):
    """One card of a reservation as it was before a move (H6) or before it was given back unstarted (`given_back_at`, G3).

    It is what an undo restores, and bears the fee of a late change (E3). `version` is the reservation's at that time; the
    rest means what it does in `Allocation`. It holds nothing.
    """

    reservation = models.ForeignKey(Reservation, models.PROTECT, related_name="former_allocations")
    version = models.PositiveIntegerField()
    gpu = models.ForeignKey(Gpu, models.PROTECT, related_name="+")
    start = models.DateTimeField()
    end = models.DateTimeField()
    weight = models.PositiveIntegerField()
    price = models.JSONField(default=list, blank=True)
    fee = models.JSONField(default=list, blank=True)
    given_back_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["reservation", "version", "gpu"], name="former_card_once_per_version")
        ]
        indexes = [models.Index(fields=["gpu", "end", "start"], name="former_card_end")]

    def __str__(self) -> str:
        return f"{self.reservation_id} v{self.version} on {self.gpu_id}"


class LedgerEntry(AppendOnly):
    """One movement of an account. `units`: positive = charged, negative = returned.

    With `project` it is the project's account, without it the member's own (B5); `member` is the holder in both.
    `quota`: the account of a week (`period` its Monday), in 1/36,000,000 GPU-hour (`rules.quota.UNITS_PER_GPU_HOUR`), so
    that every charge is a whole number. `elastic`: the same beyond the allowance (E4). `free`: the free walk-in time of a lab
    day (`period`), in card-seconds (D2).
    """

    class Account(models.TextChoices):
        QUOTA = "quota"
        FREE = "free"
        ELASTIC = "elastic"

    class Reason(models.TextChoices):
        BOOKED = "booked"
        EXTENDED = "extended"
        CANCELLED = "cancelled"
        RELEASED = "released"
        UNDONE = "undone"
        FEE = "fee"
        REBOOKED = "rebooked"
        MOVED = "moved"
        DISPLACED = "displaced"
        IN_QUOTA = "in_quota"
        KEPT = "kept"  # came back late in a week and stays valid beyond it: no more room in this week (E3)
        OVERRUN = "overrun"
        LOST = "lost"
        INTERRUPTED = "interrupted"
        FORFEITED = "forfeited"
        PASSED = "passed"

    member = models.ForeignKey(Member, models.PROTECT, related_name="ledger")
    project = models.ForeignKey(Project, models.PROTECT, null=True, related_name="ledger")
    account = models.CharField(max_length=8, choices=Account.choices, default=Account.QUOTA)
    period = models.DateField()
    units = models.BigIntegerField()
    reason = models.CharField(max_length=16, choices=Reason.choices)
    reservation = models.ForeignKey(Reservation, models.PROTECT, related_name="ledger")
    at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["member", "account", "period"], name="ledger_account"),
            models.Index(
                fields=["project", "account", "period"], name="ledger_project", condition=Q(project__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.member_id} {self.account} {self.period} {self.units:+d}"


class OverrunCharge(models.Model):
    """What staying on after one end of one card has been charged so far (E3): a note beside the ledger, so that it can grow with
    the proof and be taken back whole.

    `ended`: the end that was stayed on after. `until`: up to when proof has been charged. `units`: what the ledger's rows
    of it add up to, by quota week. `void_at`: taken back, and never charged again.
    """

    allocation = models.ForeignKey(Allocation, models.PROTECT, related_name="overrun_charges")
    ended = models.DateTimeField()
    until = models.DateTimeField()
    units = models.JSONField(default=dict)
    void_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["allocation", "ended"], name="one_charge_per_end")]

    def __str__(self) -> str:
        return f"{self.allocation_id} after {self.ended}"


class IdempotencyKey(models.Model):
    """That a request of this actor was carried out: written with its effect, so a repeat finds the same answer (P3)."""

    actor = models.ForeignKey(Member, models.CASCADE, related_name="+")
    key = models.CharField(max_length=80)
    fingerprint = models.CharField(max_length=64)
    reservation = models.ForeignKey(Reservation, models.PROTECT, related_name="+")
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["actor", "key"], name="one_effect_per_key")]

    def __str__(self) -> str:
        return f"{self.actor_id}:{self.key}"
