"""The histories of jobs, and what their holders say while they run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from leasehold.core.model.joblog import LogLine, LogTail
from leasehold.core.model.lease import RunningLease, Settled
from leasehold.core.model.status import Event
from leasehold.core.rules import fence
from leasehold.core.rules.holding import LeaseName
from leasehold.env import from_micros
from leasehold.errors import LeaseLostError
from leasehold.stores.memory.record import Record
from leasehold.stores.memory.state import RuleView


class Histories(RuleView):
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
        # A job whose history was dropped may still have attempt records.
        return next((row.worker for row in job.attempt_rows if row.version == version), None)

    def settled_under(self, job: Record, version: int) -> Settled | None:
        kept = (row for row in job.attempt_rows if row.version == version)
        attempt = next(kept, None)
        # The record of an attempt taken from its holder has the expiry of its lease.
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


class HolderBook(Histories):
    """See `leasehold.core.rules.holding.HolderBook`."""

    @property
    def extension_seconds_max(self) -> float:
        return self._state.settings.extension_seconds_max

    def held(
        self, leases: Collection[LeaseName]
    ) -> Mapping[LeaseName, tuple[Record, RunningLease]]:
        found = {}
        for job_id, version in leases:
            job = self._state.running.get(job_id)
            if job is not None and job.lease_version == version:
                lease = (job.acquired_at, job.expires_at, job.moved_by, job.cancel_requested)
                found[job_id, version] = job, RunningLease(*lease)
        return found

    def refuse(self, job_id: str, version: int) -> LeaseLostError:
        return fence.refuse(self, job_id, version)

    def extend(self, extended: Sequence[tuple[Record, int]]) -> None:
        for job, until in extended:
            job.expires_at = until
            job.heartbeat_at = self.now
            self._state.queues[job.draft.queue].totals.renewed += 1

    def note_alive(self, worker: str) -> None:
        info = self._state.workers.get(worker)
        if info is not None:
            alive = msgspec.structs.replace(info, heartbeat_at=from_micros(self.now))
            self._state.workers[worker] = alive

    def keep_progress(self, job: Record, progress: bytes) -> None:
        job.progress = progress

    def add_lines(self, job: Record, lines: Sequence[LogLine], dropped: int) -> None:
        if job.log is None:
            job.log = LogTail()
        job.log.extend(lines, dropped)
