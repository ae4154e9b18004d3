"""Taking jobs back from holders that were lost."""

from __future__ import annotations

from collections.abc import Sequence

from leasehold.core import messages
from leasehold.core.budget import PROMOTED_AT_ONCE
from leasehold.core.lease import Settled, StuckJob, SweepReport
from leasehold.core.outcome import Decision, JobError, decide_recovery
from leasehold.core.status import Event
from leasehold.env import from_micros
from leasehold.errors import LeaseLostError
from leasehold.stores.memory.holding import held
from leasehold.stores.memory.lease import cancel_late, promote
from leasehold.stores.memory.leasing import end_attempt
from leasehold.stores.memory.record import Record
from leasehold.stores.memory.state import State


def lost(state: State) -> list[str]:
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
    expired = [record for record in running if record.expires_at <= state.now]
    events = [_take_back(state, record, _expired(record)).event for record in expired]
    return SweepReport(
        expired_found=len(expired),
        recovered=events.count(Event.RECOVERED),
        dead=events.count(Event.DEAD),
        cancelled=events.count(Event.CANCELLED),
        checkpoints_created=len(expired),
        scan_ms=(state.env.clock.monotonic() - started) * 1000,
    )


def recover_one(
    state: State, job_id: str, version: int, reset_attempts: bool, reason: str
) -> Settled:
    """Take one job back although its lease has not expired."""
    record = held(state, job_id, version)
    if isinstance(record, LeaseLostError):
        raise record
    if reset_attempts:
        record.attempts = 0
        record.allowance = record.draft.allowance
    heartbeat_at = from_micros(record.heartbeat_at)
    error = messages.taken(record.worker or "", record.lease_version, heartbeat_at, reason)
    decision = _take_back(state, record, error)
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


def _expired(record: Record) -> JobError:
    return messages.expired(
        record.worker or "",
        record.lease_version,
        from_micros(record.expires_at),
        from_micros(record.heartbeat_at),
    )


def _take_back(state: State, record: Record, error: JobError) -> Decision:
    decision = decide_recovery(
        attempts=record.attempts,
        allowance=record.allowance,
        cancel_reason=record.cancel_requested,
        why=error.message,
    )
    if decision.event is Event.RECOVERED:
        state.queues[record.draft.queue].totals.recovered += 1
    end_attempt(state, record, decision, error, checkpoint=True)
    return decision
