"""The rules of one queue as the memory store keeps them, and what they leave free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from leasehold.core.drain import Drain
from leasehold.core.queue_config import QueueConfig, QueueState
from leasehold.core.status import Status

UNLIMITED: Final = 1 << 62


class Rule(msgspec.Struct):
    """A queue's state and config, and the measures that go with them."""

    state: QueueState = QueueState.ACTIVE
    config: QueueConfig = QueueConfig()
    buckets: dict[str, int] = {}
    """Token buckets that were not full: when each will be, in nanoseconds."""
    drain: Drain | None = None
    deleted_by: str | None = None
    """Who deletes the queue, while it is being deleted."""

    def free_slots(self, counts: Mapping[Status, int]) -> int:
        """How many jobs more may be leased, given how many stand in each status."""
        if not self.state.is_leased_from:
            return 0
        limit = self.config.max_concurrency
        return UNLIMITED if limit is None else max(0, limit - counts[Status.RUNNING])

    def has_room_again(self, before: Status, counts: Mapping[Status, int]) -> bool:
        """Whether a job that just left `before` made way for one that had to wait."""
        if before is Status.PENDING:
            return counts[Status.PENDING] + 1 == self.config.max_depth
        return (
            before is Status.RUNNING
            and self.config.max_concurrency is not None
            and counts[Status.PENDING] > 0
        )
