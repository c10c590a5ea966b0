"""Settings of the tests: those of the product, on a database and a data folder of their own, and stricter.

TEST_DATABASE=sqlite (default) or postgres; the latter needs TEST_POSTGRES_HOST, which `python -m tests.postgres` sets.
"""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

# The caller's own installation must not leak into the tests.
for _name in (
    "DATABASE_URL",
    "REDIS_URL",
    "SITE_URL",
    "EMAIL_URL",
    "EMAIL_FROM",
    "BEHIND_PROXY",
    "PROXY_COUNT",
    "ALLOWED_HOSTS",
    "DEBUG",
    "LANGUAGE_CODE",
    "LABGPU_HOST",
    "LABGPU_HOSTS",
    "SCENARIO_DIR",
    "SWEEP_SECONDS",
    "SAMPLE_SECONDS",
    "READ_DEADLINE_SECONDS",
    "LOG_LEVEL",
    "HOST",
    "PORT",
):
    os.environ.pop(_name, None)
os.environ["SECRET_KEY"] = "only-for-tests"
# The browser's driver runs an event loop in the test's thread, where Django otherwise refuses the database.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
if "TEST_DATA_DIR" not in os.environ:  # the workers of one run share the folder that its first process made
    os.environ["TEST_DATA_DIR"] = tempfile.mkdtemp(prefix="labgpu-tests-")
    _owner = os.getpid()

    def _remove() -> None:
        if os.getpid() == _owner:
            shutil.rmtree(os.environ["TEST_DATA_DIR"], ignore_errors=True)

    atexit.register(_remove)
os.environ["DATA_DIR"] = os.environ["TEST_DATA_DIR"]

from labgpu.settings import *  # noqa: E402, F403
from labgpu.settings import BASE_DIR, DATA_DIR, DATABASES, SQLITE_OPTIONS, STORAGES, TEMPLATES  # noqa: E402

_which = os.environ.get("TEST_DATABASE", "sqlite")
if _which == "sqlite":
    # A file, not memory: WAL and the locks between processes are part of what is tested.
    _database: dict[str, Any] = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(DATA_DIR / "tests.sqlite3"),
        "OPTIONS": SQLITE_OPTIONS,
        "TEST": {"NAME": str(DATA_DIR / "tests.sqlite3")},
    }
elif _which == "postgres":
    if not os.environ.get("TEST_POSTGRES_HOST"):
        raise ImproperlyConfigured("TEST_DATABASE=postgres needs a server: run `python -m tests.postgres pytest …`.")
    _database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "labgpu",
        "USER": "postgres",
        "HOST": os.environ["TEST_POSTGRES_HOST"],
    }
else:
    raise ImproperlyConfigured(f"TEST_DATABASE is {_which!r}: give sqlite or postgres.")
# A process that a test starts beside itself works on that test's database (fixture `database_env`).
if os.environ.get("TEST_DATABASE_NAME"):
    _database["NAME"] = os.environ["TEST_DATABASE_NAME"]
# A connection kept open by a server thread would keep PostgreSQL from dropping the test database.
DATABASES["default"] = {**_database, "CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": False}

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
(DATA_DIR / "static").mkdir(exist_ok=True)  # WhiteNoise warns of a missing folder, and a warning fails a test


class UnresolvedVariable(Exception):
    """A template of ours named something that its context does not have."""


class _FailsInOurTemplates(str):
    """Django asks whether this text is empty when a variable could not be resolved. For our templates that is an error, for
    those of Django and allauth the answer is Django's own: yes, empty."""

    __slots__ = ()

    def __bool__(self) -> bool:
        _fail_in_our_template()
        return False

    def __contains__(self, part: object) -> bool:  # blocktranslate asks this instead
        _fail_in_our_template()
        return False


def _fail_in_our_template() -> None:
    variable = "?"
    frame = sys._getframe(2)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if variable == "?" and frame.f_code.co_name == "resolve":
            variable = str(getattr(owner, "var", "?"))
        origin = getattr(owner, "origin", None)
        if origin is not None and hasattr(owner, "token"):  # the innermost node that is being rendered
            if Path(str(origin.name)).is_relative_to(BASE_DIR / "templates"):
                raise UnresolvedVariable(f"{variable} in {origin.name}")
            return
        frame = frame.f_back  # type: ignore[assignment]


TEMPLATES[0]["OPTIONS"]["string_if_invalid"] = _FailsInOurTemplates()  # type: ignore[index]
