"""A job as the memory store keeps it: mutable, times in microseconds, snapshots made on demand."""

from __future__ import annotations

from typing import Final

import msgspec

from leasehold.core.model.history import Attempt, HistoryEvent
from leasehold.core.model.job import Draft, Job, last_change
from leasehold.core.model.joblog import LogTail
from leasehold.core.model.outcome import JobError
from leasehold.core.model.status import Event, Status
from leasehold.core.model.stored import moment
from leasehold.core.rules.history import Telling
from leasehold.core.rules.submitting import due_at
from leasehold.env import from_micros

# Enum members are slow to look up in Python 3.11, and these are used for every job.
PENDING: Final = Status.PENDING
SCHEDULED: Final = Status.SCHEDULED

Entry = tuple[int, int, "Record"]
"""A record's place in a heap: the order, a number that no other entry has, and the record."""


class KeptEvent(msgspec.Struct, gc=False):
    """One event of a job's history. Not a tuple: the garbage collector would traverse it for ever,
    since its statuses could refer to anything.
    """

    at: int
    event: Event
    before: Status | None
    after: Status
    worker: str | None
    version: int
    attempts: int
    message: str | int
    """The message, or for a lease its expiry. The words are made when they are read."""


class FailureCount(msgspec.Struct, gc=False):
    """How often a job has failed, and when."""

    count: int
    first_at: int
    last_at: int


class KeptAttempt(msgspec.Struct, gc=False):
    """One lease of a job. The expiry and heartbeat of the running one are in the record itself."""

    version: int
    number: int
    worker: str
    started_at: int
    ended_at: int | None = None
    outcome: Event | None = None
    error: JobError | None = None
    message: str = ""
    note: bytes | None = None
    expires_at: int | None = None
    heartbeat_at: int | None = None


class Record(msgspec.Struct, eq=False, gc=False):
    """Everything known about one job: the request, and its state.

    Nothing in a record refers back to it, so the garbage collector need not traverse a million.
    """

    id: str
    seq: int
    """The order of submission across all queues."""
    draft: Draft
    status: Status
    priority: int
    base: int
    """Its own priority, or the higher one inherited from its dependents."""
    allowance: int
    created_at: int
    since: int
    """Since when it has its status."""
    available_at: int
    """Since when, or from when on, it may be leased: never before it was created."""
    start_by: int | None
    history: list[KeptEvent]
    attempt_rows: tuple[KeptAttempt, ...] = ()
    stamp: int = 0
    """The number of its entry in the heap of its status; its other entries are dead."""
    attempts: int = 0
    completed_at: int | None = None
    worker: str | None = None
    lease_version: int = 0
    acquired_at: int = 0
    """The start of its latest attempt, if it had one."""
    expires_at: int = 0
    moved_by: int = 0
    """How far its expiry was moved because the clock advanced without its holder."""
    heartbeat_at: int = 0
    cancel_requested: str | None = None
    result: bytes | None = None
    result_codec: str = "json"
    error: JobError | None = None
    failures: FailureCount | None = None
    reason: str | None = None
    progress: bytes | None = None
    log: LogTail | None = None
    needs: dict[str, int] | None = None
    """The jobs it depends on, by id, with their seq: an id may be used again after a discard."""
    blocked_by: set[str] | None = None
    """The dependencies that it still waits for, while it is blocked."""
    ended_by: str | None = None
    """The dependency whose end has ended it."""
    tier: int = 0
    turn: int = 0
    """Its place while it is ready; `core.model.priority` explains these."""
    crosses_at: int | None = None
    counted: bool = False
    """Whether it is ready and counted for its key."""
    parked: bool = False
    """Whether it is counted but its key does not let it run."""

    @property
    def started_at(self) -> int | None:
        """The start of its latest attempt."""
        return self.acquired_at if self.lease_version else None


def record_of(draft: Draft, seq: int, now: int) -> Record:
    """The record of a new job, from its draft."""
    if draft.metadata is not None:
        # Metadata is the only part of a draft that its owner could still change.
        draft = msgspec.structs.replace(draft, metadata=dict(draft.metadata))
    start_within = draft.start_within_seconds
    run_at = due_at(draft, now)
    priority = draft.priority
    return Record(
        draft.id,
        seq,
        draft,
        PENDING if run_at <= now else SCHEDULED,
        priority,
        priority,
        draft.allowance,
        now,
        now,
        run_at,
        None if start_within is None else now + round(start_within * 1e6),
        [],
    )


def snapshot(record: Record) -> Job:
    """The job as it is now, for a caller to keep."""
    draft = record.draft
    failures = record.failures
    held = record.status is Status.RUNNING
    changed_at = last_change(
        record.created_at,
        record.available_at,
        ended_at=record.completed_at,
        waits_since=None if held or record.status is PENDING else record.since,
        heartbeat_at=record.heartbeat_at if held else None,
    )
    return Job(
        id=record.id,
        queue=draft.queue,
        task=draft.task,
        status=record.status,
        priority=record.priority,
        payload_data=draft.payload,
        codec=draft.codec,
        created_at=from_micros(record.created_at),
        updated_at=from_micros(changed_at),
        run_at=from_micros(record.available_at),
        deadline=draft.deadline,
        started_at=moment(record.started_at),
        completed_at=moment(record.completed_at),
        attempts=record.attempts,
        max_retries=draft.allowance - 1,
        allowance=record.allowance,
        retry=draft.retry,
        timeout_seconds=draft.timeout_seconds,
        lease_seconds=draft.lease_seconds,
        start_by=moment(record.start_by),
        result_ttl_seconds=draft.result_ttl_seconds,
        worker=record.worker,
        lease_version=record.lease_version,
        lease_acquired_at=from_micros(record.acquired_at) if held else None,
        lease_expires_at=from_micros(record.expires_at) if held else None,
        heartbeat_at=from_micros(record.heartbeat_at) if held else None,
        cancel_requested=record.cancel_requested,
        result_data=record.result,
        result_codec=record.result_codec,
        error=record.error,
        failure_count=0 if failures is None else failures.count,
        first_failed_at=None if failures is None else from_micros(failures.first_at),
        last_failed_at=None if failures is None else from_micros(failures.last_at),
        reason=record.reason,
        progress=None if record.progress is None else msgspec.json.decode(record.progress),
        metadata=None if draft.metadata is None else dict(draft.metadata),
        idempotency_key=draft.idempotency_key,
        parent_id=draft.parent_id,
        depends_on=tuple(record.needs or ()),
        on_dependency_failure=draft.on_dependency_failure if record.needs else "cancel",
        inherited_priority=record.base if record.base > record.priority else None,
        limit_key=draft.limit_key,
    )


def attempts_of(record: Record | None) -> list[Attempt]:
    """The job's attempts, oldest first; empty for a deleted job."""
    if record is None:
        return []
    return [
        Attempt(
            job_id=record.id,
            lease_version=row.version,
            number=row.number,
            worker=row.worker,
            started_at=from_micros(row.started_at),
            ended_at=moment(row.ended_at),
            outcome=row.outcome,
            error=row.error,
            message=row.message,
            note=None if row.note is None else msgspec.json.decode(row.note),
            lease_expires_at=moment(record.expires_at if row.ended_at is None else row.expires_at),
            heartbeat_at=moment(record.heartbeat_at if row.ended_at is None else row.heartbeat_at),
        )
        for row in record.attempt_rows
    ]


def history_of(record: Record | None) -> list[HistoryEvent]:
    """Everything that happened to the job, oldest first; empty for a deleted job."""
    if record is None:
        return []
    telling = Telling(record.id)
    for n, row in enumerate(record.history, start=1):
        if isinstance(row.message, int):
            telling.leased(n, row.at, row.attempts, row.worker, row.version, row.message)
        else:
            telling.add(
                n,
                row.at,
                row.event,
                row.before,
                row.after,
                row.attempts,
                row.worker,
                row.version,
                row.message,
            )
    return telling.told
