"""What takes long to make is made once, for all processes of a run of the suite."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def once_per_run(
    tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]
) -> Path:
    """The file or folder that `make` makes where it is told; the others wait for who is first."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    place = shared / name
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            # One that fails half way leaves nothing that looks whole.
            part = shared / f"{name}.part-{os.getpid()}"
            make(part)
            part.rename(place)
    return place
