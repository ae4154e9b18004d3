"""The records of deleted jobs: those of clean-ups, and the archive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leasehold.core.model.archive import EVERYTHING, ArchivedJob, ArchivePage, ArchiveSpan
from leasehold.core.model.retention import (
    BATCH_MAX,
    DAILY,
    CleanUp,
    PruneReport,
    RetentionPolicy,
    Scope,
)
from leasehold.core.model.search import JobFilter
from leasehold.core.model.settings import retention_by
from leasehold.core.rules.cleaning import PruneRequest
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.stores.tables import cleanup
from leasehold.stores.tables.archive import TableArchive
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.removing import TablePruning


class KeepingVerbs:
    """Clean-ups and the archive."""

    _database: TableDatabase
    _archive: TableArchive
    _pruning: type[TablePruning]
    _read_settings: Callable[[Any], SettingsInForce]

    def prune(
        self,
        policy: RetentionPolicy | None = None,
        *,
        run: int | None = None,
        scope: Scope = DAILY,
        limit: int = BATCH_MAX,
        actor: str,
    ) -> PruneReport:
        order = PruneRequest(policy or self._policy(), scope, limit, actor)
        return self._pruning(self._database).run(run, order)

    def _policy(self) -> RetentionPolicy:
        with self._database.read() as db:
            values = self._read_settings(db).values
        return retention_by(values, RetentionPolicy())

    def cleanups(self, limit: int = 100) -> list[CleanUp]:
        return self._database.look(lambda db: list(cleanup.latest_cleanups(db, limit)))

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
