"""Reading jobs, in the words of this database; see `tables.job_reading`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import apsw

from leasehold.core.model.codes import STATUS_OF
from leasehold.core.model.job import Job
from leasehold.core.model.search import HeavyField, JobFilter, lightened
from leasehold.core.model.status import Status
from leasehold.core.model.stored import UNREADABLE
from leasehold.stores.sqlite.leasing.order import FOR_COUNTING, LaneReader
from leasehold.stores.sqlite.reading.figures import STATS
from leasehold.stores.sqlite.reading.where import conditions, counted_jobs
from leasehold.stores.sqlite.rules.known import read_rules
from leasehold.stores.sqlite.schema.job_row import job_carefully, job_of
from leasehold.stores.sqlite.schema.rows import SQLITE
from leasehold.stores.tables.job_reading import TableJobs
from leasehold.stores.tables.job_row import BY_STATUS, IDS, JOB, NUMBERS, job_without

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


class Jobs(TableJobs):
    """The jobs of a store, for one read."""

    load_rules = staticmethod(read_rules)
    stats = STATS
    lanes = "SELECT id FROM lane WHERE queue = $1 AND pending > 0"
    _db: apsw.Connection

    def read_job(self, job_id: str) -> Job | None:
        return read_job(self._db, job_id)

    def find_ids(self, prefix: str, limit: int) -> list[str]:
        return [str(job_id) for (job_id,) in self._db.execute(FIND_IDS, (prefix, max(0, limit)))]

    def _places(self) -> LaneReader:
        return LaneReader(self._db, FOR_COUNTING)

    def _numbered(self, numbers: Sequence[int]) -> list[Job]:
        return [self._read_numbered(number) for number in numbers]

    def _read_numbered(self, seq: int) -> Job:
        try:
            row: Any = self._db.execute(f"{JOB} WHERE job.seq = ?", (seq,)).fetchone()
            return job_of(self._db, row)
        except UNREADABLE:
            return job_carefully(self._db, seq)

    def _counted(self, where: JobFilter) -> int:
        return counted_jobs(self._db, where)

    def _page(
        self,
        where: JobFilter,
        limit: int,
        before: int | None,
        bottom: int | None,
        without: Collection[HeavyField],
    ) -> tuple[list[Job], int | None]:
        db = self._db
        condition, values = self._conditions(
            where, ("job.seq < ?", before), ("job.seq >= ?", bottom)
        )
        page = f"WHERE {condition} ORDER BY job.seq DESC LIMIT ?"
        try:
            rows: list[Any] = db.execute(
                f"{job_without(without, SQLITE.no_bytes)} {page}", (*values, limit + 1)
            ).fetchall()
            jobs = [job_of(db, row) for row in rows[:limit]]
        except UNREADABLE:
            # One of them cannot be read: then each is read with care.
            numbers: Any = db.execute(f"{NUMBERS} {page}", (*values, limit + 1))
            rows = list(numbers)
            jobs = [lightened(job_carefully(db, seq), without) for (seq,) in rows[:limit]]
        return jobs, rows[limit - 1][0] if len(rows) > limit else None

    def _count(self, where: JobFilter, limit: int, bottom: int | None) -> int:
        condition, values = self._conditions(where, ("job.seq >= ?", bottom))
        counted = f"SELECT count(*) FROM ({IDS} WHERE {condition} LIMIT ?)"  # noqa: S608  # our own names
        found: Any = self._db.execute(counted, (*values, limit)).fetchone()
        return int(found[0])

    def _by_status(self, where: JobFilter) -> dict[Status, int]:
        condition, values = self._conditions(where)
        found: Any = self._db.execute(f"{BY_STATUS} WHERE {condition} GROUP BY 1", values)
        return {STATUS_OF[code]: jobs for code, jobs in found if code in STATUS_OF}

    def _fitting(
        self, where: JobFilter, limit: int, seen: int | None, *, oldest_first: bool
    ) -> list[tuple[int, str]]:
        beyond, order = ("job.seq > ?", "ASC") if oldest_first else ("job.seq < ?", "DESC")
        condition, values = self._conditions(where, (beyond, seen))
        rows: list[Any] = self._db.execute(
            f"{IDS} WHERE {condition} ORDER BY job.seq {order} LIMIT ?", (*values, limit)
        ).fetchall()
        return rows

    def _conditions(
        self, where: JobFilter, *numbers: tuple[str, int | None]
    ) -> tuple[str, list[Any]]:
        """A filter's condition and its values, with these about the jobs' numbers."""
        clauses, values = conditions(self._db, where)
        for clause, number in numbers:
            if number is not None:
                clauses.append(clause)
                values.append(number)
        return " AND ".join(clauses) or "1", values
