"""The lab, its hosts, pools and cards."""

from __future__ import annotations

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q

from .. import names


class Lab(models.Model):
    """The one lab of this installation: its name, zone and language, and the policy in force.

    `policy` is the whole policy as JSON (`reservations.rules.policy`); its history is in the audit. `house_rules`: the lab's
    own text beside it, which members accept before they book; `rules_version` grows with each text (B2).
    """

    name = models.CharField(max_length=80, default="")
    zone = models.CharField(max_length=64, default="Asia/Shanghai")
    language = models.CharField(max_length=10, default="zh-hans")
    policy = models.JSONField(default=dict)
    policy_version = models.PositiveIntegerField(default=1)
    house_rules = models.TextField(default="", blank=True)
    rules_version = models.PositiveIntegerField(default=0)
    simulated = models.BooleanField(default=False)
    holidays = models.CharField(max_length=8, default="cn", blank=True, help_text="public calendar; empty for none")
    show_names = models.CharField(max_length=8, default=names.FULL, choices=[(way, way) for way in names.WAYS])
    set_up_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(pk=1), name="one_lab")]

    def __str__(self) -> str:
        return self.name or "lab"


class SpecialDay(models.Model):
    """A date that the lab works or rests on against its weekday and the public calendar (A5)."""

    day = models.DateField(unique=True)
    is_working = models.BooleanField()
    name = models.CharField(max_length=60, default="", blank=True)

    class Meta:
        ordering = ["day"]

    def __str__(self) -> str:
        return f"{self.day} {'working' if self.is_working else 'rest'}"


class Host(models.Model):
    """A machine with cards. `has_reader` is false on hosts whose cards nobody reads (declared so by an admin)."""

    name = models.SlugField(max_length=63, unique=True)
    has_reader = models.BooleanField(default=True)
    simulated = models.BooleanField(default=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Pool(models.Model):
    """Like cards with one weight (hundredths: 100 = one GPU-hour per card and hour).

    `reserve` cards are kept for emergencies (G4), `quick` ones on working days for at most 2 h (G7); empty: the policy's
    number for pools of four cards or more.
    """

    name = models.CharField(max_length=60, unique=True)
    weight = models.PositiveIntegerField(default=100, validators=[MinValueValidator(1)])
    reserve = models.PositiveSmallIntegerField(null=True, blank=True)
    quick = models.PositiveSmallIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Gpu(models.Model):
    """One card, known for ever by its NVML UUID; `index` is only where it was last seen (G1, NV-15)."""

    class Service(models.TextChoices):
        IN_SERVICE = "in_service"
        OUT_OF_SERVICE = "out_of_service"

    uuid = models.CharField(max_length=80, unique=True)
    host = models.ForeignKey(Host, models.PROTECT, related_name="gpus")
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="gpus")
    model = models.CharField(max_length=80)
    memory_total = models.BigIntegerField(null=True)
    bus_id = models.CharField(max_length=32, default="", blank=True)
    index = models.PositiveSmallIntegerField(default=0)
    service = models.CharField(max_length=16, choices=Service.choices, default=Service.IN_SERVICE)

    class Meta:
        ordering = ["host__name", "index", "pk"]

    def __str__(self) -> str:
        return f"{self.host.name}:{self.index}"


class CardState(models.Model):
    """What the sensor last told the ledger of one card. No row, or an old one, means unknown (I1).

    Written by `reservations.services.sightings` only, for monitoring. `owner_ids` are the members whose processes were
    seen (verified or resolved); `baseline`-free memory and use are for showing. `lost_since`: since when the card is proved
    to be gone (G6), and `lost_how`: from a host that answers, or with a host that has fallen silent.
    """

    class Lost(models.TextChoices):
        GONE = "gone"
        SILENT = "silent"

    class State(models.TextChoices):
        FREE = "free"
        IN_USE = "in_use"
        HELD_IDLE = "held_idle"
        HELD_EMPTY = "held_empty"
        OVERRUN = "overrun"
        UNBOOKED = "unbooked"
        CONTESTED = "contested"
        NOT_VISIBLE = "not_visible"
        UNKNOWN = "unknown"
        OFFLINE = "offline"

    gpu = models.OneToOneField(Gpu, models.CASCADE, primary_key=True, related_name="state")
    state = models.CharField(max_length=16, choices=State.choices, default=State.UNKNOWN)
    since = models.DateTimeField()
    sampled_at = models.DateTimeField()
    utilization = models.PositiveSmallIntegerField(null=True)
    memory_used = models.BigIntegerField(null=True)
    temperature = models.SmallIntegerField(null=True)
    process_count = models.PositiveSmallIntegerField(null=True)
    owner_ids = models.JSONField(default=list)
    free_streak = models.PositiveIntegerField(default=0)
    lost_since = models.DateTimeField(null=True, blank=True)
    lost_how = models.CharField(max_length=8, choices=Lost.choices, default="", blank=True)
    simulated = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.gpu_id}: {self.state}"
