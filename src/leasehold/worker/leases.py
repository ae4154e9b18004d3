"""Leases for one worker: take jobs, keep them, and report their outcomes.

>>> from leasehold.stores.memory import MemoryStore
>>> from leasehold.core.model.job import Draft
>>> store = MemoryStore()
>>> _ = store.submit([Draft(id="job-1", task="resize")])
>>> leases = LeaseManager(store, "my-worker")
>>> [lease] = leases.acquire()
>>> leases.complete(lease, b'"done"').status
<Status.COMPLETED: 'completed'>
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leasehold.core.contract.store import Store
from leasehold.core.model import checked
from leasehold.core.model.breaker import Breaker
from leasehold.core.model.job import DEFAULT_QUEUE
from leasehold.core.model.lease import (
    Exchange,
    Lease,
    LeaseRequest,
    Renewal,
    Renewed,
    Settled,
    Settlement,
)
from leasehold.core.model.outcome import Complete, Fail, JobError, Outcome, Release, Snooze
from leasehold.core.model.retry import is_retryable
from leasehold.errors import LeaseLostError
from leasehold.worker.describe import describe_error, told_error


class LeaseManager:
    """A worker's calls to the store about its leases, under the worker's own name."""

    def __init__(
        self,
        store: Store,
        worker: str,
        *,
        lease_seconds: float | None = None,
        breakers: Callable[[str], Breaker | None] | None = None,
    ) -> None:
        """`breakers` returns a task's circuit breaker by the task's name."""
        self.store = store
        self.worker = checked.text("worker", worker)
        self._breakers = breakers
        self.lease_seconds = lease_seconds
        """For jobs without one of their own; None means the store's setting."""
        self.lease_seconds_by_task: dict[str, float] | None = None
        """Leases for jobs of these tasks without one of their own."""

    def acquire(
        self,
        queues: Sequence[str] = (DEFAULT_QUEUE,),
        limit: int = 1,
        tasks: Sequence[str] | None = None,
        parent_id: str | None = None,
        *,
        lease_seconds: float | None = None,
    ) -> list[Lease]:
        """Lease up to `limit` of the best available jobs; fewer, or none, if there are no more.

        `lease_seconds` takes precedence over the values of jobs, their queue and the store's
        settings.
        """
        queues = checked.each("queues", queues, str)
        limit = checked.whole("limit", limit)
        tasks = None if tasks is None else checked.each("tasks", tasks, str)
        return self.exchange(
            (), queues, limit, tasks, parent_id, lease_seconds=lease_seconds
        ).leases

    def exchange(
        self,
        settlements: Sequence[Settlement] = (),
        queues: Sequence[str] = (DEFAULT_QUEUE,),
        limit: int = 0,
        tasks: Sequence[str] | None = None,
        parent_id: str | None = None,
        free_slots: int | None = None,
        *,
        lease_seconds: float | None = None,
        except_lanes: tuple[tuple[str, str], ...] = (),
    ) -> Exchange:
        """Settle finished attempts and lease the next jobs, in one write.

        `free_slots` says how many jobs can start at once, if not all leased ones. Jobs of the
        queues and tasks in `except_lanes` are left to others.
        """
        request = None
        if limit > 0:
            request = LeaseRequest(
                worker=self.worker,
                queues=tuple(queues),
                limit=limit,
                free_slots=free_slots,
                lease_seconds=self.lease_seconds,
                lease_seconds_by_task=self.lease_seconds_by_task,
                lease_seconds_override=lease_seconds,
                tasks=None if tasks is None else tuple(tasks),
                except_lanes=except_lanes,
                parent_id=parent_id,
            )
        return self.store.exchange(settlements, request)

    def renew(self, lease: Lease) -> Renewed:
        """Keep a lease for its full length from now.

        Raises LeaseExpiredError if it has expired, LeaseConflictError if another worker has the
        job, and LeaseLostError otherwise.
        """
        checked.instance("lease", lease, Lease)
        renewal = Renewal(lease.job_id, lease.version, lease.lease_seconds)
        [answer] = self.store.renew(self.worker, [renewal])
        if isinstance(answer, LeaseLostError):
            raise answer
        return answer

    def complete(
        self,
        lease: Lease,
        result: bytes | None = None,
        *,
        note: bytes | None = None,
        codec: str = "json",
    ) -> Settled:
        """Complete the job; `result` and `note` are JSON documents, already encoded."""
        return self.settle(lease, Complete(result, note, codec))

    def fail(
        self,
        lease: Lease,
        error: BaseException | JobError,
        *,
        retryable: bool | None = None,
        retry_after_seconds: float | None = None,
        breaker: Breaker | None = None,
    ) -> Settled:
        """Fail the attempt; the answer says whether the job will be tried again.

        By default, the standard lists decide which exceptions are worth another try. The failure
        counts for the task's circuit breaker: the given one, or the one that the lease manager
        knows.
        """
        checked.instance("lease", lease, Lease)
        checked.instance_or_none("breaker", breaker, Breaker)
        if breaker is None and self._breakers is not None:
            breaker = self._breakers(lease.task)
        if isinstance(error, JobError):
            described = told_error(error.type, error.message, error.traceback)
            worth_it = retryable is not False
        else:
            described = describe_error(error)
            worth_it = is_retryable(error) if retryable is None else retryable
        return self.settle(lease, Fail(described, worth_it, retry_after_seconds, breaker))

    def snooze(self, lease: Lease, seconds: float, reason: str = "") -> Settled:
        """Run the job again after some seconds, with no attempt spent."""
        return self.settle(lease, Snooze(seconds, reason))

    def release(self, lease: Lease, delay_seconds: float = 0.0, reason: str = "") -> Settled:
        """Hand the job back unfinished, with no attempt spent."""
        return self.settle(lease, Release(delay_seconds, reason))

    def settle(self, lease: Lease, outcome: Outcome) -> Settled:
        """Settle the job; raises LeaseLostError (or a subclass) if this worker does not hold it."""
        checked.instance("lease", lease, Lease)
        [answer] = self.store.exchange([Settlement(lease.job_id, lease.version, outcome)]).settled
        if isinstance(answer, LeaseLostError):
            raise answer
        return answer
