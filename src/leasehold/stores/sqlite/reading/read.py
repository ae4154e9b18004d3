"""Reading jobs: the statements for SQLite; see `tables.job_reading`.

A JobFilter in SQL must be equivalent to JobFilter.matches; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.model.codes import STATUS_CODE
from leasehold.core.model.job import Job
from leasehold.core.model.search import HeavyField, JobFilter, lightened
from leasehold.core.model.status import Status
from leasehold.core.model.stored import UNREADABLE
from leasehold.stores.sqlite.leasing.order import FOR_COUNTING, LaneReader
from leasehold.stores.sqlite.reading.figures import STATS
from leasehold.stores.sqlite.rules.known import read_rules
from leasehold.stores.sqlite.schema.rows import SQLITE, job_carefully, job_of, whole
from leasehold.stores.tables.job_reading import FEW, TableJobs, among, has, of_the_job
from leasehold.stores.tables.job_row import IDS, JOB, NUMBERS, job_without
from leasehold.stores.tables.statements import Clause, numbered

# As bytes, like a payload: text that is not UTF-8 could not even be passed to a function.
_ERROR_TEXT: Final = """
    coalesce((SELECT CAST(error_type || ': ' || error_message AS BLOB) FROM attempt
     WHERE attempt.seq = job.seq AND error_type IS NOT NULL ORDER BY version DESC LIMIT 1), '')
"""
# In their lanes, or parked because of a full key.
_LANES: Final = """
    SELECT lane.id FROM lane WHERE {0}
    UNION ALL SELECT -key_lane.id FROM key_lane JOIN lane ON lane.id = key_lane.lane WHERE {0}
"""
_FAILED_ONCE: Final = """
    job.seq IN (SELECT seq FROM attempt INDEXED BY attempt_in_trouble WHERE error_type IS NOT NULL)
"""
_HAS_TAG: Final = """
    EXISTS (SELECT 1
            FROM json_each(iif(json_valid(job.metadata), job.metadata, NULL)) AS tag,
                json_each({}) AS wanted
            WHERE tag.key = wanted.key AND tag.value IS wanted.value)
"""


def _of_its_lane(db: apsw.Connection, where: JobFilter) -> list[Clause]:
    """The conditions on queue, task and status, for which the lanes have counts."""
    lanes = chosen, named = _lanes(where)
    if not named and where.statuses is None:
        return []
    found = _counted(db, lanes, where.statuses or ())
    if not found[0]:
        return [("0", ())]
    clauses: list[Clause] = []
    if named:
        clauses.append((f"job.lane IN (SELECT id FROM lane WHERE {chosen})", named))
    if where.statuses is not None:
        # If there are many, jobs are read from the newest on, until enough of them match.
        many = found[1] > FEW
        clauses.append(_met(where.statuses) if many else _listed(where.statuses, lanes))
    return clauses


def _lanes(where: JobFilter) -> Clause:
    found = among(SQLITE, {"lane.queue": where.queues, "lane.task": where.tasks})
    named = tuple(value for _, values in found for value in values)
    return " AND ".join(clause for clause, _ in found) or "1", named


def _counted(db: apsw.Connection, lanes: Clause, statuses: Sequence[Status]) -> tuple[int, int]:
    """How many lanes there are, and how many jobs of these statuses are in them."""
    counted = " + ".join(whole(each.value) for each in dict.fromkeys(statuses)) or "0"
    condition, values = numbered([lanes])
    found: Any = db.execute(
        f"SELECT count(*), coalesce(sum({counted}), 0) FROM lane WHERE {condition}",
        values,
    ).fetchone()
    return int(found[0]), int(found[1])


def _of_its_metadata(where: JobFilter) -> list[Clause]:
    clauses: list[Clause] = []
    for key, value in (where.metadata or {}).items():
        if isinstance(value, str):
            # If a name is not even in the text, as in most rows, the JSON need not be parsed.
            clauses.append(("instr(job.metadata, {})", (_json(value),)))
        clauses.append((_HAS_TAG, (_json({key: value}),)))
    return clauses


def _of_its_texts(where: JobFilter) -> list[Clause]:
    clauses: list[Clause] = []
    if where.error_text:
        clauses.append((_FAILED_ONCE, ()))
        clauses.append((f"mentions({_ERROR_TEXT}, {{}})", (where.error_text,)))
    if where.text is not None:
        either = f"(mentions(CAST(job.payload AS BLOB), {{}}) OR mentions({_ERROR_TEXT}, {{}}))"
        clauses.append((either, (where.text, where.text)))
    return clauses


def _listed(statuses: Sequence[Status], lanes: Clause) -> Clause:
    """Few jobs: their numbers are read from their state tables.

    `status <> 5` is repeated because SQLite uses a partial index only if the query contains its
    condition literally.
    """
    chosen, named = lanes
    either: list[Clause] = []
    for status in statuses:
        code = STATUS_CODE[status]
        if status is Status.COMPLETED:
            either.append((f"finished.status = {code}", ()))
        elif status.is_terminal:
            either.append(_among(f"finished WHERE status = {code} AND status <> 5"))
        elif status is Status.PENDING:
            either.append(_among(f"ready WHERE lane IN ({_LANES.format(chosen)})", named * 2))
        elif status is Status.RUNNING:
            either.append(_among("running"))
        else:
            either.append(_among(f"waiting WHERE status = {code}"))
    values = tuple(value for _, given in either for value in given)
    return f"({' OR '.join(clause for clause, _ in either) or '0'})", values


def _among(table: str, values: tuple[Any, ...] = ()) -> Clause:
    return f"job.seq IN (SELECT seq FROM {table})", values


def _met(statuses: Sequence[Status]) -> Clause:
    """Many jobs: each one read is looked up."""
    clause = f"({' OR '.join(map(has, statuses))})"
    if all(status.is_terminal for status in statuses):
        # A backlog newer than all ended jobs is skipped at once.
        clause += " AND job.seq <= (SELECT max(seq) FROM finished)"
    return clause, ()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# A range of the unique index. No id continues with the last character of all, since it is not
# printable.
FIND_IDS: Final = (
    "SELECT id FROM job WHERE id >= ?1 AND id < ?1 || char(1114111) ORDER BY id LIMIT ?2"
)


def read_job(db: apsw.Connection, job_id: str) -> Job | None:
    """A snapshot of one job; an unreadable one has only its readable fields."""
    try:
        row = db.execute(f"{JOB} WHERE job.id = ?", (job_id,)).fetchone()
        return None if row is None else job_of(db, row)
    except UNREADABLE:
        found: Any = db.execute(f"{NUMBERS} WHERE job.id = ?", (job_id,)).fetchone()
        return None if found is None else job_carefully(db, found[0])


# Links through a deleted job do not count: its dependents have nothing to do with each other.
LINKED: Final = f"""
    WITH RECURSIVE linked (seq) AS (
        SELECT seq FROM job WHERE {SQLITE.among("id", "$1")}
        UNION SELECT needs FROM linked JOIN dependency USING (seq) JOIN job ON job.seq = needs
        UNION SELECT dependency.seq FROM linked JOIN dependency ON needs = linked.seq
    )
"""


class Jobs(TableJobs):
    """The jobs of a store, for one read."""

    load_rules = staticmethod(read_rules)
    stats = STATS
    lanes = "SELECT id FROM lane WHERE queue = $1 AND pending > 0"
    linked = LINKED
    dialect = SQLITE
    _db: apsw.Connection

    def read_job(self, job_id: str) -> Job | None:
        return read_job(self._db, job_id)

    def find_ids(self, prefix: str, limit: int) -> list[str]:
        return [str(job_id) for (job_id,) in self._db.execute(FIND_IDS, (prefix, limit))]

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
        statuses = tuple(Status) if where.statuses is None else where.statuses
        return _counted(self._db, _lanes(where), statuses)[1]

    def _clauses(self, where: JobFilter) -> list[Clause]:
        return [
            *_of_its_lane(self._db, where),
            *of_the_job(where, SQLITE),
            *_of_its_metadata(where),
            *_of_its_texts(where),
        ]

    def _page(
        self,
        where: JobFilter,
        limit: int,
        before: int | None,
        bottom: int | None,
        without: Collection[HeavyField],
    ) -> tuple[list[Job], int | None]:
        db = self._db
        condition, values = self._condition(
            where, ("job.seq < {}", before), ("job.seq >= {}", bottom)
        )
        page = f"WHERE {condition} ORDER BY job.seq DESC LIMIT ?"
        try:
            rows: list[Any] = db.execute(
                f"{job_without(without, SQLITE.no_bytes)} {page}", (*values, limit + 1)
            ).fetchall()
            jobs = [job_of(db, row) for row in rows[:limit]]
        except UNREADABLE:
            # One of them cannot be read, so each is read carefully.
            numbers: Any = db.execute(f"{NUMBERS} {page}", (*values, limit + 1))
            rows = list(numbers)
            jobs = [lightened(job_carefully(db, seq), without) for (seq,) in rows[:limit]]
        return jobs, rows[limit - 1][0] if len(rows) > limit else None

    def _fitting(
        self, where: JobFilter, limit: int, seen: int | None, *, oldest_first: bool
    ) -> list[tuple[int, str]]:
        beyond, order = ("job.seq > {}", "ASC") if oldest_first else ("job.seq < {}", "DESC")
        condition, values = self._condition(where, (beyond, seen))
        rows: list[Any] = self._db.execute(
            f"{IDS} WHERE {condition} ORDER BY job.seq {order} LIMIT ?", (*values, limit)
        ).fetchall()
        return rows
