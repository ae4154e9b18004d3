"""The fence, and what a holder says behind it while it runs a job: renew, progress, log."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from leasehold.core import messages
from leasehold.core.joblog import LogLine, LogTail, bounded, check_progress
from leasehold.core.lease import Renewal, Renewed, RunningLease, decide_renewal
from leasehold.core.refusals import changes_status, lease_of_no_job, stale_lease
from leasehold.core.status import TRANSITIONS, Event, Status
from leasehold.env import from_micros
from leasehold.errors import LeaseExpiredError, LeaseLostError
from leasehold.stores.memory.record import Record
from leasehold.stores.memory.state import State


def held(state: State, job_id: str, version: int) -> Record | LeaseLostError:
    """The job, if it runs under this version; else the error that its former holder gets."""
    record = state.records.get(job_id)
    if record is None:
        return lease_of_no_job(job_id, version)
    if record.status is not Status.RUNNING:
        return stale_lease(job_id, version, record.status, None)
    if record.lease_version != version:
        holder = (record.worker or "", record.lease_version)
        return stale_lease(job_id, version, record.status, holder)
    return record


def mismatch(state: State, job_id: str, version: int) -> None:
    """Tell the job's history that a stale holder tried to do something."""
    record = state.records.get(job_id)
    if record is not None:
        workers = [row.worker for row in record.attempt_rows if row.version == version]
        state.tell(
            record,
            Event.VERSION_MISMATCH,
            before=record.status,
            holder=(workers[0] if workers else None, version),
            message=messages.mismatch(version, record.lease_version),
        )


def renew(state: State, worker: str, renewals: Sequence[Renewal]) -> list[Renewed | LeaseLostError]:
    """Keep leases alive, and the worker's registry entry."""
    for renewal in renewals:
        round(renewal.lease_seconds)  # A number that is none fails before anything is renewed.
    info = state.workers.get(worker)
    if info is not None:
        state.workers[worker] = msgspec.structs.replace(info, heartbeat_at=from_micros(state.now))
    return [_renew(state, renewal) for renewal in renewals]


def _renew(state: State, renewal: Renewal) -> Renewed | LeaseLostError:
    record = held(state, renewal.job_id, renewal.version)
    if isinstance(record, LeaseLostError):
        mismatch(state, renewal.job_id, renewal.version)
        return record
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
    return answer


def report_progress(state: State, job_id: str, version: int, progress: bytes) -> None:
    """Keep a running job's progress."""
    check_progress(job_id, progress)
    _held_or_raise(state, job_id, version).progress = progress


def append_log(
    state: State, job_id: str, version: int, lines: Sequence[LogLine], dropped: int
) -> None:
    """Keep a running job's last lines."""
    record = _held_or_raise(state, job_id, version)
    if record.log is None:
        record.log = LogTail()
    record.log.extend((LogLine(line.at, bounded(line.text)) for line in lines), dropped)


def tell(state: State, job_id: str, event: Event, worker: str, version: int, message: str) -> None:
    """Write an event that changes nothing to a job's history, if the job is still there."""
    if event in TRANSITIONS:
        raise changes_status(event)
    record = state.records.get(job_id)
    if record is not None:
        state.tell(record, event, before=record.status, message=message, holder=(worker, version))


def _held_or_raise(state: State, job_id: str, version: int) -> Record:
    record = held(state, job_id, version)
    if isinstance(record, LeaseLostError):
        mismatch(state, job_id, version)
        raise record
    return record
