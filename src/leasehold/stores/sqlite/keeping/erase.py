"""The deletion of an ended job with all its records, as if it had never been submitted."""

from __future__ import annotations

from typing import Any, Final

from leasehold.stores.sqlite.leasing.state import remove, state_of
from leasehold.stores.sqlite.writing.step import Step

WHOSE: Final = """
    SELECT lane.id, lane.queue, idempotency_key FROM job JOIN lane ON lane.id = job.lane
    WHERE job.seq = ?
"""
FORGET_KEY: Final = "DELETE FROM idempotency WHERE queue = ? AND key = ? AND seq = ?"
RECORDS_OF_A_JOB: Final = (
    "attempt", "event", "progress", "log", "dependent", "dependency", "raised", "job",
)  # fmt: skip


def erase(step: Step, seq: int) -> None:
    """Delete a job that has ended; whether anybody needs it is the caller's question."""
    job = state_of(step, seq)
    assert job is not None, "a job that is not there is erased"
    assert job.status.is_terminal, "a job that has not ended is erased"
    whose: Any = step.execute(WHOSE, (seq,)).fetchone()
    lane, queue, key = whose
    remove(step, job)
    if key is not None:
        step.execute(FORGET_KEY, (queue, key, seq))
    for table in RECORDS_OF_A_JOB:
        step.execute(f"DELETE FROM {table} WHERE seq = ?", (seq,))  # noqa: S608  # our own names
    # Should the id be used again, its leases must not repeat a version that was granted before.
    step.version_floor = max(step.version_floor, job.lease_version)
    step.count(lane, job.status.value, -1)
    step.count(lane, "total_cleaned")
