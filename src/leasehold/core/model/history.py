"""What happened to a job: its attempts, and the events of its history."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from leasehold.core.model.outcome import JobError
from leasehold.core.model.status import Event, Status


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a job under one lease. A sweep that takes the job back writes one too."""

    job_id: str
    lease_version: int
    number: int
    """The number of the attempt; an attempt that was handed back and its successor share one."""
    worker: str
    started_at: datetime
    ended_at: datetime | None = None
    outcome: Event | None = None
    """How the attempt ended; None while it runs."""
    error: JobError | None = None
    message: str = ""
    note: Any = None
    """The note that the task attached to its acknowledgement."""
    lease_expires_at: datetime | None = None
    heartbeat_at: datetime | None = None

    @property
    def duration_seconds(self) -> float | None:
        """How long it ran; None while it runs."""
        return None if self.ended_at is None else (self.ended_at - self.started_at).total_seconds()


class HistoryEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a job. `sequence` counts from 1 per job, without gaps."""

    job_id: str
    sequence: int
    at: datetime
    event: Event
    before: Status | None = None
    after: Status | None = None
    """Equal to `before` for events that do not change the status."""
    worker: str | None = None
    """The lease's holder (the stale one in a `version_mismatch`); None without a lease."""
    lease_version: int = 0
    attempts: int = 0
    """Attempts spent after this event; shows whether a replay has reset them."""
    message: str = ""
    """What happened, for people."""
