"""The row of a job, wherever it stands, and the snapshot it becomes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from leasehold.core.model.codes import POLICY_OF, STATUS_OF
from leasehold.core.model.job import Job
from leasehold.core.model.outcome import JobError
from leasehold.core.model.plain_data import LEFT_OUT
from leasehold.core.model.stored import (
    UNREADABLE,
    metadata_of,
    moment,
    problem_of,
    retry_of,
)
from leasehold.core.model.unreadable import ERROR_TYPE, set_aside_reason
from leasehold.env import from_micros
from leasehold.stores.postgres.server.connection import SqlConnection
from leasehold.stores.tables.places import AT_ITS_PLACE

_COLUMNS: Final = {
    "seq": "job.seq",
    "id": "job.id",
    "queue": "lane.queue",
    "task": "lane.task",
    "priority": "job.priority",
    "created_at": "job.created_at",
    "max_retries": "job.max_retries",
    "allowance": "job.allowance",
    "timeout_seconds": "job.timeout_seconds",
    "lease_seconds": "job.lease_seconds",
    "deadline": "job.deadline",
    "start_by": "job.start_by",
    "result_ttl_seconds": "job.result_ttl_seconds",
    "retry": "job.retry",
    "metadata": "job.metadata",
    "idempotency_key": "job.idempotency_key",
    "parent_id": "job.parent_id",
    "codec": "job.codec",
    "payload": "job.payload",
    "status": "coalesce(finished.status, waiting.status, "
    "CASE WHEN running.seq IS NULL THEN 2 ELSE 3 END)",
    "version": "coalesce(ready.version, running.version, finished.version, waiting.version)",
    "attempts": "coalesce(ready.attempts, running.attempts, finished.attempts, waiting.attempts)",
    "available_at": "coalesce(ready.available_at, running.available_at, "
    "finished.available_at, waiting.due, dependent.due, waiting.since)",
    "worker": "running.worker",
    "acquired_at": "running.acquired_at",
    "expires_at": "running.expires_at",
    "heartbeat_at": "running.heartbeat_at",
    "cancel_reason": "running.cancel_reason",
    "finished_at": "finished.finished_at",
    "started_at": "finished.started_at",
    "result": "finished.result",
    "result_codec": "finished.result_codec",
    "reason": "coalesce(finished.reason, waiting.reason)",
    "since": "waiting.since",
    "progress": "progress.document",
    "policy": "dependent.policy",
    "base": "raised.base",
    "limit_key": "job.limit_key",
    "failure_count": "coalesce(failed_job.count, 0)",
    "first_failed_at": "failed_job.first_at",
    "last_failed_at": "failed_job.last_at",
}
"""The columns of a snapshot, by name."""

# Exactly one of the four state tables has a row for it.
_FROM: Final = f"""
    FROM job
    JOIN lane ON lane.id = job.lane
    LEFT JOIN running ON running.seq = job.seq
    LEFT JOIN finished ON finished.seq = job.seq
    LEFT JOIN waiting ON waiting.seq = job.seq
    LEFT JOIN place ON place.seq = job.seq
    LEFT JOIN ready ON {AT_ITS_PLACE}
    LEFT JOIN raised ON raised.seq = job.seq
    LEFT JOIN progress ON progress.seq = job.seq
    LEFT JOIN dependent ON dependent.seq = job.seq
    LEFT JOIN failed_job ON failed_job.seq = job.seq
"""
JOB: Final = f"SELECT {', '.join(_COLUMNS.values())} {_FROM}"
"""One row per job, for `jobs_of`."""
_LIGHT: Final = {
    "payload": {"payload": "''::bytea", "codec": f"'{LEFT_OUT}'"},
    "result": {
        "result": "CASE WHEN finished.result IS NULL THEN NULL ELSE ''::bytea END",
        "result_codec": f"CASE WHEN finished.result IS NULL THEN NULL ELSE '{LEFT_OUT}' END",
    },
    "metadata": {"metadata": "NULL"},
}
"""The constants fetched in place of columns that a search goes without."""


def job_without(fields: Collection[str]) -> str:
    """JOB without these fields, which are not even read; the same columns in the same order."""
    if not fields:
        return JOB
    light = {name: instead for field in fields for name, instead in _LIGHT[field].items()}
    asked = ", ".join(light.get(name, column) for name, column in _COLUMNS.items())
    return f"SELECT {asked} {_FROM}"  # our own names


IDS: Final = f"SELECT job.seq, job.id {_FROM}"
"""Numbers and ids."""
BY_STATUS: Final = f"SELECT {_COLUMNS['status']}, count(*) {_FROM}"
"""How many jobs there are, by the code of their status; to be grouped by that."""

# The records of jobs, for all of them at once.
_DEPENDS_ON: Final = "SELECT seq, id FROM dependency WHERE seq = ANY($1) ORDER BY seq, n"
_LAST_ERRORS: Final = """
    SELECT DISTINCT ON (seq) seq, error_type, error_message, traceback FROM attempt
    WHERE seq = ANY($1) AND error_type IS NOT NULL ORDER BY seq, version DESC
"""
_LAST_STARTS: Final = """
    SELECT DISTINCT ON (seq) seq, started_at FROM attempt
    WHERE seq = ANY($1) ORDER BY seq, version DESC
"""


class JobRow(NamedTuple):
    """A row of JOB."""

    seq: Any
    id: Any
    queue: Any
    task: Any
    priority: Any
    created_at: Any
    max_retries: Any
    allowance: Any
    timeout_seconds: Any
    lease_seconds: Any
    deadline: Any
    start_by: Any
    result_ttl_seconds: Any
    retry: Any
    metadata: Any
    idempotency_key: Any
    parent_id: Any
    codec: Any
    payload: Any
    status: Any
    version: Any
    attempts: Any
    available_at: Any
    worker: Any
    acquired_at: Any
    expires_at: Any
    heartbeat_at: Any
    cancel_reason: Any
    finished_at: Any
    started_at: Any
    result: Any
    result_codec: Any
    reason: Any
    since: Any
    progress: Any
    policy: Any
    base: Any
    limit_key: Any
    failure_count: Any
    first_failed_at: Any
    last_failed_at: Any


def jobs_of(db: SqlConnection, rows: Sequence[Any]) -> list[Job]:
    """The snapshots that rows of JOB tell, in their order."""
    jobs = [JobRow._make(row) for row in rows]
    depends_on: defaultdict[int, list[str]] = defaultdict(list)
    dependents = [job.seq for job in jobs if job.policy is not None]
    if dependents:
        for seq, needed in db.execute(_DEPENDS_ON, (dependents,)):
            depends_on[seq].append(needed)
    # Only a job that was leased before can have failed before.
    leased = [job.seq for job in jobs if job.version]
    errors: dict[int, JobError] = {}
    if leased:
        for seq, *error in db.execute(_LAST_ERRORS, (leased,)):
            errors[seq] = JobError(*error)
    unknown = [job.seq for job in jobs if job.version and job.started_at is None]
    starts: dict[int, int] = dict(db.execute(_LAST_STARTS, (unknown,))) if unknown else {}
    return [
        _job(job, depends_on.get(job.seq, ()), errors.get(job.seq), starts.get(job.seq))
        for job in jobs
    ]


def _job(
    row: JobRow, depends_on: Collection[str], error: JobError | None, last_start: int | None
) -> Job:
    """A snapshot; of one whose documents cannot be read, with an error that says so."""
    problems: list[str] = []

    def read(decode: Any, text: str | bytes | None) -> Any:
        if text is None:
            return None
        try:
            return decode(text)
        except UNREADABLE as problem:
            problems.append(problem_of(problem))
            return None

    started_at = row.started_at
    if started_at is None:
        started_at = row.acquired_at or last_start
    updated_at = row.finished_at or row.since or row.heartbeat_at or row.available_at
    job = Job(
        id=row.id,
        queue=row.queue,
        task=row.task,
        status=STATUS_OF[row.status],
        priority=row.priority,
        payload_data=row.payload,
        codec=row.codec or "json",
        created_at=from_micros(row.created_at),
        updated_at=from_micros(max(updated_at, row.created_at)),
        run_at=from_micros(row.available_at),
        deadline=moment(row.deadline),
        started_at=moment(started_at),
        completed_at=moment(row.finished_at),
        attempts=row.attempts,
        max_retries=row.max_retries,
        allowance=row.allowance,
        retry=read(retry_of, row.retry),
        timeout_seconds=row.timeout_seconds,
        lease_seconds=row.lease_seconds,
        start_by=moment(row.start_by),
        result_ttl_seconds=row.result_ttl_seconds,
        worker=row.worker,
        lease_version=row.version,
        lease_acquired_at=moment(row.acquired_at),
        lease_expires_at=moment(row.expires_at),
        heartbeat_at=moment(row.heartbeat_at),
        cancel_requested=row.cancel_reason,
        result_data=row.result,
        result_codec=row.result_codec or "json",
        error=error,
        failure_count=row.failure_count,
        first_failed_at=moment(row.first_failed_at),
        last_failed_at=moment(row.last_failed_at),
        reason=row.reason,
        progress=read(msgspec.json.decode, row.progress),
        metadata=read(metadata_of, row.metadata),
        idempotency_key=row.idempotency_key,
        parent_id=row.parent_id,
        depends_on=tuple(depends_on),
        on_dependency_failure=POLICY_OF[row.policy or 0],
        inherited_priority=row.base,
        limit_key=row.limit_key,
    )
    if not problems:
        return job
    said = JobError(ERROR_TYPE, set_aside_reason("; ".join(problems)))
    return msgspec.structs.replace(job, error=said)
