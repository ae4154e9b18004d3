"""The SQLite store: the contract's verbs, each handed to the module that knows it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from leasehold.core import fence, people
from leasehold.core.budget import PASSED_OVER_AT_ONCE, RECOVERED_AT_ONCE, batched
from leasehold.core.clock_store import ClockRepair
from leasehold.core.dependencies import SortedOut
from leasehold.core.graph import Graph
from leasehold.core.job import Attempt, Draft, HistoryEvent, Job
from leasehold.core.joblog import JobLog, LogLine, check_progress
from leasehold.core.lease import (
    Exchange,
    LeaseRequest,
    Renewal,
    Renewed,
    Settled,
    Settlement,
    StuckJob,
    SweepReport,
)
from leasehold.core.pages import AuditPage, HistoryPage, LogPage
from leasehold.core.records import AuditRecord, Listener, Stats, Submitted, WorkerInfo
from leasehold.core.recovery import recover_one
from leasehold.core.retention import (
    without_old_result,
)
from leasehold.core.search import HeavyField, JobFilter, Page
from leasehold.core.status import Event
from leasehold.core.transactions import Connection
from leasehold.env import from_micros
from leasehold.errors import (
    LeaseholdError,
    LeaseLostError,
    QueueFullError,
)
from leasehold.stores.sqlite.disk.life import LockedLife
from leasehold.stores.sqlite.keeping.archive_verbs import KeepsArchive
from leasehold.stores.sqlite.leasing import lease as leasing
from leasehold.stores.sqlite.leasing import recover, renew, settle
from leasehold.stores.sqlite.leasing.people import Desk
from leasehold.stores.sqlite.leasing.rebalance import LAGS, rebalance
from leasehold.stores.sqlite.leasing.recover import Suspects
from leasehold.stores.sqlite.leasing.state import Histories
from leasehold.stores.sqlite.reading import inspection, read, records
from leasehold.stores.sqlite.reading.metrics_verbs import KeepsMetrics
from leasehold.stores.sqlite.rules.queue_verbs import KeepsQueues
from leasehold.stores.sqlite.rules.schedules import KeepsSchedules, fire_due
from leasehold.stores.sqlite.rules.setting_verbs import KeepsSettings
from leasehold.stores.sqlite.submitting import dependents, graph, linking, submit
from leasehold.stores.sqlite.submitting.lanes import STATS, Lanes, stats_of
from leasehold.stores.sqlite.writing import clock_repair
from leasehold.stores.sqlite.writing.application import is_inside
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.sqlite.writing.transaction_verbs import KeepsTransactions

T = TypeVar("T")

Stored = list[Submitted | LeaseholdError] | QueueFullError
Write = Callable[[Callable[[Step], Stored]], Stored]
"""How an operation gets into a write: one of the store's own, or one of the application's."""

KNOWN_LEASES_MAX: Final = 100_000

ADD_WORKER: Final = "INSERT OR REPLACE INTO worker VALUES (?, ?, ?, ?, ?, ?, ?)"
QUEUES: Final = "SELECT queue FROM lane UNION SELECT name FROM queue ORDER BY 1"


class SQLiteStore(
    KeepsSchedules, KeepsQueues, KeepsArchive, KeepsSettings, KeepsMetrics, KeepsTransactions
):
    """Jobs in one SQLite file, shared by any number of processes on one machine.

    `durability="full"` survives loss of power; `"normal"` survives the death of every process but
    may lose the last moments before a loss of power.
    """

    def __repr__(self) -> str:
        return f"SQLiteStore({str(self._files.database)!r})"

    # -- producers ---------------------------------------------------------------------------

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        return self._submit(self._write, self._lanes, drafts, partial=partial)

    def submit_within(
        self, connection: Connection, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        # Lanes that this transaction makes come to nothing if it is rolled back: none is kept.
        return self._submit(
            lambda operation: self._within(connection, operation), Lanes(), drafts, partial=partial
        )

    def _submit(
        self, write: Write, lanes: Lanes, drafts: Sequence[Draft], *, partial: bool
    ) -> list[Submitted | LeaseholdError]:
        if not partial:
            for draft in drafts:
                draft.check()
            self._disk.refuse_when_low(drafts)
            return _store(write, lanes, drafts, {}, partial=False)
        sorted_out = SortedOut.of(drafts)
        self._disk.refuse_when_low(sorted_out.good)
        return sorted_out.woven(
            _store(write, lanes, sorted_out.good, sorted_out.refused, partial=True)
        )

    # -- holders -----------------------------------------------------------------------------

    def exchange(
        self, settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
    ) -> Exchange:
        # Whoever leases has better things to do than to go on for a long fan-out: its next
        # exchange does.
        answer, numbers = self._write(
            lambda step: self._exchange(step, settlements, request), go_on=request is None
        )
        # Only now that they are committed: numbers of a write that was rolled back are used again.
        known = self._known_leases
        for settlement in settlements:
            known.pop((settlement.job_id, settlement.version), None)
        if len(known) > KNOWN_LEASES_MAX:
            known.clear()
        for granted, number in zip(answer.leases, numbers, strict=True):
            known[granted.job_id, granted.version] = number
        return answer

    def _exchange(
        self, step: Step, settlements: Sequence[Settlement], request: LeaseRequest | None
    ) -> tuple[Exchange, list[tuple[int, int]]]:
        settled = settle.settle(step, settlements, self._known_leases) if settlements else []
        generation = step.settings.generation
        if request is None or request.limit <= 0:
            return Exchange(settled, [], settings_generation=generation), []
        # First, since what was settled and what is due may make others available.
        dependents.resolve(step)
        _, tick = fire_due(step, self._lanes, self._disk.refuse_when_low)
        leases, numbers, cut_short = leasing.lease(step, request)
        tick_at = None if tick is None else from_micros(tick)
        if len(leases) >= request.limit:
            return Exchange(settled, leases, None, tick_at, generation), numbers
        due = step.now if cut_short else leasing.next_due(step)
        if due is None or (tick is not None and tick < due):
            return Exchange(settled, leases, tick_at, tick_at, generation), numbers
        return Exchange(settled, leases, from_micros(due), tick_at, generation), numbers

    def renew(self, worker: str, renewals: Sequence[Renewal]) -> list[Renewed | LeaseLostError]:
        return self._write(lambda step: renew.renew(step, worker, renewals))

    def report_progress(self, job_id: str, version: int, progress: bytes) -> None:
        check_progress(job_id, progress)
        _raise(self._write(lambda step: renew.report_progress(step, job_id, version, progress)))

    def append_log(
        self, job_id: str, version: int, lines: Sequence[LogLine], *, dropped: int = 0
    ) -> None:
        _raise(self._write(lambda step: renew.append_log(step, job_id, version, lines, dropped)))

    def tell(self, job_id: str, event: Event, *, worker: str, version: int, message: str) -> None:
        self._write(
            lambda step: fence.tell(Histories(step), job_id, event, worker, version, message)
        )

    # -- recovery ----------------------------------------------------------------------------

    def recover(self) -> SweepReport:
        started = self._env.clock.monotonic()
        dead = self._deaths.find()
        with self._read() as db:
            lost = recover.find(db, self._clock(db), dead)
        report = SweepReport()
        for jobs in batched(lost.jobs, RECOVERED_AT_ONCE):
            report = report.plus(self._write(partial(self._recover_some, dead, jobs)))
        report = report.plus(self._tidy_up(lost))
        self._deaths.bury(set(report.workers_proved_dead))
        elapsed = (self._env.clock.monotonic() - started) * 1000
        return msgspec.structs.replace(report, scan_ms=elapsed)

    def _recover_some(self, dead: set[str], jobs: Sequence[int], step: Step) -> SweepReport:
        # Deaths are looked for inside the write, and count only if they were known before.
        return recover.recover(step, jobs, dead & self._deaths.find())

    def _tidy_up(self, lost: Suspects) -> SweepReport:
        """What else a sweep does, so much in each write."""

        def operation(step: Step) -> SweepReport:
            rebalance(step)
            return recover.forget_workers(step, lost.dead & self._deaths.find(), lost.silent)

        report = self._write(operation)
        for jobs in batched(lost.late, PASSED_OVER_AT_ONCE):
            self._write(partial(recover.cancel_late, jobs=jobs))
        self._finish_deleting()
        return report

    def repair_clock(self, *, actor: str) -> ClockRepair:
        self.recover()
        return self._write(lambda step: clock_repair.repair(step, self._env.clock.reading(), actor))

    def dead_workers(self) -> set[str]:
        """Workers proved dead whose jobs are not taken back yet; never touches the database."""
        return self._deaths.find()

    def recover_one(
        self, job_id: str, version: int, *, reset_attempts: bool, reason: str
    ) -> Settled:
        return self._write(
            lambda step: recover_one(
                recover.Holdings(step),
                job_id,
                version,
                reset_attempts=reset_attempts,
                reason=reason,
            )
        )

    def stuck(self, silent_seconds: float) -> list[StuckJob]:
        with self._read() as db:
            before = self._clock(db) - round(silent_seconds * 1e6)
            return recover.stuck_jobs(db, before)

    def promote(self) -> int:
        promoted = 0
        while found := self._write(leasing.promote):
            promoted += found
        return promoted

    # -- workers -----------------------------------------------------------------------------

    def register_worker(self, info: WorkerInfo) -> LockedLife:
        def enter(step: Step) -> None:
            queues = msgspec.json.encode(info.queues).decode()
            row = (info.id, info.host, info.pid, queues, info.slots, step.now, step.now)
            step.execute(ADD_WORKER, row)

        def leave() -> None:
            self._write(lambda step: step.execute(recover.FORGET_WORKER, (info.id,)).fetchall())

        life = LockedLife(self._files.workers, info.id, leave)
        try:
            self._write(enter)
        except BaseException:
            life.let_go()
            raise
        return life

    def workers(self) -> list[WorkerInfo]:
        with self._read() as db:
            return records.workers(db)

    # -- people ------------------------------------------------------------------------------

    def cancel(
        self, job_ids: Sequence[str], *, reason: str, actor: str
    ) -> list[Job | LeaseholdError]:
        return self._write(
            lambda step: people.cancel(Desk(step), job_ids, reason=reason, actor=actor)
        )

    def replay(
        self, job_ids: Sequence[str], *, reset_attempts: bool, actor: str
    ) -> list[Job | LeaseholdError]:
        return self._write(
            lambda step: people.replay(
                Desk(step), job_ids, reset_attempts=reset_attempts, actor=actor
            )
        )

    def discard(self, job_ids: Sequence[str], *, actor: str) -> list[Job | LeaseholdError]:
        return self._write(lambda step: people.discard(Desk(step), job_ids, actor=actor))

    def reprioritize(self, job_id: str, priority: int, *, actor: str) -> Job:
        return self._write(
            lambda step: people.reprioritize(Desk(step), job_id, priority, actor=actor)
        )

    def get(self, job_id: str) -> Job | None:
        with self._read() as db:
            job = read.read_job(db, job_id)
            if job is None or job.result_ttl_seconds is None:
                return job
            return without_old_result(job, from_micros(self._clock(db)))

    def position(self, job_id: str) -> int | None:
        with self._read() as db:
            lags = bool(db.execute(LAGS, (self._clock(db),)).fetchone())
        # To place jobs anew is a write, and must not wait for this thread's own transaction.
        if lags and not is_inside(self._files.database):
            self._rebalance_the_rest()
        with self._read() as db:
            return read.position(db, job_id, self._clock(db))

    def graph(self, job_ids: Sequence[str]) -> Graph:
        with self._read() as db:
            return graph.graph(db, job_ids)

    def search(
        self,
        where: JobFilter,
        *,
        limit: int = 100,
        cursor: str | None = None,
        without: Collection[HeavyField] = (),
    ) -> Page:
        with self._read() as db:
            page = read.search(db, where, limit, cursor, without)
            now = from_micros(self._clock(db))
            return Page([without_old_result(job, now) for job in page.jobs], page.next_cursor)

    def find_ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        with self._read() as db:
            return read.find_ids(db, prefix, limit)

    def attempts(self, job_id: str) -> list[Attempt]:
        with self._read() as db:
            return read.attempts(db, job_id)

    def history(self, job_id: str) -> list[HistoryEvent]:
        with self._read() as db:
            return read.history(db, job_id)

    def log(self, job_id: str) -> JobLog:
        with self._read() as db:
            return records.log(db, job_id)

    def history_page(
        self, job_id: str, *, limit: int = 100, cursor: str | None = None
    ) -> HistoryPage:
        with self._read() as db:
            return read.page_of_history(db, job_id, limit, cursor)

    def log_page(self, job_id: str, *, limit: int = 100, cursor: str | None = None) -> LogPage:
        with self._read() as db:
            return records.page_of_log(db, job_id, limit, cursor)

    def audit_page(self, *, limit: int = 100, cursor: str | None = None) -> AuditPage:
        with self._read() as db:
            return records.page_of_audit(db, limit, cursor)

    def stats(self, queue: str | None = None) -> Stats:
        with self._read() as db:
            row = db.execute(STATS, (queue,)).fetchone()
            assert row is not None
            return stats_of(row)

    def queues(self) -> list[str]:
        with self._read() as db:
            return [str(name) for (name,) in db.execute(QUEUES)]

    def audit_log(self, limit: int = 100) -> list[AuditRecord]:
        with self._read() as db:
            return records.audit_log(db, limit)

    # -- the store itself --------------------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self._check_process()
        return self._wake.subscribe(listener)

    def now(self) -> datetime:
        with self._read() as db:
            return from_micros(self._clock(db))

    def check(self) -> list[str]:
        with self._read() as db:
            return inspection.check(db)

    def backup(self, path: str) -> None:
        with self._read() as db:
            inspection.backup(db, Path(path))

    def describe(self) -> Mapping[str, Any]:
        with self._read() as db:
            return inspection.describe(db, self._files, self._durability)


def _store(
    write: Write,
    lanes: Lanes,
    drafts: Sequence[Draft],
    refused: Mapping[str, LeaseholdError],
    *,
    partial: bool,
) -> list[Submitted | LeaseholdError]:
    if any(draft.depends_on for draft in drafts):
        answers = write(
            lambda step: linking.submit(step, lanes, drafts, partial=partial, refused=refused)
        )
    elif partial or any(draft.idempotency_key is not None for draft in drafts):
        answers = write(lambda step: submit.submit(step, lanes, drafts, partial=partial))
    else:
        answers = write(submit.PlainSubmit(lanes, drafts))
    if isinstance(answers, LeaseholdError):
        raise answers
    return answers


def _raise(error: LeaseLostError | None) -> None:
    if error is not None:
        raise error
