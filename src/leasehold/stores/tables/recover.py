"""The registry of workers, and the recovery sweep, which takes back jobs of expired leases and dead
holders.

A reader finds them, which blocks no writer. The writes that follow each take back a bounded number,
and check every job again: its lease has expired by now, or its holder is proved dead in this write.
(A worker that comes back under its old id has its lock again before it can lease anything.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from leasehold.core.model.budget import (
    LATE_AT_ONCE,
    PASSED_OVER_AT_ONCE,
    RECOVERED_AT_ONCE,
    batched,
)
from leasehold.core.model.lease import LeaseRequest, Settled, SweepReport
from leasehold.core.model.lives import Life, remote_life
from leasehold.core.model.records import WorkerInfo, WorkerLife
from leasehold.core.rules import key_accounts
from leasehold.core.rules.decision import Decision
from leasehold.core.rules.ends import EndedLease
from leasehold.core.rules.recovery import HeldJob, silent_since
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.ends import TableEnds
from leasehold.stores.tables.feed import TableFeed
from leasehold.stores.tables.job_states import LateRow, TableHistories, cancel_late
from leasehold.stores.tables.order import AT_ITS_PLACE
from leasehold.stores.tables.queues import TableQueueBook, TableQueueVerbs
from leasehold.stores.tables.rebalance import rebalance
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import TableStep
from leasehold.stores.verbs.recovery import RecoveryVerbs

SET_ALLOWANCE: Final = "UPDATE job SET allowance = $1 WHERE seq = $2"


class HeldRow(NamedTuple):
    """The key of a running job here."""

    seq: int
    id: str
    lane: int
    version: int


class TableHoldings(TableHistories):
    """See `leasehold.core.rules.recovery.Holdings`."""

    held_under: ClassVar[str]
    """Selects a HeldRow and the rest of a HeldJob by id and version, for this write alone."""
    ends: ClassVar[type[TableEnds]]

    @abstractmethod
    def _end_lease(self, job: HeldRow) -> EndedLease: ...

    def held(self, job_id: str, version: int) -> tuple[HeldRow, HeldJob] | None:
        return held_of(self._step.execute(self.held_under, (job_id, version)).fetchone())

    def set_allowance(self, job: HeldRow, allowance: int) -> None:
        self._step.execute(SET_ALLOWANCE, (allowance, job.seq))

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        self._step.audit(actor, action, count, detail)

    def take_back(self, job: HeldRow, decision: Decision) -> Settled:
        step = self._step
        lease = self._end_lease(job)
        if step.rules.key_limits:
            key_accounts.freed(self.ready.shelf(step), (job.seq,))
        ends = self.ends(step)
        settled = ends.add(job.id, lease, job.lane, decision, checkpoint=True)
        ends.write()
        return settled


def held_of(row: Any) -> tuple[HeldRow, HeldJob] | None:
    """A running job, from its row."""
    return None if row is None else (HeldRow(*row[:4]), HeldJob(*row[3:]))


# Guard: the entry is that consumer's own, not its successor's under the same name, and no other
# consumer of that name holds a job.
FORGET_CONSUMER: Final = """
    DELETE FROM worker WHERE id = $1 AND is_consumer
        AND host IS NOT DISTINCT FROM $2 AND pid IS NOT DISTINCT FROM $3
        AND id NOT IN (SELECT worker FROM running)
"""
# Guard of the update: the entry is not a registered worker's.
NOTE_CONSUMER: Final = """
    INSERT INTO worker
        (id, host, pid, queues, tasks, slots, started_at, heartbeat_at, is_consumer, life)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $7, true, 0)
    ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid,
        queues = excluded.queues, tasks = excluded.tasks, slots = excluded.slots,
        heartbeat_at = excluded.heartbeat_at
    WHERE worker.is_consumer
"""


class RemoteLife:
    """A worker's entry without a lock."""

    lock_fd: int | None = None

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave = leave
        self._is_over = False

    def close(self) -> None:
        if not self._is_over:
            self._leave()
            self._is_over = True


class TableRegistry(ABC):
    """The registry of a store's workers."""

    add: ClassVar[str]
    """Enters a worker, replacing any other of its name: the columns of the table from id to slots,
    the time now, the number of its life, and the version of its application.
    """
    forget: ClassVar[str]
    """For `many`: forgets lives. Guard: the entry is that life's own, and not one of its successor
    under the same name."""

    def __init__(self, database: Any) -> None:
        self._database: TableDatabase = database

    @abstractmethod
    def register(self, info: WorkerInfo) -> WorkerLife:
        """Enter a worker, which stays in the registry until its life is closed or proved to be
        over.
        """

    def register_remote(self, info: WorkerInfo, *, is_entered: bool) -> WorkerLife:
        """Enter a worker known only by its own details."""
        life = remote_life(info)
        if not is_entered:
            self._enter(info, life)
        return RemoteLife(partial(self._leave, life))

    def _enter(self, info: WorkerInfo, life: Life) -> None:
        def enter(step: TableStep) -> None:
            served = (_document(info.queues), _document(info.tasks))
            row = (info.id, info.host, info.pid, *served, info.slots, step.now, life.number)
            step.execute(self.add, (*row, info.app_version))

        self._database.write(enter)

    def _leave(self, life: Life) -> None:
        self._database.write(lambda step: self.forget_lives(step, [life]))
        self._database.lives.end(life)

    @classmethod
    def forget_lives(cls, step: TableStep, lives: Sequence[Life]) -> None:
        """Remove the entries of these lives."""
        step.many(cls.forget, lives)


def note_consumer(step: TableStep, request: LeaseRequest) -> None:
    """Enter the leasing worker as a consumer, or record that it still is or no longer is one."""
    consumer = request.consumer
    assert consumer is not None
    if not consumer.queues:
        step.execute(FORGET_CONSUMER, (request.worker, consumer.host, consumer.pid))
        return
    if request.limit <= 0:
        return
    served = (_document(consumer.queues), _document(request.tasks or ()))
    row = (request.worker, consumer.host, consumer.pid, *served, request.limit)
    step.execute(NOTE_CONSUMER, (*row, step.now))


def _document(names: tuple[str, ...]) -> str:
    return msgspec.json.encode(names).decode()


# A dead worker that still holds a job is kept for the next sweep, which finds the job by its
# holder.
STILL_HOLDING: Final = "SELECT DISTINCT worker, {} FROM running"
# A worker whose death cannot be proved (another machine's disk image, a killed start-up) is
# forgotten a day after its last sign of life, once it holds nothing; a consumer long before.
_IS_SILENT: Final = "heartbeat_at < CASE WHEN is_consumer THEN $1 ELSE $2 END"
SILENT: Final = f"""
    SELECT id FROM worker WHERE {_IS_SILENT} AND id NOT IN (SELECT worker FROM running)
"""
FORGET_SILENT: Final = f"DELETE FROM worker WHERE {_IS_SILENT} AND {{}}"
# Many jobs past that time have already started or ended: a reader finds those that have not.
LATE: Final = f"""
    SELECT ready.seq, job.lane, version, attempts, events, available_at, job.id, job.start_by,
           job.priority
    FROM job LEFT JOIN place ON place.seq = job.seq JOIN ready ON {AT_ITS_PLACE}
    WHERE start_by < $1 AND version = 0
"""


class Suspects(NamedTuple):
    """A reader's findings; each write checks its part again."""

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
    """Selects running jobs by the time and a list of dead workers, earliest expiry first."""
    life: ClassVar[str] = "life"
    """The expression for the life of a lease."""

    def __init__(self, database: Any) -> None:
        self._database: TableDatabase = database

    @abstractmethod
    def _dead(self, db: Any) -> set[Life]:
        """The lives that are proved to be over."""

    def _bury(self, lives: Collection[Life]) -> None:  # noqa: B027  # not every store has to
        """Record that lives are over and their jobs were taken back."""

    @abstractmethod
    def recover(self, step: Any, jobs: Sequence[int], dead: Collection[Life]) -> SweepReport:
        """Take back the given jobs that are lost, in one write."""

    def run(self) -> SweepReport:
        """Take back jobs of expired leases and dead holders, and continue unfinished work."""
        database = self._database
        monotonic = database.env.clock.monotonic
        started = monotonic()
        # Look by the time of a write, which may have come to believe a jump (CLK-1).
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
        return msgspec.structs.replace(report, scan_ms=(monotonic() - started) * 1000)

    def _tidy_up(self, step: TableStep) -> None:
        rebalance(step, self.queue_book.histories.ready)
        self.feed.end_if_unfollowed(step)

    def _find(self, db: SqlConnection, now: int, dead: Collection[Life]) -> Suspects:
        workers = self.queue_book.histories.dialect.listed(sorted(life.worker for life in dead))
        jobs = [seq for (seq,) in db.execute(self.lost, (now, workers))]
        silent = [worker for (worker,) in db.execute(SILENT, silent_since(now))]
        late = [row[0] for row in db.execute(f"{LATE} LIMIT {LATE_AT_ONCE}", (now,))]
        return Suspects(frozenset(dead), jobs, late, silent)

    def _recover_some(
        self, dead: Collection[Life], jobs: Sequence[int], step: TableStep
    ) -> SweepReport:
        # Deaths are checked inside the write, and count only if they were already known.
        return self.recover(step, jobs, self._dead(step.db).intersection(dead))

    def _cancel_late(self, jobs: Sequence[int], step: TableStep) -> None:
        dialect = self.queue_book.histories.dialect
        still_late = f"{LATE} AND {dialect.among('job.seq', '$2')}"
        rows = step.execute(still_late, (step.now, dialect.listed(jobs))).fetchall()
        cancel_late(self.queue_book.histories(step), [LateRow(*row) for row in rows])

    def _forget_workers(self, lost: Suspects, step: TableStep) -> list[Life]:
        """Forget workers whose jobs have been taken back; returns the lives that are over."""
        dialect = self.queue_book.histories.dialect
        holding = map(Life._make, step.execute(STILL_HOLDING.format(self.life)))
        over = sorted(self._dead(step.db).intersection(lost.dead).difference(holding))
        self.registry.forget_lives(step, over)
        silent = dialect.listed(lost.silent)
        step.execute(
            FORGET_SILENT.format(dialect.among("id", "$3")), (*silent_since(step.now), silent)
        )
        return over


class TableRecoveryVerbs(TableQueueVerbs, RecoveryVerbs):
    """The registry of workers, and sweeps."""

    _registry: type[TableRegistry]
    _sweeper: type[TableSweep]

    def register_worker(
        self, info: WorkerInfo, *, is_remote: bool = False, is_entered: bool = False
    ) -> WorkerLife:
        registry = self._registry(self._database)
        if is_remote:
            return registry.register_remote(info, is_entered=is_entered)
        return registry.register(info)

    def _sweep(self) -> SweepReport:
        return self._sweeper(self._database).run()
