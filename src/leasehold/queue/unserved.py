"""The next task of queues that no worker serves: the command that starts one names its module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from leasehold.observe.alerts import NO_WORKER_SECONDS_MAX, QueueFigures

if TYPE_CHECKING:
    from leasehold.queue.facade import TaskQueue

LOOKED_AT: Final = 10
"""Of so many queues the task is looked up, which takes a few reads for each lane of a queue. Where
hundreds of queues have no worker, nobody starts them from hundreds of lines."""


def next_tasks(queue: TaskQueue, figures: Iterable[QueueFigures]) -> dict[str, str | None]:
    """By queue, the task of the job that is next, for the alerts about it that stand first."""
    unserved = [each for each in figures if each.pending and not each.workers and not each.paused]
    # Critical ones stand before the others, and otherwise they stand as they come.
    unserved.sort(key=lambda each: (each.oldest_pending_seconds or 0.0) <= NO_WORKER_SECONDS_MAX)
    return {each.queue: next_task(queue, each.queue) for each in unserved[:LOOKED_AT]}


def next_task(queue: TaskQueue, name: str) -> str | None:
    """The task of the job that is next in a queue; None if no job can be."""
    return next((job.task for job in queue.peek(name)), None)
