"""Control of the guard in tests/conftest.py: each of these must fail, or the guard guards nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.lab import ROOT

GUARDED = '''
import logging, warnings
import pytest
from django.template import Context, Engine, Template
from django.utils import timezone


def test_fails_a_warning_of_ours():
    logging.getLogger("reservations.tasks").warning("odd")


def test_fails_an_exception_logged_by_anybody():
    try:
        1 / 0
    except ZeroDivisionError:
        logging.getLogger("somebody").exception("odd")


def test_fails_another_text_than_the_expected_one(expect_logs):
    expect_logs("odd")
    logging.getLogger("labgpu").error("odd")
    logging.getLogger("labgpu").error("even")


def test_fails_an_expected_text_that_never_comes(expect_logs):
    expect_logs("odd")


def test_fails_a_warning_of_python():
    warnings.warn("old", DeprecationWarning)


@pytest.mark.django_db
def test_fails_a_naive_time():
    import datetime
    from django.contrib.sessions.models import Session
    list(Session.objects.filter(expire_date=datetime.datetime(2026, 1, 1)))


def test_fails_an_unresolved_variable_of_our_templates(settings):
    _render(settings, "templates/reservations/x.html", "{{ nothing.here|default:'y' }}")


def test_passes_an_unresolved_variable_of_somebody_elses_template(settings):
    assert _render(settings, "elsewhere/x.html", "{{ nothing.here|default:'y' }}") == "y"


def test_passes_an_if_on_something_absent(settings):
    assert _render(settings, "templates/reservations/x.html", "{% if nothing.here %}x{% endif %}") == ""


def test_passes_the_line_about_an_answer_4xx(client):
    from django.core.handlers.exception import response_for_exception
    from django.http import Http404
    from django.test import RequestFactory
    from django.utils.log import log_response
    from django.http import HttpResponseNotFound
    log_response("Not Found: %s", "/x", response=HttpResponseNotFound(), request=RequestFactory().get("/x"))


def test_passes_what_is_expected(expect_logs):
    expect_logs("odd")
    logging.getLogger("labgpu").error("something odd")


def _render(settings, name, text):
    from django.template import Origin
    engine = Engine.get_default()
    origin = Origin(str(settings.BASE_DIR / name), name)
    return Template(text, origin=origin, engine=engine).render(Context())
'''


def test_each_thing_gone_wrong_unseen_fails_its_test(tmp_path: Path) -> None:
    (tmp_path / "test_guarded.py").write_text(GUARDED)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    command += ["-p", "tests.conftest", "-p", "no:cacheprovider", "-v", "--tb=short", str(tmp_path / "test_guarded.py")]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TEST_"))}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    outcomes: dict[str, set[str]] = {}
    for name, outcome in re.findall(r"::(test_\w+) (PASSED|FAILED|ERROR)", done.stdout):
        outcomes.setdefault(name, set()).add(outcome)
    assert len(outcomes) == GUARDED.count("\ndef test_"), done.stdout
    for name, seen in outcomes.items():
        failed = bool(seen & {"FAILED", "ERROR"})
        assert failed == name.startswith("test_fails"), f"{name}: {seen}\n{done.stdout}"
