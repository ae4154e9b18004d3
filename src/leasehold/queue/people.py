"""What a person asks of a queue: look at jobs, cancel them, change them, replay them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, Unpack

import msgspec

from leasehold.core.clock_store import ClockRepair
from leasehold.core.job import Attempt, HistoryEvent, Job, PriorityLike, priority_of
from leasehold.core.joblog import JobLog
from leasehold.core.records import AuditRecord, WorkerInfo
from leasehold.core.retention import CleanUp, RetentionPolicy, Scope
from leasehold.core.search import JobFilter, Page
from leasehold.core.settings import SettingValue
from leasehold.core.status import WAITING, Status
from leasehold.queue.archive import Archive
from leasehold.queue.deadletters import DeadLetters, change_many, only
from leasehold.queue.filters import FilterFields, filter_of, found
from leasehold.queue.large import inline
from leasehold.queue.missing import not_found
from leasehold.queue.options import JobRef, id_of
from leasehold.queue.several import Several


class People(Several):
    """The part of a TaskQueue that looks at jobs and takes orders about them."""

    _retention: RetentionPolicy | None
    _given_settings: Mapping[str, SettingValue]
    """Those that this object was given in code."""

    # -- looking -----------------------------------------------------------------------------

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

        It counts them: for people who ask, not for loops.
        """
        return self.store.position(id_of(job))

    def search(
        self, where: JobFilter | None = None, /, **fields: Unpack[FilterFields]
    ) -> Iterator[Job]:
        """All jobs that fit, the last submitted first; fetched page by page as you go.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> _ = queue.submit("mail", "a@b.c", metadata={"tenant": "acme"})
        >>> [job.task for job in queue.search(status="pending", metadata={"tenant": "acme"})]
        ['mail']
        """
        return found(self.store, filter_of(where, fields))

    def search_page(
        self,
        where: JobFilter | None = None,
        /,
        *,
        limit: int = 100,
        cursor: str | None = None,
        **fields: Unpack[FilterFields],
    ) -> Page:
        """One page of a search, and the cursor with which to ask for the next."""
        return self.store.search(filter_of(where, fields), limit=limit, cursor=cursor)

    def find_ids(self, prefix: str, limit: int = 10) -> list[str]:
        """Ids of jobs that begin like this, in order: for a person who typed only a part of one."""
        return self.store.find_ids(prefix, limit=limit)

    def attempts(self, job: JobRef) -> list[Attempt]:
        """The job's attempts, oldest first, the running one included."""
        return self.store.attempts(self.get(job).id)

    def history(self, job: JobRef) -> list[HistoryEvent]:
        """Everything that happened to the job, oldest first."""
        return self.store.history(self.get(job).id)

    def log(self, job: JobRef) -> list[str]:
        """What the job's task logged by `current_job().log(...)`: the last 1000 lines."""
        return self.job_log(job).texts

    def job_log(self, job: JobRef) -> JobLog:
        """The same lines with the time of each, and how many there were before them."""
        return self.store.log(self.get(job).id)

    def get_queue_stats(self, queue: str | None = None) -> dict[str, int]:
        """A count per status, and the lifetime totals as `total_...`, of one queue or of all."""
        return self.store.stats(queue).as_mapping()

    def queues(self) -> list[str]:
        """The names of all queues that were created or ever held a job."""
        return self.store.queues()

    def workers(self) -> list[WorkerInfo]:
        """The registered workers, of this process and of others."""
        return self.store.workers()

    def audit_log(self, limit: int = 100) -> list[AuditRecord]:
        """The latest administrative actions, newest first."""
        return self.store.audit_log(limit)

    # -- orders ------------------------------------------------------------------------------

    def cancel(self, job: JobRef, reason: str = "") -> Job:
        """Stop a job: at once if it waits, as soon as its code lets go if it runs.

        Raises InvalidTransitionError if it has ended already.
        """
        job_id = id_of(job)
        return only(self._cancel([job_id], reason), job_id)

    def cancel_many(
        self,
        where: JobFilter | None = None,
        /,
        *,
        reason: str = "",
        **fields: Unpack[FilterFields],
    ) -> int:
        """Stop every waiting or running job that fits; answers how many."""
        jobs = found(self.store, filter_of(where, fields))
        stoppable = WAITING | {Status.RUNNING}
        job_ids = [job.id for job in jobs if job.status in stoppable]
        return change_many(lambda ids: self._cancel(ids, reason), job_ids, strict=False)

    def reprioritize(self, job: JobRef, priority: PriorityLike) -> Job:
        """Change a waiting job's priority; it keeps its place in time."""
        return self.store.reprioritize(id_of(job), priority_of(priority), actor=self._actor)

    def replay(self, job: JobRef, *, reset_attempts: bool = False) -> Job:
        """Give a dead or cancelled job another chance: one attempt more, or all of them again."""
        job_id = id_of(job)
        answers = self.store.replay([job_id], reset_attempts=reset_attempts, actor=self._actor)
        return only(answers, job_id)

    retry = replay
    """The word that other queues use."""

    def discard(self, job: JobRef) -> Job:
        """Delete a job that has ended, with all its records; answers with its last snapshot."""
        job_id = id_of(job)
        answers = self.store.discard([job_id], actor=self._actor)
        if self.blobs is not None:
            self.blobs.forget_jobs(answers)
        return only(answers, job_id)

    @cached_property
    def dead_letters(self) -> DeadLetters:
        """The jobs that will not run again unless you say so."""
        return DeadLetters(self.store, self._actor, self.blobs)

    # -- retention ---------------------------------------------------------------------------

    def prune(
        self, *, force: bool = False, emergency: bool = False, dead: bool = False
    ) -> CleanUp | None:
        """Archive and delete jobs that ended longer ago than the retention policy keeps them.

        Workers do it once a day by themselves, and so does this: it answers None when the last
        clean-up is not a day old, or there is not enough to clean. `force` does it now.
        `emergency` takes every completed and cancelled job, whatever its age, and does not pause
        for others; dead letters stay, unless `dead` says that they may go too.
        """
        from leasehold.worker.pruner import Pruner

        scope = Scope(force=force, emergency=emergency, dead=dead)
        pruner = Pruner(
            self.store,
            policy=self._retention,
            env=self._env,
            actor=self._actor,
            blobs=self.blobs,
        )
        return pruner.prune_once(scope)

    def cleanups(self, limit: int = 100) -> list[CleanUp]:
        """The records of the latest clean-ups, newest first: who, when, how many, how long."""
        return self.store.cleanups(limit)

    @cached_property
    def archive(self) -> Archive:
        """What is remembered of jobs that were pruned."""
        return Archive(self.store)

    # -- the store ---------------------------------------------------------------------------

    def check(self) -> list[str]:
        """Look for damage and broken invariants; the problems found, none if all is well."""
        return self.store.check()

    def repair_clock(self) -> ClockRepair:
        """Set the store's clock back to the wall clock, after that was once far ahead.

        Refused while workers live or jobs run; see docs/leases.md, "Clocks".
        """
        return self.store.repair_clock(actor=self._actor)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a consistent copy of the store while it is in use."""
        self.store.backup(os.fspath(path))

    def now(self) -> datetime:
        """The store's clock, by which everything here happens."""
        return self.store.now()

    def describe(self) -> Mapping[str, Any]:
        """What the store is: kind, place, durability, versions."""
        return self.store.describe()
