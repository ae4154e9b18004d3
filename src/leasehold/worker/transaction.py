"""A task's own transaction: its writes and the completion of its job, in one commit.

It is open from `with ctx.transaction()` until the task returns. While it is open, no other process
writes to the store, so the job cannot be taken away and its lease needs no renewal.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from leasehold.core.contract.transactions import Connection, JobTransaction
from leasehold.core.model.joblog import LogLine, LogTail
from leasehold.core.model.lease import Lease, Settled, Settlement
from leasehold.core.model.outcome import Complete, Outcome, within_limits
from leasehold.errors import TransactionError

if TYPE_CHECKING:
    from leasehold.worker.context import Sink


class Backing(Protocol):
    """The part of the attempt's runner that its transaction needs."""

    def open(self, lease: Lease) -> JobTransaction:
        """Open it, after making sure that no renewal or report of this lease is on its way to the
        store.
        """

    def claim(self, lease: Lease) -> bool:
        """Whether the attempt may still complete: from now on no other outcome is possible."""

    def gave_up(self, lease: Lease) -> None:
        """It was rolled back: the lease has to be kept alive again."""


class TaskTransaction:
    """What `ctx.transaction()` gives: enter it with `with`, in an async task with `async with`."""

    def __init__(
        self,
        lease: Lease,
        backing: Backing,
        sink: Sink,
        is_concluded: Callable[[], bool] = lambda: False,
    ) -> None:
        self._lease = lease
        self._backing = backing
        self._sink = sink
        self._is_concluded = is_concluded
        """Whether the attempt is over, so that a transaction opened now would never be ended."""
        self._pid = os.getpid()
        self._opening = threading.Lock()
        self._held: JobTransaction | None = None
        self._progress: bytes | None = None
        self._log = LogTail()
        self._leave_turn: Callable[[], None] = _nothing

    @property
    def is_open(self) -> bool:
        return self._held is not None

    @property
    def connection(self) -> Connection | None:
        """The connection to join; None while it is not open."""
        return None if self._held is None else self._held.connection

    # -- entering and leaving ----------------------------------------------------------------

    def __enter__(self) -> Connection:
        if _event_loop_runs():
            raise TransactionError(
                f"job {self._lease.job_id}: to wait for the turn to write would stop the event "
                "loop: write `async with ctx.transaction()`"
            )
        return self._take(self._backing.open(self._lease), _nothing)

    def _take(self, held: JobTransaction, leave_turn: Callable[[], None]) -> Connection:
        with self._opening:
            self._leave_turn = leave_turn
            self._held = held
            if not self._is_concluded():
                return held.connection
        # Opened by a thread, or a task of the event loop, that outlived the attempt.
        self.roll_back()
        raise TransactionError(
            f"job {self._lease.job_id}: its attempt was over before its transaction was open: open "
            "it in the task itself, or let the task wait for the code that does"
        )

    def is_settled_open(self) -> bool:
        """Whether it is open, rather than just being opened by a thread."""
        with self._opening:
            return self._held is not None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.roll_back()

    async def __aenter__(self) -> Connection:
        from leasehold.worker.asyncturn import open_in_turn

        held, leave_turn = await open_in_turn(
            lambda: self._backing.open(self._lease), lambda: self._backing.gave_up(self._lease)
        )
        return self._take(held, leave_turn)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    # -- while it is open --------------------------------------------------------------------

    def progress(self, document: bytes) -> None:
        """Progress to commit with the rest: only the latest counts, and is not visible earlier."""
        self._progress = document

    def log(self, line: LogLine) -> None:
        self._log.add(line)

    # -- its end -----------------------------------------------------------------------------

    def conclude(self, outcome: Outcome) -> Settled | None:
        """Complete the job and commit, if that is the outcome; otherwise roll back.

        Returns the store's reply, or None if the attempt still has to be settled. Raises the error
        that keeps it from completing; then all of it is rolled back.
        """
        held, lease = self._held, self._lease
        assert held is not None, "it was never entered, or is over"
        try:
            if not isinstance(within_limits(outcome, lease.job_id), Complete):
                return None
            if not self._backing.claim(lease):
                return None  # It timed out or was handed back, and ends that way.
            if self._progress is not None:
                held.report_progress(self._progress)
            if self._log:
                held.append_log(list(self._log.lines), dropped=self._log.dropped)
            settled = held.complete(Settlement(lease.job_id, lease.version, outcome))
            self._held = None
            self._leave_turn()
            return settled
        finally:
            self.roll_back()

    def roll_back(self) -> None:
        """Undo all of it; harmless when it is over. Log lines are kept, since they explain why."""
        held, self._held = self._held, None
        if held is None or os.getpid() != self._pid:
            return  # In a forked copy: the connection and its transaction are the parent's.
        try:
            held.roll_back()
        finally:
            self._leave_turn()
            self._backing.gave_up(self._lease)
        for line in self._log.lines:
            self._sink.log(self._lease, line)
        self._log.clear()
        self._progress = None


def _event_loop_runs() -> bool:
    # If asyncio was never imported, no loop runs; most workers need not load it.
    asyncio: Any = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _nothing() -> None:
    """There is no turn to leave."""
