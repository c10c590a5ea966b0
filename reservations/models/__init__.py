"""The ledger's tables."""

from .audit import AuditEntry
from .booking import Allocation, Collaborator, FormerAllocation, IdempotencyKey, LedgerEntry, Reservation
from .cases import Case, Ruling
from .conduct import Demerit
from .inventory import CardState, Gpu, Host, Lab, Pool, SpecialDay
from .outbox import KeptMail, Notification
from .people import HostAccount, Invite, Member
from .projects import DeadlineGrant, HourGrant, Project, ProjectMember

__all__ = [
    "Allocation", "AuditEntry", "CardState", "Case", "Collaborator", "DeadlineGrant", "Demerit", "FormerAllocation", "Gpu",
    "Host", "HostAccount", "HourGrant", "IdempotencyKey", "Invite", "KeptMail", "Lab", "LedgerEntry", "Member", "Notification",
    "Pool", "Project", "ProjectMember", "Reservation", "Ruling", "SpecialDay",
]
