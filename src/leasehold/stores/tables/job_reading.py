"""Reading jobs: snapshots, and searches of bounded length. Never writes or waits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, ClassVar, Final

from leasehold.core.model.codes import STATUS_CODE, STATUS_OF
from leasehold.core.model.graph import Graph
from leasehold.core.model.job import Job
from leasehold.core.model.pages import check_cursor
from leasehold.core.model.priority import DEFAULT_SCORING
from leasehold.core.model.search import (
    Count,
    HeavyField,
    JobFilter,
    Page,
    by_status_counters,
    check_count,
    check_left_out,
    check_read,
    counted_up_to,
    is_of_lanes,
    looked_through,
)
from leasehold.core.model.status import Status
from leasehold.core.model.stored import UNREADABLE
from leasehold.core.rules.rule_book import RuleBook
from leasehold.core.rules.serving import SEQ, Lane, LaneReader, Row, in_order
from leasehold.env import to_micros
from leasehold.stores.tables.dependents import graph_of
from leasehold.stores.tables.figures import stats
from leasehold.stores.tables.job_row import BY_STATUS, IDS
from leasehold.stores.tables.order import AT_ITS_PLACE
from leasehold.stores.tables.statements import Clause, Dialect, SqlConnection, numbered

FEW: Final = 10_000
"""Up to this many jobs are found by a list of their numbers, whatever their status."""
# Two seeks; both ends in one SELECT would be a scan.
NUMBERS: Final = "SELECT (SELECT min(seq) FROM job), (SELECT max(seq) FROM job)"
FAILED: Final = f"SELECT count(*) FROM (SELECT 1 FROM failed_job LIMIT {FEW + 1}) AS failed"


def of_the_job(where: JobFilter, dialect: Dialect) -> list[Clause]:
    """A filter's conditions on a job's own columns, except texts and metadata."""
    compared = (
        ("job.priority >= {}", where.priority_min),
        ("job.priority <= {}", where.priority_max),
        ("job.created_at >= {}", where.created_from and to_micros(where.created_from)),
        ("job.created_at < {}", where.created_before and to_micros(where.created_before)),
        ("finished.finished_at >= {}", where.finished_from and to_micros(where.finished_from)),
        ("finished.finished_at < {}", where.finished_before and to_micros(where.finished_before)),
        ("job.idempotency_key = {}", where.idempotency_key),
        ("job.parent_id = {}", where.parent_id),
        ("job.limit_key = {}", where.limit_key),
    )
    clauses: list[Clause] = [(clause, (value,)) for clause, value in compared if value is not None]
    clauses += among(dialect, {"job.id": where.ids})
    if where.has_parent:
        clauses.append(("job.parent_id IS NOT NULL", ()))
    return clauses


def among(dialect: Dialect, wanted: Mapping[str, Sequence[str] | None]) -> list[Clause]:
    """Conditions that columns have one of the wanted values; None means any value."""
    return [
        (dialect.among(column, "{}"), (dialect.listed(values),))
        for column, values in wanted.items()
        if values is not None
    ]


def has(status: Status) -> str:
    """The condition that a job has a status, by the state table with its row."""
    if status.is_terminal:
        return f"finished.status = {STATUS_CODE[status]}"
    if status is Status.PENDING:
        return "(finished.seq IS NULL AND waiting.seq IS NULL AND running.seq IS NULL)"
    if status is Status.RUNNING:
        return "running.seq IS NOT NULL"
    return f"waiting.status = {STATUS_CODE[status]}"


def lowest_read(
    db: SqlConnection,
    where: JobFilter,
    before: int | None,
    read_max: int | None,
    jobs_of: Callable[[JobFilter], int],
) -> int | None:
    """The number below which a search stops, so that it reads about this many jobs.

    None if all may be read: few are left, an index leads to the matching ones, or few can match.
    `jobs_of` counts the jobs with the queues, tasks and statuses of a filter.
    """
    most = looked_through(where, read_max)
    if most is None or _few_can_fit(db, where, jobs_of):
        return None
    lowest, highest = db.execute(NUMBERS).fetchone()
    if lowest is None:
        return None
    # Numbers of pruned jobs are skipped at no cost.
    numbers_a_job = (highest - lowest + 1) / max(1, jobs_of(JobFilter()))
    top = highest + 1 if before is None else min(before, highest + 1)
    bottom = top - max(1, round(most * numbers_a_job))
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


_PENDING: Final = f"""
    SELECT lane.queue, ready.seq FROM job JOIN lane ON lane.id = job.lane
        LEFT JOIN place ON place.seq = job.seq JOIN ready ON {AT_ITS_PLACE}
    WHERE job.id = $1
"""
_PARKED: Final = "SELECT -id FROM key_lane WHERE queue = $1"


class TableJobs(ABC):
    """The jobs of a store, for one read."""

    load_rules: Callable[[Any], RuleBook]
    stats: ClassVar[str]
    lanes: ClassVar[str]
    """The numbers of a queue's lanes that may have pending jobs."""
    linked: ClassVar[str]
    """Finds, from a list of ids, the numbers of these jobs and of all jobs linked with them."""
    dialect: ClassVar[Dialect]
    _stopped_at: int | None = None
    """The last job read by a bounded search, if it stopped before the end."""

    def __init__(self, db: Any) -> None:
        self._db: SqlConnection = db

    # -- what each database says in its own words ----------------------------------------------

    @abstractmethod
    def read_job(self, job_id: str) -> Job | None:
        """A snapshot of one job."""

    @abstractmethod
    def find_ids(self, prefix: str, limit: int) -> list[str]:
        """Ids with this prefix, in order."""

    @abstractmethod
    def _places(self) -> LaneReader:
        """A reader of the places of pending jobs."""

    @abstractmethod
    def _numbered(self, numbers: Sequence[int]) -> list[Job]:
        """The jobs with these numbers, in this order."""

    @abstractmethod
    def _counted(self, where: JobFilter) -> int:
        """How many jobs have the queues, tasks and statuses of a filter."""

    @abstractmethod
    def _page(
        self,
        where: JobFilter,
        limit: int,
        before: int | None,
        bottom: int | None,
        without: Collection[HeavyField],
    ) -> tuple[list[Job], int | None]:
        """The next matching jobs, last submitted first, and the number of the last if there are
        more.
        """

    @abstractmethod
    def _clauses(self, where: JobFilter) -> list[Clause]:
        """A filter's conditions that this database can decide, all of which must hold."""

    @abstractmethod
    def _fitting(
        self, where: JobFilter, limit: int, seen: int | None, *, oldest_first: bool
    ) -> list[tuple[int, str]]:
        """The numbers and ids of matching jobs, beyond a given one."""

    def _read_max(self, where: JobFilter, read_max: int) -> int:  # noqa: ARG002  # for subclasses
        """How many jobs a search may read: fewer if reading one costs more."""
        return read_max

    # -- filters -------------------------------------------------------------------------------

    def _condition(
        self, where: JobFilter, *numbers: tuple[str, int | None]
    ) -> tuple[str, list[Any]]:
        """A filter's condition and values, with conditions on the jobs' numbers added."""
        about = ((clause, (number,)) for clause, number in numbers if number is not None)
        return numbered([*self._clauses(where), *about])

    def _count(self, where: JobFilter, limit: int, bottom: int | None) -> int:
        """How many jobs match, counted up to a bound."""
        condition, values = self._condition(where, ("job.seq >= {}", bottom))
        fitting = f"{IDS} WHERE {condition} LIMIT ${len(values) + 1}"
        found: Any = self._db.execute(
            f"SELECT count(*) FROM ({fitting}) AS fitting",
            (*values, limit),
        ).fetchone()
        return int(found[0])

    def _by_status(self, where: JobFilter) -> Mapping[Status, int]:
        condition, values = self._condition(where)
        found = self._db.execute(f"{BY_STATUS} WHERE {condition} GROUP BY 1", values)
        return {STATUS_OF[code]: jobs for code, jobs in found if code in STATUS_OF}

    # -- reads ---------------------------------------------------------------------------------

    def position(self, job_id: str, now: int) -> int | None:
        """How many pending jobs of its queue are served before it."""
        found: Any = self._db.execute(_PENDING, (job_id,)).fetchone()
        if found is None:
            return None
        queue, seq = found
        served = self._in_order(f"{self.lanes} UNION ALL {_PARKED}", queue, now)
        # A job that cannot be placed because a row is damaged has no position.
        with suppress(*UNREADABLE):
            return next((count for count, row in enumerate(served) if row[SEQ] == seq), None)
        return None

    def peek(self, queue: str, limit: int, now: int) -> list[Job]:
        """The pending jobs of a queue that will be served first."""
        # A damaged row has no known place: the jobs read before it are returned.
        numbers: list[int] = []
        with suppress(*UNREADABLE):
            numbers.extend(
                row[SEQ] for row in islice(self._in_order(self.lanes, queue, now), limit)
            )
        return self._numbered(numbers)

    def _in_order(self, lanes: str, queue: str, now: int) -> Iterable[Row]:
        rule = self.load_rules(self._db).get(queue)
        scoring = DEFAULT_SCORING if rule is None else rule.config.scoring
        numbers = self._db.execute(lanes, (queue,)).fetchall()
        return in_order(self._places(), [Lane(number, scoring) for (number,) in numbers], now)

    def graph(self, job_ids: Sequence[str]) -> Graph:
        """These jobs and all jobs linked with them."""
        return graph_of(self._db, self.linked, self.dialect.listed(job_ids))

    def search(
        self,
        where: JobFilter,
        limit: int,
        cursor: str | None,
        without: Collection[HeavyField] = (),
        read_max: int | None = None,
    ) -> Page:
        """Matching jobs, last submitted first."""
        before = check_cursor(limit, cursor)
        check_left_out(without)
        check_read(read_max)
        bottom = self._lowest_read(where, before, read_max)
        jobs, last = self._page(where, limit, before, bottom, without)
        further = bottom if last is None else last
        return Page(jobs, None if further is None else str(further))

    def _lowest_read(
        self, where: JobFilter, before: int | None, read_max: int | None
    ) -> int | None:
        most = None if read_max is None else self._read_max(where, read_max)
        return lowest_read(self._db, where, before, most, self._counted)

    def count(self, where: JobFilter, counted_max: int, read_max: int | None = None) -> Count:
        """How many jobs match, counted up to one more than the bound."""
        check_count(counted_max)
        check_read(read_max)
        if is_of_lanes(where):
            # The lanes have the count: no job is read.
            return Count(self._counted(where))
        bottom = self._lowest_read(where, None, read_max)
        fitting = self._count(where, counted_max + 1, bottom)
        read_all = bottom is None and self._stopped_at is None
        return counted_up_to(fitting, counted_max, read_all=read_all)

    def count_by_status(self, where: JobFilter) -> Mapping[Status, int]:
        known = by_status_counters(where, self._counts)
        return self._by_status(where) if known is None else known

    def _counts(self, queue: str | None) -> Mapping[Status, int]:
        return stats(self._db, self.stats, queue).counts

    def find_fitting(
        self, where: JobFilter, limit: int, cursor: str | None, *, oldest_first: bool
    ) -> tuple[list[str], str | None]:
        """The ids of matching jobs, starting from one end, and where the next ones begin."""
        seen = check_cursor(limit, cursor)
        found = self._fitting(where, limit + 1, seen, oldest_first=oldest_first)
        further = str(found[limit - 1][0]) if len(found) > limit else None
        return [job_id for _, job_id in found[:limit]], further
