"""Dead letters: jobs that will not run again unless a person says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Unpack

import msgspec

from leasehold.blobs.blobs import Blobs
from leasehold.core.contract.store import Store
from leasehold.core.model import checked
from leasehold.core.model.job import Job
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.rules.filter_orders import DiscardAll, ReplayAll
from leasehold.errors import InvalidTransitionError, LeaseholdError
from leasehold.queue.filters import FilterFields, filter_of, found
from leasehold.queue.options import JobRef, ids_of
from leasehold.queue.orders import change_many, order_all


class DeadLetters:
    """`queue.dead_letters`: iterate over it, replay, discard, purge.

    >>> from leasehold import TaskQueue
    >>> queue = TaskQueue("memory://", num_workers=0)
    >>> job = queue.submit("resize", "cat.png")
    >>> _ = queue.nack(queue.lease(), "no such picture", requeue=False)
    >>> [letter.error.message for letter in queue.dead_letters]
    ['no such picture']
    >>> queue.dead_letters.replay(task="resize")
    1
    >>> len(queue.dead_letters)
    0
    """

    def __init__(self, store: Store, actor: str, blobs: Blobs | None = None) -> None:
        self._store = store
        self._actor = actor
        self._blobs = blobs

    def __iter__(self) -> Iterator[Job]:
        return self.list()

    def __len__(self) -> int:
        return self._store.stats().counts.get(Status.DEAD, 0)

    def list(
        self, where: JobFilter | None = None, /, **fields: Unpack[FilterFields]
    ) -> Iterator[Job]:
        """The matching dead letters, last submitted first."""
        return found(self._store, self._filter(where, fields))

    def replay(
        self,
        where: JobFilter | JobRef | Iterable[JobRef] | None = None,
        /,
        *,
        reset_attempts: bool = False,
        **fields: Unpack[FilterFields],
    ) -> int:
        """Give dead letters another chance: one, several, or all that match; returns how many.

        Without `reset_attempts` each gets one more attempt. A named job must be dead (or
        cancelled); otherwise InvalidTransitionError is raised after the others were replayed.
        """
        checked.flag("reset_attempts", reset_attempts)
        if where is None or isinstance(where, JobFilter):
            order = ReplayAll(reset_attempts)
            return order_all(self._store, order, self._filter(where, fields), self._actor)
        if isinstance(where, str) or not isinstance(where, Iterable):
            where = (where,)
        return change_many(
            lambda job_ids: self._store.replay(
                job_ids, reset_attempts=reset_attempts, actor=self._actor
            ),
            ids_of(where, "where"),
            strict=True,
        )

    def discard(self, *jobs: JobRef) -> int:
        """Delete these dead letters with all their records; returns how many.

        A job that is not dead is refused with InvalidTransitionError; use `queue.discard` for
        those.
        """
        job_ids = ids_of(jobs)
        for job_id in job_ids:
            snapshot = self._store.get(job_id)
            if snapshot is not None and snapshot.status is not Status.DEAD:
                raise InvalidTransitionError(
                    f"job {snapshot.id} is {snapshot.status}, not a dead letter: queue.discard "
                    "deletes any job that has ended"
                )
        return change_many(self._discard, job_ids, strict=True)

    def purge(self, where: JobFilter | None = None, /, **fields: Unpack[FilterFields]) -> int:
        """Delete every matching dead letter (without a filter, all of them); returns how many."""
        wanted = self._filter(where, fields)
        return order_all(self._store, DiscardAll(), wanted, self._actor, self._blobs)

    def _discard(self, job_ids: Sequence[str]) -> Sequence[Job | LeaseholdError]:
        answers = self._store.discard(job_ids, actor=self._actor)
        if self._blobs is not None:
            self._blobs.forget_jobs(answers)
        return answers

    def _filter(self, where: JobFilter | None, fields: FilterFields) -> JobFilter:
        return msgspec.structs.replace(filter_of(where, fields), statuses=(Status.DEAD,))
