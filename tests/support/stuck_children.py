"""Processes that keep everybody else from writing: run as `python -m support.stuck_children`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leasehold.core.model.job import Draft
from leasehold.env import SYSTEM
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.writing.step import Step


def stop_inside_a_write(store: SQLiteStore) -> None:
    """Stop in the middle of a write, with the file lock held; go on once resumed."""

    def renew(_: Step) -> None:
        say_so()
        os.kill(os.getpid(), signal.SIGSTOP)

    store._database.writer.run(renew)


def keep_a_transaction_open(store: SQLiteStore) -> None:
    """Keep an application's transaction open until somebody writes a line."""
    connection = store.connect()
    with connection.transaction():
        store.submit_within(connection, [Draft(id=SYSTEM.new_id(), task="t")])
        say_so()
        sys.stdin.readline()
    connection.close()


def say_so() -> None:
    sys.stdout.write("inside\n")
    sys.stdout.flush()


WAYS = {"stopped": stop_inside_a_write, "transaction": keep_a_transaction_open}


@contextmanager
def stuck(path: Path, way: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the store until the end of the block, and then goes on."""
    child = subprocess.Popen(
        [sys.executable, "-m", "support.stuck_children", str(path), way],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "inside\n"
        if way == "stopped":
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        yield child
    finally:
        child.send_signal(signal.SIGCONT)
        child.communicate("go on\n", 30)
        assert child.returncode == 0


if __name__ == "__main__":
    opened = SQLiteStore(sys.argv[1])
    WAYS[sys.argv[2]](opened)
    opened.close()
