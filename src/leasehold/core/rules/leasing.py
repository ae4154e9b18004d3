"""Which pending jobs a lease takes: the walk along the jobs in the order of service.

A store reads candidates, best first (`core.model.priority`), and asks what to do with each. A job
that may not be leased is passed over, so that a full queue or a broken task does not block others.
A budget bounds everything that a walk might meet in large numbers: a lease that uses one up returns
the jobs it has, and the next lease continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto

from leasehold.core.model.breaker import BreakerState
from leasehold.core.model.budget import PASSED_OVER_AT_ONCE, TURNED_AWAY_AT_ONCE
from leasehold.core.model.limits import UNLIMITED
from leasehold.core.model.queue_config import DEFAULT_CONFIG, QueueConfig


class Verdict(Enum):
    """What a lease does with a candidate."""

    TAKE = auto()
    """Lease it."""
    CANCEL = auto()
    """The job was not started in time (LEA-5): cancel it."""
    PARK = auto()
    """Its key is at its limit or paused: park it, so that no lease reads it again
    (`core.rules.parking`).
    """
    PASS = auto()
    """Its queue is full, its task is held back, or no slot is free: leave the job where it is."""


_TAKE, _CANCEL, _PARK, _PASS = Verdict.TAKE, Verdict.CANCEL, Verdict.PARK, Verdict.PASS


def is_late(start_by: int | None, lease_version: int, now: int) -> bool:
    """Whether a job was never started and its latest start time has passed."""
    return start_by is not None and start_by < now and not lease_version


class OpenQueue:
    """A queue that a lease reads, and how many more jobs the lease may take from it."""

    __slots__ = ("free", "is_paced", "limits_keys", "name", "paces_all", "paces_keys")

    def __init__(
        self, name: str, free: int = UNLIMITED, config: QueueConfig = DEFAULT_CONFIG
    ) -> None:
        self.name = name
        self.free = free
        self.limits_keys = self.is_paced = False
        self.paces_all = False
        """Whether the queue as a whole has a start rate, for jobs with and without a key."""
        self.paces_keys = False
        """Whether each key of the queue has a start rate of its own."""
        if config is not DEFAULT_CONFIG:
            self.limits_keys = config.key_limits is not None
            self.paces_all = config.starts_per_second is not None
            self.paces_keys = config.key_starts_per_second is not None
            self.is_paced = self.paces_all or self.paces_keys


class OpenLane:
    """The jobs of one task in such a queue."""

    __slots__ = ("is_over", "probe", "queue", "task")

    def __init__(self, queue: OpenQueue, task: str, probe: BreakerState | None = None) -> None:
        self.queue = queue
        self.task = task
        self.probe = probe
        """The breaker, if it lets only one job through."""
        self.is_over = False
        """Whether that one job was taken."""

    @property
    def is_open(self) -> bool:
        """Whether one more job may be taken."""
        return self.queue.free > 0 and not self.is_over


class Walk:
    """One lease's walk along the candidates: what it takes, and its remaining budgets."""

    __slots__ = (
        "_ahead", "_free", "_free_of_key", "_late_left", "_left", "_now", "_turned_away_left",
        "is_cut_short", "is_over",
    )  # fmt: skip

    def __init__(
        self,
        now: int,
        limit: int,
        queues: Iterable[OpenQueue],
        free_of_key: Callable[[str, str], int],
        late_max: int = PASSED_OVER_AT_ONCE,
        free_slots: int | None = None,
    ) -> None:
        """`limit` and `free_slots` are those of the request."""
        self._now = now
        free = 0
        for queue in queues:
            free += queue.free
        self._left = min(free, limit)
        self._ahead = -1 if free_slots is None else self._left - free_slots
        """Once no more than this many may still be taken, all free slots are used."""
        self._free_of_key = free_of_key
        self._free: dict[tuple[str, str], int] = {}
        self._late_left = late_max
        self._turned_away_left = TURNED_AWAY_AT_ONCE
        self.is_cut_short = False
        """Whether a budget is used up: more jobs may be available, and the next lease continues."""
        self.is_over = self._left <= 0
        """Whether the walk is finished."""

    def judge(
        self, lane: OpenLane, start_by: int | None, lease_version: int, key: str | None
    ) -> Verdict:
        """Decide what to do with the next candidate, and count it if it is taken."""
        queue = lane.queue
        if lane.is_over or not queue.free:
            # Even if it is late: a store need not read the jobs behind it, and a sweep cancels late
            # ones.
            return _PASS
        if start_by is not None and is_late(start_by, lease_version, self._now):
            self._late_left -= 1
            self.is_cut_short = self.is_over = self._late_left <= 0
            return _CANCEL
        if key is not None and queue.limits_keys:
            free = self.free_of_key(queue.name, key)
            if not free:
                self._turned_away_left -= 1
                self.is_cut_short = self.is_over = self._turned_away_left <= 0
                return _PARK
            if queue.paces_keys and self._left <= self._ahead:
                return self._wait_for_slot()
            self._free[queue.name, key] = free - 1
        if queue.paces_all and self._left <= self._ahead:
            return self._wait_for_slot()
        queue.free -= 1
        lane.is_over = lane.probe is not None
        self._left -= 1
        self.is_over = self._left <= 0
        return _TAKE

    def plain_left(self, lane: OpenLane) -> int:
        """How many jobs of this lane the walk would take in a row without judging each, provided
        that they have neither a key nor a latest start time.
        """
        queue = lane.queue
        if lane.is_over or lane.probe is not None or queue.paces_all:
            return 0
        return min(queue.free, self._left)

    def took(self, lane: OpenLane, jobs: int) -> None:
        """Count jobs that were taken without being judged."""
        lane.queue.free -= jobs
        self._left -= jobs
        self.is_over = self._left <= 0

    def _wait_for_slot(self) -> Verdict:
        """The next job must start as soon as it is leased, but no slot is free for it.

        Leasing other jobs ahead of it would keep the slots full, and it would wait for ever.
        """
        self.is_over = True
        return _PASS

    def free_of_key(self, queue: str, key: str) -> int:
        """How many more jobs of a key may be taken."""
        free = self._free.get((queue, key))
        if free is None:
            free = self._free[queue, key] = self._free_of_key(queue, key)
        return free


def open_lane(queue: OpenQueue, task: str, breaker: BreakerState, now: int) -> OpenLane | None:
    """The lane, limited to one job if its breaker is probing; None if the breaker holds it back."""
    if breaker.next_probe_at(now) is not None:
        return None
    return OpenLane(queue, task, None if breaker.is_closed else breaker)
