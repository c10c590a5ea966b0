"""Cards as real ones introduce themselves: name, memory, and what each model does not tell (after nvidia-smi dumps)."""

from __future__ import annotations

import hashlib
from typing import Any

MIB = 1 << 20

# Consumer cards tell no serial number, those for servers do. Memory is what the driver tells, not what the box says.
_MODELS: dict[str, dict[str, Any]] = {
    "rtx4090": {
        "name": "NVIDIA GeForce RTX 4090",
        "memory_total": 24564 * MIB,
        "baseline": 12 * MIB,
        "temperature": 36,
        "power_idle_mw": 18_000,
        "power_limit_mw": 450_000,
        "serial": False,
    },
    "rtx3090": {
        "name": "NVIDIA GeForce RTX 3090",
        "memory_total": 24576 * MIB,
        "baseline": 1 * MIB,
        "temperature": 37,
        "power_idle_mw": 27_230,
        "power_limit_mw": 350_000,
        "serial": False,
    },
    "a100-80": {
        "name": "NVIDIA A100-SXM4-80GB",
        "memory_total": 81920 * MIB,
        "baseline": 7 * MIB,
        "temperature": 29,
        "power_idle_mw": 62_000,
        "power_limit_mw": 400_000,
        "serial": True,
    },
    "h100-80": {
        "name": "NVIDIA H100 80GB HBM3",
        "memory_total": 81559 * MIB,
        "baseline": 0,
        "temperature": 41,
        "power_idle_mw": 69_850,
        "power_limit_mw": 700_000,
        "serial": True,
    },
    "l40s": {
        "name": "NVIDIA L40S",
        "memory_total": 46068 * MIB,
        "baseline": 3 * MIB,
        "temperature": 33,
        "power_idle_mw": 35_000,
        "power_limit_mw": 350_000,
        "serial": True,
    },
    "t4": {
        "name": "Tesla T4",
        "memory_total": 15360 * MIB,
        "baseline": 5 * MIB,
        "temperature": 40,
        "power_idle_mw": 9_800,
        "power_limit_mw": 70_000,
        "serial": True,
    },
    # Power is N/A on small desktop cards, though everything else is told.
    "gtx1050": {
        "name": "NVIDIA GeForce GTX 1050",
        "memory_total": 4096 * MIB,
        "baseline": 2 * MIB,
        "temperature": 44,
        "power_idle_mw": 0,
        "power_limit_mw": 75_000,
        "serial": False,
        "not_supported": ["power"],
    },
    # The oldest kind still met: it tells its memory and temperature and nothing about its use.
    "gt730": {
        "name": "GeForce GT 730",
        "memory_total": 2001 * MIB,
        "baseline": 120 * MIB,
        "temperature": 45,
        "power_idle_mw": 0,
        "power_limit_mw": 38_000,
        "serial": False,
        "not_supported": ["utilization", "encoder", "decoder", "power", "processes"],
    },
}

MODELS = tuple(_MODELS)


def card(model: str, number: int, host: str = "") -> dict[str, Any]:
    """A scenario's card: the ``number``-th (from 0) of ``host``, always the same. ``model`` is one of ``MODELS``."""
    facts = dict(_MODELS[model])
    digest = hashlib.sha256(f"{host}/{model}/{number}".encode()).hexdigest()
    groups = (digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32])
    has_serial = facts.pop("serial")
    return {
        "uuid": "GPU-" + "-".join(groups),
        "bus_id": f"00000000:{number + 1:02X}:00.0",
        "serial": f"{int(digest[32:44], 16) % 10**13:013d}" if has_serial else None,
        "not_supported": [],
        "faults": [],
        **facts,
    }
