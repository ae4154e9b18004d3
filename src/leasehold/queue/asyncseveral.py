"""Orders about several jobs, to be awaited."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from leasehold.core.job import PriorityLike
from leasehold.queue.options import JobRef
from leasehold.queue.several import Answer

if TYPE_CHECKING:
    from leasehold.queue.facade import TaskQueue


class AsyncSeveral:
    """The part of an AsyncTaskQueue that changes many jobs; see `TaskQueue`."""

    queue: TaskQueue

    async def find_ids(self, prefix: str, limit: int = 10) -> list[str]:
        return await self.queue.bridge().call(self.queue.find_ids, prefix, limit)

    async def cancel_each(self, jobs: Iterable[JobRef], reason: str = "") -> list[Answer]:
        return await self.queue.bridge().call(self.queue.cancel_each, jobs, reason)

    async def replay_each(
        self, jobs: Iterable[JobRef], *, reset_attempts: bool = False
    ) -> list[Answer]:
        return await self.queue.bridge().call(
            lambda: self.queue.replay_each(jobs, reset_attempts=reset_attempts)
        )

    async def reprioritize_each(
        self, jobs: Iterable[JobRef], priority: PriorityLike
    ) -> list[Answer]:
        return await self.queue.bridge().call(self.queue.reprioritize_each, jobs, priority)
