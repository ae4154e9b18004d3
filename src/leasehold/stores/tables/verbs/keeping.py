"""The records of deleted jobs: those of clean-ups, and the archive."""

from __future__ import annotations

from leasehold.core.model.archive import EVERYTHING, ArchivedJob, ArchivePage, ArchiveSpan
from leasehold.core.model.retention import CleanUp
from leasehold.core.model.search import JobFilter
from leasehold.stores.tables import cleanup
from leasehold.stores.tables.archive import TableArchive
from leasehold.stores.tables.database import TableDatabase


class KeepingVerbs:
    """Clean-ups and the archive."""

    _database: TableDatabase
    _archive: TableArchive

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
