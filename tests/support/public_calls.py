"""The public calls of a queue and its parts, and a queue on which each of them finds something."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from leasehold import Every, TaskQueue
from leasehold.core.model.lease import Lease
from leasehold.queue.archive import Archive
from leasehold.queue.deadletters import DeadLetters
from leasehold.queue.facade import INTERNAL
from leasehold.queue.operations import Operations
from leasehold.queue.schedules import Schedules
from leasehold.queue.settings import Settings

_PARTS = {
    "": TaskQueue,
    "dead_letters.": DeadLetters,
    "operations.": Operations,
    "archive.": Archive,
    "settings.": Settings,
    "schedules.": Schedules,
}


def public_calls(elsewhere: set[str]) -> dict[str, Callable[..., Any]]:
    """All of them by name, but for those that are tried elsewhere."""
    return {
        prefix + name: call
        for prefix, part in _PARTS.items()
        for name, call in inspect.getmembers(part, inspect.isfunction)
        if not name.startswith("_") and name not in INTERNAL | elsewhere
    }


def fill(queue: TaskQueue) -> None:
    """A job that waits, one that is done, a dead letter, a deploy mark and a schedule."""
    queue.create_queue("red")
    queue.submit("t", job_id="one", queue="red", parent_id="dad", max_retries=3)
    queue.submit("t", job_id="done", queue="blue")
    queue.ack(_leased(queue, "done"), 7)
    queue.submit("t", job_id="gone", queue="blue", max_retries=0)
    queue.nack(_leased(queue, "gone"), "broken")
    queue.mark_deploy("v1")
    queue.schedule("daily", "t", Every(timedelta(days=1)))


def _leased(queue: TaskQueue, job_id: str) -> Lease:
    lease = queue.lease("blue", worker="w", wait=0)
    assert lease is not None
    assert lease.job_id == job_id
    return lease
