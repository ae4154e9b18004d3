"""Workers of the command line, for tests: started for real, and never left behind."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from cli.conftest import Shell
from leasehold.cli.workers.pidfile import PidFile, pid_files

WAIT = 120
T = TypeVar("T")


@pytest.fixture
def crews(shell: Shell) -> Iterator[Shell]:
    """The shell; whatever workers were started in it are killed in the end."""
    yield shell
    shell.run("worker", "stop", "--timeout", "0", "--force")


class Gate:
    """A FIFO that a command waits at until the test opens it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "gate"
        os.mkfifo(self.path)

    @property
    def command(self) -> str:
        return f"read line < {self.path}; echo passed $line"

    def open(self) -> None:
        """Let the command that waits go on; returns once there is one."""
        with self.path.open("w") as fifo:
            fifo.write("on\n")


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def eventually(look: Callable[[], T | None]) -> T:
    """What `look` finds in the end; for what happens in other processes and cannot call us."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def folder(shell: Shell) -> str:
    return str(shell.folder / "leasehold.db-workers")


def live_workers(shell: Shell) -> list[PidFile]:
    return [f for f in pid_files(folder(shell)) if f.record.role == "worker" and not f.is_stale]


def running(shell: Shell, job: str) -> Callable[[], bool]:
    """Whether a job runs, by the output file that its command has."""
    return lambda: bool(list((shell.folder / "leasehold.db-output" / job).glob("*.out")))
