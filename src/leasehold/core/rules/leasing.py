"""Which pending jobs a lease takes: the walk along the jobs in the order of service.

A store reads candidates, the best first (`core.model.priority`), and asks what to do with each. A
job that may not be leased is passed over, so that a full queue or a broken task blocks no other.
Everything that a walk might meet in large numbers has a budget: a lease that has used one up
answers with the jobs it has, and the next lease goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto

from leasehold.core.model.breaker import BreakerState
from leasehold.core.model.budget import PASSED_OVER_AT_ONCE, TURNED_AWAY_AT_ONCE
from leasehold.core.model.limits import UNLIMITED
from leasehold.core.model.queue_config import DEFAULT_CONFIG, QueueConfig


class Verdict(Enum):
    """How a lease treats a job that it meets."""

    TAKE = auto()
    """Lease it."""
    CANCEL = auto()
    """It was not started in time (LEA-5): cancel it."""
    PARK = auto()
    """Its key is full, or rests: park it, so no lease meets it again (`core.rules.parking`)."""
    PASS = auto()
    """Its queue is full, its task is held back, or no slot is free: leave it where it is."""


_TAKE, _CANCEL, _PARK, _PASS = Verdict.TAKE, Verdict.CANCEL, Verdict.PARK, Verdict.PASS


def is_late(start_by: int | None, lease_version: int, now: int) -> bool:
    """Whether a job was not started in time: it never was, and now it is too late."""
    return start_by is not None and start_by < now and not lease_version


class OpenQueue:
    """A queue that a lease looks into, and how many jobs more it may take from it."""

    __slots__ = ("free", "is_paced", "limits_keys", "name", "paces_all", "paces_keys")

    def __init__(
        self, name: str, free: int = UNLIMITED, config: QueueConfig = DEFAULT_CONFIG
    ) -> None:
        self.name = name
        self.free = free
        self.limits_keys = self.is_paced = False
        self.paces_all = False
        """Whether its jobs have a start rate, with a key or without."""
        self.paces_keys = False
        """Whether only its jobs with a key have a start rate of their own."""
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
        """The breaker, if it lets one job through and no more."""
        self.is_over = False
        """Whether that one was found."""

    @property
    def is_open(self) -> bool:
        """Whether a job more may be taken."""
        return self.queue.free > 0 and not self.is_over


class Walk:
    """One lease's way along the candidates: the jobs it takes, and how many it may still meet."""

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
        """When so many more may be taken, they are not for free slots any more."""
        self._free_of_key = free_of_key
        self._free: dict[tuple[str, str], int] = {}
        self._late_left = late_max
        self._turned_away_left = TURNED_AWAY_AT_ONCE
        self.is_cut_short = False
        """Whether a budget is used up: more may be available, and the next lease goes on."""
        self.is_over = self._left <= 0
        """Whether to look no further."""

    def judge(
        self, lane: OpenLane, start_by: int | None, lease_version: int, key: str | None
    ) -> Verdict:
        """The treatment of the next candidate; a job that is taken is counted."""
        queue = lane.queue
        if lane.is_over or not queue.free:
            # Late or not: a store need not read the jobs behind it; a sweep takes the late ones.
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
        """How many jobs of this lane the walk would take one after the other, without asking for
        each, as long as they have neither a key nor a moment by which to start.
        """
        queue = lane.queue
        if lane.is_over or lane.probe is not None or queue.paces_all:
            return 0
        return min(queue.free, self._left)

    def took(self, lane: OpenLane, jobs: int) -> None:
        """So many of them were taken."""
        lane.queue.free -= jobs
        self._left -= jobs
        self.is_over = self._left <= 0

    def _wait_for_slot(self) -> Verdict:
        """A job that has to start when it is leased comes next, and no slot is free for it.

        To lease others ahead in its place would fill the slots again and again: it would wait
        for ever.
        """
        self.is_over = True
        return _PASS

    def free_of_key(self, queue: str, key: str) -> int:
        """How many jobs more of a key may be taken."""
        free = self._free.get((queue, key))
        if free is None:
            free = self._free[queue, key] = self._free_of_key(queue, key)
        return free


def open_lane(queue: OpenQueue, task: str, breaker: BreakerState, now: int) -> OpenLane | None:
    """A lane as its breaker lets a lease see it; None if it is held back."""
    if breaker.next_probe_at(now) is not None:
        return None
    return OpenLane(queue, task, None if breaker.is_closed else breaker)
