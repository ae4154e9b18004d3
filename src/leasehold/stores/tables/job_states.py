"""The state of a job: which of the state tables holds its row, and how it ends without an attempt.

Guard: a job has a row in exactly one of `ready`, `running`, `waiting` and `finished`. A write that
removes it from one adds it to another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

from leasehold.core.model.codes import EVENT_CODE, EVENT_OF, STATUS_CODE, STATUS_OF
from leasehold.core.model.lease import Settled, Settlement
from leasehold.core.model.status import TERMINAL, Event, Status
from leasehold.core.rules import fence
from leasehold.core.rules.decision import Decision, end_of_waiting
from leasehold.core.rules.messages import not_started_by
from leasehold.env import from_micros
from leasehold.errors import LeaseLostError
from leasehold.stores.tables.order import AT_ITS_PLACE, Candidate, TableReady
from leasehold.stores.tables.statements import Dialect
from leasehold.stores.tables.step import TableStep

_COUNT_EVENT: Final = {
    "running": "UPDATE running SET events = events + 1 WHERE seq = $1",
    "waiting": "UPDATE waiting SET events = events + 1 WHERE seq = $1",
    "finished": "UPDATE finished SET events = events + 1 WHERE seq = $1",
}
_DELETE: Final = {
    "running": "DELETE FROM running WHERE {}",
    "waiting": "DELETE FROM waiting WHERE {}",
    "finished": "DELETE FROM finished WHERE {}",
}
# A job that is no longer blocked waits for nothing; one that is unfinished again has no end to
# report.
WAIT_FOR_NOBODY: Final = "DELETE FROM blocker WHERE {}"
RAISED_NEEDS: Final = """
    SELECT needs FROM blocker CROSS JOIN raised WHERE raised.seq = needs AND {}
"""
TELL_NOBODY: Final = "DELETE FROM resolving WHERE {}"
FORGET_KEYS: Final = """
    DELETE FROM idempotency WHERE (queue, key, seq) IN (
        SELECT lane.queue, job.idempotency_key, job.seq
        FROM job JOIN lane ON lane.id = job.lane WHERE {})
"""
# The events of a job are searched only if the attempt's record was dropped.
HOLDER_UNDER: Final = f"""
    SELECT worker FROM attempt WHERE seq = $1 AND version = $2
    UNION ALL SELECT worker FROM event
        WHERE seq = $1 AND version = $2 AND event = {EVENT_CODE[Event.LEASED]}
    LIMIT 1
"""


RECORDS_OF_A_JOB: Final = (
    "attempt", "failed_job", "event", "progress", "log", "dependent", "dependency", "raised",
    "ended_dependents", "job",
)  # fmt: skip
"""The tables that have rows of an ended job, besides `finished`."""


class JobState(NamedTuple):
    """The data about a job that every state table has."""

    seq: int
    id: str
    lane: int
    status: Status
    lease_version: int
    attempts: int
    events: int
    available_at: int
    worker: str | None = None
    """Its holder, while it runs."""
    priority: int = 0
    """Its own priority, if the store uses this to count pending jobs."""


def state_by(column: str, dialect: Dialect, ended: str) -> str:
    """Selects the state of each job in a list; `ended` has what is read of one in `finished`."""
    which = dialect.among(column, "$1")
    return f"""
    SELECT job.seq, job.id, job.lane, 2, ready.version, ready.attempts, ready.events,
           ready.available_at, NULL, job.priority
        FROM job LEFT JOIN place ON place.seq = job.seq CROSS JOIN ready
        WHERE {AT_ITS_PLACE} AND {which}
    UNION ALL
    SELECT job.seq, job.id, job.lane, 3, running.version, running.attempts, running.events,
           running.available_at, running.worker, job.priority
        FROM job CROSS JOIN running WHERE running.seq = job.seq AND {which}
    UNION ALL
    SELECT job.seq, job.id, job.lane, waiting.status, waiting.version, waiting.attempts,
           waiting.events,
           coalesce(waiting.due, (SELECT due FROM dependent WHERE dependent.seq = job.seq), since),
           NULL, job.priority
        FROM job CROSS JOIN waiting WHERE waiting.seq = job.seq AND {which}
    UNION ALL
    SELECT job.seq, job.id, job.lane, {ended}, NULL, job.priority
        FROM job CROSS JOIN finished WHERE finished.seq = job.seq AND {which}
    """


class Ending(NamedTuple):
    """A waiting job, and how to end it."""

    job: JobState
    after: Status
    reason: str


class TableHistories:
    """The states of a store's jobs, and their histories, inside one write.

    See `leasehold.core.rules.fence.Histories`.
    """

    dialect: ClassVar[Dialect]
    ready: ClassVar[type[TableReady]]
    by_number: ClassVar[str]
    """Selects a `JobState` with its status as a code, of each number in a list."""
    by_id: ClassVar[str]
    """The same of each id in a list."""
    find_settled: ClassVar[str]
    """Selects outcome, status after and attempts of an attempt ended by its holder."""
    find_result: ClassVar[str]
    """Selects the result of a job and its codec."""
    insert_finished: ClassVar[str]
    """For `many`."""

    def __init__(self, step: Any) -> None:
        self._step: TableStep = step

    # -- what stands where ---------------------------------------------------------------------

    def standing_by_number(self, seqs: Sequence[int]) -> dict[int, JobState]:
        """The states of the given jobs that exist, by number."""
        return {state.seq: state for state in self._states(self.by_number, seqs)}

    def standing_by_id(self, job_ids: Sequence[str]) -> dict[str, JobState]:
        """The same, by id."""
        return {state.id: state for state in self._states(self.by_id, job_ids)}

    def standing(self, job_id: str) -> JobState | None:
        return self.standing_by_id((job_id,)).get(job_id)

    def _states(self, statement: str, names: Sequence[int] | Sequence[str]) -> list[JobState]:
        if not names:
            return []
        rows = self._step.execute(statement, (self.dialect.listed(names),)).fetchall()
        return [
            JobState(seq, job_id, lane, STATUS_OF[code], *rest)
            for seq, job_id, lane, code, *rest in rows
        ]

    # -- histories -----------------------------------------------------------------------------

    def holder_under(self, job: JobState, version: int) -> str | None:
        row: Any = self._step.execute(HOLDER_UNDER, (job.seq, version)).fetchone()
        return None if row is None else row[0]

    def settled_under(self, job: JobState, version: int) -> Settled | None:
        row: Any = self._step.execute(self.find_settled, (job.seq, version)).fetchone()
        if row is None or row[0] not in EVENT_OF or row[1] not in STATUS_OF:
            return None
        return Settled(job.id, version, EVENT_OF[row[0]], STATUS_OF[row[1]], row[2])

    def result_of(self, job: JobState) -> tuple[bytes, str] | None:
        row: Any = self._step.execute(self.find_result, (job.seq,)).fetchone()
        if row is None or row[0] is None:
            return None
        result, codec = row
        return bytes(result), codec if isinstance(codec, str) else codec.decode(errors="replace")

    @classmethod
    def refuse(cls, step: TableStep, job_id: str, version: int) -> LeaseLostError:
        """Refuse a stale holder, and record that in the job's history."""
        # Another holder has the job, and may be writing to its history at the same time.
        step.must_be_alone()
        return fence.refuse(cls(step), job_id, version)

    @classmethod
    def settle_stale(cls, step: TableStep, settlement: Settlement) -> Settled | LeaseLostError:
        """Refuse a settlement whose lease is over, or answer one that was accepted before."""
        step.must_be_alone()
        return fence.settle_stale(cls(step), settlement)

    def tell(
        self,
        job: JobState,
        event: Event,
        message: str,
        *,
        holder: tuple[str | None, int] | None = None,
    ) -> None:
        step = self._step
        if job.status is Status.PENDING:
            self.ready(step).count_event(job.seq)
        else:
            step.execute(_COUNT_EVENT[_table_of(job.status)], (job.seq,))
        worker, version = holder or (job.worker, job.lease_version)
        step.record(
            job.seq, job.events + 1, event, job.status, job.status,
            attempts=job.attempts, worker=worker, version=version, message=message,
        )  # fmt: skip

    # -- ends ----------------------------------------------------------------------------------

    def remove(self, jobs: Sequence[JobState]) -> None:
        """Remove the rows of jobs from their state tables."""
        if pending := [job for job in jobs if job.status is Status.PENDING]:
            out = [(job.seq, job.lane, job.priority) for job in pending]
            self.ready(self._step).leave_by_numbers(out)
        blocked = [job.seq for job in jobs if job.status is Status.BLOCKED]
        if blocked:
            self.note_raised_by(blocked)
        by_table: dict[str, list[int]] = {}
        for job in jobs:
            if job.status is not Status.PENDING:
                by_table.setdefault(_table_of(job.status), []).append(job.seq)
        for table, seqs in by_table.items():
            self._of_each(_DELETE[table], seqs)
        if blocked:
            self._of_each(WAIT_FOR_NOBODY, blocked)
        if ended := [job.seq for job in jobs if job.status in TERMINAL]:
            self._of_each(TELL_NOBODY, ended)

    def stop_waiting(self, seqs: Sequence[int]) -> None:
        """Remove the rows of jobs from `waiting`."""
        self._of_each(_DELETE["waiting"], seqs)

    def note_raised_by(self, blocked: Sequence[int]) -> None:
        """Record which jobs these blocked ones may have raised; call it while `blocker` still has
        the rows.
        """
        step = self._step
        if step.somebody_waits:
            raised = RAISED_NEEDS.format(self.dialect.among("blocker.seq", "$1"))
            rows: Any = step.execute(raised, (self.dialect.listed(blocked),)).fetchall()
            step.lowered.update(needed for (needed,) in rows)

    def end(self, endings: Sequence[Ending]) -> None:
        """End jobs that are not running: they become cancelled or dead letters."""
        if endings:
            self.remove([each.job for each in endings])
            self.finish(endings)

    def finish(self, endings: Sequence[Ending]) -> list[Decision]:
        """End jobs whose rows are already out of their tables."""
        step = self._step
        finished, events, decisions = [], [], []
        for job, after, reason in endings:
            decision = end_of_waiting(after, job.attempts, reason)
            n = job.events + 1
            finished.append(
                (
                    job.seq, STATUS_CODE[decision.status], step.now, None, job.available_at,
                    job.lease_version, decision.attempts, n, None, None,
                    None if decision.reason is None else step.storable(decision.reason),
                )
            )  # fmt: skip
            events.append(
                (
                    job.seq, n, step.now, EVENT_CODE[decision.event], STATUS_CODE[job.status],
                    STATUS_CODE[decision.status], decision.attempts, None, job.lease_version,
                    step.storable(decision.message) or None,
                )
            )  # fmt: skip
            step.move(job.lane, job.status, decision.status)
            for name in decision.totals:
                step.count(job.lane, f"total_{name}")
            decisions.append(decision)
        step.many(self.insert_finished, finished)
        step.many(step.insert_events, events)
        step.jobs_ended([each.job.id for each in endings])
        return decisions

    def erase_all(self, seqs: Sequence[int]) -> None:
        """Delete ended jobs with all their records, as if they had never been submitted; the caller
        checks whether any job needs them.
        """
        jobs = self.standing_by_number(seqs).values()
        assert len(jobs) == len(seqs), "a job that is not there is erased"
        assert all(job.status.is_terminal for job in jobs), "a job is erased before its end"
        self._step.versions_erased(job.lease_version for job in jobs)
        self.remove(list(jobs))
        self._of_each(FORGET_KEYS, seqs, "job.seq")
        for table in RECORDS_OF_A_JOB:
            self._of_each(f"DELETE FROM {table} WHERE {{}}", seqs)
        for job in jobs:
            self._step.count(job.lane, job.status.value, -1)
            self._step.count(job.lane, "total_cleaned")

    def _of_each(self, statement: str, seqs: Sequence[int], column: str = "seq") -> None:
        """Execute a statement about the jobs of these numbers."""
        which = self.dialect.among(column, "$1")
        self._step.execute(statement.format(which), (self.dialect.listed(seqs),))


def _table_of(status: Status) -> str:
    """The table for jobs with this status, which is not pending."""
    if status is Status.RUNNING:
        return "running"
    return "finished" if status in TERMINAL else "waiting"


class LateRow(NamedTuple):
    """A pending job found by a sweep."""

    seq: int
    lane: int
    version: int
    attempts: int
    events: int
    available_at: int
    id: str
    start_by: int
    priority: int


def cancel_late(histories: TableHistories, jobs: Sequence[Candidate | LateRow]) -> None:
    """Cancel jobs that were not started in time, with that reason."""
    histories.end(
        [
            Ending(standing(job), Status.CANCELLED, not_started_by(from_micros(job.start_by or 0)))
            for job in jobs
        ]
    )


def standing(job: Candidate | LateRow) -> JobState:
    """The place of a pending job, as read by a lease or a sweep."""
    stood = (Status.PENDING, job.version, job.attempts, job.events, job.available_at, None)
    return JobState(job.seq, job.id, job.lane, *stood, job.priority)
