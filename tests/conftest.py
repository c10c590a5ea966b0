"""What all tests share: which database, the browser, and the guard that nothing goes wrong unseen."""

import logging
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import Lab

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
AGAIN = bool(os.environ.get("TEST_AGAIN"))  # the second run of `make test`: on PostgreSQL, after all has run on SQLite
OURS = ("django", "celery", "reservations", "monitoring", "labgpu")
NEEDS_DATABASE = {"db", "transactional_db", "django_db_setup", "live_server", "fresh_database_url", "database_env"}
NO_BROWSER = "SKIP_E2E=1: the browser tests were left out on request"
CHROMIUM_FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("CI") and os.environ.get("SKIP_E2E"):
        raise pytest.UsageError("CI never leaves out the browser tests: unset SKIP_E2E and install chromium.")
    from reservations.management.commands.compile_translations import compile_one, forget_read

    # A fresh checkout has no texts compiled, tests read Chinese pages, and Django has read what there was by now.
    compiled = [compile_one(texts) for texts in (ROOT / "locale").rglob("*.po")]
    if any(compiled):
        forget_read()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept, left_out = [], []
    for item in items:
        e2e = item.path.is_relative_to(ROOT / "tests" / "e2e")
        if e2e:
            item.add_marker(pytest.mark.e2e)
            if os.environ.get("SKIP_E2E"):
                item.add_marker(pytest.mark.skip(reason=NO_BROWSER))
        if any(item.path.is_relative_to(ROOT / "tests" / folder) for folder in ("concurrency", "faults")):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("shared_data") and not SHARED.is_dir():
            item.add_marker(pytest.mark.skip(reason=f"needs the recorded data, which is not beside this checkout ({SHARED})"))
        again = AGAIN and not item.get_closest_marker("both")
        once = e2e or item.get_closest_marker("once") or not _needs_database(item)
        (left_out if again and once else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    # They mostly wait. First in the list, they all go to one process, beside which the others keep the cores busy; at the end
    # no process works alone.
    items[:] = sorted(kept, key=lambda item: item.get_closest_marker("slow") is None)


def _needs_database(item: pytest.Item) -> bool:
    if item.get_closest_marker("django_db"):
        return True
    return bool(NEEDS_DATABASE.intersection(getattr(item, "fixturenames", ())))


# --- the guard ------------------------------------------------------------------------------------------------------
class _Keep(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.name.split(".")[0] in OURS:
            self.records.append(record)


def _is_a_client_error(record: logging.LogRecord) -> bool:
    """Django's own line for an answer 4xx: that answer is what the test looks at."""
    return record.name.startswith("django.") and not record.exc_info and 400 <= getattr(record, "status_code", 0) < 500


class ExpectLogs:
    """Call it with a piece of each text that this test makes the product log. A text that never comes fails the test."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, *texts: str) -> None:
        assert all(text.strip() for text in texts), "name the text that is expected"
        self.texts.extend(texts)


@pytest.fixture
def expect_logs() -> ExpectLogs:
    return ExpectLogs()


@pytest.fixture(autouse=True)
def _nothing_goes_wrong_unseen(request: pytest.FixtureRequest) -> Iterator[None]:
    """A logged warning, error or exception of ours fails the test in which it is logged."""
    expected: list[str] = []
    if "expect_logs" in request.fixturenames:
        expected = request.getfixturevalue("expect_logs").texts
    keep = _Keep()
    root = logging.getLogger()
    root.addHandler(keep)
    try:
        yield
    finally:
        root.removeHandler(keep)
    said = [(record, f"{record.levelname} {record.name}: {record.getMessage()}") for record in keep.records]
    never = [text for text in expected if not any(text in line for _, line in said)]
    unseen = [
        _with_traceback(record, line)
        for record, line in said
        if not _is_a_client_error(record) and not any(text in line for text in expected)
    ]
    assert not unseen, "logged during the test:\n" + "\n".join(unseen)
    assert not never, f"expected in the log, but never logged: {never}"


def _with_traceback(record: logging.LogRecord, line: str) -> str:
    if record.exc_info and record.exc_info[0] is not None:
        return f"{line}\n{logging.Formatter().formatException(record.exc_info)}"
    return line


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    """Sign-in limits count in the cache: one test's failed sign-ins must not lock out the next one's."""
    yield
    from django.core.cache import cache

    cache.clear()


# --- databases ------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """The test database; what is in it now is what every test that commits must leave."""
    from tests import emptying

    with django_db_blocker.unblock():
        emptying.remember()
    emptying.install()


@pytest.fixture
def database_env(transactional_db: None) -> Callable[[], dict[str, str]]:
    """The environment for a process of the test's own that works on this test's database."""
    from django.db import connection

    def env() -> dict[str, str]:
        name = str(connection.settings_dict["NAME"])
        return {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "TEST_DATABASE_NAME": name}

    return env


@pytest.fixture
def fresh_database_url(tmp_path: Path) -> Iterator[str]:
    """A DATABASE_URL of an empty database of the kind under test, for tests that start the product itself."""
    if os.environ.get("TEST_DATABASE", "sqlite") == "sqlite":
        yield f"sqlite:///{tmp_path / 'fresh.sqlite3'}"
        return
    import psycopg

    host, name = os.environ["TEST_POSTGRES_HOST"], f"fresh_{secrets.token_hex(6)}"
    with psycopg.connect(host=host, user="postgres", dbname="postgres", autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        try:
            yield f"postgres://postgres@/{host}/{name}"
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


# --- the product itself ---------------------------------------------------------------------------------------------
@pytest.fixture
def start_lab(tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    """Starts the real supervisor with all parts (see tests/lab.py); whatever is left of it is ended after the test."""
    started: list[Lab] = []

    def start(*arguments: str, data_dir: Path | None = None, port: int | None = None, **env: str) -> Lab:
        started.append(Lab(data_dir or tmp_path / "lab", *arguments, env=env, port=port))
        return started[-1]

    yield start
    for lab in started:
        lab.clean_up()


# --- the browser ----------------------------------------------------------------------------------------------------
@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """Debian's chromium; nothing is fetched. A missing browser fails the tests that need it, unless SKIP_E2E=1."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.fail("No browser: install chromium (and fonts-noto-cjk), or set SKIP_E2E=1.", pytrace=False)
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    return {**browser_type_launch_args, "executable_path": chromium, "args": [*as_root, *CHROMIUM_FLAGS]}
