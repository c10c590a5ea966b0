"""What the races share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.rig import databases
from tests.rig.runner import Crew


@pytest.fixture(scope="session")
def crew(tmp_path_factory: pytest.TempPathFactory, django_db_setup: None) -> Iterator[Crew]:
    """Client processes for all races of this run."""
    crew = Crew(tmp_path_factory.mktemp("crew"))
    yield crew
    crew.close()


@pytest.fixture
def plain(transactional_db: None) -> Iterator[Any]:
    """The test's tables by the plain driver."""
    with closing(databases.connect()) as connection:
        yield connection
