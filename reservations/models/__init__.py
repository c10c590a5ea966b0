"""The ledger's tables."""

from .audit import AuditEntry
from .booking import Allocation, Collaborator, FormerAllocation, IdempotencyKey, LedgerEntry, OverrunCharge, Reservation
from .cases import Case, Ruling
from .cleanup import Cleanup, CleanupNotice
from .conduct import Demerit
from .inventory import CardState, Gpu, Host, Lab, Pool, SpecialDay
from .outbox import KeptMail, Notification
from .people import HostAccount, Invite, Member
from .projects import DeadlineGrant, HourGrant, Project, ProjectMember
from .upkeep import Maintenance, MaintenanceCard
from .waitlist import FreedSlot, WaitlistEntry

__all__ = [
    "Allocation", "AuditEntry", "CardState", "Case", "Cleanup", "CleanupNotice", "Collaborator", "DeadlineGrant", "Demerit",
    "FormerAllocation", "FreedSlot", "Gpu",
    "Host", "HostAccount", "HourGrant", "IdempotencyKey", "Invite", "KeptMail", "Lab", "LedgerEntry", "Maintenance",
    "MaintenanceCard", "Member", "Notification", "OverrunCharge", "Pool", "Project", "ProjectMember", "Reservation",
    "Ruling", "SpecialDay", "WaitlistEntry",
]
