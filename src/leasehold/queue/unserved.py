"""The next task of queues without workers, because the command that starts one names its module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from leasehold.observe.alerts import NO_WORKER_SECONDS_MAX, QueueFigures

if TYPE_CHECKING:
    from leasehold.queue.facade import TaskQueue

LOOKED_AT: Final = 10
"""How many queues have their next task looked up, which takes a few reads for each lane of a queue.
If hundreds of queues have no worker, nobody starts workers from hundreds of lines.
"""


def next_tasks(queue: TaskQueue, figures: Iterable[QueueFigures]) -> dict[str, str | None]:
    """The task of the next job by queue, for the first alerts shown."""
    unserved = [each for each in figures if each.pending and not each.workers and not each.paused]
    # Critical alerts come first; otherwise the order is kept.
    unserved.sort(key=lambda each: (each.oldest_pending_seconds or 0.0) <= NO_WORKER_SECONDS_MAX)
    return {each.queue: next_task(queue, each.queue) for each in unserved[:LOOKED_AT]}


def next_task(queue: TaskQueue, name: str) -> str | None:
    """The task of the next job in a queue; None if there is none."""
    return next((job.task for job in queue.peek(name)), None)
