"""Figures of queues over time, to be awaited."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from leasehold.core.metrics import WINDOW_SECONDS, DayPoint, MinutePoint, QueueMetrics
from leasehold.queue.options import JobRef

if TYPE_CHECKING:
    from leasehold.queue.facade import TaskQueue


class AsyncMetrics:
    """The part of an AsyncTaskQueue that tells how its queues do; see `TaskQueue`."""

    queue: TaskQueue

    async def metrics(
        self, queue: str | None = None, window_seconds: float = WINDOW_SECONDS
    ) -> QueueMetrics:
        return await self.queue.bridge().call(self.queue.metrics, queue, window_seconds)

    async def series(self, queue: str | None = None, minutes: int = 60) -> list[MinutePoint]:
        return await self.queue.bridge().call(self.queue.series, queue, minutes)

    async def daily(self, queue: str | None = None, days: int = 30) -> list[DayPoint]:
        return await self.queue.bridge().call(self.queue.daily, queue, days)

    async def estimated_start(self, job: JobRef) -> datetime | None:
        return await self.queue.bridge().call(self.queue.estimated_start, job)
