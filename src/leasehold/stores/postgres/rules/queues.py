"""Queues and their rules, as rows of PostgreSQL; see `tables.queues` and `tables.queue_book`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from leasehold.core.model.search import JobFilter, Page
from leasehold.core.model.status import WAITING, Status
from leasehold.core.rules.rule_book import RuleBook
from leasehold.stores.postgres.keeping.erase import erase_all
from leasehold.stores.postgres.leasing.rebalance import PassBook
from leasehold.stores.postgres.leasing.state import Ending, end_all_waiting, states_of
from leasehold.stores.postgres.reading import read
from leasehold.stores.postgres.rules.known import load
from leasehold.stores.postgres.server.connection import POSTGRES, SqlConnection
from leasehold.stores.postgres.submitting.gate import StartBook
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.queue_book import TableQueueBook
from leasehold.stores.tables.queues import TableQueues

# Few rows: one per queue and task. `coalesce` makes one statement of it, for one queue and for all.
FIGURES: Final = (
    f"SELECT queue, {', '.join(f'sum({status.value})::bigint' for status in Status)}, "  # noqa: S608  # our own names
    "min(made_at), bool_and(deleted_after IS NOT DISTINCT FROM total_submitted) "
    "FROM lane_now WHERE queue = coalesce($1, queue) GROUP BY queue"
)
# Until more is submitted to it than was by then.
NOTE_DELETED: Final = """
    UPDATE lane SET deleted_after = lane_now.total_submitted FROM lane_now
    WHERE lane_now.id = lane.id AND lane.queue = $1
"""
NOTE_PURGED: Final = "INSERT INTO resolving (seq, purged) SELECT unnest($1::bigint[]), 1"


class QueueReader(TableQueues):
    """What is known of queues."""

    dialect = POSTGRES
    figures = FIGURES
    _db: SqlConnection

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

    dialect = POSTGRES
    note_deleted = NOTE_DELETED
    queues = QueueReader
    _step: Step

    def _passes(self) -> PassBook:
        return PassBook(self._step)

    def end_waiting(self, jobs: Sequence[int], after: Status, reason: str) -> list[int]:
        # They were found by a reader: some may have been leased, or ended, since.
        states = states_of(self._step, jobs)
        still = [seq for seq in jobs if seq in states and states[seq].status in WAITING]
        end_all_waiting(self._step, [Ending(states[seq], after, reason) for seq in still])
        return still

    def erase(self, jobs: Collection[int]) -> None:
        erase_all(self._step, list(jobs))

    def note_purged(self, jobs: Collection[int]) -> None:
        self._step.execute(NOTE_PURGED, (list(jobs),))
