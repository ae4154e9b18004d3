"""Clean-ups: removing ended jobs in their writes, and one clean-up as a whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, ClassVar, Final

from leasehold.core.model.archive import EVERYTHING, ArchivedJob, ArchivePage, ArchiveSpan
from leasehold.core.model.codes import STATUS_OF
from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.retention import (
    BATCH_MAX,
    DAILY,
    DAY_SECONDS,
    CleanUp,
    PruneReport,
    RetentionPolicy,
    Scope,
    records_told,
)
from leasehold.core.model.search import JobFilter
from leasehold.core.model.settings import retention_by
from leasehold.core.rules import cleaning
from leasehold.core.rules.cleaning import PruneRequest
from leasehold.core.rules.cleanup_store import (
    CleanedStore,
    CleanUpLook,
    CleanUpProgress,
    CleanUpWrite,
    EndedJob,
)
from leasehold.core.rules.ended_dependents import within_budget
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.env import from_micros, to_micros
from leasehold.stores.tables import cleanup
from leasehold.stores.tables.archive import DROP, TableArchive
from leasehold.stores.tables.cleanup import OLD_KEYS, TableLook
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.dependents import TableDependents
from leasehold.stores.tables.job_states import RECORDS_OF_A_JOB
from leasehold.stores.tables.step import TableStep

# Guard of every pruning: the job is still in `finished`, and no job needs it. The rows found are
# then checked for whether their end is old enough for their queue.
STILL_ENDED: Final = """
    SELECT finished.seq, lane.queue, finished.status, finished.finished_at
    FROM finished CROSS JOIN job CROSS JOIN lane
    WHERE {} AND job.seq = finished.seq AND lane.id = job.lane AND NOT ({})
"""
COUNT: Final = """
    SELECT job.lane, finished.status, count(*), max(finished.version), count(job.idempotency_key)
    FROM finished CROSS JOIN job
    WHERE {} AND job.seq = finished.seq GROUP BY job.lane, finished.status
"""
# Guard of both: the key was last used for this job.
KEEP_KEYS: Final = """
    INSERT INTO pruned_key
    SELECT job.seq, job.id, finished.status, idempotency.queue, idempotency.key,
           idempotency.expires_at
    FROM job CROSS JOIN lane CROSS JOIN finished CROSS JOIN idempotency
    WHERE {} AND lane.id = job.lane AND finished.seq = job.seq
        AND idempotency.queue = lane.queue AND idempotency.key = job.idempotency_key
        AND idempotency.seq = job.seq AND idempotency.expires_at > $2
"""
DROP_KEYS: Final = """
    DELETE FROM idempotency WHERE (queue, key, seq) IN (
        SELECT lane.queue, job.idempotency_key, job.seq
        FROM job CROSS JOIN lane WHERE {} AND lane.id = job.lane) AND expires_at <= $2
"""
DROP_OLD_KEYS: Final = """
    DELETE FROM idempotency
    WHERE (queue, key, seq) IN (SELECT queue, key, seq FROM pruned_key WHERE {})
"""
DROP_RESULTS: Final = """
    UPDATE finished SET result = NULL, result_codec = NULL WHERE status = 5 AND {}
"""


class TableRemoval(ABC):
    """The writes for core.rules.cleaning."""

    dependents: ClassVar[type[TableDependents]]
    drop_audits: ClassVar[str]
    """Deletes archived audit records up to a time, limited in number."""

    def __init__(self, step: Any) -> None:
        self._step: TableStep = step
        self.audit = step.audit
        self.now = from_micros(step.now)

    @abstractmethod
    def _archive(self, keys: Sequence[int], day: int) -> None:
        """Copy ended jobs into the archive."""

    @abstractmethod
    def archive_audits(self, until: datetime, limit: int) -> int: ...

    def _release(self, limit: int, scope: Scope) -> int:  # noqa: ARG002  # not every store has to
        """Return a number of unused pages to the disk."""
        return 0

    def own_retentions(self) -> Mapping[str, QueueRetention]:
        return cleanup.retentions_of(self._step.rules)

    def latest(self) -> CleanUp | None:
        return next(cleanup.latest_cleanups(self._step.db, 1), None)

    def progress(self, run: int) -> CleanUpProgress | None:
        return cleanup.progress_of(self._step.db, run)

    def save(self, progress: CleanUpProgress) -> None:
        cleanup.save_progress(self._step.db, progress)

    def still_ended(self, keys: Sequence[int]) -> Sequence[EndedJob[int]]:
        bounded = within_budget(self.dependents(self._step), keys)
        statement = self._of("finished.seq", STILL_ENDED, self.dependents.still_needed())
        rows = self._step.execute(statement, (self._listed(bounded),))
        return [
            EndedJob(seq, queue, STATUS_OF[status], ended_at)
            for seq, queue, status, ended_at in rows
        ]

    def remove(self, jobs: Sequence[EndedJob[int]], *, archived: bool) -> None:
        step = self._step
        keys = [job.key for job in jobs]
        seqs = self._listed(keys)
        if archived:
            self._archive(keys, step.now // round(DAY_SECONDS * 1e6))
        has_keys = False
        counts = step.execute(self._of("finished.seq", COUNT), (seqs,)).fetchall()
        for lane, status, number, version, with_key in counts:
            step.count(lane, STATUS_OF[status].value, -number)
            step.count(lane, "total_cleaned", number)
            step.versions_erased((version,))
            has_keys = has_keys or with_key > 0
        if has_keys:
            step.execute(self._of("job.seq", KEEP_KEYS), (seqs, step.now))
            step.execute(self._of("job.seq", DROP_KEYS), (seqs, step.now))
        self._delete(("finished", *RECORDS_OF_A_JOB), keys)

    def drop_results(self, keys: Sequence[int]) -> int:
        return self._step.changed(self._of("seq", DROP_RESULTS), (self._listed(keys),))

    def drop_histories(self, keys: Sequence[int]) -> int:
        self._delete(("attempt", "event"), keys)
        return len(keys)

    def drop_archived(self, first_day: int, limit: int) -> int:
        return self._step.changed(DROP, (first_day, limit))

    def drop_archived_audits(self, until: datetime, limit: int) -> int:
        return self._step.changed(self.drop_audits, (to_micros(until), limit))

    def drop_rest(self, limit: int, scope: Scope) -> int:
        """Expired idempotency keys of pruned jobs, then unused pages."""
        rows = self._step.execute(OLD_KEYS, (self._step.now, limit)).fetchall()
        if seqs := [seq for (seq,) in rows]:
            self._step.execute(self._of("seq", DROP_OLD_KEYS), (self._listed(seqs),))
            self._delete(("pruned_key",), seqs)
            return len(seqs)
        return self._release(limit, scope)

    def _delete(self, tables: Sequence[str], keys: Sequence[int]) -> None:
        seqs = self._listed(keys)
        for table in tables:
            self._step.execute(self._of("seq", f"DELETE FROM {table} WHERE {{}}"), (seqs,))

    def _of(self, column: str, statement: str, *further: str) -> str:
        """A statement about the jobs listed in its first value."""
        return statement.format(self.dependents.dialect.among(column, "$1"), *further)

    def _listed(self, keys: Sequence[int]) -> Any:
        return self.dependents.dialect.listed(keys)


class TablePruning:
    """A clean-up of a store."""

    look: ClassVar[type[TableLook]]
    removal: ClassVar[type[TableRemoval]]

    def __init__(self, database: Any) -> None:
        self._database: TableDatabase = database

    def run(self, run: int | None, order: PruneRequest) -> PruneReport:
        """Begin a clean-up, or continue one."""
        store = CleanedStore(self._look, self._remove, self._database.env.clock.monotonic)
        return cleaning.prune(store, run, order)

    @contextmanager
    def _look(self) -> Iterator[CleanUpLook[int]]:
        with self._database.read() as db:
            yield self.look(db, self._database.now(db))

    def _remove(self, operation: Callable[[CleanUpWrite[int]], PruneReport]) -> PruneReport:
        return self._database.write(lambda step: operation(self.removal(step)))


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
        return self._database.look(
            lambda db: list(cleanup.latest_cleanups(db, records_told(limit)))
        )

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
