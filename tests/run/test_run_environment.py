"""The bootstrap of `make`: what it installs when, and its one sentence when it cannot."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.lab import ROOT

FILE = ROOT / "labgpu" / "run" / "environment.py"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The bootstrap in an empty checkout, with `called` noting the lock of each installation in place of installing."""
    spec = importlib.util.spec_from_file_location("environment_under_test", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in module.LOCKS.values():
        (tmp_path / name).write_text(name)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    module.called = []
    monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr(module, "VENV", str(tmp_path / ".venv"))
    monkeypatch.setattr(module, "STAMP", str(tmp_path / ".venv" / "stamp"))
    monkeypatch.setattr(module, "read_version", lambda env: module.UV_VERSION)
    monkeypatch.setattr(module, "call", lambda command, what, env: module.called.append(command[-1]))
    return module


def test_installs_once_and_again_when_the_lock_changes(checkout: ModuleType, tmp_path: Path) -> None:
    checkout.ensure("run")
    checkout.ensure("run")
    assert checkout.called == ["requirements.lock"]
    (tmp_path / "requirements.lock").write_text("another")
    checkout.ensure("run")
    assert checkout.called == ["requirements.lock"] * 2


def test_running_never_takes_the_developers_tools_away(checkout: ModuleType, tmp_path: Path) -> None:
    checkout.ensure("run")
    checkout.ensure("dev")
    checkout.ensure("run")
    assert checkout.called == ["requirements.lock", "requirements-dev.lock"]
    (tmp_path / "requirements-dev.lock").write_text("another")
    checkout.ensure("run")
    assert checkout.called[2:] == ["requirements-dev.lock"]


def test_an_interrupted_installation_is_done_again(checkout: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise SystemExit("labgpu: no network")

    with monkeypatch.context() as patch:
        patch.setattr(checkout, "call", broken)
        with pytest.raises(SystemExit):
            checkout.ensure("dev")
    checkout.ensure("run")
    assert checkout.called == ["requirements-dev.lock"]


def test_going_back_to_the_lock_before_an_interrupted_one_installs_again(
    checkout: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checkout.ensure("run")
    (tmp_path / "requirements.lock").write_text("another")
    with monkeypatch.context() as patch:
        patch.setattr(checkout, "call", lambda *_: sys.exit("labgpu: no network"))
        with pytest.raises(SystemExit):
            checkout.ensure("run")
    (tmp_path / "requirements.lock").write_text("requirements.lock")
    checkout.ensure("run")
    assert checkout.called == ["requirements.lock"] * 2


def _started(code: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("start", ["run_path('labgpu/run/environment.py'", "run_module('labgpu.run'"])
def test_an_old_python_gets_one_sentence(start: str) -> None:
    code, said = _started(f"import runpy, sys; sys.version_info = (3, 9, 2); runpy.{start}, run_name='__main__')")
    assert code == 1
    assert said.count("\n") == 1
    assert said.startswith("labgpu: this is Python 3.9, LabGPU needs 3.11 or newer: install it")


def test_a_python_without_venv_gets_one_sentence(checkout: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(checkout.sys, "executable", "/bin/false")
    with pytest.raises(SystemExit, match="install its venv module"):
        checkout.make_venv(str(tmp_path / "venv"), {})


def test_make_without_python_gets_one_sentence() -> None:
    command = ["make", "--no-print-directory", "run", "PYTHON=no-such-python"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0
    assert done.stderr.splitlines()[0] == "labgpu: no-such-python was not found: install Python 3.11 or newer."
