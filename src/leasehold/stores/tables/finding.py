"""Finding the rows that a clean-up takes next: by a reader, which blocks no writer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, Final

from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.retention import CleanUp, Scope
from leasehold.core.model.status import Status
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules.cleanup_store import (
    Bookmark,
    CleanUpBatch,
    CleanUpProgress,
    Cutoffs,
    OldestAudits,
)
from leasehold.core.rules.rule_book import RuleBook
from leasehold.env import from_micros
from leasehold.stores.tables import cleanup
from leasehold.stores.tables.lanes import stats
from leasehold.stores.tables.statements import SqlConnection, SqlCursor

WALKED_AT_ONCE: Final = 20_000
"""Rows per read: a long one would keep SQLite's write-ahead log from being checkpointed."""
WALKED_PER_CALL: Final = 10 * WALKED_AT_ONCE
OLD_KEYS: Final = "SELECT seq FROM pruned_key WHERE expires_at <= $1 LIMIT $2"
ALL: Final = Cutoffs(MOMENT_MAX, {})
"""For what does not go by the age of the job."""


class TableLook(ABC):
    """What core.rules.cleaning asks of a reader; a store has the walks along its own indexes.

    Every walk answers with where it goes on (a moment, a job number), with the end of the job,
    which is NULL for an unwanted one, and with its queue where queues differ.
    """

    load_rules: Callable[[Any], RuleBook]
    stats: ClassVar[str]
    oldest_day: ClassVar[str]
    oldest_audit: ClassVar[str]
    results: ClassVar[str]
    histories: ClassVar[str]
    history_bound: ClassVar[str]
    """The number of the latest job whose history is to go, so that so many events are left."""

    def __init__(self, db: Any, now: int) -> None:
        self._db: SqlConnection = db
        self._now = now
        self.now = from_micros(now)

    @abstractmethod
    def _rows(
        self, statement: str, values: dict[str, Any], after: Bookmark, limit: int
    ) -> SqlCursor:
        """The next rows of a walk."""

    @abstractmethod
    def find_ended(
        self, status: Status, cutoffs: Cutoffs, after: Bookmark, limit: int
    ) -> CleanUpBatch[int]: ...

    @abstractmethod
    def has_rest(self, scope: Scope) -> bool: ...

    @cached_property
    def _own_retentions(self) -> Mapping[str, QueueRetention]:
        return cleanup.own_retentions(self.load_rules(self._db))

    def own_retentions(self) -> Mapping[str, QueueRetention]:
        return self._own_retentions

    def latest(self) -> CleanUp | None:
        return next(cleanup.latest(self._db, 1), None)

    def progress(self, run: int) -> CleanUpProgress | None:
        return cleanup.progress_of(self._db, run)

    def oldest_audits(self) -> OldestAudits:
        return OldestAudits(self._oldest("audit"), self._oldest("audit_archive"))

    def _oldest(self, table: str) -> datetime | None:
        row: Any = self._db.execute(self.oldest_audit.format(table)).fetchone()
        return None if row is None else from_micros(row[0])

    def counts(self, queue: str | None) -> Mapping[Status, int]:
        return stats(self._db, self.stats, queue).counts

    def oldest_archived_day(self) -> int | None:
        row: Any = self._db.execute(self.oldest_day).fetchone()
        return None if row is None else row[0]

    def find_results(self, after: Bookmark, limit: int) -> CleanUpBatch[int]:
        return self._walk(self.results, {"now": self._now}, ALL, after, limit)

    def find_histories(self, events_max: int, after: Bookmark, limit: int) -> CleanUpBatch[int]:
        bound = after.bound
        if bound is None:
            row: Any = self._db.execute(self.history_bound, (events_max,)).fetchone()
            bound = 0 if row[0] is None else row[0] + 1
        after = after._replace(bound=bound)
        return self._walk(self.histories, {"bound": bound}, ALL, after, limit)

    def _has_old_keys(self) -> bool:
        return self._db.execute(OLD_KEYS, (self._now, 1)).fetchone() is not None

    def _walk(
        self, statement: str, values: dict[str, Any], cutoffs: Cutoffs, after: Bookmark, limit: int
    ) -> CleanUpBatch[int]:
        """The next jobs that are wanted, by reads of bounded length."""
        seqs: list[int] = []
        for _ in range(0, WALKED_PER_CALL, WALKED_AT_ONCE):
            walked = 0
            for major, seq, ended_at, queue in self._rows(statement, values, after, WALKED_AT_ONCE):
                walked += 1
                if ended_at is not None and cutoffs.take(queue, ended_at):
                    seqs.append(seq)
                    if len(seqs) == limit:
                        # Read no further: the next call goes on here.
                        return CleanUpBatch(seqs, Bookmark(major, seq, after.bound))
            if walked < WALKED_AT_ONCE:
                return CleanUpBatch(seqs)
            after = Bookmark(major, seq, after.bound)
        return CleanUpBatch(seqs, after)
