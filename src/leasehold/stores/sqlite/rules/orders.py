"""Queues, and orders of people about queues and jobs: the statements for SQLite.

See `tables.queues` and `tables.orders`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leasehold.core.model.job import Job
from leasehold.core.model.status import Status
from leasehold.core.model.unreadable import cannot_be_read
from leasehold.core.rules.people import Replay
from leasehold.stores.sqlite.leasing.ends import Histories
from leasehold.stores.sqlite.reading.read import Jobs, read_job
from leasehold.stores.sqlite.rules.known import StartBook
from leasehold.stores.sqlite.schema.rows import problem_with
from leasehold.stores.sqlite.submitting.dependencies import DependentsBook, Linker
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.job_states import JobState
from leasehold.stores.tables.orders import TableDesk
from leasehold.stores.tables.queues import TableQueueBook, TableQueues

# Few rows: one per queue and task. `coalesce` lets one statement serve one queue and all of them.
FIGURES: Final = (
    f"SELECT queue, {', '.join(f'sum({status.value})' for status in Status)}, "
    "min(iif(typeof(made_at) = 'integer', made_at, NULL)), min(deleted_after IS total_submitted) "
    "FROM lane WHERE queue = coalesce($1, queue) GROUP BY queue"
)
# It counts as deleted until more jobs are submitted to it than had been by then.
NOTE_DELETED: Final = "UPDATE lane SET deleted_after = total_submitted WHERE queue = $1"
NOTE_PURGED: Final = "INSERT INTO resolving (seq, purged) VALUES (?, 1)"


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
        found = (read_job(self._step.db, job_id) for job_id in job_ids)
        return [job for job in found if job is not None]

    def replay(self, job: JobState, replay: Replay, waits_for: Sequence[int]) -> None:
        problem = problem_with(self._step.db, job.seq)
        if problem is not None:
            raise cannot_be_read(job.id, problem)
        super().replay(job, replay, waits_for)
