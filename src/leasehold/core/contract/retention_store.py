"""The part of the store contract about clean-ups and the archive, as numbered clauses."""

from __future__ import annotations

from typing import Protocol

from leasehold.core.model.archive import EVERYTHING, ArchivedJob, ArchivePage, ArchiveSpan
from leasehold.core.model.retention import (
    BATCH_MAX,
    DAILY,
    CleanUp,
    PruneReport,
    RetentionPolicy,
    Scope,
)
from leasehold.core.model.search import JobFilter


class RetentionStore(Protocol):
    """How long ended jobs and other records are kept, and what the archive keeps of them."""

    def prune(
        self,
        policy: RetentionPolicy | None = None,
        *,
        run: int | None = None,
        scope: Scope = DAILY,
        limit: int = BATCH_MAX,
        actor: str,
    ) -> PruneReport:
        """Begin a clean-up, or do one bounded write of the current one.

        Without `run`, a clean-up is begun and nothing else is done. While the answer says `more`,
        call again with the `run` it names and the same policy and scope. Without a policy the
        store's own default applies (STT-7).

        - RET-1  A job that ended longer ago than the policy keeps its status is archived and
                 deleted with all its records, both in the same write; younger and unfinished jobs
                 are left alone, and so are dependencies of unfinished ones. At most `limit` jobs
                 per call, and the report counts each job that the call removed.
        - RET-2  Dead letters are never pruned unless the policy names a time for them, or `scope`
                 is an emergency that asks for them. A store of limited capacity does not forget
                 them to make room either.
        - RET-3  A clean-up begins only when it is due: one interval after the begin of the latest
                 one, not while another one is at work, and only if there are enough ended jobs to
                 be worth it. `force` and `emergency` begin at once. If many callers ask at once,
                 one of them begins.
        - RET-4  An emergency clean-up prunes completed and cancelled jobs of any age.
        - RET-5  A later job under a pruned id never gets a lease version that was granted before.
        - RET-6  A pruned job's idempotency key still answers for it until its 24 hours are over.
                 Its duplicates do not count as dependencies: a job that has its id by then is
                 another job.
        - RET-7  A result past its own time to live is dropped; its job stays.
        - RET-8  Completed jobs together keep `history_events_max` history events. Beyond that, the
                 jobs submitted first lose their history, attempt records and the errors in them,
                 each job as a whole.
        - RET-9  Every clean-up leaves a record: who ran it, why, when, how many rows it removed and
                 how long it took. A forced clean-up is in the audit log too.
        - RET-10  A clean-up abandoned half-way leaves nothing half-done, and the next one does the
                 rest.
        - RET-11  Days of the archive older than the policy keeps are dropped, `limit` jobs at
                  once or a whole day; a day that is being read may be left to a later clean-up.
        - RET-15  Audit records older than the policy's `audit_seconds` go to the archive, and are
                 dropped when they have been there for `audit_archive_seconds`. Until then
                 `audit_page` tells them, as archived.
        - RET-14  Jobs of a queue with a retention of its own are kept as long as that says; the
                 policy fills in where it is silent. An emergency is for all queues.
        """

    def cleanups(self, limit: int = 100) -> list[CleanUp]:
        """The records of the latest clean-ups, newest first; none for a limit below 1."""

    def archived(self, job_id: str) -> ArchivedJob | None:
        """The archive's record of a job, or None; the latest if several jobs had this id.

        - RET-12  It has the task, queue, status, times, attempts, failures, error, reason,
                 metadata, parent and the beginning of the result.
        """

    def search_archive(
        self,
        where: JobFilter,
        *,
        span: ArchiveSpan = EVERYTHING,
        slowest_first: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ArchivePage:
        """Archived jobs that match, page by page; `span` narrows them by end and run time.

        - RET-13  The jobs archived last come first. A field that the archive does not keep
                 (payload, priority, idempotency key, limit key) raises InvalidFilterError.
        - RET-16  Jobs that ended between two days (UTC) or ran for a time between two bounds, all
                 inclusive; a job that never ran has no run time, and matches no bound on it.
        - RET-17  With `slowest_first` the jobs whose latest attempt ran longest come first, and
                 jobs that never ran are left out. Both orders, of one task and of all, are index
                 seeks.
        """
