"""Token buckets: for clients that submit too fast, and for starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasehold.stores.memory.state import State


class Buckets:
    """The buckets of one queue that were not full: when each will be, in nanoseconds."""

    __slots__ = ("_full_at",)

    def __init__(self) -> None:
        self._full_at: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def full_at(self, bucket: str) -> int:
        """0 for a full bucket."""
        return self._full_at.get(bucket, 0)

    def keep(self, buckets: Mapping[str, int], now: int) -> None:
        """Clients and keys come and go without number: for each, look at two that may be full."""
        self._full_at.update(buckets)
        for _ in range(min(2 * len(buckets), len(self._full_at))):
            bucket = next(iter(self._full_at))
            full_at = self._full_at.pop(bucket)
            if full_at > now * 1000:
                self._full_at[bucket] = full_at

    def clear(self) -> None:
        self._full_at.clear()


class StartBook:
    """See `leasehold.core.rules.starting.StartBook`."""

    __slots__ = ("_state", "now")

    def __init__(self, state: State) -> None:
        self._state = state
        self.now = state.now

    def full_at(self, queue: str, bucket: str) -> int:
        return self._state.queues[queue].buckets.full_at(bucket)

    def keep_buckets(self, queue: str, buckets: Mapping[str, int]) -> None:
        self._state.queues[queue].buckets.keep(buckets, self.now)
