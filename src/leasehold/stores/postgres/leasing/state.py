"""The states of jobs, in the words of this database; see `tables.job_states`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leasehold.core.model.lease import Settled, Settlement
from leasehold.core.rules import fence
from leasehold.errors import LeaseLostError
from leasehold.stores.postgres.leasing import ready
from leasehold.stores.postgres.server.connection import POSTGRES, unnested
from leasehold.stores.postgres.submitting import inheritance
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.job_states import JobState, TableHistories, state_by

ENDED: Final = """
    finished.status, finished.version, finished.attempts, finished.events, finished.available_at
"""
INSERT_FINISHED: Final = f"""
    INSERT INTO finished SELECT * FROM {
    unnested("bigint bigint bigint bigint bigint bigint bigint bigint bytea text text")
}
"""  # noqa: S608  # our own names
# The record of an attempt that was taken from its holder has the expiry of its lease.
SETTLED_UNDER: Final = """
    SELECT outcome, after, attempts FROM attempt
    WHERE seq = $1 AND version = $2 AND expires_at IS NULL
"""
RESULT_OF: Final = "SELECT result, coalesce(result_codec, 'json') FROM finished WHERE seq = $1"


class Histories(TableHistories):
    """See `leasehold.core.rules.fence.Histories`."""

    dialect = POSTGRES
    by_number = state_by("job.seq", POSTGRES, ENDED)
    by_id = state_by("job.id", POSTGRES, ENDED)
    find_settled = SETTLED_UNDER
    find_result = RESULT_OF
    insert_finished = INSERT_FINISHED
    _step: Step

    def _count_pending_event(self, seq: int) -> None:
        ready.count_event(self._step, seq)

    def _leave_ready(self, jobs: Sequence[JobState]) -> None:
        ready.leave_by_numbers(self._step, [(job.seq, job.lane, job.priority) for job in jobs])

    def _wait_no_more(self, seqs: Sequence[int]) -> None:
        inheritance.wait_no_more(self._step, seqs)


def refuse(step: Step, job_id: str, version: int) -> LeaseLostError:
    """Refuse a stale holder, and tell the job's history."""
    # The job is in somebody else's hands, who may just now write to its history too.
    step.must_be_alone()
    return fence.refuse(Histories(step), job_id, version)


def settle_stale(step: Step, settlement: Settlement) -> Settled | LeaseLostError:
    """Refuse a settlement whose lease is over, or answer one that was accepted before."""
    step.must_be_alone()
    return fence.settle_stale(Histories(step), settlement)
