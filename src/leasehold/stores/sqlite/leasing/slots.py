"""How many jobs may be leased of queues that limit it.

Guard: what runs is counted, from the lanes' counters, in the write that leases. A job taken back
from a lost holder is not counted any more, so a crash leaks no slot.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from leasehold.stores.sqlite.writing.step import Step

RUNNING: Final = "SELECT coalesce(sum(running), 0) FROM lane WHERE queue = ?"


def free_slots(step: Step, queues: Iterable[str]) -> dict[str, int]:
    """For those of these queues that are limited, how many jobs more; none of a paused one.

    The counters must have been flushed.
    """
    free: dict[str, int] = {}
    for queue in queues:
        rule = step.rules.get(queue)
        if rule is None:
            continue
        if not rule.state.is_leased_from:
            free[queue] = 0
        elif rule.config.max_concurrency is not None:
            row: Any = step.execute(RUNNING, (queue,)).fetchone()
            free[queue] = max(0, rule.config.max_concurrency - row[0])
    return free
