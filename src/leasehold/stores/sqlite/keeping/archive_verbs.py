"""The store's verbs about retention. core.cleaning decides; archive.py has the archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date

from leasehold.core import cleaning
from leasehold.core.archive import ArchivedJob, ArchivePage
from leasehold.core.cleanup_store import CleanedStore, CleanUpLook, CleanUpWrite
from leasehold.core.retention import (
    BATCH_MAX,
    DAILY,
    CleanUp,
    PruneReport,
    RetentionPolicy,
    Scope,
)
from leasehold.core.search import JobFilter
from leasehold.core.settings import retention_by
from leasehold.stores.sqlite.disk import vacuum
from leasehold.stores.sqlite.keeping import archive, cleanup
from leasehold.stores.sqlite.keeping.finding import Look
from leasehold.stores.sqlite.keeping.removing import Removal
from leasehold.stores.sqlite.rules import settings
from leasehold.stores.sqlite.writing.foundation import Foundation


class KeepsArchive(Foundation):
    """Prune what is old, and remember it for a while."""

    def prune(
        self,
        policy: RetentionPolicy | None = None,
        *,
        run: int | None = None,
        scope: Scope = DAILY,
        limit: int = BATCH_MAX,
        actor: str,
    ) -> PruneReport:
        order = cleaning.Order(policy or self._policy(), scope, limit, actor)
        monotonic = self._env.clock.monotonic
        store = CleanedStore(self._look_for_old, self._remove_old, monotonic)
        report = cleaning.prune(store, run, order)
        if run is not None:
            with self._read() as db:
                vacuum.checkpoint(db)
        return report

    def _policy(self) -> RetentionPolicy:
        with self._read() as db:
            return retention_by(settings.load(db).values, RetentionPolicy())

    @contextmanager
    def _look_for_old(self) -> Iterator[CleanUpLook[int]]:
        with self._read() as db:
            yield Look(db, self._clock(db))

    def _remove_old(self, operation: Callable[[CleanUpWrite[int]], PruneReport]) -> PruneReport:
        return self._write(lambda step: operation(Removal(step)))

    def cleanups(self, limit: int = 100) -> list[CleanUp]:
        with self._read() as db:
            return list(cleanup.latest(db, limit))

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
