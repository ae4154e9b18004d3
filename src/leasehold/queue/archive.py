"""The archive, as a person sees it: summaries of pruned jobs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Unpack

from leasehold.core.contract.looking import looking
from leasehold.core.contract.store import Store
from leasehold.core.model import checked
from leasehold.core.model.archive import ArchivedJob, ArchiveSpan
from leasehold.core.model.search import JobFilter
from leasehold.errors import JobNotFoundError
from leasehold.queue.filters import PAGE_SIZE, FilterFields, filter_of
from leasehold.queue.options import JobRef, id_of


class Archive:
    """`queue.archive`: look up and search jobs that are no longer in the store.

    >>> from leasehold import TaskQueue
    >>> queue = TaskQueue("memory://", num_workers=0)
    >>> job = queue.submit("resize", "cat.png")
    >>> _ = queue.ack(queue.lease(), {"width": 64})
    >>> queue.prune(emergency=True).pruned
    1
    >>> queue.archive.get(job).result_summary
    '{"width":64}'
    >>> [old.status.value for old in queue.archive.search(task="resize")]
    ['completed']
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, job: JobRef) -> ArchivedJob:
        """The summary of a pruned job; raises JobNotFoundError if there is none."""
        found = self._store.archived(id_of(job))
        if found is None:
            raise JobNotFoundError(f"the archive has no job {id_of(job)!r}")
        return found

    def search(
        self,
        where: JobFilter | None = None,
        /,
        *,
        first_day: date | None = None,
        last_day: date | None = None,
        run_seconds_min: float | None = None,
        run_seconds_max: float | None = None,
        slowest_first: bool = False,
        **fields: Unpack[FilterFields],
    ) -> Iterator[ArchivedJob]:
        """All archived jobs that match, latest archived first; fetched page by page as you go.

        `first_day` and `last_day` bound the day (UTC) on which they ended, `run_seconds_min` and
        `run_seconds_max` how long their latest attempt ran, all inclusive. With `slowest_first` the
        jobs that ran longest come first, and jobs that never ran are left out.
        """
        checked.flag("slowest_first", slowest_first)
        wanted = filter_of(where, fields)
        span = ArchiveSpan(
            first_day=first_day,
            last_day=last_day,
            run_seconds_min=run_seconds_min,
            run_seconds_max=run_seconds_max,
        )
        cursor: str | None = None
        while True:
            page = looking(self._store).search_archive(
                wanted, span=span, slowest_first=slowest_first, limit=PAGE_SIZE, cursor=cursor
            )
            yield from page.jobs
            cursor = page.next_cursor
            if cursor is None:
                return
