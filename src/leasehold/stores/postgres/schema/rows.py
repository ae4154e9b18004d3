"""Snapshots of jobs: the statements for PostgreSQL; see `tables.job_row`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from leasehold.core.model.job import Job
from leasehold.core.model.outcome import JobError
from leasehold.core.model.stored import UNREADABLE, problem_of
from leasehold.core.model.unreadable import ERROR_TYPE, set_aside_reason
from leasehold.stores.postgres.server.connection import SqlConnection
from leasehold.stores.tables.job_row import JobRow, snapshot

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


def jobs_of(db: SqlConnection, rows: Sequence[Any]) -> list[Job]:
    """The snapshots in rows of JOB, in their order."""
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
    row: JobRow, depends_on: Sequence[str], error: JobError | None, last_start: int | None
) -> Job:
    """A snapshot; if its documents cannot be read, it has an error that says so."""
    problems: list[str] = []

    def read(decode: Any, text: str | bytes | None) -> Any:
        if text is None:
            return None
        try:
            return decode(text)
        except UNREADABLE as problem:
            problems.append(problem_of(problem))
            return None

    job = snapshot(row, depends_on, error, last_start, read)
    if not problems:
        return job
    said = JobError(ERROR_TYPE, set_aside_reason("; ".join(problems)))
    return msgspec.structs.replace(job, error=said)
