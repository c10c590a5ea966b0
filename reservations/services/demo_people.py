"""The invented people and cards of the demonstration lab. Any likeness to a real lab is chance."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Person:
    """One invented member. `eagerness`: how much they book. No language of their own: the visitor's browser decides."""

    name: str
    account: str
    role: str
    eagerness: int
    is_arbiter: bool = False
    is_admin: bool = False

    @property
    def email(self) -> str:
        return f"{self.account}@lab.example"


PEOPLE = (
    Person("高雨桐", "gao", "staff", 2, is_arbiter=True, is_admin=True),
    Person("Ingrid Solheim", "solheim", "staff", 2, is_arbiter=True),
    Person("林悦", "lin", "phd", 9),
    Person("周子涵", "zhou", "phd", 8),
    Person("陈思远", "chen", "phd", 8),
    Person("Emma Larsen", "larsen", "phd", 7),
    Person("Lucas Moreau", "moreau", "phd", 7),
    Person("王可欣", "wang", "master", 6),
    Person("赵一鸣", "zhao", "master", 6),
    Person("Priya Nair", "nair", "master", 6),
    Person("吴昊天", "wu", "undergraduate", 3),
    Person("刘梓萱", "liu", "undergraduate", 3),
)
FIRST_UID = 2001


@dataclass(frozen=True)
class DemoProject:
    """An invented project: the accounts of its advisor and of its members."""

    name: str
    advisor: str
    members: tuple[str, ...]


PROJECTS = (
    DemoProject("视觉大模型", "gao", ("lin", "chen", "wang", "wu")),
    DemoProject("Robot Learning", "solheim", ("zhou", "larsen", "moreau", "nair", "liu")),
    DemoProject("医学影像", "gao", ("zhao", "chen", "nair")),
)


@dataclass(frozen=True)
class DemoHost:
    """A simulated host: name, what its cards are called, and what one of them answers when idle."""

    name: str
    model: str
    pool: str
    memory_total: int
    baseline: int
    power_idle_mw: int
    power_limit_mw: int
    cards: int = 4

    def uuid(self, index: int) -> str:
        """A stable identity of the form NVML gives."""
        digest = hashlib.sha256(f"demo {self.name} {index}".encode()).hexdigest()
        return f"GPU-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"

    def bus_id(self, index: int) -> str:
        return f"00000000:{0x17 + 0x1A * index:02X}:00.0"


HOSTS = (
    DemoHost("demo-a", "NVIDIA A100-SXM4-80GB", "A100 80 GB", 81_920 * MIB, 7 * MIB, 62_000, 400_000),
    DemoHost("demo-b", "NVIDIA GeForce RTX 4090", "RTX 4090", 24_564 * MIB, 12 * MIB, 18_000, 450_000),
)
