"""Reading jobs, which every database does in its own words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from leasehold.core.model.job import Job
from leasehold.core.model.search import Count, HeavyField, JobFilter, Page
from leasehold.core.model.status import Status


class JobReading(Protocol):
    """A store's module `reading.read`."""

    def read_job(self, db: Any, job_id: str, /) -> Job | None:
        """A snapshot of one job."""

    def position(self, db: Any, job_id: str, now: int, /) -> int | None:
        """How many pending jobs of its queue are served before it."""

    def peek(self, db: Any, queue: str, limit: int, now: int, /) -> list[Job]:
        """The pending jobs of a queue that are served first."""

    def find_ids(self, db: Any, prefix: str, limit: int, /) -> list[str]:
        """Ids that begin like this, in order."""

    def search(
        self,
        db: Any,
        where: JobFilter,
        limit: int,
        cursor: str | None,
        without: Collection[HeavyField] = (),
        read_max: int | None = None,
        /,
    ) -> Page:
        """Jobs that fit, the last submitted first."""

    def count(
        self, db: Any, where: JobFilter, counted_max: int, read_max: int | None = None, /
    ) -> Count:
        """How many jobs fit, counted up to one more than the bound."""

    def count_by_status(self, db: Any, where: JobFilter, /) -> Mapping[Status, int]:
        """How many jobs fit, all of them counted."""

    def find_fitting(
        self, db: Any, where: JobFilter, limit: int, cursor: str | None, /, *, oldest_first: bool
    ) -> tuple[list[str], str | None]:
        """The ids of jobs that fit, from one end on, and where the next ones begin."""
