"""The rules and states of queues, to be awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from leasehold.core.queue_config import QueueConfig, QueueInfo
from leasehold.core.reason import Reason
from leasehold.core.search import JobFilter
from leasehold.queue.asyncseveral import AsyncSeveral
from leasehold.queue.filters import FilterFields
from leasehold.queue.options import JobRef
from leasehold.queue.queues import QueueOptions

if TYPE_CHECKING:
    from leasehold.queue.facade import TaskQueue


class AsyncQueues(AsyncSeveral):
    """The part of an AsyncTaskQueue that gives queues their rules; see `TaskQueue`."""

    queue: TaskQueue

    async def create_queue(self, name: str, **options: Unpack[QueueOptions]) -> QueueInfo:
        return await self.queue.bridge().call(lambda: self.queue.create_queue(name, **options))

    async def update_queue(self, name: str, **changes: Unpack[QueueOptions]) -> QueueInfo:
        return await self.queue.bridge().call(lambda: self.queue.update_queue(name, **changes))

    async def queue_config(self, name: str) -> QueueConfig:
        return await self.queue.bridge().call(self.queue.queue_config, name)

    async def queue_info(self, name: str) -> QueueInfo:
        return await self.queue.bridge().call(self.queue.queue_info, name)

    async def list_queues(self) -> list[QueueInfo]:
        return await self.queue.bridge().call(self.queue.list_queues)

    async def pause_queue(self, name: str) -> QueueInfo:
        return await self.queue.bridge().call(self.queue.pause_queue, name)

    async def resume_queue(self, name: str) -> QueueInfo:
        return await self.queue.bridge().call(self.queue.resume_queue, name)

    async def drain_queue(self, name: str) -> QueueInfo:
        return await self.queue.bridge().call(self.queue.drain_queue, name)

    async def purge_queue(
        self, name: str, where: JobFilter | None = None, /, **fields: Unpack[FilterFields]
    ) -> int:
        return await self.queue.bridge().call(lambda: self.queue.purge_queue(name, where, **fields))

    async def delete_queue(self, name: str, *, force: bool = False) -> int:
        return await self.queue.bridge().call(self.queue.delete_queue, name, force=force)

    async def why(self, job: JobRef) -> Reason:
        return await self.queue.bridge().call(self.queue.why, job)
