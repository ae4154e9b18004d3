"""Processes that are killed while they handle large payloads and results."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from leasehold import TaskQueue
from leasehold.blobs.folder import FolderBlobs
from leasehold.stores.sqlite.writing.transaction_verbs import HeldTransaction
from support import large_tasks
from support.transaction_tasks import ADD_ROW, MAKE_ROWS

BIG = "0123456789abcdef" * 65536


def _die(*_args: Any, **_kwargs: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_while_writing() -> None:
    write = FolderBlobs._write

    def write_and_die(self: FolderBlobs, path: str, data: bytes) -> None:
        write(self, path, data)
        _die()

    FolderBlobs._write = write_and_die  # type: ignore[method-assign]


def submit(path: str, moment: str) -> None:
    """Submit a large job, and die at that moment of it."""
    queue = TaskQueue(path, num_workers=0)
    queue.submit("load", "a small one before")
    if moment == "while the blob is written":
        _die_while_writing()
    else:
        queue.store.submit = _die  # type: ignore[method-assign]
    queue.submit(large_tasks.double, BIG)


def submit_inside(path: str, moment: str) -> None:
    """The same in a transaction of its own, with a row beside it."""
    queue = TaskQueue(path, num_workers=0)
    queue.submit("load", "a small one before")
    connection = queue.connect()
    connection.execute(MAKE_ROWS)
    if moment == "while the blob is written":
        _die_while_writing()
    with connection.transaction():
        connection.execute(ADD_ROW, ("order", 0))
        queue.submit(large_tasks.double, BIG, connection=connection)
        _die()


def run_inside(path: str, moment: str) -> None:
    """Run a job that completes itself, with a large result, and die at that moment of it."""
    queue = TaskQueue(path, num_workers=1)
    queue.task(large_tasks.double_in_a_transaction)
    if moment == "while the blob is written":
        _die_while_writing()
    else:
        HeldTransaction.complete = _die  # type: ignore[method-assign]
    queue.run_worker()


def run(path: str, moment: str) -> None:
    """Run a job with a large result in a worker, and die at that moment of it."""
    queue = TaskQueue(path, num_workers=1)
    queue.task(large_tasks.double)
    exchange = queue.store.exchange

    def die_on_settlement(settlements: Any = (), request: Any = None) -> Any:
        return _die() if settlements else exchange(settlements, request)

    if moment == "while the blob is written":
        _die_while_writing()
    else:
        queue.store.exchange = die_on_settlement  # type: ignore[method-assign]
    queue.run_worker()


if __name__ == "__main__":
    verbs = {"submit": submit, "run": run}
    verbs |= {"submit inside": submit_inside, "run inside": run_inside}
    verbs[sys.argv[1]](*sys.argv[2:])
