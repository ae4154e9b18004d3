"""What every verb of the store stands on: the open files, one way to write and one to read."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from typing import TypeVar

import apsw

from leasehold.env import SYSTEM, Env
from leasehold.errors import InvalidJobError, LeaseholdError, StoreError
from leasehold.stores.sqlite import damage, dependents
from leasehold.stores.sqlite.application import check_not_inside
from leasehold.stores.sqlite.clock import StoreClock
from leasehold.stores.sqlite.connection import Durability, check_sqlite_version, open_writer
from leasehold.stores.sqlite.disk import DiskReserve
from leasehold.stores.sqlite.epoch import open_epoch
from leasehold.stores.sqlite.files import StoreFiles
from leasehold.stores.sqlite.lanes import Lanes
from leasehold.stores.sqlite.life import Deaths
from leasehold.stores.sqlite.lock import WriteLock
from leasehold.stores.sqlite.readers import Readers
from leasehold.stores.sqlite.rebalance import rebalance
from leasehold.stores.sqlite.rows import UNREADABLE
from leasehold.stores.sqlite.step import READ_STATE, Hints, Step
from leasehold.stores.sqlite.turn import Turn
from leasehold.stores.sqlite.wake import Wake
from leasehold.stores.sqlite.writer import Writer

T = TypeVar("T")

logger = logging.getLogger("leasehold.store")


class Foundation:
    """An open store without its verbs."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        env: Env = SYSTEM,
        durability: Durability = "full",
    ) -> None:
        if durability not in ("full", "normal"):
            raise InvalidJobError(f'durability is "full" or "normal", not {durability!r}')
        check_sqlite_version()
        self._env = env
        self._pid = os.getpid()
        self._durability = durability
        self._files = StoreFiles.at(path)
        self._files.prepare()
        with contextlib.ExitStack() as undo:
            lock = WriteLock(self._files.write_lock)
            undo.callback(lock.close)
            with lock:
                db = open_writer(self._files.database, durability)
                undo.callback(db.close)
                open_epoch(db, self._files, durability, env)
            undo.pop_all()
        self._wake = Wake(self._files.wake, env)
        self._unresolved = False
        self._store_clock = StoreClock(env)
        self._writer = Writer(db, self._files, lock, env, self._store_clock, self._after_commit)
        self._readers = Readers(self._files.database)
        self._deaths = Deaths(self._files.workers)
        self._lanes = Lanes()
        # (job id, version) -> (number, lane) of leases granted here: a hint, never the truth.
        self._known_leases: dict[tuple[str, int], tuple[int, int]] = {}
        self._disk = DiskReserve(self._files, env)
        self._turn = Turn(self._files, env)

    def close(self) -> None:
        if self._pid != os.getpid():
            return  # The parent's connections and locks are the parent's to close.
        self._wake.close()
        self._readers.close()
        self._turn.close()
        self._writer.close()

    def _write(self, operation: Callable[[Step], T], *, go_on: bool = True) -> T:
        self._check_process()
        check_not_inside(self._files.database)
        answer = self._run(operation)
        if self._unresolved and go_on:
            self._resolve_the_rest()
        return answer

    def _run(self, operation: Callable[[Step], T]) -> T:
        """Write; what fails because a row cannot be read is tried again without that row."""
        while True:
            try:
                return self._writer.run(operation)
            except (*UNREADABLE, StoreError) as error:
                # Of our own errors only the vaguest is looked into: SQLite refused a value. The
                # others say what was wrongly asked for, or what to do.
                if isinstance(error, LeaseholdError) and type(error) is not StoreError:
                    raise
                if not self._set_aside_damaged():
                    raise

    def _set_aside_damaged(self) -> int:
        """Make dead letters of the jobs that cannot be read; answers how many."""
        with self._readers.lend() as db:
            found = damage.find(db)
        if not found:
            return 0
        done = self._writer.run(lambda step: sum(damage.set_aside(step, each) for each in found))
        for seq, problem in found[:10]:
            logger.error("a job was set aside, number %d: it cannot be read: %s", seq, problem)
        return done

    def _after_commit(self, hints: Hints) -> None:
        self._unresolved = self._unresolved or hints.unresolved
        self._wake.send(hints)

    def _resolve_the_rest(self) -> None:
        """Go on with dependents that were too many for one write; others write in between."""
        try:
            while self._unresolved:
                self._unresolved = False
                self._run(dependents.resolve)
        except StoreError as error:
            # What the caller asked for is durable; the next exchange or sweep goes on with this.
            logger.warning("some dependents will be dealt with later: %s", error)

    def _rebalance_the_rest(self) -> None:
        """Place jobs anew that have to be; others write in between."""
        try:
            while self._run(rebalance):
                pass
        except StoreError as error:
            # What the caller asked for is durable; the next lease or sweep goes on with this.
            logger.warning("some jobs will be placed anew later: %s", error)

    @contextlib.contextmanager
    def _read(self) -> Iterator[apsw.Connection]:
        self._check_process()
        with self._readers.lend() as db:
            yield db

    def _clock(self, db: apsw.Connection) -> int:
        row = db.execute(READ_STATE).fetchone()
        assert row is not None
        return self._store_clock.read(int(row[0]))

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise StoreError(
                f"{self._files.database} was opened before this process was forked, and a SQLite "
                "connection must not be carried across: open the queue again in the child"
            )
