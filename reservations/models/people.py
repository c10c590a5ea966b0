"""Members, their names on hosts, and invites."""

from __future__ import annotations

from datetime import time
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from .inventory import Host


class MemberManager(BaseUserManager["Member"]):
    """Makes members with a normalised e-mail."""

    def create_user(self, email: str, password: str | None = None, **fields: Any) -> Member:
        member = self.model(email=email.strip().lower(), **fields)
        member.set_password(password)
        member.save(using=self._db)
        return member

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> Member:
        return self.create_user(
            email, password, is_admin=True, is_superuser=True, approval=Member.Approval.APPROVED, **fields
        )

    def get_by_natural_key(self, username: str | None) -> Member:
        return self.get(email=(username or "").strip().lower())


class Member(AbstractBaseUser, PermissionsMixin):
    """A person of the lab. `role` is a code of the policy; being an arbiter or admin is a duty beside it (B1, B3).

    `ends_on` is their last day (B2); `left_at` when they left. `accepted_rules`: the version of the house rules accepted.
    Quiet hours run from `quiet_from` to `quiet_to` on the member's own clock; both alike: none (K3).
    """

    class Approval(models.TextChoices):
        PENDING = "pending", _("waiting for approval")
        APPROVED = "approved", _("approved")

    email = models.EmailField(unique=True)
    name = models.CharField(max_length=60)
    role = models.CharField(max_length=30, default="master")
    approval = models.CharField(max_length=16, choices=Approval.choices, default=Approval.PENDING)
    is_active = models.BooleanField(default=True)
    is_arbiter = models.BooleanField(default=False)
    is_admin = models.BooleanField(default=False)
    language = models.CharField(max_length=10, default="", blank=True)
    zone = models.CharField(max_length=64, default="", blank=True)
    no_displacing_until = models.DateTimeField(null=True, blank=True)  # D6: displaced somebody, then cancelled
    quiet_from = models.TimeField(default=time(23))
    quiet_to = models.TimeField(default=time(8))
    joined_at = models.DateTimeField(default=timezone.now)
    ends_on = models.DateField(null=True, blank=True)
    left_at = models.DateTimeField(null=True, blank=True)
    accepted_rules = models.PositiveIntegerField(default=0)

    objects = MemberManager()
    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS = ["name"]

    class Meta:
        ordering = ["name", "pk"]

    def __str__(self) -> str:
        return self.name or self.email

    def get_full_name(self) -> str:
        return self.name

    def get_short_name(self) -> str:
        return self.name

    @property
    def is_staff(self) -> bool:
        """Django's admin asks this; admins of the lab may use it."""
        return self.is_admin

    @property
    def is_approved(self) -> bool:
        """Whether the member may take part (B2)."""
        return self.is_active and self.approval == self.Approval.APPROVED


class HostAccount(models.Model):
    """A member's Unix account on one host: what makes a process *verified* (I3)."""

    member = models.ForeignKey(Member, models.CASCADE, related_name="host_accounts")
    host = models.ForeignKey(Host, models.CASCADE, related_name="accounts")
    unix_name = models.CharField(max_length=64)
    uid = models.PositiveBigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["host", "uid"], name="one_member_per_uid"),
            models.UniqueConstraint(fields=["host", "unix_name"], name="one_member_per_unix_name"),
        ]

    def __str__(self) -> str:
        return f"{self.unix_name}@{self.host_id}"


class Invite(models.Model):
    """A link that lets people in: only the hash of its random token is kept."""

    token_hash = models.CharField(max_length=64, unique=True)
    role = models.CharField(max_length=30)
    created_by = models.ForeignKey(Member, models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    uses_left = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"invite {self.pk}"
