"""Queues, and orders of people about queues and jobs: the statements for PostgreSQL.

See `tables.queues` and `tables.orders`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leasehold.core.model.job import Job
from leasehold.core.model.status import Status
from leasehold.stores.postgres.leasing.ends import Histories
from leasehold.stores.postgres.reading.read import Jobs, read_jobs
from leasehold.stores.postgres.rules.known import StartBook
from leasehold.stores.postgres.server.connection import unnested
from leasehold.stores.postgres.submitting.dependencies import DependentsBook, Linker
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.orders import BY_ID, TableDesk, TableOperations
from leasehold.stores.tables.queues import TableQueueBook, TableQueues
from leasehold.stores.tables.statements import Query

# Few rows: one per queue and task. `coalesce` lets one statement serve one queue and all of them.
FIGURES: Final = (
    f"SELECT queue, {', '.join(f'sum({status.value})::bigint' for status in Status)}, "
    "min(made_at), bool_and(deleted_after IS NOT DISTINCT FROM total_submitted) "
    "FROM lane_now WHERE queue = coalesce($1, queue) GROUP BY queue"
)
# It counts as deleted until more jobs are submitted to it than had been by then.
NOTE_DELETED: Final = """
    UPDATE lane SET deleted_after = lane_now.total_submitted FROM lane_now
    WHERE lane_now.id = lane.id AND lane.queue = $1
"""
NOTE_PURGED: Final = f"INSERT INTO resolving (seq, purged) SELECT *, 1 FROM {unnested('bigint')}"


class QueueReader(TableQueues):
    """The information about queues."""

    figures = FIGURES
    start_book = StartBook
    jobs = Jobs


class QueueBook(TableQueueBook):
    """See `leasehold.core.rules.queue_orders.QueueBook`."""

    note_deleted = NOTE_DELETED
    note_purged = NOTE_PURGED
    queues = QueueReader
    histories = Histories


class OrderDesk(TableDesk, Histories):
    """See `leasehold.core.rules.people.OrderDesk`."""

    queue_book = QueueBook
    dependents = DependentsBook
    linker = Linker
    _step: Step

    def _read(self, job_ids: Sequence[str]) -> list[Job]:
        return read_jobs(self._step.db, job_ids)


class OperationShelf(TableOperations):
    """See `leasehold.core.rules.operation_shelf.OperationShelf`."""

    to_change = Query(BY_ID.columns, f"{BY_ID.rest} FOR UPDATE")
