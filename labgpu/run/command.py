"""`python -m labgpu.run [demo]`: checks, prepares, starts all parts, watches over them, and stops them together."""

import argparse
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from labgpu.run import parts
from labgpu.run.plan import BASE_DIR, Plan, check_port_free, lock_data_dir, make_data_dir, make_secret_key, read_plan
from labgpu.run.supervisor import Child, Keeper, end_with_parent
from labgpu.run.trouble import Trouble

TICK_S = 0.1
SCENARIOS_EVERY_S = 1.0
BROKER_START_S = 15.0
SLOW_START_S = 30.0
IMPATIENCE_S = 0.5
ONLY: dict[str, Callable[[Plan, dict[str, str]], parts.Part]] = {
    "web": parts.web,
    "worker": parts.worker,
    "cards": parts.cards,
    "beat": parts.beat,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs LabGPU until it is told to stop. 0 after a wanted stop, 1 when a vital part was given up, 2 for a Trouble."""
    parser = argparse.ArgumentParser(prog="python -m labgpu.run", description="Run LabGPU: site, workers, clock and broker.")
    parser.add_argument("what", nargs="?", choices=["lab", "demo"], default="lab", help="your lab, or a simulated one to try")
    parser.add_argument("--verbose", action="store_true", help="show the parts' output here instead of in their log files")
    parser.add_argument(
        "--only", choices=["prepare", *ONLY], help="run one part in the foreground; for containers, which run each by itself"
    )
    parser.add_argument("--end-with-parent", action="store_true", help="end when the process that started this one ends")
    asked = parser.parse_args(argv)
    os.umask(0o077)
    if asked.end_with_parent:
        end_with_parent()
    try:
        plan = read_plan(os.environ, demo=asked.what == "demo", verbose=asked.verbose)
        if asked.only:
            return run_only(plan, asked.only)
        with _Signals() as signals:
            return Run(plan, signals).run()
    except Trouble as trouble:
        say(str(trouble), file=sys.stderr)
        return 2


def say(line: str, *, file: Any = None) -> None:
    print(f"labgpu: {line}", file=file or sys.stdout, flush=True)


def run_only(plan: Plan, name: str) -> int:
    """Becomes the one part, or prepares and ends. Needs REDIS_URL: a broker of its own would serve no other part."""
    if plan.broker_url is None and name != "prepare":
        raise Trouble("A part that runs by itself needs the broker's address: give REDIS_URL=redis://HOST:6379/0.")
    env = parts.base_env(plan, os.environ, plan.broker_url or "")
    if name != "cards":
        make_data_dir(plan.data_dir)
        if not os.environ.get("SECRET_KEY"):
            make_secret_key(plan.data_dir)
    if name == "prepare":
        if not plan.broker_url:
            env.pop("REDIS_URL")
        for line in _prepare(plan, env, stopping=lambda: False):
            say(line)
        return 0
    part = ONLY[name](plan, env)
    os.chdir(BASE_DIR)
    os.execvpe(part.command[0], part.command, dict(part.env))
    raise AssertionError("execvpe does not return")


class _Signals:
    """The wishes to stop. A second Ctrl-C is impatience and ends all parts at once; a second TERM is none: `make`, a service
    manager and the kernel each send one when they stop the same run."""

    def __init__(self) -> None:
        self.stopping = False
        self.hurry = False
        self._since = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "_Signals":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self.stopping:
            self.stopping, self._since = True, now
        elif number == signal.SIGINT and now - self._since > IMPATIENCE_S:
            self.hurry = True


@dataclass
class Run:
    """One run of all parts."""

    plan: Plan
    signals: _Signals
    keepers: list[Keeper] = field(default_factory=list)
    ways_in: list[str] = field(default_factory=list)

    def run(self) -> int:
        plan = self.plan
        make_data_dir(plan.data_dir)
        lock = lock_data_dir(plan.data_dir, plan.site_url)
        embedded: parts.EmbeddedBroker | None = None
        try:
            check_port_free(plan.bind_host, plan.port)
            if not os.environ.get("SECRET_KEY"):
                make_secret_key(plan.data_dir)
            broker_url = plan.broker_url
            if broker_url is None:
                embedded = parts.embedded_broker(plan, os.environ)
                broker_url = embedded.url
                self._keep(embedded.part)
            env = parts.base_env(plan, os.environ, broker_url)
            say(f"Preparing {plan.data_dir} …")
            self.ways_in = _prepare(plan, env, stopping=lambda: self.signals.stopping)
            if embedded is not None:
                self._wait_for_broker(embedded)
            for part in (parts.web(plan, env), parts.worker(plan, env), parts.cards(plan, env), parts.beat(plan, env)):
                if not self.signals.stopping:
                    self._keep(part)
            return self._watch(env)
        finally:
            self._stop_all()
            if embedded is not None and embedded.socket_path.parent.parent != plan.data_dir:
                shutil.rmtree(embedded.socket_path.parent, ignore_errors=True)  # the short folder under /tmp
            lock.close()

    def _keep(self, part: parts.Part) -> None:
        log = None if self.plan.verbose else self.plan.log_dir / f"{part.name}.log"
        keeper = Keeper(part, log, say)
        self.keepers.append(keeper)
        try:
            keeper.start()
        except OSError as error:
            raise Trouble(f"The {part.called} cannot be started ({error.strerror}): check {part.command[0]}.") from error

    def _wait_for_broker(self, embedded: parts.EmbeddedBroker) -> None:
        """Until it answers; a broker that does not answer now would keep every worker in a loop without a word."""
        end = time.monotonic() + BROKER_START_S
        keeper = self.keepers[0]
        while not self.signals.stopping:
            if broker_answers(str(embedded.socket_path)):
                return
            if time.monotonic() > end or keeper.child is None or keeper.child.ended():
                where = f"its log is {keeper.log}" if keeper.log else "its last words are above"
                raise Trouble(f"The broker does not start: {where}; or give a running one's address with REDIS_URL.")
            time.sleep(0.03)

    def _watch(self, env: dict[str, str]) -> int:
        """Until a wish to stop or the loss of a vital part."""
        began = time.monotonic()
        announced = warned = False
        hosts = parts.simulated_hosts(self.plan)
        look_at = began
        while not self.signals.stopping:
            for keeper in self.keepers:
                keeper.tick()
                if keeper.given_up and keeper.part.vital:
                    return 1
            now = time.monotonic()
            if not announced and healthy(self.plan):
                announced = True
                self._announce()
            if not announced and not warned and now - began > SLOW_START_S:
                warned = True
                say(f"The site does not answer yet; the logs are in {self.plan.log_dir}.")
            if now >= look_at:
                look_at = now + SCENARIOS_EVERY_S
                hosts = self._follow_scenarios(hosts, env)
            time.sleep(TICK_S)
        return 0

    def _follow_scenarios(self, before: tuple[str, ...], env: dict[str, str]) -> tuple[str, ...]:
        """The card worker with another set of queues when simulated hosts came or went."""
        hosts = parts.simulated_hosts(self.plan)
        if hosts != before:
            say(f"Simulated hosts: {', '.join(hosts)}." if hosts else "No simulated hosts any more.")
            next(keeper for keeper in self.keepers if keeper.part.name == "cards").replace(parts.cards(self.plan, env))
        return hosts

    def _announce(self) -> None:
        say(f"LabGPU runs at {self.plan.site_url}")
        for line in self.ways_in:
            say(line)
        simulated = parts.simulated_hosts(self.plan)
        if simulated:
            say(f"The cards are simulated ({', '.join(simulated)}).")
        elif not parts.has_nvidia_driver():
            say("No NVIDIA driver on this machine, so no card is read here: the first page offers a demo lab or adding a host.")

    def _stop_all(self) -> None:
        if self.keepers:
            say("Stopping …")
        for keeper in reversed(self.keepers):
            keeper.stop(hurry=lambda: self.signals.hurry)


def _prepare(plan: Plan, env: dict[str, str], *, stopping: Callable[[], bool]) -> list[str]:
    """Runs the preparation; how to get in, where there is anything to say: a one-time set-up link, the demo's password.
    Raises Trouble."""
    log = plan.log_dir / "prepare.log"
    log.unlink(missing_ok=True)
    child = Child(parts.prepare(plan, env), log, stdout=subprocess.PIPE)
    while not child.ended():
        if stopping():
            child.stop()
            return []
        time.sleep(0.02)
    assert child.process.stdout is not None  # asked for above
    # The answer is one short line, so the pipe held it all while the child ran.
    said = child.process.stdout.read().decode()
    child.process.stdout.close()
    code = child.bury()
    answer: dict[str, str | None] = {}
    for line in said.splitlines():
        if line.startswith("{"):
            answer = json.loads(line)
    if code == 0:
        link, sign_in = answer.get("setup_link"), answer.get("sign_in")
        return [*([f"Set it up here (one time): {link}"] if link else []), *([sign_in] if sign_in else [])]
    last = (log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["no reason was given"])[-1]
    raise Trouble(answer.get("trouble") or f"The preparation failed: {last} (the whole of it is in {log})")


def broker_answers(socket_path: str) -> bool:
    """Whether a server behind this unix socket answers PING."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(1)
            client.connect(socket_path)
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
    except OSError:
        return False


def healthy(plan: Plan) -> bool:
    """Whether the site answers 200 to /health."""
    connection = http.client.HTTPConnection(*plan.health_address, timeout=2)
    try:
        connection.request("GET", "/health", headers={"Host": "127.0.0.1"})
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
