"""The store's verbs about retention; what they do is in cleaning.py, prune.py and archive.py."""

from __future__ import annotations

from datetime import date
from functools import cached_property

from leasehold.core.archive import ArchivedJob, ArchivePage
from leasehold.core.retention import (
    BATCH_MAX,
    DAILY,
    CleanUp,
    PruneReport,
    RetentionPolicy,
    Scope,
    check_limit,
)
from leasehold.core.search import JobFilter
from leasehold.core.settings import retention_by
from leasehold.stores.sqlite.keeping import archive, cleanup
from leasehold.stores.sqlite.keeping.cleaning import Cleaning
from leasehold.stores.sqlite.rules import settings
from leasehold.stores.sqlite.writing.foundation import Foundation


class KeepsArchive(Foundation):
    """Prune what is old, and remember it for a while."""

    @cached_property
    def _cleaning(self) -> Cleaning:
        return Cleaning(self._env, self._read, self._write, self._clock)

    def prune(
        self,
        policy: RetentionPolicy | None = None,
        *,
        run: int | None = None,
        scope: Scope = DAILY,
        limit: int = BATCH_MAX,
        actor: str,
    ) -> PruneReport:
        check_limit(limit)
        policy = policy or self._policy()
        if run is None:
            return self._cleaning.begin(policy, scope, actor)
        return self._cleaning.go_on(run, policy, scope, limit, actor)

    def _policy(self) -> RetentionPolicy:
        with self._read() as db:
            return retention_by(settings.load(db).values, RetentionPolicy())

    def cleanups(self, limit: int = 100) -> list[CleanUp]:
        with self._read() as db:
            return cleanup.latest(db, limit)

    def archived(self, job_id: str) -> ArchivedJob | None:
        with self._read() as db:
            return archive.find(db, job_id)

    def search_archive(
        self,
        where: JobFilter,
        *,
        first_day: date | None = None,
        last_day: date | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ArchivePage:
        with self._read() as db:
            return archive.search(db, where, (first_day, last_day), limit, cursor)
