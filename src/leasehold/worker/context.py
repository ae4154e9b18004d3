"""A running task's view of its job, and how it learns that it should stop.

A task gets it with `ctx = current_job()`. Its reports go to a `Sink`: in the worker's own process
that is the worker, which writes them in batches; in a child process it is a pipe.
"""

from __future__ import annotations

import os
import threading
from contextvars import ContextVar
from datetime import datetime
from enum import Enum
from typing import Any, Final, Protocol, TypeVar, overload

from leasehold.codec import encode_document
from leasehold.codec.hints import converter
from leasehold.core.contract.transactions import Connection
from leasehold.core.model.durations import Seconds, given_seconds
from leasehold.core.model.job import MetadataValue
from leasehold.core.model.joblog import LogLine, bounded
from leasehold.core.model.lease import Lease, Settled
from leasehold.env import SYSTEM, Env
from leasehold.errors import (
    JobCancelledError,
    JobTimeoutError,
    LeaseLostError,
    TransactionError,
    UnsupportedError,
)
from leasehold.worker.copies import here
from leasehold.worker.dependencies import (
    DependencyResult,
    FetchResults,
    decode_results,
    plain_codec,
)
from leasehold.worker.large import LargeData
from leasehold.worker.transaction import Backing, TaskTransaction

T = TypeVar("T")


class StopCause(Enum):
    """Why a running attempt should end."""

    CANCELLED = "cancelled"
    """Somebody cancelled the job."""
    TIMED_OUT = "timed_out"
    """It ran longer than its job's timeout_seconds."""
    LEASE_LOST = "lease_lost"
    """This worker no longer holds the job: another one may be running it by now."""
    HANDED_BACK = "handed_back"
    """The worker is stopping and has handed the job back: another one will run it."""


class Sink(Protocol):
    """Takes a context's reports. Calls come from the task's thread and must return at once."""

    def progress(self, lease: Lease, document: bytes) -> None:
        """Store this JSON document as the job's progress; only the latest one matters."""

    def log(self, lease: Lease, line: LogLine) -> None:
        """Store this line."""


class JobContext:
    """The running attempt, as its own code sees it."""

    __slots__ = (
        "_backing",
        "_concluded",
        "_condition",
        "_env",
        "_fetch",
        "_lease",
        "_sink",
        "_stop",
        "_transaction",
        "large",
        "note",
        "pid",
        "settled",
        "unfinished_line",
    )

    def __init__(
        self,
        lease: Lease,
        sink: Sink,
        env: Env = SYSTEM,
        fetch: FetchResults | None = None,
        large: LargeData | None = None,
        backing: Backing | None = None,
        pid: int | None = None,
    ) -> None:
        self._lease = lease
        self._sink = sink
        self._env = env
        self._fetch = fetch
        self._backing = backing
        self.pid = here() if pid is None else pid
        """The process in which the attempt runs: a fork of it may not report for it."""
        self._transaction: TaskTransaction | None = None
        self._concluded = False
        self._stop: tuple[StopCause, str] | None = None
        self._condition: threading.Condition | None = None
        self.note: bytes | None = None
        """What `attach` was given, as JSON."""
        self.large = large
        """The keeper of payloads and results too large for a row; None if there is none."""
        self.settled: Settled | None = None
        """The store's answer, once the attempt has completed in its own transaction."""
        self.unfinished_line = ""
        """The text that the code printed after its last line end."""

    @property
    def lease(self) -> Lease:
        return self._lease

    @property
    def sink(self) -> Sink:
        """Where reports go; an executor forwards a child process's messages there."""
        return self._sink

    @property
    def job_id(self) -> str:
        return self._lease.job_id

    @property
    def fencing_token(self) -> int:
        """Grows with every lease of this job: send it with your own writes to refuse stale ones."""
        return self._lease.version

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._lease.attempt

    @property
    def task(self) -> str:
        return self._lease.task

    @property
    def queue(self) -> str:
        return self._lease.queue

    @property
    def metadata(self) -> dict[str, MetadataValue]:
        return dict(self._lease.metadata or {})

    @property
    def deadline(self) -> datetime | None:
        """When the job should be done; a late job is not stopped."""
        return self._lease.deadline

    # -- results of dependencies -------------------------------------------------------------

    @overload
    def dependency_results(self) -> dict[str, Any]: ...
    @overload
    def dependency_results(self, of: type[T]) -> dict[str, T]: ...
    def dependency_results(self, of: Any = None) -> dict[str, Any]:
        """The results of the job's dependencies, by id, in the order of `depends_on`.

        They are plain JSON data, or each an `of`: a dataclass, a datetime, any type that a task's
        type hints could name. A dependency that did not complete, because its failure is ignored,
        is left out.
        """
        results = decode_results(self.fetch_dependency_results(), plain_codec)
        convert = None if of is None else converter(of)
        if convert is None:
            return results
        return {job_id: convert(value) for job_id, value in results.items()}

    def passed_results(self) -> list[Any]:
        """The results for a call that takes them: as plain data, which the call's own hints
        convert.
        """
        return list(self.dependency_results().values())

    def fetch_dependency_results(self) -> list[DependencyResult]:
        """The results, not decoded; an executor passes them on to a child process."""
        if self._fetch is None:
            raise UnsupportedError(
                f"job {self.job_id}: this worker gave the attempt no way to read the results of "
                f"its dependencies; read them with queue.dependency_results"
            )
        return self._fetch(self.job_id)

    # -- its own transaction -----------------------------------------------------------------

    def transaction(self) -> TaskTransaction:
        """A transaction on the job's own database that is committed with the job's completion.

        `with ctx.transaction() as connection:` (in an async task `async with`) opens it. When the
        task returns, its writes are kept and the job is completed, both or neither, so the effects
        of a job happen exactly once. An error, a `Snooze`, `Retry` or `Cancel`, a timeout or a lost
        lease roll it back. Jobs submitted to this store meanwhile, and progress, are part of it.
        All other writers wait while it is open: make it the last step of the task.
        """
        if self._backing is None:
            raise UnsupportedError(
                f"job {self.job_id}: this worker offers no transactions; a worker on a SQLite "
                f"file does"
            )
        self._refuse_in_copy()
        if self.own_transaction is not None:
            raise TransactionError(
                f"job {self.job_id} already has its transaction open: one is all that it needs, as "
                "it lasts until the task returns; for a part that can be undone alone, use "
                "`with connection.transaction():` inside it"
            )
        # Assigned here before it can be open, so that `close_transactions` finds it.
        self._transaction = TaskTransaction(
            self._lease, self._backing, self._sink, lambda: self._concluded
        )
        return self._transaction

    def close_transactions(self) -> TaskTransaction | None:
        """Called when the code has ended: refuse further transactions; returns the open one."""
        self._concluded = True
        transaction = self._transaction
        return None if transaction is None or not transaction.is_settled_open() else transaction

    @property
    def own_transaction(self) -> TaskTransaction | None:
        """The open transaction, if there is one."""
        transaction = self._transaction
        return None if transaction is None or not transaction.is_open else transaction

    @property
    def backing(self) -> Backing | None:
        """The backing of its transactions; an executor uses it on behalf of a child process."""
        return self._backing

    # -- should it go on? --------------------------------------------------------------------

    @property
    def should_stop(self) -> bool:
        """Whether the worker has given this attempt up, for any cause."""
        return self._stop is not None

    @property
    def stopped(self) -> tuple[StopCause, str] | None:
        """Why it should stop (cause and reason); None while it should not."""
        return self._stop

    @property
    def cancelled(self) -> bool:
        return self._stopped_by(StopCause.CANCELLED)

    @property
    def cancel_reason(self) -> str | None:
        return self._stop[1] if self._stop is not None and self.cancelled else None

    @property
    def timed_out(self) -> bool:
        return self._stopped_by(StopCause.TIMED_OUT)

    @property
    def lease_lost(self) -> bool:
        """Whether this worker no longer holds the job; the attempt's outcome is then discarded."""
        return self._stopped_by(StopCause.LEASE_LOST) or self._stopped_by(StopCause.HANDED_BACK)

    def check(self) -> None:
        """Raise JobCancelledError, JobTimeoutError or LeaseLostError if the attempt should stop."""
        if self._stop is None:
            return
        cause, reason = self._stop
        message = f"job {self.job_id} should stop ({cause.value.replace('_', ' ')}): {reason}"
        if cause is StopCause.CANCELLED:
            raise JobCancelledError(message)
        if cause is StopCause.TIMED_OUT:
            raise JobTimeoutError(message)
        raise LeaseLostError(message)

    def wait(self, seconds: Seconds) -> bool:
        """Sleep, but no longer than the attempt should run; True if it should stop now.

        An async task awaits `asyncio.sleep` instead, which is cancelled when it should stop.
        """
        condition = self._condition
        if condition is None:
            with _making_condition:
                condition = self._condition = self._condition or threading.Condition()
        clock = self._env.clock
        end = clock.monotonic() + given_seconds("seconds", seconds)
        with condition:
            while self._stop is None and (left := end - clock.monotonic()) > 0:
                clock.wait(condition, left)
        return self._stop is not None

    def stop(self, cause: StopCause, reason: str) -> None:
        """Called by the worker: this attempt should end. The first cause is kept."""
        if self._stop is None:
            self._stop = (cause, reason)
        # The flag is set before the condition is read, and a waiter creates the condition before it
        # reads the flag: one of the two always sees the other.
        condition = self._condition
        if condition is not None:
            with condition:
                condition.notify_all()

    def _stopped_by(self, cause: StopCause) -> bool:
        return self._stop is not None and self._stop[0] is cause

    @property
    def _is_over(self) -> bool:
        # A cancelled task may still report how it cleans up; in all other cases the lease is gone.
        return self._stop is not None and not self.cancelled

    # -- reports -----------------------------------------------------------------------------

    def progress(
        self, done: float, total: float | None = None, message: str = "", **extra: Any
    ) -> None:
        """Report how far the work is. Call it as often as you like: writes are coalesced."""
        document: dict[str, Any] = {"done": done}
        if total is not None:
            document["total"] = total
        if message:
            document["message"] = message
        if self._is_over:
            return
        self._refuse_in_copy()
        encoded = encode_document(document | extra, "progress")
        if self.own_transaction is not None:
            self.own_transaction.progress(encoded)
        else:
            self._sink.progress(self._lease, encoded)

    def log(self, message: str) -> None:
        """Keep a line with the job, and its time; it is written within half a second.

        The last 1000 lines are kept, each up to 4096 characters.
        """
        if self._is_over:
            return
        self._refuse_in_copy()
        line = LogLine(self._env.now(), bounded(str(message)))
        if self.own_transaction is not None:
            self.own_transaction.log(line)
        else:
            self._sink.log(self._lease, line)

    def _refuse_in_copy(self) -> None:
        if os.getpid() != self.pid:
            raise UnsupportedError(
                f"job {self.job_id} runs in process {self.pid}, and this is process "
                f"{os.getpid()}, forked from it: only the process that runs a job may report on it "
                "or open its transaction. Send that process your results, through a pipe or a "
                "multiprocessing queue"
            )

    def attach(self, note: Any) -> None:
        """Attach any JSON document to this attempt's record, written when the attempt completes."""
        self.note = encode_document(note, "a note")


class Attempted(Protocol):
    """An attempt whose context is made on demand: the code of most jobs never needs it.

    The code's own threads may get it at any time, even after the attempt has ended.
    """

    context_made: JobContext | None
    """The context, if it has been made."""
    concluded: bool
    """Whether the code has ended: a context made later opens no transaction."""

    @property
    def pid(self) -> int:
        """The process in which it runs."""

    @property
    def context(self) -> JobContext:
        """Its context, which is made now if needed."""


class AttemptedWith:
    """An attempt whose context was made before it began."""

    __slots__ = ("concluded", "context", "context_made", "pid")

    def __init__(self, context: JobContext) -> None:
        self.context = context
        self.context_made: JobContext | None = context
        self.concluded = False
        self.pid = context.pid


class PlainCode(threading.local):
    """What this thread runs: the job of a task that is a plain function, or none.

    A context variable would not do: `asyncio.to_thread` gives an async task's to other threads.
    """

    job_id: str | None = None


def open_connection() -> Connection | None:
    """The connection of the running task's open transaction; None if none is open."""
    attempted = current_attempt.get(None)
    context = None if attempted is None else attempted.context_made
    transaction = None if context is None else context.own_transaction
    return None if transaction is None else transaction.connection


def current_job() -> JobContext:
    """The context of the job this code runs for; raises RuntimeError outside a job."""
    context = running_job()
    if context is None:
        raise RuntimeError(
            "current_job() was called outside a job: only a task that a worker runs has a context"
        )
    return context


def running_job() -> JobContext | None:
    """The context of the job this code runs for; None outside a job."""
    attempted = current_attempt.get(None)
    return None if attempted is None else attempted.context


current_attempt: Final[ContextVar[Attempted]] = ContextVar("leasehold_current_job")
"""Set at the start of an attempt, in a contextvars context of its own."""
plain_code: Final = PlainCode()
"""Set while a thread runs an attempt to its end."""
# A condition is made only for a task that waits; one lock for all of them is never contended.
_making_condition: Final = threading.Lock()
