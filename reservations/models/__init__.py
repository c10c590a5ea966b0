"""The ledger's tables."""

from .audit import AuditEntry
from .booking import Allocation, FormerAllocation, IdempotencyKey, LedgerEntry, Reservation
from .cases import Case, Ruling
from .conduct import Demerit
from .inventory import CardState, Gpu, Host, Lab, Pool, SpecialDay
from .outbox import KeptMail, Notification
from .people import HostAccount, Invite, Member

__all__ = [
    "Allocation", "AuditEntry", "CardState", "Case", "Demerit", "FormerAllocation", "Gpu", "Host", "HostAccount",
    "IdempotencyKey", "Invite", "KeptMail", "Lab", "LedgerEntry", "Member", "Notification", "Pool", "Reservation",
    "Ruling", "SpecialDay",
]
