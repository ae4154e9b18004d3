"""The rules of one queue as the memory store keeps them."""

from __future__ import annotations

import msgspec

from leasehold.core.drain import Drain
from leasehold.core.queue_config import QueueConfig, QueueState


class Rule(msgspec.Struct):
    """A queue's state and config, and the measures that go with them."""

    state: QueueState = QueueState.ACTIVE
    config: QueueConfig = QueueConfig()
    buckets: dict[str, int] = {}
    """Token buckets that were not full: when each will be, in nanoseconds."""
    drain: Drain | None = None
    deleted_by: str | None = None
    """Who deletes the queue, while it is being deleted."""
