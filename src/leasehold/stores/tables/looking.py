"""Reading jobs, as of the store's clock, and their records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any

from leasehold.core.model.changes import Changes
from leasehold.core.model.graph import Graph
from leasehold.core.model.history import Attempt, HistoryEvent
from leasehold.core.model.job import Job
from leasehold.core.model.joblog import JobLog
from leasehold.core.model.lease import StuckJob
from leasehold.core.model.pages import AuditPage, HistoryPage, LogPage, check_cursor
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.refusals import check_page
from leasehold.core.model.retention import without_old_result
from leasehold.core.model.search import COUNTED_MAX, Count, HeavyField, JobFilter, Page
from leasehold.core.rules import history
from leasehold.env import from_micros
from leasehold.stores.tables import records
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.feed import TableFeed
from leasehold.stores.tables.history import JobHistory
from leasehold.stores.tables.job_reading import TableJobs
from leasehold.stores.tables.rebalance import LAGS
from leasehold.stores.tables.records import stuck_jobs
from leasehold.stores.tables.statements import Reader, SqlConnection


class LookingVerbs:
    """Reads, each of one moment."""

    _database: TableDatabase
    _reader: Callable[[Any], Reader]
    _jobs: type[TableJobs]
    _feed: TableFeed
    _queue_names: Callable[[Any], list[str]]

    def get(self, job_id: str) -> Job | None:
        def look(db: SqlConnection) -> Job | None:
            job = self._jobs(db).read_job(job_id)
            if job is None or job.result_ttl_seconds is None:
                return job
            return without_old_result(job, from_micros(self._database.now(db)))

        return self._database.look(look)

    def search(
        self,
        where: JobFilter,
        *,
        limit: int = 100,
        cursor: str | None = None,
        without: Collection[HeavyField] = (),
        read_max: int | None = None,
    ) -> Page:
        def look(db: SqlConnection) -> Page:
            page = self._jobs(db).search(where, limit, cursor, without, read_max)
            now = from_micros(self._database.now(db))
            return Page([without_old_result(job, now) for job in page.jobs], page.next_cursor)

        return self._database.look(look)

    def count(
        self, where: JobFilter, *, counted_max: int = COUNTED_MAX, read_max: int | None = None
    ) -> Count:
        return self._database.look(lambda db: self._jobs(db).count(where, counted_max, read_max))

    def find_ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        return self._database.look(lambda db: self._jobs(db).find_ids(prefix, limit))

    def position(self, job_id: str) -> int | None:
        self._place_what_lags()
        return self._database.look(
            lambda db: self._jobs(db).position(job_id, self._database.now(db))
        )

    def peek(self, queue: str, *, limit: int = 1) -> list[Job]:
        check_page(limit)
        self._place_what_lags()
        return self._database.look(
            lambda db: self._jobs(db).peek(queue, limit, self._database.now(db))
        )

    def _place_what_lags(self) -> None:
        """Move jobs that no longer stand where they belong, if there are any."""
        lags = self._database.look(
            lambda db: db.execute(LAGS, (self._database.now(db),)).fetchone()
        )
        if lags is not None:
            self._place_the_rest()

    def _place_the_rest(self) -> None:
        """Move jobs that have to be moved, if this caller may write."""
        self._database.rebalance_the_rest()

    def graph(self, job_ids: Sequence[str]) -> Graph:
        return self._database.look(lambda db: self._jobs(db).graph(job_ids))

    def queues(self) -> list[str]:
        return self._database.look(self._queue_names)

    def changes(self, cursor: str | None = None, *, limit: int = 1000) -> Changes:
        """The caller becomes a follower."""
        seen = check_cursor(limit, cursor)
        was_kept = self._database.look(
            lambda db: self._feed.is_followed(db, self._database.now(db))
        )
        if not was_kept:
            was_kept = self._feed.begin_to_follow(self._database)
        final = self._feed.final(self._database, seen)
        return self._database.look(
            lambda db: self._feed.changes(db, cursor, limit, final, was_kept=was_kept)
        )

    def stuck(
        self, silent_seconds: float | None, *, running_seconds: float | None = None
    ) -> list[StuckJob]:
        return self._database.look(
            lambda db: stuck_jobs(
                self._reader(db), self._database.now(db), silent_seconds, running_seconds
            )
        )

    def workers(self) -> list[WorkerInfo]:
        return self._database.look(
            lambda db: records.workers(self._reader(db), self._database.now(db))
        )

    def now(self) -> datetime:
        return self._database.look(lambda db: from_micros(self._database.now(db)))

    # -- histories, logs, audit records ------------------------------------------------------

    def attempts(self, job_id: str) -> list[Attempt]:
        return self._database.look(
            lambda db: history.attempts_of(JobHistory(self._reader(db), job_id))
        )

    def history(self, job_id: str) -> list[HistoryEvent]:
        return self._database.look(
            lambda db: history.history_of(JobHistory(self._reader(db), job_id))
        )

    def history_page(
        self, job_id: str, *, limit: int = 100, cursor: str | None = None
    ) -> HistoryPage:
        return self._database.look(
            lambda db: history.page_of_history(JobHistory(self._reader(db), job_id), limit, cursor)
        )

    def log(self, job_id: str) -> JobLog:
        return self._database.look(lambda db: records.log(self._reader(db), job_id))

    def log_page(self, job_id: str, *, limit: int = 100, cursor: str | None = None) -> LogPage:
        return self._database.look(
            lambda db: records.page_of_log(self._reader(db), job_id, limit, cursor)
        )

    def audit_page(
        self,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> AuditPage:
        return self._database.look(
            lambda db: records.page_of_audit(self._reader(db), since, before, limit, cursor)
        )
