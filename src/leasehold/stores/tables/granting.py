"""Granting leases: what follows from them besides the rows of `running`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from leasehold.core.model.lease import Lease
from leasehold.core.model.span import Measure
from leasehold.core.model.status import Status
from leasehold.core.rules import key_accounts
from leasehold.core.rules.queue_limits import starts_used_up
from leasehold.stores.tables.order import Candidate
from leasehold.stores.tables.queue_limits import Limits
from leasehold.stores.tables.ready import TableReady
from leasehold.stores.tables.step import TableStep

_LEASED: Final = ("leased",)

Granted = tuple[Candidate, Lease]


def count_granted(
    step: TableStep,
    ready: TableReady,
    granted: Sequence[Granted],
    waits: Mapping[tuple[int, Measure], Sequence[int]],
    counted: Sequence[tuple[int, int]],
    placed: Sequence[int],
) -> None:
    """Count jobs from pending to running whose rows a lease has just moved.

    `waits` has how long they waited, by lane and measure, `counted` the lane and priority of each;
    `placed` are those that may have a place of their own.
    """
    for (lane, measure), waited in waits.items():
        step.move(lane, Status.PENDING, Status.RUNNING, len(waited))
        step.count(lane, "total_leased", len(waited))
        step.measured.took(lane, measure, waited)
        step.worked(granted[0][1].worker, lane, _LEASED, len(waited))
    ready.left(counted, placed)
    if step.rules.paced:
        starts = [(lease.queue, job.limit_key) for job, lease in granted]
        starts_used_up(Limits(step), starts)
    if step.rules.key_limits:
        keys = Counter(
            (lease.queue, job.limit_key, job.lane)
            for job, lease in granted
            if job.limit_key is not None
        )
        key_accounts.granted(ready.shelf(step), keys)
        step.newly_shown.difference_update(placed)
