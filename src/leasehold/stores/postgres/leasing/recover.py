"""The recovery sweep: take back what expired, or whose holder is proved dead.

A reader looks for them, which blocks no writer; the writes that follow take back so many each, and
look at every job once more: its lease is expired by now, or its holder is proved dead in this very
write. (A worker that comes back under its old id has its lock again before it can lease anything.)

Guard of the take: the row is still in `running` with the version that was read, in the same write.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from leasehold.core.model.budget import (
    LATE_AT_ONCE,
    PASSED_OVER_AT_ONCE,
    RECOVERED_AT_ONCE,
    batched,
)
from leasehold.core.model.lease import SweepReport
from leasehold.core.model.lives import Life
from leasehold.core.rules import recovery
from leasehold.core.rules.ends import EndedLease
from leasehold.core.rules.recovery import report_of
from leasehold.stores.postgres.leasing import lease
from leasehold.stores.postgres.leasing.ends import END_LEASES, Ends, Histories
from leasehold.stores.postgres.leasing.parking import KeyShelf
from leasehold.stores.postgres.leasing.ready import Ready
from leasehold.stores.postgres.leasing.registry import FORGET_WORKERS
from leasehold.stores.postgres.reading.feed import FEED
from leasehold.stores.postgres.rules.orders import QueueBook
from leasehold.stores.postgres.server.connection import SqlConnection
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.held import HeldRow, Suspects, TableHoldings, held_of, silent_since
from leasehold.stores.tables.places import AT_ITS_PLACE
from leasehold.stores.tables.queue_changes import QueueChanges
from leasehold.stores.tables.rebalance import rebalance

# `running` is small, so a reader simply reads it all.
LOST: Final = (
    "SELECT seq FROM running WHERE expires_at <= $1 OR worker = ANY($2) ORDER BY expires_at, seq"
)
_HELD_JOB: Final = """
    SELECT seq, id, lane, running.version, worker, life, expires_at, heartbeat_at, running.attempts,
           allowance, max_retries + 1, cancel_reason
    FROM running JOIN job USING (seq)
"""
# A job in whose transaction its task is just now is not lost: it is passed over.
STILL_LOST: Final = f"""
    {_HELD_JOB} WHERE seq = ANY($1) ORDER BY expires_at, seq FOR UPDATE OF job SKIP LOCKED
"""
RUNNING: Final = f"{_HELD_JOB} ORDER BY expires_at, seq FOR UPDATE OF job SKIP LOCKED"
# Nor is it waited for: the caller is told to try again.
HELD_UNDER: Final = f"{_HELD_JOB} WHERE id = $1 AND running.version = $2 FOR UPDATE OF job NOWAIT"
# Who still holds a job stays dead for the next sweep, which finds the job by its holder.
STILL_HOLDING: Final = "SELECT DISTINCT worker, life FROM running"
# A worker whose death cannot be proved is forgotten a day after its last sign of life, once it
# holds nothing; a consumer long before.
_IS_SILENT: Final = "heartbeat_at < CASE WHEN is_consumer THEN $1 ELSE $2 END"
SILENT: Final = f"""
    SELECT id FROM worker WHERE {_IS_SILENT} AND id NOT IN (SELECT worker FROM running)
"""  # noqa: S608  # our own names
FORGET_SILENT: Final = f"DELETE FROM worker WHERE id = ANY($3) AND {_IS_SILENT}"  # noqa: S608  # as above
# Many late jobs have started, or ended, before: a reader finds those that have not.
LATE: Final = f"""
    SELECT ready.seq, job.lane, version, attempts, events, available_at, job.id, job.start_by,
           job.priority
    FROM job LEFT JOIN place ON place.seq = job.seq JOIN ready ON {AT_ITS_PLACE}
    WHERE start_by < $1 AND version = 0
"""  # noqa: S608  # our own names
STILL_LATE: Final = f"{LATE} AND job.seq = ANY($2)"


def find(db: SqlConnection, now: int, dead: Collection[Life]) -> Suspects:
    """The jobs whose holders may be lost, and the workers that were silent for long."""
    jobs = [seq for (seq,) in db.execute(LOST, (now, sorted(life.worker for life in dead)))]
    silent = [worker for (worker,) in db.execute(SILENT, silent_since(now))]
    late = [row[0] for row in db.execute(f"{LATE} LIMIT {LATE_AT_ONCE}", (now,))]
    return Suspects(frozenset(dead), jobs, late, silent)


class Holdings(TableHoldings, Histories):
    """The running jobs, to be taken from their holders."""

    held_under = HELD_UNDER
    ends = Ends
    shelf = KeyShelf

    def _end_lease(self, job: HeldRow) -> EndedLease:
        row: Any = self._step.execute(END_LEASES, ([job.seq], [job.version])).fetchone()
        return EndedLease._make(row)


def take_back_restored(step: Step) -> None:
    """Take back every running job, after a dump of the store was restored."""
    rows = step.execute(RUNNING).fetchall()
    found = [each for row in rows if (each := held_of(row)) is not None]
    recovery.take_back_restored(Holdings(step), found)


def recover(step: Step, jobs: Sequence[int], dead: Collection[Life]) -> SweepReport:
    """Take back those of these jobs that are lost, in one write."""
    rows = step.execute(STILL_LOST, (list(jobs),)).fetchall()
    found = [each for row in rows if (each := held_of(row)) is not None]
    return report_of(recovery.sweep(Holdings(step), found, now=step.now, dead=dead))


def forget_workers(step: Step, dead: Collection[Life], silent: Collection[str]) -> SweepReport:
    """Forget workers whose jobs have been taken back."""
    done = sorted(set(dead).difference(map(Life._make, step.execute(STILL_HOLDING))))
    workers = [life.worker for life in done]
    step.execute(FORGET_WORKERS, (workers, [life.number for life in done]))
    step.execute(FORGET_SILENT, (*silent_since(step.now), list(silent)))
    return SweepReport(workers_proved_dead=tuple(workers))


def cancel_late(step: Step, jobs: Sequence[int]) -> None:
    """Cancel those of these jobs that are pending past their start_by."""
    rows = step.execute(STILL_LATE, (step.now, list(jobs)))
    lease.cancel_late(step, [lease.Late(*row) for row in rows])


def sweep(database: Database) -> SweepReport:
    """Take back jobs of expired leases and dead holders, and go on with work that was cut short."""
    monotonic = database.env.clock.monotonic
    started = monotonic()
    database.write(_tidy_up)
    with database.read() as db:
        dead = database.deaths.find(db)
        lost = find(db, database.now(db), dead)
    report = SweepReport()
    for jobs in batched(lost.jobs, RECOVERED_AT_ONCE):
        report = report.plus(database.write(partial(_recover_some, database, dead, jobs)))
    for late in batched(lost.late, PASSED_OVER_AT_ONCE):
        database.write(partial(cancel_late, jobs=late))
    if lost.dead or lost.silent:
        report = report.plus(database.write(partial(_forget_workers, database, lost)))
    QueueChanges(database, QueueBook).finish_deleting()
    return msgspec.structs.replace(report, scan_ms=(monotonic() - started) * 1000)


def _recover_some(
    database: Database, dead: set[Life], jobs: Sequence[int], step: Step
) -> SweepReport:
    # Deaths are looked for inside the write, and count only if they were known before.
    return recover(step, jobs, dead & database.deaths.find(step.db))


def _tidy_up(step: Step) -> None:
    rebalance(step, Ready)
    FEED.end_if_unfollowed(step)


def _forget_workers(database: Database, lost: Suspects, step: Step) -> SweepReport:
    dead = lost.dead & database.deaths.find(step.db)
    return forget_workers(step, dead, lost.silent)


def promote(database: Database) -> int:
    """Let everything that is due become pending, so many in each write."""
    promoted = 0
    while found := database.write(lease.promote):
        promoted += found
    return promoted
