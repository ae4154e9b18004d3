"""An open database: its files, one way to write, one way to read, and its clock."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar, cast

import apsw

from leasehold.core.model.lives import LivesHere
from leasehold.core.model.stored import UNREADABLE
from leasehold.core.rules.group_rounds import GroupRounds
from leasehold.env import SYSTEM, Env
from leasehold.errors import (
    InvalidJobError,
    LeaseholdError,
    StoreCorruptError,
    StoreError,
    StoreLostError,
    StoreVersionError,
)
from leasehold.interrupts import Interrupted, shielded
from leasehold.stores.sqlite.disk import forks
from leasehold.stores.sqlite.disk.connection import Readers, check_sqlite_version, is_up_to_date
from leasehold.stores.sqlite.disk.continuity import (
    has_log,
    is_held,
    refuse_what_others_have_lost,
    set_foreign_log_aside,
    was_changed_under_others,
)
from leasehold.stores.sqlite.disk.epoch import has_store_id
from leasehold.stores.sqlite.disk.failures import translated
from leasehold.stores.sqlite.disk.files import DiskReserve, Durability, FileId, StoreFiles
from leasehold.stores.sqlite.disk.life import Deaths
from leasehold.stores.sqlite.disk.lock import LOCK_TIMEOUT_SECONDS, LOCK_TIMEOUT_SECONDS_MAX
from leasehold.stores.sqlite.disk.log_sync import LogSync
from leasehold.stores.sqlite.disk.open_connections import OpenConnections
from leasehold.stores.sqlite.disk.wake import Wake
from leasehold.stores.sqlite.disk.watch import FileWatch
from leasehold.stores.sqlite.leasing import damage
from leasehold.stores.sqlite.leasing.order import ReadyRows
from leasehold.stores.sqlite.rules.known import LaneNumbers
from leasehold.stores.sqlite.schema import damaged_cells
from leasehold.stores.sqlite.submitting.dependencies import Links
from leasehold.stores.sqlite.writing import own_state, recounting
from leasehold.stores.sqlite.writing.application import ApplicationConnection, check_not_inside
from leasehold.stores.sqlite.writing.clock import StoreClock
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.sqlite.writing.turn import ApplicationTurn
from leasehold.stores.sqlite.writing.write_side import WriteSide
from leasehold.stores.sqlite.writing.writer import Writer
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import Hints

T = TypeVar("T")

logger = logging.getLogger("leasehold.store")

KnownLease = tuple[int, int, int]
"""The version of a lease, and the number and the lane of its job."""


class Database(TableDatabase):
    """The object passed to every verb of the store; the verbs themselves are functions of it."""

    _links = Links
    _ready = ReadyRows

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        env: Env = SYSTEM,
        durability: Durability = "full",
        lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS,
    ) -> None:
        if durability not in ("full", "normal"):
            raise InvalidJobError(f'durability must be "full" or "normal", not {durability!r}')
        if not 0 < lock_timeout_seconds <= LOCK_TIMEOUT_SECONDS_MAX:
            raise InvalidJobError(
                f"lock_timeout_seconds must be above 0 and at most {LOCK_TIMEOUT_SECONDS_MAX:g}, "
                f"not {lock_timeout_seconds!r}"
            )
        check_sqlite_version()
        self.env = env
        self._pid = os.getpid()
        self.durability = durability
        self.files = StoreFiles.at(path)
        is_new_folder = self.files.prepare()
        self.lock_timeout_seconds = lock_timeout_seconds
        self.watch = FileWatch(self.files, env)
        self.sync = LogSync(self.files, durability)
        self.side = WriteSide(self.files, self.sync, env, self.watch, lock_timeout_seconds)
        self.wake = Wake(self.files.wake, env)
        self.clock = StoreClock(env)
        self.writer = Writer(
            self.side, self.sync, self.files, env, self.clock, self._check_place, self.after_commit
        )
        self.readers = Readers(self.files.database, self.watch, self.sync)
        self.deaths = Deaths(self.files.workers)
        self.lives = LivesHere()
        self.group_rounds = GroupRounds()
        self.lanes = LaneNumbers()
        self.known_leases: dict[str, KnownLease] = {}
        """The leases granted here, by job: only a cache."""
        self.disk = DiskReserve(self.files, env)
        self.turn = ApplicationTurn(self.files, env, lock_timeout_seconds, self._check_place)
        self.application_connections = OpenConnections[ApplicationConnection]()
        forks.register(self)
        try:
            with translated(self.files.database):
                self._prepare()
        except BaseException as error:
            self.close()
            if is_new_folder and isinstance(error, StoreVersionError | StoreCorruptError):
                self.files.remove_empty_folders()
            raise

    def _prepare(self) -> None:
        """Create the store or bring it up to date; a current one needs no write and no lock."""
        self._look_at_log()
        if self.files.has_content():
            with self.readers.lend() as db:
                if is_up_to_date(db, self.files.database) and has_store_id(db):
                    return
        self.open_to_write()

    @shielded
    def _look_at_log(self) -> None:
        """If a killed process has left a log, check whose it is before anybody replays it.

        If others have the store open and have lost its file or log, no process may start another.
        """
        if is_held(self.files.continuity):
            if was_changed_under_others(self.files):
                with self.side.lock:
                    refuse_what_others_have_lost(self.files)
        elif has_log(self.files):
            with self.side.lock:
                if not is_held(self.files.continuity):
                    set_foreign_log_aside(self.files)

    def open_to_write(self) -> None:
        """Open the write side if it is not open; the first write does it anyway."""
        if not self.side.is_open:
            self.writer.open()
        if self.side.is_restored:
            self.writer.run(lambda _step: None)

    @shielded
    def close(self) -> None:
        if self._pid != os.getpid():
            return  # The parent's connections and locks are the parent's to close.
        self.wake.close()
        self.readers.close()
        self.turn.close()
        self.writer.close()
        self.sync.close()
        self.watch.all_closed()
        forks.forget(self)

    # -- forks (see forks.py) ----------------------------------------------------------------

    def close_for_fork(self, seconds: float) -> str | None:
        """Stop and close every connection; returns why if that was impossible."""
        if self._pid != os.getpid():
            return "it was inherited before"
        if self.connections_of_others():
            return "a connection of the application to it (queue.connect()) was open"
        if not self.writer.queue.pause(seconds):
            return "a write to it was under way"
        if not self.readers.pause(seconds):
            return "a read from it was under way"
        self.side.close()
        self.readers.close_idle()
        self.sync.close()
        self.watch.all_closed()
        return None

    def resume_after_fork(self) -> None:
        """In the parent: let all callers continue."""
        self.writer.queue.resume()
        self.readers.resume()

    def begin_anew_in_child(self) -> None:
        """In the child, with nothing inherited: recreate locks that threads of the parent may have
        held.
        """
        self._pid = os.getpid()
        self.writer.begin_anew()
        self.readers.begin_anew()
        self.wake.begin_anew()
        self.turn.begin_anew()
        self.lives = LivesHere()

    def inherited_file(self) -> FileId | None:
        """The file that connections of this store may have open."""
        return self.watch.file

    def connections_of_others(self) -> list[apsw.Connection]:
        """The application's own connections to it."""
        return [db for db in self.application_connections if not db.is_closed]

    # -- writing and reading -----------------------------------------------------------------

    def write(self, operation: Callable[[Step], T], *, go_on: bool = True) -> T:
        self.check_process()
        check_not_inside(self.files.database)
        answer = self._run(operation)
        if self._unresolved and go_on:
            self._resolve_the_rest()
        return answer

    @contextlib.contextmanager
    def alone(self) -> Iterator[apsw.Connection]:
        """A bare transaction, even in a sealed store: for moving all of its rows."""
        self.check_process()
        with self.writer.alone() as db:
            yield db

    def _run(self, operation: Callable[[Step], T]) -> T:
        """Write; if that fails because of an unreadable row, retry without it."""
        is_put_right = False
        while True:
            try:
                return self.writer.run(operation)
            except (*UNREADABLE, StoreError) as error:
                if not _may_be_damage(error):
                    raise
                if self._set_aside_damaged():
                    continue
                if is_put_right or not (self._put_right() or self._begin_anew()):
                    raise
                is_put_right = True

    def _set_aside_damaged(self) -> int:
        """Make unreadable jobs dead letters; returns how many."""
        with self.readers.lend() as db:
            found = damage.find(db)
        if not found:
            return 0
        done = self.writer.run(
            lambda step: sum(damage.set_aside(step, each) is not None for each in found)
        )
        for seq, problem in found[:10]:
            logger.error("a job was set aside, number %d: it cannot be read: %s", seq, problem)
        return done

    def _put_right(self) -> bool:
        """Repair the store's own state; False if there is nothing to repair."""
        with self.readers.lend() as db:
            is_damaged = own_state.is_damaged(db)
            are_lanes_damaged = bool(own_state.damaged_lanes(db)) or recounting.is_left(
                db, self.env
            )
        if is_damaged:
            self.writer.run(_put_right)
        if are_lanes_damaged:
            recounting.recount(self)
        return is_damaged or are_lanes_damaged

    def _begin_anew(self) -> bool:
        """Delete unreadable records, where that does no harm; False if there are none."""
        is_begun = False
        while True:
            with self.readers.lend() as db:
                found = own_state.find_records(db)
            if found is None or not self.writer.run(partial(_begin_records_anew, found)):
                return is_begun
            is_begun = True

    def put_right(self) -> None:
        """The same for a sweep, which checks even if nothing has failed."""
        self.check_process()
        self._put_right()

    def mend(self) -> bool:
        """Repair everything, for a clean-up: this reads every unfinished job and every record."""
        self.check_process()
        mended = False
        while self._set_aside_damaged():
            mended = True
        return any((mended, self._put_right(), self._begin_anew()))

    def after_commit(self, hints: Hints) -> None:
        self._unresolved = self._unresolved or hints.unresolved
        # A listener that waits inside the shield can be interrupted, but this write is done and
        # must not be mistaken for one that had not begun. Written out for speed, since each commit
        # passes here.
        try:  # noqa: SIM105
            self.wake.send(hints)
        except Interrupted:
            pass

    @contextlib.contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        self.check_process()
        with self.readers.lend() as db:
            yield db

    def look(self, operation: Callable[[apsw.Connection], T]) -> T:
        """Read at one moment; if that fails because of a damaged cell, read again without it."""
        try:
            with self.read() as db, db:
                return operation(db)
        except (*UNREADABLE, StoreError) as error:
            if not _may_be_damage(error):
                raise
        with self.read() as db, damaged_cells.without_damage(db), db:
            answer = operation(db)
        return answer  # noqa: RET504  # by its types, apsw might swallow an error

    def now(self, db: SqlConnection) -> int:
        """The store's time in microseconds, for callers that only read."""
        return self.clock.show(cast("apsw.Connection", db))

    def check_process(self) -> None:
        if self._pid != os.getpid():
            reason = forks.why_inherited(self.watch.file)
            if self._pid != os.getpid():
                raise StoreLostError(forks.refusal(self.files.database, reason))

    def _check_place(self) -> None:
        """Raise if a commit would be lost because the process is a fork or the file is gone."""
        self.check_process()
        self.watch.check_before_commit()


def _may_be_damage(error: Exception) -> bool:
    """Whether an error may come from a damaged cell.

    Of Leasehold's own errors only the vaguest may, that SQLite refused a value. The others name a
    wrong request or a remedy.
    """
    return not isinstance(error, LeaseholdError) or type(error) is StoreError


def _begin_records_anew(found: own_state.Unreadable, step: Step) -> bool:
    return own_state.begin_records_anew(step.db, found)


def _put_right(step: Step) -> None:
    """Raise the next number if needed; the rest of the store's row was repaired already."""
    step.next_seq = own_state.raise_next_seq(step.db) or step.next_seq
