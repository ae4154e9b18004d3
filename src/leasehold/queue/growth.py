"""Which queues have been growing for a quarter of an hour, from their figures by minute."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from leasehold.core.rules.metrics import QueueMetrics
from leasehold.observe.alerts import GROWING_PENDING_MIN, GROWING_STRETCHES, BacklogChange

if TYPE_CHECKING:
    from leasehold.queue.facade import TaskQueue

STRETCH_MINUTES: Final = 5
LOOKED_AT: Final = 20
"""How many queues are examined, those that grew most: each costs a read."""


def stretches_of(
    queue: TaskQueue, lately: Sequence[QueueMetrics]
) -> dict[str, tuple[BacklogChange, ...]]:
    """The figures of the last quarter of an hour, for queues that grew in the latest minutes.

    `lately` has the metrics of the last minutes of each served queue.
    """
    grown = [
        (each.pending - each.pending_before, each.queue)
        for each in lately
        if each.queue is not None
        and each.pending >= GROWING_PENDING_MIN
        and BacklogChange(each.pending_before, each.pending, each.leased).grew
    ]
    # Among equals, alphabetical order, so that every look examines the same queues.
    grown.sort(key=lambda each: (-each[0], each[1]))
    return {name: _stretches(queue, name) for _, name in grown[:LOOKED_AT]}


def _stretches(queue: TaskQueue, name: str) -> tuple[BacklogChange, ...]:
    minutes = GROWING_STRETCHES * STRETCH_MINUTES
    line = queue.timeline(("pending", "leased"), name, since=timedelta(minutes=minutes))
    pending, leased = (
        [round(value or 0) for value in line.values[metric]] for metric in ("pending", "leased")
    )
    # The first step only gives the depth at the beginning of the quarter of an hour.
    marks = range(0, len(pending), STRETCH_MINUTES)
    return tuple(
        BacklogChange(pending[begin], pending[end], sum(leased[begin + 1 : end + 1]))
        for begin, end in pairwise(marks)
    )
