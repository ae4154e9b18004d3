"""Taking jobs back from holders that were lost."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from leasehold.core.budget import PROMOTED_AT_ONCE
from leasehold.core.decision import Decision, decide_recovery
from leasehold.core.fence import is_held, lease_is_over
from leasehold.core.lease import Settled, StuckJob, SweepReport
from leasehold.core.outcome import JobError
from leasehold.core.recovery import HeldLease, lost, report_of, taken
from leasehold.env import from_micros
from leasehold.stores.memory.leasing import cancel_late, promote
from leasehold.stores.memory.record import Record
from leasehold.stores.memory.settling import end_attempt
from leasehold.stores.memory.state import State


def expired(state: State) -> list[str]:
    """The jobs whose lease expired. Few run at a time, so all are looked at.

    Workers on this store live in its own process: none can be proved dead while it is there to ask.
    """
    return [record.id for record in state.running.values() if record.expires_at <= state.now]


def cancel_late_jobs(state: State) -> None:
    """Cancel pending jobs past their start_by, so many of them."""
    for record in state.late():
        cancel_late(state, record)


def recover(state: State, jobs: Sequence[str]) -> SweepReport:
    """Take those of these jobs back whose lease has expired."""
    started = state.env.clock.monotonic()
    running = [state.running[job_id] for job_id in jobs if job_id in state.running]
    decisions = [
        _take_back(state, record, error)
        for record in running
        if (error := lost(_lease_of(record), state.now)) is not None
    ]
    elapsed_ms = (state.env.clock.monotonic() - started) * 1000
    return msgspec.structs.replace(report_of(decisions), scan_ms=elapsed_ms)


def recover_one(
    state: State, job_id: str, version: int, reset_attempts: bool, reason: str
) -> Settled:
    """Take one job back although its lease has not expired."""
    record = state.records.get(job_id)
    if record is None or not is_held(record, version):
        # Whoever takes jobs back is no stale holder: its being late is not the job's history.
        raise lease_is_over(job_id, version, record)
    if reset_attempts:
        record.attempts = 0
        record.allowance = record.draft.allowance
    decision = _take_back(state, record, taken(_lease_of(record), reason))
    return Settled(job_id, version, decision.event, decision.status, decision.attempts)


def stuck(state: State, silent_seconds: float) -> list[StuckJob]:
    """Running jobs without a sign of life for so long, the longest first."""
    latest = state.now - round(silent_seconds * 1e6)
    silent = [record for record in state.running.values() if record.heartbeat_at <= latest]
    silent.sort(key=lambda record: (record.heartbeat_at, record.seq))
    return [
        StuckJob(
            job_id=record.id,
            queue=record.draft.queue,
            task=record.draft.task,
            worker=record.worker or "",
            lease_version=record.lease_version,
            attempts=record.attempts,
            started_at=from_micros(record.acquired_at),
            heartbeat_at=from_micros(record.heartbeat_at),
            lease_expires_at=from_micros(record.expires_at),
        )
        for record in silent
    ]


def promote_some(state: State) -> int:
    """Make due jobs pending, up to the budget; answers how many."""
    promoted = 0
    for queue in state.queues.values():
        if promoted < PROMOTED_AT_ONCE:
            promoted += promote(state, queue, PROMOTED_AT_ONCE - promoted)
    return promoted


def _lease_of(record: Record) -> HeldLease:
    return HeldLease(
        record.lease_version, record.worker or "", record.expires_at, record.heartbeat_at
    )


def _take_back(state: State, record: Record, error: JobError) -> Decision:
    decision = decide_recovery(
        attempts=record.attempts,
        allowance=record.allowance,
        cancel_reason=record.cancel_requested,
        error=error,
    )
    end_attempt(state, record, decision, checkpoint=True)
    return decision
