"""How the parts are started: with what, and without what."""

import stat
from pathlib import Path

import pytest

from labgpu.run import parts
from labgpu.run.plan import Plan, read_plan
from labgpu.run.trouble import Trouble

ENV = {"PATH": "/bin", "DATABASE_URL": "postgres://x", "SECRET_KEY": "s", "EMAIL_URL": "smtp://x", "DJANGO_SETTINGS_MODULE": "m"}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return read_plan({"DATA_DIR": str(tmp_path), "LABGPU_HOST": "alpha"})


def scenario(plan: Plan, *names: str) -> None:
    plan.scenario_dir.mkdir(exist_ok=True)
    for name in names:
        (plan.scenario_dir / name).write_text("{}")


def test_the_card_worker_gets_no_key_to_the_ledger(plan: Plan) -> None:
    env = parts.cards(plan, parts.base_env(plan, ENV, "redis://broker/0")).env
    assert not {"DATABASE_URL", "SECRET_KEY", "EMAIL_URL", "DJANGO_SETTINGS_MODULE"} & set(env)
    assert (env["REDIS_URL"], env["LABGPU_HOSTS"]) == ("redis://broker/0", "alpha")


def test_without_scenarios_the_card_worker_reads_this_machine(plan: Plan) -> None:
    part = parts.cards(plan, {"SCENARIO_DIR": "/somewhere/else"})
    assert part.command[part.command.index("-Q") + 1] == "gpu.alpha"
    assert "SCENARIO_DIR" not in part.env


def test_simulated_hosts_take_the_place_of_this_machine(plan: Plan) -> None:
    scenario(plan, "gamma.json", "beta.json", ".half-written.json", "notes.txt")
    part = parts.cards(plan, {})
    assert part.command[part.command.index("-Q") + 1] == "gpu.beta,gpu.gamma"
    assert part.env["LABGPU_HOSTS"] == "beta,gamma"
    assert part.env["SCENARIO_DIR"] == str(plan.scenario_dir)


def test_no_part_but_the_card_worker_reads_a_card_queue(plan: Plan) -> None:
    for part in (parts.worker(plan, {}), parts.beat(plan, {}), parts.web(plan, {})):
        assert not any(argument.startswith("gpu.") for argument in part.command)


def test_the_site_listens_on_this_machine_only_unless_told(plan: Plan) -> None:
    assert "127.0.0.1:8000" in parts.web(plan, {}).command
    assert "[::]:80" in parts.web(read_plan({"HOST": "::", "PORT": "80"}), {}).command


def test_the_brokers_address_survives_spaces_and_marks_in_the_folders_name(tmp_path: Path) -> None:
    from kombu.utils.url import url_to_parts

    folder = tmp_path / "a b%20?#"
    broker = parts.embedded_broker(read_plan({"DATA_DIR": str(folder)}), ENV)
    assert "/" + url_to_parts(broker.url).path.lstrip("/") == str(broker.socket_path)


def test_a_path_too_long_for_a_socket_gets_a_short_one_of_its_own(tmp_path: Path) -> None:
    long = read_plan({"DATA_DIR": str(tmp_path / ("a-long-name-" * 9))})
    folder = parts.embedded_broker(long, ENV).socket_path.parent
    try:
        assert len(str(folder)) < 60
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert parts.embedded_broker(long, ENV).socket_path.parent == folder
        folder.rmdir()
        folder.symlink_to(tmp_path)
        with pytest.raises(Trouble, match="belongs to somebody else"):
            parts.embedded_broker(long, ENV)
    finally:
        folder.unlink() if folder.is_symlink() else folder.rmdir()
