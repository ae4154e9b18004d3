"""The transaction of one running job: the job's end and its task's writes are one commit.

While it is open, the job's row in `job` is locked; a sweep needs that lock, so it passes the job
over and does not take it away. The row of the lease is not locked: renewals and cancellations do
not wait for the transaction. See `leasehold.core.contract.transactions.JobTransaction`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, cast

import psycopg
from psycopg.pq import TransactionStatus

from leasehold.core.contract.transactions import Connection
from leasehold.core.model.joblog import LogLine, check_progress
from leasehold.core.model.lease import Settled, Settlement
from leasehold.core.rules import holding
from leasehold.errors import LeaseLostError, StoreUnavailableError, TransactionError
from leasehold.stores.postgres.leasing.ends import HolderBook, refuse
from leasehold.stores.postgres.leasing.settle import settle
from leasehold.stores.postgres.server.connection import Row, patience_seconds
from leasehold.stores.postgres.server.failures import translated
from leasehold.stores.postgres.writing.application import ApplicationConnection, within
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.marks import Mark, leave
from leasehold.stores.postgres.writing.outcome import Outcome
from leasehold.stores.postgres.writing.step import Step

HOLD: Final = """
    SELECT job.seq, lane, queue
    FROM "{0}".job JOIN "{0}".running USING (seq) JOIN "{0}".lane ON lane.id = lane
    WHERE job.id = %s AND running.version = %s FOR KEY SHARE OF job
"""
SOMEBODY_NEEDS: Final = "SELECT EXISTS (SELECT 1 FROM blocker WHERE needs = $1)"

ENDS: Final = frozenset(("COMMIT", "END", "ROLLBACK", "ABORT", "BEGIN", "START", "PREPARE"))
"""The first words of statements that begin or end a transaction."""


class TaskCursor(psycopg.Cursor[Row]):
    """Refuses statements that would end the transaction before its job ends."""

    def execute(self, query: Any, *values: Any, **options: Any) -> TaskCursor:
        connection = cast("TaskConnection", self.connection)
        text = query.decode() if isinstance(query, bytes) else str(query)
        if connection.is_spoiled or (text.split() or [""])[0].upper().rstrip(";") in ENDS:
            connection.spoil()
            raise TransactionError(
                "the transaction of a task commits by itself, with the completion of its job: "
                "leave out COMMIT, ROLLBACK and the like. It was rolled back"
            )
        return super().execute(query, *values, **options)


class OwnJob(NamedTuple):
    """The job whose transaction it is."""

    seq: int
    lane: int
    queue: str

    def ends_alone(self, step: Step) -> bool:
        """Whether its completion concerns other jobs, as far as this write sees.

        Who shares the turn sees all who need it: new ones come only from writes that are alone.
        """
        found: Any = step.found
        if found.some_unresolved or found.some_inheriting or found.may_be_failing({self.lane}):
            return True
        if not step.rules.are_light((self.queue,)):
            return True
        if not found.somebody_waits:
            return False
        row: Any = step.execute(SOMEBODY_NEEDS, (self.seq,)).fetchone()
        return bool(row[0])


class TaskConnection(ApplicationConnection):
    """The connection given to a task, which cannot commit it."""

    is_spoiled = False
    may_end = False
    job: OwnJob

    def spoil(self) -> None:
        """Roll back, and refuse everything from now on."""
        self.is_spoiled = True
        super().rollback()

    def commit(self) -> None:
        if not self.may_end:
            self.execute("COMMIT")
        super().commit()


def open_transaction(database: Database, job_id: str, version: int) -> HeldTransaction:
    """Begin the transaction of a running job, if the job is still held."""
    address = database.address
    database.check_open()
    with translated(address):
        raw = TaskConnection.open(address)
        raw.autocommit = False
        # It is fenced by the lease as it is when the task ends, not as it was when it began.
        raw.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        raw.cursor_factory = TaskCursor
        held = HeldTransaction(database, raw, job_id, version)
        try:
            found = raw.execute(HOLD.format(address.schema).encode(), (job_id, version)).fetchone()
        except BaseException:
            held.roll_back()
            raise
    if found is None:
        held.roll_back()
        raise database.write(lambda step: refuse(step, job_id, version))
    raw.job = OwnJob(*found)
    raw.ends_alone = raw.job.ends_alone
    return held


class HeldTransaction:
    """The transaction of one running job."""

    def __init__(self, database: Database, raw: TaskConnection, job_id: str, version: int) -> None:
        self._database = database
        self._raw = raw
        self._job_id = job_id
        self._version = version
        self._is_over = False
        # Reports made meanwhile are written and become visible at the commit: writing them at once
        # would hold the store's turn for as long as the task takes.
        self._progress: bytes | None = None
        self._log: list[tuple[Sequence[LogLine], int]] = []

    @property
    def connection(self) -> Connection:
        return cast("Connection", self._raw)

    @property
    def is_open(self) -> bool:
        return not self._is_over

    def adopt(self) -> None:
        """Does nothing: any thread may continue it."""

    def report_progress(self, progress: bytes) -> None:
        check_progress(self._job_id, progress)
        self._progress = progress

    def append_log(self, lines: Sequence[LogLine], *, dropped: int = 0) -> None:
        self._log.append((lines, dropped))

    def complete(self, settlement: Settlement) -> Settled:
        if self._raw.info.transaction_status is not TransactionStatus.INTRANS:
            raise TransactionError(
                f"job {self._job_id} no longer has an open transaction: a statement in it failed, "
                "or it was ended inside the task. Nothing of it is kept"
            )
        self._raw.patience_seconds = patience_seconds(self._database.address)
        marks = self._database.marks
        mark = marks.take()
        answer, step = self._fenced(lambda step: self._end(step, settlement), mark)
        outcome: Outcome[Settled] = Outcome()
        outcome.mark, outcome.is_sent = mark.next, True
        with translated(self._database.address):
            try:
                self._raw.may_end = True
                self._raw.commit()
            except psycopg.OperationalError as error:
                if not outcome.was_committed(self._database.address, self._database.env.clock):
                    raise StoreUnavailableError(
                        f"the connection was lost before the transaction of job {self._job_id} was "
                        "committed; nothing of it is kept"
                    ) from error
            else:
                marks.give_back(mark.next)
        self._close()
        self._database.after_commit(step.hints)
        return answer

    def roll_back(self) -> None:
        if not self._is_over:
            self._close()

    def _close(self) -> None:
        self._is_over = True
        with contextlib.suppress(psycopg.Error):
            self._raw.close()

    def _end(self, step: Step, settlement: Settlement) -> Settled | LeaseLostError:
        job = (self._job_id, self._version)
        if self._progress is not None:
            holding.report_progress(HolderBook(step), *job, self._progress)
        for lines, dropped in self._log:
            holding.append_log(HolderBook(step), *job, lines, dropped)
        return settle(step, [settlement])[0]

    def _fenced(
        self, operation: Callable[[Step], Settled | LeaseLostError], mark: Mark
    ) -> tuple[Settled, Step]:
        def marked(step: Step) -> Settled | LeaseLostError:
            answer = operation(step)
            leave(step, mark)
            return answer

        job = self._raw.job
        answer, step = within(
            self._database, self._raw, marked, lambda step: not job.ends_alone(step)
        )
        if isinstance(answer, LeaseLostError):
            raise answer
        return answer, step
