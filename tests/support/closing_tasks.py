"""Tasks for child processes that close the queue they belong to, or use it."""

from __future__ import annotations

import os

from leasehold import TaskQueue

queue = TaskQueue(os.environ["CLOSING_STORE"], num_workers=1)


@queue.task(executor="process", max_retries=0)
def close() -> None:
    queue.shutdown()


@queue.task(executor="process", max_retries=0)
def submit_another() -> str:
    return queue.submit("another", queue="other").id
