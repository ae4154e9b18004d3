"""The state of a job: which of the state tables holds its row, and how it ends without an attempt.

Guard: a job has a row in exactly one of `ready`, `running`, `waiting` and `finished`. Whoever takes
it out of one puts it into another in the same write.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from leasehold.core.model.codes import (
    EVENT_CODE,
    EVENT_OF,
    STATUS_CODE,
    STATUS_OF,
)
from leasehold.core.model.lease import Settled, Settlement
from leasehold.core.model.status import TERMINAL, Event, Status
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules import fence
from leasehold.core.rules.decision import Decision, end_of_waiting
from leasehold.errors import LeaseLostError
from leasehold.stores.sqlite.leasing import ready
from leasehold.stores.sqlite.schema.rows import ENDED_STATUS, whole
from leasehold.stores.sqlite.submitting import inheritance
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.places import AT_ITS_PLACE


class JobState(NamedTuple):
    """What every state table knows of a job."""

    seq: int
    id: str
    lane: int
    status: Status
    lease_version: int
    attempts: int
    events: int
    available_at: int
    worker: str | None = None
    """Who holds it, while it runs."""


def _state_of(which: str) -> str:
    return f"""
    SELECT job.seq, job.id, job.lane, 2, ready.version, ready.attempts, ready.events,
           ready.available_at, NULL
        FROM job LEFT JOIN place ON place.seq = job.seq JOIN ready ON {AT_ITS_PLACE}
        WHERE {which} = ?1
    UNION ALL
    SELECT job.seq, job.id, job.lane, 3, running.version, running.attempts, running.events,
           running.available_at, running.worker
        FROM job CROSS JOIN running USING (seq) WHERE {which} = ?1
    UNION ALL
    SELECT job.seq, job.id, job.lane, waiting.status, waiting.version, waiting.attempts,
           waiting.events,
           coalesce(waiting.due, (SELECT due FROM dependent WHERE dependent.seq = job.seq), since),
           NULL
        FROM job CROSS JOIN waiting USING (seq) WHERE {which} = ?1
    UNION ALL
    SELECT job.seq, job.id, job.lane, {ENDED_STATUS}, {whole("finished.version")},
           {whole("finished.attempts")}, {whole("finished.events")},
           {whole("finished.available_at", MOMENT_MAX)}, NULL
        FROM job CROSS JOIN finished USING (seq) WHERE {which} = ?1
    """  # noqa: S608  # our own names


STATE_BY_NUMBER: Final = _state_of("job.seq")
STATE_BY_ID: Final = _state_of("job.id")
# The events of a job are looked through only if the attempt's record had to go.
HOLDER_UNDER: Final = f"""
    SELECT worker FROM attempt WHERE seq = ?1 AND version = ?2
    UNION ALL SELECT worker FROM event
        WHERE seq = ?1 AND version = ?2 AND event = {EVENT_CODE[Event.LEASED]}
    LIMIT 1
"""  # noqa: S608  # our own number
# The record of an attempt that was taken from its holder has the expiry of its lease.
SETTLED_UNDER: Final = f"""
    SELECT outcome, after, {whole("attempts")} FROM attempt
    WHERE seq = ? AND version = ? AND expires_at IS NULL
"""  # noqa: S608  # our own names
# A damaged cell must not stop the write: what is no blob is no result, and any codec is readable.
RESULT_OF: Final = """
    SELECT result, CAST(coalesce(result_codec, 'json') AS BLOB) FROM finished
    WHERE seq = ? AND typeof(result) = 'blob'
"""
INSERT_FINISHED: Final = f"INSERT INTO finished VALUES ({', '.join('?' * 11)})"  # noqa: S608  # placeholders

_COUNT_EVENT: Final = {
    "running": "UPDATE running SET events = events + 1 WHERE seq = ?",
    "waiting": "UPDATE waiting SET events = events + 1 WHERE seq = ?",
    "finished": "UPDATE finished SET events = events + 1 WHERE seq = ?",
}
_DELETE: Final = {
    "running": "DELETE FROM running WHERE seq = ?",
    "waiting": "DELETE FROM waiting WHERE seq = ?",
    "finished": "DELETE FROM finished WHERE seq = ?",
}
# What is no longer blocked waits for nobody; what has not ended any more has nobody to tell of it.
WAIT_FOR_NOBODY: Final = "DELETE FROM blocker WHERE seq = ?"
TELL_NOBODY: Final = "DELETE FROM resolving WHERE seq = ?"


def state_of(step: Step, seq: int) -> JobState | None:
    """The state of the job with this number, or None if there is none."""
    return _state(step.execute(STATE_BY_NUMBER, (seq,)).fetchone())


def find(step: Step, job_id: str) -> JobState | None:
    """The state of the job with this id, or None if there is none."""
    return _state(step.execute(STATE_BY_ID, (job_id,)).fetchone())


def _state(row: Any) -> JobState | None:
    if row is None:
        return None
    seq, job_id, lane, code, *rest = row
    return JobState(seq, job_id, lane, STATUS_OF[code], *rest)


def _table_of(status: Status) -> str:
    """The table that holds jobs of this status, which is not pending."""
    if status is Status.RUNNING:
        return "running"
    return "finished" if status in TERMINAL else "waiting"


# -- histories ---------------------------------------------------------------------------------


class Histories:
    """The histories of jobs, as the fence and people's verbs write to them."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def standing(self, job_id: str) -> JobState | None:
        return find(self._step, job_id)

    def holder_under(self, job: JobState, version: int) -> str | None:
        row: Any = self._step.execute(HOLDER_UNDER, (job.seq, version)).fetchone()
        return None if row is None else row[0]

    def settled_under(self, job: JobState, version: int) -> Settled | None:
        row: Any = self._step.execute(SETTLED_UNDER, (job.seq, version)).fetchone()
        if row is None or row[0] not in EVENT_OF or row[1] not in STATUS_OF:
            return None
        return Settled(job.id, version, EVENT_OF[row[0]], STATUS_OF[row[1]], row[2])

    def result_of(self, job: JobState) -> tuple[bytes, str] | None:
        row: Any = self._step.execute(RESULT_OF, (job.seq,)).fetchone()
        return None if row is None else (row[0], row[1].decode(errors="replace"))

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
            ready.count_event(step, job.seq)
        else:
            step.execute(_COUNT_EVENT[_table_of(job.status)], (job.seq,))
        worker, version = holder or (job.worker, job.lease_version)
        step.record(
            job.seq, job.events + 1, event, job.status, job.status,
            attempts=job.attempts, worker=worker, version=version, message=message,
        )  # fmt: skip


def refuse(step: Step, job_id: str, version: int) -> LeaseLostError:
    """Refuse a stale holder, and tell the job's history."""
    return fence.refuse(Histories(step), job_id, version)


def settle_stale(step: Step, settlement: Settlement) -> Settled | LeaseLostError:
    """Refuse a settlement whose lease is over, or answer one that was accepted before."""
    return fence.settle_stale(Histories(step), settlement)


# -- ends --------------------------------------------------------------------------------------


def remove(step: Step, job: JobState) -> None:
    """Take a job's row out of the table that holds it."""
    if job.status is Status.PENDING:
        ready.leave_by_number(step, job.seq)
        return
    if job.status is Status.BLOCKED:
        inheritance.waits_no_more(step, job.seq)
    step.execute(_DELETE[_table_of(job.status)], (job.seq,))
    if job.status is Status.BLOCKED:
        step.execute(WAIT_FOR_NOBODY, (job.seq,))
    elif job.status in TERMINAL:
        step.execute(TELL_NOBODY, (job.seq,))


def end_waiting(step: Step, job: JobState, after: Status, reason: str) -> None:
    """End a job that is not running: it is cancelled, or a dead letter."""
    remove(step, job)
    finish_waiting(step, job, after, reason)


def finish_waiting(step: Step, job: JobState, after: Status, reason: str) -> Decision:
    """End a job whose row is already out of its table."""
    decision = end_of_waiting(after, job.attempts, reason)
    n = job.events + 1
    step.execute(
        INSERT_FINISHED,
        (
            job.seq,
            STATUS_CODE[decision.status],
            step.now,
            None,
            job.available_at,
            job.lease_version,
            decision.attempts,
            n,
            None,
            None,
            decision.reason,
        ),
    )
    step.record(
        job.seq, n, decision.event, job.status, decision.status,
        attempts=decision.attempts, version=job.lease_version, message=decision.message,
    )  # fmt: skip
    step.move(job.lane, job.status, decision.status)
    for name in decision.totals:
        step.count(job.lane, f"total_{name}")
    step.jobs_ended((job.id,))
    return decision
