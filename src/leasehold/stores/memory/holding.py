"""The fence, and a holder's messages behind it while it runs a job: renew, progress, log."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from leasehold.core.model.joblog import LogLine, LogTail, bounded, check_progress
from leasehold.core.model.lease import (
    Renewal,
    Renewed,
    RunningLease,
    Settled,
    decide_renewal,
)
from leasehold.core.model.status import Event
from leasehold.core.rules import fence
from leasehold.env import from_micros
from leasehold.errors import LeaseExpiredError, LeaseLostError
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.record import Record
from leasehold.stores.memory.state import Shelf, State


class Histories(Shelf):
    """The histories of this store's jobs."""

    def standing(self, job_id: str) -> Record | None:
        return self._state.records.get(job_id)

    def holder_under(self, job: Record, version: int) -> str | None:
        leases = (
            row for row in job.history if row.event is Event.LEASED and row.version == version
        )
        held = next(leases, None)
        if held is not None:
            return held.worker
        # Of a job whose history was dropped, attempt records may be left.
        return next((row.worker for row in job.attempt_rows if row.version == version), None)

    def settled_under(self, job: Record, version: int) -> Settled | None:
        kept = (row for row in job.attempt_rows if row.version == version)
        attempt = next(kept, None)
        # The record of an attempt that was taken from its holder has the expiry of its lease.
        if attempt is None or attempt.outcome is None or attempt.expires_at is not None:
            return None
        end = next(
            row for row in job.history if row.event is attempt.outcome and row.version == version
        )
        return Settled(job.id, version, end.event, end.after, end.attempts)

    def result_of(self, job: Record) -> tuple[bytes, str] | None:
        return None if job.result is None else (job.result, job.result_codec)

    def tell(
        self,
        job: Record,
        event: Event,
        message: str,
        *,
        holder: tuple[str | None, int] | None = None,
    ) -> None:
        self._state.tell(job, event, before=job.status, message=message, holder=holder)


def refuse(state: State, job_id: str, version: int) -> LeaseLostError:
    """Refuse a stale holder, and tell the job's history."""
    return fence.refuse(Histories(state), job_id, version)


class HoldingVerbs(LockedState):
    """Messages of holders of leases."""

    def renew(self, worker: str, renewals: Sequence[Renewal]) -> list[Renewed | LeaseLostError]:
        for renewal in renewals:
            round(renewal.lease_seconds)  # NaN and infinity raise before anything is renewed.

        def renew(state: State) -> list[Renewed | LeaseLostError]:
            info = state.workers.get(worker)
            if info is not None:
                now = from_micros(state.now)
                state.workers[worker] = msgspec.structs.replace(info, heartbeat_at=now)
            return [_renew(state, renewal) for renewal in renewals]

        return self._run(renew)

    def report_progress(self, job_id: str, version: int, progress: bytes) -> None:
        check_progress(job_id, progress)

        def keep(state: State) -> None:
            _held_or_raise(state, job_id, version).progress = progress

        self._run(keep)

    def append_log(
        self, job_id: str, version: int, lines: Sequence[LogLine], *, dropped: int = 0
    ) -> None:
        def append(state: State) -> None:
            record = _held_or_raise(state, job_id, version)
            if record.log is None:
                record.log = LogTail()
            record.log.extend((LogLine(line.at, bounded(line.text)) for line in lines), dropped)

        self._run(append)

    def tell(
        self, job_id: str, event: Event, *, worker: str | None, version: int, message: str
    ) -> None:
        self._run(
            lambda state: fence.tell(Histories(state), job_id, event, worker, version, message)
        )


def _renew(state: State, renewal: Renewal) -> Renewed | LeaseLostError:
    record = state.records.get(renewal.job_id)
    if record is None or not fence.is_held(record, renewal.version):
        return refuse(state, renewal.job_id, renewal.version)
    decided = decide_renewal(
        renewal,
        RunningLease(
            record.acquired_at, record.expires_at, record.moved_by, record.cancel_requested
        ),
        now=state.now,
        extension_seconds_max=state.settings.extension_seconds_max,
    )
    if isinstance(decided, LeaseExpiredError):
        return decided
    record.expires_at, answer = decided
    record.heartbeat_at = state.now
    state.queues[record.draft.queue].totals.renewed += 1
    return answer


def _held_or_raise(state: State, job_id: str, version: int) -> Record:
    record = state.records.get(job_id)
    if record is None or not fence.is_held(record, version):
        raise refuse(state, job_id, version)
    return record
