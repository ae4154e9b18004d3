"""The row of a job in any status, and the snapshot made from it, defined only here."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from leasehold.core.model.codes import POLICY_OF, STATUS_OF
from leasehold.core.model.job import Job, last_change
from leasehold.core.model.outcome import JobError
from leasehold.core.model.plain_data import LEFT_OUT
from leasehold.core.model.stored import metadata_of, moment, retry_of
from leasehold.env import from_micros
from leasehold.stores.tables.order import AT_ITS_PLACE
from leasehold.stores.tables.statements import Kind

T = TypeVar("T")


class JobColumn(NamedTuple):
    """One column of a job's row."""

    name: str
    expression: str
    kind: Kind
    instead: Any = None
    """The value in a snapshot if it cannot be read."""


COLUMNS: Final = (
    JobColumn("number", "job.seq", Kind.WHOLE, 0),
    JobColumn("id", "job.id", Kind.TEXT, "unreadable"),
    JobColumn("queue", "lane.queue", Kind.TEXT, "unreadable"),
    JobColumn("task", "lane.task", Kind.TEXT, "unreadable"),
    JobColumn("priority", "job.priority", Kind.WHOLE, 0),
    JobColumn("created_at", "job.created_at", Kind.MOMENT, 0),
    JobColumn("max_retries", "job.max_retries", Kind.WHOLE, 0),
    JobColumn("allowance", "job.allowance", Kind.WHOLE, 0),
    JobColumn("timeout_seconds", "job.timeout_seconds", Kind.SECONDS_OR_NULL),
    JobColumn("lease_seconds", "job.lease_seconds", Kind.SECONDS_OR_NULL),
    JobColumn("deadline", "job.deadline", Kind.MOMENT_OR_NULL),
    JobColumn("start_by", "job.start_by", Kind.MOMENT_OR_NULL),
    JobColumn("result_ttl_seconds", "job.result_ttl_seconds", Kind.SECONDS_OR_NULL),
    JobColumn("retry", "job.retry", Kind.TEXT_OR_NULL),
    JobColumn("metadata", "job.metadata", Kind.TEXT_OR_NULL),
    JobColumn("idempotency_key", "job.idempotency_key", Kind.TEXT_OR_NULL),
    JobColumn("parent_id", "job.parent_id", Kind.TEXT_OR_NULL),
    JobColumn("codec", "job.codec", Kind.TEXT_OR_NULL),
    JobColumn("payload", "job.payload", Kind.BYTES, b""),
    JobColumn(
        "status",
        "coalesce(finished.status, waiting.status, "
        "CASE WHEN running.seq IS NULL THEN 2 ELSE 3 END)",
        Kind.WHOLE, 2,
    ),
    JobColumn(
        "lease version",
        "coalesce(ready.version, running.version, finished.version, waiting.version)",
        Kind.WHOLE, 0,
    ),
    JobColumn(
        "attempts",
        "coalesce(ready.attempts, running.attempts, finished.attempts, waiting.attempts)",
        Kind.WHOLE, 0,
    ),
    JobColumn(
        "the time since when it is available",
        "coalesce(ready.available_at, running.available_at, finished.available_at, waiting.due, "
        "dependent.due, waiting.since)",
        Kind.MOMENT, 0,
    ),
    JobColumn("worker", "running.worker", Kind.TEXT_OR_NULL),
    JobColumn("acquired_at", "running.acquired_at", Kind.MOMENT_OR_NULL),
    JobColumn("expires_at", "running.expires_at", Kind.MOMENT_OR_NULL),
    JobColumn("heartbeat_at", "running.heartbeat_at", Kind.MOMENT_OR_NULL),
    JobColumn("cancel_reason", "running.cancel_reason", Kind.TEXT_OR_NULL),
    JobColumn("finished_at", "finished.finished_at", Kind.MOMENT_OR_NULL),
    JobColumn("started_at", "finished.started_at", Kind.MOMENT_OR_NULL),
    JobColumn("result", "finished.result", Kind.BYTES_OR_NULL),
    JobColumn("result_codec", "finished.result_codec", Kind.TEXT_OR_NULL),
    JobColumn("reason", "coalesce(finished.reason, waiting.reason)", Kind.TEXT_OR_NULL),
    JobColumn("since", "waiting.since", Kind.MOMENT_OR_NULL),
    JobColumn("progress", "progress.document", Kind.TEXT_OR_NULL),
    JobColumn("the dependency policy", "dependent.policy", Kind.WHOLE_OR_NULL),
    JobColumn("the inherited priority", "raised.base", Kind.WHOLE_OR_NULL),
    JobColumn("limit_key", "job.limit_key", Kind.TEXT_OR_NULL),
    JobColumn("failure_count", "coalesce(failed_job.count, 0)", Kind.WHOLE, 0),
    JobColumn("first_failed_at", "failed_job.first_at", Kind.MOMENT_OR_NULL),
    JobColumn("last_failed_at", "failed_job.last_at", Kind.MOMENT_OR_NULL),
)  # fmt: skip
"""The columns of a snapshot, in the order of a JobRow."""

# Exactly one of the four state tables has a row for the job.
FROM: Final = f"""
    FROM job
    {{}} JOIN lane ON lane.id = job.lane
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
"""A store chooses how strictly a job is joined to its lane."""
_FROM: Final = FROM.format("")
JOB: Final = f"SELECT {', '.join(each.expression for each in COLUMNS)} {_FROM}"
"""One row per job: the columns of a JobRow."""
NUMBERS: Final = f"SELECT job.seq {_FROM}"
"""Only the numbers, which can always be read."""
IDS: Final = f"SELECT job.seq, job.id {_FROM}"
"""Numbers and ids."""
BY_STATUS: Final = (
    f"SELECT {next(each.expression for each in COLUMNS if each.name == 'status')}, count(*) {_FROM}"
)
"""Counts of jobs by status code, to be grouped by that."""
_LIGHT: Final = {
    "payload": {"payload": "{0}", "codec": f"'{LEFT_OUT}'"},
    "result": {
        "result": "CASE WHEN finished.result IS NULL THEN NULL ELSE {0} END",
        "result_codec": f"CASE WHEN finished.result IS NULL THEN NULL ELSE '{LEFT_OUT}' END",
    },
    "metadata": {"metadata": "NULL"},
}
"""The constants that replace columns left out of a search; `{0}` is an empty bytes value."""


def job_without(fields: Collection[str], no_bytes: str) -> str:
    """JOB without these fields, whose pages are not even read; with the same columns in the same
    order.

    A payload that does not fit into its row's page is on other pages, which are skipped.
    """
    if not fields:
        return JOB
    light = {name: instead for field in fields for name, instead in _LIGHT[field].items()}
    asked = (light.get(each.name, each.expression) for each in COLUMNS)
    return f"SELECT {', '.join(asked).format(no_bytes)} {_FROM}"  # our own names


JobRow = namedtuple(  # noqa: PYI024  # forty columns, none of which has a type before it is read
    "JobRow",
    "seq id queue task priority created_at max_retries allowance timeout_seconds lease_seconds "
    "deadline start_by result_ttl_seconds retry metadata idempotency_key parent_id codec payload "
    "status version attempts available_at worker acquired_at expires_at heartbeat_at cancel_reason "
    "finished_at started_at result result_codec reason since progress policy base limit_key "
    "failure_count first_failed_at last_failed_at",
)
"""A row of JOB."""


class ReadDocument(Protocol):
    """Reads a stored document, if there is one."""

    def __call__(self, decode: Callable[[str], T], text: str | None, /) -> T | None: ...


def snapshot(
    row: JobRow,
    depends_on: Sequence[str],
    error: JobError | None,
    last_start: int | None,
    read: ReadDocument,
) -> Job:
    """The job in a row, with its records: its dependencies, last error and start."""
    started_at = row.started_at
    if started_at is None:
        started_at = row.acquired_at or last_start
    changed_at = last_change(
        row.created_at,
        row.available_at,
        ended_at=row.finished_at,
        waits_since=row.since,
        heartbeat_at=row.heartbeat_at,
    )
    return Job(
        id=row.id,
        queue=row.queue,
        task=row.task,
        status=STATUS_OF[row.status],
        priority=row.priority,
        payload_data=row.payload,
        codec=row.codec or "json",
        created_at=from_micros(row.created_at),
        updated_at=from_micros(changed_at),
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
