"""The rules of one queue as the memory store keeps them, and what they leave free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from leasehold.core.queue_config import QueueRule
from leasehold.core.status import Status

UNLIMITED: Final = 1 << 62


class Rule(QueueRule):
    """A queue's rule, and what it leaves free."""

    __slots__ = ()

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
