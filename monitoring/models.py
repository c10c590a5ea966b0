"""What the sensor keeps: readings, samples, processes, incidents, and what the gate answered."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models import Q

from reservations.models import Allocation, CleanupNotice, Gpu, Host, Member, Reservation

from .rules.snapshot import Owner
from .rules.use import Use

OWNER_CHOICES = [(owner.value, owner.value) for owner in Owner]


class HostReading(models.Model):
    """The latest reading of one host, as a whole. `taken_at` is the host's clock, `received_at` the server's.

    `clock_offset_s` is received minus taken: the difference of the clocks and the way, which only adds. Beyond the
    policy's tolerance the host's cards are unknown. `steady_since`: since when good readings have come without a gap of three
    periods.
    """

    host = models.OneToOneField(Host, models.CASCADE, primary_key=True, related_name="reading")
    boot_id = models.CharField(max_length=200, blank=True)
    sequence = models.BigIntegerField()
    taken_at = models.DateTimeField()
    received_at = models.DateTimeField()
    clock_offset_s = models.FloatField()
    steady_since = models.DateTimeField(null=True, blank=True)
    problem_code = models.CharField(max_length=200, default="", blank=True)
    problem_detail = models.CharField(max_length=200, default="", blank=True)
    simulated = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.host_id} #{self.sequence}"


class Downtime(models.Model):
    """A time in which a host was silent before it came back restarted: what ran there had ended. `settled_at`: returned to
    whoever held its cards (E3)."""

    host = models.ForeignKey(Host, models.CASCADE, related_name="downtimes")
    start = models.DateTimeField()
    end = models.DateTimeField()
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["start", "pk"]
        constraints = [models.CheckConstraint(condition=Q(start__lt=models.F("end")), name="downtime_start_before_end")]

    def __str__(self) -> str:
        return f"{self.host_id} {self.start}"


class Sample(models.Model):
    """One look at one card, kept for two days. Written once: the same look sent again changes nothing (NV-16).

    `at` is the host's clock. `has_processes` None = the list could not be read. `processes` is the packed list
    (`rules.snapshot.SeenProcess.packed`) with owners as they were known then: mapping a uid later proves nothing
    backwards. `problem` is the agent's code of a card that could not be read.
    """

    gpu = models.ForeignKey(Gpu, models.CASCADE, related_name="samples", db_index=False)
    at = models.DateTimeField()
    received_at = models.DateTimeField()
    problem = models.CharField(max_length=40, default="", blank=True)
    utilization = models.PositiveSmallIntegerField(null=True)
    encoder = models.PositiveSmallIntegerField(null=True)
    decoder = models.PositiveSmallIntegerField(null=True)
    memory_used = models.BigIntegerField(null=True)
    temperature = models.SmallIntegerField(null=True)
    power_mw = models.PositiveIntegerField(null=True)
    has_processes = models.BooleanField(null=True)
    processes = models.JSONField(null=True)
    simulated = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["gpu", "at"], name="one_sample_per_look")]

    def __str__(self) -> str:
        return f"{self.gpu_id} {self.at}"


class ProcessInterval(models.Model):
    """A process on a card, from the first to the last sample that showed it; kept after the samples are gone.

    (boot, pid, start) is one process: a pid alone is given away again. A process whose start could not be read has none.
    """

    gpu = models.ForeignKey(Gpu, models.CASCADE, related_name="process_intervals", db_index=False)
    boot_id = models.CharField(max_length=200, blank=True)
    pid = models.PositiveIntegerField()
    started = models.BigIntegerField()
    uid = models.PositiveBigIntegerField(null=True)
    member = models.ForeignKey(Member, models.SET_NULL, null=True, related_name="process_intervals")
    owner = models.CharField(max_length=10, choices=OWNER_CHOICES)
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["gpu", "boot_id", "pid", "started"], name="one_interval_per_process")
        ]

    def __str__(self) -> str:
        return f"{self.pid} on {self.gpu_id}"


class Incident(models.Model):
    """A verdict that lasted (I8). One per fact for ever: flapping opens no second.

    `first_sight` is the first sample of the run that opened it. `counted_at`: when it became an offence. `closed_at`: when
    it was gone; the same staying-on seen again opens the same row again. `gate` is what the gate answered last.
    """

    class Kind(models.TextChoices):
        OVERRUN = "overrun"

    kind = models.CharField(max_length=16, choices=Kind.choices)
    allocation = models.ForeignKey(Allocation, models.PROTECT, related_name="incidents")
    gpu = models.ForeignKey(Gpu, models.PROTECT, related_name="incidents")
    member = models.ForeignKey(Member, models.PROTECT, related_name="incidents")
    first_sight = models.DateTimeField()
    opened_at = models.DateTimeField()
    counted_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    gate = models.CharField(max_length=16, default="", blank=True)
    evidence = models.JSONField(default=dict)

    class Meta:
        ordering = ["-opened_at", "-pk"]
        constraints = [models.UniqueConstraint(fields=["kind", "allocation"], name="one_incident_per_fact")]
        indexes = [models.Index(fields=["gpu"], name="incident_open", condition=Q(closed_at=None))]

    def __str__(self) -> str:
        return f"{self.kind} {self.allocation_id}"


class CardUse(models.Model):
    """What was observed of one card of a reservation while it was held (M1): kept after the samples are gone.

    Lengths as in `rules.use.Use`; `until` is the watermark up to which samples were counted: no sample counts twice. No
    row, or time that is not in `observed`: unknown, never idle.
    """

    allocation = models.OneToOneField(Allocation, models.CASCADE, primary_key=True, related_name="use")
    observed = models.DurationField(default=timedelta)
    present = models.DurationField(default=timedelta)
    busy = models.DurationField(default=timedelta)
    measured = models.DurationField(default=timedelta)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"use of {self.allocation_id}"

    @property
    def value(self) -> Use:
        """The lengths as the rules take them."""
        return Use(self.observed, self.present, self.busy, self.measured)


class GateEntry(models.Model):
    """One answer of the gate before an automatic act (I1). Written when the answer changes, not at every sweep.

    It is about an incident, about a reservation where nothing happened that could be one (H2, H3, H7), or about somebody's part
    in the weekly clean-up (F3); `gpu` names the card where the act is about one card alone.
    """

    at = models.DateTimeField()
    incident = models.ForeignKey(Incident, models.CASCADE, null=True, blank=True, related_name="gate_entries")
    reservation = models.ForeignKey(Reservation, models.CASCADE, null=True, blank=True, related_name="gate_entries")
    cleanup_notice = models.ForeignKey(CleanupNotice, models.CASCADE, null=True, blank=True, related_name="gate_entries")
    gpu = models.ForeignKey(Gpu, models.CASCADE, null=True, blank=True, related_name="gate_entries")
    act = models.CharField(max_length=16)
    allowed = models.BooleanField()
    reason = models.CharField(max_length=16)
    coverage = models.FloatField()

    class Meta:
        ordering = ["at", "pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(incident__isnull=False) | Q(reservation__isnull=False) | Q(cleanup_notice__isnull=False),
                name="gate_entry_has_a_subject",
            )
        ]

    def __str__(self) -> str:
        return f"{self.act} {self.reason}"
