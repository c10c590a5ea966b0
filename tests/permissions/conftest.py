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
    logger = logging.getLogger("django.request")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)
