"""How far back a search reads that nothing but a look at jobs can answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from leasehold.core.model.search import JobFilter, must_be_read
from leasehold.core.model.status import Status
from leasehold.stores.tables.statements import SqlConnection

FEW: Final = 10_000
"""So many jobs are found by a list of their numbers, wherever they stand."""
# Two seeks; both ends in one SELECT would be a scan.
NUMBERS: Final = "SELECT (SELECT min(seq) FROM job), (SELECT max(seq) FROM job)"
FAILED: Final = f"SELECT count(*) FROM (SELECT 1 FROM failed_job LIMIT {FEW + 1}) AS failed"  # noqa: S608  # our own number


def lowest_read(
    db: SqlConnection,
    where: JobFilter,
    before: int | None,
    read_max: int | None,
    jobs_of: Callable[[JobFilter], int],
) -> int | None:
    """The number below which a search does not look, so that it reads about so many jobs.

    None where all may be read: few are left, an index leads to the fitting ones, or few can fit.
    `jobs_of` counts the jobs in the queues, of the tasks and in the statuses of a filter.
    """
    if read_max is None or not must_be_read(where) or _few_can_fit(db, where, jobs_of):
        return None
    lowest, highest = db.execute(NUMBERS).fetchone()
    if lowest is None:
        return None
    # Numbers of pruned jobs are passed over at no cost.
    numbers_a_job = (highest - lowest + 1) / max(1, jobs_of(JobFilter()))
    top = highest + 1 if before is None else min(before, highest + 1)
    bottom = top - max(1, round(read_max * numbers_a_job))
    return bottom if bottom > lowest else None


def _few_can_fit(db: SqlConnection, where: JobFilter, jobs_of: Callable[[JobFilter], int]) -> bool:
    if where.statuses is not None and Status.COMPLETED not in where.statuses:
        of_lanes = JobFilter(queues=where.queues, tasks=where.tasks, statuses=where.statuses)
        if jobs_of(of_lanes) <= FEW:
            return True
    if not where.error_text:
        return False
    failed: Any = db.execute(FAILED).fetchone()
    return int(failed[0]) <= FEW
