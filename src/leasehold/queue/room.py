"""Submitting to a full queue: waiting until there is room.

The store's hints say when there may be room; a slow poll makes up for lost ones. Between two tries
a waiter only reads, since a refused try is a write, and is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from leasehold.core.contract.store import Store
from leasehold.core.contract.transactions import OwnConnection
from leasehold.core.model.durations import Seconds, plain_seconds
from leasehold.env import Env
from leasehold.errors import (
    InvalidJobError,
    QueueFullError,
    RateLimitedError,
    TransactionError,
)
from leasehold.queue.ready import POLL_SECONDS, Ready

T = TypeVar("T")

Block = bool | Seconds
"""Whether to wait for room: True for as long as it takes, or a maximum in seconds."""


def seconds_of(block: Block) -> float:
    """The longest time to wait."""
    if block is True:
        return float("inf")
    seconds = 0 if block is False else plain_seconds(block)
    if seconds is None or not seconds >= 0:
        raise InvalidJobError(f"block must be True, False or seconds, not {block!r}")
    return float(seconds)


def check_may_wait(connection: OwnConnection | None) -> None:
    """Refuse to wait inside a transaction: while it is open, no other write could make room."""
    if connection is not None:
        raise TransactionError(
            "block waits for room, but while the transaction is open no other process can write, "
            "so none can make room: leave out block, and roll back on QueueFullError"
        )


def store_when_room(
    submit: Callable[[], T],
    block: Block,
    *,
    store: Store,
    ready: Ready,
    check_open: Callable[[], None],
    env: Env,
) -> T:
    """Submit; while the queue is full, wait and try again. Raises what the last try raised."""
    clock = env.clock
    end = clock.monotonic() + seconds_of(block)
    full: QueueFullError | None = None
    while True:
        seen = ready.count
        check_open()
        if full is None or may_fit(full, store):
            try:
                return submit()
            except QueueFullError as error:
                full = error
        left = end - clock.monotonic()
        if left <= 0 or full.retry_after_seconds is None:
            raise full
        ready.wait(seen, min(left, pause_seconds(full)))


def pause_seconds(full: QueueFullError) -> float:
    """How long to wait without a hint: tokens come with time, room comes with events."""
    if isinstance(full, RateLimitedError) and full.retry_after_seconds is not None:
        return full.retry_after_seconds
    return POLL_SECONDS


def may_fit(full: QueueFullError, store: Store) -> bool:
    """Whether another try is worthwhile. For a client that was too fast it is, after the pause."""
    if isinstance(full, RateLimitedError) or full.queue is None:
        return True
    info = store.queue_info(full.queue)
    return info is None or info.config.max_depth is None or info.pending < info.config.max_depth
