"""Reads: snapshots of jobs, searches, history, counts, and where output is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from typing import Any, Unpack

import msgspec

from leasehold.blobs.blobs import Blobs
from leasehold.core.contract.looking import looking
from leasehold.core.contract.store import Store
from leasehold.core.model import checked
from leasehold.core.model.changes import Changes
from leasehold.core.model.history import Attempt, HistoryEvent
from leasehold.core.model.job import COMMAND_TASK, Job
from leasehold.core.model.joblog import JobLog
from leasehold.core.model.pages import AuditPage, HistoryPage, LogPage
from leasehold.core.model.records import AuditRecord, WorkerInfo
from leasehold.core.model.refusals import PAGE_MAX
from leasehold.core.model.search import Count, HeavyField, JobFilter, Page
from leasehold.core.model.status import Status
from leasehold.queue.arguments import own_output_folder
from leasehold.queue.filters import FilterFields, filter_of, found
from leasehold.queue.large import inline
from leasehold.queue.missing import check_queue, not_found
from leasehold.queue.options import JobRef, id_of
from leasehold.worker.executors.output import output_paths


class Looking:
    """The part of a TaskQueue that reads jobs."""

    def __init__(
        self, store: Store, blobs: Blobs | None, ensure_workers: Callable[[], None]
    ) -> None:
        self.store = store
        self.blobs = blobs
        self._ensure_workers = ensure_workers

    def get(self, job: JobRef) -> Job:
        """A snapshot of a job; raises JobNotFoundError for an unknown id, or an archived job's."""
        self._ensure_workers()
        snapshot = self.store.get(id_of(job))
        if snapshot is None:
            raise not_found(self.store, id_of(job))
        return snapshot

    def get_status(self, job: JobRef) -> Status:
        return self.get(job).status

    def payload_of(self, job: Job) -> Any:
        """A job's payload as plain JSON data, also one that is kept in a blob store."""
        data, codec = inline(self.blobs, job.payload_data, job.codec)
        return msgspec.structs.replace(job, payload_data=data, codec=codec).payload

    def position(self, job: JobRef) -> int | None:
        """How many pending jobs of its queue are served before this one; None if it is not pending.

        This counts them, so do not call it in a loop.
        """
        position = self.store.position(id_of(job))
        if position is None:
            self.get(job)  # An unknown id is an error, as everywhere.
        return position

    def search(
        self,
        where: JobFilter | None = None,
        /,
        *,
        without: Collection[HeavyField] = (),
        **fields: Unpack[FilterFields],
    ) -> Iterator[Job]:
        """All matching jobs, the last submitted first; fetched page by page as you iterate.

        It is an iterator: `itertools.islice(queue.search(...), 10)` takes the first ten.

        A list of many jobs is lighter `without` their "payload", "result" and "metadata".

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> _ = queue.submit("mail", "a@b.c", metadata={"tenant": "acme"})
        >>> [job.task for job in queue.search(status="pending", metadata={"tenant": "acme"})]
        ['mail']
        """
        return found(looking(self.store), filter_of(where, fields), without)

    def search_page(
        self,
        where: JobFilter | None = None,
        /,
        *,
        limit: int = 100,
        cursor: str | None = None,
        without: Collection[HeavyField] = (),
        total: bool = False,
        **fields: Unpack[FilterFields],
    ) -> Page:
        """One page of a search, and the cursor of the next.

        With `total` it also counts the matching jobs on all pages, as `count` does.
        """
        wanted = filter_of(where, fields)
        page = looking(self.store).search(wanted, limit=limit, cursor=cursor, without=without)
        return (
            msgspec.structs.replace(page, total=looking(self.store).count(wanted))
            if total
            else page
        )

    def count(self, where: JobFilter | None = None, /, **fields: Unpack[FilterFields]) -> Count:
        """How many jobs match: exactly up to 10,000, beyond that "at least 10,000".

        A filter with only queues, tasks and statuses is answered exactly at any number.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> _ = queue.submit("mail", "a@b.c", limit_key="acme")
        >>> queue.count(limit_key="acme").jobs, str(queue.count(task="mail"))
        (1, '1')
        """
        return looking(self.store).count(filter_of(where, fields))

    def find_ids(self, prefix: str, limit: int = 10) -> list[str]:
        """Ids of jobs with this prefix, in order, to complete a partly typed id."""
        return self.store.find_ids(prefix, limit=limit)

    def attempts(self, job: JobRef) -> list[Attempt]:
        """The job's attempts, oldest first, the running one included."""
        return looking(self.store).attempts(self.get(job).id)

    def history(self, job: JobRef) -> list[HistoryEvent]:
        """Everything that happened to the job, oldest first."""
        return looking(self.store).history(self.get(job).id)

    def history_page(
        self, job: JobRef, *, limit: int = 100, cursor: str | None = None
    ) -> HistoryPage:
        """A part of its history, and the cursor with which to ask for the next.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> job = queue.submit("mail", "a@b.c")
        >>> _ = queue.cancel(job)
        >>> page = queue.history_page(job, limit=1)
        >>> [event.event.value for event in page.events], page.next_cursor
        (['created'], '1')
        """
        return looking(self.store).history_page(self.get(job).id, limit=limit, cursor=cursor)

    def log(self, job: JobRef) -> list[str]:
        """The lines that the job's task logged by `current_job().log(...)`: the last 1000."""
        return self.job_log(job).texts

    def job_log(self, job: JobRef) -> JobLog:
        """The same lines with the time of each, and the number of dropped lines before them."""
        return looking(self.store).log(self.get(job).id)

    def log_page(self, job: JobRef, *, limit: int = 100, cursor: str | None = None) -> LogPage:
        """A part of its log lines, and the cursor with which to ask for the next."""
        return looking(self.store).log_page(self.get(job).id, limit=limit, cursor=cursor)

    def get_queue_stats(self, queue: str | None = None) -> dict[str, int]:
        """A count per status, and the lifetime totals as `total_...`, of one queue or of all.

        Raises QueueNotFoundError for an unknown queue.
        """
        check_queue(self.store, queue)
        return self.store.stats(queue).as_mapping()

    def queues(self) -> list[str]:
        """The names of all queues that were created or ever held a job."""
        return self.store.queues()

    def workers(self) -> list[WorkerInfo]:
        """The registered workers, of this process and of others, each with its current jobs."""
        return self.store.workers()

    def audit_log(
        self,
        limit: int = 100,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
    ) -> list[AuditRecord]:
        """The latest administrative actions, newest first, archived ones included.

        `since` (inclusive) and `before` (exclusive) narrow them to a time.
        """
        left = checked.at_least(0, "limit", limit)
        records: list[AuditRecord] = []
        cursor: str | None = None
        while left:
            page = self.audit_page(
                since=since, before=before, limit=min(left, PAGE_MAX), cursor=cursor
            )
            records += page.records
            left -= len(page.records)
            cursor = page.next_cursor
            if cursor is None:
                break
        return records

    def audit_page(
        self,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> AuditPage:
        """A part of the audit log, newest first, and the cursor with which to ask for the next.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> _ = queue.create_queue("mail"), queue.pause_queue("mail")
        >>> page = queue.audit_page(limit=1)
        >>> [record.action for record in page.records]
        ['pause_queue']
        >>> [each.action for each in queue.audit_page(cursor=page.next_cursor).records]
        ['create_queue']
        """
        return looking(self.store).audit_page(
            since=since, before=before, limit=limit, cursor=cursor
        )

    def changes(self, cursor: str | None = None, *, limit: int = 1000) -> Changes:
        """The changes after a cursor, in order; without one, only the cursor to begin with.

        Where `gap` is true, changes may have been missed: read everything again, then continue.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> start = queue.changes().cursor
        >>> _ = queue.submit("mail", "a@b.c", job_id="letter")
        >>> [(each.name, each.status.value) for each in queue.changes(start).changes]
        [('letter', 'pending')]
        """
        return self.store.changes(cursor, limit=limit)

    def output_paths(self, job: JobRef, attempt: int | None = None) -> tuple[str, str] | None:
        """The files with a command's stdout and stderr, of its latest attempt or an earlier one.

        They are on the machine whose worker ran it. None for another kind of job, and for an
        attempt that was not made.
        """
        snapshot = job if isinstance(job, Job) else self.get(job)
        if snapshot.task != COMMAND_TASK:
            return None
        latest = snapshot.stdout_path, snapshot.stderr_path
        if attempt is None and latest[0] is not None and latest[1] is not None:
            return latest[0], latest[1]
        folder = self._output_folder(snapshot)
        # A handed-back attempt and its successor share a number: the last one counts.
        tried = [
            each for each in self.attempts(snapshot.id) if attempt is None or each.number == attempt
        ]
        if not tried or folder is None:
            return None
        return output_paths(folder, snapshot.id, tried[-1].lease_version)

    def _output_folder(self, job: Job) -> str | None:
        if job.stdout_path is not None:
            return os.path.dirname(os.path.dirname(job.stdout_path))
        return own_output_folder(self.store)
