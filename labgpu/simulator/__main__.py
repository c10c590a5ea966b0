"""``python -m labgpu.simulator --host NAME --scenario FILE``: the agent's reader, unchanged, on a simulated host."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from labgpu.agent import reader
from labgpu.simulator.double import Double, installed
from labgpu.simulator.fakeproc import FakeProc
from labgpu.simulator.scenario import BadScenario, ScenarioFile


def main(argv: Sequence[str] | None = None) -> int:
    """Answer like ``labgpu.agent.reader`` until standard input ends; 2 when there is no scenario to start with."""
    parser = argparse.ArgumentParser(prog="labgpu.simulator", description="Play a scenario to the agent's reader.")
    parser.add_argument("--host", required=True, help="the host's name in LabGPU")
    parser.add_argument("--scenario", required=True, type=Path, help="a JSON file, read again whenever it changes")
    options = parser.parse_args(argv)
    try:
        scenario = ScenarioFile(options.scenario)
    except (OSError, BadScenario) as error:
        sys.stderr.write(f"labgpu.simulator: {options.scenario}: {error}\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="labgpu-simulator-") as root:
        double = Double(scenario.current, on_look=FakeProc(Path(root)).follow)
        with installed(double):
            return reader.main(["--host", options.host], proc_root=root, simulated=True)


if __name__ == "__main__":
    sys.exit(main())
