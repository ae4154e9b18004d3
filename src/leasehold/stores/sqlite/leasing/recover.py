"""The recovery sweep: take back what expired, or whose holder is proved dead.

A reader looks for them, which blocks no writer; the writes that follow take back so many each, and
look at every job once more: its lease is expired by now, or its holder is proved dead in this very
write. (A worker that comes back under its old id has its lock again before it can lease anything.)

Guard of the take: the row is still in `running` with the version that was read, in the same write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.model.budget import (
    LATE_AT_ONCE,
    PASSED_OVER_AT_ONCE,
    RECOVERED_AT_ONCE,
    batched,
)
from leasehold.core.model.lease import SweepReport
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.lives import Life
from leasehold.core.model.status import Event
from leasehold.core.rules import recovery
from leasehold.core.rules.ends import EndedLease
from leasehold.core.rules.recovery import HeldJob, report_of
from leasehold.stores.sqlite.leasing import damage, lease
from leasehold.stores.sqlite.leasing.ends import END_LEASE, Ends, Histories
from leasehold.stores.sqlite.leasing.parking import KeyShelf
from leasehold.stores.sqlite.leasing.ready import Ready
from leasehold.stores.sqlite.leasing.registry import FORGET_WORKER
from leasehold.stores.sqlite.reading.feed import FEED
from leasehold.stores.sqlite.rules.orders import QueueBook
from leasehold.stores.sqlite.schema.job_row import problem_with
from leasehold.stores.sqlite.schema.rows import SQLITE
from leasehold.stores.sqlite.writing import clock_repair
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.held import HeldRow, Suspects, TableHoldings, held_of, silent_since
from leasehold.stores.tables.places import AT_ITS_PLACE
from leasehold.stores.tables.queue_changes import QueueChanges
from leasehold.stores.tables.rebalance import rebalance

# `running` is small, so a reader simply reads it all. An expiry beyond all leases cannot be read.
LOST: Final = f"""
    SELECT seq FROM running
    WHERE typeof(expires_at) <> 'integer' OR expires_at <= ?1
        OR expires_at > ?1 + {round(SECONDS_MAX) * 1_000_000}
        OR worker IN (SELECT value FROM json_each(?2))
    ORDER BY expires_at, seq
"""  # noqa: S608  # our own number
# A life that cannot be read is no life: no death proves such a lease lost, and it waits to expire.
_LIFE: Final = "iif(typeof(life) = 'integer', life, 0)"
_HELD_JOB: Final = f"""
    SELECT seq, id, lane, running.version, worker, {_LIFE}, expires_at, heartbeat_at,
           running.attempts, allowance, max_retries + 1, cancel_reason
    FROM running JOIN job USING (seq)
"""  # noqa: S608  # our own names
RUNNING: Final = "SELECT seq FROM running ORDER BY expires_at, seq"
STILL_LOST: Final = f"{_HELD_JOB} WHERE seq = ?"
HELD_UNDER: Final = f"{_HELD_JOB} WHERE id = ? AND running.version = ?"
# Who still holds a job stays dead for the next sweep, which finds the job by its holder.
STILL_HOLDING: Final = f"SELECT DISTINCT worker, {_LIFE} FROM running"  # noqa: S608  # as above
# A worker that left no lock file behind (another machine's disk image, a killed start-up) is
# forgotten a day after its last sign of life, once it holds nothing; a consumer long before.
_IS_SILENT: Final = "heartbeat_at < iif(is_consumer, ?1, ?2)"
SILENT: Final = f"""
    SELECT id FROM worker WHERE {_IS_SILENT} AND id NOT IN (SELECT worker FROM running)
"""  # noqa: S608  # our own names
FORGET_SILENT: Final = f"DELETE FROM worker WHERE id = ?3 AND {_IS_SILENT}"  # noqa: S608  # as above
# Many late jobs have started, or ended, before: a reader finds those that have not.
LATE: Final = f"""
    SELECT ready.seq, job.lane, version, attempts, events, available_at, job.id, job.start_by
    FROM job LEFT JOIN place ON place.seq = job.seq JOIN ready ON {AT_ITS_PLACE}
    WHERE start_by < ?1 AND version = 0
"""  # noqa: S608  # our own names
STILL_LATE: Final = f"{LATE} AND job.{SQLITE.among('seq', '?2')}"


def find(db: apsw.Connection, now: int, dead: Collection[Life]) -> Suspects:
    """The jobs whose holders may be lost, and the workers that were silent for long."""
    workers = msgspec.json.encode(sorted(life.worker for life in dead)).decode()
    jobs = [seq for (seq,) in db.execute(LOST, (now, workers))]
    silent = [worker for (worker,) in db.execute(SILENT, silent_since(now))]
    late = [row[0] for row in db.execute(f"{LATE} LIMIT {LATE_AT_ONCE}", (now,))]
    return Suspects(frozenset(dead), jobs, late, silent)


class Holdings(TableHoldings, Histories):
    """The running jobs, to be taken from their holders."""

    held_under = HELD_UNDER
    ends = Ends
    shelf = KeyShelf

    def _end_lease(self, job: HeldRow) -> EndedLease:
        row: Any = self._step.execute(END_LEASE, (job.seq, job.version)).fetchone()
        return EndedLease._make(row)


def take_back_restored(step: Step) -> None:
    """Take back every running job, after a copy of the store came back."""
    running = [seq for (seq,) in step.execute(RUNNING)]
    recovery.take_back_restored(Holdings(step), _held(step, running, set_aside=[]))


def recover(step: Step, jobs: Sequence[int], dead: Collection[Life]) -> SweepReport:
    """Take back those of these jobs that are lost, in one write."""
    set_aside: list[Event] = []
    held = _held(step, jobs, set_aside)
    events = recovery.sweep(Holdings(step), held, now=step.now, dead=dead)
    return report_of(events + set_aside)


def _held(
    step: Step, jobs: Sequence[int], set_aside: list[Event]
) -> Iterator[tuple[HeldRow, HeldJob]]:
    """Those of these jobs that run; jobs that cannot be read are set aside, with their events."""
    for seq in jobs:
        problem = problem_with(step.db, seq)
        if problem is not None:
            decision = damage.set_aside(step, damage.Damaged(seq, problem))
            set_aside.extend([] if decision is None else [decision.event])
        elif (found := held_of(step.execute(STILL_LOST, (seq,)).fetchone())) is not None:
            yield found


def forget_workers(step: Step, dead: Collection[Life], silent: Collection[str]) -> list[Life]:
    """Forget workers whose jobs have been taken back; answers which lives are over."""
    done = sorted(set(dead).difference(map(Life._make, step.execute(STILL_HOLDING))))
    step.executemany(FORGET_WORKER, done)
    since = silent_since(step.now)
    step.executemany(FORGET_SILENT, [(*since, worker) for worker in silent])
    return done


def cancel_late(step: Step, jobs: Sequence[int]) -> None:
    """Cancel those of these jobs that are pending past their start_by."""
    rows = step.execute(STILL_LATE, (step.now, SQLITE.listed(jobs))).fetchall()
    lease.cancel_late(step, [lease.Late(*row) for row in rows])


def sweep(database: Database) -> SweepReport:
    """Take back jobs of expired leases and dead holders, and go on with work that was cut short."""
    monotonic = database.env.clock.monotonic
    started = monotonic()
    database.put_right()
    # The time that a write tells is the time to look by: it may come to believe a jump (CLK-1).
    database.write(_tidy_up)
    dead = database.deaths.find()
    with database.read() as db:
        lost = find(db, database.now(db), dead)
    report = SweepReport()
    for jobs in batched(lost.jobs, RECOVERED_AT_ONCE):
        report = report.plus(database.write(partial(_recover_some, database, dead, jobs)))
    for late in batched(lost.late, PASSED_OVER_AT_ONCE):
        database.write(partial(cancel_late, jobs=late))
    if lost.dead or lost.silent:
        over = database.write(partial(_forget_workers, database, lost))
        report = report.plus(SweepReport(workers_proved_dead=tuple(life.worker for life in over)))
        database.deaths.bury(over)
    QueueChanges(database, QueueBook).finish_deleting()
    return msgspec.structs.replace(report, scan_ms=(monotonic() - started) * 1000)


def _recover_some(
    database: Database, dead: set[Life], jobs: Sequence[int], step: Step
) -> SweepReport:
    # Deaths are looked for inside the write, and count only if they were known before.
    return recover(step, jobs, dead & database.deaths.find())


def _tidy_up(step: Step) -> None:
    rebalance(step, Ready)
    FEED.end_if_unfollowed(step)


def _forget_workers(database: Database, lost: Suspects, step: Step) -> list[Life]:
    return forget_workers(step, lost.dead & database.deaths.find(), lost.silent)


def promote(database: Database) -> int:
    """Let everything that is due become pending, so many in each write."""
    promoted = 0
    while found := database.write(lease.promote):
        promoted += found
    return promoted


def repair_clock(database: Database, actor: str) -> ClockRepair:
    """Set the store's clock back to the wall clock, once no worker is left."""
    sweep(database)
    return database.write(
        lambda step: clock_repair.repair(step, database.env.clock.reading(), actor)
    )
