"""When a worker is worn out: too many jobs, too much memory, slots that do not come back."""

from __future__ import annotations

from typing import Final

from leasehold.core.model.phrases import counted
from leasehold.worker.banner import shortened
from leasehold.worker.executors.team import Team
from leasehold.worker.inhand import InHand
from leasehold.worker.memory import resident_mb
from leasehold.worker.safelog import safe_logger
from leasehold.worker.stopping import StopReason

logger = safe_logger("leasehold.worker")

HALF_STUCK_SECONDS_MAX: Final = 60.0
"""How long half of the slots may stay filled by code that does not stop."""
ALL_STUCK_SECONDS_MAX: Final = 2.0
"""How long all of them may: code that was told to stop gets a moment to do so."""
MEMORY_CHECK_SECONDS: Final = 1.0


class Wear:
    """Watches one worker's limits."""

    def __init__(self, *, slots: int, max_jobs: int | None, max_memory_mb: float | None) -> None:
        self._slots = slots
        self._max_jobs = max_jobs
        self._max_memory_mb = max_memory_mb
        self._memory_checked_at = float("-inf")
        self._half_stuck_since: float | None = None
        self._all_stuck_since: float | None = None

    def jobs_left(self, started_jobs: int) -> float:
        """How many more jobs may be started."""
        return float("inf") if self._max_jobs is None else self._max_jobs - started_jobs

    def reason(self, now: float, *, started_jobs: int, stuck: int) -> StopReason | None:
        """Why the worker should be restarted; None while it need not be."""
        if self.jobs_left(started_jobs) <= 0:
            return StopReason.MAX_JOBS
        if self._memory_is_used_up(now):
            return StopReason.MAX_MEMORY
        if self._too_many_stuck(now, stuck):
            return StopReason.STUCK
        return None

    def next_moment(self) -> float:
        """When slots will have been stuck for too long."""
        return min(
            _end(self._half_stuck_since, HALF_STUCK_SECONDS_MAX),
            _end(self._all_stuck_since, ALL_STUCK_SECONDS_MAX),
        )

    def stuck_were_replaced(self) -> None:
        """Record that the stuck slots were replaced by new ones."""
        self._half_stuck_since = self._all_stuck_since = None

    def _memory_is_used_up(self, now: float) -> bool:
        limit_mb = self._max_memory_mb
        if limit_mb is None or now < self._memory_checked_at + MEMORY_CHECK_SECONDS:
            return False
        self._memory_checked_at = now
        return resident_mb() > limit_mb

    def _too_many_stuck(self, now: float, stuck: int) -> bool:
        half = stuck > 0 and stuck * 2 >= self._slots
        self._half_stuck_since = _since(self._half_stuck_since, now) if half else None
        every = stuck >= self._slots
        self._all_stuck_since = _since(self._all_stuck_since, now) if every else None
        return now >= self.next_moment()


def _since(before: float | None, now: float) -> float:
    return now if before is None else before


def _end(since: float | None, seconds_max: float) -> float:
    return float("inf") if since is None else since + seconds_max


def tell_worn(worker: str, reason: StopReason, slots: int, in_hand: InHand) -> None:
    """Log why a worker asks to be replaced; slots that do not come back are an error of tasks."""
    if reason is not StopReason.STUCK:
        logger.info("worker %s asks to be replaced: %s", worker, reason)
        return
    tasks = sorted({run.lease.task for run in in_hand.occupying - in_hand.held})
    logger.error(
        "worker %s asks to be replaced: %d of %s %s held by tasks that did not stop after their "
        "timeout or a cancel: %s; let them check current_job().should_stop, or run them with "
        "executor='process', whose processes can be killed",
        worker,
        in_hand.stuck,
        counted(slots, "slot"),
        "is" if in_hand.stuck == 1 else "are",
        shortened(tasks),
    )


def replace_stuck(team: Team, in_hand: InHand) -> None:
    """Start new threads to replace abandoned ones that do not stop."""
    for run in in_hand.occupying - in_hand.held:
        if team.give_up(run):
            in_hand.give_up(run)
            logger.error(
                "job %s (%s) does not stop; its slot is replaced, and its thread is lost until "
                "it ends: let the task check should_stop, or run it in a process",
                run.lease.job_id,
                run.lease.task,
                extra={"job_id": run.lease.job_id},
            )
