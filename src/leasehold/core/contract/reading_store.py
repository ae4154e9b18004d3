"""Reading jobs and their records; nothing here changes anything."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from leasehold.core.model.graph import Graph
from leasehold.core.model.history import Attempt, HistoryEvent
from leasehold.core.model.job import Job
from leasehold.core.model.joblog import JobLog
from leasehold.core.model.records import Stats
from leasehold.core.model.search import COUNTED_MAX, Count, HeavyField, JobFilter, Page


class ReadingStore(Protocol):
    """The part of the store that answers questions."""

    def get(self, job_id: str) -> Job | None:
        """A snapshot, or None.

        - FAI-1  `failure_count`, `first_failed_at` and `last_failed_at` cover every attempt that
                 failed or whose worker was lost, even if its record is gone; snoozes, releases and
                 cancelled attempts do not count. Replays and clean-ups of the history leave them as
                 they are, and the archive keeps them.
        """

    def position(self, job_id: str) -> int | None:
        """How many pending jobs of the job's queue are served before it; None if it is not pending.

        - POS-1  0 is the next to be leased. The cost grows with the position, not with the length
                 of the queue: it is meant for occasional questions, not for loops.
        """

    def peek(self, queue: str, *, limit: int = 1) -> list[Job]:
        """The pending jobs of a queue that would be leased next, in that order.

        - POS-2  In the order in which a lease would take them. Jobs that wait for a slot of their
                 key are left out; a pause or a limit of the queue leaves out none. It takes time
                 with `limit`, not with the queue. There are none in an unknown queue, and a limit
                 below 1 raises InvalidPageError.
        """

    def graph(self, job_ids: Sequence[str]) -> Graph:
        """These jobs and all jobs linked with them by dependencies, directly or not.

        - DEP-8  Every node names its dependencies and, if a dependency's end has ended it, which.
                 Jobs that do not exist, or were deleted, are passed over.
        """

    def search(
        self,
        where: JobFilter,
        *,
        limit: int = 100,
        cursor: str | None = None,
        without: Collection[HeavyField] = (),
        read_max: int | None = None,
    ) -> Page:
        """Jobs that match, last submitted first, page by page.

        - SEA-1  Text is found in any case, in any script: "MÜNCHEN" by "münchen", "straße" by
                 "STRASSE", and the other way round.
        - SEA-2  Fields that it is to go `without` are neither fetched nor carried: payloads and
                 results are empty and of the codec LEFT_OUT, metadata is None. Filters count all
                 the same.
        - SEA-4  A cursor that no page gave is refused with InvalidCursorError.
        - SEA-5  With `read_max`, it reads about so many jobs where nothing but a look at each tells
                 whether it fits: then a page may have fewer jobs than `limit`, or none, and a
                 cursor with which to read on. Jobs that are only passed over, as they are of
                 another queue or task, are ten times as many. All pages together have the same
                 jobs as without it.
        """

    def count(
        self, where: JobFilter, *, counted_max: int = COUNTED_MAX, read_max: int | None = None
    ) -> Count:
        """How many jobs match.

        - SEA-3  Exact up to `counted_max`, and at any number where a filter asks for nothing but
                 queues, tasks and statuses; beyond, the answer says that there are at least so
                 many. A bound outside 1 to COUNTED_MAX raises InvalidFilterError.
        - SEA-6  With `read_max`, it counts in the newest jobs, as far as a search would read, and
                 says that there are at least so many where it did not read all. What is exact at
                 any number stays exact.
        """

    def find_ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        """Ids of jobs that begin with a prefix, in order; for people who type only the beginning.

        - FID-1  The first `limit` of them at most, and no more than PAGE_MAX; an index seek,
                 however many jobs there are and however short the prefix is.
        """

    def attempts(self, job_id: str) -> list[Attempt]:
        """The job's attempts, oldest first, the running one included."""

    def history(self, job_id: str) -> list[HistoryEvent]:
        """Everything that happened to the job, oldest first; empty once the history was dropped
        (RET-8).

        - HIS-1  `sequence` has no gaps, and each event's `before` is the previous `after`.
        - HIS-2  Replaying it gives the job's status, lease version and attempts: `leased` spends
                 one, `snoozed` and `released` take it back, a reset makes them 0;
                 `HistoryEvent.attempts` says how many that left.
        - HIS-3  Every event has a message for people, in the words of `core.rules.messages`, and
                 an event about a lease names whose it is: leased by whom until when, completed by
                 whom after how long, recovered from whom and why, and a stale holder when it is
                 refused (SET-2), however long ago it held the job.
        """

    def log(self, job_id: str) -> JobLog:
        """The log lines of the job's tasks; empty for a job that does not exist."""

    def stats(self, queue: str | None = None) -> Stats:
        """Counts and totals, from maintained counters: the jobs are never scanned."""

    def queues(self) -> list[str]:
        """The names of all queues that were created or ever held a job."""
