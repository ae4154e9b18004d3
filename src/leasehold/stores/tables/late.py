"""Pending jobs that were not started in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from leasehold.core.model.status import Status
from leasehold.core.rules.messages import not_started_by
from leasehold.env import from_micros
from leasehold.stores.tables.job_states import Ending, JobState, TableHistories
from leasehold.stores.tables.order import Candidate


class LateRow(NamedTuple):
    """A pending job that a sweep has found."""

    seq: int
    lane: int
    version: int
    attempts: int
    events: int
    available_at: int
    id: str
    start_by: int
    priority: int


def cancel_late(histories: TableHistories, jobs: Sequence[Candidate | LateRow]) -> None:
    """Jobs that were not started in time are cancelled, with that reason."""
    histories.end(
        [
            Ending(standing(job), Status.CANCELLED, not_started_by(from_micros(job.start_by or 0)))
            for job in jobs
        ]
    )


def standing(job: Candidate | LateRow) -> JobState:
    """Where a pending job stands, as a lease or a sweep has read it."""
    stood = (Status.PENDING, job.version, job.attempts, job.events, job.available_at, None)
    return JobState(job.seq, job.id, job.lane, *stood, job.priority)
