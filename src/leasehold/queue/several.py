"""Orders about several jobs that were named: one answer each, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from leasehold.core.job import Job, PriorityLike, priority_of
from leasehold.errors import JobNotFoundError, LeaseholdError
from leasehold.queue.base import QueueBase
from leasehold.queue.deadletters import AT_ONCE
from leasehold.queue.options import JobRef, id_of

Answer = Job | LeaseholdError
"""The job after the change, or why it was refused."""


class Several(QueueBase):
    """The part of a TaskQueue that changes many jobs and says what became of each.

    >>> from leasehold import TaskQueue
    >>> queue = TaskQueue("memory://", num_workers=0)
    >>> job = queue.submit("resize", "cat.png")
    >>> for answer in queue.cancel_each([job, "nobody"]):
    ...     print(answer if isinstance(answer, Exception) else answer.status)
    cancelled
    no job has the id 'nobody': it never existed, or was deleted
    """

    _actor: str

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

        def one(job: JobRef) -> Answer:
            try:
                return self.store.reprioritize(id_of(job), wanted, actor=self._actor)
            except LeaseholdError as error:
                return error

        return [one(job) for job in jobs]

    def _cancel(self, job_ids: Sequence[str], reason: str) -> Sequence[Answer]:
        return self.store.cancel(job_ids, reason=reason, actor=self._actor)


def _in_parts(
    jobs: Iterable[JobRef], change: Callable[[Sequence[str]], Sequence[Answer]]
) -> list[Answer]:
    meant = [_id_or_error(job) for job in jobs]
    job_ids = [each for each in meant if isinstance(each, str)]
    answers = (
        answer
        for start in range(0, len(job_ids), AT_ONCE)
        for answer in change(job_ids[start : start + AT_ONCE])
    )
    return [next(answers) if isinstance(each, str) else each for each in meant]


def _id_or_error(job: JobRef) -> str | JobNotFoundError:
    try:
        return id_of(job)
    except JobNotFoundError as error:
        return error
