"""A process's means to write: the file lock, a connection, and the hold on the store's note.

It is opened by the first write, not with the store, so a process that only reads takes no lock and
does not wait for its holder. A fork closes it, and the next write opens it again. Creating a store
and bringing an old one up to date are writes too.
"""

from __future__ import annotations

from contextlib import suppress

import apsw

from leasehold.env import Env
from leasehold.stores.sqlite.disk.connection import BUSY_SECONDS, open_writer
from leasehold.stores.sqlite.disk.continuity import Continuity, StoreProgress, set_foreign_log_aside
from leasehold.stores.sqlite.disk.epoch import is_restored, open_epoch
from leasehold.stores.sqlite.disk.failures import translated
from leasehold.stores.sqlite.disk.files import StoreFiles, create_private
from leasehold.stores.sqlite.disk.lock import WriteLock
from leasehold.stores.sqlite.disk.log_sync import LogSync
from leasehold.stores.sqlite.disk.watch import FileWatch
from leasehold.stores.sqlite.writing.clock import open_clock
from leasehold.stores.sqlite.writing.own_state import put_state_right
from leasehold.stores.sqlite.writing.turn import transaction


class WriteSide:
    """Used by one thread at a time: the leader of the writes."""

    def __init__(
        self,
        files: StoreFiles,
        sync: LogSync,
        env: Env,
        watch: FileWatch,
        lock_timeout_seconds: float,
    ) -> None:
        self._files = files
        self._sync = sync
        self._env = env
        self._watch = watch
        self._lock_timeout_seconds = lock_timeout_seconds
        self._lock: WriteLock | None = None
        self._db: apsw.Connection | None = None
        self._cursor: apsw.Cursor | None = None
        self._continuity: Continuity | None = None
        self.is_restored = False
        """Whether the next write has to take back the leases of a restored copy."""

    @property
    def is_open(self) -> bool:
        return self._db is not None

    @property
    def lock(self) -> WriteLock:
        """The lock around the writes of all processes."""
        if self._lock is None:
            self._lock = WriteLock(self._files.write_lock, self._env, self._lock_timeout_seconds)
        return self._lock

    @property
    def db(self) -> apsw.Connection:
        """The connection that writes. The lock must be held."""
        return self._db or self.open()

    @property
    def cursor(self) -> apsw.Cursor:
        """A cursor of that connection, reused by every write."""
        if self._cursor is None:
            self._cursor = self.db.cursor()
        return self._cursor

    def open(self) -> apsw.Connection:
        """Open the connection, and make sure that no version is granted twice."""
        continuity = Continuity(self._files.continuity)
        try:
            if not continuity.is_shared:
                set_foreign_log_aside(self._files)
            is_new = not self._files.has_content()
            create_private(self._files.database)
            db = self._watch.opened(self._connect)
        except BaseException:
            continuity.close()
            raise
        file = self._watch.file
        assert file is not None
        try:
            if self._sync.has_failed:
                self._begin_log_anew(db, is_shared=continuity.is_shared)
            with translated(self._files.database), transaction(db):
                put_state_right(db, self._env)
            open_epoch(
                db, self._files, file, continuity, self._sync.durability, self._env, is_new=is_new
            )
            open_clock(db, self._env)
            self.is_restored = is_restored(db)
            db.pragma("synchronous", self._sync.in_commit)
        except BaseException:
            continuity.close()
            db.close()
            raise
        self._watch.watch_locked(self._files.continuity, continuity.file)
        self._watch.watch_locked(self._files.write_lock, self.lock.file)
        if self._sync.file is not None:
            self._watch.watch_locked(self._files.synced, self._sync.file)
        self._continuity, self._db = continuity, db
        return db

    def _connect(self) -> apsw.Connection:
        busy_seconds = min(BUSY_SECONDS, self._lock_timeout_seconds)
        return open_writer(self._files.database, self._sync.durability, busy_seconds)

    def make_durable(self, number: int) -> None:
        """Sync the log up to a commit that this process has made or seen, without the lock.

        If that fails, the log is copied into the database, which writes all of it again.
        """
        try:
            self._sync.make_durable(number)
        except OSError as error:
            self.lock.acquire("copy a log that cannot be synced into the database")
            try:
                # The first thread has done it for all.
                if not self._sync.is_durable(number):
                    self.db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                    self._sync.all_durable()
            except apsw.Error:
                raise self._sync.refusal(str(error)) from error
            finally:
                self.lock.release()

    def _begin_log_anew(self, db: apsw.Connection, *, is_shared: bool) -> None:
        """After a failed sync, the first process to open the store again makes the rest durable."""
        if is_shared:
            raise self._sync.refusal("a sync of its log has failed")
        with translated(self._files.database):
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self._sync.all_durable()

    def save_log(self) -> None:
        """If the log was deleted, save the acknowledged writes. The lock must be held."""
        if self._db is not None:
            self._watch.save_log(self._db)

    def close(self) -> None:
        """Note the store's progress, and close everything."""
        db, self._db = self._db, None
        self._cursor = None
        continuity, self._continuity = self._continuity, None
        lock, self._lock = self._lock, None
        progress = None
        try:
            if db is not None:
                # A damaged state is not noted: the next opening repairs it.
                with suppress(apsw.Error, ValueError, LookupError):
                    progress = StoreProgress.of(db)
                db.close()
            if continuity is not None and progress is not None:
                # Without a note the next opening assumes that the store may be older. It is written
                # last, since closing the last connection changes the file.
                with suppress(OSError):
                    continuity.note_left(progress, self._files.changed_at())
        finally:
            if continuity is not None:
                continuity.close()
            if lock is not None:
                lock.close()
