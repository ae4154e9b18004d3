"""Clean-ups and the archive."""

from __future__ import annotations

from itertools import islice

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
from leasehold.stores.memory import pruning
from leasehold.stores.memory.locked import LockedState


class KeepingVerbs(LockedState):
    """The records of deleted jobs."""

    def prune(
        self,
        policy: RetentionPolicy | None = None,
        *,
        run: int | None = None,
        scope: Scope = DAILY,
        limit: int = BATCH_MAX,
        actor: str,
    ) -> PruneReport:
        return self._run(pruning.prune, policy, run, scope, limit, actor)

    def cleanups(self, limit: int = 100) -> list[CleanUp]:
        return self._look(
            lambda state: [each.record for each in islice(reversed(state.cleanups), limit)]
        )

    def archived(self, job_id: str) -> ArchivedJob | None:
        return self._look(lambda state: state.archive.find(job_id))

    def search_archive(
        self,
        where: JobFilter,
        *,
        span: ArchiveSpan = EVERYTHING,
        slowest_first: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ArchivePage:
        return self._look(
            lambda state: state.archive.search(
                where, span, limit, cursor, slowest_first=slowest_first
            )
        )
