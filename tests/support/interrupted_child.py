"""A process that works with a store and is interrupted all the time; it catches it and goes on.

Run as `python -m support.interrupted_child jobs.db 1000 acknowledged.txt`: it ends when it has
heard so many interrupts, and after each of them looks whether anything was left behind.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.search import JobFilter
from leasehold.stores.sqlite import SQLiteStore

LOOK_CLOSELY_EVERY: Final = 1000
LOOK_CLOSELY_UP_TO: Final = 5000
"""After so many interrupts the store is large, and to check all of it is left for the end."""


class Application:
    """Submits, leases, settles and reads; the ids it was told of are durable."""

    def __init__(self, path: str) -> None:
        self.store = SQLiteStore(path, durability="normal")
        self.connection = self.store.connect()
        self.lock_fd = os.open(f"{path}-run/write.lock", os.O_RDWR)
        self.acknowledged: list[str] = []
        self.heard = 0
        self.is_armed = False
        self._numbers = itertools.count()
        signal.signal(signal.SIGINT, self._on_interrupt)

    def _on_interrupt(self, *_: object) -> None:
        # Only once: the application's own clearing up, here, is not what is looked at.
        if self.is_armed:
            self.is_armed = False
            raise KeyboardInterrupt

    def work(self) -> None:
        """Until it is interrupted."""
        while True:
            self.is_armed = True  # Again and again: what is raised in a finalizer gets lost.
            number = next(self._numbers)
            job_id = f"{os.getpid()}-{number}"
            draft = Draft(id=job_id, task="t")
            if number % 5 == 0:
                with self.connection.transaction():
                    self.store.submit_within(self.connection, [draft])
            else:
                self.store.submit([draft])
            self.acknowledged.append(job_id)
            if number % 3 == 0:
                exchange = self.store.exchange((), LeaseRequest(worker="w", limit=2))
                for lease in exchange.leases:
                    done = Settlement(lease.job_id, lease.version, Complete(b"1"))
                    self.store.exchange([done])
            if number % 7 == 0:
                self.store.search(JobFilter(), limit=3)

    def look(self) -> None:
        """Nothing may be left behind, wherever it was interrupted."""
        writer: Any = self.store._database.writer
        assert not writer.queue.is_led, "somebody is taken to be writing for ever"
        side = self.store._database.side
        assert not (side.is_open and side.db.in_transaction), "a write is open"
        assert not self.connection.in_transaction, "a transaction is open"
        for reader in self.store._database.readers._idle:
            assert not reader.in_transaction, "a read is open"
        assert self.is_lock_free(), "the lock is held"
        if self.heard % LOOK_CLOSELY_EVERY == 0:
            sys.stderr.write(f"{self.heard} interrupts, {len(self.acknowledged)} jobs\n")
            if self.heard <= LOOK_CLOSELY_UP_TO:
                assert self.store.check() == []

    def is_lock_free(self) -> bool:
        """Whether this process holds no lock; another one may, for a moment."""
        fcntl.flock(self.lock_fd, fcntl.LOCK_EX)
        fcntl.flock(self.lock_fd, fcntl.LOCK_UN)
        return True


def main(path: str, interrupts: int, report: str) -> None:
    application = Application(path)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while application.heard < interrupts:
        try:
            application.work()
        except KeyboardInterrupt:
            application.heard += 1
        application.look()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    application.connection.close()
    application.store.close()
    Path(report).write_text("\n".join(application.acknowledged))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
