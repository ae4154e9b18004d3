"""A process that works with a store and is interrupted all the time; it catches it and goes on.

Run as `python -m support.interrupted_child jobs.db full 1000 acknowledged.txt`: it ends when it has
heard so many interrupts, and after each of them looks whether anything was left behind. With
`memory` in the place of a path it works with a store of its own, and looks at all of it at the end;
with the URL of a PostgreSQL store, with that. The word after the path says how durable a store on a
file is to be.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Final

from msgspec import convert

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.search import JobFilter
from leasehold.interrupts import SHIELD
from leasehold.stores.memory import MemoryStore
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.disk.files import Durability

LOOK_CLOSELY_EVERY: Final = 1000
LOOK_CLOSELY_UP_TO: Final = 5000
"""After so many interrupts the store is large, and to check all of it is left for the end."""


class Application:
    """Submits, leases, settles and reads; what it was told of is in the store."""

    store: Store

    def __init__(self) -> None:
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
            draft = Draft(id=f"{os.getpid()}-{number}", task="t")
            self.submit(number, draft)
            self.acknowledged.append(draft.id)
            if number % 3 == 0:
                exchange = self.store.exchange((), LeaseRequest(worker="w", limit=2))
                for lease in exchange.leases:
                    done = Settlement(lease.job_id, lease.version, Complete(b"1"))
                    self.store.exchange([done])
            if number % 7 == 0:
                self.store.search(JobFilter(), limit=3)

    def submit(self, number: int, draft: Draft) -> None:
        self.store.submit([draft])

    def look(self) -> None:
        """Nothing may be left behind, wherever it was interrupted."""
        assert not SHIELD.is_closed(), "signals are held back for ever"
        self.look_at_locks()
        if self.heard % LOOK_CLOSELY_EVERY == 0:
            sys.stderr.write(f"{self.heard} interrupts, {len(self.acknowledged)} jobs\n")
            if self.heard <= LOOK_CLOSELY_UP_TO:
                assert self.store.check() == []

    def look_at_locks(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """Close what was opened."""
        self.store.close()


class OnFile(Application):
    """Its store is a file that others use, too."""

    def __init__(self, path: str, durability: Durability) -> None:
        super().__init__()
        self.store = self._sqlite = SQLiteStore(path, durability=durability)
        self.connection = self._sqlite.connect()
        self.lock_fd = os.open(f"{path}-run/write.lock", os.O_RDWR)

    def submit(self, number: int, draft: Draft) -> None:
        if number % 5 == 0:
            with self.connection.transaction():
                self._sqlite.submit_within(self.connection, [draft])
        else:
            super().submit(number, draft)

    def look_at_locks(self) -> None:
        database: Any = self._sqlite._database
        assert not database.writer.queue.is_led, "somebody is taken to be writing for ever"
        side = database.side
        assert not (side.is_open and side.db.in_transaction), "a write is open"
        assert not self.connection.in_transaction, "a transaction is open"
        for reader in database.readers._idle:
            assert not reader.in_transaction, "a read is open"
        assert self.is_lock_free(), "the lock is held"

    def is_lock_free(self) -> bool:
        """Whether this process holds no lock; another one may, for a moment."""
        fcntl.flock(self.lock_fd, fcntl.LOCK_EX)
        fcntl.flock(self.lock_fd, fcntl.LOCK_UN)
        return True

    def end(self) -> None:
        self.connection.close()
        super().end()


class InMemory(Application):
    """Nobody else sees its store."""

    def __init__(self) -> None:
        super().__init__()
        self.store = self._memory = MemoryStore()

    def look_at_locks(self) -> None:
        assert not self._memory._lock.locked(), "the lock is held"

    def end(self) -> None:
        assert self.store.check() == []
        unacknowledged = self.store.stats().submitted - len(self.acknowledged)
        assert 0 <= unacknowledged <= self.heard, "jobs are lost, or there twice"
        super().end()


class OnServer(Application):
    """Its store is a schema of a PostgreSQL server."""

    def __init__(self, url: str) -> None:
        from leasehold.stores.postgres import PostgresStore

        super().__init__()
        self.store = self._postgres = PostgresStore(url)

    def look_at_locks(self) -> None:
        session: Any = self._postgres._database.session
        lending: Any = self._postgres._database._lending
        # Threads hold them for a moment; one that is held for good is never free.
        for lock in (session._mutex, session._line, lending._mutex):
            assert lock.acquire(timeout=30), "a lock is held for ever"
            lock.release()
        pause = threading.Event()
        for _ in range(3000):
            stats = lending._pool.get_stats()
            if stats["pool_available"] + (lending._kept is not None) == stats["pool_size"]:
                return
            pause.wait(0.01)
        raise AssertionError(f"a connection is lost to the pool: {stats}")


def application_with(path: str, durability: Durability) -> Application:
    if path == "memory":
        return InMemory()
    return OnServer(path) if path.startswith("postgresql:") else OnFile(path, durability)


def main(path: str, durability: Durability, interrupts: int, report: str) -> None:
    application = application_with(path, durability)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while application.heard < interrupts:
        try:
            application.work()
        except KeyboardInterrupt:
            application.heard += 1
        application.look()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    application.end()
    Path(report).write_text("\n".join(application.acknowledged))


if __name__ == "__main__":
    main(sys.argv[1], convert(sys.argv[2], Durability), int(sys.argv[3]), sys.argv[4])
