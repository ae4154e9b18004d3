"""The states of jobs, in the words of this database; see `tables.job_states`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from leasehold.core.model.lease import Settled, Settlement
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules import fence
from leasehold.errors import LeaseLostError
from leasehold.stores.sqlite.leasing import ready
from leasehold.stores.sqlite.schema.rows import ENDED_STATUS, SQLITE, whole
from leasehold.stores.sqlite.submitting import inheritance
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.job_states import JobState, TableHistories, state_by

ENDED: Final = f"""
    {ENDED_STATUS}, {whole("finished.version")}, {whole("finished.attempts")},
    {whole("finished.events")}, {whole("finished.available_at", MOMENT_MAX)}
"""
# The record of an attempt that was taken from its holder has the expiry of its lease.
SETTLED_UNDER: Final = f"""
    SELECT outcome, after, {whole("attempts")} FROM attempt
    WHERE seq = ? AND version = ? AND expires_at IS NULL
"""  # noqa: S608  # our own names
# A damaged cell must not stop the write: what is no blob is no result, and any codec is readable.
RESULT_OF: Final = """
    SELECT result, CAST(coalesce(result_codec, 'json') AS BLOB) FROM finished
    WHERE seq = ? AND typeof(result) = 'blob'
"""
INSERT_FINISHED: Final = f"INSERT INTO finished VALUES ({', '.join('?' * 11)})"  # noqa: S608  # placeholders


class Histories(TableHistories):
    """See `leasehold.core.rules.fence.Histories`."""

    dialect = SQLITE
    by_number = state_by("job.seq", SQLITE, ENDED)
    by_id = state_by("job.id", SQLITE, ENDED)
    find_settled = SETTLED_UNDER
    find_result = RESULT_OF
    insert_finished = INSERT_FINISHED
    _step: Step

    def _count_pending_event(self, seq: int) -> None:
        ready.count_event(self._step, seq)

    def _leave_ready(self, jobs: Sequence[JobState]) -> None:
        ready.leave_by_number(self._step, [job.seq for job in jobs])

    def _wait_no_more(self, seqs: Sequence[int]) -> None:
        inheritance.wait_no_more(self._step, seqs)

    def _note_versions(self, erased: Iterable[JobState]) -> None:
        # Should an id be used again, its leases must not repeat a version that was granted before.
        granted = (job.lease_version for job in erased)
        self._step.version_floor = max((self._step.version_floor, *granted))


def refuse(step: Step, job_id: str, version: int) -> LeaseLostError:
    """Refuse a stale holder, and tell the job's history."""
    return fence.refuse(Histories(step), job_id, version)


def settle_stale(step: Step, settlement: Settlement) -> Settled | LeaseLostError:
    """Refuse a settlement whose lease is over, or answer one that was accepted before."""
    return fence.settle_stale(Histories(step), settlement)
