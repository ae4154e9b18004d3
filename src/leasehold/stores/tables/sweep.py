"""The recovery sweep: take back what expired, or whose holder is proved dead.

A reader looks for them, which blocks no writer; the writes that follow take back so many each, and
look at every job once more: its lease is expired by now, or its holder is proved dead in this very
write. (A worker that comes back under its old id has its lock again before it can lease anything.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from leasehold.core.model.budget import (
    LATE_AT_ONCE,
    PASSED_OVER_AT_ONCE,
    RECOVERED_AT_ONCE,
    batched,
)
from leasehold.core.model.lease import SweepReport
from leasehold.core.model.lives import Life
from leasehold.core.model.records import SILENT_SECONDS
from leasehold.core.rules.recovery import WORKER_SILENT_MICROS_MAX
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.feed import TableFeed
from leasehold.stores.tables.late import LateRow, cancel_late
from leasehold.stores.tables.places import AT_ITS_PLACE
from leasehold.stores.tables.queue_book import TableQueueBook
from leasehold.stores.tables.queue_changes import QueueChanges
from leasehold.stores.tables.rebalance import rebalance
from leasehold.stores.tables.registry import TableRegistry
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import TableStep

# Who still holds a job stays dead for the next sweep, which finds the job by its holder.
STILL_HOLDING: Final = "SELECT DISTINCT worker, {} FROM running"
# A worker whose death cannot be proved (another machine's disk image, a killed start-up) is
# forgotten a day after its last sign of life, once it holds nothing; a consumer long before.
_IS_SILENT: Final = "heartbeat_at < CASE WHEN is_consumer THEN $1 ELSE $2 END"
SILENT: Final = f"""
    SELECT id FROM worker WHERE {_IS_SILENT} AND id NOT IN (SELECT worker FROM running)
"""  # noqa: S608  # our own names
FORGET_SILENT: Final = f"DELETE FROM worker WHERE {_IS_SILENT} AND {{}}"  # noqa: S608  # as above
# Many late jobs have started, or ended, before: a reader finds those that have not.
LATE: Final = f"""
    SELECT ready.seq, job.lane, version, attempts, events, available_at, job.id, job.start_by,
           job.priority
    FROM job LEFT JOIN place ON place.seq = job.seq JOIN ready ON {AT_ITS_PLACE}
    WHERE start_by < $1 AND version = 0
"""  # noqa: S608  # our own names


class Suspects(NamedTuple):
    """A reader's findings; each write looks at its part once more."""

    dead: frozenset[Life]
    """Lives that were proved to be over before their jobs were looked for."""
    jobs: list[int]
    late: list[int]
    """Pending jobs past their start_by."""
    silent: list[str]


class TableSweep(ABC):
    """A sweep of a store."""

    queue_book: ClassVar[type[TableQueueBook]]
    registry: ClassVar[type[TableRegistry]]
    feed: ClassVar[TableFeed]
    lost: ClassVar[str]
    """Selects running jobs by the time and a list of dead workers, those that expired first."""
    life: ClassVar[str] = "life"
    """How the life of a lease is read."""

    def __init__(self, database: Any) -> None:
        self._database: TableDatabase = database

    @abstractmethod
    def _dead(self, db: Any) -> set[Life]:
        """The lives that are proved to be over."""

    def _bury(self, lives: Collection[Life]) -> None:  # noqa: B027  # not every store has to
        """Lives are over and their jobs taken back."""

    @abstractmethod
    def recover(self, step: Any, jobs: Sequence[int], dead: Collection[Life]) -> SweepReport:
        """Take back those of these jobs that are lost, in one write."""

    def run(self) -> SweepReport:
        """Take back jobs of expired leases and dead holders, and go on with work cut short."""
        database = self._database
        monotonic = database.env.clock.monotonic
        started = monotonic()
        # The time that a write tells is the time to look by: it may come to believe a jump (CLK-1).
        database.write(self._tidy_up)
        with database.read() as db:
            lost = self._find(db, database.now(db), self._dead(db))
        report = SweepReport()
        for jobs in batched(lost.jobs, RECOVERED_AT_ONCE):
            report = report.plus(database.write(partial(self._recover_some, lost.dead, jobs)))
        for late in batched(lost.late, PASSED_OVER_AT_ONCE):
            database.write(partial(self._cancel_late, late))
        if lost.dead or lost.silent:
            over = database.write(partial(self._forget_workers, lost))
            workers = tuple(life.worker for life in over)
            report = report.plus(SweepReport(workers_proved_dead=workers))
            self._bury(over)
        QueueChanges(database, self.queue_book).finish_deleting()
        return msgspec.structs.replace(report, scan_ms=(monotonic() - started) * 1000)

    def _tidy_up(self, step: TableStep) -> None:
        rebalance(step, self.queue_book.histories.ready)
        self.feed.end_if_unfollowed(step)

    def _find(self, db: SqlConnection, now: int, dead: Collection[Life]) -> Suspects:
        workers = self.queue_book.histories.dialect.listed(sorted(life.worker for life in dead))
        jobs = [seq for (seq,) in db.execute(self.lost, (now, workers))]
        silent = [worker for (worker,) in db.execute(SILENT, _silent_since(now))]
        late = [row[0] for row in db.execute(f"{LATE} LIMIT {LATE_AT_ONCE}", (now,))]
        return Suspects(frozenset(dead), jobs, late, silent)

    def _recover_some(
        self, dead: Collection[Life], jobs: Sequence[int], step: TableStep
    ) -> SweepReport:
        # Deaths are looked for inside the write, and count only if they were known before.
        return self.recover(step, jobs, self._dead(step.db).intersection(dead))

    def _cancel_late(self, jobs: Sequence[int], step: TableStep) -> None:
        dialect = self.queue_book.histories.dialect
        still_late = f"{LATE} AND {dialect.among('job.seq', '$2')}"
        rows = step.execute(still_late, (step.now, dialect.listed(jobs))).fetchall()
        cancel_late(self.queue_book.histories(step), [LateRow(*row) for row in rows])

    def _forget_workers(self, lost: Suspects, step: TableStep) -> list[Life]:
        """Forget workers whose jobs have been taken back; answers which lives are over."""
        dialect = self.queue_book.histories.dialect
        holding = map(Life._make, step.execute(STILL_HOLDING.format(self.life)))
        over = sorted(self._dead(step.db).intersection(lost.dead).difference(holding))
        self.registry.forget_lives(step, over)
        silent = dialect.listed(lost.silent)
        step.execute(
            FORGET_SILENT.format(dialect.among("id", "$3")), (*_silent_since(step.now), silent)
        )
        return over


def _silent_since(now: int) -> tuple[int, int]:
    """Since when a consumer, and a worker, must have been silent to be forgotten."""
    return now - round(SILENT_SECONDS * 1e6), now - WORKER_SILENT_MICROS_MAX
