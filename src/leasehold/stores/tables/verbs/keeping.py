"""What is kept of jobs that are gone: the records of clean-ups, and the archive."""

from __future__ import annotations

from typing import Any, Protocol

from leasehold.core.model.archive import EVERYTHING, ArchivedJob, ArchivePage, ArchiveSpan
from leasehold.core.model.retention import CleanUp
from leasehold.core.model.search import JobFilter
from leasehold.stores.tables import cleanup
from leasehold.stores.tables.database import TableDatabase


class ArchiveReading(Protocol):
    """A store's module `keeping.archive`."""

    def find(self, db: Any, job_id: str, /) -> ArchivedJob | None: ...

    def search(
        self,
        db: Any,
        where: JobFilter,
        span: ArchiveSpan,
        limit: int,
        cursor: str | None,
        /,
        *,
        slowest_first: bool,
    ) -> ArchivePage: ...


class KeepingVerbs:
    """Clean-ups and the archive."""

    _database: TableDatabase
    _archive: ArchiveReading

    def cleanups(self, limit: int = 100) -> list[CleanUp]:
        return self._database.look(lambda db: list(cleanup.latest(db, limit)))

    def archived(self, job_id: str) -> ArchivedJob | None:
        return self._database.look(lambda db: self._archive.find(db, job_id))

    def search_archive(
        self,
        where: JobFilter,
        *,
        span: ArchiveSpan = EVERYTHING,
        slowest_first: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ArchivePage:
        return self._database.look(
            lambda db: self._archive.search(
                db, where, span, limit, cursor, slowest_first=slowest_first
            )
        )
