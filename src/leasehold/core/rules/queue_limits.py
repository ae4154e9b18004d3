"""Limits of a queue that count jobs: how many more may run, and who may go on when one leaves.

The clauses are LIM-1, LIM-2 and LIM-5 of `core.contract.queue_rules`; `core.rules.admission` is
LIM-1 itself.
"""

from __future__ import annotations

from leasehold.core.model.limits import UNLIMITED
from leasehold.core.model.queue_config import QueueConfig, QueueState


def free_slots(state: QueueState, config: QueueConfig, running: int) -> int:
    """How many jobs more of a queue may be leased, while so many run.

    >>> free_slots(QueueState.ACTIVE, QueueConfig(max_concurrency=3), running=1)
    2
    >>> free_slots(QueueState.PAUSED, QueueConfig(), running=0)
    0
    """
    if not state.is_leased_from:
        return 0
    limit = config.max_concurrency
    return UNLIMITED if limit is None else max(0, limit - running)


def lets_somebody_go_on(
    config: QueueConfig, *, pending: int, more_pending: int = 0, more_running: int = 0
) -> bool:
    """Whether a change made way for somebody: for a submit that was refused, or for a lease.

    So many jobs are pending after it; the others are what it added, negative for jobs that left.

    >>> lets_somebody_go_on(QueueConfig(max_depth=5), pending=4, more_pending=-1)
    True
    >>> lets_somebody_go_on(QueueConfig(max_concurrency=1), pending=0, more_running=-1)
    False
    """
    depth = config.max_depth
    may_submit = depth is not None and pending < depth <= pending - more_pending
    return may_submit or (config.max_concurrency is not None and more_running < 0 < pending)
