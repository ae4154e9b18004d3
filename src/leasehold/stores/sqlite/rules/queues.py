"""Queues and their rules, as rows of SQLite; see `tables.queues` and `tables.queue_book`."""

from __future__ import annotations

from typing import Final

from leasehold.core.model.status import Status
from leasehold.stores.sqlite.leasing.rebalance import PassBook
from leasehold.stores.sqlite.leasing.state import Histories
from leasehold.stores.sqlite.reading import read
from leasehold.stores.sqlite.rules.known import load
from leasehold.stores.sqlite.schema.rows import SQLITE
from leasehold.stores.sqlite.submitting.gate import StartBook
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
    load_rules = staticmethod(load)
    start_book = StartBook
    jobs = read


class QueueBook(TableQueueBook):
    """See `leasehold.core.rules.queue_orders.QueueBook`."""

    dialect = SQLITE
    note_deleted = NOTE_DELETED
    note_purged = NOTE_PURGED
    queues = QueueReader
    histories = Histories
    passes = PassBook
