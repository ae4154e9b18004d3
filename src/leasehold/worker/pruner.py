"""The pruner: cleans up ended jobs, once a day, at low priority."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec

from leasehold.blobs.blobs import Blobs
from leasehold.blobs.cleaning import KEYS_PER_PASS
from leasehold.core.contract.store import Store
from leasehold.core.model.outcome import JobError
from leasehold.core.model.phrases import counted
from leasehold.core.model.retention import (
    BATCH_START,
    DAILY,
    SLOW_SECONDS,
    CleanUp,
    RetentionPolicy,
    Scope,
    next_batch_size,
    pause_seconds,
)
from leasehold.env import SYSTEM, Env
from leasehold.errors import BlobError
from leasehold.worker.describe import describe_error
from leasehold.worker.safelog import safe_logger
from leasehold.worker.threads import OwnThread

logger = safe_logger("leasehold.worker")

START_SECONDS: Final = 60.0
"""The first look comes at a random time within this, so that workers that start together do not
look together.
"""
JITTER_SECONDS: Final = 600.0
"""Later looks are delayed randomly by up to this much."""
LOOK_SECONDS_MAX: Final = 3600.0
"""The longest time between looks, since another process or the clock may have changed things."""


class PrunerStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one `Pruner` so far."""

    is_running: bool = False
    total_cleanups: int = 0
    total_pruned: int = 0
    total_blobs_deleted: int = 0
    total_errors: int = 0
    last_cleanup: CleanUp | None = None
    last_error: JobError | None = None


class Pruner(OwnThread):
    """Prunes a store when it is due, in short writes with long pauses.

    Any number of workers may run one: the store allows one clean-up at a time.
    """

    def __init__(
        self,
        store: Store,
        *,
        policy: RetentionPolicy | None = None,
        env: Env = SYSTEM,
        actor: str = "pruner",
        blobs: Blobs | None = None,
    ) -> None:
        super().__init__("leasehold-pruner")
        self._store = store
        self._policy = policy
        self._env = env
        self._clock = env.clock
        self._actor = actor
        self._blobs = blobs
        self._hurried = False
        self._statistics = PrunerStatistics()
        self._next_due_at: datetime | None = None

    def prune_once(
        self, scope: Scope = DAILY, *, on_progress: Callable[[CleanUp], None] | None = None
    ) -> CleanUp | None:
        """Do one whole clean-up if it is due; returns its record, or None if it is not due.

        `on_progress` is called after each write with the current record. Raises errors of the
        store; earlier writes remain.
        """
        report = self._store.prune(self._policy, scope=scope, actor=self._actor)
        self._next_due_at = report.next_due_at
        run = report.run
        if run is None:
            return None
        size = BATCH_START
        began, warned = self._clock.monotonic(), False
        while report.more and not self._stopping:
            report = self._store.prune(
                self._policy, run=run, scope=scope, limit=size, actor=self._actor
            )
            size = next_batch_size(size, report.taken, report.lock_seconds)
            warned = warned or self._warn_if_slow(run, began)
            if on_progress is not None:
                on_progress(self._record(run))
            self._pause(pause_seconds(report.lock_seconds, scope))
        self._next_due_at = report.next_due_at
        record = self._record(run)
        if record.is_slow and record.ended_at is not None:
            logger.warning("%s; it was slow: see docs/retention.md", record)
        self._count(record)
        self._clean_blobs(scope)
        return record

    def _record(self, run: int) -> CleanUp:
        return next(each for each in self._store.cleanups() if each.run == run)

    def _warn_if_slow(self, run: int, began: float) -> bool:
        """Warn once, while it runs, that it takes long."""
        is_slow = self._clock.monotonic() - began > SLOW_SECONDS
        if is_slow:
            logger.warning("%s; continuing", self._record(run))
        return is_slow

    def statistics(self) -> PrunerStatistics:
        """The running totals."""
        return msgspec.structs.replace(self._statistics, is_running=self.is_running)

    def start(self) -> None:
        self._hurried = False
        super().start()

    def hurry(self) -> None:
        """Check at once whether a clean-up is due: the conditions may have changed."""
        with self._condition:
            self._hurried = True
            self._condition.notify_all()

    def _run(self) -> None:
        self._rest(self._env.random.uniform(0, START_SECONDS))
        while not self._stopping:
            self._hurried = False
            self._rest(self.step())

    def step(self) -> float:
        """Clean up if it is due; returns how long to wait before looking again."""
        try:
            record = self.prune_once()
        except Exception as error:  # noqa: BLE001 - it is logged, and tried again.
            logger.failed("a clean-up failed; the next one continues it", error)
            before = self._statistics
            self._statistics = msgspec.structs.replace(
                before, total_errors=before.total_errors + 1, last_error=describe_error(error)
            )
            return LOOK_SECONDS_MAX
        if record is not None and record.pruned and not record.is_slow:
            logger.info("%s", record)
        if self._next_due_at is None:
            return LOOK_SECONDS_MAX
        left = (self._next_due_at - self._env.now()).total_seconds()
        jitter = self._env.random.uniform(0, JITTER_SECONDS)
        return min(max(left, 0.0) + jitter, LOOK_SECONDS_MAX)

    def _pause(self, seconds: float) -> None:
        with self._condition:
            if seconds > 0 and not self._stopping:
                self._clock.wait(self._condition, seconds)

    def _rest(self, seconds: float) -> None:
        """Wait between clean-ups; unlike a pause within one, this can be cut short."""
        with self._condition:
            if seconds > 0 and not self._stopping and not self._hurried:
                self._clock.wait(self._condition, seconds)

    def _clean_blobs(self, scope: Scope) -> None:
        """Delete the blobs of deleted jobs: a part each day, all of them if a person asks."""
        if self._blobs is None:
            return
        keys_max = KEYS_PER_PASS if scope == DAILY else None
        before = self._statistics
        try:
            cleaned = self._blobs.clean_up(keys_max=keys_max, should_stop=lambda: self._stopping)
        except BlobError as error:
            # The jobs are still pruned, and the next clean-up finds their blobs.
            logger.warning("the blobs could not be cleaned up: %s", error)
            self._statistics = msgspec.structs.replace(
                before, total_errors=before.total_errors + 1, last_error=describe_error(error)
            )
            return
        self._statistics = msgspec.structs.replace(
            before, total_blobs_deleted=before.total_blobs_deleted + cleaned.deleted
        )
        if cleaned.deleted:
            logger.info("%d of %s deleted", cleaned.deleted, counted(cleaned.looked_at, "blob"))

    def _count(self, record: CleanUp) -> None:
        before = self._statistics
        self._statistics = msgspec.structs.replace(
            before,
            total_cleanups=before.total_cleanups + 1,
            total_pruned=before.total_pruned + record.pruned,
            last_cleanup=record,
        )
