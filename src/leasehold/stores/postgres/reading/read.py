"""Reading: snapshots and searches. Never a write, never a wait for one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from leasehold.core.model.codes import STATUS_OF
from leasehold.core.model.job import Job
from leasehold.core.model.pages import check_cursor
from leasehold.core.model.priority import DEFAULT_SCORING
from leasehold.core.model.search import (
    Count,
    HeavyField,
    JobFilter,
    Page,
    by_counters,
    by_status_counters,
    check_count,
    check_left_out,
    check_read,
    counted_up_to,
    lightened,
)
from leasehold.core.model.status import Status
from leasehold.core.rules.serving import SEQ, Lane, Row, in_order
from leasehold.stores.postgres.leasing.order import FOR_COUNTING, LaneReader
from leasehold.stores.postgres.reading.figures import STATS
from leasehold.stores.postgres.reading.where import compares_texts, conditions, counted_jobs
from leasehold.stores.postgres.rules.known import read_rules
from leasehold.stores.postgres.schema.job_row import BY_STATUS, IDS, JOB, job_without, jobs_of
from leasehold.stores.postgres.server.connection import SqlConnection
from leasehold.stores.tables.lanes import stats
from leasehold.stores.tables.places import AT_ITS_PLACE
from leasehold.stores.tables.reach import lowest_read

_PENDING: Final = f"""
    SELECT lane.queue, ready.seq FROM job JOIN lane ON lane.id = job.lane
        LEFT JOIN place ON place.seq = job.seq JOIN ready ON {AT_ITS_PLACE}
    WHERE job.id = $1
"""  # noqa: S608  # our own names
_LANES: Final = "SELECT id FROM lane WHERE queue = $1"
_ALL_LANES: Final = f"{_LANES} UNION ALL SELECT -id FROM key_lane WHERE queue = $1"  # noqa: S608  # our own
"""With those in which jobs are parked."""
# The columns of a filter's conditions: see `where`.
NUMBERS: Final = """
    SELECT job.seq FROM job JOIN lane ON lane.id = job.lane
    LEFT JOIN finished ON finished.seq = job.seq
    LEFT JOIN waiting ON waiting.seq = job.seq
    LEFT JOIN running ON running.seq = job.seq
"""
FIND_IDS: Final = "SELECT id FROM job WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3"
LAST_CHARACTER: Final = "\U0010ffff"
"""No id goes on with it: it is not printable."""
COMPARED_COSTS: Final = 10
"""To fetch a job and to compare its texts costs as much as to pass over so many."""
COMPARED_AT_ONCE: Final = 500
"""How many jobs are fetched at once to compare their texts."""


def read_job(db: SqlConnection, job_id: str) -> Job | None:
    """A snapshot of one job."""
    rows = db.execute(f"{JOB} WHERE job.id = $1", (job_id,)).fetchall()
    return jobs_of(db, rows)[0] if rows else None


def read_jobs(db: SqlConnection, job_ids: Sequence[str]) -> list[Job]:
    """Snapshots of those of these jobs that are there."""
    if not job_ids:
        return []
    return jobs_of(db, db.execute(f"{JOB} WHERE job.id = ANY($1)", (list(job_ids),)).fetchall())


def position(db: SqlConnection, job_id: str, now: int) -> int | None:
    """How many pending jobs of its queue are served before it."""
    found: Any = db.execute(_PENDING, (job_id,)).fetchone()
    if found is None:
        return None
    queue, seq = found
    served = _in_order(db, _ALL_LANES, queue, now)
    return next(count for count, row in enumerate(served) if row[SEQ] == seq)


def peek(db: SqlConnection, queue: str, limit: int, now: int) -> list[Job]:
    """The pending jobs of a queue that are served first."""
    numbers = [row[SEQ] for row in islice(_in_order(db, _LANES, queue, now), limit)]
    if not numbers:
        return []
    rows = db.execute(f"{JOB} WHERE job.seq = ANY($1)", (numbers,)).fetchall()
    place = {number: count for count, number in enumerate(numbers)}
    rows.sort(key=lambda row: place[row[0]])
    return jobs_of(db, rows)


def _in_order(db: SqlConnection, lanes: str, queue: str, now: int) -> Iterable[Row]:
    rule = read_rules(db).get(queue)
    scoring = DEFAULT_SCORING if rule is None else rule.config.scoring
    numbers = db.execute(lanes, (queue,)).fetchall()
    return in_order(
        LaneReader(db, FOR_COUNTING), [Lane(number, scoring) for (number,) in numbers], now
    )


def find_ids(db: SqlConnection, prefix: str, limit: int) -> list[str]:
    """Ids that begin like this, in order."""
    return [
        str(job_id)
        for (job_id,) in db.execute(FIND_IDS, (prefix, prefix + LAST_CHARACTER, max(0, limit)))
    ]


def search(
    db: SqlConnection,
    where: JobFilter,
    limit: int,
    cursor: str | None,
    without: Collection[HeavyField] = (),
    read_max: int | None = None,
) -> Page:
    """Jobs that fit, the last submitted first."""
    before = check_cursor(limit, cursor)
    check_left_out(without)
    check_read(read_max)
    # Columns that are compared here have to be fetched, whether or not they are asked for.
    compared = compares_texts(where)
    bottom = _lowest_read(db, where, before, read_max)
    select = job_without(() if compared else without)
    found = _walk(db, where, select, limit + 1, before, bottom=bottom)
    jobs = [job for _, job in found[:limit]]
    if compared and without:
        jobs = [lightened(job, without) for job in jobs]
    further = found[limit - 1][0] if len(found) > limit else bottom
    return Page(jobs, None if further is None else str(further))


def _lowest_read(
    db: SqlConnection, where: JobFilter, before: int | None, read_max: int | None
) -> int | None:
    if read_max is not None and compares_texts(where):
        read_max = max(1, read_max // COMPARED_COSTS)
    return lowest_read(db, where, before, read_max, partial(counted_jobs, db))


def _walk(
    db: SqlConnection,
    where: JobFilter,
    select: str,
    limit: int,
    seen: int | None,
    *,
    oldest_first: bool = False,
    bottom: int | None = None,
) -> list[tuple[int, Job]]:
    """The next jobs that fit, each with its number; the last submitted first, or the oldest."""
    compared = compares_texts(where)
    page = max(limit, COMPARED_AT_ONCE) if compared else limit
    found: list[tuple[int, Job]] = []
    while True:
        clauses, values = conditions(where)
        if seen is not None:
            clauses.append(f"job.seq {'>' if oldest_first else '<'} ${len(values) + 1}")
            values.append(seen)
        if bottom is not None:
            clauses.append(f"job.seq >= ${len(values) + 1}")
            values.append(bottom)
        condition = " AND ".join(clauses) or "true"
        order = "ASC" if oldest_first else "DESC"
        # Their numbers first, as a list: else all records of a job, in ten tables, are looked up
        # for every job that is walked past, or whole tables of them are sorted.
        numbers = f"{NUMBERS} WHERE {condition} ORDER BY job.seq {order} LIMIT ${len(values) + 1}"
        rows = db.execute(
            f"{select} WHERE job.seq = ANY(ARRAY({numbers})) ORDER BY job.seq {order}",
            (*values, page),
        ).fetchall()
        for row, job in zip(rows, jobs_of(db, rows), strict=True):
            if not compared or where.matches(job):
                found.append((row[0], job))
        if len(rows) < page or len(found) >= limit:
            return found[:limit]
        seen = rows[-1][0]


def count(
    db: SqlConnection, where: JobFilter, counted_max: int, read_max: int | None = None
) -> Count:
    """How many jobs fit, counted up to one more than the bound."""
    check_count(counted_max)
    check_read(read_max)
    known = by_counters(where, lambda queue: stats(db, STATS, queue).counts)
    if known is not None:
        return known
    bottom = _lowest_read(db, where, None, read_max)
    if compares_texts(where):
        fitting = len(_walk(db, where, JOB, counted_max + 1, None, bottom=bottom))
        return counted_up_to(fitting, counted_max, read_all=bottom is None)
    clauses, values = conditions(where)
    if bottom is not None:
        clauses.append(f"job.seq >= ${len(values) + 1}")
        values.append(bottom)
    condition = " AND ".join(clauses) or "true"
    found: Any = db.execute(
        f"SELECT count(*) FROM ({IDS} WHERE {condition} LIMIT ${len(values) + 1}) AS fitting",  # noqa: S608  # our own names
        (*values, counted_max + 1),
    ).fetchone()
    return counted_up_to(found[0], counted_max, read_all=bottom is None)


def count_by_status(db: SqlConnection, where: JobFilter) -> Mapping[Status, int]:
    """How many jobs fit, all of them counted."""
    known = by_status_counters(where, lambda queue: stats(db, STATS, queue).counts)
    if known is not None:
        return known
    if compares_texts(where):
        return _compared_by_status(db, where)
    clauses, values = conditions(where)
    condition = " AND ".join(clauses) or "true"
    found: Any = db.execute(f"{BY_STATUS} WHERE {condition} GROUP BY 1", values).fetchall()
    return {STATUS_OF[code]: jobs for code, jobs in found}


def _compared_by_status(db: SqlConnection, where: JobFilter) -> Mapping[Status, int]:
    counted: Counter[Status] = Counter()
    seen: int | None = None
    while found := _walk(db, where, JOB, COMPARED_AT_ONCE, seen):
        counted.update(job.status for _, job in found)
        seen = found[-1][0]
    return counted


def find_fitting(
    db: SqlConnection, where: JobFilter, limit: int, cursor: str | None, *, oldest_first: bool
) -> tuple[list[str], str | None]:
    """The ids of jobs that fit, from one end on, and where the next ones begin."""
    seen = check_cursor(limit, cursor)
    select = JOB if compares_texts(where) else job_without(("payload", "result", "metadata"))
    found = _walk(db, where, select, limit + 1, seen, oldest_first=oldest_first)
    return [job.id for _, job in found[:limit]], (
        str(found[limit - 1][0]) if len(found) > limit else None
    )
