"""One writer per process, with group commit.

There is no writer thread. A caller queues its operation. If no thread is writing, that caller does:
it takes the file lock, opens a transaction, carries out every queued operation (and those that join
meanwhile), commits once, and wakes the other callers. So a lone caller pays for no hand-over, and
many callers share one sync of the disk. Each operation after the first runs in a savepoint, so that
a bad one fails alone. Operations of a `Grouped` kind are carried out together, and one by one if
that fails.

The file lock makes processes take turns; SQLite's own busy handler would starve some of them for
seconds.

All of this runs inside the shield against interrupts: Ctrl-C reaches the main thread only before
its write has begun or after it is complete. Only waits end early, and they leave no gap in the
queue (`write_queue.py`).
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

from leasehold.core.model.refusals import not_text
from leasehold.env import Env
from leasehold.errors import StoreLostError, StoreUnavailableError
from leasehold.interrupts import SHIELD, Interrupted, shielded
from leasehold.stores.sqlite.disk.epoch import TAKEN_BACK, synced
from leasehold.stores.sqlite.disk.failures import (
    is_passing,
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
        """Carry out one operation; returns once it is durable, or raises the operation's error."""
        ticket = Ticket(operation)
        try:
            while not self._is_through(ticket):
                pass  # Pending signals were handled without raising an error.
        finally:
            if ticket.is_away:
                self.queue.leave(ticket)
        return ticket.outcome()

    def _is_through(self, ticket: Ticket[Any]) -> bool:
        """Carry out the operation inside the shield; False if a signal arrived while it waited."""
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
        """A transaction for this caller alone, without the usual steps of a write."""
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
                # An operation's SystemExit, for example, is not an answer for the other callers.
                self._fail(batch, hints, StoreUnavailableError(_CUT_SHORT))
            self.queue.pass_on(own)
            for ticket in batch:
                ticket.done = True
                if ticket.gate is not None:
                    ticket.gate.release()
        if hints:
            self._after_commit(hints)

    def _commit(self, own: Ticket[Any], batch: list[Ticket[Any]], hints: Hints) -> None:
        """Run one transaction under the file lock. Every caller in it gets its error."""
        try:
            lock = self._side.lock
            lock.acquire(doing(own.operation))
            try:
                number = self._transaction(batch, hints)
            finally:
                lock.release()
            if hints.ready:
                # Workers are woken before the sync: a lease of these jobs waits for a sync of its
                # own, which covers this write as well.
                hints.ready = False
                self._after_commit(READY)
            # Other processes can write during this sync.
            self._side.make_durable(number)
        except Exception as error:  # noqa: BLE001  # raised again, in every caller
            self.queue.take(batch)
            self._fail(batch, hints, self._translated(error))

    def _fail(self, batch: list[Ticket[Any]], hints: Hints, error: Exception) -> None:
        hints.clear()
        for ticket in batch:
            # An operation that had already failed keeps its own error.
            ticket.error = ticket.error or error

    def _transaction(self, batch: list[Ticket[Any]], hints: Hints) -> int:
        """Run the batch; returns the commit number that must be durable before any caller is
        answered.
        """
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
            # The end of a minute alone is not worth a write: the next write records it.
            cursor.execute("ROLLBACK" if step.opens_minute else "COMMIT")
            return self._sync.committed(None)
        except BaseException as error:
            # A process forked inside the write leaves the transaction alone: it is the parent's.
            if self._pid == os.getpid():
                if db.in_transaction:
                    db.execute("ROLLBACK")
                if isinstance(error, StoreLostError):
                    self._side.save_log()
            raise

    def _take_back_restored(self, step: Step, hints: Hints) -> None:
        """Before anything else, end the leases that a restored copy holds: at most one per slot."""
        # Undoing a later operation must not undo this.
        step.is_first = step.leaves_nothing = False
        take_back_restored(step)
        Links.resolve(step)
        step.flush()
        step.execute(TAKEN_BACK)
        hints.take(step.hints)

    def _carry_out_all(self, tickets: list[Ticket[Any]], step: Step, hints: Hints) -> None:
        """Carry out operations of one `Grouped` kind together if that works, the others one by one.

        Hints are collected after each operation: a failed operation drops the hints that the step
        holds, and must not drop those of an earlier one.
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
            # One of them is bad; done one by one, only that one will fail.
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
    """Whether the batch was one plain submit: other operations may make further changes."""
    return len(batch) == 1 and isinstance(batch[0].operation, Grouped)


def _kind(ticket: Ticket[Any]) -> type[Grouped[Any]] | None:
    """The `Grouped` kind of the operation, or None if it has to be carried out alone."""
    return type(ticket.operation) if isinstance(ticket.operation, Grouped) else None
