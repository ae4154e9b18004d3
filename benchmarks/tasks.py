"""The tasks that the benchmarks run, importable by every process."""

from __future__ import annotations

import time


def noop() -> None:
    """The least a job can do."""


def now() -> float:
    """When it began to run."""
    return time.time()


def hold(path: str, seconds: float) -> None:
    """Write down when it began, then keep its worker busy."""
    with open(path, "a") as file:
        file.write(f"{time.time()}\n")
    time.sleep(seconds)
