"""The state of a job: which of the state tables holds its row, and how it ends without an attempt.

Guard: a job has a row in exactly one of `ready`, `running`, `waiting` and `finished`. Whoever takes
it out of one puts it into another in the same write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from leasehold.core.model.codes import (
    EVENT_CODE,
    EVENT_OF,
    STATUS_CODE,
    STATUS_OF,
)
from leasehold.core.model.lease import Settled, Settlement
from leasehold.core.model.status import TERMINAL, Event, Status
from leasehold.core.rules import fence
from leasehold.core.rules.decision import end_of_waiting
from leasehold.errors import LeaseLostError
from leasehold.stores.postgres.leasing import ready
from leasehold.stores.postgres.schema.texts import storable
from leasehold.stores.postgres.server.connection import unnested
from leasehold.stores.postgres.submitting import inheritance
from leasehold.stores.postgres.writing.step import INSERT_EVENTS, Step
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
    worker: str | None
    """Who holds it, while it runs."""
    priority: int
    """Its own."""


class Ending(NamedTuple):
    """A job that waits, and how it is to end."""

    job: JobState
    after: Status
    reason: str


def _state_of(which: str) -> str:
    return f"""
    SELECT job.seq, job.id, job.lane, 2, ready.version, ready.attempts, ready.events,
           ready.available_at, NULL, job.priority
        FROM job LEFT JOIN place ON place.seq = job.seq JOIN ready ON {AT_ITS_PLACE}
        WHERE {which} = ANY($1)
    UNION ALL
    SELECT job.seq, job.id, job.lane, 3, running.version, running.attempts, running.events,
           running.available_at, running.worker, job.priority
        FROM job JOIN running USING (seq) WHERE {which} = ANY($1)
    UNION ALL
    SELECT job.seq, job.id, job.lane, waiting.status, waiting.version, waiting.attempts,
           waiting.events,
           coalesce(waiting.due, (SELECT due FROM dependent WHERE dependent.seq = job.seq), since),
           NULL, job.priority
        FROM job JOIN waiting USING (seq) WHERE {which} = ANY($1)
    UNION ALL
    SELECT job.seq, job.id, job.lane, finished.status, finished.version, finished.attempts,
           finished.events, finished.available_at, NULL, job.priority
        FROM job JOIN finished USING (seq) WHERE {which} = ANY($1)
    """  # noqa: S608  # our own names


STATE_BY_NUMBER: Final = _state_of("job.seq")
STATE_BY_ID: Final = _state_of("job.id")
# The events of a job are looked through only if the attempt's record had to go.
HOLDER_UNDER: Final = f"""
    SELECT worker FROM attempt WHERE seq = $1 AND version = $2
    UNION ALL SELECT worker FROM event
        WHERE seq = $1 AND version = $2 AND event = {EVENT_CODE[Event.LEASED]}
    LIMIT 1
"""  # noqa: S608  # our own number
INSERT_FINISHED: Final = f"""
    INSERT INTO finished SELECT * FROM {
    unnested("bigint bigint bigint bigint bigint bigint bigint bigint bytea text text")
}
"""  # noqa: S608  # our own names

# The record of an attempt that was taken from its holder has the expiry of its lease.
SETTLED_UNDER: Final = """
    SELECT outcome, after, attempts FROM attempt
    WHERE seq = $1 AND version = $2 AND expires_at IS NULL
"""
RESULT_OF: Final = "SELECT result, coalesce(result_codec, 'json') FROM finished WHERE seq = $1"
_COUNT_EVENT: Final = {
    "running": "UPDATE running SET events = events + 1 WHERE seq = $1",
    "waiting": "UPDATE waiting SET events = events + 1 WHERE seq = $1",
    "finished": "UPDATE finished SET events = events + 1 WHERE seq = $1",
}
_DELETE: Final = {
    "running": "DELETE FROM running WHERE seq = ANY($1)",
    "waiting": "DELETE FROM waiting WHERE seq = ANY($1)",
    "finished": "DELETE FROM finished WHERE seq = ANY($1)",
}
# What is no longer blocked waits for nobody; what has not ended any more has nobody to tell of it.
WAIT_FOR_NOBODY: Final = "DELETE FROM blocker WHERE seq = ANY($1)"
TELL_NOBODY: Final = "DELETE FROM resolving WHERE seq = ANY($1)"


def states_of(step: Step, seqs: Sequence[int]) -> dict[int, JobState]:
    """The states of those of these jobs that are there, by number."""
    rows = step.execute(STATE_BY_NUMBER, (list(seqs),)) if seqs else ()
    return {row[0]: _state(row) for row in rows}


def find_all(step: Step, job_ids: Sequence[str]) -> dict[str, JobState]:
    """The same, by id."""
    rows = step.execute(STATE_BY_ID, (list(job_ids),)) if job_ids else ()
    return {row[1]: _state(row) for row in rows}


def _state(row: Any) -> JobState:
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
        return find_all(self._step, (job_id,)).get(job_id)

    def holder_under(self, job: JobState, version: int) -> str | None:
        row: Any = self._step.execute(HOLDER_UNDER, (job.seq, version)).fetchone()
        return None if row is None else row[0]

    def settled_under(self, job: JobState, version: int) -> Settled | None:
        row: Any = self._step.execute(SETTLED_UNDER, (job.seq, version)).fetchone()
        if row is None:
            return None
        return Settled(job.id, version, EVENT_OF[row[0]], STATUS_OF[row[1]], row[2])

    def result_of(self, job: JobState) -> tuple[bytes, str] | None:
        row: Any = self._step.execute(RESULT_OF, (job.seq,)).fetchone()
        return None if row is None or row[0] is None else (bytes(row[0]), row[1])

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
    # The job is in somebody else's hands, who may just now write to its history too.
    step.must_be_alone()
    return fence.refuse(Histories(step), job_id, version)


def settle_stale(step: Step, settlement: Settlement) -> Settled | LeaseLostError:
    """Refuse a settlement whose lease is over, or answer one that was accepted before."""
    step.must_be_alone()
    return fence.settle_stale(Histories(step), settlement)


# -- ends --------------------------------------------------------------------------------------


def remove(step: Step, job: JobState) -> None:
    """Take a job's row out of the table that holds it."""
    remove_all(step, [job])


def remove_all(step: Step, jobs: Sequence[JobState]) -> None:
    """Take the rows of jobs out of the tables that hold them."""
    if pending := [job for job in jobs if job.status is Status.PENDING]:
        ready.leave_by_numbers(step, [(job.seq, job.lane, job.priority) for job in pending])
    blocked = [job.seq for job in jobs if job.status is Status.BLOCKED]
    if blocked:
        inheritance.wait_no_more(step, blocked)
    by_table: dict[str, list[int]] = {}
    for job in jobs:
        if job.status is not Status.PENDING:
            by_table.setdefault(_table_of(job.status), []).append(job.seq)
    for table, seqs in by_table.items():
        step.execute(_DELETE[table], (seqs,))
    if blocked:
        step.execute(WAIT_FOR_NOBODY, (blocked,))
    if ended := [job.seq for job in jobs if job.status in TERMINAL]:
        step.execute(TELL_NOBODY, (ended,))


def end_waiting(step: Step, job: JobState, after: Status, reason: str) -> None:
    """End a job that is not running: it is cancelled, or a dead letter."""
    end_all_waiting(step, [Ending(job, after, reason)])


def end_all_waiting(step: Step, endings: Sequence[Ending]) -> None:
    """End jobs that are not running, by one statement of each kind."""
    if not endings:
        return
    remove_all(step, [each.job for each in endings])
    finished, events = [], []
    for job, after, reason in endings:
        decision = end_of_waiting(after, job.attempts, reason)
        n = job.events + 1
        finished.append(
            (
                job.seq, STATUS_CODE[decision.status], step.now, None, job.available_at,
                job.lease_version, decision.attempts, n, None, None, storable(decision.reason),
            )
        )  # fmt: skip
        events.append(
            (
                job.seq, n, step.now, EVENT_CODE[decision.event], STATUS_CODE[job.status],
                STATUS_CODE[decision.status], decision.attempts, None, job.lease_version,
                storable(decision.message) or None,
            )
        )  # fmt: skip
        step.move(job.lane, job.status, decision.status)
        for name in decision.totals:
            step.count(job.lane, f"total_{name}")
    step.many(INSERT_FINISHED, finished)
    step.many(INSERT_EVENTS, events)
    step.jobs_ended([each.job.id for each in endings])
