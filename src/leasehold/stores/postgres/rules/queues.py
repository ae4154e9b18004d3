"""Queues and their rules, as rows of PostgreSQL; see `tables.queues` and `tables.queue_book`."""

from __future__ import annotations

from typing import Final

from leasehold.core.model.status import Status
from leasehold.stores.postgres.leasing.rebalance import PassBook
from leasehold.stores.postgres.leasing.state import Histories
from leasehold.stores.postgres.reading import read
from leasehold.stores.postgres.rules.known import load
from leasehold.stores.postgres.server.connection import POSTGRES, unnested
from leasehold.stores.postgres.submitting.gate import StartBook
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
NOTE_PURGED: Final = f"INSERT INTO resolving (seq, purged) SELECT *, 1 FROM {unnested('bigint')}"  # noqa: S608  # our own names


class QueueReader(TableQueues):
    """What is known of queues."""

    dialect = POSTGRES
    figures = FIGURES
    load_rules = staticmethod(load)
    start_book = StartBook
    jobs = read


class QueueBook(TableQueueBook):
    """See `leasehold.core.rules.queue_orders.QueueBook`."""

    dialect = POSTGRES
    note_deleted = NOTE_DELETED
    note_purged = NOTE_PURGED
    queues = QueueReader
    histories = Histories
    passes = PassBook
