"""The questions that the parts of a queue ask the whole: whether it is open, and whether its
workers run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from leasehold.queue.awaiting import Bridge


class Lifecycle(NamedTuple):
    """Given to every part that needs more than the store."""

    check_open: Callable[[], None]
    """Raises QueueClosedError once the queue is shut down."""
    ensure_workers: Callable[[], None]
    """Starts the workers of this process, if it should have any and has none yet."""
    bridge: Callable[[], Bridge]
    """The bridge that carries awaitable calls; made for the first of them."""
