"""Reading: snapshots and searches. Never a write, never a wait for one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final

import apsw

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
from leasehold.core.model.stored import UNREADABLE
from leasehold.core.rules.serving import SEQ, Lane, Row, in_order
from leasehold.stores.sqlite.leasing.order import FOR_COUNTING, LaneReader
from leasehold.stores.sqlite.reading.figures import STATS
from leasehold.stores.sqlite.reading.where import conditions, counted_jobs
from leasehold.stores.sqlite.rules.known import read_rules
from leasehold.stores.sqlite.schema.job_row import (
    BY_STATUS,
    IDS,
    JOB,
    NUMBERS,
    job_carefully,
    job_of,
    job_without,
)
from leasehold.stores.tables.lanes import stats
from leasehold.stores.tables.places import AT_ITS_PLACE
from leasehold.stores.tables.reach import lowest_read

_PENDING: Final = f"""
    SELECT lane.queue, ready.seq FROM job JOIN lane ON lane.id = job.lane
        LEFT JOIN place ON place.seq = job.seq JOIN ready ON {AT_ITS_PLACE}
    WHERE job.id = ?
"""  # noqa: S608  # our own names
_LANES: Final = "SELECT id FROM lane WHERE queue = ?1 AND pending > 0"
_ALL_LANES: Final = f"{_LANES} UNION ALL SELECT -id FROM key_lane WHERE queue = ?1"  # noqa: S608  # our own
"""With those in which jobs are parked."""
# A range of the unique index. No id goes on with the last character of all: it is not printable.
FIND_IDS: Final = (
    "SELECT id FROM job WHERE id >= ?1 AND id < ?1 || char(1114111) ORDER BY id LIMIT ?2"
)


def read_job(db: apsw.Connection, job_id: str) -> Job | None:
    """A snapshot of one job; of an unreadable one, its readable fields."""
    try:
        row = db.execute(f"{JOB} WHERE job.id = ?", (job_id,)).fetchone()
        return None if row is None else job_of(db, row)
    except UNREADABLE:
        found: Any = db.execute(f"{NUMBERS} WHERE job.id = ?", (job_id,)).fetchone()
        return None if found is None else job_carefully(db, found[0])


def position(db: apsw.Connection, job_id: str, now: int) -> int | None:
    """How many pending jobs of its queue are served before it."""
    found: Any = db.execute(_PENDING, (job_id,)).fetchone()
    if found is None:
        return None
    queue, seq = found
    served = _in_order(db, _ALL_LANES, queue, now)
    # A job that cannot be placed, because its row or another is damaged, stands nowhere.
    with suppress(*UNREADABLE):
        return next((count for count, row in enumerate(served) if row[SEQ] == seq), None)
    return None


def peek(db: apsw.Connection, queue: str, limit: int, now: int) -> list[Job]:
    """The pending jobs of a queue that are served first."""
    # Where a damaged row stands is not known: the jobs read before it are told.
    numbers: list[int] = []
    with suppress(*UNREADABLE):
        numbers.extend(row[SEQ] for row in islice(_in_order(db, _LANES, queue, now), limit))
    return [_read_numbered(db, number) for number in numbers]


def _in_order(db: apsw.Connection, lanes: str, queue: str, now: int) -> Iterable[Row]:
    rule = read_rules(db).get(queue)
    scoring = DEFAULT_SCORING if rule is None else rule.config.scoring
    numbers: list[Any] = db.execute(lanes, (queue,)).fetchall()
    return in_order(
        LaneReader(db, FOR_COUNTING), [Lane(number, scoring) for (number,) in numbers], now
    )


def _read_numbered(db: apsw.Connection, seq: int) -> Job:
    try:
        row: Any = db.execute(f"{JOB} WHERE job.seq = ?", (seq,)).fetchone()
        return job_of(db, row)
    except UNREADABLE:
        return job_carefully(db, seq)


def find_ids(db: apsw.Connection, prefix: str, limit: int) -> list[str]:
    """Ids that begin like this, in order."""
    return [str(job_id) for (job_id,) in db.execute(FIND_IDS, (prefix, max(0, limit)))]


def search(
    db: apsw.Connection,
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
    clauses, values = conditions(db, where)
    if before is not None:
        clauses.append("job.seq < ?")
        values.append(before)
    bottom = lowest_read(db, where, before, read_max, partial(counted_jobs, db))
    if bottom is not None:
        clauses.append("job.seq >= ?")
        values.append(bottom)
    condition = " AND ".join(clauses) or "1"
    page = f"WHERE {condition} ORDER BY job.seq DESC LIMIT ?"
    try:
        rows: list[Any] = db.execute(
            f"{job_without(without)} {page}", (*values, limit + 1)
        ).fetchall()
        jobs = [job_of(db, row) for row in rows[:limit]]
    except UNREADABLE:
        # One of them cannot be read: then each is read with care.
        numbers: Any = db.execute(f"{NUMBERS} {page}", (*values, limit + 1))
        rows = list(numbers)
        jobs = [lightened(job_carefully(db, seq), without) for (seq,) in rows[:limit]]
    further = rows[limit - 1][0] if len(rows) > limit else bottom
    return Page(jobs, None if further is None else str(further))


def count(
    db: apsw.Connection, where: JobFilter, counted_max: int, read_max: int | None = None
) -> Count:
    """How many jobs fit, counted up to one more than the bound."""
    check_count(counted_max)
    check_read(read_max)
    known = by_counters(where, lambda queue: stats(db, STATS, queue).counts)
    if known is not None:
        return known
    clauses, values = conditions(db, where)
    bottom = lowest_read(db, where, None, read_max, partial(counted_jobs, db))
    if bottom is not None:
        clauses.append("job.seq >= ?")
        values.append(bottom)
    condition = " AND ".join(clauses) or "1"
    found: Any = db.execute(
        f"SELECT count(*) FROM ({IDS} WHERE {condition} LIMIT ?)",  # noqa: S608  # our own names
        (*values, counted_max + 1),
    ).fetchone()
    return counted_up_to(found[0], counted_max, read_all=bottom is None)


def count_by_status(db: apsw.Connection, where: JobFilter) -> dict[Status, int]:
    """How many jobs fit, all of them counted."""
    known = by_status_counters(where, lambda queue: stats(db, STATS, queue).counts)
    if known is not None:
        return known
    clauses, values = conditions(db, where)
    condition = " AND ".join(clauses) or "1"
    found: Any = db.execute(f"{BY_STATUS} WHERE {condition} GROUP BY 1", values)
    return {STATUS_OF[code]: jobs for code, jobs in found if code in STATUS_OF}


def find_fitting(
    db: apsw.Connection, where: JobFilter, limit: int, cursor: str | None, *, oldest_first: bool
) -> tuple[list[str], str | None]:
    """The ids of jobs that fit, from one end on, and where the next ones begin."""
    clauses, values = conditions(db, where)
    seen = check_cursor(limit, cursor)
    if seen is not None:
        clauses.append("job.seq > ?" if oldest_first else "job.seq < ?")
        values.append(seen)
    rows: list[Any] = db.execute(
        f"{IDS} WHERE {' AND '.join(clauses) or '1'} "
        f"ORDER BY job.seq {'ASC' if oldest_first else 'DESC'} LIMIT ?",
        (*values, limit + 1),
    ).fetchall()
    return [job_id for _, job_id in rows[:limit]], (
        str(rows[limit - 1][0]) if len(rows) > limit else None
    )
