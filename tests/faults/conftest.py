"""What the fault tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support.acknowledged import Acknowledged

IN_MEMORY = Path("/dev/shm")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where syncing costs nothing, for thousands of stores are opened."""
    place = IN_MEMORY if IN_MEMORY.is_dir() else None
    with TemporaryDirectory(dir=place, prefix="leasehold-") as name:
        yield Path(name)


@pytest.fixture
def acknowledged() -> Iterator[Acknowledged]:
    told = Acknowledged()
    yield told
    told.close()
