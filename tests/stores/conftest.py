"""A PostgreSQL server for the tests of stores, started once per process that needs one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from support.servers import Schemas, postgres


@pytest.fixture(scope="session")
def schemas() -> Iterator[Schemas]:
    with postgres() as url:
        yield Schemas(url, f"test_{os.getpid()}")
