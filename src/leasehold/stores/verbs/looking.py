"""Reading jobs, as of the store's clock, and their records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from leasehold.core.model.graph import Graph
from leasehold.core.model.history import Attempt, HistoryEvent
from leasehold.core.model.job import Job
from leasehold.core.model.joblog import JobLog
from leasehold.core.model.lease import StuckJob
from leasehold.core.model.pages import AuditPage, HistoryPage, LogPage
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.refusals import PAGE_MAX, check_page
from leasehold.core.model.retention import without_old_result
from leasehold.core.model.search import COUNTED_MAX, Count, HeavyField, JobFilter, Page
from leasehold.core.model.status import Status
from leasehold.env import from_micros
from leasehold.stores.verbs.atomic import AtomicStore


class JobReader(Protocol):
    """The jobs of a store, as one look finds them."""

    def read_job(self, job_id: str) -> Job | None:
        """A snapshot of one job."""

    def search(
        self,
        where: JobFilter,
        limit: int,
        cursor: str | None,
        without: Collection[HeavyField],
        read_max: int | None,
    ) -> Page:
        """Matching jobs, last submitted first."""

    def count(self, where: JobFilter, counted_max: int, read_max: int | None) -> Count:
        """How many jobs match, counted up to one more than the bound."""

    def count_by_status(self, where: JobFilter) -> Mapping[Status, int]:
        """How many jobs match by status, counting all of them."""

    def find_fitting(
        self, where: JobFilter, limit: int, cursor: str | None, *, oldest_first: bool
    ) -> tuple[list[str], str | None]:
        """The ids of matching jobs, starting from one end, and where the next ones begin."""

    def find_ids(self, prefix: str, limit: int) -> list[str]:
        """Ids with this prefix, in order."""

    def position(self, job_id: str, now: int) -> int | None:
        """How many pending jobs of its queue are served before it."""

    def peek(self, queue: str, limit: int, now: int) -> list[Job]:
        """The pending jobs of a queue that will be served first."""

    def graph(self, job_ids: Sequence[str]) -> Graph:
        """These jobs and all jobs linked with them."""


class RecordReader(Protocol):
    """The records of a store, as one look finds them."""

    def attempts(self, job_id: str) -> list[Attempt]:
        """A job's attempts, oldest first."""

    def history(self, job_id: str) -> list[HistoryEvent]:
        """Everything that happened to a job, oldest first."""

    def history_page(self, job_id: str, limit: int, cursor: str | None) -> HistoryPage:
        """A part of that."""

    def log(self, job_id: str) -> JobLog:
        """The log lines of a job's tasks."""

    def log_page(self, job_id: str, limit: int, cursor: str | None) -> LogPage:
        """A part of them."""

    def audit_page(
        self, since: datetime | None, before: datetime | None, limit: int, cursor: str | None
    ) -> AuditPage:
        """A part of the audit records of a time, newest first."""

    def workers(self, now: int) -> list[WorkerInfo]:
        """The workers and consumers with their jobs, in the order of registration."""

    def stuck(
        self, now: int, silent_seconds: float | None, running_seconds: float | None
    ) -> list[StuckJob]:
        """Running jobs that are silent or run for too long, those silent for longest first."""


class LookingVerbs(AtomicStore):
    """Reads, each of one moment."""

    _jobs: Callable[[Any], JobReader]
    _records: Callable[[Any], RecordReader]

    def _place_what_lags(self) -> None:
        """Move jobs that no longer stand where they belong, if a look does not do that itself."""

    def now(self) -> datetime:
        return self._look(lambda look: from_micros(self._now(look)))

    # -- jobs --------------------------------------------------------------------------------

    def get(self, job_id: str) -> Job | None:
        def get(look: Any) -> Job | None:
            job = self._jobs(look).read_job(job_id)
            if job is None or job.result_ttl_seconds is None:
                return job
            return without_old_result(job, from_micros(self._now(look)))

        return self._look(get)

    def search(
        self,
        where: JobFilter,
        *,
        limit: int = 100,
        cursor: str | None = None,
        without: Collection[HeavyField] = (),
        read_max: int | None = None,
    ) -> Page:
        def search(look: Any) -> Page:
            page = self._jobs(look).search(where, limit, cursor, without, read_max)
            now = from_micros(self._now(look))
            return Page([without_old_result(job, now) for job in page.jobs], page.next_cursor)

        return self._look(search)

    def count(
        self, where: JobFilter, *, counted_max: int = COUNTED_MAX, read_max: int | None = None
    ) -> Count:
        return self._look(lambda look: self._jobs(look).count(where, counted_max, read_max))

    def find_ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        bounded = max(0, min(limit, PAGE_MAX))
        return self._look(lambda look: self._jobs(look).find_ids(prefix, bounded))

    def position(self, job_id: str) -> int | None:
        self._place_what_lags()
        return self._look(lambda look: self._jobs(look).position(job_id, self._now(look)))

    def peek(self, queue: str, *, limit: int = 1) -> list[Job]:
        check_page(limit)
        self._place_what_lags()
        return self._look(lambda look: self._jobs(look).peek(queue, limit, self._now(look)))

    def graph(self, job_ids: Sequence[str]) -> Graph:
        return self._look(lambda look: self._jobs(look).graph(job_ids))

    # -- workers, histories, logs, audit records ---------------------------------------------

    def workers(self) -> list[WorkerInfo]:
        return self._look(lambda look: self._records(look).workers(self._now(look)))

    def stuck(
        self, silent_seconds: float | None, *, running_seconds: float | None = None
    ) -> list[StuckJob]:
        return self._look(
            lambda look: self._records(look).stuck(self._now(look), silent_seconds, running_seconds)
        )

    def attempts(self, job_id: str) -> list[Attempt]:
        return self._look(lambda look: self._records(look).attempts(job_id))

    def history(self, job_id: str) -> list[HistoryEvent]:
        return self._look(lambda look: self._records(look).history(job_id))

    def history_page(
        self, job_id: str, *, limit: int = 100, cursor: str | None = None
    ) -> HistoryPage:
        return self._look(lambda look: self._records(look).history_page(job_id, limit, cursor))

    def log(self, job_id: str) -> JobLog:
        return self._look(lambda look: self._records(look).log(job_id))

    def log_page(self, job_id: str, *, limit: int = 100, cursor: str | None = None) -> LogPage:
        return self._look(lambda look: self._records(look).log_page(job_id, limit, cursor))

    def audit_page(
        self,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> AuditPage:
        return self._look(lambda look: self._records(look).audit_page(since, before, limit, cursor))
