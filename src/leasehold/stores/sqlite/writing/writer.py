"""One writer per process, with group commit.

There is no writer thread. A caller queues its operation and, if no thread is writing, does it:
takes the file lock, opens a transaction, carries out every queued operation (and those that join
meanwhile), commits once, and tells the others. So a lone caller pays no hand-over, and many callers
share one sync of the disk. Each operation after the first runs in a savepoint, so that a bad one
fails alone; operations of a kind that is done in groups (`Grouped`) are, until one of them turns
out to be bad.

The file lock is what makes several processes take turns: SQLite's own busy handler would starve
some of them for seconds.

All of it is done inside the shield against interrupts: Ctrl-C reaches the main thread when its
write is complete, or has not begun. Only waits end early, and leave no gap in the queue
(`write_queue.py`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import Any, Final, TypeVar

import apsw

from leasehold.env import Env
from leasehold.errors import StoreLostError, StoreUnavailableError
from leasehold.interrupts import SHIELD, Interrupted, shielded
from leasehold.stores.sqlite.disk.epoch import TAKEN_BACK, synced
from leasehold.stores.sqlite.disk.failures import (
    is_passing,
    not_text,
    of_files,
    translate,
    translated,
)
from leasehold.stores.sqlite.disk.files import StoreFiles
from leasehold.stores.sqlite.disk.holder import doing
from leasehold.stores.sqlite.disk.log_sync import LogSync
from leasehold.stores.sqlite.leasing.recover import take_back_restored
from leasehold.stores.sqlite.submitting.dependencies import Links
from leasehold.stores.sqlite.writing.clock import StoreClock
from leasehold.stores.sqlite.writing.step import Grouped, Remembered, Step
from leasehold.stores.sqlite.writing.turn import begin, transaction
from leasehold.stores.sqlite.writing.write_queue import Ticket, WriteQueue
from leasehold.stores.sqlite.writing.write_side import WriteSide
from leasehold.stores.tables.gate import tell_who_may_go_on
from leasehold.stores.tables.step import READY, Hints

T = TypeVar("T")

_CUT_SHORT: Final = "the write was interrupted before it was known to be durable"


class Writer:
    """Carries out write operations, many per commit."""

    def __init__(
        self,
        side: WriteSide,
        sync: LogSync,
        files: StoreFiles,
        env: Env,
        clock: StoreClock,
        before_commit: Callable[[], None],
        after_commit: Callable[[Hints], None],
    ) -> None:
        self._side = side
        self._sync = sync
        self._files = files
        self._env = env
        self._clock = clock
        self._before_commit = before_commit
        self._after_commit = after_commit
        self._remembered = Remembered()
        self.queue = WriteQueue(files.database)
        self._pid = os.getpid()

    def begin_anew(self) -> None:
        """In a forked child, begin with an empty queue."""
        self.queue.begin_anew()
        self._pid = os.getpid()

    def run(self, operation: Callable[[Step], T]) -> T:
        """Carry out one operation; returns when it is durable, raises the operation's error."""
        ticket = Ticket(operation)
        try:
            while not self._is_through(ticket):
                pass  # The handlers of the signals that had come were called, and did not raise.
        finally:
            if ticket.is_away:
                self.queue.leave(ticket)
        return ticket.outcome()

    def _is_through(self, ticket: Ticket[Any]) -> bool:
        """Carry it out inside the shield; False when a signal came while it waited."""
        try:
            with SHIELD:
                if not self.queue.stand(ticket):
                    self.queue.wait(ticket)
                if not ticket.done:
                    self._lead(ticket)
                return True
        except Interrupted:
            if SHIELD.is_closed():
                raise
            return False

    @shielded
    def open(self) -> None:
        """Open the write side without writing anything, if it is not open."""
        if not self.queue.lead_unless(lambda: self._side.is_open):
            return
        self.queue.leader = threading.get_ident()
        try:
            with translated(self._files.database), self._side.lock:
                self._side.open()
        finally:
            self.queue.pass_on()

    @contextmanager
    def alone(self) -> Iterator[apsw.Connection]:
        """A transaction of this caller alone, without a write's own steps."""
        self.queue.lead_unless(lambda: False)
        self.queue.leader = threading.get_ident()
        try:
            with SHIELD, translated(self._files.database), self._side.lock:
                db = self._side.db
                with synced(db, self._sync.in_commit), transaction(db):
                    yield db
                    self._before_commit()
        finally:
            self.queue.pass_on()

    @shielded
    def close(self) -> None:
        """Let queued operations finish, then refuse the rest and close the connection."""
        if self.queue.close():
            self._side.close()

    def _lead(self, own: Ticket[Any]) -> None:
        batch: list[Ticket[Any]] = []
        hints = Hints()
        self.queue.leader = threading.get_ident()
        is_over = False
        try:
            self._commit(own, batch, hints)
            is_over = True
        finally:
            if not is_over:
                # SystemExit out of an operation, say, is no answer for the others.
                self._fail(batch, hints, StoreUnavailableError(_CUT_SHORT))
            self.queue.pass_on(own)
            for ticket in batch:
                ticket.done = True
                if ticket.gate is not None:
                    ticket.gate.release()
        if hints:
            self._after_commit(hints)

    def _commit(self, own: Ticket[Any], batch: list[Ticket[Any]], hints: Hints) -> None:
        """One transaction under the file lock. An error is told to every caller in it."""
        try:
            lock = self._side.lock
            lock.acquire(doing(own.operation))
            try:
                number = self._transaction(batch, hints)
            finally:
                lock.release()
            if hints.ready:
                # Workers are woken before the sync: a lease of these jobs is answered after a sync
                # of its own, which covers this write as well.
                hints.ready = False
                self._after_commit(READY)
            # Others write meanwhile.
            self._side.make_durable(number)
        except Exception as error:  # noqa: BLE001  # raised again, in every caller
            self.queue.take(batch)
            self._fail(batch, hints, self._translated(error))

    def _fail(self, batch: list[Ticket[Any]], hints: Hints, error: Exception) -> None:
        hints.clear()
        for ticket in batch:
            # An operation that had failed on its own keeps its own reason.
            ticket.error = ticket.error or error

    def _transaction(self, batch: list[Ticket[Any]], hints: Hints) -> int:
        """The number up to which the log must be durable before anybody is answered."""
        db, cursor, queue = self._side.db, self._side.cursor, self.queue
        try:
            begin(cursor)
            step = Step.begin(db, cursor, self._env, self._clock, self._remembered)
            changes = db.total_changes()
            if self._side.is_restored:
                self._take_back_restored(step, hints)
            carried_out = 0
            while queue.waiting and queue.take(batch):
                self._carry_out_all(batch[carried_out:], step, hints)
                carried_out = len(batch)
            changed = db.total_changes() != changes or step.odd_time is not None
            if changed:
                step.end()
            self._before_commit()
            if changed:
                number = self._sync.committed(partial(cursor.execute, "COMMIT"))
                self._side.is_restored = False
                if step.is_one_more and step.leaves_nothing and _is_all(batch):
                    self._remembered.keep(step, cursor)
                return number
            # That a minute has ended is not worth a write: the next write notes it.
            cursor.execute("ROLLBACK" if step.opens_minute else "COMMIT")
            return self._sync.committed(None)
        except BaseException as error:
            # A process that was forked inside the write leaves it alone: it is the parent's.
            if self._pid == os.getpid():
                if db.in_transaction:
                    db.execute("ROLLBACK")
                if isinstance(error, StoreLostError):
                    self._side.save_log()
            raise

    def _take_back_restored(self, step: Step, hints: Hints) -> None:
        """Before all else, end the leases of the copy: there are no more than there were slots."""
        # The operations that follow are undone without it.
        step.is_first = step.leaves_nothing = False
        take_back_restored(step)
        Links.resolve(step)
        step.flush()
        step.execute(TAKEN_BACK)
        hints.take(step.hints)

    def _carry_out_all(self, tickets: list[Ticket[Any]], step: Step, hints: Hints) -> None:
        """Each by itself; those of a kind that can be done together so, if that works.

        Hints are taken over one by one: an operation that fails drops those that the step holds,
        and they must not be another's.
        """
        if len(tickets) == 1:
            self._carry_out(tickets[0], step)
            hints.take(step.hints)
            return
        for kind, group in groupby(tickets, key=_kind):
            alike = list(group)
            if kind is None or len(alike) == 1 or not self._do_together(kind, alike, step):
                for ticket in alike:
                    self._carry_out(ticket, step)
                    hints.take(step.hints)
            hints.take(step.hints)

    def _do_together(
        self, kind: type[Grouped[Any]], tickets: list[Ticket[Any]], step: Step
    ) -> bool:
        db = step.db
        step.is_first = False
        db.execute("SAVEPOINT operation")
        try:
            operations = [each.operation for each in tickets if isinstance(each.operation, kind)]
            answers = kind.together(step, operations)
            step.flush()
        except Exception:
            if not db.in_transaction:
                raise
            # One of them is bad; done one by one, it will be the only one to hear of it.
            step.undo()
            return False
        finally:
            if db.in_transaction:
                db.execute("RELEASE operation")
        for ticket, answer in zip(tickets, answers, strict=True):
            ticket.answer = answer
        return True

    def _carry_out(self, ticket: Ticket[Any], step: Step) -> None:
        db = step.db
        if not step.is_first:
            db.execute("SAVEPOINT operation")
        try:
            ticket.answer = ticket.operation(step)
            Links.resolve(step)
            step.flush()
            if step.moved or step.newly_shown:
                tell_who_may_go_on(step)
        except Exception as error:
            if not db.in_transaction:
                # The disk is full or failing: SQLite has rolled back everything, not only this.
                raise
            step.undo()
            ticket.error = self._translated(error)
        if not step.is_first:
            db.execute("RELEASE operation")
        step.is_first = False

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, apsw.Error):
            return translate(error, self._files.database)
        if isinstance(error, UnicodeEncodeError):
            return not_text(error)
        if isinstance(error, OSError) and is_passing(error):
            return of_files(error, self._files.database)
        return error


def _is_all(batch: list[Ticket[Any]]) -> bool:
    """Whether a plain submit is all that there was: others may add a job beside other changes."""
    return len(batch) == 1 and isinstance(batch[0].operation, Grouped)


def _kind(ticket: Ticket[Any]) -> type[Grouped[Any]] | None:
    """The kind of operations that it can be done together with, if it is of one."""
    return type(ticket.operation) if isinstance(ticket.operation, Grouped) else None
