"""SAQ on Redis."""

from __future__ import annotations

import asyncio
from typing import Any

from saq import Queue, Worker

from benchmarks.rivals import effects

_queue: Any = Queue.from_url(effects.URL)


async def effect(context: object, *, number: int, sent: float, seconds: float) -> None:  # noqa: ARG001
    effects.run(number, sent, seconds)


async def submit(number: int, sent: float, seconds: float) -> None:
    await _queue.enqueue("effect", number=number, sent=sent, seconds=seconds)


def work() -> None:
    worker: Any = Worker(_queue, functions=[effect], concurrency=10)
    asyncio.run(worker.start())
