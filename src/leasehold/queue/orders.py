"""Orders about jobs: cancel, reprioritize, replay, discard one, several, or all that match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Unpack

from leasehold.blobs.blobs import Blobs
from leasehold.core.contract.store import Store
from leasehold.core.model.job import Job, PriorityLike, priority_of
from leasehold.core.model.refusals import no_job
from leasehold.core.model.search import JobFilter
from leasehold.core.rules.filter_orders import CancelAll, Order, Ordered
from leasehold.errors import InvalidFilterError, JobNotFoundError, LeaseholdError
from leasehold.queue.filters import FilterFields, filter_of
from leasehold.queue.options import JobRef, id_of

AT_ONCE: Final = 500
"""How many jobs one write changes, so that other writers get a turn in between."""

Answer = Job | LeaseholdError
"""The job after the change, or why it was refused."""


class Orders:
    """The part of a TaskQueue that takes orders about jobs.

    >>> from leasehold import TaskQueue
    >>> queue = TaskQueue("memory://", num_workers=0)
    >>> job = queue.submit("resize", "cat.png")
    >>> for answer in queue.cancel_each([job, "nobody"]):
    ...     print(answer if isinstance(answer, Exception) else answer.status)
    cancelled
    there is no job 'nobody': it never existed, or was deleted
    """

    def __init__(self, store: Store, actor: str, blobs: Blobs | None) -> None:
        self.store = store
        self._actor = actor
        self.blobs = blobs

    def cancel(self, job: JobRef, reason: str = "") -> Job:
        """Cancel a job: at once if it waits; if it runs, as soon as its code stops.

        Raises InvalidTransitionError if it has already ended.
        """
        job_id = id_of(job)
        return only(self._cancel([job_id], reason), job_id)

    def cancel_many(
        self,
        where: JobFilter | None = None,
        /,
        *,
        reason: str = "",
        everything: bool = False,
        **fields: Unpack[FilterFields],
    ) -> int:
        """Cancel every waiting or running job that matches; returns how many.

        Without a filter it raises InvalidFilterError, unless you pass `everything=True`.
        """
        wanted = filter_of(where, fields)
        if wanted == JobFilter() and not everything:
            raise InvalidFilterError(
                "cancel_many was called without a filter, which means every job of the store: "
                "give a filter for the jobs to cancel, or pass everything=True"
            )
        return order_all(self.store, CancelAll(reason), wanted, self._actor)

    def reprioritize(self, job: JobRef, priority: PriorityLike) -> Job:
        """Change a waiting job's priority; it keeps its place in time."""
        return self.store.reprioritize(id_of(job), priority_of(priority), actor=self._actor)

    def replay(self, job: JobRef, *, reset_attempts: bool = False) -> Job:
        """Give a dead or cancelled job another chance: one more attempt, or all of them again."""
        job_id = id_of(job)
        answers = self.store.replay([job_id], reset_attempts=reset_attempts, actor=self._actor)
        return only(answers, job_id)

    retry = replay
    """The name that other queues use."""

    def discard(self, job: JobRef) -> Job:
        """Delete a job that has ended, with all its records; returns its last snapshot."""
        job_id = id_of(job)
        answers = self.store.discard([job_id], actor=self._actor)
        if self.blobs is not None:
            self.blobs.forget_jobs(answers)
        return only(answers, job_id)

    # -- several named jobs: one answer each, independent of the others -------------------------

    def cancel_each(self, jobs: Iterable[JobRef], reason: str = "") -> list[Answer]:
        """`cancel` several jobs, in bounded writes; one answer each, in order."""
        return _in_parts(jobs, lambda job_ids: self._cancel(job_ids, reason))

    def replay_each(self, jobs: Iterable[JobRef], *, reset_attempts: bool = False) -> list[Answer]:
        """`replay` several jobs, in bounded writes; one answer each, in order."""
        return _in_parts(
            jobs,
            lambda job_ids: self.store.replay(
                job_ids, reset_attempts=reset_attempts, actor=self._actor
            ),
        )

    def discard_each(self, jobs: Iterable[JobRef]) -> list[Answer]:
        """`discard` several jobs, in bounded writes; one answer each, in order."""
        answers = _in_parts(jobs, lambda job_ids: self.store.discard(job_ids, actor=self._actor))
        if self.blobs is not None:
            self.blobs.forget_jobs(answers)
        return answers

    def reprioritize_each(self, jobs: Iterable[JobRef], priority: PriorityLike) -> list[Answer]:
        """`reprioritize` several jobs; one answer each, in order."""
        wanted = priority_of(priority)

        def one(job_id: str | JobNotFoundError) -> Answer:
            if isinstance(job_id, JobNotFoundError):
                return job_id
            try:
                return self.store.reprioritize(job_id, wanted, actor=self._actor)
            except LeaseholdError as error:
                return error

        return [one(job_id) for job_id in _meant(jobs)]

    def _cancel(self, job_ids: Sequence[str], reason: str) -> Sequence[Answer]:
        return self.store.cancel(job_ids, reason=reason, actor=self._actor)


def _in_parts(
    jobs: Iterable[JobRef], change: Callable[[Sequence[str]], Sequence[Answer]]
) -> list[Answer]:
    meant = _meant(jobs)
    job_ids = [each for each in meant if isinstance(each, str)]
    answers = (
        answer
        for start in range(0, len(job_ids), AT_ONCE)
        for answer in change(job_ids[start : start + AT_ONCE])
    )
    return [next(answers) if isinstance(each, str) else each for each in meant]


def _meant(jobs: Iterable[JobRef]) -> list[str | JobNotFoundError]:
    """The ids of jobs, or why there can be no such job; raises TypeError for what names none."""
    return [_id_or_error(job) for job in jobs]


def _id_or_error(job: JobRef) -> str | JobNotFoundError:
    try:
        return id_of(job, "each of jobs")
    except JobNotFoundError as error:
        return error


def order_all(
    store: Store, order: Order, where: JobFilter, actor: str, blobs: Blobs | None = None
) -> int:
    """Give an order to every matching job, in bounded writes; returns how many were changed."""
    return sum(done.changed for done in order_in_parts(store, order, where, actor, blobs))


def order_in_parts(
    store: Store, order: Order, where: JobFilter, actor: str, blobs: Blobs | None = None
) -> Iterator[Ordered]:
    """The same, yielding the result of each part."""
    cursor = None
    while True:
        done = store.order(order, where, actor=actor, cursor=cursor)
        if blobs is not None:
            blobs.forget_jobs(done.blobs_left)
        yield done
        cursor = done.next_cursor
        if cursor is None:
            return


def change_many(
    change: Callable[[Sequence[str]], Sequence[Job | LeaseholdError]],
    job_ids: Sequence[str],
    *,
    strict: bool,
) -> int:
    """Apply a change in bounded writes; returns how many jobs were changed.

    With `strict` the first refusal is raised at the end; otherwise a job that has changed since it
    was found is skipped.
    """
    changed = 0
    refused: LeaseholdError | None = None
    for start in range(0, len(job_ids), AT_ONCE):
        for answer in change(job_ids[start : start + AT_ONCE]):
            if isinstance(answer, LeaseholdError):
                refused = refused or answer
            else:
                changed += 1
    if refused is not None and strict:
        raise refused
    return changed


def only(answers: Sequence[Job | LeaseholdError], job_id: str) -> Job:
    """The single answer about one job; raises it if it is an error."""
    if not answers:
        raise no_job(job_id)
    answer = answers[0]
    if isinstance(answer, LeaseholdError):
        raise answer
    return answer
