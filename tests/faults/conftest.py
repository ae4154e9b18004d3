"""What the fault tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support.acknowledged import Acknowledged


@pytest.fixture
def folder() -> Iterator[Path]:
    """Gone after each test, for thousands of stores are opened."""
    with TemporaryDirectory(prefix="leasehold-") as name:
        yield Path(name)


@pytest.fixture
def acknowledged() -> Iterator[Acknowledged]:
    told = Acknowledged()
    yield told
    told.close()
