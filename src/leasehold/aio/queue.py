# ruff: noqa: ASYNC109 - a timeout means the same here as in the calls that block.
"""AsyncTaskQueue: the calls derived from TaskQueue, and a few of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import date
from types import TracebackType
from typing import Any, Self, Unpack

from leasehold.aio.awaited import AsyncItems, refused_in_plain_code
from leasehold.aio.faces import AsyncJobHandle, AsyncQueueCalls
from leasehold.core.model.archive import ArchivedJob
from leasehold.core.model.durations import Seconds
from leasehold.core.model.job import Job
from leasehold.core.model.search import JobFilter
from leasehold.errors import LeaseholdError
from leasehold.queue.filters import FilterFields
from leasehold.queue.options import JobRef, NewJob


@refused_in_plain_code("queue.{name}()", "queue.queue")
class AsyncTaskQueue(AsyncQueueCalls):
    """A TaskQueue whose calls are awaited. It takes the same arguments; see `TaskQueue`."""

    async def __aenter__(self) -> Self:
        # Not over the bridge, which a queue that was shut down does not have.
        starting = asyncio.ensure_future(asyncio.to_thread(self.queue.start))
        try:
            await asyncio.shield(starting)
        except BaseException:
            # Cancelled here, by Ctrl-C say, the block is never entered: nothing else closes it. A
            # start that went on beside the shutdown would open it again.
            await asyncio.gather(starting, return_exceptions=True)
            await self.shutdown()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.shutdown()

    def __dir__(self) -> list[str]:
        """The names for applications; the parts behind them only clutter a prompt."""
        return [name for name in super().__dir__() if not name.startswith("_")]

    async def submit_partly(
        self, jobs: Iterable[NewJob]
    ) -> list[AsyncJobHandle[Any] | LeaseholdError]:
        """`submit_many(partial=True)` under a name of its own."""
        return await self.submit_many(jobs, partial=True)

    async def wait_all(self, jobs: Iterable[JobRef], timeout: Seconds | None = None) -> list[Job]:
        """`wait` for several jobs under a name of its own."""
        return await self.wait(jobs, timeout)

    async def archived(self, job: JobRef) -> ArchivedJob:
        """`archive.get` under a name of its own."""
        return await self.archive.get(job)

    def search_archive(
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
    ) -> AsyncItems[ArchivedJob]:
        """`archive.search` under a name of its own."""
        return self.archive.search(
            where,
            first_day=first_day,
            last_day=last_day,
            run_seconds_min=run_seconds_min,
            run_seconds_max=run_seconds_max,
            slowest_first=slowest_first,
            **fields,
        )
