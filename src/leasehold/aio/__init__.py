"""AsyncTaskQueue: the same queue for asyncio programs. Nothing is written twice underneath.

async with AsyncTaskQueue("jobs.db") as queue:
    job = await queue.submit(resize, "cat.png", priority="high")
    await job.result(timeout=30)
"""

from leasehold.aio.faces import AsyncJobHandle, AwaitedTask
from leasehold.aio.queue import AsyncTaskQueue

__all__ = ["AsyncJobHandle", "AsyncTaskQueue", "AwaitedTask"]
