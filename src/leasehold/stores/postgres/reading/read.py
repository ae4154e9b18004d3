"""Reading jobs: the statements for PostgreSQL; see `tables.job_reading`.

A JobFilter in SQL is equivalent to JobFilter.matches, as far as the server can decide it. Texts and
metadata are compared in Python, page by page: case-insensitive equality of texts, and equality of
JSON values, are decided in one place for every store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, get_args

from leasehold.core.model.codes import STATUS_CODE
from leasehold.core.model.job import Job
from leasehold.core.model.search import HeavyField, JobFilter, lightened
from leasehold.core.model.status import Status
from leasehold.stores.postgres.leasing.order import FOR_COUNTING, LaneReader
from leasehold.stores.postgres.reading.figures import STATS
from leasehold.stores.postgres.rules.known import read_rules
from leasehold.stores.postgres.schema.rows import jobs_of
from leasehold.stores.postgres.server.connection import POSTGRES, SqlConnection
from leasehold.stores.tables.job_reading import TableJobs, among, has, of_the_job
from leasehold.stores.tables.job_row import JOB, job_without
from leasehold.stores.tables.statements import Clause, numbered


def conditions(where: JobFilter) -> list[Clause]:
    """The clauses that must all hold beside the job's lane, as far as the server can decide."""
    clauses = of_the_job(where, POSTGRES)
    if where.statuses == (Status.PENDING,) and where.parent_id is not None:
        # Not from the list of all pending jobs, which would be read for those of each parent.
        pending = "job.seq IN (SELECT seq FROM ready WHERE parent_id = {})"
        clauses.append((pending, (where.parent_id,)))
    elif where.statuses is not None:
        clauses.append((_one_of(where.statuses), ()))
    if where.error_text:
        # Most jobs never failed: only the others need to be compared.
        clauses.append(("job.seq IN (SELECT seq FROM failed_job)", ()))
    return clauses


def compares_texts(where: JobFilter) -> bool:
    """Whether each job has to be compared in Python."""
    return not (where.text is None and where.error_text is None and where.metadata is None)


def _one_of(statuses: Sequence[Status]) -> str:
    """The few jobs of one status are found in their own table or index; then the many completed
    ones do not matter.

    For several statuses, the rows beside each job are looked up: with lists joined by OR, the
    server would scan each whole list for every job.
    """
    if len(statuses) == 1 and not statuses[0].is_terminal:
        return f"job.seq IN (SELECT seq FROM {_table_of(statuses[0])})"
    return f"({' OR '.join(map(has, statuses)) or 'false'})"


def _table_of(status: Status) -> str:
    if status is Status.PENDING:
        return "ready"
    return (
        "running" if status is Status.RUNNING else f"waiting WHERE status = {STATUS_CODE[status]}"
    )


# The columns of a filter's conditions: see `conditions`.
NUMBERS: Final = """
    SELECT job.seq FROM job
    LEFT JOIN finished ON finished.seq = job.seq
    LEFT JOIN waiting ON waiting.seq = job.seq
    LEFT JOIN running ON running.seq = job.seq
"""
LANES: Final = "SELECT id FROM lane"
FIND_IDS: Final = "SELECT id FROM job WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3"
LAST_CHARACTER: Final = "\U0010ffff"
"""No id continues with it, since it is not printable."""
COMPARED_MAX: Final = 2000
"""How many jobs a bounded search reads to compare their texts before it stops."""
COMPARED_COSTS: Final = 10
"""Fetching a job and comparing its texts costs as much as skipping this many."""
COMPARED_AT_ONCE: Final = 500
"""How many jobs are fetched at once to compare their texts."""


def read_job(db: SqlConnection, job_id: str) -> Job | None:
    """A snapshot of one job."""
    rows = db.execute(f"{JOB} WHERE job.id = $1", (job_id,)).fetchall()
    return jobs_of(db, rows)[0] if rows else None


def read_jobs(db: SqlConnection, job_ids: Sequence[str]) -> list[Job]:
    """Snapshots of the given jobs that exist."""
    if not job_ids:
        return []
    return jobs_of(db, db.execute(f"{JOB} WHERE job.id = ANY($1)", (list(job_ids),)).fetchall())


# Links through a deleted job do not count: its dependents have nothing to do with each other. One
# step of a recursion may name `linked` only once.
LINKED: Final = """
    WITH RECURSIVE linked (seq) AS (
        SELECT seq FROM job WHERE id = ANY($1)
        UNION SELECT step.other FROM linked JOIN LATERAL (
            SELECT needs AS other FROM dependency JOIN job ON job.seq = needs
            WHERE dependency.seq = linked.seq
            UNION ALL SELECT dependency.seq FROM dependency WHERE needs = linked.seq
        ) AS step ON true
    )
"""


class Jobs(TableJobs):
    """The jobs of a store, for one read."""

    load_rules = staticmethod(read_rules)
    stats = STATS
    lanes = "SELECT id FROM lane WHERE queue = $1"
    linked = LINKED
    dialect = POSTGRES
    _db: SqlConnection
    _compared_max: int | None = None

    def read_job(self, job_id: str) -> Job | None:
        return read_job(self._db, job_id)

    def find_ids(self, prefix: str, limit: int) -> list[str]:
        found = self._db.execute(FIND_IDS, (prefix, prefix + LAST_CHARACTER, limit))
        return [str(job_id) for (job_id,) in found]

    def _places(self) -> LaneReader:
        return LaneReader(self._db, FOR_COUNTING)

    def _numbered(self, numbers: Sequence[int]) -> list[Job]:
        if not numbers:
            return []
        rows = self._db.execute(f"{JOB} WHERE job.seq = ANY($1)", (list(numbers),)).fetchall()
        place = {number: count for count, number in enumerate(numbers)}
        rows.sort(key=lambda row: place[row[0]])
        return jobs_of(self._db, rows)

    def _clauses(self, where: JobFilter) -> list[Clause]:
        lanes = self._lanes(where)
        # Their numbers, as a list: else the server looks up the lane of every job that it passes.
        of_lanes: list[Clause] = [] if lanes is None else [("job.lane = ANY({})", (lanes,))]
        return [*of_lanes, *conditions(where)]

    def _lanes(self, where: JobFilter) -> list[int] | None:
        """The lanes of a filter's queues and tasks; None if it names neither."""
        named = among(POSTGRES, {"queue": where.queues, "task": where.tasks})
        if not named:
            return None
        condition, values = numbered(named)
        return [lane for (lane,) in self._db.execute(f"{LANES} WHERE {condition}", values)]

    def _counted(self, where: JobFilter) -> int:
        statuses = tuple(Status) if where.statuses is None else where.statuses
        counted = " + ".join(each.value for each in dict.fromkeys(statuses)) or "0"
        lanes = among(POSTGRES, {"queue": where.queues, "task": where.tasks})
        condition, values = numbered(lanes)
        found: Any = self._db.execute(
            f"SELECT coalesce(sum({counted}), 0)::bigint FROM lane_now WHERE {condition}",
            values,
        ).fetchone()
        return int(found[0])

    def _lowest_read(
        self, where: JobFilter, before: int | None, read_max: int | None
    ) -> int | None:
        # This also applies if an index leads to the jobs, since any number of them may have to be
        # compared.
        is_bounded = read_max is not None and compares_texts(where)
        self._compared_max = COMPARED_MAX if is_bounded else None
        return super()._lowest_read(where, before, read_max)

    def _read_max(self, where: JobFilter, read_max: int) -> int:
        return max(1, read_max // COMPARED_COSTS) if compares_texts(where) else read_max

    def _page(
        self,
        where: JobFilter,
        limit: int,
        before: int | None,
        bottom: int | None,
        without: Collection[HeavyField],
    ) -> tuple[list[Job], int | None]:
        # Columns that are compared here have to be fetched, whether requested or not.
        compared = compares_texts(where)
        select = job_without(() if compared else without, POSTGRES.no_bytes)
        found = self._walk(where, select, limit + 1, before, bottom=bottom)
        jobs = [job for _, job in found[:limit]]
        if compared and without:
            jobs = [lightened(job, without) for job in jobs]
        return jobs, found[limit - 1][0] if len(found) > limit else self._stopped_at

    def _walk(
        self,
        where: JobFilter,
        select: str,
        limit: int,
        seen: int | None,
        *,
        oldest_first: bool = False,
        bottom: int | None = None,
    ) -> list[tuple[int, Job]]:
        """The next matching jobs, each with its number; last submitted first, or oldest first."""
        of_task = JobFilter(queues=where.queues, tasks=where.tasks)
        if where.tasks is not None and not self._counted(of_task):
            # The lanes show it; otherwise a misspelled task would be compared with that of every
            # job.
            return []
        compared = compares_texts(where)
        page = max(limit, COMPARED_AT_ONCE) if compared else limit
        page = page if self._compared_max is None else min(page, self._compared_max)
        found: list[tuple[int, Job]] = []
        read = 0
        while True:
            beyond, order = ("job.seq > {}", "ASC") if oldest_first else ("job.seq < {}", "DESC")
            condition, values = self._condition(where, (beyond, seen), ("job.seq >= {}", bottom))
            # Their numbers first, as a list: otherwise the records of every job passed on the way,
            # in ten tables, would be looked up, or whole tables of them sorted.
            numbers = (
                f"{NUMBERS} WHERE {condition} ORDER BY job.seq {order} LIMIT ${len(values) + 1}"
            )
            rows = self._db.execute(
                f"{select} WHERE job.seq = ANY(ARRAY({numbers})) ORDER BY job.seq {order}",
                (*values, page),
            ).fetchall()
            for row, job in zip(rows, jobs_of(self._db, rows), strict=True):
                if not compared or where.matches(job):
                    found.append((row[0], job))
            if len(rows) < page or len(found) >= limit:
                return found[:limit]
            seen = rows[-1][0]
            read += len(rows)
            if self._compared_max is not None and read >= self._compared_max:
                self._stopped_at = seen
                return found

    def _count(self, where: JobFilter, limit: int, bottom: int | None) -> int:
        if compares_texts(where):
            return len(self._walk(where, JOB, limit, None, bottom=bottom))
        return super()._count(where, limit, bottom)

    def _by_status(self, where: JobFilter) -> Mapping[Status, int]:
        if not compares_texts(where):
            return super()._by_status(where)
        counted: Counter[Status] = Counter()
        seen: int | None = None
        while found := self._walk(where, JOB, COMPARED_AT_ONCE, seen):
            counted.update(job.status for _, job in found)
            seen = found[-1][0]
        return counted

    def _fitting(
        self, where: JobFilter, limit: int, seen: int | None, *, oldest_first: bool
    ) -> list[tuple[int, str]]:
        select = job_without(
            () if compares_texts(where) else get_args(HeavyField), POSTGRES.no_bytes
        )
        found = self._walk(where, select, limit, seen, oldest_first=oldest_first)
        return [(number, job.id) for number, job in found]
