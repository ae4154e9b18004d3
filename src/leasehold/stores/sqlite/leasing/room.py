"""Telling who waits that a queue with limits has room again."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from leasehold.stores.sqlite.writing.step import Step

QUEUE_OF_LANE: Final = "SELECT queue FROM lane WHERE id = ?"
PENDING: Final = "SELECT sum(pending) FROM lane WHERE queue = ?"


def tell_of_room(step: Step) -> None:
    """After an operation: wake whoever may go on because of the places that it left free.

    What it left free and took again itself is no news: nobody is woken for nothing.
    """
    if step.newly_shown:
        step.newly_shown.clear()
        step.hints.ready = True
    pending: Counter[str] = Counter()
    running: Counter[str] = Counter()
    for lane, (more_pending, more_running) in step.moved.items():
        found: Any = step.execute(QUEUE_OF_LANE, (lane,)).fetchone()
        queue = found[0]
        pending[queue] += more_pending
        running[queue] += more_running
    step.moved.clear()
    for queue, more_pending in pending.items():
        rule = step.rules.get(queue)
        if rule is None:
            continue
        row: Any = step.execute(PENDING, (queue,)).fetchone()
        depth, concurrency = rule.config.max_depth, rule.config.max_concurrency
        may_submit = depth is not None and row[0] < depth <= row[0] - more_pending
        may_lease = concurrency is not None and running[queue] < 0 < row[0]
        if may_submit or may_lease:
            step.hints.ready = True
