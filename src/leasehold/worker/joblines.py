"""A worker process's log lines about its jobs: one when a job starts, and one when it ends."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import Final

from leasehold.core.model.lease import Lease, Settled
from leasehold.env import Env
from leasehold.worker.hooks import Hooks
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold.worker.joblines")

LINES_PER_SECOND_MAX: Final = 50


class JobLines:
    """Hooks that log. With thousands of jobs a second, only the first few get lines of their own.

    The owner of the worker calls `sum_up` now and then, which logs how many had none.
    """

    def __init__(self, env: Env) -> None:
        self._env = env
        self._lock = threading.Lock()
        self._second_ends_at = float("-inf")
        self._lines = 0
        self._unsaid = {"started": 0, "completed": 0}

    def before(self, hooks: Hooks) -> Hooks:
        """The application's own hooks, with the lines before them.

        If such lines are not logged, the hooks stay unchanged and cost nothing.
        """
        if not logger.isEnabledFor(logging.INFO):
            return hooks

        def on_start(lease: Lease) -> None:
            self._started(lease)
            if hooks.on_start is not None:
                hooks.on_start(lease)

        def on_success(lease: Lease, settled: Settled) -> None:
            self._completed(lease)
            if hooks.on_success is not None:
                hooks.on_success(lease, settled)

        return replace(hooks, on_start=on_start, on_success=on_success)

    def sum_up(self, *, now: bool = False) -> None:
        """Log how many jobs had no lines of their own, when a second is over or `now`."""
        with self._lock:
            is_over = now or self._env.clock.monotonic() >= self._second_ends_at
            if not is_over or not any(self._unsaid.values()):
                return
            unsaid, self._unsaid = self._unsaid, dict.fromkeys(self._unsaid, 0)
        told = " and ".join(f"{count:,} {what}" for what, count in unsaid.items() if count)
        logger.info("too many jobs to log one by one: another %s", told)

    def _started(self, lease: Lease) -> None:
        if self._may_say("started"):
            logger.info(
                "job %s (%s): attempt %d starts",
                lease.job_id,
                lease.task,
                lease.attempt,
                extra={"job_id": lease.job_id},
            )

    def _completed(self, lease: Lease) -> None:
        if self._may_say("completed"):
            seconds = (self._env.now() - lease.acquired_at).total_seconds()
            logger.info(
                "job %s (%s): completed in %.2f s",
                lease.job_id,
                lease.task,
                max(0.0, seconds),
                extra={"job_id": lease.job_id},
            )

    def _may_say(self, what: str) -> bool:
        self.sum_up()
        with self._lock:
            now = self._env.clock.monotonic()
            if now >= self._second_ends_at:
                self._second_ends_at, self._lines = now + 1, 0
            self._lines += 1
            if self._lines <= LINES_PER_SECOND_MAX:
                return True
            self._unsaid[what] += 1
            return False
