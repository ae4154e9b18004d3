"""A store in trouble: when a worker tries again, and when it gives up."""

from __future__ import annotations

from logging import DEBUG, WARNING
from typing import Final

from leasehold.core.model.phrases import counted
from leasehold.env import Clock
from leasehold.errors import (
    ForbiddenError,
    LeaseholdError,
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreLostError,
    StoreMovedError,
    UnauthenticatedError,
)
from leasehold.worker.safelog import safe_logger
from leasehold.worker.stopping import Stopping, StopReason

logger = safe_logger("leasehold.worker")

STORE_RETRY_SECONDS_FIRST: Final = 0.1
STORE_RETRY_SECONDS_MAX: Final = 5.0
STORE_IS_GONE: Final = (StoreClosedError, StoreCorruptError, StoreLostError)
NOT_LET_IN: Final = (UnauthenticatedError, ForbiddenError)
"""Another try would not help."""


class StoreTrouble:
    """The state of a worker's trouble with its store."""

    def __init__(
        self, worker: str, clock: Clock, stopping: Stopping, *, until_empty: bool = False
    ) -> None:
        """With `until_empty`, a store that was moved ends the worker: only a person can help."""
        self._worker = worker
        self._clock = clock
        self._stopping = stopping
        self._ends_at = (*STORE_IS_GONE, StoreMovedError) if until_empty else STORE_IS_GONE
        self._failures = 0
        self._told: type[StoreError] | None = None
        """The kind of trouble last logged: only changes are logged, not every try."""
        self.retry_at = float("-inf")
        """When to try again, in monotonic time."""

    def is_over(self) -> None:
        """The store has answered."""
        if self._failures:
            logger.info("worker %s: the store answers again", self._worker)
        self._failures, self._told = 0, None

    def failed(self, error: StoreError, waiting: int) -> bool:
        """Record a failed call while `waiting` outcomes are unsettled; False if the worker must
        give up.
        """
        if isinstance(error, self._ends_at):
            gone = "" if isinstance(error, StoreMovedError) else "its store is gone: "
            logger.error("worker %s stops: %s%s", self._worker, gone, error)
            self._stopping.give_up(StopReason.STORE_LOST)
            return False
        delay_seconds = min(
            STORE_RETRY_SECONDS_FIRST * 2 ** min(self._failures, 16), STORE_RETRY_SECONDS_MAX
        )
        self._failures += 1
        self.retry_at = self._clock.monotonic() + delay_seconds
        logger.log(
            DEBUG if self._told is type(error) else WARNING,
            "worker %s: cannot reach the store; retrying in %.1f s%s: %s",
            self._worker,
            delay_seconds,
            f", with {counted(waiting, 'outcome')} to settle" if waiting else "",
            error,
        )
        self._told = type(error)
        return True

    def refused(self, error: LeaseholdError) -> None:
        """A token that was revoked or has expired does not become valid again."""
        logger.error("worker %s stops: its service no longer lets it work: %s", self._worker, error)
        self._stopping.give_up(StopReason.REFUSED)
