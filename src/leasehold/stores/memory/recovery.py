"""Taking jobs back from holders that were lost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from leasehold.core.model.budget import PROMOTED_AT_ONCE, RECOVERED_AT_ONCE, batched
from leasehold.core.model.lease import Settled, SweepReport
from leasehold.core.model.lives import NO_LIFE
from leasehold.core.rules.decision import Decision
from leasehold.core.rules.fence import is_held
from leasehold.core.rules.recovery import HeldJob, report_of, sweep
from leasehold.stores.memory import feed, registry
from leasehold.stores.memory.holding import Histories
from leasehold.stores.memory.lease import cancel_late, promote
from leasehold.stores.memory.queues import MemoryQueueVerbs
from leasehold.stores.memory.record import Record
from leasehold.stores.memory.settling import end_attempt
from leasehold.stores.memory.state import State
from leasehold.stores.verbs.recovery import RecoveryVerbs


class MemoryRecoveryVerbs(MemoryQueueVerbs, RecoveryVerbs):
    """Sweeps."""

    def _sweep(self) -> SweepReport:
        report = SweepReport()
        for jobs in batched(self._look(_expired), RECOVERED_AT_ONCE):
            report = report.plus(self._write(partial(_recover, jobs=jobs)))
        self._write(_cancel_late_jobs)
        self._write(registry.forget_silent)
        self._write(feed.end_if_unfollowed)
        return report


def _expired(state: State) -> list[str]:
    """The jobs whose lease has expired, first expired first. Few run at a time, so all are read.

    Workers on this store live in its own process, so none can be proved dead while it exists.
    """
    lost = [record for record in state.running.values() if record.expires_at <= state.now]
    lost.sort(key=lambda record: (record.expires_at, record.seq))
    return [record.id for record in lost]


def _cancel_late_jobs(state: State) -> None:
    """Cancel a bounded number of pending jobs past their start_by."""
    for record in state.late():
        cancel_late(state, record)


class Holdings(Histories):
    """The running jobs, to be taken from their holders."""

    def held(self, job_id: str, version: int) -> tuple[Record, HeldJob] | None:
        record = self._state.records.get(job_id)
        if record is None or not is_held(record, version):
            return None
        return record, _held(record)

    def set_allowance(self, job: Record, allowance: int) -> None:
        job.allowance = allowance

    def take_back(self, job: Record, decision: Decision) -> Settled:
        return end_attempt(self._state, job, decision, checkpoint=True)


def _held(record: Record) -> HeldJob:
    return HeldJob(
        version=record.lease_version,
        worker=record.worker or "",
        life=NO_LIFE,
        expires_at=record.expires_at,
        heartbeat_at=record.heartbeat_at,
        attempts=record.attempts,
        allowance=record.allowance,
        allowance_at_first=record.draft.allowance,
        cancel_reason=record.cancel_requested,
    )


def _recover(state: State, jobs: Sequence[str]) -> SweepReport:
    """Take back the given jobs whose lease has expired."""
    started = state.env.clock.monotonic()
    running = [state.running[job_id] for job_id in jobs if job_id in state.running]
    suspects = [(record, _held(record)) for record in running]
    report = report_of(sweep(Holdings(state), suspects, now=state.now))
    elapsed_ms = (state.env.clock.monotonic() - started) * 1000
    return msgspec.structs.replace(report, scan_ms=elapsed_ms)


def promote_some(state: State) -> int:
    """Make due jobs pending, up to the budget; returns how many."""
    promoted = 0
    for queue in state.queues.values():
        if promoted < PROMOTED_AT_ONCE:
            promoted += promote(state, queue, PROMOTED_AT_ONCE - promoted)
    return promoted
