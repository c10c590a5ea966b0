"""What was seen of one card, as values to decide on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

MIB = 1 << 20
# Cards hold some memory for themselves, and a desktop a little more: below this nobody uses the card (I5, AT-06).
MEMORY_FLOOR = 300 * MIB
# Unix accounts below this belong to the system, 65534 is "nobody": whoever runs as one of them is not named by it.
FIRST_PERSON_UID = 1000
NOBODY_UID = 65_534
# What is older than so many periods does not tell the present (I1).
FRESH_PERIODS = 3


class Owner(StrEnum):
    """How surely the owner of a process is known (I3). Only the first two may lead to a sanction."""

    VERIFIED = "verified"
    RESOLVED = "resolved"
    AMBIGUOUS = "ambiguous"
    UNKNOWN = "unknown"


SURE = frozenset({Owner.VERIFIED, Owner.RESOLVED})
_LETTER = {Owner.VERIFIED: "v", Owner.RESOLVED: "r", Owner.AMBIGUOUS: "a", Owner.UNKNOWN: "u"}
_OWNER = {letter: owner for owner, letter in _LETTER.items()}


def owner_of(uid: int | None, members_by_uid: Mapping[int, int]) -> tuple[Owner, int | None]:
    """Who owns a process of this uid: how surely, and the member (None unless sure).

    Root and nobody name no person even where somebody entered them as an account; other system accounts only when mapped.
    """
    if uid is None:
        return Owner.UNKNOWN, None
    if uid in (0, NOBODY_UID):
        return Owner.AMBIGUOUS, None
    if (member := members_by_uid.get(uid)) is not None:
        return Owner.VERIFIED, member
    return (Owner.AMBIGUOUS if uid < FIRST_PERSON_UID else Owner.UNKNOWN), None


@dataclass(frozen=True)
class SeenProcess:
    """A process on a card. `started`: clock ticks since boot; `memory` in bytes; None = could not be read."""

    pid: int
    started: int | None
    uid: int | None
    memory: int | None
    kind: str  # C compute, G graphics, C+G both
    owner: Owner
    member_id: int | None

    @property
    def is_sure(self) -> bool:
        """Whether a member is known to own it (I3)."""
        return self.owner in SURE and self.member_id is not None

    @property
    def is_furniture(self) -> bool:
        """Graphics only and small or of unknown size: a desktop, not use of the card (AT-06)."""
        return self.kind == "G" and (self.memory is None or self.memory <= MEMORY_FLOOR)

    @property
    def may_prove(self) -> bool:
        """Whether it may stand in evidence against its owner: computes, and the owner is sure."""
        return self.kind != "G" and self.is_sure

    def packed(self) -> list[Any]:
        """The short JSON form that a sample keeps; memory in MiB."""
        memory = None if self.memory is None else round(self.memory / MIB)
        return [self.pid, self.started, self.uid, memory, self.kind, _LETTER[self.owner], self.member_id]

    @staticmethod
    def unpacked(row: Sequence[Any]) -> SeenProcess:
        """The process that `packed` wrote."""
        pid, started, uid, memory, kind, letter, member = row
        return SeenProcess(pid, started, uid, None if memory is None else memory * MIB, kind, _OWNER[letter], member)


@dataclass(frozen=True)
class Look:
    """One sample of one card as it is judged.

    `at` is the earlier of the host's and the server's clock: of two clocks that differ within tolerance, the one that is
    better for the person counts. `processes` None = could not be read. `problem` is the agent's code of a card that
    could not be read, or "".
    """

    at: datetime
    problem: str = ""
    utilization: int | None = None
    memory_used: int | None = None
    temperature: int | None = None
    processes: tuple[SeenProcess, ...] | None = None
    simulated: bool = False
    encoder: int | None = None
    decoder: int | None = None

    @property
    def is_readable(self) -> bool:
        """Whether it tells who is on the card."""
        return self.problem == "" and self.processes is not None

    def proof_against(self, members: Collection[int]) -> tuple[SeenProcess, ...]:
        """The processes that surely belong to one of these members and compute."""
        return tuple(one for one in self.processes or () if one.may_prove and one.member_id in members)

    @property
    def users(self) -> tuple[SeenProcess, ...]:
        """The processes that use the card, whoever owns them."""
        return tuple(one for one in self.processes or () if not one.is_furniture)

    @property
    def unsure(self) -> tuple[SeenProcess, ...]:
        """Those of them that nobody is known to own."""
        return tuple(one for one in self.users if not one.is_sure)

    def shows(self, members: frozenset[int]) -> bool:
        """Whether a process here surely belongs to one of these members."""
        return any(one.is_sure and one.member_id in members for one in self.processes or ())

    def holds_memory(self, baseline: int = 0) -> bool | None:
        """Whether more memory is taken than the card and a desktop take for themselves (I5); None = could not be read."""
        if self.memory_used is None or self.processes is None:
            return None
        desktop = sum(one.memory or 0 for one in self.processes if one.is_furniture)
        return self.memory_used - desktop > max(MEMORY_FLOOR, baseline + baseline // 10)

    @property
    def is_free(self) -> bool:
        """Whether it surely shows nobody on the card. Utilisation says nothing (I2)."""
        return self.is_readable and not self.users and self.holds_memory() is False

    @property
    def is_taken_unseen(self) -> bool:
        """Whether memory is taken and no process is seen: somebody is there whom nobody can name."""
        return self.is_readable and not self.users and self.holds_memory() is True

    @property
    def is_doubtful(self) -> bool:
        """Whether a process here may belong to anybody: then nobody can be said to be gone."""
        return not self.is_readable or any(
            not one.is_sure and not one.is_furniture for one in self.processes or ()
        )


@dataclass(frozen=True)
class Tenure:
    """That a member holds or held a card for `[start, end)`: what really was held, an early end included.

    `beside`: their collaborators, whose processes count as theirs (B4).
    """

    allocation_id: int
    reservation_id: int
    member_id: int
    start: datetime
    end: datetime
    beside: frozenset[int] = frozenset()

    @property
    def people(self) -> frozenset[int]:
        """Whose processes belong there: the holder's and the collaborators'."""
        return self.beside | {self.member_id}

    def holds_at(self, instant: datetime) -> bool:
        return self.start <= instant < self.end

    def staying(self, tenures: Iterable[Tenure], instant: datetime) -> frozenset[int]:
        """Those of its people who have had no right of their own to the card since it ended, by `instant`: what runs of the
        others belongs to a later tenure."""
        followed = {
            member
            for one in tenures
            if one.allocation_id != self.allocation_id and self.end <= one.start <= instant
            for member in one.people
        }
        return self.people - followed


def is_fresh(at: datetime, now: datetime, period: timedelta) -> bool:
    """Whether a sample of `at` still tells the present."""
    return now - at <= FRESH_PERIODS * period
