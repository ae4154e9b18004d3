"""Applying start rates: how many jobs of a queue a lease may start, and the tokens it uses up.

`core.model.start_rate` is the rule. The start rates of keys are part of their limits
(`core.model.key_limits`); their jobs wait on the shelf of `core.rules.parking`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from leasehold.core.model.limits import UNLIMITED
from leasehold.core.model.queue_config import QueueConfig

QUEUE_STARTS: Final = "starts"
"""The name of the bucket that all jobs of a queue share."""


def key_starts(limit_key: str) -> str:
    """The name of a key's own bucket."""
    return "starts:" + limit_key


class StartBook(Protocol):
    """The token buckets of a store, inside one write or read."""

    @property
    def now(self) -> int: ...

    def full_at(self, queue: str, bucket: str) -> int:
        """When a bucket will be full, in nanoseconds; 0 for a full one."""

    def keep_buckets(self, queue: str, buckets: Mapping[str, int]) -> None:
        """Buckets that are full again may be forgotten: the number of keys is unbounded."""


def free_starts(book: StartBook, queue: str, config: QueueConfig) -> int:
    """How many jobs of a queue may start now by its start rate."""
    rate = config.start_rate
    return UNLIMITED if rate is None else rate.free(book.full_at(queue, QUEUE_STARTS), now=book.now)


def next_start_at(book: StartBook, queue: str, config: QueueConfig) -> int | None:
    """When the next job of a queue may start; None if one may now."""
    rate = config.start_rate
    return None if rate is None else rate.next_at(book.full_at(queue, QUEUE_STARTS), now=book.now)


def count_starts(
    book: StartBook, queue: str, config: QueueConfig, keys: Iterable[str | None]
) -> None:
    """Use up the starts of leased jobs of a queue, given by their keys."""
    of_key = Counter(keys)
    rate, key_rate = config.start_rate, config.key_start_rate
    buckets = {}
    if rate is not None:
        full_at = book.full_at(queue, QUEUE_STARTS)
        buckets[QUEUE_STARTS] = rate.take(full_at, jobs=of_key.total(), now=book.now)
    if key_rate is not None:
        del of_key[None]
        for key, jobs in of_key.items():
            bucket = key_starts(key or "")
            full_at = book.full_at(queue, bucket)
            buckets[bucket] = key_rate.take(full_at, jobs=jobs, now=book.now)
    if buckets:
        book.keep_buckets(queue, buckets)
