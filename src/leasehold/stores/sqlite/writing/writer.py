"""One writer per process, with group commit.

There is no writer thread. Whoever has something to write queues it and, if nobody is writing, does
it: takes the file lock, opens a transaction, carries out everything that is queued (and what joins
meanwhile), commits once, and tells the others. So a lone caller pays no hand-over, and many callers
share one sync of the disk. Each operation after the first runs in a savepoint, so that a bad one
fails alone; those of a kind that is done in groups (`Grouped`) are, until one of them turns out to
be bad.

The file lock is what makes several processes take turns: SQLite's own busy handler would starve
some of them for seconds.

All of it is done inside the shield against interrupts: Ctrl-C reaches the main thread when its
write is complete, or has not begun. Only waits end early, and leave no gap in the queue.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from itertools import groupby
from typing import Any, Final, Generic, TypeVar

import apsw

from leasehold.env import Env
from leasehold.errors import StoreClosedError, StoreLostError, StoreUnavailableError
from leasehold.interrupts import LOOK_SECONDS, SHIELD, Interrupted, shielded
from leasehold.stores.sqlite.disk.files import StoreFiles
from leasehold.stores.sqlite.disk.holder import doing
from leasehold.stores.sqlite.leasing.queue_limits import tell_who_may_go_on
from leasehold.stores.sqlite.submitting.dependents import resolve
from leasehold.stores.sqlite.writing.clock import StoreClock
from leasehold.stores.sqlite.writing.failures import not_text, translate, translated
from leasehold.stores.sqlite.writing.remembered import Remembered
from leasehold.stores.sqlite.writing.step import Grouped, Hints, Step
from leasehold.stores.sqlite.writing.transaction import begin
from leasehold.stores.sqlite.writing.write_side import WriteSide

T = TypeVar("T")

OPERATIONS_PER_COMMIT_MAX: Final = 512

_CUT_SHORT: Final = "the write was interrupted before it was known to be durable"


class _Ticket(Generic[T]):
    """One queued operation, and the gate at which its caller waits."""

    __slots__ = ("answer", "done", "error", "gate", "leads", "operation")

    def __init__(self, operation: Callable[[Step], T]) -> None:
        self.operation = operation
        self.gate = threading.Lock()
        self.gate.acquire()
        self.done = False
        self.leads = False
        self.answer: T | None = None
        self.error: BaseException | None = None

    def outcome(self) -> T:
        if self.error is not None:
            raise self.error
        return self.answer  # type: ignore[return-value]  # set, once done without error


class Writer:
    """Carries out write operations, many per commit."""

    def __init__(
        self,
        side: WriteSide,
        files: StoreFiles,
        env: Env,
        clock: StoreClock,
        before_commit: Callable[[], None],
        after_commit: Callable[[Hints], None],
    ) -> None:
        self._side = side
        self._files = files
        self._env = env
        self._clock = clock
        self._before_commit = before_commit
        self._after_commit = after_commit
        self._remembered = Remembered()
        self._closed = False
        self._ended = False
        self.begin_anew()

    def begin_anew(self) -> None:
        """Make what threads wait at; in a forked child again, where those threads are not."""
        self._mutex = threading.Lock()
        self._idle = threading.Condition(self._mutex)
        self._queue: deque[_Ticket[Any]] = deque()
        self._leading = False
        self._leader: int | None = None
        self._paused = False
        self._pid = os.getpid()

    @shielded
    def run(self, operation: Callable[[Step], T]) -> T:
        """Carry out one operation; returns when it is durable, raises what it raised."""
        ticket = _Ticket(operation)
        with self._mutex:
            if self._paused:
                self._wait_while(lambda: self._paused)
            if self._closed:
                raise StoreClosedError(f"the store {self._files.database} is closed")
            self._queue.append(ticket)
            leads_at_once = ticket.leads = not self._leading
            self._leading = True
        # Not `ticket.leads`: who is let lead just now has its gate opened, and must go through it.
        if not leads_at_once:
            self._wait(ticket)
        if not ticket.done:
            self._lead(ticket)
        return ticket.outcome()

    @shielded
    def open(self) -> None:
        """Open the write side without writing anything, if it is not open."""
        with self._mutex:
            self._wait_while(lambda: self._paused)
            self._wait_while(lambda: self._leading and not self._side.is_open)
            if self._side.is_open:
                return
            self._leading = True
            self._leader = threading.get_ident()
        try:
            with translated(self._files.database), self._side.lock:
                self._side.open()
        finally:
            self._leader = None
            with self._mutex:
                self._pass_on()

    @shielded
    def close(self) -> None:
        """Let what is queued finish, then refuse the rest and close the connection."""
        with self._mutex:
            self._closed = True
            self._wait_while(lambda: self._leading)
            if self._ended:
                return
            self._ended = True
        self._side.close()

    def pause(self, seconds: float) -> bool:
        """Let nobody begin a write, and wait for those under way; False if that takes too long.

        It cannot be done by a thread that is itself inside a write. Whatever the answer, `resume`
        must follow.
        """
        if not self._mutex.acquire(timeout=seconds):
            return False
        try:
            self._paused = True
            if self._leader == threading.get_ident():
                return False
            return self._idle.wait_for(lambda: not self._leading, seconds)
        finally:
            self._mutex.release()

    def resume(self) -> None:
        """Let writes begin again."""
        with self._mutex:
            self._paused = False
            self._idle.notify_all()

    def _wait_while(self, condition: Callable[[], bool]) -> None:
        while condition():
            self._idle.wait(LOOK_SECONDS)
            if SHIELD.is_interrupted():
                raise Interrupted

    def _wait(self, ticket: _Ticket[Any]) -> None:
        """Until another caller has carried it out, or it is this one's turn to lead."""
        try:
            SHIELD.acquire(ticket.gate)
        except Interrupted:
            if self._leave(ticket):
                raise
            # It is being carried out: what comes of it will be known in a moment.
            ticket.gate.acquire()

    def _leave(self, ticket: _Ticket[Any]) -> bool:
        """Leave the queue, and no gap in it; False if it was carried out, or is being."""
        with self._mutex:
            if ticket not in self._queue:
                return False
            self._queue.remove(ticket)
            if ticket.leads:
                self._pass_on()
            return True

    def _pass_on(self) -> None:
        """Let the first in the queue lead next: nobody works for the others for ever."""
        if self._queue:
            self._queue[0].leads = True
            self._queue[0].gate.release()
        else:
            self._leading = False
            self._idle.notify_all()

    def _lead(self, own: _Ticket[Any]) -> None:
        batch: list[_Ticket[Any]] = []
        hints = Hints()
        self._leader = threading.get_ident()
        is_over = False
        try:
            self._commit(own, batch, hints)
            is_over = True
        finally:
            self._leader = None
            if not is_over:
                # SystemExit out of an operation, say, is no answer for the others.
                self._fail(batch, hints, StoreUnavailableError(_CUT_SHORT))
            with self._mutex:
                if own in self._queue:
                    self._queue.remove(own)
                self._pass_on()
            for ticket in batch:
                ticket.done = True
                ticket.gate.release()
        if hints:
            self._after_commit(hints)

    def _commit(self, own: _Ticket[Any], batch: list[_Ticket[Any]], hints: Hints) -> None:
        """One transaction under the file lock. What goes wrong is told to every caller in it."""
        try:
            lock = self._side.lock
            lock.acquire(doing(own.operation))
            try:
                self._transaction(batch, hints)
            finally:
                lock.release()
        except Exception as error:  # noqa: BLE001  # raised again, in every caller
            self._take(batch)
            self._fail(batch, hints, self._translated(error))

    def _fail(self, batch: list[_Ticket[Any]], hints: Hints, error: Exception) -> None:
        hints.clear()
        for ticket in batch:
            # One that had failed on its own keeps its own reason.
            ticket.error = ticket.error or error

    def _transaction(self, batch: list[_Ticket[Any]], hints: Hints) -> None:
        db = self._side.db
        try:
            begin(db)
            step = Step.begin(db, self._env, self._clock, self._remembered)
            changes = db.total_changes()
            carried_out = 0
            while self._take(batch):
                self._carry_out_all(batch[carried_out:], step, hints)
                carried_out = len(batch)
            changed = db.total_changes() != changes or step.odd_time is not None
            if changed:
                step.end()
            self._before_commit()
            # That a minute has ended is not worth a write: whoever next has one notes it.
            db.execute("COMMIT" if changed or not step.opens_minute else "ROLLBACK")
        except BaseException as error:
            # A process that was forked inside the write leaves it alone: it is the parent's.
            if self._pid == os.getpid():
                if db.in_transaction:
                    db.execute("ROLLBACK")
                if isinstance(error, StoreLostError):
                    self._side.save_log()
            raise

    def _take(self, batch: list[_Ticket[Any]]) -> bool:
        """Move what is queued to the batch; False when there was nothing, or it is full."""
        taken = False
        with self._mutex:
            while self._queue and len(batch) < OPERATIONS_PER_COMMIT_MAX:
                batch.append(self._queue.popleft())
                taken = True
        return taken

    def _carry_out_all(self, tickets: list[_Ticket[Any]], step: Step, hints: Hints) -> None:
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
        self, kind: type[Grouped[Any]], tickets: list[_Ticket[Any]], step: Step
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

    def _carry_out(self, ticket: _Ticket[Any], step: Step) -> None:
        db = step.db
        if not step.is_first:
            db.execute("SAVEPOINT operation")
        try:
            ticket.answer = ticket.operation(step)
            resolve(step)
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
        return error


def _kind(ticket: _Ticket[Any]) -> type[Grouped[Any]] | None:
    """The kind of operations that this one can be done together with, if it is of one."""
    return type(ticket.operation) if isinstance(ticket.operation, Grouped) else None
