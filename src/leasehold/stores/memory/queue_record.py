"""The memory store's record of one queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from leasehold.core.model.breaker import BreakerState
from leasehold.core.model.drain import Drain
from leasehold.core.model.queue_config import DEFAULT_CONFIG, QueueRule
from leasehold.core.model.span import SUBMITTED_IN, Span, band_of
from leasehold.core.model.status import Status
from leasehold.core.rules.leasing import OpenLane, OpenQueue
from leasehold.stores.memory.heaps import Tiers
from leasehold.stores.memory.lanes import Lanes
from leasehold.stores.memory.meter import Meter
from leasehold.stores.memory.parking import KeyInTask

if TYPE_CHECKING:
    from leasehold.stores.memory.state import State


class QueueTotals(msgspec.Struct):
    """Lifetime totals of one queue, under the names they have in `Stats`."""

    submitted: int = 0
    leased: int = 0
    completed: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0
    cancelled: int = 0
    lost: int = 0
    recovered: int = 0
    renewed: int = 0
    rejected: int = 0
    rate_limited: int = 0
    cleaned: int = 0


class OpenedQueue(OpenQueue):
    """The queue as a lease looks into it, made anew when its rules change: most leases take one
    job, and to make it for each would cost more than the job.
    """

    __slots__ = ("any_lane", "free_before", "lanes", "parked", "state")

    def __init__(self, name: str, state: MemoryQueue) -> None:
        config = DEFAULT_CONFIG if state.rule is None else state.rule.config
        super().__init__(name, config=config)
        self.state = state
        self.any_lane = OpenLane(self, "")
        """What stands for the lane of every task without a breaker."""
        self.lanes: dict[str, OpenLane] = {}
        """By task, the lanes that were met, while any task has a breaker."""
        self.free_before = self.free
        self.parked: Sequence[tuple[KeyInTask, Tiers]] = ()
        """The parked jobs of the group that the lease is narrowed to, of some keys."""


class MemoryQueue:
    """One queue: its waiting jobs, and its figures."""

    __slots__ = (
        "breakers", "buckets", "counts", "deleted_after", "drain", "lanes", "meter", "name",
        "opened", "rule", "since", "submitted_by_priority", "totals",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.since: int | None = None
        """When its first job arrived."""
        self.deleted_after: int | None = None
        """How many jobs had been submitted to it when it was deleted, if ever."""
        self.lanes = Lanes()
        self.breakers: dict[str, BreakerState] = {}
        """Breakers by task, only for tasks that failed since they last completed."""
        self.counts = dict.fromkeys(Status, 0)
        self.totals = QueueTotals()
        self.submitted_by_priority = [0] * 101
        self.meter = Meter()
        self.set_rule(None)
        self.buckets: dict[str, int] = {}
        """The token buckets (of submitting clients, and of starts) that were not full: when each
        will be, in nanoseconds.
        """
        self.drain: Drain | None = None
        """How fast it drains, once that has been measured."""

    def set_rule(self, rule: QueueRule | None) -> None:
        """None, for a queue that is not configured."""
        self.rule = rule
        self.opened = OpenedQueue(self.name, self)

    def totals_ever(self) -> Span:
        """The lifetime totals, and the depth."""
        counted = msgspec.structs.asdict(self.totals) | dict.fromkeys(SUBMITTED_IN.values(), 0)
        for priority, jobs in enumerate(self.submitted_by_priority):
            counted[SUBMITTED_IN[band_of(priority)]] += jobs
        return self.meter.totals(counted, self.counts[Status.PENDING])


class StartBook:
    """See `leasehold.core.rules.starting.StartBook`."""

    __slots__ = ("_state", "now")

    def __init__(self, state: State) -> None:
        self._state = state
        self.now = state.now

    def full_at(self, queue: str, bucket: str) -> int:
        return self._state.queues[queue].buckets.get(bucket, 0)

    def keep_buckets(self, queue: str, buckets: Mapping[str, int]) -> None:
        kept = self._state.queues[queue].buckets
        kept.update(buckets)
        # The number of clients and keys is unbounded: for each use, check two others that may be
        # full.
        for _ in range(min(2 * len(buckets), len(kept))):
            bucket = next(iter(kept))
            full_at = kept.pop(bucket)
            if full_at > self.now * 1000:
                kept[bucket] = full_at
