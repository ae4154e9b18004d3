"""Queues and their rules, as rows of SQLite; see `tables.queues` and `tables.queue_book`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import apsw

from leasehold.core.model.search import JobFilter, Page
from leasehold.core.model.status import WAITING, Status
from leasehold.core.rules.rule_book import RuleBook
from leasehold.stores.sqlite.keeping.removing import erase
from leasehold.stores.sqlite.leasing.rebalance import PassBook
from leasehold.stores.sqlite.leasing.state import end_waiting, state_of
from leasehold.stores.sqlite.reading import read
from leasehold.stores.sqlite.rules.known import load
from leasehold.stores.sqlite.schema.rows import SQLITE
from leasehold.stores.sqlite.submitting.gate import StartBook
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.queue_book import TableQueueBook
from leasehold.stores.tables.queues import TableQueues

# Few rows: one per queue and task. `coalesce` makes one statement of it, for one queue and for all.
FIGURES: Final = (
    f"SELECT queue, {', '.join(f'sum({status.value})' for status in Status)}, "  # noqa: S608  # our own names
    "min(iif(typeof(made_at) = 'integer', made_at, NULL)), min(deleted_after IS total_submitted) "
    "FROM lane WHERE queue = coalesce($1, queue) GROUP BY queue"
)
# Until more is submitted to it than was by then.
NOTE_DELETED: Final = "UPDATE lane SET deleted_after = total_submitted WHERE queue = $1"
NOTE_PURGED: Final = "INSERT INTO resolving (seq, purged) VALUES (?, 1)"


class QueueReader(TableQueues):
    """What is known of queues."""

    dialect = SQLITE
    figures = FIGURES
    _db: apsw.Connection

    @property
    def rules(self) -> RuleBook:
        return load(self._db)

    @property
    def buckets(self) -> StartBook:
        return StartBook(self._db, self._now)

    def search(self, where: JobFilter, limit: int) -> Page:
        return read.search(self._db, where, limit, None)


class QueueBook(TableQueueBook):
    """See `leasehold.core.rules.queue_orders.QueueBook`."""

    dialect = SQLITE
    note_deleted = NOTE_DELETED
    queues = QueueReader
    _step: Step

    def _passes(self) -> PassBook:
        return PassBook(self._step)

    def end_waiting(self, jobs: Sequence[int], after: Status, reason: str) -> list[int]:
        ended = []
        for seq in jobs:
            job = state_of(self._step, seq)
            # It was found by a reader: it may have been leased, or ended, since.
            if job is not None and job.status in WAITING:
                end_waiting(self._step, job, after, reason)
                ended.append(seq)
        return ended

    def erase(self, jobs: Collection[int]) -> None:
        for seq in jobs:
            erase(self._step, seq)

    def note_purged(self, jobs: Collection[int]) -> None:
        self._step.executemany(NOTE_PURGED, [(seq,) for seq in jobs])
