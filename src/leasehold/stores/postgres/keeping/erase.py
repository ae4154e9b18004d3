"""The deletion of an ended job with all its records, as if it had never been submitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leasehold.stores.postgres.leasing.state import remove_all, states_of
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.removing import RECORDS_OF_A_JOB

FORGET_KEYS: Final = """
    DELETE FROM idempotency USING job, lane
    WHERE job.seq = ANY($1) AND lane.id = job.lane AND idempotency.queue = lane.queue
        AND idempotency.key = job.idempotency_key AND idempotency.seq = job.seq
"""


def erase(step: Step, seq: int) -> None:
    """Delete a job that has ended; whether anybody needs it is the caller's question."""
    erase_all(step, [seq])


def erase_all(step: Step, seqs: Sequence[int]) -> None:
    """Delete jobs that have ended."""
    jobs = states_of(step, seqs)
    assert len(jobs) == len(seqs), "a job that is not there is erased"
    assert all(job.status.is_terminal for job in jobs.values()), "a job is erased before its end"
    remove_all(step, list(jobs.values()))
    step.execute(FORGET_KEYS, (list(seqs),))
    for table in RECORDS_OF_A_JOB:
        step.execute(f"DELETE FROM {table} WHERE seq = ANY($1)", (list(seqs),))  # noqa: S608  # our own names
    for job in jobs.values():
        step.count(job.lane, job.status.value, -1)
        step.count(job.lane, "total_cleaned")
