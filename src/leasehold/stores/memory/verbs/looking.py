"""Looking at jobs and their records."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import islice

from leasehold.core.model.changes import Changes
from leasehold.core.model.graph import Graph
from leasehold.core.model.history import Attempt, HistoryEvent
from leasehold.core.model.job import Job
from leasehold.core.model.joblog import JobLog
from leasehold.core.model.pages import AuditPage, HistoryPage, LogPage
from leasehold.core.model.records import AuditRecord
from leasehold.core.model.search import COUNTED_MAX, Count, HeavyField, JobFilter, Page
from leasehold.env import from_micros
from leasehold.stores.memory import (
    dependents,
    feed,
    reading,
)
from leasehold.stores.memory.locked import LockedState


class LookingVerbs(LockedState):
    """Reads."""

    def get(self, job_id: str) -> Job | None:
        return self._look(reading.get, job_id)

    def position(self, job_id: str) -> int | None:
        return self._look(reading.position, job_id)

    def peek(self, queue: str, *, limit: int = 1) -> list[Job]:
        return self._look(reading.peek, queue, limit)

    def graph(self, job_ids: Sequence[str]) -> Graph:
        return self._look(dependents.graph, job_ids)

    def search(
        self,
        where: JobFilter,
        *,
        limit: int = 100,
        cursor: str | None = None,
        without: Collection[HeavyField] = (),
        read_max: int | None = None,
    ) -> Page:
        return self._look(reading.search, where, limit, cursor, without, read_max)

    def count(
        self, where: JobFilter, *, counted_max: int = COUNTED_MAX, read_max: int | None = None
    ) -> Count:
        return self._look(reading.count, where, counted_max, read_max)

    def find_ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        return self._look(reading.find_ids, prefix, limit)

    def attempts(self, job_id: str) -> list[Attempt]:
        return self._look(reading.attempts, job_id)

    def history(self, job_id: str) -> list[HistoryEvent]:
        return self._look(reading.history, job_id)

    def log(self, job_id: str) -> JobLog:
        return self._look(reading.log, job_id)

    def history_page(
        self, job_id: str, *, limit: int = 100, cursor: str | None = None
    ) -> HistoryPage:
        return self._look(reading.page_of_history, job_id, limit, cursor)

    def log_page(self, job_id: str, *, limit: int = 100, cursor: str | None = None) -> LogPage:
        return self._look(reading.page_of_log, job_id, limit, cursor)

    def audit_page(
        self,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> AuditPage:
        return self._look(reading.page_of_audit, since, before, limit, cursor)

    def changes(self, cursor: str | None = None, *, limit: int = 1000) -> Changes:
        return self._look(feed.changes, cursor, limit)

    def audit_log(self, limit: int = 100) -> list[AuditRecord]:
        return self._look(
            lambda state: [record for _, record in islice(state.audits(), max(0, limit))]
        )

    def now(self) -> datetime:
        return self._look(lambda state: from_micros(state.now))
