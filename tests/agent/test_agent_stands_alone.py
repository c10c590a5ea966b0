"""The agent goes to hosts which have neither Django nor a recent Python."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "labgpu/agent").glob("*.py"))


def loaded_by(*modules: str) -> set[str]:
    program = f"import json, sys, {', '.join(modules)}; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, timeout=60)
    return set(json.loads(run.stdout))


def foreign(loaded: set[str]) -> set[str]:
    """The top-level packages among ``loaded`` that do not come with Python."""
    nothing = loaded_by("json")  # a virtual environment may load some of its own at start
    return {name.split(".")[0] for name in loaded - nothing} - set(sys.stdlib_module_names) - {"__mp_main__"}


def test_the_agent_loads_the_standard_library_and_pynvml_only() -> None:
    loaded = loaded_by(*(f"labgpu.agent.{path.stem}" for path in MODULES if path.stem != "__init__"))
    assert foreign(loaded) == {"labgpu", "pynvml"}
    assert {name for name in loaded if name.startswith("labgpu")} == {
        "labgpu",
        "labgpu.agent",
        *(f"labgpu.agent.{path.stem}" for path in MODULES if path.stem != "__init__"),
    }


def test_the_simulator_loads_the_agent_and_nothing_of_the_site() -> None:
    loaded = loaded_by("labgpu.simulator.__main__", "labgpu.simulator.identities")
    assert foreign(loaded) == {"labgpu", "pynvml"}
    assert {".".join(name.split(".")[:2]) for name in loaded if name.startswith("labgpu.")} == {
        "labgpu.agent",
        "labgpu.simulator",
    }


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_the_agent_is_written_in_python_3_9(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"), feature_version=(3, 9))
    if path.stem == "__init__":
        return
    # Newer spellings of types are fine in annotations only as long as nothing evaluates them.
    imported = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    assert [name.name for node in imported for name in node.names] == ["annotations"]
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Match)
        if isinstance(node, ast.Call):
            assert not {"slots", "kw_only", "strict"} & {keyword.arg for keyword in node.keywords}
        if isinstance(node, ast.ImportFrom) and node.module == "datetime":
            assert "UTC" not in {name.name for name in node.names}


def test_only_one_module_imports_the_binding() -> None:
    importers = []
    for path in sorted((ROOT / "labgpu").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            if "pynvml" in names:
                importers.append(path.relative_to(ROOT).as_posix())
    assert importers == ["labgpu/agent/nvml.py"]
