"""Filters: one way to say "these jobs", the same for search, cancel, replay, purge and export."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, Literal, get_args

import msgspec

from leasehold.core.model.job import LEFT_OUT, Job, MetadataValue
from leasehold.core.model.status import Status
from leasehold.core.model.text import mentions
from leasehold.errors import InvalidJobError


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs for which everything given here holds. An empty filter means all jobs."""

    ids: tuple[str, ...] | None = None
    queues: tuple[str, ...] | None = None
    statuses: tuple[Status, ...] | None = None
    tasks: tuple[str, ...] | None = None
    priority_min: int | None = None
    priority_max: int | None = None
    created_from: datetime | None = None
    """Inclusive."""
    created_before: datetime | None = None
    """Exclusive."""
    metadata: dict[str, MetadataValue] | None = None
    """Every key given must be there with an equal value."""
    idempotency_key: str | None = None
    parent_id: str | None = None
    error_text: str | None = None
    """Part of the latest error's type or message, in any case."""
    text: str | None = None
    """Part of the payload (as JSON text) or of the latest error, in any case."""

    def matches(self, job: Job) -> bool:
        """Whether a job fits. SQL stores say the same in SQL; a test compares the two."""
        error = f"{job.error.type}: {job.error.message}" if job.error else ""
        metadata = job.metadata or {}
        return (
            (self.ids is None or job.id in self.ids)
            and (self.queues is None or job.queue in self.queues)
            and (self.statuses is None or job.status in self.statuses)
            and (self.tasks is None or job.task in self.tasks)
            and (self.priority_min is None or job.priority >= self.priority_min)
            and (self.priority_max is None or job.priority <= self.priority_max)
            and (self.created_from is None or job.created_at >= self.created_from)
            and (self.created_before is None or job.created_at < self.created_before)
            and all(
                key in metadata and metadata[key] == value
                for key, value in (self.metadata or {}).items()
            )
            and (self.idempotency_key is None or job.idempotency_key == self.idempotency_key)
            and (self.parent_id is None or job.parent_id == self.parent_id)
            and (self.error_text is None or mentions(error, self.error_text))
            and (
                self.text is None
                or mentions(job.payload_data.decode(errors="replace"), self.text)
                or mentions(error, self.text)
            )
        )


HeavyField = Literal["payload", "result", "metadata"]
"""What a search may leave out of the jobs it finds."""


def check_left_out(without: Collection[str]) -> None:
    """Refuse to leave out what every job is told with."""
    unknown = set(without) - set(get_args(HeavyField))
    if unknown:
        names = ", ".join(get_args(HeavyField))
        raise InvalidJobError(f"a search can leave out {names}, not {min(unknown)!r}")


def lightened(job: Job, without: Collection[HeavyField]) -> Job:
    """A job without these fields. SQL stores do not even fetch them; a test compares the two."""
    changes: dict[str, Any] = {}
    if "payload" in without:
        changes.update(payload_data=b"", codec=LEFT_OUT)
    if "result" in without and job.result_data is not None:
        changes.update(result_data=b"", result_codec=LEFT_OUT)
    if "metadata" in without:
        changes["metadata"] = None
    return msgspec.structs.replace(job, **changes) if changes else job


class Page(msgspec.Struct, frozen=True):
    """One page of a search, newest first, and where the next one starts (None at the end)."""

    jobs: list[Job]
    next_cursor: str | None = None
