# ruff: noqa: ASYNC109 - a timeout means the same here as in the calls that block.
"""`queue.join()`: waiting until everything is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from leasehold.core.contract.store import Store
from leasehold.core.model.durations import Seconds, given_seconds
from leasehold.core.model.records import ALL_QUEUES
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.env import Env
from leasehold.queue.lifecycle import Lifecycle
from leasehold.queue.results import Results
from leasehold.queue.within import own_lease, refuse_join

JOBS_AT_ONCE: Final = 100
UNFINISHED: Final = tuple(status for status in Status if not status.is_terminal)


class Joining:
    """The part of a TaskQueue that waits for all jobs, including those of other processes."""

    def __init__(
        self,
        store: Store,
        env: Env,
        lifecycle: Lifecycle,
        results: Callable[[], Results],
        queues_served: Callable[[], tuple[str, ...]],
    ) -> None:
        self._store = store
        self._clock = env.clock
        self._lifecycle = lifecycle
        self._results = results
        self._queues_served = queues_served

    def join(self, timeout: Seconds | None = None) -> None:
        """Block until no job in the queues of this TaskQueue waits or runs.

        This includes delayed jobs, retries, and jobs that others submit meanwhile. Raises
        ResultTimeoutError, which says why one of them has not ended, after `timeout`. A task cannot
        join the queue that its own job is in: UnsupportedError.
        """
        seconds, end = self._until(timeout)
        refuse_join(own_lease(), self._store, self._queues_served())
        self._lifecycle.ensure_workers()
        while job_ids := self._unfinished():
            self._results().wait_for(job_ids, self._left(seconds, end), seconds)

    async def ajoin(self, timeout: Seconds | None = None) -> None:
        """`join`, to be awaited: no thread waits."""
        seconds, end = self._until(timeout)
        bridge = self._lifecycle.bridge()
        await bridge.call(refuse_join, own_lease(), self._store, self._queues_served())
        await bridge.call(self._lifecycle.ensure_workers)
        while job_ids := await bridge.call(self._unfinished):
            await self._results().await_for(job_ids, self._left(seconds, end), seconds)

    def _until(self, timeout: Seconds | None) -> tuple[float | None, float]:
        if timeout is None:
            return None, 0.0
        seconds = given_seconds("timeout", timeout)
        return seconds, self._clock.monotonic() + seconds

    def _left(self, seconds: float | None, end: float) -> float | None:
        return None if seconds is None else max(0.0, end - self._clock.monotonic())

    def _unfinished(self) -> list[str]:
        queues = self._queues_served()
        where = JobFilter(queues=None if ALL_QUEUES in queues else queues, statuses=UNFINISHED)
        page = self._store.search(
            where, limit=JOBS_AT_ONCE, without=("payload", "result", "metadata")
        )
        return [job.id for job in page.jobs]
