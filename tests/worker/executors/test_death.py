"""When a worker is killed, all it has started dies, and its lock is free only then."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.processes import child_pids

pytestmark = pytest.mark.faults


@dataclass
class Doomed:
    """A worker, a process it has forked, and its lock as another process sees it."""

    process: subprocess.Popen[str]
    bystander_pid: int
    lock: int
    helpers: list[int]
    """Descriptors of its child process and of its nursery."""

    def wait_for_helpers_to_die(self) -> None:
        for helper in self.helpers:
            select.select([helper], [], [])


@contextmanager
def doomed_worker(tmp_path: Path, command: str) -> Iterator[Doomed]:
    """A worker with a running task and command."""
    lock_path = tmp_path / "lock"
    worker = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "support.doomed_worker",
            str(lock_path),
            str(tmp_path / "output"),
            command,
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    with worker, worker.stdin, worker.stdout:
        try:
            bystander_pid = int(worker.stdout.readline())
            lock = os.open(lock_path, os.O_RDWR)
            helper_pids = child_pids(worker.pid) - {bystander_pid}
            helpers = [os.pidfd_open(pid) for pid in helper_pids]
            assert len(helpers) == 2
            try:
                yield Doomed(worker, bystander_pid, lock, helpers)
            finally:
                for fd in (lock, *helpers):
                    os.close(fd)
                with suppress(ProcessLookupError):
                    os.kill(bystander_pid, signal.SIGKILL)
        finally:
            worker.kill()


def is_locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(lock, fcntl.LOCK_UN)
    return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_worker_leaves_nothing_behind(tmp_path: Path, how: signal.Signals) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    # A command that listens to no polite signal, with children of its own.
    command = f"trap '' TERM; exec 3> '{fifo}'; sleep 1000 & (sleep 1000 & sleep 1000) & wait"
    with doomed_worker(tmp_path, command) as worker, fifo.open() as group:
        assert is_locked(worker.lock)
        worker.process.send_signal(how)
        # All die although the bystander keeps the worker's connections open. The group can be read
        # to its end only when none of its processes is left.
        worker.wait_for_helpers_to_die()
        assert group.read() == ""
        assert is_locked(worker.lock)
        os.kill(worker.bystander_pid, signal.SIGKILL)
        # This waits for the last holder: neither child nor nursery nor command may keep it.
        fcntl.flock(worker.lock, fcntl.LOCK_EX)


def test_the_lock_is_held_as_long_as_a_command_lives(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    # It moves out of its group, so that nobody can kill it with the rest.
    command = f"setsid sh -c 'exec 3> {fifo}; echo $$ >&3; exec sleep 1000' & wait"
    with doomed_worker(tmp_path, command) as worker, fifo.open() as escaped:
        escaped_pid = int(escaped.readline())
        try:
            os.kill(worker.bystander_pid, signal.SIGKILL)
            worker.process.kill()
            worker.wait_for_helpers_to_die()
            assert is_locked(worker.lock)
        finally:
            os.kill(escaped_pid, signal.SIGKILL)
        fcntl.flock(worker.lock, fcntl.LOCK_EX)


def test_a_command_dies_with_the_nursery_even_if_the_worker_cannot_help(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command = f"exec 3> '{fifo}'; echo $PPID >&3; exec sleep 1000"
    with doomed_worker(tmp_path, command) as worker, fifo.open() as running:
        nursery_pid = int(running.readline())
        worker.process.send_signal(signal.SIGSTOP)
        os.kill(nursery_pid, signal.SIGKILL)
        assert running.read() == ""
