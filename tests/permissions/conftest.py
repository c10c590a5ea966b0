"""The clock stands still, and thousands of answers 4xx, which are what is asked for here, have no line each."""

import logging
from collections.abc import Iterator

import pytest
import time_machine

from tests.factories import NOW


@pytest.fixture(autouse=True)
def _now() -> Iterator[None]:
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    quiet = {"django.request": logging.ERROR, "django.security": logging.CRITICAL}
    levels = {name: logging.getLogger(name).level for name in quiet}
    for name, level in quiet.items():
        logging.getLogger(name).setLevel(level)
    yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
