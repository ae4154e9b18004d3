"""What a worker reports about jobs that its sweep took back: a log line each, and calls of the
hooks.
"""

from __future__ import annotations

import logging
from typing import Final

from leasehold.core.contract.store import Store
from leasehold.core.model.history import Attempt
from leasehold.core.model.job import Job
from leasehold.core.model.lease import Lease, LostAttempt, SweepReport
from leasehold.core.model.phrases import counted
from leasehold.core.model.retry import why_not_retried
from leasehold.core.model.status import Event
from leasehold.worker.hooks import Hooks, call_hook
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold.worker")

LINES_MAX: Final = 20
"""Lines per sweep. A machine that goes down may lose thousands of jobs at once."""


class LostJobs:
    """Logs and calls the hooks of the sweeping worker, since the jobs' own workers are gone."""

    def __init__(self, store: Store, hooks: Hooks) -> None:
        self._store = store
        self._hooks = hooks

    def tell(self, report: SweepReport) -> None:
        """Log each lost attempt, up to a bound, and call the hooks for it."""
        has_hooks = self._hooks.on_failure is not None or self._hooks.on_dead is not None
        for number, lost in enumerate(report.lost):
            if number >= LINES_MAX and not has_hooks:
                break
            job = self._read(lost)
            if number < LINES_MAX:
                _log(lost, job)
            if has_hooks:
                self._call_hooks(lost, job)
        more = report.expired_found - LINES_MAX
        if more > 0:
            logger.warning(
                "and %s: `queuectl list --error WorkerLost` shows them",
                counted(more, "more lost job"),
            )
        if has_hooks and (unheard := report.expired_found - len(report.lost)) > 0:
            logger.warning("no hook was called for %s", counted(unheard, "lost job"))

    def _read(self, lost: LostAttempt) -> Job | None:
        try:
            return self._store.get(lost.settled.job_id)
        except Exception as error:  # noqa: BLE001 - the job is told of without its task.
            logger.failed(f"job {lost.settled.job_id} cannot be read", error)
            return None

    def _call_hooks(self, lost: LostAttempt, job: Job | None) -> None:
        if job is None or lost.settled.event is Event.CANCELLED:
            return
        try:
            attempts = self._store.attempts(job.id)
        except Exception as error:  # noqa: BLE001 - it is logged; a hook has nothing to be told.
            logger.failed(f"no hook was called for job {job.id}", error)
            return
        for attempt in attempts:
            if attempt.lease_version == lost.settled.version:
                lease = _lease_of(job, attempt)
                call_hook(self._hooks.on_failure, lease, lost.settled, lost.error)
                if lost.settled.event is Event.DEAD:
                    call_hook(self._hooks.on_dead, lease, lost.settled, lost.error)


def _log(lost: LostAttempt, job: Job | None) -> None:
    settled = lost.settled
    is_dead = settled.event is Event.DEAD
    if is_dead:
        allowance = settled.attempts if job is None else job.allowance
        why = why_not_retried(lost.error.type, settled.attempts, allowance)
        what_next = f"it is dead: {why}"
    elif settled.event is Event.CANCELLED:
        what_next = "it is cancelled, as was asked for"
    else:
        what_next = "it will run again"
    logger.log(
        logging.ERROR if is_dead else logging.WARNING,
        "job %s (%s): attempt %d failed with %s: %s; %s",
        settled.job_id,
        "its task cannot be read" if job is None else job.task,
        settled.attempts,
        lost.error.type,
        lost.error.message,
        what_next,
        extra={"job_id": settled.job_id},
    )


def _lease_of(job: Job, attempt: Attempt) -> Lease:
    """The lease that was lost, as its worker had it."""
    heartbeat_at = attempt.heartbeat_at or attempt.started_at
    expires_at = attempt.lease_expires_at or heartbeat_at
    return Lease(
        job_id=job.id,
        version=attempt.lease_version,
        worker=attempt.worker,
        queue=job.queue,
        task=job.task,
        payload=job.payload_data,
        codec=job.codec,
        priority=job.priority,
        attempt=attempt.number,
        allowance=job.allowance,
        acquired_at=attempt.started_at,
        expires_at=expires_at,
        # The last heartbeat renewed it for its full length.
        lease_seconds=(expires_at - heartbeat_at).total_seconds(),
        timeout_seconds=job.timeout_seconds,
        deadline=job.deadline,
        retry=job.retry,
        metadata=job.metadata,
        parent_id=job.parent_id,
    )
